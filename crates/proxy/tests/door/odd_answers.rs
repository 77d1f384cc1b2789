//! Services that answer strangely: each gives the right code, is on the record, and leaves nothing
//! reserved. And what is said before an answer: `100 Continue` and other interim heads.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use ::http::Method;
use agentguard_core::rule::RuleType;
use agentguard_core::service::ServiceKind;
use agentguard_gate::Scope;
use agentguard_proxy::ProxyOptions;
use agentguard_testkit::http;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::world::{World, connect, scripted, service};

const CHARGE: &str = "amount=500&currency=usd&source=tok_visa";
const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// What a charge comes to whose service answers with these pieces.
struct Case {
    pieces: &'static [&'static str],
    /// None: the answer breaks off for the client, too.
    answer: Option<(u16, &'static str)>,
    code: Option<&'static str>,
    cost_micros: u64,
}

impl Case {
    const fn new(pieces: &'static [&'static str]) -> Self {
        Self { pieces, answer: None, code: None, cost_micros: 5_000_000 }
    }

    const fn answered(mut self, status: u16, body: &'static str) -> Self {
        self.answer = Some((status, body));
        self
    }

    const fn code(mut self, code: &'static str) -> Self {
        self.code = Some(code);
        self
    }

    const fn free(mut self) -> Self {
        self.cost_micros = 0;
        self
    }
}

async fn check(case: Case) {
    let pieces = case.pieces;
    let options =
        ProxyOptions { upstream_timeout: Duration::from_millis(600), ..ProxyOptions::default() };
    let world = World::with(options).await;
    world.put(service("stripe", &scripted(pieces).await, ServiceKind::Stripe));
    let kind = [("content-type", "application/x-www-form-urlencoded")];
    let url = world.url("/proxy/stripe/v1/charges");
    let answer = http::try_request(Method::POST, &url, &kind, CHARGE).await;
    match (&answer, case.answer) {
        (Ok(answer), Some((status, body))) => {
            assert_eq!(answer.status.as_u16(), status, "{pieces:?}: {}", answer.text());
            assert!(answer.text().contains(body), "{pieces:?}: {}", answer.text());
        }
        (Err(_), None) => {}
        (other, _) => panic!("{pieces:?}: {other:?}"),
    }
    let row = world.last_row().await;
    assert_eq!(row.block_reason, case.code, "{pieces:?}");
    assert_eq!(u64::try_from(row.cost.micros()).unwrap(), case.cost_micros, "{pieces:?}");
    let (used, reserved) = world.spent();
    assert_eq!((used, reserved.micros()), (row.cost, 0), "{pieces:?}: nothing stays reserved");
}

#[tokio::test]
async fn lies_about_the_length_are_found_out() {
    let broke = "UPSTREAM_UNREACHABLE";
    check(Case::new(&["HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok"]).code(broke)).await;
    check(
        Case::new(&["HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok and more"]).answered(200, "ok"),
    )
    .await;
    check(Case::new(&["HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nok"]).code(broke))
        .await;
    check(
        Case::new(&["HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nok"]).code(broke),
    )
    .await;
    // Two lengths: nobody knows which. It was sent, so it is charged.
    let two = &["HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok!"];
    check(Case::new(two).answered(502, broke).code(broke)).await;
    // Without a length the end of the connection is the end.
    check(Case::new(&["HTTP/1.1 200 OK\r\nConnection: close\r\n\r\no", "k"]).answered(200, "ok"))
        .await;
}

#[tokio::test]
async fn what_is_no_answer_is_502_and_charged_as_unknown() {
    let broke = "UPSTREAM_UNREACHABLE";
    for pieces in [
        &["SSH-2.0-OpenSSH_9.6\r\n"][..],
        &["\0\0\0\0\0\0"],
        &["HTTP/1.1 200 OK\r\nA"],
        &["HTTP/1.1 99 X\r\n\r\n"],
        &["HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\nx"],
    ] {
        check(Case::new(pieces).answered(502, broke).code(broke)).await;
    }
}

#[tokio::test]
async fn statuses_without_a_body_pass_without_one() {
    check(Case::new(&["HTTP/1.1 204 No Content\r\n\r\n"]).answered(204, "")).await;
    check(
        Case::new(&["HTTP/1.1 304 Not Modified\r\nContent-Length: 100\r\n\r\n"]).answered(304, ""),
    )
    .await;
    check(
        Case::new(&["HTTP/1.1 402 No\r\nContent-Length: 2\r\n\r\nno"]).answered(402, "no").free(),
    )
    .await;
}

#[tokio::test]
async fn interim_answers_are_no_answers() {
    check(Case::new(&["HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n", OK]).answered(200, "ok"))
        .await;
    check(
        Case::new(&["HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 102 X\r\n\r\n", OK]).answered(200, "ok"),
    )
    .await;
}

#[tokio::test]
async fn heads_without_end_are_timeouts_and_cost_nothing() {
    const DRIPPING: [&str; 100] = {
        let mut lines = ["a: b\r\n"; 100];
        lines[0] = "HTTP/1.1 200 OK\r\n";
        lines
    };
    // A piece every 30 ms, for three seconds: never silent for as long as the timeout.
    let late = "UPSTREAM_TIMEOUT";
    check(Case::new(&DRIPPING).answered(504, late).code(late).free()).await;
    let interim = &["HTTP/1.1 102 Processing\r\n\r\n"; 100];
    check(Case::new(interim).answered(504, late).code(late).free()).await;
}

/// A service that answers its connections, one after another, with these bytes.
async fn several(answers: &'static [&'static str]) -> String {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let mut held = Vec::new();
        for answer in answers {
            let (mut stream, _) = listener.accept().await.unwrap();
            stream.read_buf(&mut Vec::with_capacity(16 * 1024)).await.unwrap();
            stream.write_all(answer.as_bytes()).await.unwrap();
            held.push(stream);
        }
        std::future::pending::<()>().await;
    });
    base
}

#[tokio::test]
async fn what_follows_an_answer_is_not_taken_for_the_next_one() {
    const SPLIT: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil";
    let world = World::new().await;
    world.put(service("split", &several(&[SPLIT, OK]).await, ServiceKind::Generic));
    for _ in 0..2 {
        assert_eq!(world.get("/proxy/split/x").await.text(), "ok");
    }
}

#[tokio::test]
async fn a_service_has_its_own_patience_between_pieces() {
    let world = World::new().await;
    let mut hasty = service("hasty", &world.upstream.base_url(), ServiceKind::Generic);
    hasty.timeout_sec = Some(1);
    world.put(hasty);
    let started = Instant::now();
    let url = world.url("/proxy/hasty/slow-body/2/20000");
    assert!(http::try_request(Method::GET, &url, &[], "").await.is_err());
    assert!((900..5_000).contains(&started.elapsed().as_millis()), "{:?}", started.elapsed());
    assert_eq!(world.last_row().await.block_reason, Some("UPSTREAM_TIMEOUT"));
    assert_eq!(world.get("/proxy/plain/slow-body/2/1500").await.body.len(), 32);
}

#[tokio::test]
async fn a_compressed_answer_is_not_unpacked() {
    let world = World::new().await;
    let answer = world.get("/proxy/plain/gzip-bomb/256").await;
    assert_eq!(answer.header("content-encoding"), Some("gzip"));
    assert!(answer.body.starts_with(&[0x1f, 0x8b]));
    assert!(answer.body.len() < 4 * 1024 * 1024, "{} bytes", answer.body.len());
}

/// Sends a head that expects a word first, and says what came without a byte of the body.
async fn expecting(world: &World, path: &str, length: usize) -> (TcpStream, String) {
    let mut stream = connect(world.addr).await;
    let wire = format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(wire.as_bytes()).await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    (stream, String::from_utf8(head).unwrap())
}

#[tokio::test]
async fn a_call_that_passes_hears_continue_and_then_the_answer() {
    let world = World::new().await;
    let (mut stream, word) = expecting(&world, "/proxy/plain/echo", 5).await;
    assert_eq!(word, "HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(b"hello").await.unwrap();
    let mut rest = String::new();
    stream.read_to_string(&mut rest).await.unwrap();
    assert!(rest.starts_with("HTTP/1.1 200"), "{rest}");
    assert_eq!(world.upstream.requests().pop().unwrap().body_len, 5);
}

#[tokio::test]
async fn a_call_that_is_refused_by_its_head_does_not_hear_continue() {
    let world = World::new().await;
    world.rule(RuleType::MethodRestriction, json!({"allow": ["GET"]}));
    for (path, status) in [
        ("/proxy/plain/echo", "403"),
        ("/proxy/unknown/echo", "403"),
        ("/proxy/plain/a%2f..%2fb", "403"),
        ("/elsewhere", "404"),
    ] {
        let (_, word) = expecting(&world, path, 5_000_000).await;
        assert!(word.starts_with(&format!("HTTP/1.1 {status}")), "{path}: {word}");
    }
    world.kill(Scope::Global);
    let (_, word) = expecting(&world, "/proxy/plain/echo", 5_000_000).await;
    assert!(word.starts_with("HTTP/1.1 503"), "{word}");
    assert_eq!(world.upstream.stats().requests, 0);
}
