//! Agents: made, shown, given a new token, stopped, revoked.

use std::sync::Arc;

use agentguard_core::token::{PREFIX, Token};
use agentguard_core::{Agent, AgentId, AgentStatus};
use agentguard_gate::defaults::DEFAULT;
use agentguard_gate::{Actor, Change, Entry, Gate, PausedBy, Scope};
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::{Extension, Json};
use serde::{Deserialize, Serialize};

use crate::body::{self, Body, List};
use crate::error::ApiError;
use crate::limits::THINGS_MAX;
use crate::state::Admin;
use crate::stops;

/// An agent as it is shown.
#[derive(Debug, Serialize)]
pub(crate) struct AgentView {
    #[serde(flatten)]
    agent: Agent,
    /// The name of its rule set.
    rule_set: String,
    /// Its token: only where it was just made.
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<String>,
}

/// A new agent.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewAgent {
    name: String,
    rule_set: Option<String>,
    description: Option<String>,
}

/// Why an agent is stopped.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Why {
    reason: Option<String>,
}

/// A confirmation.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Confirmation {
    confirm: Option<String>,
}

pub(crate) async fn list(State(admin): State<Admin>) -> Json<List<AgentView>> {
    let directory = admin.gate().directory();
    let mut entries: Vec<_> = directory
        .data()
        .agents
        .iter()
        .filter_map(|record| directory.by_id(record.agent.id))
        .collect();
    entries.sort_by_key(|entry| (entry.agent.created_at, entry.agent.id));
    Json(List::whole(entries.into_iter().map(|entry| view(admin.gate(), entry)).collect()))
}

pub(crate) async fn show(
    State(admin): State<Admin>,
    Path(wanted): Path<String>,
) -> Result<Json<AgentView>, ApiError> {
    let entry = find(&admin, &wanted)?;
    Ok(Json(view(admin.gate(), &entry)))
}

pub(crate) async fn add(
    State(admin): State<Admin>,
    Extension(actor): Extension<Actor>,
    Body(new): Body<NewAgent>,
) -> Result<(StatusCode, Json<AgentView>), ApiError> {
    body::name("name", &new.name)?;
    let description = body::text("description", new.description)?;
    let _one = admin.one_change().await;
    let gate = admin.gate();
    let (token, agent) = {
        let directory = gate.directory();
        if directory.data().agents.len() >= THINGS_MAX {
            return Err(ApiError::invalid(
                "name",
                format!("there are {THINGS_MAX} agents already"),
            ));
        }
        let living = directory.by_name(&new.name).filter(|entry| is_living(entry));
        if living.is_some() {
            return Err(ApiError::exists("agent", &new.name));
        }
        let wanted = new.rule_set.as_deref().unwrap_or(DEFAULT);
        let sets = &directory.data().rule_sets;
        let set = sets
            .iter()
            .find(|set| set.name == wanted || set.id.to_string() == wanted)
            .ok_or_else(|| ApiError::not_found("rule set", wanted))?;
        let agent = Agent {
            id: gate.ids().agent().map_err(no_randomness)?,
            name: new.name,
            status: AgentStatus::Active,
            rule_set_id: set.id,
            created_at: gate.now(),
            last_seen_at: None,
            description,
        };
        (gate.ids().token(PREFIX).map_err(no_randomness)?, agent)
    };
    let id = agent.id;
    let change = Change::AddAgent { agent, token_hash: token.hash() };
    admin.blocking(move |gate| gate.change(&actor, change)).await??;
    Ok((StatusCode::CREATED, Json(with_token(&admin, id, &token)?)))
}

pub(crate) async fn rotate(
    State(admin): State<Admin>,
    Extension(actor): Extension<Actor>,
    Path(wanted): Path<String>,
) -> Result<Json<AgentView>, ApiError> {
    let entry = living(&admin, &wanted)?;
    let token = admin.gate().ids().token(PREFIX).map_err(no_randomness)?;
    let agent_id = entry.agent.id;
    let change = Change::RotateToken { agent_id, token_hash: token.hash() };
    admin.blocking(move |gate| gate.change(&actor, change)).await??;
    Ok(Json(with_token(&admin, agent_id, &token)?))
}

pub(crate) async fn pause(
    State(admin): State<Admin>,
    Extension(actor): Extension<Actor>,
    Path(wanted): Path<String>,
    Body(why): Body<Why>,
) -> Result<Json<AgentView>, ApiError> {
    let entry = living(&admin, &wanted)?;
    let reason = stops::bounded(why.reason);
    let scope = Scope::Agent(entry.agent.id);
    stops::stop(&admin, actor, scope, PausedBy::User, reason).await?;
    Ok(Json(view(admin.gate(), &entry)))
}

pub(crate) async fn resume(
    State(admin): State<Admin>,
    Extension(actor): Extension<Actor>,
    Path(wanted): Path<String>,
    Body(given): Body<Confirmation>,
) -> Result<Json<AgentView>, ApiError> {
    let entry = living(&admin, &wanted)?;
    stops::confirmed(given.confirm.as_deref())?;
    stops::resume(&admin, actor, Scope::Agent(entry.agent.id)).await?;
    let entry = find(&admin, &entry.agent.id.to_string())?;
    Ok(Json(view(admin.gate(), &entry)))
}

pub(crate) async fn revoke(
    State(admin): State<Admin>,
    Extension(actor): Extension<Actor>,
    Path(wanted): Path<String>,
) -> Result<Json<AgentView>, ApiError> {
    let entry = living(&admin, &wanted)?;
    let id = entry.agent.id;
    // What is under way ends first: a revoked agent must not finish what it began.
    let reason = "the agent was revoked".to_owned();
    stops::stop(&admin, actor.clone(), Scope::Agent(id), PausedBy::User, reason).await?;
    admin.blocking(move |gate| gate.change(&actor, Change::RevokeAgent(id))).await??;
    let entry = find(&admin, &id.to_string())?;
    Ok(Json(view(admin.gate(), &entry)))
}

/// The agent of an id or a name; of two with one name the living one.
pub(crate) fn find(admin: &Admin, wanted: &str) -> Result<Arc<Entry>, ApiError> {
    let directory = admin.gate().directory();
    let by_id = wanted.parse::<AgentId>().ok().and_then(|id| directory.by_id(id));
    by_id
        .or_else(|| directory.by_name(wanted))
        .cloned()
        .ok_or_else(|| ApiError::not_found("agent", wanted))
}

pub(crate) fn living(admin: &Admin, wanted: &str) -> Result<Arc<Entry>, ApiError> {
    let entry = find(admin, wanted)?;
    if is_living(&entry) {
        return Ok(entry);
    }
    Err(ApiError::revoked(&entry.agent.name))
}

pub(crate) fn is_living(entry: &Entry) -> bool {
    entry.agent.status != AgentStatus::Revoked
}

pub(crate) fn no_randomness(error: impl std::error::Error) -> ApiError {
    tracing::error!(%error, "no randomness for an id or a token");
    ApiError::internal()
}

fn view(gate: &Gate, entry: &Entry) -> AgentView {
    let mut agent = entry.agent.clone();
    // The switch is the truth: one that threw itself may not be in the stored status yet.
    agent.status = gate.status_of(entry);
    let directory = gate.directory();
    let sets = &directory.data().rule_sets;
    let set = sets.iter().find(|set| set.id == agent.rule_set_id);
    let rule_set = set.map_or_else(String::new, |set| set.name.clone());
    AgentView { agent, rule_set, token: None }
}

fn with_token(admin: &Admin, id: AgentId, token: &Token) -> Result<AgentView, ApiError> {
    let entry = find(admin, &id.to_string())?;
    let mut shown = view(admin.gate(), &entry);
    shown.token = Some(token.expose().to_owned());
    Ok(shown)
}
