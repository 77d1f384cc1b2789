//! A policy file taken in: rule sets and services become exactly those of the plan; agents are added
//! or moved, never removed.

use std::collections::HashSet;

use agentguard_core::agent::AgentStatus;
use agentguard_core::{AgentId, RuleSetId};
use agentguard_gate::ports::RegistryError;
use agentguard_gate::{ImportPlan, PolicyData, RuleSet};
use rusqlite::Connection;
use serde_json::{Value, json};

use crate::change::{Told, agent_of, check_name_free, execute, shown, told};
use crate::credentials;
use crate::policy::{insert_agent, insert_rule, put_price, put_service};

pub(crate) fn make(
    db: &Connection,
    plan: &ImportPlan,
    data: &PolicyData,
) -> Result<Told, RegistryError> {
    check(plan)?;
    // New sets first, then the agents that move, then the sets that nobody is left in.
    put_rule_sets(db, plan)?;
    for (agent, token_hash) in &plan.new_agents {
        check_name_free(data, agent)?;
        insert_agent(db, agent, token_hash)?;
    }
    for (id, set) in moves(plan, data)? {
        let sql = "UPDATE agents SET rule_set_id = ?2 WHERE id = ?1";
        execute(db, sql, (id.to_string(), set.to_string()))?;
    }
    for set in &data.rule_sets {
        if !plan.rule_sets.iter().any(|kept| kept.id == set.id) {
            execute(db, "DELETE FROM rule_sets WHERE id = ?1", [set.id.to_string()])?;
        }
    }
    execute(db, "DELETE FROM services", [])?;
    for service in &plan.services {
        put_service(db, service)?;
    }
    if let Some(prices) = &plan.prices {
        execute(db, "DELETE FROM prices", [])?;
        for spec in prices {
            put_price(db, spec)?;
        }
    }
    let mut after = after(plan);
    let removed = drop_credentials(db, plan, data)?;
    if let (Some(map), false) = (after.as_object_mut(), removed.is_empty()) {
        map.insert("credentials_removed".into(), json!(removed));
    }
    told("policy.import", "policy", &"policy", before(data, plan), after)
}

fn drop_credentials(
    db: &Connection,
    plan: &ImportPlan,
    data: &PolicyData,
) -> Result<Vec<String>, RegistryError> {
    let mut removed = credentials::aliases(db)?;
    removed.retain(|alias| !plan.keeps_credential(alias, data));
    for alias in &removed {
        credentials::remove(db, alias)?;
    }
    Ok(removed)
}

/// What the tables could only refuse in their own words.
fn check(plan: &ImportPlan) -> Result<(), RegistryError> {
    let sets: HashSet<RuleSetId> = plan.rule_sets.iter().map(|set| set.id).collect();
    let mut names = HashSet::new();
    let mut rules = HashSet::new();
    for set in &plan.rule_sets {
        if !names.insert(&set.name) {
            let text = format!("rule set `{}` is there twice", set.name);
            return Err(RegistryError::Invalid(text));
        }
        for rule in &set.rules {
            if rule.rule_set_id != set.id || !rules.insert(rule.id) {
                let text = format!("rule {} of set `{}` is there twice", rule.id, set.name);
                return Err(RegistryError::Invalid(text));
            }
        }
    }
    let mut aliases = HashSet::new();
    if let Some(twice) = plan.services.iter().find(|service| !aliases.insert(&service.alias)) {
        let text = format!("service `{}` is there twice", twice.alias);
        return Err(RegistryError::Invalid(text));
    }
    let mut models = HashSet::new();
    let mut prices = plan.prices.iter().flatten();
    if let Some(twice) = prices.find(|spec| !models.insert(&spec.model)) {
        let text = format!("price of `{}` is there twice", twice.model);
        return Err(RegistryError::Invalid(text));
    }
    let mut agents = HashSet::new();
    for (agent, _) in &plan.new_agents {
        if !agents.insert(&agent.name) {
            return Err(RegistryError::Exists { kind: "agent", name: agent.name.clone() });
        }
    }
    let asked = plan.new_agents.iter().map(|(agent, _)| agent.rule_set_id);
    let missing =
        asked.chain(plan.moved_agents.iter().map(|(_, set)| *set)).find(|set| !sets.contains(set));
    match missing {
        Some(set) => Err(RegistryError::NotFound { kind: "rule set", name: set.to_string() }),
        None => Ok(()),
    }
}

fn put_rule_sets(db: &Connection, plan: &ImportPlan) -> Result<(), RegistryError> {
    execute(db, "DELETE FROM rules", [])?;
    // Names out of the way first: two sets may trade theirs.
    execute(db, "UPDATE rule_sets SET name = 'moving ' || id", [])?;
    for set in &plan.rule_sets {
        let sql = "INSERT INTO rule_sets (id, name) VALUES (?1, ?2) \
                   ON CONFLICT (id) DO UPDATE SET name = excluded.name";
        execute(db, sql, (set.id.to_string(), &set.name))?;
        for rule in &set.rules {
            insert_rule(db, rule)?;
        }
    }
    Ok(())
}

/// Who gets which set: those of the plan, and revoked agents of a set that goes, which must belong
/// somewhere and never act again.
fn moves(plan: &ImportPlan, data: &PolicyData) -> Result<Vec<(AgentId, RuleSetId)>, RegistryError> {
    let mut moves = plan.moved_agents.clone();
    for (id, _) in &moves {
        agent_of(data, *id)?;
    }
    for record in &data.agents {
        let agent = &record.agent;
        let kept = plan.rule_sets.iter().any(|set| set.id == agent.rule_set_id);
        if kept || plan.moved_agents.iter().any(|(id, _)| *id == agent.id) {
            continue;
        }
        match (agent.status, plan.rule_sets.first()) {
            (AgentStatus::Revoked, Some(set)) => moves.push((agent.id, set.id)),
            (AgentStatus::Revoked, None)
            | (AgentStatus::Active | AgentStatus::Paused, Some(_) | None) => {
                let set = data.rule_sets.iter().find(|set| set.id == agent.rule_set_id);
                return Err(RegistryError::Invalid(format!(
                    "agent `{}` still uses rule set `{}`, which the file does not have: keep the \
                     set, or give the agent another",
                    agent.name,
                    set.map_or("?", |set| &set.name)
                )));
            }
        }
    }
    Ok(moves)
}

fn before(data: &PolicyData, plan: &ImportPlan) -> Value {
    let moved = data.agents.iter().filter(|record| {
        plan.moved_agents
            .iter()
            .any(|(id, set)| *id == record.agent.id && *set != record.agent.rule_set_id)
    });
    json!({
        "rule_sets": sets_shown(&data.rule_sets),
        "services": data.services,
        "prices": data.prices,
        "agents": moved.map(|record| shown(&record.agent)).collect::<Vec<_>>(),
    })
}

fn after(plan: &ImportPlan) -> Value {
    let moved: Vec<Value> =
        plan.moved_agents.iter().map(|(id, set)| json!({"id": id, "rule_set_id": set})).collect();
    json!({
        "rule_sets": sets_shown(&plan.rule_sets),
        "services": plan.services,
        "prices": plan.prices,
        "new_agents": plan.new_agents.iter().map(|(agent, _)| shown(agent)).collect::<Vec<_>>(),
        "moved_agents": moved,
    })
}

fn sets_shown(sets: &[RuleSet]) -> Vec<Value> {
    sets.iter().map(|set| json!({"id": set.id, "name": set.name, "rules": set.rules})).collect()
}
