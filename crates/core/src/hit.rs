//! What a rule saw when its condition was met: the numbers, for messages, details and the risk score.

use std::fmt;

use serde_json::{Map, Value, json};

use crate::money::{MICROS, MicroUsd};
use crate::reason::Reason;
use crate::rule::RateWindow;
use crate::time::Timestamp;

/// Which budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Period {
    /// A day.
    Day,
    /// A month.
    Month,
}

/// The condition of a rule, met, with the numbers that show it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are the numbers that the message shows")]
pub enum Hit {
    Blacklisted {
        host: String,
    },
    Method {
        method: String,
        allow: Vec<String>,
    },
    ClosedHours {
        start_minute: u16,
        end_minute: u16,
        zone: String,
    },
    OverCall {
        limit: MicroUsd,
        requested: MicroUsd,
        up_to: bool,
    },
    OverBudget {
        period: Period,
        limit: MicroUsd,
        used: MicroUsd,
        /// Held for calls under way; what they do not use is given back.
        reserved: MicroUsd,
        left: MicroUsd,
        requested: MicroUsd,
        up_to: bool,
        resets_at: Timestamp,
    },
    BudgetWarning {
        period: Period,
        limit: MicroUsd,
        used: MicroUsd,
    },
    RateFull {
        max: u32,
        window: RateWindow,
        service: Option<String>,
        frees_at: Timestamp,
    },
    NotWhitelisted {
        host: String,
    },
    AmountSpike {
        requested: MicroUsd,
        average: MicroUsd,
        factor_micros: i64,
    },
    FrequencySpike {
        calls: u64,
        normal_per_minute: u64,
    },
    UnknownDomain {
        host: String,
    },
    NightAmount {
        requested: MicroUsd,
        threshold: MicroUsd,
    },
    Failures {
        count: u32,
    },
    UpstreamDenials {
        count: u32,
        window_sec: u32,
    },
}

impl Hit {
    /// The reason that goes on the wire.
    pub const fn reason(&self) -> Reason {
        match self {
            Self::Blacklisted { .. } => Reason::DomainBlacklisted,
            Self::Method { .. } => Reason::MethodRestricted,
            Self::ClosedHours { .. } => Reason::TimeWindowBlocked,
            Self::OverCall { .. } => Reason::PerCallLimitExceeded,
            Self::OverBudget { period: Period::Day, .. }
            | Self::BudgetWarning { period: Period::Day, .. } => Reason::DailyBudgetExceeded,
            Self::OverBudget { period: Period::Month, .. }
            | Self::BudgetWarning { period: Period::Month, .. } => Reason::MonthlyBudgetExceeded,
            Self::RateFull { .. } => Reason::RateLimited,
            Self::NotWhitelisted { .. } => Reason::DomainNotWhitelisted,
            Self::AmountSpike { .. } => Reason::RiskAmountSpike,
            Self::FrequencySpike { .. } => Reason::RiskFrequencySpike,
            Self::UnknownDomain { .. } => Reason::RiskUnknownDomain,
            Self::NightAmount { .. } => Reason::RiskNightAmount,
            // These two refuse nothing by themselves; they stop the agent.
            Self::Failures { .. } | Self::UpstreamDenials { .. } => Reason::KillSwitchAgent,
        }
    }

    /// What it adds to the risk score: the rule's weight, and more the further it is over.
    pub(crate) fn risk_score(&self) -> u8 {
        let (weight, over) = match self {
            Self::AmountSpike { requested, average, factor_micros } => {
                let usual = i128::from(average.micros()).saturating_mul(i128::from(*factor_micros));
                let asked = i128::from(requested.micros()).saturating_mul(i128::from(MICROS));
                (60, asked.checked_div(usual.max(1)).unwrap_or(0))
            }
            Self::FrequencySpike { calls, normal_per_minute } => {
                let usual = u128::from(*normal_per_minute).saturating_mul(10).max(1);
                (
                    50,
                    i128::try_from(u128::from(*calls).checked_div(usual).unwrap_or(0)).unwrap_or(0),
                )
            }
            Self::UnknownDomain { .. } => (30, 0),
            Self::NightAmount { requested, threshold } => {
                let usual = i128::from(threshold.micros()).max(1);
                (40, i128::from(requested.micros()).checked_div(usual).unwrap_or(0))
            }
            Self::Blacklisted { .. }
            | Self::Method { .. }
            | Self::ClosedHours { .. }
            | Self::OverCall { .. }
            | Self::OverBudget { .. }
            | Self::BudgetWarning { .. }
            | Self::RateFull { .. }
            | Self::NotWhitelisted { .. }
            | Self::Failures { .. }
            | Self::UpstreamDenials { .. } => (0, 0),
        };
        let extra = u8::try_from(over.clamp(0, 4)).unwrap_or(4).saturating_mul(10);
        if weight == 0 { 0 } else { extra.saturating_add(weight).min(100) }
    }

    /// The numbers, as they stand in `details`.
    pub fn details(&self) -> Map<String, Value> {
        let value = match self {
            Self::Blacklisted { host }
            | Self::NotWhitelisted { host }
            | Self::UnknownDomain { host } => {
                json!({"host": host})
            }
            Self::Method { method, allow } => json!({"method": method, "allow": allow}),
            Self::ClosedHours { start_minute, end_minute, zone } => {
                json!({"start": clock(*start_minute), "end": clock(*end_minute), "timezone": zone})
            }
            Self::OverCall { limit, requested, .. } => {
                json!({"limit": limit, "requested": requested})
            }
            Self::OverBudget { limit, used, reserved, requested, resets_at, .. } => {
                let mut numbers = json!({"limit": limit, "used": used, "requested": requested, "resets_at": resets_at});
                if let Some(map) = numbers.as_object_mut().filter(|_| *reserved > MicroUsd::ZERO) {
                    map.insert("reserved".to_owned(), json!(reserved));
                }
                numbers
            }
            Self::BudgetWarning { limit, used, .. } => json!({"limit": limit, "used": used}),
            Self::RateFull { max, window, service, frees_at } => {
                json!({"limit": max, "window": window.noun(), "service": service, "resets_at": frees_at})
            }
            Self::AmountSpike { requested, average, .. } => {
                json!({"requested": requested, "average": average})
            }
            Self::FrequencySpike { calls, normal_per_minute } => {
                json!({"calls": calls, "normal_per_minute": normal_per_minute})
            }
            Self::NightAmount { requested, threshold } => {
                json!({"requested": requested, "threshold": threshold})
            }
            Self::Failures { count } => json!({"count": count}),
            Self::UpstreamDenials { count, window_sec } => {
                json!({"count": count, "window_sec": window_sec})
            }
        };
        match value {
            Value::Object(map) => map,
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::String(_)
            | Value::Array(_) => Map::new(),
        }
    }
}

impl Hit {
    /// What would change it, where that is not the same for every hit of its reason.
    pub(crate) fn remedy(&self) -> Option<&'static str> {
        match self {
            Self::OverBudget { limit, used, requested, .. } if used.plus(*requested) <= *limit => {
                Some(
                    "wait until calls under way have ended: what they do not use is given back; or name a smaller maximum of output tokens",
                )
            }
            Self::OverBudget { up_to: true, .. } | Self::OverCall { up_to: true, .. } => Some(
                "name a smaller maximum of output tokens (`max_tokens` and the like), send less, or an operator can raise the rule's limit",
            ),
            Self::Blacklisted { .. }
            | Self::Method { .. }
            | Self::ClosedHours { .. }
            | Self::OverCall { .. }
            | Self::OverBudget { .. }
            | Self::BudgetWarning { .. }
            | Self::RateFull { .. }
            | Self::NotWhitelisted { .. }
            | Self::AmountSpike { .. }
            | Self::FrequencySpike { .. }
            | Self::UnknownDomain { .. }
            | Self::NightAmount { .. }
            | Self::Failures { .. }
            | Self::UpstreamDenials { .. } => None,
        }
    }
}

impl fmt::Display for Hit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Blacklisted { host } => write!(f, "`{host}` is on the list of blocked domains"),
            Self::Method { method, allow } => {
                write!(f, "{method} is not among {}", allow.join(", "))
            }
            Self::ClosedHours { start_minute, end_minute, zone } => {
                write!(
                    f,
                    "nothing is allowed from {} to {} ({zone})",
                    clock(*start_minute),
                    clock(*end_minute)
                )
            }
            Self::OverCall { limit, requested, up_to } => {
                let up_to = if *up_to { "up to " } else { "" };
                write!(
                    f,
                    "this call needs {up_to}{requested} USD, and one call may cost {limit} USD"
                )
            }
            Self::OverBudget { limit, used, reserved, requested, .. } => {
                let taken = used.plus(*reserved);
                write!(f, "{taken} of {limit} USD are taken, and this call needs {requested} USD")
            }
            Self::BudgetWarning { limit, used, .. } => write!(f, "{used} of {limit} USD are taken"),
            Self::RateFull { max, window, service, .. } => {
                let whose =
                    service.as_deref().map(|alias| format!(" to `{alias}`")).unwrap_or_default();
                write!(f, "{max} calls{whose} per {} are used up", window.noun())
            }
            Self::NotWhitelisted { host } => {
                write!(f, "`{host}` is not on the list of allowed domains")
            }
            Self::AmountSpike { requested, average, .. } => {
                write!(f, "{requested} USD is far above the usual {average} USD a call")
            }
            Self::FrequencySpike { calls, normal_per_minute } => {
                write!(f, "{calls} calls in a minute are far above the usual {normal_per_minute}")
            }
            Self::UnknownDomain { host } => {
                write!(f, "`{host}` is neither a service nor on a whitelist")
            }
            Self::NightAmount { requested, threshold } => {
                write!(f, "{requested} USD at night is above {threshold} USD")
            }
            Self::Failures { count } => write!(f, "{count} refusals in a row"),
            Self::UpstreamDenials { count, window_sec } => {
                write!(f, "the upstream turned {count} calls away within {window_sec} s")
            }
        }
    }
}

fn clock(minute: u16) -> String {
    format!("{:02}:{:02}", minute.div_euclid(60), minute.rem_euclid(60))
}
