//! What goes wrong behind the gate, what the agent hears of it, and what it pays.

use std::net::Ipv4Addr;
use std::time::Duration;

use ::http::Method;
use agentguard_core::service::ServiceKind;
use agentguard_gate::Decision;
use agentguard_proxy::ProxyOptions;
use agentguard_testkit::http;
use tokio::net::TcpListener;

use crate::world::{World, check_refused, service};

const CHARGE: &str = "amount=500&currency=usd&source=tok_visa";

#[tokio::test]
async fn upstream_errors_pass_as_they_are_and_cost_nothing() {
    let world = World::new().await;
    for status in [400, 402, 403, 404, 429, 500, 503] {
        let path = format!("/proxy/stripe/v1/charges?x-test-status={status}");
        let answer = world.form(&path, CHARGE).await;
        assert_eq!(answer.status.as_u16(), status);
        assert!(answer.header("x-should-retry").is_none());
        let row = world.last_row().await;
        assert_eq!((row.response_status, row.cost.micros()), (Some(status), 0));
        assert_eq!((row.decision, row.block_reason), (Decision::Allow, None));
    }
    assert_eq!(world.spent(), Default::default());
}

#[tokio::test]
async fn an_upstream_that_is_too_slow_is_504_and_not_charged() {
    let options =
        ProxyOptions { upstream_timeout: Duration::from_millis(200), ..ProxyOptions::default() };
    let world = World::with(options).await;
    let answer = world.form("/proxy/stripe/v1/charges?x-test-delay-ms=5000", CHARGE).await;
    let row = check_refused(&world, &answer, 504, "UPSTREAM_TIMEOUT").await;
    assert_eq!((row.cost.micros(), row.decision), (0, Decision::Error));
    assert_eq!(answer.header("x-should-retry"), Some("true"));
    assert_eq!(world.spent(), Default::default());
}

#[tokio::test]
async fn an_upstream_that_is_not_there_is_502_and_not_charged() {
    let world = World::new().await;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let gone = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    world.put(service("stripe", &gone, ServiceKind::Stripe));
    let answer = world.form("/proxy/stripe/v1/charges", CHARGE).await;
    let row = check_refused(&world, &answer, 502, "UPSTREAM_UNREACHABLE").await;
    assert_eq!((row.cost.micros(), row.estimated), (0, false));
    assert!(!answer.text().contains("127.0.0.1"), "agents do not hear addresses");

    world.put(service("nowhere", "http://nowhere.example", ServiceKind::Generic));
    let answer = world.get("/proxy/nowhere/x").await;
    check_refused(&world, &answer, 502, "UPSTREAM_UNREACHABLE").await;
    assert_eq!(world.spent(), Default::default());
}

#[tokio::test]
async fn an_upstream_whose_certificate_is_not_trusted_is_502() {
    let world = World::new().await;
    let base = world.upstream.base_url().replace("http:", "https:");
    world.put(service("tls", &base, ServiceKind::Generic));
    let answer = world.get("/proxy/tls/echo").await;
    check_refused(&world, &answer, 502, "UPSTREAM_TLS_ERROR").await;
    assert_eq!(answer.header("x-should-retry"), Some("false"));
    let mut broken = service("tls", &base, ServiceKind::Generic);
    broken.ca_file = Some("no/such/file.pem".to_owned());
    world.put(broken);
    let answer = world.get("/proxy/tls/echo").await;
    check_refused(&world, &answer, 502, "UPSTREAM_TLS_ERROR").await;
    assert!(answer.text().contains("no/such/file.pem"), "{}", answer.text());
}

#[tokio::test]
async fn a_connection_that_breaks_before_the_head_is_charged_as_unknown() {
    let world = World::new().await;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    let hang_up = tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut some = [0; 64];
            tokio::io::AsyncReadExt::read(&mut stream, &mut some).await.unwrap();
        }
    });
    world.put(service("stripe", &base, ServiceKind::Stripe));
    let answer = world.form("/proxy/stripe/v1/charges", CHARGE).await;
    let row = check_refused(&world, &answer, 502, "UPSTREAM_UNREACHABLE").await;
    assert_eq!((row.cost.micros(), row.estimated), (5_000_000, true));
    assert_eq!(world.spent().0.micros(), 5_000_000);
    hang_up.abort();
}

#[tokio::test]
async fn an_answer_that_breaks_off_breaks_off_for_the_client_too() {
    let world = World::new().await;
    for path in ["/proxy/plain/short", "/proxy/plain/reset"] {
        let broken = http::try_request(Method::GET, &world.url(path), &[], "").await;
        assert!(broken.is_err(), "{path} looked whole");
        let row = world.last_row().await;
        assert_eq!(row.block_reason, Some("UPSTREAM_UNREACHABLE"), "{path}");
        assert_eq!(row.response_status, Some(200));
    }
}
