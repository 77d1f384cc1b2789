//! What works without the gate works through it, and every call is on the record once.

use agentguard_testkit::{GateProcess, Upstream};

use crate::client::{Client, Vendor};
use crate::{OWN_KEY, number, rows, start};

/// Clients with the scripts of what they do all day.
pub(crate) const OPENAI_PYTHON: (Client, &str) =
    (Client::python(Vendor::OpenAi), include_str!("python/openai_flow.py"));
pub(crate) const OPENAI_NODE: (Client, &str) =
    (Client::node(Vendor::OpenAi), include_str!("node/openai_flow.mjs"));
pub(crate) const ANTHROPIC_PYTHON: (Client, &str) =
    (Client::python(Vendor::Anthropic), include_str!("python/anthropic_flow.py"));
pub(crate) const ANTHROPIC_NODE: (Client, &str) =
    (Client::node(Vendor::Anthropic), include_str!("node/anthropic_flow.mjs"));
pub(crate) const STRIPE_PYTHON: (Client, &str) =
    (Client::python(Vendor::Stripe), include_str!("python/stripe_flow.py"));
pub(crate) const STRIPE_NODE: (Client, &str) = (
    Client::node(Vendor::Stripe),
    concat!(include_str!("node/stripe_flow.mjs"), include_str!("node/stripe_connect.mjs")),
);

/// What the client is given as its key, and what the upstream must see in its place.
#[derive(Clone, Copy)]
pub(crate) struct Key<'a> {
    pub(crate) given: &'a str,
    pub(crate) seen: &'a str,
}

#[tokio::test]
async fn openai_python_chats_streams_and_embeds() {
    with_own_key(OPENAI_PYTHON).await;
}

#[tokio::test]
async fn openai_node_chats_streams_and_embeds() {
    with_own_key(OPENAI_NODE).await;
}

#[tokio::test]
async fn anthropic_python_talks_streams_and_counts() {
    with_own_key(ANTHROPIC_PYTHON).await;
}

#[tokio::test]
async fn anthropic_node_talks_streams_and_counts() {
    with_own_key(ANTHROPIC_NODE).await;
}

#[tokio::test]
async fn stripe_python_pays_refunds_and_lists() {
    with_own_key(STRIPE_PYTHON).await;
}

#[tokio::test]
async fn stripe_node_pays_refunds_and_lists() {
    with_own_key(STRIPE_NODE).await;
}

/// The agent holds the vendor's key and is known to the gate as the only agent.
async fn with_own_key((client, script): (Client, &str)) {
    let (gate, upstream) = start(client.vendor.kind()).await;
    let key = Key { given: OWN_KEY, seen: OWN_KEY };
    check((client, script), &gate, &upstream, key).await;
}

/// Runs the script and compares what it did with the gate's record and with what the upstream saw.
pub(crate) async fn check(
    (client, script): (Client, &str),
    gate: &GateProcess,
    upstream: &Upstream,
    key: Key<'_>,
) {
    let kind = client.vendor.kind();
    let said = client.run(script, &[&client.vendor.base_url(gate, kind), key.given]).await;
    let calls = number(&said, "calls");
    let rows = rows(gate, calls);
    assert_eq!(rows.len(), calls, "{rows:#?}");
    assert_eq!(upstream.stats().requests, calls as u64);
    for row in &rows {
        assert_eq!((&row["decision"], &row["target_service"]), (&"allow".into(), &kind.into()));
    }
    let streamed = rows.iter().filter(|row| row["is_streaming"] == true).count();
    assert_eq!(streamed, number(&said, "streams"), "{rows:#?}");
    let keys = upstream.requests().into_iter().filter(|seen| {
        let value = |name: &str| seen.headers.get(name).map(|value| value.as_bytes().to_owned());
        let found = value("authorization").or_else(|| value("x-api-key")).unwrap_or_default();
        found.ends_with(key.seen.as_bytes())
    });
    assert_eq!(keys.count(), calls, "the upstream sees the vendor's key");
    assert_eq!(upstream.stats().guard_tokens_seen, 0);
    assert_eq!(gate.reserved_today(), "0.00");
    if client.vendor == Vendor::Stripe {
        check_money(gate, upstream);
    }
}

/// 10.00 charged, 7.00 by an intent, 0.50 transferred, 0.60 paid out, 3.00 charged under one key twice,
/// eight times 1.00. A second request under one key is counted by the gate, which keeps no keys.
fn check_money(gate: &GateProcess, upstream: &Upstream) {
    assert_eq!(upstream.stats().taken_minor, [("usd".to_owned(), 2_910)].into());
    assert_eq!(upstream.stats().replays, 1);
    assert_eq!(gate.spent_today(), "32.10");
}
