//! Changes of policy: what each does to the tables, and what its row in `config_changes` says.
//! Token hashes never show: they are written as `***`. Of a credential it says only what became of it.

use agentguard_core::agent::AgentStatus;
use agentguard_core::service::Service;
use agentguard_core::token::TokenHash;
use agentguard_core::{Agent, AgentId, RuleSetId};
use agentguard_gate::ports::RegistryError;
use agentguard_gate::{Change, CredentialChange, PolicyData, Scope, Stop};
use rusqlite::{Connection, Params};
use serde_json::{Value, json};

use crate::credentials::{self, Credentials};
use crate::import;
use crate::policy::{insert_agent, insert_rule, put_price, put_service, scope_text, store_error};

/// What a change is called on the record, and what it changed from and to.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) action: &'static str,
    pub(crate) resource_type: &'static str,
    pub(crate) resource_id: String,
    pub(crate) before: Value,
    pub(crate) after: Value,
}

/// Makes a change inside the caller's transaction. `data` is the policy before it.
pub(crate) fn make(
    db: &Connection,
    change: &Change,
    data: &PolicyData,
    credentials: &Credentials,
) -> Result<Told, RegistryError> {
    match change {
        Change::AddAgent { agent, token_hash } => add_agent(db, agent, token_hash, data),
        Change::RevokeAgent(id) => set_status(db, *id, AgentStatus::Revoked, data),
        Change::RotateToken { agent_id, token_hash } => {
            rotate_token(db, *agent_id, token_hash, data)
        }
        Change::AddRule(rule) => {
            rule_set_named(data, rule.rule_set_id)?;
            if data.rule_sets.iter().flat_map(|set| &set.rules).any(|known| known.id == rule.id) {
                return Err(RegistryError::Exists { kind: "rule", name: rule.id.to_string() });
            }
            insert_rule(db, rule)?;
            told("rule.add", "rule", &rule.id, Value::Null, json!(rule))
        }
        Change::RemoveRule(id) => {
            let known = data.rule_sets.iter().flat_map(|set| &set.rules).find(|r| r.id == *id);
            let rule =
                known.ok_or(RegistryError::NotFound { kind: "rule", name: id.to_string() })?;
            execute(db, "DELETE FROM rules WHERE id = ?1", [id.to_string()])?;
            told("rule.remove", "rule", id, json!(rule), Value::Null)
        }
        Change::ClearRules(id) => {
            let rules = rule_set_named(data, *id)?;
            execute(db, "DELETE FROM rules WHERE rule_set_id = ?1", [id.to_string()])?;
            told("rules.clear", "rule_set", id, rules, json!([]))
        }
        Change::PutService { service, credential } => {
            let before = data.services.iter().find(|known| known.alias == service.alias);
            put_service(db, service)?;
            let became = change_credential(db, service, before, credential, credentials)?;
            let after = with_credential(json!(service), became);
            told("service.put", "service", &service.alias, json!(before), after)
        }
        Change::RemoveService(alias) => {
            let known = data.services.iter().find(|known| known.alias == *alias);
            let before =
                known.ok_or(RegistryError::NotFound { kind: "service", name: alias.clone() })?;
            let was = credentials::is_stored(db, alias)?.then_some("stored");
            credentials::remove(db, alias)?;
            execute(db, "DELETE FROM services WHERE alias = ?1", [alias])?;
            let before = with_credential(json!(before), was);
            told("service.remove", "service", alias, before, Value::Null)
        }
        Change::PutPrice(spec) => {
            let before = data.prices.iter().find(|known| known.model == spec.model);
            put_price(db, spec)?;
            told("price.put", "price", &spec.model, json!(before), json!(spec))
        }
        Change::RemovePrice(model) => {
            let known = data.prices.iter().find(|known| known.model == *model);
            let before =
                known.ok_or(RegistryError::NotFound { kind: "price", name: model.clone() })?;
            execute(db, "DELETE FROM prices WHERE model = ?1", [model])?;
            told("price.remove", "price", model, json!(before), Value::Null)
        }
        Change::Stop(stop) => switch_on(db, stop, data),
        Change::Resume(scope) => switch_off(db, *scope, data),
        Change::Reload { before, after } => {
            told("config.reload", "configuration", &"file", before.clone(), after.clone())
        }
        Change::Import(plan) => import::make(db, plan, data),
    }
}

/// An agent as the record shows it.
pub(crate) fn shown(agent: &Agent) -> Value {
    let mut value = json!(agent);
    if let Some(map) = value.as_object_mut() {
        // It changes with every batch and is no policy.
        map.remove("last_seen_at");
        map.insert("token_hash".into(), json!("***"));
    }
    value
}

pub(crate) fn told(
    action: &'static str,
    resource_type: &'static str,
    resource_id: &impl ToString,
    before: Value,
    after: Value,
) -> Result<Told, RegistryError> {
    Ok(Told { action, resource_type, resource_id: resource_id.to_string(), before, after })
}

pub(crate) fn execute(
    db: &Connection,
    sql: &str,
    params: impl Params,
) -> Result<usize, RegistryError> {
    db.execute(sql, params).map_err(store_error)
}

/// The living have their names to themselves.
pub(crate) fn check_name_free(data: &PolicyData, agent: &Agent) -> Result<(), RegistryError> {
    let taken = data.agents.iter().any(|known| {
        known.agent.id == agent.id
            || (known.agent.name == agent.name && known.agent.status != AgentStatus::Revoked)
    });
    if taken {
        return Err(RegistryError::Exists { kind: "agent", name: agent.name.clone() });
    }
    Ok(())
}

pub(crate) fn agent_of(data: &PolicyData, id: AgentId) -> Result<&Agent, RegistryError> {
    let found = data.agents.iter().find(|record| record.agent.id == id);
    found
        .map(|record| &record.agent)
        .ok_or(RegistryError::NotFound { kind: "agent", name: id.to_string() })
}

/// What became of a service's credential. One that was stored for another origin goes, whatever was
/// asked: who may change where a service leads must not get at its key that way.
fn change_credential(
    db: &Connection,
    service: &Service,
    before: Option<&Service>,
    change: &CredentialChange,
    credentials: &Credentials,
) -> Result<Option<&'static str>, RegistryError> {
    let had = credentials::is_stored(db, &service.alias)?;
    let moved = before.is_none_or(|before| before.origin() != service.origin());
    match change {
        CredentialChange::Set(credential) => {
            credentials.put(db, service, credential)?;
            Ok(Some(if had { "changed" } else { "set" }))
        }
        CredentialChange::Keep if !moved => Ok(None),
        CredentialChange::Keep | CredentialChange::Remove => {
            credentials::remove(db, &service.alias)?;
            Ok(had.then_some("removed"))
        }
    }
}

fn with_credential(mut service: Value, said: Option<&str>) -> Value {
    if let (Some(map), Some(said)) = (service.as_object_mut(), said) {
        map.insert("credential".into(), json!(said));
    }
    service
}

fn add_agent(
    db: &Connection,
    agent: &Agent,
    token_hash: &TokenHash,
    data: &PolicyData,
) -> Result<Told, RegistryError> {
    check_name_free(data, agent)?;
    rule_set_named(data, agent.rule_set_id)?;
    insert_agent(db, agent, token_hash)?;
    told("agent.add", "agent", &agent.id, Value::Null, shown(agent))
}

fn set_status(
    db: &Connection,
    id: AgentId,
    status: AgentStatus,
    data: &PolicyData,
) -> Result<Told, RegistryError> {
    let before = agent_of(data, id)?;
    write_status(db, id, status)?;
    let after = Agent { status, ..before.clone() };
    told("agent.revoke", "agent", &id, shown(before), shown(&after))
}

fn rotate_token(
    db: &Connection,
    id: AgentId,
    token_hash: &TokenHash,
    data: &PolicyData,
) -> Result<Told, RegistryError> {
    let agent = agent_of(data, id)?;
    if agent.status == AgentStatus::Revoked {
        let text = format!("agent `{}` is revoked: add a new agent instead", agent.name);
        return Err(RegistryError::Invalid(text));
    }
    let sql = "UPDATE agents SET token_hash = ?2 WHERE id = ?1";
    execute(db, sql, (id.to_string(), token_hash.0))?;
    told("agent.rotate_token", "agent", &id, shown(agent), shown(agent))
}

fn switch_on(db: &Connection, stop: &Stop, data: &PolicyData) -> Result<Told, RegistryError> {
    if let Scope::Agent(id) = stop.scope
        && agent_of(data, id)?.status != AgentStatus::Revoked
    {
        write_status(db, id, AgentStatus::Paused)?;
    }
    let sql = "INSERT INTO kill_switch (scope, paused_by, reason, paused_at) \
               VALUES (?1, ?2, ?3, ?4) ON CONFLICT (scope) DO UPDATE SET \
               paused_by = excluded.paused_by, reason = excluded.reason, \
               paused_at = excluded.paused_at";
    let scope = scope_text(stop.scope);
    let at = stop.paused_at.to_rfc3339();
    execute(db, sql, (&scope, stop.paused_by.name(), &stop.reason, at))?;
    told("kill_switch.on", "kill_switch", &scope, was_on(data, stop.scope), stop_shown(stop))
}

/// A switch that is not on is switched off all the same: it may be on in memory only, because the
/// store failed when it was switched on.
fn switch_off(db: &Connection, scope: Scope, data: &PolicyData) -> Result<Told, RegistryError> {
    if let Scope::Agent(id) = scope
        && agent_of(data, id)?.status == AgentStatus::Paused
    {
        write_status(db, id, AgentStatus::Active)?;
    }
    let name = scope_text(scope);
    execute(db, "DELETE FROM kill_switch WHERE scope = ?1", [&name])?;
    told("kill_switch.off", "kill_switch", &name, was_on(data, scope), Value::Null)
}

fn was_on(data: &PolicyData, scope: Scope) -> Value {
    data.stops.iter().find(|stop| stop.scope == scope).map_or(Value::Null, stop_shown)
}

fn stop_shown(stop: &Stop) -> Value {
    json!({"paused_by": stop.paused_by, "reason": stop.reason, "paused_at": stop.paused_at})
}

fn write_status(db: &Connection, id: AgentId, status: AgentStatus) -> Result<(), RegistryError> {
    let sql = "UPDATE agents SET status = ?2 WHERE id = ?1";
    execute(db, sql, (id.to_string(), status.name())).map(|_| ())
}

/// The rules of a set that exists.
fn rule_set_named(data: &PolicyData, id: RuleSetId) -> Result<Value, RegistryError> {
    let found = data.rule_sets.iter().find(|set| set.id == id);
    found
        .map(|set| json!(set.rules))
        .ok_or(RegistryError::NotFound { kind: "rule set", name: id.to_string() })
}
