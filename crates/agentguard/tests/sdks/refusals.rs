//! What a client makes of a refusal: its own type of error with the gate's sentence in it, and one
//! request for one call, with the retries that it comes with.

use std::collections::BTreeMap;

use ::http::Method;
use agentguard_testkit::{GateConfig, GateProcess, Upstream, http};
use serde_json::{Value, json};

use crate::client::{Client, Language, Vendor};
use crate::{OWN_KEY, rows};

pub(crate) const OPENAI_NODE: &str =
    concat!(include_str!("node/openai_refusals.mjs"), include_str!("node/refused.mjs"));

#[tokio::test]
async fn openai_python_hears_refusals_and_leaves_it() {
    let script =
        concat!(include_str!("python/refused.py"), include_str!("python/openai_refusals.py"));
    check(Client::python(Vendor::OpenAi), script).await;
}

#[tokio::test]
async fn openai_node_hears_refusals_and_leaves_it() {
    check(Client::node(Vendor::OpenAi), OPENAI_NODE).await;
}

#[tokio::test]
async fn anthropic_python_hears_refusals_and_leaves_it() {
    let script =
        concat!(include_str!("python/refused.py"), include_str!("python/anthropic_refusals.py"));
    check(Client::python(Vendor::Anthropic), script).await;
}

#[tokio::test]
async fn anthropic_node_hears_refusals_and_leaves_it() {
    let script =
        concat!(include_str!("node/anthropic_refusals.mjs"), include_str!("node/refused.mjs"));
    check(Client::node(Vendor::Anthropic), script).await;
}

#[tokio::test]
async fn stripe_python_hears_refusals_and_leaves_it() {
    let script =
        concat!(include_str!("python/refused.py"), include_str!("python/stripe_refusals.py"));
    check(Client::python(Vendor::Stripe), script).await;
}

#[tokio::test]
async fn stripe_node_hears_refusals_and_leaves_it() {
    let script = concat!(
        include_str!("node/stripe_refusals.mjs"),
        include_str!("node/stripe_connect.mjs"),
        include_str!("node/refused.mjs")
    );
    check(Client::node(Vendor::Stripe), script).await;
}

/// A call that is refused, by the name that the scripts know it by.
struct Scenario {
    name: &'static str,
    status: u16,
    code: &'static str,
    /// A piece of the gate's sentence.
    sentence: &'static str,
}

const fn case(
    name: &'static str,
    status: u16,
    code: &'static str,
    sentence: &'static str,
) -> Scenario {
    Scenario { name, status, code, sentence }
}

const RULED: Scenario = case("ruled", 403, "METHOD_RESTRICTED", "POST is not among GET");
const HOURLY: Scenario =
    case("hourly", 429, "RATE_LIMITED", "1 calls to `hourly` per hour are used up");
const NOWHERE: Scenario = case("nowhere", 403, "SERVICE_UNKNOWN", "no service of this name");
const STRANGER: Scenario = case("stranger", 401, "UNAUTHENTICATED", "no valid agent token");
const STOPPED: Scenario = case("stopped", 503, "KILL_SWITCH_GLOBAL", "all agents are stopped");
const BUDGET: Scenario = case("budget", 403, "DAILY_BUDGET_EXCEEDED", "5.00 USD left today");
const UNREADABLE: Scenario = case("unreadable", 403, "AMOUNT_UNREADABLE", "cannot be read");

const OF_MODELS: [Scenario; 5] = [RULED, HOURLY, NOWHERE, STRANGER, STOPPED];
const OF_STRIPE: [Scenario; 6] = [BUDGET, UNREADABLE, HOURLY, NOWHERE, STRANGER, STOPPED];

async fn check(client: Client, script: &str) {
    let (vendor, upstream) = (client.vendor, Upstream::start().await);
    let open = ruled_gate(vendor, &upstream).await;
    let stopped = GateProcess::start(env!("CARGO_BIN_EXE_agentguard"), GateConfig::new());
    stopped.serve("stopped", vendor.kind(), &upstream);
    stopped.cli_json(&["kill", "--reason", "a test", "--json"]);

    let scenarios = if vendor == Vendor::Stripe { &OF_STRIPE[..] } else { &OF_MODELS[..] };
    let unknown = format!("ag_live_{}", "x".repeat(32));
    let places: BTreeMap<&str, Value> = scenarios
        .iter()
        .map(|scenario| {
            let gate = if scenario.name == STOPPED.name { &stopped } else { &open };
            let key = if scenario.name == STRANGER.name { &unknown } else { OWN_KEY };
            (scenario.name, json!({"url": vendor.base_url(gate, scenario.name), "key": key}))
        })
        .collect();
    // Stripe's clients do not wait for a rate: they hear of it like of any refusal.
    let waits_at = match vendor {
        Vendor::OpenAi | Vendor::Anthropic => {
            json!({"url": vendor.base_url(&open, "minutely"), "key": OWN_KEY})
        }
        Vendor::Stripe => Value::Null,
    };
    let said = client.run(script, &[&json!(places).to_string(), &waits_at.to_string()]).await;

    let ways = said["heard"][NOWHERE.name].as_object().unwrap().len();
    // All scenarios but `stopped`, the two calls that filled the rates, and the one that waits.
    let wanted = ways * (scenarios.len() - 1) + 2 + usize::from(!waits_at.is_null());
    let rows = [rows(&open, wanted), rows(&stopped, ways)].concat();
    for scenario in scenarios {
        let heard = said["heard"][scenario.name].as_object().unwrap();
        for (way, heard) in heard {
            let message = heard["message"].as_str().unwrap_or_default();
            let shown = format!("{client:?} {} {way}: {heard}", scenario.name);
            assert_eq!(heard["class"], class(client, scenario.status), "{shown}");
            assert_eq!(heard["status"], scenario.status, "{shown}");
            assert!(message.contains(scenario.sentence), "{shown}");
        }
        let reached = count(&rows, scenario.code, |row| row["target_service"] != "minutely");
        assert_eq!(reached, heard.len(), "{client:?} {}: one request a call", scenario.name);
    }
    if !waits_at.is_null() {
        assert_eq!(said["waited"], "it waits", "{client:?}");
        let reached = count(&rows, HOURLY.code, |row| row["target_service"] == "minutely");
        assert_eq!(reached, 1, "{client:?}: it asks and then waits");
    }
    assert_eq!(upstream.stats().requests, 2, "only the two calls that filled the rates");
}

/// A gate that has a reason to refuse each scenario but `stopped`, its rates filled.
async fn ruled_gate(vendor: Vendor, upstream: &Upstream) -> GateProcess {
    let gate = GateProcess::start(env!("CARGO_BIN_EXE_agentguard"), GateConfig::new());
    for alias in ["ruled", "hourly", "minutely", "stranger", "budget", "unreadable"] {
        gate.serve(alias, vendor.kind(), upstream);
    }
    let mut rules = vec![
        ("method_restriction", ["allow=GET", "service=ruled"]),
        ("rate_limit_per_hour", ["max=1", "service=hourly"]),
        ("rate_limit_per_minute", ["max=1", "service=minutely"]),
    ];
    if vendor == Vendor::Stripe {
        rules.push(("daily_budget", ["limit=5.00", "warn_at=0.8"]));
    }
    for (kind, [one, two]) in rules {
        gate.cli_json(&["rule", "add", "--json", "--type", kind, "--param", one, "--param", two]);
    }
    for alias in ["hourly", "minutely"] {
        let url = format!("{}/v1/models", gate.proxy_url(alias));
        assert_eq!(http::request(Method::GET, &url, &[], "").await.status.as_u16(), 200);
    }
    gate
}

fn count(rows: &[Value], code: &str, also: impl Fn(&Value) -> bool) -> usize {
    rows.iter().filter(|row| row["block_reason"] == code && also(row)).count()
}

/// The client's own name for an answer with this status.
fn class(client: Client, status: u16) -> &'static str {
    match (client.vendor, client.language, status) {
        (Vendor::OpenAi | Vendor::Anthropic, _, 401) => "AuthenticationError",
        (Vendor::OpenAi | Vendor::Anthropic, _, 403) => "PermissionDeniedError",
        (Vendor::OpenAi | Vendor::Anthropic, _, 429) => "RateLimitError",
        (Vendor::OpenAi, _, 503) => "InternalServerError",
        (Vendor::Anthropic, _, 503) => "ServiceUnavailableError",
        (Vendor::Stripe, Language::Python, 401) => "AuthenticationError",
        (Vendor::Stripe, Language::Python, 403) => "PermissionError",
        (Vendor::Stripe, Language::Python, 429) => "RateLimitError",
        (Vendor::Stripe, Language::Python, 503) => "APIError",
        (Vendor::Stripe, Language::Node, 401) => "StripeAuthenticationError",
        (Vendor::Stripe, Language::Node, 403) => "StripePermissionError",
        (Vendor::Stripe, Language::Node, 429) => "StripeRateLimitError",
        (Vendor::Stripe, Language::Node, 503) => "StripeAPIError",
        (vendor, _, status) => unreachable!("no refusal of {vendor:?} has status {status}"),
    }
}
