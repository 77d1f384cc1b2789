//! Virtual keys: the client's key is the agent's guard token, and the upstream sees the vendor's key,
//! which the gate holds.

use agentguard_testkit::{GateConfig, GateProcess, Upstream, process, python_task};
use serde_json::json;

use crate::client::{Client, Vendor};
use crate::flows::{self, Key};
use crate::{refusals, rows};

/// What the gate holds and no agent ever sees.
const STORED_KEY: &str = "sk-that-the-gate-holds";
const VARIABLE: &str = "TEST_UPSTREAM_KEY";

#[tokio::test]
async fn openai_python_needs_no_key_but_its_token() {
    with_token(flows::OPENAI_PYTHON).await;
}

#[tokio::test]
async fn openai_node_needs_no_key_but_its_token() {
    with_token(flows::OPENAI_NODE).await;
}

#[tokio::test]
async fn anthropic_python_needs_no_key_but_its_token() {
    with_token(flows::ANTHROPIC_PYTHON).await;
}

#[tokio::test]
async fn anthropic_node_needs_no_key_but_its_token() {
    with_token(flows::ANTHROPIC_NODE).await;
}

#[tokio::test]
async fn stripe_python_needs_no_key_but_its_token() {
    with_token(flows::STRIPE_PYTHON).await;
}

#[tokio::test]
async fn stripe_node_needs_no_key_but_its_token() {
    with_token(flows::STRIPE_NODE).await;
}

#[tokio::test]
async fn a_token_without_a_stored_key_is_refused_once_and_says_what_to_do() {
    let upstream = Upstream::start().await;
    let (gate, token) = start(Vendor::OpenAi, &upstream);
    gate.serve("keyless", "openai", &upstream);
    let client = Client::node(Vendor::OpenAi);
    let url = client.vendor.base_url(&gate, "keyless");
    let places = json!({"keyless": {"url": url, "key": token}}).to_string();
    let said = client.run(refusals::OPENAI_NODE, &[&places, "null"]).await;
    let heard = said["heard"]["keyless"].as_object().unwrap();
    for (way, heard) in heard {
        let message = heard["message"].as_str().unwrap_or_default();
        assert!(message.contains("agentguard service set keyless"), "{way}: {heard}");
    }
    assert_eq!(rows(&gate, heard.len()).len(), heard.len(), "one request a call");
    assert_eq!(upstream.stats().requests, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_sdk_takes_a_guard_token_for_a_key_and_the_upstream_sees_the_real_one() {
    let (gate, upstream) = crate::start("openai").await;
    for alias in ["openai", "anthropic", "stripe"] {
        gate.serve(alias, alias, &upstream);
        let set = ["service", "set", alias, "--credential-env", "REAL_KEY", "--json"];
        let output = gate.cli_with(&set, &[("REAL_KEY", &format!("sk-real-{alias}"))], "");
        assert!(output.status.success(), "{}", process::show(&output));
    }
    let added = gate.cli_json(&["agent", "add", "bot", "--json"]);
    let token = added["token"].as_str().unwrap().to_owned();
    let base = format!("http://{}/proxy", gate.proxy_addr());
    let script = include_str!("python/virtual_keys.py");
    let output = python_task(script, vec![base, token], Vec::new()).await;
    assert!(output.status.success(), "{}", process::show(&output));
    let seen: Vec<_> = upstream
        .requests()
        .iter()
        .map(|request| {
            let header = |name: &str| Some(request.headers.get(name)?.to_str().unwrap().to_owned());
            (header("authorization"), header("x-api-key"))
        })
        .collect();
    let bearer = |alias: &str| (Some(format!("Bearer sk-real-{alias}")), None);
    let key = (None, Some("sk-real-anthropic".to_owned()));
    assert_eq!(seen, [bearer("openai"), key, bearer("stripe")]);
    assert_eq!(upstream.stats().guard_tokens_seen, 0);
}

async fn with_token(flow: (Client, &str)) {
    let upstream = Upstream::start().await;
    let (gate, token) = start(flow.0.vendor, &upstream);
    flows::check(flow, &gate, &upstream, Key { given: &token, seen: STORED_KEY }).await;
}

/// A gate whose service holds a credential, and its agent's token.
fn start(vendor: Vendor, upstream: &Upstream) -> (GateProcess, String) {
    let config = GateConfig::new().env(VARIABLE, STORED_KEY);
    let gate = GateProcess::start(env!("CARGO_BIN_EXE_agentguard"), config);
    let kind = vendor.kind();
    gate.serve(kind, kind, upstream);
    gate.cli_json(&["service", "set", kind, "--credential-env", VARIABLE, "--json"]);
    let agent = gate.cli_json(&["agent", "rotate", "default", "--json"]);
    (gate, agent["token"].as_str().unwrap().to_owned())
}
