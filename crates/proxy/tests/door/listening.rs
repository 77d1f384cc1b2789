//! Connections: kept alive, bounded, and ended in order.

use std::time::{Duration, Instant};

use ::http::Method;
use agentguard_core::service::ServiceKind;
use agentguard_proxy::ProxyOptions;
use agentguard_testkit::http::{self, Client};

use crate::world::{World, service};

#[tokio::test]
async fn connections_are_kept_on_both_sides() {
    let world = World::new().await;
    let client = Client::new();
    for _ in 0..20 {
        let url = world.url("/proxy/plain/echo");
        let answer = client.request(Method::POST, &url, &[], "hello").await.unwrap();
        assert_eq!(answer.status.as_u16(), 200);
    }
    assert_eq!(world.upstream.stats().connections, 1);
}

#[tokio::test]
async fn a_change_of_policy_keeps_the_pool_and_a_change_of_the_service_does_not() {
    let world = World::new().await;
    let token = ("x-agentguard-token", world.token.as_str());
    let ask = || async {
        let answer = world.get_with("/proxy/plain/echo", &[token]).await;
        assert_eq!(answer.status.as_u16(), 200);
        world.upstream.stats().connections
    };
    assert_eq!(ask().await, 1);
    world.add_agent("other");
    assert_eq!(ask().await, 1);
    let mut slower = service("plain", &world.upstream.base_url(), ServiceKind::Generic);
    slower.timeout_sec = Some(20);
    world.put(slower);
    assert_eq!(ask().await, 2);
}

#[tokio::test]
async fn the_end_waits_for_requests_and_takes_no_more() {
    let mut world = World::new().await;
    let url = world.url("/proxy/plain/slow-head/600");
    let ask = tokio::spawn(async move { http::request(Method::GET, &url, &[], "").await });
    tokio::time::sleep(Duration::from_millis(200)).await;
    let idle = http::stream(Method::GET, &world.url("/proxy/plain/echo"), &[], "").await.unwrap();
    let served = world.shut_down();
    assert_eq!(ask.await.unwrap().status.as_u16(), 200);
    tokio::time::timeout(Duration::from_secs(3), served).await.unwrap().unwrap();
    drop(idle);
    let late = http::try_request(Method::GET, &world.url("/proxy/plain/echo"), &[], "").await;
    assert!(late.is_err());
}

#[tokio::test]
async fn the_end_does_not_wait_for_ever() {
    let options =
        ProxyOptions { drain_timeout: Duration::from_millis(200), ..ProxyOptions::default() };
    let mut world = World::with(options).await;
    let mut stream =
        http::stream(Method::GET, &world.url("/proxy/plain/stream?interval_ms=20"), &[], "")
            .await
            .unwrap();
    stream.next().await.unwrap().unwrap();
    let started = Instant::now();
    world.shut_down().await.unwrap();
    assert!(started.elapsed() < Duration::from_secs(3));
    assert_eq!(world.last_row().await.response_status, Some(200));
}

#[tokio::test]
async fn no_more_clients_than_allowed_are_served_at_once() {
    let options = ProxyOptions { max_connections: 2, ..ProxyOptions::default() };
    let world = World::with(options).await;
    let path = "/proxy/plain/stream?interval_ms=20";
    let mut open = Vec::new();
    for _ in 0..2 {
        open.push(http::stream(Method::GET, &world.url(path), &[], "").await.unwrap());
    }
    let url = world.url("/proxy/plain/echo");
    let mut third = Box::pin(http::stream(Method::GET, &url, &[], ""));
    assert!(tokio::time::timeout(Duration::from_millis(300), &mut third).await.is_err());
    open.pop();
    assert_eq!(third.await.unwrap().status.as_u16(), 200);
}
