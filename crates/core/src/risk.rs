//! Risk: how far an action is from what is usual, and what to do about it.

use serde::{Deserialize, Serialize};

use crate::decide::Raised;
use crate::hit::Hit;
use crate::id::RuleId;
use crate::rule::{Rule, RuleType};

/// The assessment that goes with a decision that risk rules looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Risk {
    /// 0 to 100, higher is worse.
    pub score: u8,
    /// The score in words.
    pub level: Level,
    /// What raised it.
    pub factors: Vec<Factor>,
    /// What the rules ask for.
    pub recommendation: Recommendation,
}

/// The score in words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Below 25.
    Low,
    /// Below 50.
    Medium,
    /// Below 75.
    High,
    /// 75 and above.
    Critical,
}

/// What the rules ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Recommendation {
    /// Nothing unusual.
    Allow,
    /// Tell somebody.
    Alert,
    /// Refuse.
    Block,
}

/// One thing that is unusual.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Factor {
    /// The rule that saw it.
    pub rule_id: RuleId,
    /// Its type.
    #[serde(rename = "type")]
    pub kind: RuleType,
    /// What it adds to the score.
    pub score: u8,
    /// What was seen.
    pub detail: String,
}

impl Risk {
    /// Nothing unusual was seen.
    pub const fn none() -> Self {
        Self {
            score: 0,
            level: Level::Low,
            factors: Vec::new(),
            recommendation: Recommendation::Allow,
        }
    }

    pub(crate) fn add(&mut self, rule: &Rule, hit: &Hit) {
        let asked =
            if rule.action.blocks() { Recommendation::Block } else { Recommendation::Alert };
        self.count(rule.id, rule.check.rule_type(), hit, asked);
    }

    /// Adds what a risk rule saw when the action had ended: nothing is left to be refused.
    pub fn add_afterwards(&mut self, raised: &Raised) {
        if is_risk(raised.kind) {
            self.count(raised.rule_id, raised.kind, &raised.hit, Recommendation::Alert);
        }
    }

    fn count(&mut self, rule_id: RuleId, kind: RuleType, hit: &Hit, asked: Recommendation) {
        let score = hit.risk_score();
        self.score = self.score.saturating_add(score).min(100);
        self.level = Level::of(self.score);
        self.recommendation = self.recommendation.max(asked);
        self.factors.push(Factor { rule_id, kind, score, detail: hit.to_string() });
    }
}

impl Level {
    /// The level of a score.
    pub const fn of(score: u8) -> Self {
        match score {
            0..25 => Self::Low,
            25..50 => Self::Medium,
            50..75 => Self::High,
            75.. => Self::Critical,
        }
    }
}

/// Whether the rule judges risk rather than permission.
pub const fn is_risk(kind: RuleType) -> bool {
    match kind {
        RuleType::AmountSpike
        | RuleType::FrequencySpike
        | RuleType::UnknownDomain
        | RuleType::NightAmount => true,
        RuleType::DomainBlacklist
        | RuleType::MethodRestriction
        | RuleType::TimeWindowBlock
        | RuleType::PerCallLimit
        | RuleType::DailyBudget
        | RuleType::MonthlyBudget
        | RuleType::RateLimitPerMinute
        | RuleType::RateLimitPerHour
        | RuleType::RateLimitPerDay
        | RuleType::DomainWhitelist
        | RuleType::ConsecutiveFailure
        | RuleType::UpstreamDenials => false,
    }
}
