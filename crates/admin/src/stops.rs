//! The kill switch: shown, switched on, and off again by a person who confirms it.

use agentguard_core::{AgentId, Timestamp};
use agentguard_gate::{Actor, Entry, Gate, PausedBy, Scope, StopReport};
use axum::extract::State;
use axum::{Extension, Json};
use serde::{Deserialize, Serialize};

use crate::agents;
use crate::body::Body;
use crate::error::ApiError;
use crate::state::Admin;

/// What must be typed to resume.
const RESUME: &str = "RESUME";

/// Whom a switch is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ScopeName {
    Global,
    Agent,
}

/// A switch to be thrown.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Switch {
    scope: Option<ScopeName>,
    agent_id: Option<AgentId>,
    /// By name or id.
    agent: Option<String>,
    paused: bool,
    reason: Option<String>,
    confirm: Option<String>,
}

/// All switches.
#[derive(Debug, Serialize)]
pub(crate) struct Switches {
    global: StopView,
    /// Those of agents that are on.
    agents: Vec<StopView>,
}

/// One switch as it stands.
#[derive(Debug, Serialize)]
pub(crate) struct StopView {
    scope: ScopeName,
    #[serde(skip_serializing_if = "Option::is_none")]
    agent_id: Option<AgentId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    agent: Option<String>,
    paused: bool,
    paused_by: Option<PausedBy>,
    reason: Option<String>,
    paused_at: Option<Timestamp>,
    /// Only after a stop: whether a restart will remember it.
    #[serde(skip_serializing_if = "Option::is_none")]
    kept: Option<bool>,
}

pub(crate) async fn show(State(admin): State<Admin>) -> Json<Switches> {
    let gate = admin.gate();
    let directory = gate.directory();
    let mut entries: Vec<_> = directory
        .data()
        .agents
        .iter()
        .filter_map(|record| directory.by_id(record.agent.id))
        .filter(|entry| agents::is_living(entry) && entry.turnstile.switch().is_stopped())
        .collect();
    entries.sort_by_key(|entry| (entry.agent.created_at, entry.agent.id));
    let agents = entries.into_iter().map(|entry| of_agent(gate, entry)).collect();
    Json(Switches { global: global(gate), agents })
}

pub(crate) async fn switch(
    State(admin): State<Admin>,
    Extension(actor): Extension<Actor>,
    Body(given): Body<Switch>,
) -> Result<Json<StopView>, ApiError> {
    let scope = scope(&admin, &given)?;
    let mut kept = None;
    if given.paused {
        let reason = bounded(given.reason);
        kept = Some(stop(&admin, actor, scope, PausedBy::User, reason).await?);
    } else {
        confirmed(given.confirm.as_deref())?;
        if let Scope::Agent(id) = scope {
            agents::living(&admin, &id.to_string())?;
        }
        resume(&admin, actor, scope).await?;
    }
    let gate = admin.gate();
    let mut state = match scope {
        Scope::Global => global(gate),
        Scope::Agent(id) => of_agent(gate, &*agents::find(&admin, &id.to_string())?),
    };
    state.kept = kept;
    Ok(Json(state))
}

/// Stops. Says whether the store took it: in force it is either way.
pub(crate) async fn stop(
    admin: &Admin,
    actor: Actor,
    scope: Scope,
    by: PausedBy,
    reason: String,
) -> Result<bool, ApiError> {
    match admin.blocking(move |gate| gate.stop(&actor, scope, by, reason)).await? {
        StopReport::Kept => Ok(true),
        StopReport::InMemoryOnly(error) => {
            tracing::error!(%error, "the stop is in force, but a restart would forget it");
            Ok(false)
        }
    }
}

/// Resumes. Nothing is changed where nothing is stopped.
pub(crate) async fn resume(admin: &Admin, actor: Actor, scope: Scope) -> Result<(), ApiError> {
    if is_stopped(admin.gate(), scope) {
        admin.blocking(move |gate| gate.resume(&actor, scope)).await??;
    }
    Ok(())
}

/// Only a person resumes, and says so.
pub(crate) fn confirmed(given: Option<&str>) -> Result<(), ApiError> {
    if given == Some(RESUME) {
        return Ok(());
    }
    Err(ApiError::invalid("confirm", "resuming needs the word `RESUME`"))
}

fn scope(admin: &Admin, given: &Switch) -> Result<Scope, ApiError> {
    let named = match (&given.agent, given.agent_id) {
        (Some(_), Some(_)) => {
            return Err(ApiError::invalid("agent", "give `agent` or `agent_id`, not both"));
        }
        (Some(name), None) => Some(name.clone()),
        (None, id) => id.map(|id| id.to_string()),
    };
    match (given.scope, named) {
        (None | Some(ScopeName::Global), None) => Ok(Scope::Global),
        (None | Some(ScopeName::Agent), Some(name)) => {
            Ok(Scope::Agent(agents::find(admin, &name)?.agent.id))
        }
        (Some(ScopeName::Agent), None) => {
            Err(ApiError::invalid("agent", "is missing: which agent?"))
        }
        (Some(ScopeName::Global), Some(_)) => {
            Err(ApiError::invalid("agent", "has no meaning with scope `global`"))
        }
    }
}

fn is_stopped(gate: &Gate, scope: Scope) -> bool {
    match scope {
        Scope::Global => gate.is_stopped(),
        Scope::Agent(id) => {
            gate.directory().by_id(id).is_some_and(|entry| entry.turnstile.switch().is_stopped())
        }
    }
}

fn global(gate: &Gate) -> StopView {
    state(gate, Scope::Global, None)
}

fn of_agent(gate: &Gate, entry: &Entry) -> StopView {
    state(gate, Scope::Agent(entry.agent.id), Some((entry.agent.id, entry.agent.name.clone())))
}

fn state(gate: &Gate, scope: Scope, agent: Option<(AgentId, String)>) -> StopView {
    let paused = is_stopped(gate, scope);
    let known = gate.stops().into_iter().find(|stop| stop.scope == scope).filter(|_| paused);
    let (agent_id, agent) = agent.unzip();
    StopView {
        scope: if agent_id.is_some() { ScopeName::Agent } else { ScopeName::Global },
        agent_id,
        agent,
        paused,
        paused_by: known.as_ref().map(|stop| stop.paused_by),
        paused_at: known.as_ref().map(|stop| stop.paused_at),
        reason: known.map(|stop| stop.reason),
        kept: None,
    }
}

/// A stop is not held up by what is wrong with its reason: that is cut.
pub(crate) fn bounded(reason: Option<String>) -> String {
    const KEPT_CHARS_MAX: usize = 200;
    let text = reason.unwrap_or_default();
    text.chars().filter(|c| !c.is_control()).take(KEPT_CHARS_MAX).collect()
}
