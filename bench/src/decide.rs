//! One decision.

use std::hint::black_box;

use agentguard_core::time::Zone;
use agentguard_core::{Counters, decide};

use crate::measure::{Figure, nanos};
use crate::world::{NOON, charge, compiled, thirty_rules};

pub(crate) fn run() -> Vec<Figure> {
    let action = charge(NOON);
    let rules = thirty_rules();
    [(1, "no goal"), (30, "≤ 2 µs"), (300, "no goal")]
        .into_iter()
        .map(|(count, goal)| {
            let policy = compiled(&rules.iter().cycle().take(count).cloned().collect::<Vec<_>>());
            let mut counters = Counters::new(Zone::UTC, NOON);
            counters.align(&policy);
            let each = nanos(21, 20_000, || {
                black_box(decide(black_box(&action), &policy, &counters));
            });
            Figure::new(format!("decide, {count} rules"), each / 1_000.0, "µs", goal)
        })
        .collect()
}
