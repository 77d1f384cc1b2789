//! Services with TLS: whom the gate trusts, and HTTP/2 end to end.

use std::time::{Duration, Instant};

use ::http::Method;
use agentguard_core::service::{Service, ServiceKind};
use agentguard_gate::Scope;
use agentguard_testkit::{Alpn, Upstream, http};
use serde_json::Value;
use tokio::io::AsyncWriteExt as _;

use crate::world::{World, check_refused, connect, service};

const LIMIT: Duration = Duration::from_secs(5);
const CHARGE: &str = "amount=500&currency=usd&source=tok_visa";

fn trusting(alias: &str, upstream: &Upstream, ca_of: &Upstream, kind: ServiceKind) -> Service {
    let mut trusting = service(alias, &upstream.base_url(), kind);
    trusting.ca_file = Some(ca_of.ca_file().to_str().unwrap().to_owned());
    trusting
}

/// A gate whose service `s` is this upstream.
async fn before(upstream: &Upstream) -> World {
    let world = World::new().await;
    world.put(trusting("s", upstream, upstream, ServiceKind::Generic));
    world
}

async fn open(world: &World, path: &str, token: &str) -> http::Streaming {
    let token = [("x-agentguard-token", token)];
    http::stream(Method::GET, &world.url(path), &token, "").await.unwrap()
}

#[tokio::test]
async fn a_service_is_trusted_by_its_ca_file() {
    for alpn in [Alpn::Http1, Alpn::Http2, Alpn::Both] {
        let (world, upstream) = (World::new().await, Upstream::start_tls(alpn));
        world.put(trusting("stripe", &upstream, &upstream, ServiceKind::Stripe));
        let answer = world.form("/proxy/stripe/v1/charges", CHARGE).await;
        assert_eq!(answer.status.as_u16(), 200, "{}", answer.text());
        assert_eq!(upstream.stats().taken_minor["usd"], 500);
        world.last_row().await;
        assert_eq!((world.spent().0.micros(), world.spent().1.micros()), (5_000_000, 0));
    }
}

#[tokio::test]
async fn a_certificate_of_another_authority_costs_nothing() {
    let world = World::new().await;
    let (upstream, other) = (Upstream::start_tls(Alpn::Both), Upstream::start_tls(Alpn::Both));
    world.put(trusting("stripe", &upstream, &other, ServiceKind::Stripe));
    let answer = world.form("/proxy/stripe/v1/charges", CHARGE).await;
    check_refused(&world, &answer, 502, "UPSTREAM_TLS_ERROR").await;
    assert_eq!((upstream.stats().requests, upstream.stats().charges), (0, 0));
    assert_eq!(world.spent(), Default::default());
    // The operator's own risk.
    let mut unchecked = service("stripe", &upstream.base_url(), ServiceKind::Stripe);
    unchecked.insecure_skip_tls_verify = true;
    world.put(unchecked);
    assert_eq!(world.form("/proxy/stripe/v1/charges", CHARGE).await.status.as_u16(), 200);
}

#[tokio::test]
async fn one_http2_connection_carries_calls_in_turn_and_at_once() {
    let upstream = Upstream::start_tls(Alpn::Both);
    let world = before(&upstream).await;
    for n in 0..10 {
        let body = "x".repeat(n * 1_000);
        let answer =
            http::request(Method::POST, &world.url("/proxy/s/echo"), &[], body.clone()).await;
        assert_eq!(answer.json()["body_len"], body.len());
    }
    let started = Instant::now();
    let calls: Vec<_> = (0..60)
        .map(|_| {
            let url = world.url("/proxy/s/slow-head/300");
            tokio::spawn(async move { http::request(Method::GET, &url, &[], "").await })
        })
        .collect();
    for call in calls {
        assert_eq!(call.await.unwrap().status.as_u16(), 200);
    }
    assert!(started.elapsed() < Duration::from_secs(10), "they waited for each other");
    assert_eq!(upstream.stats().connections, 1);
    let answer = world.get("/proxy/s/bytes/20000000").await;
    assert_eq!(answer.body.len(), 20_000_000);
    assert_eq!(upstream.stats().connections, 1);
}

#[tokio::test]
async fn http1_connections_with_tls_are_kept() {
    let upstream = Upstream::start_tls(Alpn::Http1);
    let world = before(&upstream).await;
    for _ in 0..10 {
        assert_eq!(world.get("/proxy/s/echo").await.status.as_u16(), 200);
    }
    assert_eq!(upstream.stats().connections, 1);
}

#[tokio::test]
async fn a_stop_ends_its_agents_streams_on_a_shared_connection_and_no_others() {
    let upstream = Upstream::start_tls(Alpn::Http2);
    let world = before(&upstream).await;
    let other = world.add_agent("other");
    let path = "/proxy/s/stream?interval_ms=10";
    let mut stopped = open(&world, path, &world.token).await;
    let mut going = open(&world, path, &other).await;
    stopped.next().await.unwrap().unwrap();
    going.next().await.unwrap().unwrap();
    assert_eq!((upstream.stats().connections, upstream.open_streams()), (1, 2));
    world.kill(Scope::Agent(world.agent));
    loop {
        match stopped.next().await {
            Some(Ok(_)) => {}
            Some(Err(_)) => break,
            None => panic!("a stream that was cut must not look whole"),
        }
    }
    upstream.wait_open_streams(1, LIMIT).await;
    for _ in 0..5 {
        going.next().await.unwrap().unwrap();
    }
    let rows = world.rows(1).await;
    assert_eq!(rows[0].block_reason, Some("KILL_SWITCH_AGENT"));
    drop(going);
    upstream.wait_open_streams(0, LIMIT).await;
    assert_eq!(world.rows(2).await[1].facts.as_ref().unwrap()["ended"], "client_gone");
}

#[tokio::test]
async fn a_stream_that_is_reset_breaks_off_and_its_connection_goes_on() {
    let upstream = Upstream::start_tls(Alpn::Http2);
    let world = before(&upstream).await;
    for path in ["/proxy/s/short", "/proxy/s/reset"] {
        let broken = http::try_request(Method::GET, &world.url(path), &[], "").await;
        assert!(broken.is_err(), "{path} looked whole");
        let row = world.last_row().await;
        assert_eq!(
            (row.response_status, row.block_reason),
            (Some(200), Some("UPSTREAM_UNREACHABLE"))
        );
    }
    assert_eq!(world.get("/proxy/s/echo").await.status.as_u16(), 200);
    assert_eq!(upstream.stats().connections, 1);
}

#[tokio::test]
async fn a_service_that_goes_away_finishes_what_is_under_way() {
    let upstream = Upstream::start_tls(Alpn::Http2);
    let world = before(&upstream).await;
    let mut slow = open(&world, "/proxy/s/slow-body/10/50", &world.token).await;
    let mut bytes = slow.next().await.unwrap().unwrap().bytes.len();
    assert_eq!(world.get("/proxy/s/goaway").await.json()["leaving"], true);
    while let Some(chunk) = slow.next().await {
        bytes += chunk.unwrap().bytes.len();
    }
    assert_eq!(bytes, 160);
    assert_eq!(world.get("/proxy/s/echo").await.status.as_u16(), 200);
    assert_eq!(upstream.stats().connections, 2);
    assert!(world.rows(3).await.iter().all(|row| row.block_reason.is_none()));
}

#[tokio::test]
async fn a_client_that_does_not_read_holds_back_its_own_stream_only() {
    let upstream = Upstream::start_tls(Alpn::Http2);
    let world = before(&upstream).await;
    let mut client = connect(world.addr).await;
    let wire = "GET /proxy/s/stream?events=10000000 HTTP/1.1\r\nHost: localhost\r\n\r\n";
    client.write_all(wire.as_bytes()).await.unwrap();
    let (mut last, mut still) = (0, 0);
    let until = Instant::now() + Duration::from_secs(60);
    while still < 5 {
        assert!(Instant::now() < until, "after {last} events the upstream still sends");
        tokio::time::sleep(Duration::from_millis(100)).await;
        let now = upstream.streams().last().map_or(0, |row| row.events_sent());
        still = if now == last && now > 0 { still + 1 } else { 0 };
        last = now;
    }
    assert!(last < 10_000_000, "all of it was taken in");
    let answer = world.get("/proxy/s/bytes/5000000").await;
    assert_eq!(answer.body.len(), 5_000_000);
    assert_eq!(upstream.stats().connections, 1);
}

#[tokio::test]
async fn trailers_pass_both_ways_over_both_versions() {
    for alpn in [Alpn::Http1, Alpn::Http2] {
        let upstream = Upstream::start_tls(alpn);
        let world = before(&upstream).await;
        let te = [("te", "trailers")];
        let mut stream =
            http::stream(Method::GET, &world.url("/proxy/s/trailers"), &te, "").await.unwrap();
        while let Some(chunk) = stream.next().await {
            chunk.unwrap();
        }
        assert_eq!(stream.trailers.as_ref().unwrap()["x-checksum"], "0123456789", "{alpn:?}");

        let wire = format!(
            "POST /proxy/s/echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nTrailer: x-sum, x-agentguard-token\r\nConnection: close\r\n\r\n5\r\nhello\r\n0\r\nx-sum: 42\r\nx-agentguard-token: {}\r\n\r\n",
            world.token
        );
        let got = http::raw(world.addr, wire.as_bytes()).await;
        let text = String::from_utf8(got).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200"), "{text}");
        let echo: Value = serde_json::from_str(body).unwrap();
        assert_eq!(echo["trailers"], serde_json::json!([["x-sum", "42"]]), "{alpn:?}: {echo}");
        assert_eq!((&echo["body_len"], &echo["complete"]), (&5.into(), &true.into()));
    }
}
