//! Requests that two servers would read in two ways, byte for byte from a raw socket: 400, and
//! nothing leaves.

use agentguard_testkit::http::{raw, raw_for, raw_statuses};
use std::time::Duration;

use agentguard_core::service::ServiceKind;

use crate::world::{World, scripted, service};

const HEAD: &str = "POST /proxy/plain/echo HTTP/1.1\r\nHost: localhost\r\n";

async fn check(world: &World, wire: &str) {
    let before = world.upstream.stats();
    let shown: String = wire.chars().take(200).collect();
    let got = raw_for(world.addr, wire.as_bytes(), Duration::from_secs(2)).await;
    let text = String::from_utf8_lossy(&got);
    assert_eq!(raw_statuses(&got), [400], "{shown:?} got {text}");
    check_own_words(&text);
    assert_eq!(world.upstream.stats().requests, before.requests, "{shown:?} reached the upstream");
    assert_eq!(world.upstream.stats().connections, before.connections, "{shown:?}");
}

/// A refusal like any other, whoever found the fault: the door, or hyper before it.
fn check_own_words(text: &str) {
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let header = |name: &str| {
        let mut all = head.lines().filter_map(|line| line.split_once(": "));
        let found = all.find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map_or("", |(_, value)| value).to_owned()
    };
    let error: serde_json::Value = serde_json::from_str(body).unwrap_or_else(|_| panic!("{text}"));
    let error = &error["error"];
    assert_eq!(error["code"], "BAD_REQUEST", "{text}");
    assert!(error["message"].as_str().is_some_and(|message| !message.is_empty()), "{text}");
    assert_eq!(error["request_id"], header("x-agentguard-request-id"), "{text}");
    assert_eq!(header("content-type"), "application/json", "{text}");
    assert_eq!(header("content-length"), body.len().to_string(), "{text}");
    assert_eq!(header("x-should-retry"), "false", "{text}");
    assert!(!header("date").is_empty(), "{text}");
}

#[tokio::test]
async fn two_readings_of_a_length_are_refused() {
    let world = World::new().await;
    for headers in [
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
        "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
        "Content-Length: 5, 5\r\n\r\nhello",
        "Content-Length: +5\r\n\r\nhello",
        "Content-Length: -5\r\n\r\nhello",
        "Content-Length: 0x5\r\n\r\nhello",
        "Content-Length : 5\r\n\r\nhello",
        "Transfer-Encoding: identity\r\n\r\n",
        "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "Transfer-Encoding:\x0bchunked\r\n\r\n0\r\n\r\n",
    ] {
        check(&world, &format!("{HEAD}{headers}")).await;
    }
}

#[tokio::test]
async fn bad_line_ends_and_folds_are_refused() {
    let world = World::new().await;
    check(&world, "GET /proxy/plain/echo HTTP/1.1\nHost: localhost\n\n").await;
    check(&world, "GET /proxy/plain/echo HTTP/1.1\r\nHost: localhost\nX: y\r\n\r\n").await;
    check(&world, &format!("{HEAD}X: a\rb\r\n\r\n")).await;
    check(&world, &format!("{HEAD}X: a\r\n folded\r\n\r\n")).await;
    check(&world, &format!("{HEAD}X: a\0b\r\n\r\n")).await;
    check(&world, &format!("{HEAD}X\r\n\r\n")).await;
    check(&world, "GET /proxy/plain/echo#x HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    check(&world, "GET  /proxy/plain/echo HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    check(&world, "GET /proxy/plain/a b HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
}

#[tokio::test]
async fn bad_chunks_are_refused() {
    let world = World::new().await;
    for body in
        ["zz\r\nhello\r\n0\r\n\r\n", "-1\r\n\r\n", "5hello\r\n", "\r\n", "fffffffffffffffff\r\n"]
    {
        let wire = format!("{HEAD}Transfer-Encoding: chunked\r\n\r\n{body}");
        check(&world, &wire).await;
    }
}

#[tokio::test]
async fn a_chunk_that_is_bad_later_leaves_no_whole_request() {
    let world = World::new().await;
    let wire = format!("{HEAD}Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nzz\r\n");
    let got = raw(world.addr, wire.as_bytes()).await;
    assert_eq!(raw_statuses(&got), [400], "{}", String::from_utf8_lossy(&got));
    let row = world.last_row().await;
    assert_eq!(row.block_reason, Some("BAD_REQUEST"));
    let whole = world.upstream.requests().into_iter().filter(|seen| seen.complete).count();
    assert_eq!(whole, 0);
}

#[tokio::test]
async fn oversize_heads_are_refused() {
    let world = World::new().await;
    check(&world, &format!("{HEAD}X: {}\r\n\r\n", "a".repeat(70_000))).await;
    let many: String = (0..101).map(|n| format!("X-{n}: y\r\n")).collect();
    check(&world, &format!("{HEAD}{many}\r\n")).await;
    let long = "a".repeat(70_000);
    check(&world, &format!("GET /proxy/plain/{long} HTTP/1.1\r\n\r\n")).await;
}

#[tokio::test]
async fn a_request_hidden_behind_another_is_not_run() {
    let world = World::new().await;
    // The length wins or the chunks win; neither may make the second request appear.
    let hidden = "GET /proxy/plain/status/201 HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let wire = format!(
        "{HEAD}Content-Length: {}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{hidden}",
        5 + hidden.len()
    );
    check(&world, &wire).await;
}

#[tokio::test]
async fn chunked_bodies_pass_and_close_their_connection() {
    let world = World::new().await;
    let wire = format!(
        "{HEAD}Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n1;x=y\r\n!\r\n0\r\n\r\nGET /proxy/plain/echo HTTP/1.1\r\nHost: localhost\r\n\r\n"
    );
    let got = raw(world.addr, wire.as_bytes()).await;
    assert_eq!(raw_statuses(&got), [200], "{}", String::from_utf8_lossy(&got));
    let seen = world.upstream.requests().pop().unwrap();
    assert_eq!((seen.body_len, seen.complete), (6, true));
    assert!(String::from_utf8_lossy(&got).to_lowercase().contains("connection: close"));
}

#[tokio::test]
async fn requests_in_a_row_are_answered_in_order() {
    let world = World::new().await;
    let one = "POST /proxy/plain/status/201 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhello";
    let two =
        "GET /proxy/plain/status/202 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let got = raw(world.addr, format!("{one}\r\n{two}").as_bytes()).await;
    assert_eq!(raw_statuses(&got), [201, 202]);
}

#[tokio::test]
async fn a_request_names_one_host() {
    let world = World::new().await;
    let line = "GET /proxy/plain/echo HTTP/1.1\r\nConnection: close\r\n";
    check(&world, &format!("{line}\r\n")).await;
    check(&world, &format!("{line}Host: a\r\nHost: a\r\n\r\n")).await;
    check(&world, &format!("{line}Host: a\r\nX: y\r\nhost: b\r\n\r\n")).await;
    let older = "GET /proxy/plain/echo HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n";
    check(&world, older).await;
    let got = raw(world.addr, b"GET /proxy/plain/echo HTTP/1.0\r\n\r\n").await;
    assert_eq!(raw_statuses(&got), [200], "{}", String::from_utf8_lossy(&got));
}

#[tokio::test]
async fn a_bad_head_behind_a_good_request_is_answered_in_turn() {
    let world = World::new().await;
    let good = "GET /proxy/plain/status/404 HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let got = raw(world.addr, format!("{good}GET / HTTP/9\r\n\r\n").as_bytes()).await;
    let text = String::from_utf8_lossy(&got);
    assert_eq!(raw_statuses(&got), [404, 400], "{text}");
    check_own_words(text.get(text.rfind("HTTP/1.").unwrap()..).unwrap());
}

#[tokio::test]
async fn a_body_that_looks_like_an_answer_passes_to_the_byte() {
    let world = World::new().await;
    let base = scripted(&[
        "HTTP/1.1 200 OK\r\ncontent-length: 80\r\n\r\n",
        "HTTP/1.1 400 Bad Request\r\na: b\r\n\r\n12",
        "HTTP/1.1 431 Too Large\r\ncd: ef\r\n\r\n12",
        "34567890",
    ]);
    world.put(service("scripted", &base.await, ServiceKind::Generic));
    let answer = world.get("/proxy/scripted/x").await;
    assert_eq!(answer.text().len(), 80, "{}", answer.text());
    assert!(answer.text().ends_with("ef\r\n\r\n1234567890"), "{}", answer.text());
}
