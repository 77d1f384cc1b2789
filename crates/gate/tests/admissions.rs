//! Money under parallel admissions: exactly what fits is let through, over and over.
#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod fake;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use agentguard_core::rule::RuleType;
use agentguard_gate::{Gate, Outcome, Spent};
use serde_json::{Value, json};

/// 500 at once against room for exactly 100.
const CALLERS: usize = 500;
const ROOM: usize = 100;
const ROUNDS: usize = 1_000;

#[test]
fn parallel_admissions_against_one_budget_give_exactly_what_fits_a_thousand_times() {
    check(&[(RuleType::DailyBudget, json!({"limit": "100.00"}))]);
}

#[test]
fn parallel_admissions_against_several_scopes_give_exactly_what_fits_a_thousand_times() {
    check(&[
        (RuleType::DailyBudget, json!({"limit": "100.99"})),
        (RuleType::MonthlyBudget, json!({"limit": "100.00", "kill_at": 1})),
        (RuleType::RateLimitPerMinute, json!({"max": 1_000_000})),
        (RuleType::RateLimitPerDay, json!({"max": 130, "service": "stripe"})),
    ]);
}

#[test]
fn parallel_admissions_against_a_rate_give_exactly_what_fits_a_thousand_times() {
    check(&[(RuleType::RateLimitPerHour, json!({"max": ROOM}))]);
}

fn check(rules: &[(RuleType, Value)]) {
    for round in 0..ROUNDS {
        let (gate, memory) = fake::gate(rules);
        let permits = storm(&gate);
        assert_eq!(permits.len(), ROOM, "round {round}");
        let entry = fake::sole(&gate);
        let before = gate.spending(&entry);
        assert_eq!(before.day.reserved.to_string(), "100.00", "round {round}");
        // Some settle, some are released, some are dropped without a word.
        for (place, permit) in permits.into_iter().enumerate() {
            match place % 3 {
                0 => permit.settle(outcome(Spent::AsReserved)),
                1 => permit.settle(outcome(Spent::Nothing)),
                _ => drop(permit),
            }
        }
        let after = gate.spending(&entry);
        assert_eq!(
            (after.day.reserved.to_string(), after.day.used.to_string()),
            ("0.00".into(), "67.00".into())
        );
        assert_eq!(memory.rows.lock().len(), CALLERS, "every attempt has one row");
    }
}

/// Eight threads push 500 callers through at once.
fn storm(gate: &Gate) -> Vec<agentguard_gate::Permit> {
    let next = AtomicUsize::new(0);
    let won = parking_lot::Mutex::new(Vec::new());
    let caller = fake::caller(gate).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                while next.fetch_add(1, Ordering::Relaxed) < CALLERS {
                    let action = fake::dollars("1.00", gate);
                    let admitted = now(gate.admit(&caller, gate.request_id(action.at), action));
                    won.lock().extend(admitted.ok());
                }
            });
        }
    });
    won.into_inner()
}

fn outcome(spent: Spent) -> Outcome {
    Outcome { status: Some(200), spent, is_streaming: false, failure: None, facts: None }
}

/// Runs a future that never waits: the fake record syncs at once.
fn now<T>(future: impl Future<Output = T>) -> T {
    let mut future = std::pin::pin!(future);
    let waker = Arc::new(Quiet).into();
    match future.as_mut().poll(&mut std::task::Context::from_waker(&waker)) {
        std::task::Poll::Ready(value) => value,
        std::task::Poll::Pending => panic!("admission waited without I/O"),
    }
}

struct Quiet;

impl std::task::Wake for Quiet {
    fn wake(self: Arc<Self>) {}
}
