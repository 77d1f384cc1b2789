//! The first start: one agent, safe rules, and a token that is shown once.

use agentguard_admin::plan;
use agentguard_core::token::Token;
use agentguard_gate::{Actor, Change, Gate, defaults};

use crate::failure::Failure;

/// The agent that the first start made.
#[derive(Debug)]
pub(super) struct FirstAgent {
    pub(super) name: String,
    pub(super) token: Token,
}

/// Puts the first policy in place if there is no agent at all, not even a revoked one.
pub(super) async fn policy(gate: &Gate) -> Result<Option<FirstAgent>, Failure> {
    if !gate.directory().data().agents.is_empty() {
        return Ok(None);
    }
    let gate = gate.clone();
    let made = tokio::task::spawn_blocking(move || make(&gate)).await;
    made.map_err(|error| Failure::because("making the first policy", &error))?.map(Some)
}

fn make(gate: &Gate) -> Result<FirstAgent, Failure> {
    let data = gate.directory().data().clone();
    let planned = plan(defaults::first_policy(), &data, gate.ids(), gate.now())
        .map_err(|error| Failure::because("making the first policy", &error))?;
    gate.change(&Actor::System, Change::Import(Box::new(planned.plan)))
        .map_err(|error| Failure::because("storing the first policy", &error))?;
    let mut agents = planned.new_agents.into_iter();
    let first = agents.next().ok_or_else(|| Failure::failed("the first policy has no agent"))?;
    Ok(FirstAgent { name: first.name, token: first.token })
}
