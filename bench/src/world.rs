//! A policy of ordinary size, actions put to it, and a gate whose ports do nothing.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use agentguard_core::action::ApiFacts;
use agentguard_core::policy::Surroundings;
use agentguard_core::rule::{RuleSpec, RuleType};
use agentguard_core::time::Zone;
use agentguard_core::token::PREFIX;
use agentguard_core::{
    Action, Agent, AgentStatus, Amount, Currency, Facts, Money, Policy, Rates, RuleId, RuleSetId,
    Timestamp,
};
use agentguard_gate::ports::{
    Accept, Durabilities, HourOfAgent, Record, RecordError, Registry, RegistryError, Ticket,
};
use agentguard_gate::{
    Actor, AgentRecord, AlertEvent, Caller, Change, Clock, Gate, IdSource, Intent, Knock,
    PolicyData, Presented, Row, RuleSet, Settings, SystemEvent,
};
use serde_json::{Value, json};
use uuid::Uuid;

/// A time in the middle of a day, so that nothing turns over while a bench runs.
pub(crate) const NOON: Timestamp = Timestamp::from_micros(1_763_294_400_000_000);

/// Thirty rules of every kind, none of which refuses [`charge`].
pub(crate) fn thirty_rules() -> Vec<RuleSpec> {
    let mut rules: Vec<(RuleType, Value)> = vec![
        (RuleType::MethodRestriction, json!({"allow": ["GET", "POST"]})),
        (
            RuleType::TimeWindowBlock,
            json!({"start": "03:00", "end": "03:01", "timezone": "Europe/Berlin"}),
        ),
        (RuleType::PerCallLimit, json!({"limit": "100000"})),
        (RuleType::DailyBudget, json!({"limit": "999999999"})),
        (RuleType::MonthlyBudget, json!({"limit": "999999999"})),
        (RuleType::RateLimitPerMinute, json!({"max": 1_000_000_000})),
        (RuleType::RateLimitPerHour, json!({"max": 1_000_000_000})),
        (RuleType::RateLimitPerDay, json!({"max": 1_000_000_000, "service": "stripe"})),
        (RuleType::DomainWhitelist, json!({"domains": ["api.stripe.com", "*.openai.com"]})),
        (RuleType::AmountSpike, json!({})),
        (RuleType::FrequencySpike, json!({"min_per_minute": 1_000_000_000})),
        (RuleType::UnknownDomain, json!({})),
        (RuleType::NightAmount, json!({"threshold": "100000"})),
        (RuleType::ConsecutiveFailure, json!({})),
        (RuleType::UpstreamDenials, json!({})),
    ];
    for number in 0..10 {
        rules.push((RuleType::DomainBlacklist, json!({"domains": [format!("*.bad{number}.com")]})));
    }
    for number in 0..5 {
        rules.push((
            RuleType::MethodRestriction,
            json!({"allow": ["GET"], "service": format!("other{number}")}),
        ));
    }
    rules.iter().enumerate().map(|(place, (kind, params))| spec(place, *kind, params)).collect()
}

/// Compiles rules.
pub(crate) fn compiled(rules: &[RuleSpec]) -> Policy {
    let services = agentguard_gate::defaults::built_in_services();
    let around = Surroundings {
        zone: &Zone::UTC,
        rates: Arc::new(Rates::default()),
        services: &services,
        version: 1,
    };
    Policy::compile(rules, &around).expect("the bench's rules compile")
}

/// A charge of one cent.
pub(crate) fn charge(at: Timestamp) -> Action {
    Action {
        at,
        facts: Facts::Api(ApiFacts {
            method: "POST".into(),
            masked_url: "https://api.stripe.com/v1/charges".into(),
            host: "api.stripe.com".into(),
            service: Some("stripe".into()),
        }),
        amount: Amount::Exact(Money::new(10_000, Currency::USD).expect("a cent is an amount")),
    }
}

/// A gate with one agent under these rules, over the given ports.
pub(crate) fn gate(rules: Vec<RuleSpec>, record: Arc<dyn Record>) -> Gate {
    let ids = IdSource::new().expect("randomness");
    let set = RuleSet { id: RuleSetId(Uuid::nil()), name: "default".into(), rules };
    let agent = Agent {
        id: ids.agent().expect("randomness"),
        name: "bench".into(),
        status: AgentStatus::Active,
        rule_set_id: set.id,
        created_at: NOON,
        last_seen_at: None,
        description: None,
    };
    let token_hash = ids.token(PREFIX).expect("randomness").hash();
    let data = PolicyData {
        agents: vec![AgentRecord { agent, token_hash }],
        rule_sets: vec![set],
        services: Vec::new(),
        stops: Vec::new(),
        prices: Vec::new(),
    };
    let settings = Settings {
        zone: Zone::UTC,
        rates: Arc::new(Rates::default()),
        prices: Arc::default(),
        allow_client_ips: vec!["127.0.0.0/8".parse().expect("a network")],
        durability: Durabilities::default(),
    };
    let clock = Clock::starting_after(None).0;
    Gate::open(settings, record, Arc::new(Fixed(data)), clock, ids)
        .expect("the bench's policy compiles")
}

/// The gate's only agent, having knocked.
pub(crate) fn caller(gate: &Gate) -> Caller {
    let knock = Knock {
        presented: Presented::Nothing,
        client_ip: [127, 0, 0, 1].into(),
        from_web_page: false,
    };
    gate.identify(&knock).expect("one agent needs no token")
}

/// A record that forgets: what is left is the cost of the gate itself.
#[derive(Debug)]
pub(crate) struct Nowhere;

impl Record for Nowhere {
    fn begin(&self, _: &Intent<'_>) -> Result<Ticket, RecordError> {
        Ok(Ticket { segment: 0, sequence: 0 })
    }

    fn synced<'a>(
        &'a self,
        _: &Ticket,
    ) -> Pin<Box<dyn Future<Output = Result<(), RecordError>> + Send + 'a>> {
        Box::pin(async { Ok(()) })
    }

    fn finish(&self, _: Ticket, row: Row) {
        std::hint::black_box(row);
    }

    fn refused(&self, row: Row) {
        std::hint::black_box(row);
    }

    fn event(&self, _: SystemEvent) {}

    fn alert(&self, _: &AlertEvent) {}
}

/// A registry that holds one policy.
#[derive(Debug)]
struct Fixed(PolicyData);

impl Registry for Fixed {
    fn load(&self) -> Result<PolicyData, RegistryError> {
        Ok(self.0.clone())
    }

    fn apply(
        &self,
        _: &Actor,
        _: Change,
        _: Timestamp,
        _: Accept,
    ) -> Result<PolicyData, RegistryError> {
        Ok(self.0.clone())
    }

    fn apply_soon(&self, _: &Actor, _: Change, _: Timestamp) {}

    fn history(&self, _: Timestamp) -> Result<Vec<HourOfAgent>, RegistryError> {
        Ok(Vec::new())
    }
}

fn spec(place: usize, kind: RuleType, params: &Value) -> RuleSpec {
    RuleSpec {
        id: RuleId(Uuid::from_u128(place as u128 + 1)),
        rule_set_id: RuleSetId(Uuid::nil()),
        kind,
        enabled: true,
        action: kind.default_action(),
        priority: 100,
        doors: None,
        params: params.as_object().expect("parameters are an object").clone(),
    }
}
