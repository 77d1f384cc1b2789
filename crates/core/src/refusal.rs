//! A refusal as callers receive it: the reason, the rule, and what would change it.

use serde_json::{Map, Value, json};

use crate::decide::{Denied, Why};
use crate::hit::{Hit, Period};
use crate::id::{RequestId, RuleId};
use crate::money::MicroUsd;
use crate::reason::Reason;
use crate::time::Timestamp;
use crate::wire;

/// A no, with everything that a caller may know about it.
#[derive(Clone, Debug)]
pub struct Refusal {
    /// Why.
    pub reason: Reason,
    /// The rule that said it, if a rule did.
    pub rule_id: Option<RuleId>,
    /// One sentence for the caller.
    pub message: String,
    /// Numbers behind the sentence.
    pub details: Map<String, Value>,
    /// The state of the rate limit, if that was it.
    pub rate: Option<RateState>,
}

/// What the `X-RateLimit-…` headers say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateState {
    /// Calls allowed in the window.
    pub limit: u32,
    /// Calls left.
    pub remaining: u32,
    /// When the next one comes free.
    pub resets_at: Timestamp,
    /// Seconds until then, at least one.
    pub retry_after_sec: i64,
}

impl Refusal {
    /// A refusal that no rule made, with the table's own words.
    pub fn plain(reason: Reason) -> Self {
        Self::with(reason, wire::row(reason).text.to_owned())
    }

    /// A refusal that no rule made, with words of its own.
    pub fn with(reason: Reason, message: String) -> Self {
        Self { reason, rule_id: None, message, details: Map::new(), rate: None }
    }

    /// Adds a detail.
    #[must_use]
    pub fn detail(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.details.insert(name.to_owned(), value.into());
        self
    }

    /// What a decision's denial says to this agent.
    pub fn from_denied(denied: &Denied, agent_name: &str, at: Timestamp) -> Self {
        let mut refusal = Self::with(denied.why.reason(), message(&denied.why, agent_name));
        if let Some((rule_id, kind)) = denied.rule {
            refusal.rule_id = Some(rule_id);
            refusal.details.insert("rule_id".into(), json!(rule_id));
            refusal.details.insert("rule_type".into(), json!(kind));
        }
        if let Some(remedy) = denied.why.remedy() {
            refusal.details.insert("remedy".into(), json!(remedy));
        }
        if let Why::Hit(hit) = &denied.why {
            refusal.details.extend(hit.details());
            if let Hit::RateFull { max, frees_at, .. } = hit {
                refusal.rate = Some(RateState {
                    limit: *max,
                    remaining: 0,
                    resets_at: *frees_at,
                    retry_after_sec: retry_after_sec(*frees_at, at),
                });
            }
        }
        refusal
    }

    /// The JSON of 10-gate.md.
    pub fn body(&self, request_id: RequestId) -> Value {
        let row = wire::row(self.reason);
        let mut details = self.details.clone();
        details.entry("remedy").or_insert_with(|| json!(row.remedy));
        json!({"error": {
            "code": row.code,
            "message": self.message,
            "details": details,
            "request_id": request_id,
        }})
    }
}

fn retry_after_sec(frees_at: Timestamp, at: Timestamp) -> i64 {
    Timestamp::from_micros(frees_at.micros_since(at)).as_secs_ceil().max(1)
}

fn message(why: &Why, agent: &str) -> String {
    match why {
        Why::Unreadable(problem) => {
            format!("the amount of this call cannot be read: {}", problem.text())
        }
        Why::Unpriced(what) => format!("{what}, and a budget or limit applies"),
        Why::NoRate(currency) => {
            format!("there is no rate from {currency} to USD, and a budget or limit applies")
        }
        Why::Hit(Hit::OverBudget { period, left, reserved, requested, up_to, .. }) => {
            let when = match period {
                Period::Day => "today",
                Period::Month => "this month",
            };
            let upto = if *up_to { "up to " } else { "" };
            let held = match *reserved {
                MicroUsd::ZERO => String::new(),
                held => format!(", while {held} USD are held for calls under way"),
            };
            format!(
                "agent `{agent}` has {left} USD left {when}{held}; this call needs {upto}{requested} USD"
            )
        }
        Why::Hit(hit) => format!("agent `{agent}`: {hit}"),
    }
}
