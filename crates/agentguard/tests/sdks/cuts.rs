//! A stop in the middle of a stream: the client raises. An answer that was cut must not pass for a
//! whole one, and the client must not ask for it again.

use std::time::Duration;

use crate::client::{Client, Vendor};
use crate::{OWN_KEY, rows, start};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn openai_python_sees_that_its_stream_was_cut() {
    check(Client::python(Vendor::OpenAi), include_str!("python/openai_cut.py")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn openai_node_sees_that_its_stream_was_cut() {
    check(Client::node(Vendor::OpenAi), include_str!("node/openai_cut.mjs")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn anthropic_python_sees_that_its_stream_was_cut() {
    check(Client::python(Vendor::Anthropic), include_str!("python/anthropic_cut.py")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn anthropic_node_sees_that_its_stream_was_cut() {
    check(Client::node(Vendor::Anthropic), include_str!("node/anthropic_cut.mjs")).await;
}

async fn check(client: Client, script: &str) {
    let kind = client.vendor.kind();
    let (gate, upstream) = start(kind).await;
    let base_url = client.vendor.base_url(&gate, kind);
    let args = [base_url.as_str(), OWN_KEY];
    let stop = async {
        upstream.wait_open_streams(1, Duration::from_secs(60)).await;
        gate.cli_json(&["kill", "--reason", "a test", "--json"]);
        upstream.wait_open_streams(0, Duration::from_secs(20)).await;
    };
    let (said, ()) = tokio::join!(client.run(script, &args), stop);
    assert!(said["raised"].is_string(), "{client:?} took a cut stream for a whole one: {said}");
    let rows = rows(&gate, 1);
    assert_eq!(rows.len(), 1, "{client:?} asked again: {rows:#?}");
    assert_eq!(gate.reserved_today(), "0.00");
}
