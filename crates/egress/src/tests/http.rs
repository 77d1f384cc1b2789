//! The pooled client against real servers on loopback.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use agentguard_core::net::{Blocked, BlockedNames, Exceptions, Passage};
use bytes::Bytes;
use http::{Request, Response, Version};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use tokio::net::TcpListener;

use super::fakes::{FakeResolver, allow_private, destination};
use super::serve::{Server, Speaks};
use crate::error::SendError;
use crate::guard::Guard;
use crate::tls::ClientTls;
use crate::upstream::{Upstream, UpstreamConfig};

type Client = Upstream<Full<Bytes>>;

fn client(guard: &Arc<Guard>, url: &str, change: impl FnOnce(&mut UpstreamConfig)) -> Client {
    let tls = ClientTls::insecure_skip_tls_verify().expect("TLS");
    let mut config = UpstreamConfig::new(destination(url), tls);
    config.exceptions = allow_private();
    change(&mut config);
    Upstream::new(Arc::clone(guard), config).expect("an upstream")
}

fn get(uri: &str) -> Request<Full<Bytes>> {
    Request::get(uri).body(Full::default()).expect("a request")
}

async fn text(response: Response<Incoming>) -> String {
    let body = response.into_body().collect().await.expect("a body").to_bytes();
    String::from_utf8(body.to_vec()).expect("text")
}

#[tokio::test]
async fn a_hundred_requests_share_one_connection_and_one_look_up() {
    let server = Server::start(Speaks::Http).await;
    let fake = FakeResolver::answering("api.example", &[&["127.0.0.1"], &["10.0.0.1"]]);
    let url = format!("http://api.example:{}", server.address.port());
    let client = client(&fake.guard(), &url, |_| {});
    for n in 0..100 {
        let response = client.forward(get(&format!("/v1/{n}?q=a%20b"))).await.expect("a response");
        let expected =
            format!("GET /v1/{n}?q=a%20b HTTP/1.1 host=api.example:{}", server.address.port());
        assert_eq!(text(response).await, expected);
    }
    assert_eq!(server.connections(), 1);
    assert_eq!(fake.look_ups(), 1);
}

#[tokio::test]
async fn a_request_cannot_name_another_place() {
    let server = Server::start(Speaks::Http).await;
    let url = format!("http://{}", server.address);
    let client = client(&FakeResolver::default().guard(), &url, |_| {});
    let mut request = get("http://169.254.169.254/latest?x=1");
    request.headers_mut().insert("host", "evil.example".parse().expect("a value"));
    *request.version_mut() = Version::HTTP_2;
    let response = client.forward(request).await.expect("a response");
    let expected = format!("GET /latest?x=1 HTTP/1.1 host={}", server.address);
    assert_eq!(text(response).await, expected);
}

#[tokio::test]
async fn a_closed_port_is_connect_failed() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a listener");
    let address = listener.local_addr().expect("an address");
    drop(listener);
    let client = client(&FakeResolver::default().guard(), &format!("http://{address}"), |_| {});
    let error = client.forward(get("/")).await.expect_err("nobody listens");
    assert!(
        matches!(error, SendError::ConnectFailed { address: at, .. } if at == address),
        "{error:?}"
    );
    assert!(!error.may_have_been_sent());
}

#[tokio::test]
async fn a_slow_head_is_a_timeout() {
    let server = Server::start(Speaks::SlowHttp(Duration::from_secs(30))).await;
    let url = format!("http://{}", server.address);
    let client = client(&FakeResolver::default().guard(), &url, |config| {
        config.head_timeout = Duration::from_millis(100);
    });
    let error = client.forward(get("/")).await.expect_err("too slow");
    assert!(matches!(error, SendError::Timeout { .. }), "{error:?}");
    assert!(error.may_have_been_sent());
}

#[tokio::test]
async fn a_peer_that_hangs_up_is_broken() {
    let server = Server::start(Speaks::HangUp).await;
    let url = format!("http://{}", server.address);
    let client = client(&FakeResolver::default().guard(), &url, |_| {});
    let error = client.forward(get("/")).await.expect_err("hung up");
    assert!(matches!(error, SendError::Broken { .. }), "{error:?}");
    assert!(error.may_have_been_sent());
}

#[tokio::test]
async fn a_peer_that_never_shakes_hands_is_a_connect_timeout() {
    let server = Server::start(Speaks::Nothing).await;
    let url = format!("https://{}", server.address);
    let client = client(&FakeResolver::default().guard(), &url, |config| {
        config.connect_timeout = Duration::from_millis(100);
    });
    let error = client.forward(get("/")).await.expect_err("silent");
    assert!(matches!(error, SendError::ConnectTimeout { .. }), "{error:?}");
}

#[tokio::test]
async fn refusals_and_dns_failures_come_through_the_client_as_they_are() {
    let server = Server::start(Speaks::Http).await;
    let guard = FakeResolver::default().guard();
    let none = |config: &mut UpstreamConfig| config.exceptions = Exceptions::none();
    let url = format!("http://{}", server.address);
    let error = client(&guard, &url, none).forward(get("/")).await.expect_err("loopback");
    assert!(matches!(error, SendError::Blocked(Blocked::Address { .. })), "{error:?}");

    guard.set_own_listeners(&[server.address]);
    let error = client(&guard, &url, |_| {}).forward(get("/")).await.expect_err("the gate");
    assert!(matches!(error, SendError::Blocked(Blocked::OwnListener { .. })), "{error:?}");

    let error = client(&guard, "http://nowhere.example", none).forward(get("/")).await;
    assert!(matches!(error, Err(SendError::Dns(_))), "{error:?}");
    assert_eq!(server.connections(), 0);
}

#[tokio::test]
async fn a_name_blocked_later_is_refused_on_pooled_connections_too() {
    let server = Server::start(Speaks::Http).await;
    let fake = FakeResolver::answering("api.example", &[&["127.0.0.1"]]);
    let guard = fake.guard();
    let url = format!("http://api.example:{}", server.address.port());
    let client = client(&guard, &url, |_| {});
    assert_eq!(client.approve().await.expect("allowed").passage(), &Passage::PrivateService);
    text(client.forward(get("/")).await.expect("a response")).await;
    guard.set_blocked_names(&BlockedNames::parse(&["api.example"]).expect("a list"));
    for _ in 0..2 {
        let error = client.forward(get("/")).await.expect_err("blocked");
        assert!(matches!(error, SendError::Blocked(Blocked::Name { .. })), "{error:?}");
    }
    guard.set_blocked_names(&BlockedNames::default());
    text(client.forward(get("/")).await.expect("a response")).await;
    assert_eq!(server.connections(), 1);
}
