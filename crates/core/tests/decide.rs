//! Decisions as data: each file under `tests/decide/` is a policy and the actions put to it, in order.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test's broken fixture should stop it loudly"
)]

use std::sync::Arc;

use agentguard_core::action::{ApiFacts, ExecFacts, Unpriced, WebFacts};
use agentguard_core::counters::Consequence;
use agentguard_core::money::{Money, parse_micros};
use agentguard_core::policy::Surroundings;
use agentguard_core::rule::{RuleSpec, RuleType};
use agentguard_core::service::{Service, ServiceKind};
use agentguard_core::time::Zone;
use agentguard_core::{
    Action, Amount, Counters, Currency, Facts, MicroUsd, Policy, Rates, Refusal, RuleId, RuleSetId,
    Timestamp, wire,
};
use uuid::Uuid;

#[test]
fn every_case_file_decides_as_it_says() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/decide");
    let mut files: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(files.len() >= 10, "the case files are gone");
    for file in files {
        check(&file.display().to_string(), &std::fs::read_to_string(&file).unwrap());
    }
}

/// Puts every `[[step]]` of a case to its rules and compares the whole answer with what it expects.
fn check(name: &str, text: &str) {
    let case: toml::Table = text.parse().unwrap_or_else(|error| panic!("{name}: {error}"));
    let policy = policy(name, &case);
    let start =
        time(case.get("start").and_then(toml::Value::as_str).unwrap_or("2026-11-16T12:00:00Z"));
    let mut counters = Counters::new(Zone::UTC, start);
    let mut at = start;
    for (number, step) in case.get("step").unwrap().as_array().unwrap().iter().enumerate() {
        let step = step.as_table().unwrap();
        at = step.get("at").map_or(at, |value| time(value.as_str().unwrap()));
        let times = step.get("times").map_or(1, |value| value.as_integer().unwrap());
        // `expect` is how the answer begins, `exactly` is all of it.
        let all = step.get("exactly").map(|value| value.as_str().unwrap());
        let expected = all.unwrap_or_else(|| step.get("expect").unwrap().as_str().unwrap());
        for _ in 0..times {
            let answer = put(&mut counters, &policy, &action(step, at), step);
            assert!(
                all.map_or(answer.starts_with(expected), |all| answer == all),
                "{name}, step {}:\n  expected {expected}\n  was      {answer}",
                number + 1
            );
        }
        if let Some(used) = step.get("used_today") {
            let meter = counters.meter(agentguard_core::hit::Period::Day);
            let all = agentguard_core::DoorSet::ALL;
            assert_eq!(
                meter.used(all).to_string(),
                used.as_str().unwrap(),
                "{name}, step {}",
                number + 1
            );
        }
    }
}

fn put(counters: &mut Counters, policy: &Policy, action: &Action, step: &toml::Table) -> String {
    match counters.admit(action, policy) {
        Ok(admitted) => {
            let spent = match step.get("settle").and_then(toml::Value::as_str) {
                Some("released") => MicroUsd::ZERO,
                Some(amount) => MicroUsd::parse(amount).unwrap(),
                None => admitted.hold.cost,
            };
            let mut text = "allow".to_owned();
            for raised in &admitted.allowed.raised {
                text += &format!(" alert[{}: {}]", raised.kind, raised.hit);
            }
            if let Some(risk) = &admitted.allowed.risk {
                text +=
                    &format!(" risk[{} {:?} {:?}]", risk.score, risk.level, risk.recommendation);
            }
            let mut consequences = counters.settle(&admitted.hold, spent, policy);
            if step.get("upstream_denied").is_some() {
                consequences.extend(counters.upstream_denied(action.at, policy));
            }
            text + &named(&consequences)
        }
        Err(rejected) => {
            let refusal = Refusal::from_denied(&rejected.denied, "bot", action.at);
            let code = wire::row(refusal.reason).code;
            let rule = rejected.denied.rule.map(|(id, _)| id.0.as_u128()).unwrap_or(0);
            let details = serde_json::to_string(&refusal.details).unwrap();
            format!(
                "{code} by rule {rule}: {} {details}{}",
                refusal.message,
                named(&rejected.consequences)
            )
        }
    }
}

fn named(consequences: &[Consequence]) -> String {
    let name = |consequence: &Consequence| match consequence {
        Consequence::Tell(raised) => format!(" tell[{}]", raised.hit),
        Consequence::StopAgent(cause, _) => format!(" stop agent[{cause:?}]"),
        Consequence::StopAll(_) => " stop all".to_owned(),
        Consequence::StopAgentForRisk => " stop agent[risk]".to_owned(),
    };
    consequences.iter().map(name).collect()
}

fn policy(name: &str, case: &toml::Table) -> Policy {
    let rules: Vec<RuleSpec> = case
        .get("rule")
        .and_then(toml::Value::as_array)
        .unwrap_or(&Vec::new())
        .iter()
        .enumerate()
        .map(|(place, rule)| spec(place, rule.as_table().unwrap()))
        .collect();
    let rates = case.get("rates").and_then(toml::Value::as_table).cloned().unwrap_or_default();
    let rates = rates.iter().map(|(code, rate)| {
        (Currency::parse(code).unwrap(), parse_micros(rate.as_str().unwrap()).unwrap())
    });
    let services =
        [service("stripe", "https://api.stripe.com"), service("openai", "https://api.openai.com")];
    let around = Surroundings {
        zone: &Zone::UTC,
        rates: Arc::new(Rates::new(rates).unwrap()),
        services: &services,
        version: 1,
    };
    Policy::compile(&rules, &around).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn spec(place: usize, rule: &toml::Table) -> RuleSpec {
    let kind = RuleType::from_name(rule.get("type").unwrap().as_str().unwrap()).unwrap();
    let json = |value: &toml::Value| serde_json::to_value(value.clone()).unwrap();
    let known = ["type", "action", "priority", "doors", "enabled"];
    RuleSpec {
        id: RuleId(Uuid::from_u128(place as u128 + 1)),
        rule_set_id: RuleSetId(Uuid::nil()),
        kind,
        enabled: rule.get("enabled").is_none_or(|value| value.as_bool().unwrap()),
        action: rule
            .get("action")
            .map_or(kind.default_action(), |value| serde_json::from_value(json(value)).unwrap()),
        priority: rule
            .get("priority")
            .map_or(100, |value| i32::try_from(value.as_integer().unwrap()).unwrap()),
        doors: rule.get("doors").map(|value| serde_json::from_value(json(value)).unwrap()),
        params: rule
            .iter()
            .filter(|(key, _)| !known.contains(&key.as_str()))
            .map(|(k, v)| (k.clone(), json(v)))
            .collect(),
    }
}

fn action(step: &toml::Table, at: Timestamp) -> Action {
    let text = |key: &str, default: &str| {
        step.get(key).map_or(default, |value| value.as_str().unwrap()).to_owned()
    };
    let host = text("host", "api.stripe.com");
    let facts = match text("door", "api").as_str() {
        "api" => Facts::Api(ApiFacts {
            method: text("method", "POST").into(),
            masked_url: format!("https://{host}/v1"),
            host: host.into(),
            service: Some(text("service", "stripe").into()),
        }),
        "web" => Facts::Web(WebFacts {
            method: "GET".into(),
            masked_url: format!("https://{host}/"),
            host: host.into(),
        }),
        "exec" => Facts::Exec(ExecFacts {
            host_id: "web-1".into(),
            command: "ls".into(),
            args: Vec::new(),
        }),
        other => panic!("no door `{other}` here"),
    };
    let amount = match step.get("amount").map(|value| value.as_str().unwrap()) {
        None => Amount::Free,
        Some("unreadable") => Amount::Unreadable(agentguard_core::action::Unreadable::Malformed),
        Some("unpriced") => Amount::Unpriced(Unpriced::Model("gpt-x".into())),
        Some(text) => {
            let (kind, text) = text.strip_prefix("up to ").map_or((0, text), |rest| (1, rest));
            let (number, code) = text.split_once(' ').unwrap_or((text, "USD"));
            let money =
                Money::new(parse_micros(number).unwrap(), Currency::parse(code).unwrap()).unwrap();
            if kind == 0 { Amount::Exact(money) } else { Amount::UpTo(money) }
        }
    };
    Action { at, facts, amount }
}

fn service(alias: &str, base_url: &str) -> Service {
    Service {
        alias: alias.into(),
        base_url: base_url.parse().unwrap(),
        kind: ServiceKind::Generic,
        allow_private: false,
        insecure_skip_tls_verify: false,
        allow_websocket: false,
        ca_file: None,
        credential_env: None,
        timeout_sec: None,
        extractors: Vec::new(),
    }
}

fn time(text: &str) -> Timestamp {
    Timestamp::parse_rfc3339(text).unwrap()
}
