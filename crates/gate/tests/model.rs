//! The admission path under a scheduler that tries thousands of interleavings: reserve, settle, drop
//! and kill, on the code that ships.
#![expect(clippy::unwrap_used, reason = "a model fails by panicking")]

use std::sync::Arc;

use agentguard_core::action::ApiFacts;
use agentguard_core::hit::Period;
use agentguard_core::policy::Surroundings;
use agentguard_core::rule::{RuleSpec, RuleType};
use agentguard_core::time::Zone;
use agentguard_core::{
    Action, Amount, Counters, Currency, DoorSet, Facts, MicroUsd, Money, Policy, Rates, RuleId,
    RuleSetId, Timestamp,
};
use agentguard_gate::model::StopSlot;
use agentguard_gate::{Turned, Turnstile};
use serde_json::json;
use shuttle::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use shuttle::thread;
use uuid::Uuid;

const SCHEDULES: usize = 5_000;
const START: Timestamp = Timestamp::from_micros(1_763_294_400_000_000);

#[test]
fn no_schedule_overspends_and_nothing_stays_reserved() {
    shuttle::check_random(
        || {
            let world = World::new("2.00", "3.00");
            let most = Arc::new(AtomicUsize::new(0));
            let callers: Vec<_> = (0..4)
                .map(|caller| {
                    let (world, most) = (world.clone(), most.clone());
                    thread::spawn(move || {
                        let Ok((pass, ..)) = world.enter() else { return };
                        most.fetch_add(1, Ordering::SeqCst);
                        world.within_limits();
                        match caller % 3 {
                            0 => drop(pass.settle(pass_cost(), &world.policy)),
                            1 => drop(pass.settle(MicroUsd::ZERO, &world.policy)),
                            _ => drop(pass),
                        }
                        world.within_limits();
                    })
                })
                .collect();
            callers.into_iter().for_each(|caller| caller.join().unwrap());
            let counters = world.turnstile.snapshot();
            assert_eq!(counters.meter(Period::Day).reserved(DoorSet::ALL), MicroUsd::ZERO);
            assert_eq!(counters.meter(Period::Month).reserved(DoorSet::ALL), MicroUsd::ZERO);
            assert!(most.load(Ordering::SeqCst) >= 2, "room for two admits at least two of four");
        },
        SCHEDULES,
    );
}

#[test]
fn after_a_kill_returns_every_pass_knows_and_none_is_given() {
    for global in [true, false] {
        shuttle::check_random(
            move || {
                let world = World::new("100.00", "100.00");
                let killed = Arc::new(AtomicBool::new(false));
                let callers: Vec<_> = (0..3)
                    .map(|_| {
                        let (world, killed) = (world.clone(), killed.clone());
                        thread::spawn(move || {
                            let was_killed = killed.load(Ordering::SeqCst);
                            match world.enter() {
                                Ok((pass, ..)) => {
                                    assert!(
                                        !was_killed,
                                        "a pass was given after the kill returned"
                                    );
                                    // Either the kill has not returned yet, or the pass knows of it.
                                    let killed_now = killed.load(Ordering::SeqCst);
                                    assert!(
                                        !killed_now || pass.stopped().is_some(),
                                        "a pass missed the kill"
                                    );
                                    drop(pass.settle(MicroUsd::ZERO, &world.policy));
                                }
                                Err(Turned::Stopped(_)) => {}
                                Err(refused @ (Turned::Denied(_) | Turned::Stale)) => {
                                    panic!("{refused:?}")
                                }
                            }
                        })
                    })
                    .collect();
                let switch = if global { &*world.global } else { world.turnstile.switch() };
                switch.stop();
                killed.store(true, Ordering::SeqCst);
                callers.into_iter().for_each(|caller| caller.join().unwrap());
                let counters = world.turnstile.snapshot();
                assert_eq!(
                    counters.meter(Period::Day).reserved(DoorSet::ALL),
                    MicroUsd::ZERO,
                    "a refused pass gave its money back"
                );
            },
            SCHEDULES,
        );
    }
}

#[test]
fn a_resume_never_revives_what_was_stopped() {
    shuttle::check_random(
        || {
            let world = World::new("100.00", "100.00");
            let (pass, ..) = world.enter().unwrap_or_else(|_| panic!("nothing is stopped yet"));
            let other = world.clone();
            let resumer = thread::spawn(move || other.global.resume());
            world.global.stop();
            assert!(pass.stopped().is_some());
            resumer.join().unwrap();
            assert!(pass.stopped().is_some());
            drop(pass.settle(MicroUsd::ZERO, &world.policy));
        },
        SCHEDULES,
    );
}

#[derive(Clone)]
struct World {
    turnstile: Arc<Turnstile>,
    global: Arc<StopSlot>,
    policy: Arc<Policy>,
    day: MicroUsd,
    month: MicroUsd,
}

impl World {
    fn new(day: &str, month: &str) -> Self {
        let rules = [
            rule(1, RuleType::DailyBudget, &json!({"limit": day})),
            rule(2, RuleType::MonthlyBudget, &json!({"limit": month, "kill_at": 1})),
        ];
        let around = Surroundings {
            zone: &Zone::UTC,
            rates: Arc::new(Rates::default()),
            services: &[],
            version: 1,
        };
        Self {
            turnstile: Turnstile::new(Counters::new(Zone::UTC, START)),
            global: Arc::new(StopSlot::default()),
            policy: Arc::new(Policy::compile(&rules, &around).unwrap()),
            day: MicroUsd::parse(day).unwrap(),
            month: MicroUsd::parse(month).unwrap(),
        }
    }

    fn enter(&self) -> agentguard_gate::Entered {
        let action = Action {
            at: START,
            facts: Facts::Api(ApiFacts {
                method: "POST".into(),
                masked_url: String::new(),
                host: "a.com".into(),
                service: None,
            }),
            amount: Amount::Exact(Money::new(pass_cost().micros(), Currency::USD).unwrap()),
        };
        self.turnstile.enter(&self.global, &action, &self.policy)
    }

    fn within_limits(&self) {
        let counters = self.turnstile.snapshot();
        assert!(counters.meter(Period::Day).taken(DoorSet::ALL) <= self.day);
        assert!(counters.meter(Period::Month).taken(DoorSet::ALL) <= self.month);
    }
}

const fn pass_cost() -> MicroUsd {
    MicroUsd::from_micros(1_000_000)
}

fn rule(id: u128, kind: RuleType, params: &serde_json::Value) -> RuleSpec {
    RuleSpec {
        id: RuleId(Uuid::from_u128(id)),
        rule_set_id: RuleSetId(Uuid::nil()),
        kind,
        enabled: true,
        action: kind.default_action(),
        priority: 100,
        doors: None,
        params: params.as_object().unwrap().clone(),
    }
}
