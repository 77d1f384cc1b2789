//! Proof at the dialler: only judged addresses are dialled, and only the meant peer is spoken to.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use agentguard_core::net::{Blocked, Exceptions, is_global};
use bytes::Bytes;
use http::Request;
use http_body_util::Empty;
use tokio::net::TcpListener;

use super::fakes::{CountingConnect, FakeResolver, Then, allow_private, destination};
use crate::approved::Approved;
use crate::dial::{check_ends, dial_with};
use crate::error::{DialError, SendError};
use crate::guard::Guard;
use crate::limits::{DIAL_ATTEMPTS_MAX, DIAL_STAGGER};
use crate::tls::ClientTls;
use crate::upstream::{Upstream, UpstreamConfig};

const SOON: Duration = Duration::from_millis(50);
const LONG: Duration = Duration::from_secs(20);

fn upstream(guard: &Arc<Guard>, url: &str, connect: &CountingConnect) -> Upstream<Empty<Bytes>> {
    let tls = ClientTls::insecure_skip_tls_verify().expect("TLS");
    let config = UpstreamConfig::new(destination(url), tls);
    Upstream::with_connect(Arc::clone(guard), config, connect.step()).expect("an upstream")
}

fn request() -> Request<Empty<Bytes>> {
    Request::new(Empty::new())
}

async fn approved(url: &str, answers: &[&str], exceptions: &Exceptions) -> Approved {
    let fake = FakeResolver::answering("a.example", &[answers]);
    fake.guard().approve(&destination(url), exceptions).await.expect("approved")
}

#[tokio::test]
async fn no_answer_of_a_resolver_makes_the_dialler_dial_a_private_address() {
    let hostile = [
        "10.0.0.1",
        "127.0.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "0.0.0.0",
        "224.0.0.1",
        "::1",
        "::",
        "fe80::1",
        "fd00::1",
        "::ffff:127.0.0.1",
        "64:ff9b::7f00:1",
        "2002:7f00:1::",
    ];
    let public = ["1.1.1.1", "2600::1", "8.8.8.8"];
    let connect = CountingConnect::new(&[Then::Refuse]);
    for bad in hostile {
        for place in 0..=public.len() {
            let mut answer = public.to_vec();
            answer.insert(place, bad);
            let guard = FakeResolver::answering("a.example", &[&answer]).guard();
            let sent = upstream(&guard, "http://a.example", &connect).forward(request()).await;
            assert!(matches!(sent, Err(SendError::Blocked(_))), "{answer:?}: {sent:?}");
        }
    }
    assert!(connect.dialled().is_empty(), "{:?}", connect.dialled());
}

#[tokio::test]
async fn an_answer_that_changes_after_the_check_is_not_dialled() {
    // Public when asked, loopback ever after: the classic rebinding.
    let fake = FakeResolver::answering("a.example", &[&["1.1.1.1", "2600::1"], &["127.0.0.1"]]);
    let guard = fake.guard();
    let connect = CountingConnect::new(&[Then::Refuse]);
    let upstream = upstream(&guard, "http://a.example", &connect);
    for _ in 0..5 {
        let sent = upstream.forward(request()).await;
        assert!(matches!(sent, Err(SendError::ConnectFailed { .. })), "{sent:?}");
    }
    assert_eq!(fake.look_ups(), 1, "the dialler has asked again");
    assert_eq!(connect.dialled().len(), 10);
    assert!(connect.dialled().iter().all(|address| is_global(address.ip())));
}

#[tokio::test]
async fn mapped_answers_are_dialled_as_the_ipv4_addresses_they_are() {
    let approved = approved("http://a.example", &["::ffff:1.1.1.1"], &Exceptions::none()).await;
    let connect = CountingConnect::new(&[Then::Refuse]);
    let result = dial_with(&connect.step(), &approved, LONG).await;
    assert!(matches!(result, Err(DialError::Failed { .. })), "{result:?}");
    assert_eq!(connect.dialled(), ["1.1.1.1:80".parse().expect("an address")]);
}

#[tokio::test]
async fn another_peer_than_was_meant_is_refused_before_a_byte() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a listener");
    let real = listener.local_addr().expect("an address");
    let approved = approved("http://a.example", &["1.1.1.1", "1.0.0.1"], &Exceptions::none()).await;
    let connect = CountingConnect::new(&[Then::Reach(real)]);
    let result = dial_with(&connect.step(), &approved, LONG).await;
    let meant = "1.1.1.1:80".parse().expect("an address");
    let Err(DialError::Blocked(blocked)) = result else { panic!("{result:?}") };
    assert_eq!(blocked, Blocked::PeerDiffers { meant, reached: real });
    assert_eq!(connect.dialled().len(), 1, "another address was tried after the refusal");

    let (mut stream, _) = listener.accept().await.expect("a connection");
    let mut got = Vec::new();
    tokio::io::AsyncReadExt::read_to_end(&mut stream, &mut got).await.expect("its end");
    assert!(got.is_empty(), "{got:?}");
}

#[tokio::test]
async fn a_listener_on_all_addresses_is_known_by_both_ends_being_one() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a listener");
    let at = listener.local_addr().expect("an address");
    let connect = CountingConnect::new(&[Then::Really]);
    let stream = crate::dial::Connect::connect(&connect, at).await.expect("a connection");
    let everywhere = SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), at.port());
    let elsewhere = SocketAddr::new(everywhere.ip(), at.port() ^ 1);
    let own = Blocked::OwnListener { address: at };
    assert_eq!(check_ends(&stream, at, &[everywhere]).expect("two ends"), Err(own));
    assert_eq!(check_ends(&stream, at, &[elsewhere]).expect("two ends"), Ok(()));
}

#[tokio::test]
async fn a_silent_address_delays_the_next_by_one_head_start() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a listener");
    let port = listener.local_addr().expect("an address").port();
    let url = format!("http://a.example:{port}");
    let approved = approved(&url, &["127.0.0.9", "127.0.0.1"], &allow_private()).await;
    let connect = CountingConnect::new(&[Then::Hang, Then::Really]);
    let started = Instant::now();
    let stream = dial_with(&connect.step(), &approved, LONG).await.expect("the second address");
    assert!(started.elapsed() >= DIAL_STAGGER);
    assert_eq!(stream.peer_addr().expect("a peer").ip(), Ipv4Addr::LOCALHOST);
    assert!(stream.nodelay().expect("an option"));
    assert_eq!(connect.dialled().len(), 2);
}

#[tokio::test]
async fn a_refusing_address_does_not_delay_the_next() {
    let many: Vec<String> = (1..=20).map(|n| format!("1.1.1.{n}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let approved = approved("http://a.example", &many, &Exceptions::none()).await;
    let connect = CountingConnect::new(&[Then::Refuse]);
    let started = Instant::now();
    let result = dial_with(&connect.step(), &approved, LONG).await;
    assert!(matches!(result, Err(DialError::Failed { .. })), "{result:?}");
    assert_eq!(connect.dialled().len(), DIAL_ATTEMPTS_MAX);
    // Eight head starts would be 2 s.
    assert!(started.elapsed() < DIAL_STAGGER * 7, "{:?}", started.elapsed());
}

#[tokio::test]
async fn silence_from_every_address_is_a_timeout() {
    let approved = approved("http://a.example", &["1.1.1.1", "1.0.0.1"], &Exceptions::none()).await;
    let connect = CountingConnect::new(&[Then::Hang]);
    let result = dial_with(&connect.step(), &approved, SOON).await;
    assert!(matches!(result, Err(DialError::Timeout { after: SOON, .. })), "{result:?}");
}
