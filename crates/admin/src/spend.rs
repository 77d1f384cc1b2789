//! What was spent, and what is set aside.

use agentguard_core::MicroUsd;
use agentguard_gate::{SpendLine, Spending};
use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};

use crate::agents;
use crate::body::Query;
use crate::error::ApiError;
use crate::state::Admin;

/// Whose spending.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Whose {
    /// By name or id; none means all.
    agent: Option<String>,
}

/// Spending, of one agent or of all.
#[derive(Debug, Serialize)]
pub(crate) struct SpendView {
    #[serde(flatten)]
    total: Spending,
    agents: Vec<AgentSpend>,
}

/// One agent's.
#[derive(Debug, Serialize)]
pub(crate) struct AgentSpend {
    agent: String,
    #[serde(flatten)]
    spending: Spending,
}

pub(crate) async fn show(
    State(admin): State<Admin>,
    Query(whose): Query<Whose>,
) -> Result<Json<SpendView>, ApiError> {
    let gate = admin.gate();
    let entries: Vec<_> = match &whose.agent {
        Some(wanted) => vec![agents::find(&admin, wanted)?],
        None => {
            let directory = gate.directory();
            let records = directory.data().agents.iter();
            records.filter_map(|record| directory.by_id(record.agent.id).cloned()).collect()
        }
    };
    let mut agents: Vec<AgentSpend> = entries
        .iter()
        .map(|entry| AgentSpend { agent: entry.agent.name.clone(), spending: gate.spending(entry) })
        .collect();
    agents.sort_by(|a, b| a.agent.cmp(&b.agent));
    Ok(Json(SpendView { total: total(&agents), agents }))
}

/// Budgets are kept by agent, so a sum has a limit only where it is the sum of one.
fn total(agents: &[AgentSpend]) -> Spending {
    if let [one] = agents {
        return one.spending;
    }
    let line = |pick: fn(&Spending) -> SpendLine| {
        let none = SpendLine { used: MicroUsd::ZERO, reserved: MicroUsd::ZERO, limit: None };
        agents.iter().map(|of| pick(&of.spending)).fold(none, |sum, one| SpendLine {
            used: sum.used.plus(one.used),
            reserved: sum.reserved.plus(one.reserved),
            limit: None,
        })
    };
    Spending { day: line(|spending| spending.day), month: line(|spending| spending.month) }
}
