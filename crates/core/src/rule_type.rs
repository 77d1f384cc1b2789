//! The types of rules, and what a rule can do.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::door::{Door, DoorSet};

/// Every type of rule. The order is the order of evaluation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RuleType {
    /// Hosts that are never reached.
    DomainBlacklist,
    /// Methods that may be used.
    MethodRestriction,
    /// Hours in which nothing happens.
    TimeWindowBlock,
    /// A ceiling on one call.
    PerCallLimit,
    /// A ceiling on a day.
    DailyBudget,
    /// A ceiling on a month.
    MonthlyBudget,
    /// Calls in a minute.
    RateLimitPerMinute,
    /// Calls in an hour.
    RateLimitPerHour,
    /// Calls in a day.
    RateLimitPerDay,
    /// Hosts that may be reached, and no others.
    DomainWhitelist,
    /// Far more money in one call than is usual.
    AmountSpike,
    /// Far more calls in a minute than is usual.
    FrequencySpike,
    /// A host that is neither listed nor a service.
    UnknownDomain,
    /// Much money at night.
    NightAmount,
    /// Refused again and again.
    ConsecutiveFailure,
    /// Turned away by the upstream again and again.
    UpstreamDenials,
}

impl RuleType {
    /// Every type, in order of evaluation.
    pub const ALL: [Self; 16] = [
        Self::DomainBlacklist,
        Self::MethodRestriction,
        Self::TimeWindowBlock,
        Self::PerCallLimit,
        Self::DailyBudget,
        Self::MonthlyBudget,
        Self::RateLimitPerMinute,
        Self::RateLimitPerHour,
        Self::RateLimitPerDay,
        Self::DomainWhitelist,
        Self::AmountSpike,
        Self::FrequencySpike,
        Self::UnknownDomain,
        Self::NightAmount,
        Self::ConsecutiveFailure,
        Self::UpstreamDenials,
    ];

    /// Its name on the wire and in the store.
    pub const fn name(self) -> &'static str {
        match self {
            Self::DomainBlacklist => "domain_blacklist",
            Self::MethodRestriction => "method_restriction",
            Self::TimeWindowBlock => "time_window_block",
            Self::PerCallLimit => "per_call_limit",
            Self::DailyBudget => "daily_budget",
            Self::MonthlyBudget => "monthly_budget",
            Self::RateLimitPerMinute => "rate_limit_per_minute",
            Self::RateLimitPerHour => "rate_limit_per_hour",
            Self::RateLimitPerDay => "rate_limit_per_day",
            Self::DomainWhitelist => "domain_whitelist",
            Self::AmountSpike => "amount_spike",
            Self::FrequencySpike => "frequency_spike",
            Self::UnknownDomain => "unknown_domain",
            Self::NightAmount => "night_amount",
            Self::ConsecutiveFailure => "consecutive_failure",
            Self::UpstreamDenials => "upstream_denials",
        }
    }

    /// The type of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// What a rule of this type does when nobody says: stop it, but for those that only warn.
    pub const fn default_action(self) -> RuleAction {
        match self {
            Self::UnknownDomain | Self::NightAmount | Self::UpstreamDenials => RuleAction::Alert,
            Self::AmountSpike | Self::FrequencySpike | Self::ConsecutiveFailure => {
                RuleAction::AlertAndBlock
            }
            Self::DomainBlacklist
            | Self::MethodRestriction
            | Self::TimeWindowBlock
            | Self::PerCallLimit
            | Self::DailyBudget
            | Self::MonthlyBudget
            | Self::RateLimitPerMinute
            | Self::RateLimitPerHour
            | Self::RateLimitPerDay
            | Self::DomainWhitelist => RuleAction::Block,
        }
    }

    /// The doors at which it has a meaning.
    pub fn meaningful_doors(self) -> DoorSet {
        match self {
            Self::DomainBlacklist | Self::DomainWhitelist | Self::UnknownDomain => {
                DoorSet::of(&[Door::Api, Door::Web, Door::Browser, Door::Pipe])
            }
            Self::MethodRestriction => DoorSet::of(&[Door::Api, Door::Web]),
            Self::UpstreamDenials => DoorSet::of(&[Door::Api]),
            Self::TimeWindowBlock
            | Self::PerCallLimit
            | Self::DailyBudget
            | Self::MonthlyBudget
            | Self::RateLimitPerMinute
            | Self::RateLimitPerHour
            | Self::RateLimitPerDay
            | Self::AmountSpike
            | Self::FrequencySpike
            | Self::NightAmount
            | Self::ConsecutiveFailure => DoorSet::ALL,
        }
    }
}

impl fmt::Display for RuleType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What happens when a rule's condition is met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RuleAction {
    /// Refuse.
    Block,
    /// Let it through and tell.
    Alert,
    /// Refuse and tell.
    AlertAndBlock,
}

impl RuleAction {
    /// Whether it refuses.
    pub const fn blocks(self) -> bool {
        match self {
            Self::Block | Self::AlertAndBlock => true,
            Self::Alert => false,
        }
    }

    /// Whether it tells.
    pub const fn alerts(self) -> bool {
        match self {
            Self::Alert | Self::AlertAndBlock => true,
            Self::Block => false,
        }
    }

    /// Its name on the wire and in the store.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Block => "block",
            Self::Alert => "alert",
            Self::AlertAndBlock => "alert_and_block",
        }
    }

    /// The action of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Block, Self::Alert, Self::AlertAndBlock].into_iter().find(|a| a.name() == name)
    }
}
