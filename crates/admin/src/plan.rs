//! From a policy file to a plan: names become ids, new agents get tokens, and everything is checked
//! before anything is changed. Used by `policy import` and by the first start.

use std::collections::{HashMap, HashSet};

use agentguard_core::agent::is_name;
use agentguard_core::limits::{PRICES_MAX, RULES_PER_SET_MAX, TEXT_BYTES_MAX};
use agentguard_core::price::PriceSpec;
use agentguard_core::time::Zone;
use agentguard_core::token::{PREFIX, Token};
use agentguard_core::{Agent, AgentId, AgentStatus, RuleId, RuleSetId, Timestamp};
use agentguard_gate::{
    AgentDraft, IdSource, ImportPlan, PolicyData, PolicyFile, RuleSet, RuleSetDraft,
};
use thiserror::Error;

use crate::limits::THINGS_MAX;

/// The format that is written and read.
pub(crate) const VERSION: u32 = 1;

/// Why a policy file cannot be put into force.
#[derive(Debug, Error)]
pub enum PlanError {
    /// Something in it is wrong; the text names the place.
    #[error("{0}")]
    Invalid(String),
    /// No randomness for ids or tokens.
    #[error("making ids and tokens")]
    NoRandomness(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// An agent that the plan makes, with the token that nobody will see again.
#[derive(Debug)]
pub struct NewAgent {
    /// Its id.
    pub id: AgentId,
    /// Its name.
    pub name: String,
    /// Its token.
    pub token: Token,
}

/// A plan, and what has to be told about it.
#[derive(Debug)]
pub struct Planned {
    /// For [`agentguard_gate::Change::Import`].
    pub plan: ImportPlan,
    /// The agents that it makes.
    pub new_agents: Vec<NewAgent>,
}

/// Plans how `data` becomes what the file says. Rule sets and services become exactly those of the
/// file; agents are added or moved, never removed.
pub fn plan(
    file: PolicyFile,
    data: &PolicyData,
    ids: &IdSource,
    at: Timestamp,
) -> Result<Planned, PlanError> {
    if file.version != VERSION {
        return invalid(format!("version: {} is unknown; this gate reads {VERSION}", file.version));
    }
    let rule_sets = rule_sets(file.rule_sets, data, ids)?;
    services(&file.services)?;
    prices(file.prices.as_deref().unwrap_or_default())?;
    let by_name: HashMap<&str, RuleSetId> =
        rule_sets.iter().map(|set| (set.name.as_str(), set.id)).collect();
    let mut planned = Planned {
        plan: ImportPlan {
            rule_sets: Vec::new(),
            services: file.services,
            new_agents: Vec::new(),
            moved_agents: Vec::new(),
            prices: file.prices,
        },
        new_agents: Vec::new(),
    };
    agents(file.agents, &by_name, data, ids, at, &mut planned)?;
    keep_their_rules(data, &rule_sets, &planned.plan)?;
    planned.plan.rule_sets = rule_sets;
    Ok(planned)
}

fn rule_sets(
    drafts: Vec<RuleSetDraft>,
    data: &PolicyData,
    ids: &IdSource,
) -> Result<Vec<RuleSet>, PlanError> {
    bounded("rule_sets", drafts.len(), THINGS_MAX)?;
    let mut names = HashSet::new();
    let mut rule_ids = HashSet::new();
    let mut sets = Vec::new();
    for draft in drafts {
        let place = format!("rule set `{}`", draft.name);
        if !is_name(&draft.name) {
            return invalid(format!("rule_sets: `{}` is no name", draft.name.escape_debug()));
        }
        if !names.insert(draft.name.clone()) {
            return invalid(format!("{place}: is there twice"));
        }
        bounded(&place, draft.rules.len(), RULES_PER_SET_MAX)?;
        let known = data.rule_sets.iter().find(|set| set.name == draft.name);
        let id = known.map_or_else(|| ids.rule_set().map_err(no_randomness), |set| Ok(set.id))?;
        let mut rules = Vec::new();
        for rule in draft.rules {
            let rule_id: RuleId = rule.id.map_or_else(|| ids.rule().map_err(no_randomness), Ok)?;
            let spec = rule.into_spec(rule_id, id);
            if !rule_ids.insert(rule_id) {
                return invalid(format!("{place}: the rule id {rule_id} is there twice"));
            }
            if let Err(error) = spec.compile(&Zone::UTC) {
                return invalid(format!("{place}: {error}"));
            }
            rules.push(spec);
        }
        sets.push(RuleSet { id, name: draft.name, rules });
    }
    Ok(sets)
}

fn services(services: &[agentguard_core::service::Service]) -> Result<(), PlanError> {
    bounded("services", services.len(), THINGS_MAX)?;
    let mut aliases = HashSet::new();
    for service in services {
        if let Err(error) = service.check() {
            return invalid(format!("service `{}`: {error}", service.alias.escape_debug()));
        }
        if !aliases.insert(&service.alias) {
            return invalid(format!("service `{}`: is there twice", service.alias));
        }
    }
    Ok(())
}

fn prices(prices: &[PriceSpec]) -> Result<(), PlanError> {
    bounded("prices", prices.len(), PRICES_MAX)?;
    let mut names = HashSet::new();
    for spec in prices {
        let place = format!("price of `{}`", spec.model.escape_debug());
        if let Err(error) = spec.price() {
            return invalid(format!("{place}: {error}"));
        }
        if !names.insert(spec.model.to_ascii_lowercase()) {
            return invalid(format!("{place}: is there twice"));
        }
    }
    Ok(())
}

fn agents(
    drafts: Vec<AgentDraft>,
    sets: &HashMap<&str, RuleSetId>,
    data: &PolicyData,
    ids: &IdSource,
    at: Timestamp,
    planned: &mut Planned,
) -> Result<(), PlanError> {
    bounded("agents", drafts.len(), THINGS_MAX)?;
    let mut names = HashSet::new();
    for draft in drafts {
        let place = format!("agent `{}`", draft.name.escape_debug());
        if !is_name(&draft.name) {
            return invalid(format!("agents: {place} has no valid name"));
        }
        if !names.insert(draft.name.clone()) {
            return invalid(format!("{place}: is there twice"));
        }
        let long = draft.description.as_ref().is_some_and(|text| text.len() > TEXT_BYTES_MAX);
        if long {
            return invalid(format!("{place}: description: is longer than {TEXT_BYTES_MAX} bytes"));
        }
        let Some(set) = sets.get(draft.rule_set.as_str()) else {
            let wanted = draft.rule_set.escape_debug();
            return invalid(format!("{place}: rule_set: `{wanted}` is not in the file"));
        };
        match living(data).find(|agent| agent.name == draft.name) {
            Some(agent) if agent.rule_set_id == *set => {}
            Some(agent) => planned.plan.moved_agents.push((agent.id, *set)),
            None => add(draft, *set, ids, at, planned)?,
        }
    }
    Ok(())
}

fn add(
    draft: AgentDraft,
    rule_set_id: RuleSetId,
    ids: &IdSource,
    at: Timestamp,
    planned: &mut Planned,
) -> Result<(), PlanError> {
    let id = ids.agent().map_err(no_randomness)?;
    let token = ids.token(PREFIX).map_err(no_randomness)?;
    let name = draft.name.clone();
    let agent = Agent {
        id,
        name: draft.name,
        status: AgentStatus::Active,
        rule_set_id,
        created_at: at,
        last_seen_at: None,
        description: draft.description,
    };
    planned.plan.new_agents.push((agent, token.hash()));
    planned.new_agents.push(NewAgent { id, name, token });
    Ok(())
}

/// An agent that the file does not name keeps its rule set, so the set must still be there. The
/// revoked ones too: their rows on the record point at it.
fn keep_their_rules(
    data: &PolicyData,
    sets: &[RuleSet],
    plan: &ImportPlan,
) -> Result<(), PlanError> {
    for agent in data.agents.iter().map(|record| &record.agent) {
        let moved = plan.moved_agents.iter().any(|(id, _)| *id == agent.id);
        if moved || sets.iter().any(|set| set.id == agent.rule_set_id) {
            continue;
        }
        let known = data.rule_sets.iter().find(|set| set.id == agent.rule_set_id);
        let set = known.map_or("?", |set| set.name.as_str());
        return invalid(format!(
            "rule_sets: `{set}` is missing, and agent `{}` is under it",
            agent.name
        ));
    }
    Ok(())
}

fn living(data: &PolicyData) -> impl Iterator<Item = &Agent> {
    data.agents
        .iter()
        .map(|record| &record.agent)
        .filter(|agent| agent.status != AgentStatus::Revoked)
}

fn bounded(what: &str, count: usize, max: usize) -> Result<(), PlanError> {
    if count > max {
        return invalid(format!("{what}: more than {max}"));
    }
    Ok(())
}

fn invalid<T>(why: String) -> Result<T, PlanError> {
    Err(PlanError::Invalid(why))
}

fn no_randomness(error: impl std::error::Error + Send + Sync + 'static) -> PlanError {
    PlanError::NoRandomness(Box::new(error))
}
