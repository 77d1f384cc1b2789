//! Alerts: what people are told. Delivery is somebody else's work; here they are made and thinned.

use std::collections::HashMap;

use agentguard_core::rule::RuleType;
use agentguard_core::{AgentId, Timestamp};
use parking_lot::Mutex;
use serde::Serialize;
use serde_json::Value;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Good to know.
    Info,
    /// Look at it.
    Warning,
    /// Look at it now.
    Critical,
}

impl Severity {
    /// Its name on the wire and in the store.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Critical => "critical",
        }
    }
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names are those of 70-operate.md, \"Alerts\"")]
pub enum EventKind {
    BudgetWarning,
    BudgetExceeded,
    RateLimitTriggered,
    RiskAnomalyDetected,
    RiskUnknownDomain,
    RiskAmountSpike,
    KillSwitchOn,
    KillSwitchOff,
    AgentAutoPaused,
    ProxyError,
    AuditIntegrityFailed,
}

impl EventKind {
    /// Every one.
    pub const ALL: [Self; 11] = [
        Self::BudgetWarning,
        Self::BudgetExceeded,
        Self::RateLimitTriggered,
        Self::RiskAnomalyDetected,
        Self::RiskUnknownDomain,
        Self::RiskAmountSpike,
        Self::KillSwitchOn,
        Self::KillSwitchOff,
        Self::AgentAutoPaused,
        Self::ProxyError,
        Self::AuditIntegrityFailed,
    ];

    /// Its name on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            Self::BudgetWarning => "budget.warning",
            Self::BudgetExceeded => "budget.exceeded",
            Self::RateLimitTriggered => "rate.limit.triggered",
            Self::RiskAnomalyDetected => "risk.anomaly.detected",
            Self::RiskUnknownDomain => "risk.unknown.domain",
            Self::RiskAmountSpike => "risk.amount.spike",
            Self::KillSwitchOn => "system.kill_switch.on",
            Self::KillSwitchOff => "system.kill_switch.off",
            Self::AgentAutoPaused => "agent.auto_paused",
            Self::ProxyError => "proxy.error",
            Self::AuditIntegrityFailed => "audit.integrity_failed",
        }
    }

    /// The event that a rule's hit is told as.
    pub(crate) const fn of_rule(kind: RuleType, hit: &agentguard_core::hit::Hit) -> Self {
        use agentguard_core::hit::Hit;
        if matches!(hit, Hit::BudgetWarning { .. }) {
            return Self::BudgetWarning;
        }
        match kind {
            RuleType::DailyBudget | RuleType::MonthlyBudget | RuleType::PerCallLimit => {
                Self::BudgetExceeded
            }
            RuleType::RateLimitPerMinute
            | RuleType::RateLimitPerHour
            | RuleType::RateLimitPerDay => Self::RateLimitTriggered,
            RuleType::UnknownDomain => Self::RiskUnknownDomain,
            RuleType::AmountSpike => Self::RiskAmountSpike,
            RuleType::DomainBlacklist
            | RuleType::MethodRestriction
            | RuleType::TimeWindowBlock
            | RuleType::DomainWhitelist
            | RuleType::FrequencySpike
            | RuleType::NightAmount
            | RuleType::ConsecutiveFailure
            | RuleType::UpstreamDenials => Self::RiskAnomalyDetected,
        }
    }

    pub(crate) const fn severity(self) -> Severity {
        match self {
            Self::KillSwitchOff => Severity::Info,
            Self::BudgetWarning
            | Self::RateLimitTriggered
            | Self::RiskUnknownDomain
            | Self::ProxyError => Severity::Warning,
            Self::BudgetExceeded
            | Self::RiskAnomalyDetected
            | Self::RiskAmountSpike
            | Self::KillSwitchOn
            | Self::AgentAutoPaused
            | Self::AuditIntegrityFailed => Severity::Critical,
        }
    }
}

impl Serialize for EventKind {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// An alert, as channels send it.
#[derive(Clone, Debug, Serialize)]
pub struct AlertEvent {
    /// What happened.
    pub event: EventKind,
    /// How bad it is.
    pub severity: Severity,
    /// To whom, if it is about one agent.
    pub agent_id: Option<AgentId>,
    /// By name.
    pub agent_name: Option<String>,
    /// In words.
    pub message: String,
    /// When.
    pub timestamp: Timestamp,
    /// In numbers; `held_back` counts the like that were not sent since the last one.
    pub details: Value,
}

/// The same event for the same agent goes out once in this time.
const QUIET_MICROS: i64 = 300_000_000;

/// When the last one went out, and how many were held back since.
type LastSent = (Timestamp, u64);

/// Holds back repetitions, and counts them.
#[derive(Debug, Default)]
pub(crate) struct Thinner {
    last: Mutex<HashMap<(Option<AgentId>, EventKind), LastSent>>,
}

impl Thinner {
    /// How many were held back since the last one that went out; `None` if this one is held back.
    pub(crate) fn pass(
        &self,
        agent: Option<AgentId>,
        event: EventKind,
        at: Timestamp,
    ) -> Option<u64> {
        let mut last = self.last.lock();
        let entry = last.entry((agent, event)).or_insert((Timestamp::from_micros(i64::MIN), 0));
        if at.micros_since(entry.0) < QUIET_MICROS {
            entry.1 = entry.1.saturating_add(1);
            return None;
        }
        let held = entry.1;
        *entry = (at, 0);
        Some(held)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repetitions_are_held_back_for_300_s_and_counted_in_the_next() {
        let thinner = Thinner::default();
        let at = |sec: i64| Timestamp::from_micros(1_700_000_000_000_000 + sec * 1_000_000);
        let pass = |sec| thinner.pass(None, EventKind::ProxyError, at(sec));
        assert_eq!((pass(0), pass(1), pass(299)), (Some(0), None, None));
        assert_eq!((pass(300), pass(301)), (Some(2), None));
        assert_eq!(thinner.pass(None, EventKind::KillSwitchOn, at(301)), Some(0));
    }
}
