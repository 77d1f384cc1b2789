//! What works without the gate works through it, and every call is on the record once.

use agentguard_testkit::{GateProcess, Upstream};

use crate::client::{Client, Vendor};
use crate::{OWN_KEY, start};

#[tokio::test]
async fn openai_python_chats_streams_and_embeds() {
    check(Client::python(Vendor::OpenAi), include_str!("python/openai_flow.py")).await;
}

#[tokio::test]
async fn openai_node_chats_streams_and_embeds() {
    check(Client::node(Vendor::OpenAi), include_str!("node/openai_flow.mjs")).await;
}

#[tokio::test]
async fn anthropic_python_talks_streams_and_counts() {
    check(Client::python(Vendor::Anthropic), include_str!("python/anthropic_flow.py")).await;
}

#[tokio::test]
async fn anthropic_node_talks_streams_and_counts() {
    check(Client::node(Vendor::Anthropic), include_str!("node/anthropic_flow.mjs")).await;
}

#[tokio::test]
async fn stripe_python_pays_refunds_and_lists() {
    check(Client::python(Vendor::Stripe), include_str!("python/stripe_flow.py")).await;
}

#[tokio::test]
async fn stripe_node_pays_refunds_and_lists() {
    let script =
        concat!(include_str!("node/stripe_flow.mjs"), include_str!("node/stripe_connect.mjs"));
    check(Client::node(Vendor::Stripe), script).await;
}

async fn check(client: Client, script: &str) {
    let kind = client.vendor.kind();
    let (gate, upstream) = start(kind).await;
    let said = client.run(script, &[&client.vendor.base_url(&gate, kind), OWN_KEY]).await;
    let calls = said["calls"].as_u64().unwrap();
    let rows = gate.record_rows();
    assert_eq!(rows.len() as u64, calls, "{rows:#?}");
    assert_eq!(upstream.stats().requests, calls);
    for row in &rows {
        assert_eq!((&row["decision"], &row["target_service"]), (&"allow".into(), &kind.into()));
    }
    let streamed = rows.iter().filter(|row| row["is_streaming"] == true).count() as u64;
    assert_eq!(streamed, said["streams"].as_u64().unwrap(), "{rows:#?}");
    let keys = upstream.requests().into_iter().filter(|seen| {
        let key = |name: &str| seen.headers.get(name).map(|value| value.as_bytes().to_owned());
        let key = key("authorization").or_else(|| key("x-api-key")).unwrap_or_default();
        key.ends_with(OWN_KEY.as_bytes())
    });
    assert_eq!(keys.count() as u64, calls, "the agent's own key passes");
    assert_eq!(gate.reserved_today(), "0.00");
    if client.vendor == Vendor::Stripe {
        check_money(&gate, &upstream);
    }
}

/// 10.00 charged, 7.00 by an intent, 0.50 transferred, 0.60 paid out, 3.00 charged under one key twice,
/// eight times 1.00. A second request under one key is counted by the gate, which keeps no keys.
fn check_money(gate: &GateProcess, upstream: &Upstream) {
    assert_eq!(upstream.stats().taken_minor, [("usd".to_owned(), 2_910)].into());
    assert_eq!(upstream.stats().replays, 1);
    assert_eq!(gate.spent_today(), "32.10");
}
