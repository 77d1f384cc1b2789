//! A gate as operators run it: its release binary, agents with tokens, the first start's rules with
//! ceilings that a bench does not reach, and services that lead to the bench's upstream.

use std::net::SocketAddr;
use std::path::Path;

use agentguard_testkit::{GateConfig, GateProcess};
use serde_json::{Value, json};

/// Agents and rules of one import: the management endpoint takes no more at once.
const AGENTS_AN_IMPORT: usize = 1_000;

/// How much policy a gate has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    pub(crate) agents: usize,
    pub(crate) rules: usize,
}

/// A running gate and the tokens of its agents.
#[derive(Debug)]
pub(crate) struct Gated {
    pub(crate) gate: GateProcess,
    pub(crate) tokens: Vec<String>,
}

impl Gated {
    /// Starts it with services `plain` (generic) and `model` (openai).
    pub(crate) fn start(binary: &Path, upstream: SocketAddr, size: Size) -> Self {
        let gate = GateProcess::start(binary, GateConfig::new());
        let mut tokens = Vec::new();
        let names: Vec<String> = (0..size.agents).map(|number| format!("bench-{number}")).collect();
        for names in names.chunks(AGENTS_AN_IMPORT) {
            tokens.extend(import(&gate, &policy(upstream, size.rules, names)));
        }
        assert!(tokens.len() == size.agents, "each agent has its token");
        Self { gate, tokens }
    }
}

/// Imports a policy and returns the tokens of its new agents.
fn import(gate: &GateProcess, policy: &Value) -> Vec<String> {
    let file = gate.folder().join("policy.yaml");
    // JSON is YAML.
    std::fs::write(&file, policy.to_string()).expect("a policy file");
    let report = gate.cli_json(&["policy", "import", &file.display().to_string(), "--json"]);
    let added = report["agents_added"].as_array().expect("a list of new agents");
    added.iter().filter_map(|agent| Some(agent["token"].as_str()?.to_owned())).collect()
}

fn policy(upstream: SocketAddr, rules: usize, agents: &[String]) -> Value {
    let service = |alias, kind| json!({"alias": alias, "base_url": format!("http://{upstream}"), "kind": kind, "allow_private": true});
    let agents: Vec<_> =
        agents.iter().map(|name| json!({"name": name, "rule_set": "default"})).collect();
    json!({
        "version": 1,
        "rule_sets": [{"name": "default", "rules": rules_of(rules)}],
        "services": [service("plain", "generic"), service("model", "openai")],
        "agents": agents,
    })
}

/// The first start's nine rules and a monthly budget; beyond them, rules of four kinds in turn: two
/// that are looked at on every call, and two that mostly are not.
fn rules_of(count: usize) -> Vec<Value> {
    let rule = |kind: &str, params: Value| json!({"type": kind, "params": params});
    let mut rules = vec![
        rule("daily_budget", json!({"limit": "999999999"})),
        rule("monthly_budget", json!({"limit": "999999999"})),
        rule("per_call_limit", json!({"limit": "5.00"})),
        rule("rate_limit_per_minute", json!({"max": 1_000_000_000})),
        rule("amount_spike", json!({"min_samples": 20})),
        rule("frequency_spike", json!({"min_per_minute": 1_000_000_000})),
        rule("unknown_domain", json!({})),
        rule("night_amount", json!({"threshold": "2.00"})),
        rule("consecutive_failure", json!({})),
        rule("upstream_denials", json!({})),
    ];
    for number in rules.len()..count {
        let further = match number % 4 {
            0 => rule("domain_blacklist", json!({"domains": [format!("*.bad{number}.com")]})),
            1 => rule("rate_limit_per_hour", json!({"max": 900_000_000 + number})),
            2 => rule(
                "method_restriction",
                json!({"allow": ["GET"], "service": format!("other{number}")}),
            ),
            _ => rule("daily_budget", json!({"limit": format!("{}", 900_000_000 + number)})),
        };
        rules.push(further);
    }
    rules
}
