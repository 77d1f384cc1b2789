//! WebSockets: opened where the operator allows it, passed to the byte, and counted.

use std::net::Ipv4Addr;
use std::sync::atomic::Ordering;
use std::time::Duration;

use ::http::Method;
use agentguard_core::rule::RuleType;
use agentguard_core::service::ServiceKind;
use agentguard_gate::{Decision, Row, Scope};
use agentguard_proxy::{ProxyOptions, limits};
use agentguard_testkit::{Alpn, Upstream, http};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::world::{World, check_answer, connect, scripted, service};

const LIMIT: Duration = Duration::from_secs(5);
/// The key and its answer from RFC 6455.
const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";
const ACCEPT: &str = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";
const ASK: [(&str, &str); 4] = [
    ("connection", "keep-alive, Upgrade"),
    ("upgrade", "websocket"),
    ("sec-websocket-key", KEY),
    ("sec-websocket-version", "13"),
];

/// A gate with a service `ws` at this base that may open WebSockets.
pub(crate) async fn allowing(base: &str, options: ProxyOptions) -> World {
    let world = World::with(options).await;
    let base = if base.is_empty() { world.upstream.base_url() } else { base.to_owned() };
    let mut ws = service("ws", &base, ServiceKind::Generic);
    ws.allow_websocket = true;
    world.put(ws);
    world
}

pub(crate) async fn patient() -> World {
    allowing("", ProxyOptions::default()).await
}

/// Asks for a socket, with these bytes right behind the request.
pub(crate) async fn ask(world: &World, path: &str, headers: &str, behind: &[u8]) -> TcpStream {
    let mut stream = connect(world.addr).await;
    let mut wire = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{headers}");
    for (name, value) in ASK {
        wire.push_str(&format!("{name}: {value}\r\n"));
    }
    wire.push_str("\r\n");
    stream.write_all(&[wire.as_bytes(), behind].concat()).await.unwrap();
    stream
}

/// The answer's head, to the byte.
async fn head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let byte = tokio::time::timeout(LIMIT, stream.read_u8()).await.unwrap();
        head.push(
            byte.unwrap_or_else(|error| {
                panic!("{error} after {:?}", String::from_utf8_lossy(&head))
            }),
        );
    }
    String::from_utf8(head).unwrap().to_ascii_lowercase()
}

pub(crate) async fn open(world: &World, path: &str) -> TcpStream {
    let mut stream = ask(world, path, "", b"").await;
    let head = head(&mut stream).await;
    assert!(head.starts_with("http/1.1 101"), "{head}");
    stream
}

pub(crate) async fn expect(stream: &mut TcpStream, bytes: &[u8]) {
    let mut got = vec![0; bytes.len()];
    tokio::time::timeout(LIMIT, stream.read_exact(&mut got)).await.unwrap().unwrap();
    assert_eq!(got, bytes);
}

/// The one row, as that of a tunnel.
pub(crate) async fn tunnel_row(world: &World) -> (Row, serde_json::Value) {
    let row = world.last_row().await;
    assert_eq!((row.response_status, row.is_streaming), (Some(101), true));
    let facts = row.facts.clone().unwrap();
    assert_eq!(facts["upgraded"], "websocket");
    (row, facts)
}

#[tokio::test]
async fn bytes_pass_both_ways_and_are_counted() {
    let world = patient().await;
    let token = format!("X-AgentGuard-Token: {}\r\nOrigin: https://app.example\r\n", world.token);
    let mut stream = ask(&world, "/proxy/ws/ws/raw?x=1", &token, b"").await;
    let head = head(&mut stream).await;
    assert!(head.starts_with("http/1.1 101"), "{head}");
    for line in ["upgrade: websocket\r\n", "connection: upgrade\r\n", "x-agentguard-request-id: "] {
        assert!(head.contains(line), "{line} is missing in {head}");
    }
    assert!(head.contains(&ACCEPT.to_ascii_lowercase()), "{head}");
    // Also what looks like HTTP, both ways.
    for piece in ["hello", "\u{0}\u{1}", "HTTP/1.1 400 Bad Request\r\n\r\n", "GET / HTTP/1.1\n\n"] {
        stream.write_all(piece.as_bytes()).await.unwrap();
        expect(&mut stream, piece.as_bytes()).await;
    }
    assert_eq!(world.record.intents.load(Ordering::SeqCst), 1);
    drop(stream);
    let (row, facts) = tunnel_row(&world).await;
    assert_eq!((facts["bytes_in"].as_u64(), facts["bytes_out"].as_u64()), (Some(51), Some(51)));
    assert_eq!(facts["ended"], "client_closed");
    assert_eq!((row.decision, row.block_reason), (Decision::Allow, None));
    assert!(head.contains(&row.id.to_string()));
    world.upstream.wait_open_streams(0, LIMIT).await;
    let seen = world.upstream.requests().pop().unwrap();
    assert_eq!(
        (seen.headers["upgrade"].as_bytes(), seen.headers["connection"].as_bytes()),
        (&b"websocket"[..], &b"Upgrade"[..])
    );
    assert_eq!(seen.headers["sec-websocket-key"], KEY);
    assert_eq!(world.upstream.stats().guard_tokens_seen, 0, "the token went along");
    assert_eq!(world.rows(1).await.len(), 1, "settled once");
}

#[tokio::test]
async fn a_socket_that_is_not_allowed_is_refused_and_nothing_leaves() {
    let world = patient().await;
    let answer = world.get_with("/proxy/plain/ws/raw", &ASK).await;
    let row = crate::world::check_refused(&world, &answer, 400, "BAD_REQUEST").await;
    assert_eq!(row.decision, Decision::Block);
    let error = &answer.json()["error"];
    assert_eq!(error["details"]["why"], "websocket_not_allowed");
    assert!(answer.text().contains("service set plain --allow-websocket"), "{error}");
    let answer = http::request(Method::GET, &world.url("/proxy/ws/ws/raw"), &ASK, "body").await;
    check_answer(&answer, 400, "BAD_REQUEST");
    assert_eq!(world.upstream.stats().requests, 0);
}

#[tokio::test]
async fn the_usual_checks_come_first() {
    let world = patient().await;
    // A web page may open sockets to anywhere: it needs a token.
    let from_a_page = [&ASK[..], &[("origin", "https://page.example")]].concat();
    let answer = world.get_with("/proxy/ws/ws/raw", &from_a_page).await;
    check_answer(&answer, 401, "UNAUTHENTICATED");
    world.rule(RuleType::MethodRestriction, json!({"allow": ["POST"]}));
    let answer = world.get_with("/proxy/ws/ws/raw", &ASK).await;
    check_answer(&answer, 403, "METHOD_RESTRICTED");
    world.kill(Scope::Global);
    let answer = world.get_with("/proxy/ws/ws/raw", &ASK).await;
    check_answer(&answer, 503, "KILL_SWITCH_GLOBAL");
    assert_eq!(world.upstream.stats().connections, 0);
}

#[tokio::test]
async fn nothing_is_read_behind_a_request_for_a_socket_that_was_refused() {
    let world = patient().await;
    let behind = b"GET /proxy/plain/echo HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let mut stream = ask(&world, "/proxy/plain/ws/raw", "", behind).await;
    let mut got = Vec::new();
    // A reset is as good: there is unread data.
    let _ = tokio::time::timeout(LIMIT, stream.read_to_end(&mut got)).await.unwrap();
    assert_eq!(http::raw_statuses(&got), [400]);
    assert_eq!(world.upstream.stats().requests, 0);
}

#[tokio::test]
async fn other_protocols_are_left_out_as_before() {
    let world = patient().await;
    let ask = [("connection", "upgrade"), ("upgrade", "h2c")];
    let answer = world.get_with("/proxy/ws/echo", &ask).await;
    assert_eq!(answer.status.as_u16(), 200);
    let seen = world.upstream.requests().pop().unwrap();
    assert_eq!((seen.headers.get("upgrade"), seen.headers.get("connection")), (None, None));
}

#[tokio::test]
async fn a_no_of_the_upstream_is_an_ordinary_answer() {
    let world = patient().await;
    let answer = world.get_with("/proxy/ws/ws/nothing-here", &ASK).await;
    assert_eq!(answer.status.as_u16(), 403);
    assert_eq!(answer.json()["error"], "no socket here");
    let row = world.last_row().await;
    assert_eq!((row.response_status, row.block_reason), (Some(403), None));
    assert!(row.facts.unwrap().get("upgraded").is_none());
}

#[tokio::test]
async fn a_switch_to_something_else_is_no_answer() {
    let base = scripted(&["HTTP/1.1 101 X\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n"]).await;
    let world = allowing(&base, ProxyOptions::default()).await;
    let answer = world.get_with("/proxy/ws/x", &ASK).await;
    crate::world::check_refused(&world, &answer, 502, "UPSTREAM_UNREACHABLE").await;
}

#[tokio::test]
async fn early_bytes_of_both_sides_arrive() {
    let world = patient().await;
    let mut stream = ask(&world, "/proxy/ws/ws/raw", "", b"early\n").await;
    head(&mut stream).await;
    stream.write_all(b"late").await.unwrap();
    expect(&mut stream, b"early\nlate").await;

    let base = scripted(&[
        "HTTP/1.1 101 X\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\nHTTP/1.1 4",
        "00 x",
    ])
    .await;
    let world = allowing(&base, ProxyOptions::default()).await;
    let mut stream = open(&world, "/proxy/ws/x").await;
    expect(&mut stream, b"HTTP/1.1 400 x").await;
    let mut rest = Vec::new();
    tokio::time::timeout(LIMIT, stream.read_to_end(&mut rest)).await.unwrap().unwrap();
    // Whether it closes in turn or not: the wait for that is short.
    tokio::time::sleep(limits::TUNNEL_CLOSE_TIMEOUT).await;
    let (_, facts) = tunnel_row(&world).await;
    assert_eq!((&facts["ended"], &facts["bytes_out"]), (&json!("upstream_closed"), &json!(14)));
}

#[tokio::test]
async fn what_was_sent_before_a_close_still_arrives() {
    let world = patient().await;
    let mut stream = open(&world, "/proxy/ws/ws/raw").await;
    let sent = vec![7; 300_000];
    let (mut reader, mut writer) = stream.split();
    let mut got = Vec::new();
    let write = async {
        writer.write_all(&sent).await.unwrap();
        writer.shutdown().await.unwrap();
    };
    let (read, ()) = tokio::join!(reader.read_to_end(&mut got), write);
    read.unwrap();
    assert_eq!(got, sent);
    let (_, facts) = tunnel_row(&world).await;
    assert_eq!((&facts["bytes_in"], &facts["bytes_out"]), (&json!(300_000), &json!(300_000)));
}

/// Both ends of an open tunnel, in the test's hands.
pub(crate) async fn both_ends() -> (World, TcpStream, TcpStream) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    let world = allowing(&base, ProxyOptions::default()).await;
    let mut client = ask(&world, "/proxy/ws/x", "", b"").await;
    let (mut upstream, _) = listener.accept().await.unwrap();
    upstream.read_buf(&mut Vec::with_capacity(16 * 1024)).await.unwrap();
    let head_bytes = b"HTTP/1.1 101 X\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n";
    upstream.write_all(head_bytes).await.unwrap();
    head(&mut client).await;
    (world, client, upstream)
}

#[tokio::test]
async fn an_upstream_that_breaks_off_is_on_the_record_as_that() {
    let (world, mut client, upstream) = both_ends().await;
    upstream.set_zero_linger().unwrap();
    drop(upstream);
    let mut rest = Vec::new();
    let _ = tokio::time::timeout(LIMIT, client.read_to_end(&mut rest)).await.unwrap();
    let (row, _) = tunnel_row(&world).await;
    assert_eq!((row.block_reason, row.decision), (Some("UPSTREAM_UNREACHABLE"), Decision::Error));
}

#[tokio::test]
async fn a_tls_service_is_asked_over_http1() {
    for alpn in [Alpn::Both, Alpn::Http1] {
        let upstream = Upstream::start_tls(alpn);
        let world = World::new().await;
        let mut ws = service("ws", &upstream.base_url(), ServiceKind::Generic);
        ws.allow_websocket = true;
        ws.ca_file = Some(upstream.ca_file().to_str().unwrap().to_owned());
        world.put(ws);
        // Ordinary calls go on over what the service prefers.
        assert_eq!(world.get("/proxy/ws/echo").await.status.as_u16(), 200);
        let mut stream = open(&world, "/proxy/ws/ws/raw").await;
        let sent: Vec<u8> = (0..200_000_u32).map(|n| n.to_le_bytes()[0]).collect();
        let (mut reader, mut writer) = stream.split();
        let mut got = vec![0; sent.len()];
        let (read, written) = tokio::join!(reader.read_exact(&mut got), writer.write_all(&sent));
        read.unwrap();
        written.unwrap();
        assert_eq!(got, sent);
        drop(stream);
        let rows = world.rows(2).await;
        assert_eq!(rows[1].facts.as_ref().unwrap()["bytes_out"], 200_000);
        upstream.wait_open_streams(0, LIMIT).await;
    }
    let upstream = Upstream::start_tls(Alpn::Http2);
    let world = World::new().await;
    let mut ws = service("ws", &upstream.base_url(), ServiceKind::Generic);
    ws.allow_websocket = true;
    ws.ca_file = Some(upstream.ca_file().to_str().unwrap().to_owned());
    world.put(ws);
    let answer = world.get_with("/proxy/ws/ws/raw", &ASK).await;
    crate::world::check_refused(&world, &answer, 502, "UPSTREAM_TLS_ERROR").await;
}
