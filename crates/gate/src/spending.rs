//! What an agent spent, as operators see it.

use std::sync::Arc;

use agentguard_core::door::DoorSet;
use agentguard_core::hit::Period;
use agentguard_core::rule::Check;
use agentguard_core::{Counters, MicroUsd, Policy};
use serde::Serialize;

use crate::directory::Entry;

/// What an agent spent.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Spending {
    /// Today.
    pub day: SpendLine,
    /// This month.
    pub month: SpendLine,
}

/// One line of spending.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct SpendLine {
    /// Settled.
    pub used: MicroUsd,
    /// Set aside for what is under way.
    pub reserved: MicroUsd,
    /// The lowest budget, if there is one.
    pub limit: Option<MicroUsd>,
}

impl Spending {
    /// Out of an agent's counters, already moved on to now.
    pub(crate) fn of(entry: &Arc<Entry>, counters: &Counters) -> Self {
        let line = |period| SpendLine::of(&entry.policy, counters, period);
        Self { day: line(Period::Day), month: line(Period::Month) }
    }
}

impl SpendLine {
    fn of(policy: &Policy, counters: &Counters, period: Period) -> Self {
        let limits = policy.rules().iter().filter_map(|rule| match (&rule.check, period) {
            (Check::DailyBudget { limit, .. }, Period::Day)
            | (Check::MonthlyBudget { limit, .. }, Period::Month) => Some(*limit),
            (_, Period::Day | Period::Month) => None,
        });
        let meter = counters.meter(period);
        let all = DoorSet::ALL;
        Self { used: meter.used(all), reserved: meter.reserved(all), limit: limits.min() }
    }
}
