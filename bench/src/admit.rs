//! Admission and settlement, without I/O.

use std::hint::black_box;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use agentguard_core::rule::RuleSpec;
use agentguard_gate::{Caller, Gate, Outcome, Permit, Spent};

use crate::measure::{Figure, nanos};
use crate::world::{Nowhere, caller, charge, gate, thirty_rules};

pub(crate) fn run() -> Vec<Figure> {
    let measured = |rules: Vec<RuleSpec>| {
        let gate = gate(rules, Arc::new(Nowhere));
        let caller = caller(&gate);
        nanos(21, 20_000, || admit(&gate, &caller).settle(outcome())) / 1_000.0
    };
    vec![
        Figure::new("admit + settle, no I/O, no rules", measured(Vec::new()), "µs", "no goal"),
        Figure::new("admit + settle, no I/O, 30 rules", measured(thirty_rules()), "µs", "≤ 5 µs"),
    ]
}

/// Admits one charge. The record takes it at once, so nothing waits.
pub(crate) fn admit(gate: &Gate, caller: &Caller) -> Permit {
    let at = gate.now();
    let admission = pin!(gate.admit(caller, gate.request_id(at), charge(at)));
    match admission.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(permit) => black_box(permit).expect("the bench's policy lets it through"),
        Poll::Pending => unreachable!("nothing to wait for"),
    }
}

pub(crate) fn outcome() -> Outcome {
    Outcome {
        status: Some(200),
        spent: Spent::AsReserved,
        is_streaming: false,
        failure: None,
        facts: None,
    }
}
