//! What a first start begins with: one agent, and rules that let a first call through and little more.

use agentguard_core::rule::{RuleAction, RuleType};
use agentguard_core::service::{BUILT_IN, Service};
use serde_json::{Map, Value, json};

use crate::change::{AgentDraft, PolicyFile, RuleDraft, RuleSetDraft};

/// The name of the first agent and of the first rule set.
pub const DEFAULT: &str = "default";

/// The policy of a first start. Ceilings are low enough that a runaway agent costs a lunch, not a
/// month; operators raise them when they know what their agent needs.
pub fn first_policy() -> PolicyFile {
    let rules = vec![
        rule(RuleType::DailyBudget, RuleAction::AlertAndBlock, json!({"limit": "10.00"})),
        rule(RuleType::PerCallLimit, RuleAction::Block, json!({"limit": "5.00"})),
        rule(RuleType::RateLimitPerMinute, RuleAction::AlertAndBlock, json!({"max": 600})),
        rule(RuleType::AmountSpike, RuleAction::AlertAndBlock, json!({"min_samples": 20})),
        rule(RuleType::FrequencySpike, RuleAction::AlertAndBlock, json!({"min_per_minute": 60})),
        rule(RuleType::UnknownDomain, RuleAction::Alert, json!({})),
        rule(RuleType::NightAmount, RuleAction::Alert, json!({"threshold": "2.00"})),
        rule(RuleType::ConsecutiveFailure, RuleAction::Alert, json!({})),
        rule(RuleType::UpstreamDenials, RuleAction::Alert, json!({})),
    ];
    PolicyFile {
        version: 1,
        rule_sets: vec![RuleSetDraft { name: DEFAULT.to_owned(), rules }],
        services: built_in_services(),
        agents: vec![AgentDraft {
            name: DEFAULT.to_owned(),
            rule_set: DEFAULT.to_owned(),
            description: Some("made at the first start".to_owned()),
        }],
        prices: None,
    }
}

/// The services that need no setting up.
pub fn built_in_services() -> Vec<Service> {
    BUILT_IN
        .iter()
        .filter_map(|(alias, base_url, kind)| {
            Some(Service {
                alias: (*alias).to_owned(),
                base_url: base_url.parse().ok()?,
                kind: *kind,
                allow_private: false,
                insecure_skip_tls_verify: false,
                allow_websocket: false,
                ca_file: None,
                credential_env: None,
                timeout_sec: None,
                extractors: Vec::new(),
            })
        })
        .collect()
}

fn rule(kind: RuleType, action: RuleAction, params: Value) -> RuleDraft {
    let params = match params {
        Value::Object(map) => map,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            Map::new()
        }
    };
    RuleDraft {
        id: None,
        kind,
        enabled: true,
        action: Some(action),
        priority: 100,
        doors: None,
        params,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_built_in_service_is_valid_and_present() {
        let services = built_in_services();
        assert_eq!(services.len(), BUILT_IN.len());
        assert!(services.iter().all(|service| service.check().is_ok()));
    }
}
