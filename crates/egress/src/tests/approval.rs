//! The guard against resolvers that lie.

use std::io;
use std::net::IpAddr;
use std::time::Duration;

use agentguard_core::net::{Blocked, BlockedNames, Exceptions, Passage};
use tokio::time::Instant;

use super::fakes::{FakeResolver, allow_private, destination, opening};
use crate::error::{ApproveError, DnsCause};
use crate::guard::Guard;
use crate::limits::{ADDRESSES_MAX, APPROVAL_TTL, APPROVALS_MAX};
use crate::resolver::{Resolver, SystemResolver};

#[tokio::test]
async fn one_private_address_among_public_ones_refuses_the_name() {
    for hostile in
        ["10.0.0.1", "127.0.0.1", "::1", "::ffff:10.0.0.1", "169.254.169.254", "0.0.0.0", "fe80::1"]
    {
        let fake =
            FakeResolver::answering("a.example", &[&["1.1.1.1", "2600::1", hostile, "1.0.0.1"]]);
        let result =
            fake.guard().approve(&destination("https://a.example"), &Exceptions::none()).await;
        let Err(ApproveError::Blocked(Blocked::Address { address, .. })) = result else {
            panic!("{hostile}: {result:?}");
        };
        assert_eq!(address, hostile.parse::<IpAddr>().expect("an address").to_canonical());
    }
}

#[tokio::test]
async fn a_refused_name_is_never_asked_for() {
    let fake = FakeResolver::answering("db.corp", &[&["1.1.1.1"]]);
    let guard = fake.guard();
    for url in
        ["http://db.corp", "http://localhost", "http://metadata.google.internal", "http://redis"]
    {
        let result = guard.approve(&destination(url), &Exceptions::none()).await;
        assert!(matches!(result, Err(ApproveError::Blocked(Blocked::Name { .. }))), "{url}");
    }
    assert_eq!(fake.look_ups(), 0);
}

#[tokio::test]
async fn an_address_literal_skips_the_resolver_but_not_the_judgement() {
    let fake = FakeResolver::default();
    let guard = fake.guard();
    let none = Exceptions::none();
    for url in [
        "http://127.1",
        "http://0x7f000001",
        "http://[::ffff:10.0.0.1]",
        "http://[64:ff9b::7f00:1]",
    ] {
        assert!(guard.approve(&destination(url), &none).await.is_err(), "{url}");
    }
    let approved = guard.approve(&destination("http://1.1.1.1:81"), &none).await.expect("public");
    assert_eq!(approved.addresses(), ["1.1.1.1:81".parse().expect("an address")]);
    assert_eq!(fake.look_ups(), 0);
}

#[tokio::test]
async fn no_answer_is_a_dns_error() {
    let cause = async |answer| {
        let fake = FakeResolver::default();
        fake.then("a.example", answer);
        let result =
            fake.guard().approve(&destination("http://a.example"), &Exceptions::none()).await;
        match result {
            Err(ApproveError::Dns(error)) => error.cause,
            other => panic!("{other:?}"),
        }
    };
    assert!(matches!(cause(Ok(Vec::new())).await, DnsCause::NoAddress));
    assert!(matches!(cause(Err(io::ErrorKind::TimedOut)).await, DnsCause::TimedOut));
    assert!(matches!(cause(Err(io::ErrorKind::NotFound)).await, DnsCause::Failed(_)));
}

#[tokio::test]
async fn of_a_very_long_answer_only_the_first_addresses_count() {
    let fake = FakeResolver::default();
    let many = (0..2_000_u32).map(|n| IpAddr::from((0x0101_0000 + n).to_be_bytes())).collect();
    fake.then("a.example", Ok(many));
    let approved =
        fake.guard().approve(&destination("http://a.example"), &Exceptions::none()).await;
    assert_eq!(approved.expect("public").addresses().len(), ADDRESSES_MAX);
}

#[tokio::test]
async fn an_approval_is_kept_for_its_time_and_then_judged_anew() {
    let fake = FakeResolver::answering("a.example", &[&["1.1.1.1"], &["127.0.0.1"]]);
    let guard = fake.guard();
    let (to, none, start) = (destination("http://a.example"), Exceptions::none(), Instant::now());
    let last = start + APPROVAL_TTL - Duration::from_millis(1);
    for now in [start, start, last] {
        let approved = guard.approve_at(&to, &none, now).await.expect("public");
        assert_eq!(approved.addresses(), ["1.1.1.1:80".parse().expect("an address")]);
    }
    assert_eq!(fake.look_ups(), 1);
    assert!(guard.approve_at(&to, &none, start + APPROVAL_TTL).await.is_err());
    assert_eq!(fake.look_ups(), 2);
}

#[tokio::test]
async fn approvals_are_not_shared_between_exceptions() {
    let fake = FakeResolver::answering("a.example", &[&["10.0.0.1"]]);
    let guard = fake.guard();
    let to = destination("http://a.example");
    let private = guard.approve(&to, &allow_private()).await.expect("allowed");
    assert_eq!(private.passage(), &Passage::PrivateService);
    assert!(guard.approve(&to, &Exceptions::none()).await.is_err());
    let opened = guard.approve(&to, &opening("10.0.0.0/8")).await.expect("opened");
    assert!(matches!(opened.passage(), Passage::DangerAllow(_)));
    assert!(
        guard.approve(&destination("http://a.example:81"), &opening("a.example:80")).await.is_err()
    );
}

#[tokio::test]
async fn a_new_listener_or_blocked_name_ends_kept_approvals() {
    let fake = FakeResolver::answering("a.example", &[&["127.0.0.1"]]);
    let guard = fake.guard();
    let to = destination("http://a.example:8080");
    guard.approve(&to, &allow_private()).await.expect("allowed");
    guard.set_own_listeners(&["0.0.0.0:8080".parse().expect("an address")]);
    let result = guard.approve(&to, &allow_private()).await;
    assert!(
        matches!(result, Err(ApproveError::Blocked(Blocked::OwnListener { .. }))),
        "{result:?}"
    );

    let other = destination("http://a.example:8081");
    guard.approve(&other, &allow_private()).await.expect("allowed");
    guard.set_blocked_names(&BlockedNames::parse(&["a.example"]).expect("a list"));
    let result = guard.approve(&other, &allow_private()).await;
    assert!(matches!(result, Err(ApproveError::Blocked(Blocked::Name { .. }))), "{result:?}");
    let result = guard.approve(&destination("http://127.0.0.1:8080"), &allow_private()).await;
    assert!(
        matches!(result, Err(ApproveError::Blocked(Blocked::OwnListener { .. }))),
        "{result:?}"
    );
}

#[tokio::test]
async fn kept_approvals_are_bounded() {
    let guard = FakeResolver::default().guard();
    let start = Instant::now();
    let at = |n: usize, now| {
        let to = destination(&format!("http://1.1.{}.{}", n / 256, n % 256));
        let guard = &guard;
        async move { guard.approve_at(&to, &Exceptions::none(), now).await.expect("public") }
    };
    for n in 0..APPROVALS_MAX + 50 {
        at(n, start).await;
    }
    assert_eq!(guard.approvals_kept(), APPROVALS_MAX);
    at(5_000, start + APPROVAL_TTL).await;
    assert_eq!(guard.approvals_kept(), 1);
}

#[tokio::test]
async fn the_system_resolver_knows_this_machine() {
    let addresses = SystemResolver::new().resolve("localhost").await.expect("localhost");
    assert!(!addresses.is_empty() && addresses.iter().all(IpAddr::is_loopback), "{addresses:?}");
    let guard = Guard::new(SystemResolver::new(), BlockedNames::default());
    let approved = guard.approve(&destination("http://localhost:9"), &allow_private()).await;
    assert!(approved.is_ok(), "{approved:?}");
}
