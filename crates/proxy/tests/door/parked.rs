//! Bodies that come late or are large: judged by what is in force when the call leaves, and bounded
//! before anything is decided.

use std::time::{Duration, Instant};

use agentguard_core::rule::RuleType;
use agentguard_core::service::ServiceKind;
use agentguard_gate::{Change, Scope};
use agentguard_proxy::ProxyOptions;
use agentguard_testkit::http;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::world::{World, connect, service};

const CHARGE: &str = "amount=100&currency=usd&source=tok_visa";

/// A charge of which all but the last byte came.
struct Parked(TcpStream);

impl Parked {
    async fn charge(world: &World, header: &str) -> Self {
        let mut stream = connect(world.addr).await;
        let (first, _) = CHARGE.split_at(CHARGE.len() - 1);
        let wire = format!(
            "POST /proxy/stripe/v1/charges HTTP/1.1\r\nHost: localhost\r\n{header}Content-Type: application/x-www-form-urlencoded\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{first}",
            CHARGE.len()
        );
        stream.write_all(wire.as_bytes()).await.unwrap();
        tokio::time::sleep(Duration::from_millis(100)).await;
        Self(stream)
    }

    async fn finish(mut self) -> String {
        self.0.write_all(b"a").await.unwrap();
        let mut answer = String::new();
        self.0.read_to_string(&mut answer).await.unwrap();
        answer
    }
}

/// What happens while the body is awaited decides.
async fn check(world: &World, header: &str, meanwhile: impl FnOnce(), code: &str) {
    let parked = Parked::charge(world, header).await;
    let released_at = world.gate.now();
    meanwhile();
    let answer = parked.finish().await;
    assert!(answer.contains(code), "{code}: {answer}");
    let row = world.last_row().await;
    assert_eq!(row.block_reason, Some(code));
    assert!(answer.contains(&row.id.to_string()), "{answer}");
    assert!(row.at >= released_at, "judged at the moment of leaving");
    assert_eq!(world.upstream.stats().requests, 0);
}

#[tokio::test]
async fn a_parked_body_does_not_outlive_its_token() {
    let world = World::new().await;
    let header = format!("X-AgentGuard-Token: {}\r\n", world.token);
    let token_hash = world.gate.ids().token("ag_live_").unwrap().hash();
    let rotate = || world.change(Change::RotateToken { agent_id: world.agent, token_hash });
    check(&world, &header, rotate, "UNAUTHENTICATED").await;
}

#[tokio::test]
async fn a_parked_body_without_a_token_needs_one_when_a_second_agent_comes() {
    let world = World::new().await;
    check(&world, "", || drop(world.add_agent("other")), "UNAUTHENTICATED").await;
}

#[tokio::test]
async fn a_parked_body_does_not_outlive_its_agent_or_a_stop() {
    let world = World::new().await;
    let revoke = || world.change(Change::RevokeAgent(world.agent));
    let header = format!("X-AgentGuard-Token: {}\r\n", world.token);
    check(&world, &header, revoke, "AGENT_REVOKED").await;
    let world = World::new().await;
    check(&world, "", || world.kill(Scope::Global), "KILL_SWITCH_GLOBAL").await;
}

#[tokio::test]
async fn a_parked_body_does_not_outlive_its_service() {
    let world = World::new().await;
    let remove = || world.change(Change::RemoveService("stripe".to_owned()));
    check(&world, "", remove, "SERVICE_UNKNOWN").await;
    // A service of another kind or base would read the call in another way.
    let world = World::new().await;
    let base = world.upstream.base_url();
    let put = || world.put(service("stripe", &format!("{base}/other"), ServiceKind::Stripe));
    check(&world, "", put, "SERVICE_UNKNOWN").await;
    let world = World::new().await;
    let mut closed = service("stripe", &world.upstream.base_url(), ServiceKind::Stripe);
    closed.allow_private = false;
    check(&world, "", || world.put(closed), "DESTINATION_BLOCKED").await;
}

#[tokio::test]
async fn a_parked_body_goes_where_its_service_is_now() {
    let world = World::new().await;
    let moved = agentguard_testkit::Upstream::start().await;
    let parked = Parked::charge(&world, "").await;
    let released_at = world.gate.now();
    world.put(service("stripe", &moved.base_url(), ServiceKind::Stripe));
    let answer = parked.finish().await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert_eq!((world.upstream.stats().requests, moved.stats().requests), (0, 1));
    let row = world.last_row().await;
    assert!(row.at >= released_at && answer.contains(&row.id.to_string()));
    let millis = u64::try_from(row.at.as_micros() / 1_000).unwrap();
    let (secs, nanos) = row.id.0.get_timestamp().unwrap().to_unix();
    assert_eq!(secs * 1_000 + u64::from(nanos / 1_000_000), millis);
}

#[tokio::test]
async fn a_parked_body_is_held_to_the_rules_of_now() {
    let world = World::new().await;
    let rule = || world.rule(RuleType::PerCallLimit, json!({"limit": "0.50"}));
    check(&world, "", rule, "PER_CALL_LIMIT_EXCEEDED").await;
}

#[tokio::test]
async fn bodies_that_are_awaited_share_bounded_room() {
    let options =
        ProxyOptions { upstream_timeout: Duration::from_millis(600), ..ProxyOptions::default() };
    let world = World::with(options).await;
    let head = "POST /proxy/stripe/v1/charges HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-www-form-urlencoded\r\nConnection: close\r\n";
    let mut parked = Vec::new();
    // 64 of 1 MiB fill the room; each says its length and sends nothing.
    for _ in 0..64 {
        let mut stream = connect(world.addr).await;
        let wire = format!("{head}Content-Length: 1048576\r\n\r\n");
        stream.write_all(wire.as_bytes()).await.unwrap();
        parked.push(stream);
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    let started = Instant::now();
    // Those that wait for bytes give up first, and make room for this one.
    let small = format!("{head}Content-Length: {}\r\n\r\n{CHARGE}", CHARGE.len());
    let got = http::raw(world.addr, small.as_bytes()).await;
    assert_eq!(http::raw_statuses(&got), [200]);
    assert!(started.elapsed() >= Duration::from_millis(150), "there was no room to wait for");
}

#[tokio::test]
async fn a_stop_does_not_wait_for_large_bodies_to_be_read() {
    // One worker: reading on it would keep everything else waiting.
    let world = World::new().await;
    let body = format!("{{\"operations\":[{}]}}", vec!["{\"a\":1}"; 120_000].join(","));
    let calls: Vec<_> = (0..12)
        .map(|_| {
            let url = world.url("/proxy/google-ads/v17/customers/1/campaignBudgets:mutate");
            let body = body.clone();
            tokio::spawn(async move {
                let kind = [("content-type", "application/json")];
                http::request(::http::Method::POST, &url, &kind, body).await.status.as_u16()
            })
        })
        .collect();
    let mut slowest = Duration::ZERO;
    let mut calls = calls.into_iter();
    let mut next = calls.next();
    while let Some(call) = &next {
        let before = Instant::now();
        tokio::time::sleep(Duration::from_millis(1)).await;
        slowest = slowest.max(before.elapsed());
        if call.is_finished() {
            next = calls.next();
        }
    }
    assert!(slowest < Duration::from_millis(150), "everything waited for {slowest:?}");
}
