//! A client that hangs up in the middle of a stream: the upstream sees the end, and nothing stays
//! reserved.

use std::time::Duration;

use agentguard_testkit::upstream::StreamEnd;

use crate::client::{Client, Vendor};
use crate::{OWN_KEY, number, rows, start};

#[tokio::test]
async fn openai_python_hangs_up_and_the_upstream_sees_it() {
    check(Client::python(Vendor::OpenAi), include_str!("python/openai_hang_up.py")).await;
}

#[tokio::test]
async fn openai_node_hangs_up_and_the_upstream_sees_it() {
    check(Client::node(Vendor::OpenAi), include_str!("node/openai_hang_up.mjs")).await;
}

#[tokio::test]
async fn anthropic_python_hangs_up_and_the_upstream_sees_it() {
    check(Client::python(Vendor::Anthropic), include_str!("python/anthropic_hang_up.py")).await;
}

#[tokio::test]
async fn anthropic_node_hangs_up_and_the_upstream_sees_it() {
    check(Client::node(Vendor::Anthropic), include_str!("node/anthropic_hang_up.mjs")).await;
}

async fn check(client: Client, script: &str) {
    let kind = client.vendor.kind();
    let (gate, upstream) = start(kind).await;
    let said = client.run(script, &[&client.vendor.base_url(&gate, kind), OWN_KEY]).await;
    let streams = number(&said, "streams");
    assert!(number(&said, "heard") >= 2 * streams, "{said}");
    upstream.wait_open_streams(0, Duration::from_secs(20)).await;
    let ends: Vec<_> = upstream.streams().iter().map(|row| row.closed().unwrap().1).collect();
    assert_eq!(ends, vec![StreamEnd::Dropped; streams]);
    let rows = rows(&gate, number(&said, "calls"));
    assert_eq!(rows.len(), number(&said, "calls"), "{rows:#?}");
    assert_eq!(gate.reserved_today(), "0.00");
}
