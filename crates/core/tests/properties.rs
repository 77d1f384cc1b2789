//! What must hold for every policy and every sequence of actions.
#![expect(
    clippy::unwrap_used,
    reason = "a generator that makes an invalid case should stop the test loudly"
)]

use std::sync::Arc;

use agentguard_core::action::ApiFacts;
use agentguard_core::counters::Hold;
use agentguard_core::explain::{StepResult, explain};
use agentguard_core::hit::Period;
use agentguard_core::money::Money;
use agentguard_core::policy::Surroundings;
use agentguard_core::rule::{RuleAction, RuleSpec, RuleType};
use agentguard_core::time::Zone;
use agentguard_core::{
    Action, Amount, Counters, Currency, DoorSet, Facts, MicroUsd, Policy, Rates, RuleId, RuleSetId,
    Timestamp, Verdict, decide,
};
use proptest::prelude::*;
use serde_json::{Value, json};
use uuid::Uuid;

const START: i64 = 1_763_294_400_000_000;

proptest! {
    #[test]
    fn adding_a_blocking_rule_never_widens(
        rules in prop::collection::vec(rule(), 0..8),
        extra in rule(),
        actions in prop::collection::vec(action(), 1..30),
    ) {
        let mut wider = rules.clone();
        wider.push(RuleSpec { id: RuleId(Uuid::from_u128(999)), ..extra });
        let (before, after) = (compiled(&rules), compiled(&wider));
        let mut counters = Counters::new(Zone::UTC, Timestamp::from_micros(START));
        for action in actions {
            counters.advance(action.at);
            counters.align(&before);
            let narrow = matches!(decide(&action, &before, &counters), Verdict::Allow(_));
            counters.align(&after);
            let with_extra = matches!(decide(&action, &after, &counters), Verdict::Allow(_));
            prop_assert!(narrow || !with_extra, "a rule more let through what was refused");
            if let Ok(admitted) = counters.admit(&action, &before) {
                counters.settle(&admitted.hold, admitted.hold.cost, &before);
            }
        }
    }

    #[test]
    fn a_decision_is_what_looking_at_every_rule_gives(
        rules in prop::collection::vec(rule(), 0..12),
        actions in prop::collection::vec(action(), 1..10),
    ) {
        let policy = compiled(&rules);
        let mut counters = Counters::new(Zone::UTC, Timestamp::from_micros(START));
        for action in actions {
            counters.advance(action.at);
            counters.align(&policy);
            let explained = explain(&action, &policy, &counters);
            let first = explained.rules.iter().find(|step| step.result == StepResult::Refused);
            let refused_by = match decide(&action, &policy, &counters) {
                Verdict::Allow(_) => None,
                Verdict::Refuse(denied) => denied.rule.map(|(id, _)| id),
            };
            prop_assert_eq!(first.map(|step| step.rule_id), refused_by);
            if let Ok(admitted) = counters.admit(&action, &policy) {
                counters.settle(&admitted.hold, admitted.hold.cost, &policy);
            }
        }
    }

    #[test]
    fn used_and_reserved_never_pass_the_limit(
        limit in 1_u32..2_000,
        steps in prop::collection::vec((action(), 0_u8..4, 0_u32..=100), 1..120),
    ) {
        let limit = MicroUsd::from_micros(i64::from(limit) * 10_000);
        let budgets = [
            spec(1, RuleType::DailyBudget, &json!({"limit": limit.to_string()})),
            spec(2, RuleType::MonthlyBudget, &json!({"limit": limit.plus(limit).to_string()})),
        ];
        let policy = compiled(&budgets);
        let mut counters = Counters::new(Zone::UTC, Timestamp::from_micros(START));
        let mut open: Vec<Hold> = Vec::new();
        for (action, end, share) in steps {
            if let Ok(admitted) = counters.admit(&action, &policy) {
                open.push(admitted.hold);
            }
            if end == 0 && !open.is_empty() {
                let hold = open.swap_remove(open.len() / 2);
                let spent = MicroUsd::from_micros(hold.cost.micros() * i64::from(share) / 100);
                counters.settle(&hold, spent, &policy);
            } else if end == 1 && let Some(hold) = open.pop() {
                counters.settle_unknown(&hold);
            }
            prop_assert!(counters.meter(Period::Day).taken(DoorSet::ALL) <= limit);
            prop_assert!(counters.meter(Period::Month).taken(DoorSet::ALL) <= limit.plus(limit));
        }
        for hold in open.drain(..) {
            counters.settle(&hold, MicroUsd::ZERO, &policy);
        }
        prop_assert_eq!(counters.meter(Period::Day).reserved(DoorSet::ALL), MicroUsd::ZERO);
        prop_assert_eq!(counters.meter(Period::Month).reserved(DoorSet::ALL), MicroUsd::ZERO);
    }

    #[test]
    fn parameters_of_any_shape_compile_or_name_their_field(
        kind in prop::sample::select(RuleType::ALL.to_vec()),
        key in prop::sample::select(vec!["limit", "max", "domains", "allow", "start", "end", "factor", "oops"]),
        value in prop_oneof![
            Just(json!(null)), Just(json!(true)), Just(json!(-1)), Just(json!(1.5)), Just(json!("x")),
            Just(json!([])), Just(json!({})), Just(json!(u64::MAX)), any::<String>().prop_map(Value::from),
        ],
    ) {
        let mut rule = spec(1, kind, &json!({}));
        rule.params.insert(key.to_owned(), value);
        if let Err(error) = rule.compile(&Zone::UTC) {
            prop_assert!(error.to_string().contains("parameter `"), "{}", error);
        }
    }
}

fn rule() -> impl Strategy<Value = RuleSpec> {
    let place = 1_u128..900;
    prop_oneof![
        (place.clone(), 1_u32..500).prop_map(|(id, n)| spec(
            id,
            RuleType::PerCallLimit,
            &json!({"limit": n})
        )),
        (place.clone(), 1_u32..900).prop_map(|(id, n)| spec(
            id,
            RuleType::DailyBudget,
            &json!({"limit": n})
        )),
        (place.clone(), 1_u32..900).prop_map(|(id, n)| spec(
            id,
            RuleType::MonthlyBudget,
            &json!({"limit": n})
        )),
        (place.clone(), 1_u32..20).prop_map(|(id, n)| spec(
            id,
            RuleType::RateLimitPerMinute,
            &json!({"max": n})
        )),
        (place.clone(), 0_u8..4).prop_map(|(id, n)| spec(
            id,
            RuleType::DomainBlacklist,
            &json!({"domains": [host(n)]})
        )),
        (place.clone(), 0_u8..4).prop_map(|(id, n)| spec(
            id,
            RuleType::DomainWhitelist,
            &json!({"domains": [host(n)]})
        )),
        place.clone().prop_map(|id| spec(
            id,
            RuleType::MethodRestriction,
            &json!({"allow": ["GET"]})
        )),
        place.prop_map(|id| spec(id, RuleType::AmountSpike, &json!({"min_samples": 2}))),
    ]
}

fn action() -> impl Strategy<Value = Action> {
    (0_i64..90 * 86_400, 0_u8..4, any::<bool>(), 0_i64..50_000_000).prop_map(
        |(seconds, which, get, micros)| Action {
            at: Timestamp::from_micros(START + seconds * 1_000_000),
            facts: Facts::Api(ApiFacts {
                method: if get { "GET" } else { "POST" }.into(),
                masked_url: String::new(),
                host: host(which).into(),
                service: None,
            }),
            amount: Amount::UpTo(Money::new(micros, Currency::USD).unwrap()),
        },
    )
}

fn host(which: u8) -> String {
    format!("h{which}.example.com")
}

fn spec(id: u128, kind: RuleType, params: &Value) -> RuleSpec {
    RuleSpec {
        id: RuleId(Uuid::from_u128(id)),
        rule_set_id: RuleSetId(Uuid::nil()),
        kind,
        enabled: true,
        action: RuleAction::AlertAndBlock,
        priority: 100,
        doors: None,
        params: params.as_object().unwrap().clone(),
    }
}

fn compiled(rules: &[RuleSpec]) -> Policy {
    static VERSION: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);
    let version = VERSION.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let around = Surroundings {
        zone: &Zone::UTC,
        rates: Arc::new(Rates::default()),
        services: &[],
        version,
    };
    Policy::compile(rules, &around).unwrap()
}
