//! `/metrics`: the format, what moves it, and what it never tells.

use agentguard_core::action::ApiFacts;
use agentguard_core::{Action, Amount, Facts, Reason, Refusal};
use agentguard_gate::{Actor, EventKind, Gate, PausedBy, Scope};
use agentguard_testkit::Scrape;
use axum::http::StatusCode;
use serde_json::json;

use crate::fakes::{Endpoint, HOST};

async fn page(endpoint: &Endpoint) -> String {
    let (status, headers, text) = endpoint.text("/metrics", HOST).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(headers.get("content-type").unwrap(), "text/plain; version=0.0.4; charset=utf-8");
    text
}

fn refuse(gate: &Gate, service: Option<&str>, reason: Reason) {
    let facts = ApiFacts {
        method: "POST".into(),
        masked_url: "https://inner.example/path-of-a-caller".into(),
        host: "inner.example".into(),
        service: service.map(Into::into),
    };
    let at = gate.now();
    let action = Action { at, facts: Facts::Api(facts), amount: Amount::Free };
    gate.refuse(None, gate.request_id(at), &action, &Refusal::plain(reason));
}

#[tokio::test]
async fn every_page_holds_to_the_format_and_every_family_is_there_from_the_start() {
    let endpoint = Endpoint::new();
    let scrape = Scrape::parse(&page(&endpoint).await);
    assert_eq!(scrape.count("agentguard_build_info", &[]), 1);
    assert_eq!(scrape.labels("agentguard_refusals_total", "code").len(), Reason::ALL.len());
    assert_eq!(scrape.labels("agentguard_alerts_total", "event").len(), EventKind::ALL.len());
    let services = scrape.labels("agentguard_actions_total", "service");
    assert_eq!(services, ["", "anthropic", "google-ads", "openai", "stripe"]);
    for name in [
        "agentguard_spent_usd_total",
        "agentguard_reserved_usd",
        "agentguard_permits_open",
        "agentguard_action_duration_seconds_bucket",
        "agentguard_streams_open",
        "agentguard_kill_switch",
        "agentguard_agents_stopped",
        "agentguard_record_queue_depth",
        "process_start_time_seconds",
    ] {
        assert!(scrape.has(name, &[]), "{name}");
    }
    assert_eq!(scrape.count("agentguard_record_rows_written_total", &[]), 42);
    assert_eq!(scrape.count("agentguard_record_queue_places", &[]), 7);
}

#[tokio::test]
async fn what_happens_moves_the_numbers() {
    let endpoint = Endpoint::new();
    let gate = &endpoint.gate;
    refuse(gate, Some("openai"), Reason::RateLimited);
    refuse(gate, Some("openai"), Reason::RateLimited);
    refuse(gate, None, Reason::Unauthenticated);
    gate.raise(EventKind::AuditIntegrityFailed, "x".to_owned(), json!({}));
    let agent = gate.directory().by_name("default").unwrap().agent.id;
    for scope in [Scope::Agent(agent), Scope::Global] {
        gate.stop(&Actor::Cli, scope, PausedBy::User, "a test".to_owned());
    }
    let scrape = Scrape::parse(&page(&endpoint).await);
    let actions = |service| {
        let labels = [("door", "api"), ("service", service), ("decision", "block")];
        scrape.count("agentguard_actions_total", &labels)
    };
    assert_eq!((actions("openai"), actions("")), (2, 1));
    let refusals = |code| scrape.count("agentguard_refusals_total", &[("code", code)]);
    assert_eq!((refusals("RATE_LIMITED"), refusals("UNAUTHENTICATED")), (2, 1));
    assert_eq!(scrape.count("agentguard_refusals_total", &[]), 3);
    let alerts = |event| scrape.count("agentguard_alerts_total", &[("event", event)]);
    assert_eq!((alerts("audit.integrity_failed"), alerts("system.kill_switch.on")), (1, 2));
    assert_eq!(scrape.count("agentguard_kill_switch", &[("scope", "global")]), 1);
    assert_eq!(scrape.count("agentguard_agents_stopped", &[]), 1);
}

#[tokio::test]
async fn callers_choose_no_label_and_nothing_private_is_told() {
    let endpoint = Endpoint::new();
    let body = json!({"name": "agent-of-somebody", "rule_set": "default"});
    endpoint.ok("POST", "/agents", body).await;
    for number in 0..100 {
        refuse(&endpoint.gate, Some(&format!("x{number}\"}} 1\nevil 1")), Reason::ServiceUnknown);
    }
    let text = page(&endpoint).await;
    let scrape = Scrape::parse(&text);
    assert_eq!(scrape.labels("agentguard_actions_total", "service").len(), 5);
    let nowhere = [("service", ""), ("decision", "block")];
    assert_eq!(scrape.count("agentguard_actions_total", &nowhere), 100);
    let tokens = [endpoint.token.as_str(), endpoint.agent_token.as_str()];
    for secret in tokens.into_iter().chain(["agent-of-somebody", "inner.example", "http", "evil"]) {
        assert!(!text.contains(secret), "`{secret}` in\n{text}");
    }
}

#[tokio::test]
async fn a_service_that_is_added_is_counted_and_one_that_is_removed_stays() {
    let endpoint = Endpoint::new();
    let service = json!({"base_url": "https://api.example.com", "kind": "generic"});
    endpoint.ok("PUT", "/services/mine", service).await;
    refuse(&endpoint.gate, Some("mine"), Reason::RateLimited);
    endpoint.ok("DELETE", "/services/mine", serde_json::Value::Null).await;
    let scrape = Scrape::parse(&page(&endpoint).await);
    assert_eq!(scrape.count("agentguard_actions_total", &[("service", "mine")]), 1);
}

#[tokio::test]
async fn a_page_that_was_pointed_here_by_its_own_name_reads_nothing() {
    let endpoint = Endpoint::new();
    let (status, _, text) = endpoint.text("/metrics", "evil.example:3000").await;
    assert_eq!(status, StatusCode::FORBIDDEN);
    assert!(!text.contains("agentguard_"), "{text}");
}
