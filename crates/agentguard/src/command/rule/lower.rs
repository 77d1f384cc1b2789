//! Of two limits the lower one holds: a hint for who adds the higher one and expects it to.

use agentguard_core::MicroUsd;
use agentguard_core::rule::{Check, Rule, RuleSpec};
use agentguard_core::time::Zone;
use serde_json::Value;

/// What to say after `added`, beside these rules of its set. `None` if its limit is the lowest.
pub(super) fn hint(added: &Value, rules: &[Value]) -> Option<String> {
    let added = in_force(added)?;
    let limit = limit(&added.check)?;
    let lowest = rules
        .iter()
        .filter_map(in_force)
        .filter(|rule| rule.id != added.id && rule.action.blocks())
        .filter(|rule| rule.check.rule_type() == added.check.rule_type())
        .filter(|rule| !rule.doors.and(added.doors).is_empty())
        .filter_map(|rule| Some((self::limit(&rule.check)?, rule.id)))
        .filter(|(other, _)| *other < limit)
        .min()?;
    let (lower, id) = lowest;
    Some(format!(
        "hint: another rule of this type in the set has the lower limit {lower}, which still \
         holds; `agentguard rule remove {id}` removes it"
    ))
}

/// The rule of the endpoint's answer, unless it is switched off.
fn in_force(shown: &Value) -> Option<Rule> {
    let mut fields = shown.as_object()?.clone();
    fields.remove("rule_set");
    let spec: RuleSpec = serde_json::from_value(Value::Object(fields)).ok()?;
    // The zone has no part in a limit.
    spec.enabled.then(|| spec.compile(&Zone::UTC).ok())?
}

fn limit(check: &Check) -> Option<MicroUsd> {
    check.allowance().map(|(_, limit)| limit)
}
