//! The whole policy as one document, out and in.

use agentguard_core::AgentStatus;
use agentguard_gate::{
    Actor, AgentDraft, Change, ImportPlan, PolicyData, PolicyFile, RuleDraft, RuleSet, RuleSetDraft,
};
use axum::extract::State;
use axum::{Extension, Json};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::body::{Body, Query};
use crate::error::ApiError;
use crate::plan::{self, PlanError, VERSION};
use crate::state::Admin;

/// How to import.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct How {
    #[serde(default)]
    dry_run: bool,
}

pub(crate) async fn export(State(admin): State<Admin>) -> Json<PolicyFile> {
    Json(file_of(admin.gate().directory().data()))
}

pub(crate) async fn import(
    State(admin): State<Admin>,
    Extension(actor): Extension<Actor>,
    Query(how): Query<How>,
    Body(file): Body<PolicyFile>,
) -> Result<Json<Value>, ApiError> {
    let _one = admin.one_change().await;
    let gate = admin.gate();
    let (planned, dropped) = {
        let directory = gate.directory();
        let planned = plan::plan(file, directory.data(), gate.ids(), gate.now())?;
        let dropped = dropped_credentials(directory.data(), &planned.plan);
        (planned, dropped)
    };
    let mut report = json!({
        "dry_run": how.dry_run,
        "rule_sets": planned.plan.rule_sets.len(),
        "rules": planned.plan.rule_sets.iter().map(|set| set.rules.len()).sum::<usize>(),
        "services": planned.plan.services.len(),
        "credentials_dropped": dropped,
        "prices": planned.plan.prices.as_ref().map(Vec::len),
        "agents_moved": planned.plan.moved_agents.len(),
    });
    let new_agents: Vec<Value> = planned
        .new_agents
        .iter()
        .map(|agent| match how.dry_run {
            true => json!({"name": agent.name}),
            false => json!({"id": agent.id, "name": agent.name, "token": agent.token.expose()}),
        })
        .collect();
    if let Some(map) = report.as_object_mut() {
        map.insert("agents_added".to_owned(), Value::Array(new_agents));
    }
    if !how.dry_run {
        let change = Change::Import(Box::new(planned.plan));
        admin.blocking(move |gate| gate.change(&actor, change)).await??;
    }
    Ok(Json(report))
}

impl From<PlanError> for ApiError {
    fn from(error: PlanError) -> Self {
        match error {
            PlanError::Invalid(why) => Self::invalid_text(why),
            PlanError::NoRandomness(error) => crate::agents::no_randomness(&*error),
        }
    }
}

/// Services whose stored credential goes with the import.
fn dropped_credentials(data: &PolicyData, plan: &ImportPlan) -> Vec<String> {
    let stored = data.credentials.keys();
    let mut gone: Vec<String> =
        stored.filter(|alias| !plan.keeps_credential(alias, data)).cloned().collect();
    gone.sort();
    gone
}

/// Names instead of ids, no secrets, in an order that does not change by itself: made for git.
fn file_of(data: &PolicyData) -> PolicyFile {
    let mut rule_sets: Vec<_> = data.rule_sets.iter().map(set_draft).collect();
    rule_sets.sort_by(|a, b| a.name.cmp(&b.name));
    let mut services = data.services.clone();
    services.sort_by(|a, b| a.alias.cmp(&b.alias));
    let name_of = |id| {
        let set = data.rule_sets.iter().find(|set| set.id == id);
        set.map_or_else(String::new, |set| set.name.clone())
    };
    let living = data.agents.iter().map(|record| &record.agent);
    let mut agents: Vec<_> = living
        .filter(|agent| agent.status != AgentStatus::Revoked)
        .map(|agent| AgentDraft {
            name: agent.name.clone(),
            rule_set: name_of(agent.rule_set_id),
            description: agent.description.clone(),
        })
        .collect();
    agents.sort_by(|a, b| a.name.cmp(&b.name));
    let mut prices = data.prices.clone();
    prices.sort_by(|a, b| a.model.cmp(&b.model));
    PolicyFile { version: VERSION, rule_sets, services, agents, prices: Some(prices) }
}

fn set_draft(set: &RuleSet) -> RuleSetDraft {
    let mut rules: Vec<_> = set.rules.iter().collect();
    rules.sort_by_key(|rule| (rule.kind, rule.priority, rule.id));
    let drafts = rules.into_iter().map(|rule| RuleDraft {
        id: Some(rule.id),
        kind: rule.kind,
        enabled: rule.enabled,
        action: Some(rule.action),
        priority: rule.priority,
        doors: rule.doors.clone(),
        params: rule.params.clone(),
    });
    RuleSetDraft { name: set.name.clone(), rules: drafts.collect() }
}
