//! The decision again, with every rule that was looked at and what it found.

use serde::Serialize;
use serde_json::{Map, Value};

use crate::action::Action;
use crate::counters::Counters;
use crate::decide::{Finding, Verdict, Why, cost, decide, doors_named, look};
use crate::door::Door;
use crate::id::RuleId;
use crate::money::MicroUsd;
use crate::policy::Policy;
use crate::risk::Risk;
use crate::rule::{RuleAction, RuleType};
use crate::wire;

/// A verdict with its trace.
#[derive(Clone, Debug, Serialize)]
pub struct Explanation {
    /// `allow` or `block`.
    pub verdict: &'static str,
    /// The refusal's code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<&'static str>,
    /// What would change it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<&'static str>,
    /// The most it can cost, in dollars.
    pub cost: Option<MicroUsd>,
    /// Every rule, in order.
    pub rules: Vec<Step>,
    /// The risk, if a risk rule looked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub risk: Option<Risk>,
}

/// One rule that was looked at.
#[derive(Clone, Debug, Serialize)]
pub struct Step {
    /// Which.
    pub rule_id: RuleId,
    /// Its type.
    #[serde(rename = "type")]
    pub kind: RuleType,
    /// What it would do.
    pub action: RuleAction,
    /// Where it applies.
    pub doors: Vec<Door>,
    /// What was found.
    pub result: StepResult,
    /// In words.
    pub why: String,
    /// In numbers.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub details: Map<String, Value>,
}

/// What a rule found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StepResult {
    /// It has nothing to say here.
    NotConcerned,
    /// Within its bounds.
    Passed,
    /// It would tell somebody.
    Alert,
    /// It refuses.
    Refused,
}

/// Explains: the same rules by the same function, without stopping at the first no.
pub fn explain(action: &Action, policy: &Policy, counters: &Counters) -> Explanation {
    let price = cost(action, policy);
    let (verdict, code, remedy, risk) = match decide(action, policy, counters) {
        Verdict::Allow(allowed) => ("allow", None, None, allowed.risk),
        Verdict::Refuse(denied) => {
            let row = wire::row(denied.why.reason());
            ("block", Some(row.code), Some(row.remedy), denied.risk)
        }
    };
    let assumed = price.as_ref().copied().unwrap_or(MicroUsd::ZERO);
    let rules = policy
        .rules()
        .iter()
        .map(|rule| {
            let finding = if rule.doors.contains(action.door()) {
                price
                    .as_ref()
                    .map_or_else(unpriced, |_| look(rule, action, assumed, policy, counters))
            } else {
                Finding::Aside("for other doors")
            };
            let (result, why, details) = told(&finding, rule.action);
            Step {
                rule_id: rule.id,
                kind: rule.check.rule_type(),
                action: rule.action,
                doors: doors_named(rule),
                result,
                why,
                details,
            }
        })
        .collect();
    Explanation { verdict, code, remedy, cost: price.ok(), rules, risk }
}

fn unpriced(_: &Why) -> Finding {
    Finding::Aside("not reached: the cost of the action is not known")
}

fn told(finding: &Finding, action: RuleAction) -> (StepResult, String, Map<String, Value>) {
    match finding {
        Finding::Aside(why) => (StepResult::NotConcerned, (*why).to_owned(), Map::new()),
        Finding::Clear => (StepResult::Passed, "within its bounds".to_owned(), Map::new()),
        Finding::Near(hit) => (StepResult::Alert, hit.to_string(), hit.details()),
        Finding::Met(hit) => {
            let result = if action.blocks() { StepResult::Refused } else { StepResult::Alert };
            (result, hit.to_string(), hit.details())
        }
    }
}
