//! Rule sets and their rules.

use agentguard_core::rule::RuleSpec;
use agentguard_core::time::Zone;
use agentguard_core::{RuleId, RuleSetId};
use agentguard_gate::{Actor, Change, ImportPlan, PolicyData, RuleDraft, RuleSet};
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::{Extension, Json};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::agents::no_randomness;
use crate::body::{self, Body, List};
use crate::error::ApiError;
use crate::limits::THINGS_MAX;
use crate::state::Admin;

/// A rule set as it is shown.
#[derive(Debug, Serialize)]
pub(crate) struct SetView {
    id: RuleSetId,
    name: String,
    rules: usize,
    /// Who is under it.
    agents: Vec<String>,
}

/// A rule as it is shown.
#[derive(Debug, Serialize)]
pub(crate) struct RuleView {
    #[serde(flatten)]
    spec: RuleSpec,
    /// The name of its set.
    rule_set: String,
}

/// A new rule set.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewSet {
    name: String,
    /// A set whose rules the new one begins with.
    copy_from: Option<String>,
}

pub(crate) async fn sets(State(admin): State<Admin>) -> Json<List<SetView>> {
    let directory = admin.gate().directory();
    let data = directory.data();
    Json(List::whole(data.rule_sets.iter().map(|set| set_view(data, set)).collect()))
}

pub(crate) async fn add_set(
    State(admin): State<Admin>,
    Extension(actor): Extension<Actor>,
    Body(new): Body<NewSet>,
) -> Result<(StatusCode, Json<SetView>), ApiError> {
    body::name("name", &new.name)?;
    let _one = admin.one_change().await;
    let gate = admin.gate();
    let data = gate.directory().data().clone();
    if data.rule_sets.iter().any(|set| set.name == new.name) {
        return Err(ApiError::exists("rule set", &new.name));
    }
    if data.rule_sets.len() >= THINGS_MAX {
        return Err(ApiError::invalid("name", format!("there are {THINGS_MAX} rule sets already")));
    }
    let id = gate.ids().rule_set().map_err(no_randomness)?;
    let mut rules = match &new.copy_from {
        Some(source) => set_of(&data, source)?.rules.clone(),
        None => Vec::new(),
    };
    for rule in &mut rules {
        rule.id = gate.ids().rule().map_err(no_randomness)?;
        rule.rule_set_id = id;
    }
    let mut rule_sets = data.rule_sets;
    rule_sets.push(RuleSet { id, name: new.name.clone(), rules });
    let plan = ImportPlan {
        rule_sets,
        services: data.services,
        new_agents: Vec::new(),
        moved_agents: Vec::new(),
        prices: None,
    };
    admin.blocking(move |gate| gate.change(&actor, Change::Import(Box::new(plan)))).await??;
    let directory = gate.directory();
    let set = set_of(directory.data(), &new.name)?;
    Ok((StatusCode::CREATED, Json(set_view(directory.data(), set))))
}

pub(crate) async fn list(
    State(admin): State<Admin>,
    Path(wanted): Path<String>,
) -> Result<Json<List<RuleView>>, ApiError> {
    let directory = admin.gate().directory();
    let set = set_of(directory.data(), &wanted)?;
    let mut rules: Vec<_> = set.rules.iter().collect();
    rules.sort_by_key(|rule| (rule.kind, rule.priority, rule.id));
    Ok(Json(List::whole(rules.into_iter().map(|rule| view(set, rule)).collect())))
}

pub(crate) async fn add(
    State(admin): State<Admin>,
    Extension(actor): Extension<Actor>,
    Path(wanted): Path<String>,
    Body(draft): Body<RuleDraft>,
) -> Result<(StatusCode, Json<RuleView>), ApiError> {
    // An import that was planned before must not undo this.
    let _one = admin.one_change().await;
    let gate = admin.gate();
    let set_id = set_of(gate.directory().data(), &wanted)?.id;
    let id = match draft.id {
        Some(_) => return Err(ApiError::invalid("id", "is given by the gate; leave it out")),
        None => gate.ids().rule().map_err(no_randomness)?,
    };
    let spec = draft.into_spec(id, set_id);
    check(&spec)?;
    let change = Change::AddRule(spec);
    admin.blocking(move |gate| gate.change(&actor, change)).await??;
    let directory = gate.directory();
    let (set, rule) = rule_of(directory.data(), id)?;
    Ok((StatusCode::CREATED, Json(view(set, rule))))
}

pub(crate) async fn remove(
    State(admin): State<Admin>,
    Extension(actor): Extension<Actor>,
    Path(wanted): Path<String>,
) -> Result<Json<RuleView>, ApiError> {
    let id: RuleId = wanted.parse().map_err(|_| ApiError::not_found("rule", &wanted))?;
    let _one = admin.one_change().await;
    let removed = {
        let directory = admin.gate().directory();
        let (set, rule) = rule_of(directory.data(), id)?;
        view(set, rule)
    };
    admin.blocking(move |gate| gate.change(&actor, Change::RemoveRule(id))).await??;
    Ok(Json(removed))
}

pub(crate) async fn clear(
    State(admin): State<Admin>,
    Extension(actor): Extension<Actor>,
    Path(wanted): Path<String>,
) -> Result<Json<Value>, ApiError> {
    let _one = admin.one_change().await;
    let (id, name, removed) = {
        let directory = admin.gate().directory();
        let set = set_of(directory.data(), &wanted)?;
        (set.id, set.name.clone(), set.rules.len())
    };
    admin.blocking(move |gate| gate.change(&actor, Change::ClearRules(id))).await??;
    Ok(Json(json!({"rule_set": name, "removed": removed})))
}

/// Compiles the rule as the gate will, a disabled one too: a rule that is switched on later must
/// not fail then. The zone is only a default here, and any will do.
pub(crate) fn check(spec: &RuleSpec) -> Result<(), ApiError> {
    use agentguard_core::rule::RuleError;
    spec.compile(&Zone::UTC).map(|_| ()).map_err(|error| match error {
        RuleError::Param { error, .. } => {
            let message = error.to_string();
            ApiError::invalid_text(message).detail("rule_type", spec.kind.name())
        }
        RuleError::NoMeaning { .. } => ApiError::invalid_text(error.to_string()),
    })
}

pub(crate) fn set_of<'a>(data: &'a PolicyData, wanted: &str) -> Result<&'a RuleSet, ApiError> {
    let id: Option<RuleSetId> = wanted.parse().ok();
    data.rule_sets
        .iter()
        .find(|set| set.name == wanted || Some(set.id) == id)
        .ok_or_else(|| ApiError::not_found("rule set", wanted))
}

fn rule_of(data: &PolicyData, id: RuleId) -> Result<(&RuleSet, &RuleSpec), ApiError> {
    data.rule_sets
        .iter()
        .find_map(|set| set.rules.iter().find(|rule| rule.id == id).map(|rule| (set, rule)))
        .ok_or_else(|| ApiError::not_found("rule", &id.to_string()))
}

fn view(set: &RuleSet, rule: &RuleSpec) -> RuleView {
    RuleView { spec: rule.clone(), rule_set: set.name.clone() }
}

fn set_view(data: &PolicyData, set: &RuleSet) -> SetView {
    use agentguard_core::AgentStatus;
    let under = data
        .agents
        .iter()
        .map(|record| &record.agent)
        .filter(|agent| agent.rule_set_id == set.id && agent.status != AgentStatus::Revoked);
    SetView {
        id: set.id,
        name: set.name.clone(),
        rules: set.rules.len(),
        agents: under.map(|agent| agent.name.clone()).collect(),
    }
}
