//! Rules: as they are written, and as they are compiled. One compiler for file, API and CLI.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use thiserror::Error;

use crate::domain::DomainSet;
use crate::door::{Door, DoorSet};
use crate::hit::Period;
use crate::id::{RuleId, RuleSetId};
use crate::limits::{BASELINE_DAYS_MAX, RATE_MAX};
use crate::money::{MicroUsd, Ppm};
pub use crate::params::ParamError;
use crate::params::Params;
pub use crate::rule_type::{RuleAction, RuleType};
use crate::time::{DAY_MICROS, DailyWindow, HOUR_MICROS, MINUTE_MICROS, Zone};

/// A rule as it is written, stored and shown.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuleSpec {
    /// Named in every refusal.
    pub id: RuleId,
    /// The set it belongs to.
    pub rule_set_id: RuleSetId,
    /// What it looks at.
    #[serde(rename = "type")]
    pub kind: RuleType,
    /// Whether it is in force.
    pub enabled: bool,
    /// What it does.
    pub action: RuleAction,
    /// Small first, within a type.
    pub priority: i32,
    /// None means every door where it has a meaning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub doors: Option<Vec<Door>>,
    /// Its parameters.
    pub params: Map<String, Value>,
}

/// A window that rate limits count in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RateWindow {
    /// Sixty seconds.
    Minute,
    /// Sixty minutes.
    Hour,
    /// Twenty-four hours.
    Day,
}

impl RateWindow {
    /// Its length.
    pub const fn micros(self) -> i64 {
        match self {
            Self::Minute => MINUTE_MICROS,
            Self::Hour => HOUR_MICROS,
            Self::Day => DAY_MICROS,
        }
    }

    /// For messages: calls "per minute".
    pub const fn noun(self) -> &'static str {
        match self {
            Self::Minute => "minute",
            Self::Hour => "hour",
            Self::Day => "day",
        }
    }
}

/// What a rate limit counts. Rules of one shape share a window, so that changing a rule's number
/// does not forget the calls already made.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RateKey {
    /// In which window.
    pub window: RateWindow,
    /// Calls to which service; none means all.
    pub service: Option<Arc<str>>,
    /// Through which doors.
    pub doors: DoorSet,
}

/// A rule that was checked and can be evaluated.
#[derive(Clone, Debug)]
pub struct Rule {
    /// Named in every refusal.
    pub id: RuleId,
    /// What it does.
    pub action: RuleAction,
    /// Small first, within a type.
    pub priority: i32,
    /// Where it applies.
    pub doors: DoorSet,
    /// Its type with its parameters.
    pub check: Check,
}

/// What a compiled rule looks at.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the fields are the parameters of 10-gate.md, by the same names")]
pub enum Check {
    DomainBlacklist { domains: DomainSet },
    MethodRestriction { allow: Vec<String>, service: Option<Arc<str>> },
    TimeWindowBlock { window: DailyWindow },
    PerCallLimit { limit: MicroUsd },
    DailyBudget { limit: MicroUsd, warn_at: Ppm },
    MonthlyBudget { limit: MicroUsd, warn_at: Ppm, kill_at: Ppm },
    RateLimit { max: u32, key: RateKey, slot: usize },
    DomainWhitelist { domains: DomainSet },
    AmountSpike { factor_micros: i64, window_days: u32, min_samples: u32 },
    FrequencySpike { factor_micros: i64, min_per_minute: u32 },
    UnknownDomain,
    NightAmount { threshold: MicroUsd, window: DailyWindow },
    ConsecutiveFailure { count: u32 },
    UpstreamDenials { count: u32, window_sec: u32 },
}

impl Check {
    /// The money that it allows: in a day or month, or to one call.
    pub const fn allowance(&self) -> Option<(Option<Period>, MicroUsd)> {
        match self {
            Self::PerCallLimit { limit } => Some((None, *limit)),
            Self::DailyBudget { limit, .. } => Some((Some(Period::Day), *limit)),
            Self::MonthlyBudget { limit, .. } => Some((Some(Period::Month), *limit)),
            Self::DomainBlacklist { .. }
            | Self::MethodRestriction { .. }
            | Self::TimeWindowBlock { .. }
            | Self::RateLimit { .. }
            | Self::DomainWhitelist { .. }
            | Self::AmountSpike { .. }
            | Self::FrequencySpike { .. }
            | Self::UnknownDomain
            | Self::NightAmount { .. }
            | Self::ConsecutiveFailure { .. }
            | Self::UpstreamDenials { .. } => None,
        }
    }

    /// The type this came from.
    pub const fn rule_type(&self) -> RuleType {
        match self {
            Self::DomainBlacklist { .. } => RuleType::DomainBlacklist,
            Self::MethodRestriction { .. } => RuleType::MethodRestriction,
            Self::TimeWindowBlock { .. } => RuleType::TimeWindowBlock,
            Self::PerCallLimit { .. } => RuleType::PerCallLimit,
            Self::DailyBudget { .. } => RuleType::DailyBudget,
            Self::MonthlyBudget { .. } => RuleType::MonthlyBudget,
            Self::RateLimit { key, .. } => match key.window {
                RateWindow::Minute => RuleType::RateLimitPerMinute,
                RateWindow::Hour => RuleType::RateLimitPerHour,
                RateWindow::Day => RuleType::RateLimitPerDay,
            },
            Self::DomainWhitelist { .. } => RuleType::DomainWhitelist,
            Self::AmountSpike { .. } => RuleType::AmountSpike,
            Self::FrequencySpike { .. } => RuleType::FrequencySpike,
            Self::UnknownDomain => RuleType::UnknownDomain,
            Self::NightAmount { .. } => RuleType::NightAmount,
            Self::ConsecutiveFailure { .. } => RuleType::ConsecutiveFailure,
            Self::UpstreamDenials { .. } => RuleType::UpstreamDenials,
        }
    }
}

/// Why a rule does not compile.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum RuleError {
    /// A parameter is wrong.
    #[error("rule `{kind}`: {error}")]
    Param {
        /// The rule's type.
        kind: RuleType,
        /// The parameter and what is wrong with it.
        error: ParamError,
    },
    /// The rule could never do anything where it is put.
    #[error("rule `{kind}`: doors: it has no meaning at {doors}")]
    NoMeaning {
        /// The rule's type.
        kind: RuleType,
        /// The doors that were named.
        doors: String,
    },
}

impl RuleSpec {
    /// Checks every parameter and builds the rule. `zone` is the configured time zone.
    pub fn compile(&self, zone: &Zone) -> Result<Rule, RuleError> {
        let meaningful = self.kind.meaningful_doors();
        let asked = self.doors.as_deref().map_or(DoorSet::ALL, DoorSet::of);
        let doors = asked.and(meaningful);
        if doors.is_empty() {
            let named: Vec<_> = asked.iter().map(Door::name).collect();
            return Err(RuleError::NoMeaning { kind: self.kind, doors: named.join(", ") });
        }
        let check = self
            .compile_check(zone, doors)
            .map_err(|error| RuleError::Param { kind: self.kind, error })?;
        Ok(Rule { id: self.id, action: self.action, priority: self.priority, doors, check })
    }

    fn compile_check(&self, zone: &Zone, doors: DoorSet) -> Result<Check, ParamError> {
        let mut params = Params::new(&self.params);
        let check = match self.kind {
            RuleType::DomainBlacklist => {
                Check::DomainBlacklist { domains: params.domains("domains")? }
            }
            RuleType::DomainWhitelist => {
                Check::DomainWhitelist { domains: params.domains("domains")? }
            }
            RuleType::MethodRestriction => Check::MethodRestriction {
                allow: methods(&mut params)?,
                service: params.opt_text("service")?.map(Arc::from),
            },
            RuleType::TimeWindowBlock => {
                Check::TimeWindowBlock { window: window(&mut params, zone, None)? }
            }
            RuleType::PerCallLimit => Check::PerCallLimit { limit: params.money("limit")? },
            RuleType::DailyBudget => Check::DailyBudget {
                limit: params.money("limit")?,
                warn_at: params.share_or("warn_at", Ppm(800_000))?,
            },
            RuleType::MonthlyBudget => Check::MonthlyBudget {
                limit: params.money("limit")?,
                warn_at: params.share_or("warn_at", Ppm(800_000))?,
                kill_at: params.share_or("kill_at", Ppm(950_000))?,
            },
            RuleType::RateLimitPerMinute => rate(&mut params, RateWindow::Minute, doors)?,
            RuleType::RateLimitPerHour => rate(&mut params, RateWindow::Hour, doors)?,
            RuleType::RateLimitPerDay => rate(&mut params, RateWindow::Day, doors)?,
            RuleType::AmountSpike => Check::AmountSpike {
                factor_micros: params.factor_or("factor", 5_000_000)?,
                window_days: params.count_or("window_days", 7, BASELINE_DAYS_MAX)?,
                min_samples: params.count_or("min_samples", 10, 1_000_000)?,
            },
            RuleType::FrequencySpike => Check::FrequencySpike {
                factor_micros: params.factor_or("factor", 10_000_000)?,
                min_per_minute: params.count_or("min_per_minute", 30, RATE_MAX)?,
            },
            RuleType::UnknownDomain => Check::UnknownDomain,
            RuleType::NightAmount => Check::NightAmount {
                threshold: params.money("threshold")?,
                window: window(&mut params, zone, Some((0, 6 * 60)))?,
            },
            RuleType::ConsecutiveFailure => {
                Check::ConsecutiveFailure { count: params.count_or("count", 5, 1_000)? }
            }
            RuleType::UpstreamDenials => Check::UpstreamDenials {
                count: params.count_or("count", 3, 1_000)?,
                window_sec: params.count_or("window_sec", 300, 86_400)?,
            },
        };
        params.finish()?;
        Ok(check)
    }
}

fn rate(params: &mut Params<'_>, window: RateWindow, doors: DoorSet) -> Result<Check, ParamError> {
    let max = params.count("max", RATE_MAX)?;
    let service = params.opt_text("service")?.map(Arc::from);
    // The slot is given when the policy is put together.
    Ok(Check::RateLimit { max, key: RateKey { window, service, doors }, slot: usize::MAX })
}

fn methods(params: &mut Params<'_>) -> Result<Vec<String>, ParamError> {
    const KNOWN: [&str; 7] = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"];
    let items = params
        .list("allow")?
        .ok_or_else(|| ParamError::new("allow", "is missing; give a list of methods"))?;
    items
        .iter()
        .map(|item| {
            let method = item.to_ascii_uppercase();
            if KNOWN.contains(&method.as_str()) {
                return Ok(method);
            }
            Err(ParamError::new(
                "allow",
                format!("`{item}` is no method; known are {}", KNOWN.join(", ")),
            ))
        })
        .collect()
}

fn window(
    params: &mut Params<'_>,
    zone: &Zone,
    default: Option<(u16, u16)>,
) -> Result<DailyWindow, ParamError> {
    let start_minute = params.time_of_day("start", default.map(|d| d.0), 23 * 60 + 59)?;
    let end_minute = params.time_of_day("end", default.map(|d| d.1), 24 * 60)?;
    if start_minute == end_minute {
        return Err(ParamError::new(
            "end",
            "is the same as `start`; for a whole day use 00:00 to 24:00",
        ));
    }
    let zone = params.zone("timezone", zone)?;
    let days = params.days("days")?;
    Ok(DailyWindow { start_minute, end_minute, days, zone })
}
