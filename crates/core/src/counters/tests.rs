//! Steps that the case files under `tests/decide/` cannot take.

use super::*;
use crate::action::{Amount, ApiFacts, Facts};
use crate::id::{RuleId, RuleSetId};
use crate::money::{Currency, Money, Rates};
use crate::policy::Surroundings;
use crate::rule::{RuleAction, RuleSpec, RuleType};

fn policy(kind: RuleType, params: &serde_json::Value) -> Policy {
    let spec = RuleSpec {
        id: RuleId(uuid::Uuid::from_u128(1)),
        rule_set_id: RuleSetId(uuid::Uuid::nil()),
        kind,
        enabled: true,
        action: RuleAction::Block,
        priority: 100,
        doors: None,
        params: params.as_object().unwrap().clone(),
    };
    let rates = std::sync::Arc::new(Rates::default());
    let around = Surroundings { zone: &Zone::UTC, rates, services: &[], version: 1 };
    Policy::compile(&[spec], &around).unwrap()
}

fn up_to(micros: i64) -> Action {
    let facts = ApiFacts {
        method: "POST".into(),
        masked_url: String::new(),
        host: "api.example.com".into(),
        service: None,
    };
    let money = Money::new(micros, Currency::USD).unwrap();
    Action { at: Timestamp::default(), facts: Facts::Api(facts), amount: Amount::UpTo(money) }
}

#[test]
fn a_guess_is_charged_but_nobody_is_told_that_it_is_much() {
    let params = serde_json::json!({"min_samples": 1, "factor": 2});
    let policy = policy(RuleType::AmountSpike, &params);
    let mut counters = Counters::new(Zone::UTC, Timestamp::default());
    let mut hold = || counters.admit(&up_to(900), &policy).unwrap().hold;
    let (first, second, third) = (hold(), hold(), hold());
    assert!(counters.settle(&first, MicroUsd::from_micros(10), &policy).is_empty());
    let guessed = counters.settle_guessed(&second, MicroUsd::from_micros(900), &policy);
    assert!(guessed.is_empty(), "{guessed:?}");
    // The average is 455 by now, the guess included: 900 is not above twice that, 911 is.
    let told = counters.settle(&third, MicroUsd::from_micros(911), &policy);
    assert!(matches!(told.as_slice(), [Consequence::Tell(_)]), "{told:?}");
    let meter = counters.meter(Period::Day);
    assert_eq!(meter.used(DoorSet::ALL).micros(), 1_821);
    assert_eq!(meter.reserved(DoorSet::ALL), MicroUsd::ZERO);
}
