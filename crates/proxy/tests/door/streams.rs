//! Streaming: as it comes, unchanged, with backpressure, and ended by clients, silence and switches.

use std::time::{Duration, Instant};

use ::http::Method;
use agentguard_core::service::ServiceKind;
use agentguard_gate::Scope;
use agentguard_proxy::ProxyOptions;
use agentguard_testkit::http;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::world::{World, connect, service};

const LIMIT: Duration = Duration::from_secs(5);

async fn open(world: &World, path: &str) -> http::Streaming {
    http::stream(Method::GET, &world.url(path), &[], "").await.unwrap()
}

#[tokio::test]
async fn events_pass_as_they_come_and_unchanged() {
    let world = World::new().await;
    let path = "/stream?events=5&interval_ms=40";
    let straight =
        http::request(Method::GET, &format!("{}{path}", world.upstream.base_url()), &[], "").await;
    let mut stream = open(&world, &format!("/proxy/plain{path}")).await;
    let (mut bytes, mut times) = (Vec::new(), Vec::new());
    while let Some(chunk) = stream.next().await {
        let chunk = chunk.unwrap();
        bytes.extend_from_slice(&chunk.bytes);
        times.push(chunk.at);
    }
    assert_eq!(bytes, straight.body);
    let spread = times.last().unwrap().duration_since(times[0]);
    assert!(spread >= Duration::from_millis(120), "the events came within {spread:?}");
    let row = world.last_row().await;
    assert!(row.is_streaming && row.block_reason.is_none());
    assert_eq!(row.facts.unwrap()["bytes_out"], bytes.len());
}

#[tokio::test]
async fn large_bodies_pass_both_ways_to_the_byte() {
    let world = World::new().await;
    let sent: Vec<u8> = (0..8_000_000_u32).map(|n| n.to_le_bytes()[1]).collect();
    let straight = http::request(
        Method::POST,
        &format!("{}/echo", world.upstream.base_url()),
        &[],
        sent.clone(),
    )
    .await;
    let passed = http::request(Method::POST, &world.url("/proxy/plain/echo"), &[], sent).await;
    assert_eq!(passed.json()["body_sha256"], straight.json()["body_sha256"]);
    assert_eq!(world.last_row().await.facts.unwrap()["bytes_in"], 8_000_000);
    let answer = world.get("/proxy/plain/bytes/20000000").await;
    assert_eq!(answer.body.len(), 20_000_000);
    assert_eq!(answer.header("content-length"), Some("20000000"));
    assert!(!world.rows(2).await[1].is_streaming);
}

#[tokio::test]
async fn trailers_pass() {
    let world = World::new().await;
    let mut stream =
        http::stream(Method::GET, &world.url("/proxy/plain/trailers"), &[("te", "trailers")], "")
            .await
            .unwrap();
    while let Some(chunk) = stream.next().await {
        chunk.unwrap();
    }
    assert_eq!(stream.trailers.as_ref().unwrap()["x-checksum"], "0123456789");
}

/// A client that asks and then does not read.
async fn stalled(world: &World, path: &str) -> tokio::net::TcpStream {
    let mut stream = connect(world.addr).await;
    let wire = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    stream.write_all(wire.as_bytes()).await.unwrap();
    stream
}

#[tokio::test]
async fn a_client_that_does_not_read_holds_the_upstream_back() {
    let world = World::new().await;
    let _client = stalled(&world, "/proxy/plain/stream?events=10000000").await;
    let events = |world: &World| world.upstream.streams().last().map_or(0, |row| row.events_sent());
    let mut last = 0;
    let mut still = 0;
    let until = Instant::now() + Duration::from_secs(60);
    // Until nothing moves any more: buffers are full all the way.
    while still < 10 {
        assert!(Instant::now() < until, "after {last} events the upstream still sends");
        tokio::time::sleep(Duration::from_millis(100)).await;
        let now = events(&world);
        still = if now == last && now > 0 { still + 1 } else { 0 };
        last = now;
    }
    assert!(last < 10_000_000, "all of it was taken in");
}

#[tokio::test]
async fn a_kill_also_ends_streams_whose_client_does_not_read() {
    let world = World::new().await;
    let mut client = stalled(&world, "/proxy/plain/bytes/50000000").await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(world.record.intents.load(std::sync::atomic::Ordering::SeqCst), 1);
    world.kill(Scope::Global);
    let row = world.last_row().await;
    assert_eq!(row.block_reason, Some("KILL_SWITCH_GLOBAL"));
    let mut rest = Vec::new();
    let read = tokio::time::timeout(LIMIT, client.read_to_end(&mut rest)).await;
    assert!(read.is_ok() && rest.len() < 50_000_000);
}

#[tokio::test]
async fn a_client_that_goes_ends_the_upstream_request() {
    let world = World::new().await;
    let mut stream = open(&world, "/proxy/plain/stream?interval_ms=10").await;
    stream.next().await.unwrap().unwrap();
    assert_eq!(world.upstream.open_streams(), 1);
    drop(stream);
    world.upstream.wait_open_streams(0, LIMIT).await;
    let row = world.last_row().await;
    assert_eq!(row.facts.unwrap()["ended"], "client_gone");
    assert_eq!((row.response_status, row.block_reason), (Some(200), None));
}

#[tokio::test]
async fn a_client_that_goes_before_the_head_leaves_an_open_question() {
    let world = World::new().await;
    let path = world.url("/proxy/stripe/v1/charges?x-test-delay-ms=3000");
    let kind = [("content-type", "application/x-www-form-urlencoded")];
    let body = "amount=500&currency=usd&source=tok_visa";
    let ask = http::stream(Method::POST, &path, &kind, body);
    assert!(tokio::time::timeout(Duration::from_millis(500), ask).await.is_err());
    let row = world.last_row().await;
    assert_eq!((row.cost.micros(), row.estimated), (5_000_000, true));
    assert_eq!(row.block_reason, Some("interrupted"));
    assert_eq!(world.spent().0.micros(), 5_000_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kill_cuts_fifty_streams_at_once() {
    let world = World::new().await;
    let mut streams = Vec::new();
    for _ in 0..50 {
        let mut stream = open(&world, "/proxy/plain/stream?interval_ms=20").await;
        stream.next().await.unwrap().unwrap();
        streams.push(stream);
    }
    assert_eq!(world.upstream.open_streams(), 50);
    let killed_at = Instant::now();
    world.kill(Scope::Global);
    let ends = streams.into_iter().map(|mut stream| {
        tokio::spawn(async move {
            loop {
                match stream.next().await {
                    Some(Ok(_)) => {}
                    Some(Err(_)) => return Instant::now(),
                    None => panic!("a stream that was cut must not look whole"),
                }
            }
        })
    });
    let mut slowest = Duration::ZERO;
    for end in ends.collect::<Vec<_>>() {
        slowest = slowest.max(end.await.unwrap().duration_since(killed_at));
    }
    // The promise of 50 ms is for the bench; a shared test machine may stumble.
    assert!(slowest < Duration::from_millis(500), "the last stream ended after {slowest:?}");
    world.upstream.wait_open_streams(0, LIMIT).await;
    let rows = world.rows(50).await;
    assert!(rows.iter().all(|row| row.block_reason == Some("KILL_SWITCH_GLOBAL")));
}

#[tokio::test]
async fn a_kill_while_the_head_is_awaited_is_answered_at_once() {
    let world = World::new().await;
    let url = world.url("/proxy/plain/slow-head/20000");
    let ask = tokio::spawn(async move { http::request(Method::GET, &url, &[], "").await });
    tokio::time::sleep(Duration::from_millis(200)).await;
    let killed_at = Instant::now();
    world.kill(Scope::Agent(world.agent));
    let answer = ask.await.unwrap();
    crate::world::check_refused(&world, &answer, 503, "KILL_SWITCH_AGENT").await;
    assert!(killed_at.elapsed() < Duration::from_millis(500));
}

#[tokio::test]
async fn an_upstream_that_falls_silent_is_cut_off() {
    let options =
        ProxyOptions { upstream_timeout: Duration::from_millis(300), ..ProxyOptions::default() };
    let world = World::with(options).await;
    // Slower than the timer in all, but never silent for long.
    let answer = world.get("/proxy/plain/slow-body/8/100").await;
    assert_eq!(answer.body.len(), 8 * 16);
    let started = Instant::now();
    let silent =
        http::try_request(Method::GET, &world.url("/proxy/plain/slow-body/2/10000"), &[], "").await;
    assert!(silent.is_err());
    assert!((300..3_000).contains(&started.elapsed().as_millis()), "{:?}", started.elapsed());
    assert_eq!(world.rows(2).await[1].block_reason, Some("UPSTREAM_TIMEOUT"));
}

#[tokio::test]
async fn a_service_may_have_its_own_timeout() {
    let options =
        ProxyOptions { upstream_timeout: Duration::from_millis(200), ..ProxyOptions::default() };
    let world = World::with(options).await;
    let mut patient = service("patient", &world.upstream.base_url(), ServiceKind::Generic);
    patient.timeout_sec = Some(10);
    world.put(patient);
    assert_eq!(world.get("/proxy/patient/slow-head/500").await.status.as_u16(), 200);
    assert_eq!(world.get("/proxy/plain/slow-head/500").await.status.as_u16(), 504);
    world.proxy.configure(ProxyOptions::default());
    assert_eq!(world.get("/proxy/plain/slow-head/500").await.status.as_u16(), 200);
}
