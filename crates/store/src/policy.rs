//! Policy out of the database and into it, one table at a time. What a change means is in `change`.

use agentguard_core::agent::AgentStatus;
use agentguard_core::price::PriceSpec;
use agentguard_core::rule::{RuleAction, RuleSpec, RuleType};
use agentguard_core::service::Service;
use agentguard_core::token::TokenHash;
use agentguard_core::{Agent, AgentId, RuleSetId, Timestamp};
use agentguard_gate::ports::RegistryError;
use agentguard_gate::{AgentRecord, PausedBy, PolicyData, RuleSet, Scope, Stop};
use rusqlite::{Connection, Row};
use thiserror::Error;

use crate::credentials::Credentials;

/// A value in the database that is none of ours: somebody changed it by hand.
#[derive(Debug, Error)]
#[error("`{value}` in {table}.{column} is not understood")]
struct Strange {
    table: &'static str,
    column: &'static str,
    value: String,
}

/// Wraps what SQLite says.
pub(crate) fn store_error(error: rusqlite::Error) -> RegistryError {
    RegistryError::Store(Box::new(error))
}

fn strange(table: &'static str, column: &'static str, value: String) -> RegistryError {
    RegistryError::Store(Box::new(Strange { table, column, value }))
}

/// All of it.
pub(crate) fn load(
    db: &Connection,
    credentials: &Credentials,
) -> Result<PolicyData, RegistryError> {
    let services = services(db)?;
    Ok(PolicyData {
        agents: agents(db)?,
        rule_sets: rule_sets(db)?,
        credentials: credentials.load(db, &services)?,
        services,
        stops: stops(db)?,
        prices: prices(db)?,
    })
}

/// As it stands in `kill_switch.scope`.
pub(crate) fn scope_text(scope: Scope) -> String {
    match scope {
        Scope::Global => "global".to_owned(),
        Scope::Agent(id) => id.to_string(),
    }
}

pub(crate) fn insert_agent(
    db: &Connection,
    agent: &Agent,
    token_hash: &TokenHash,
) -> Result<(), RegistryError> {
    db.prepare_cached(
        "INSERT INTO agents (id, name, status, rule_set_id, token_hash, created_at, last_seen_at, \
         description) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
    )
    .and_then(|mut statement| {
        statement.execute((
            agent.id.to_string(),
            &agent.name,
            agent.status.name(),
            agent.rule_set_id.to_string(),
            token_hash.0,
            agent.created_at.to_rfc3339(),
            agent.last_seen_at.map(Timestamp::to_rfc3339),
            &agent.description,
        ))
    })
    .map(|_| ())
    .map_err(store_error)
}

/// Adds a rule after the others of its set.
pub(crate) fn insert_rule(db: &Connection, rule: &RuleSpec) -> Result<(), RegistryError> {
    let json = |text: serde_json::Result<String>| {
        text.map_err(|error| RegistryError::Store(Box::new(error)))
    };
    let doors = rule.doors.as_ref().map(|doors| json(serde_json::to_string(doors))).transpose()?;
    let params = json(serde_json::to_string(&rule.params))?;
    db.prepare_cached(
        "INSERT INTO rules (id, rule_set_id, position, type, enabled, action, priority, doors, \
         params) VALUES (?1, ?2, (SELECT coalesce(max(position), 0) + 1 FROM rules WHERE \
         rule_set_id = ?2), ?3, ?4, ?5, ?6, ?7, ?8)",
    )
    .and_then(|mut statement| {
        statement.execute((
            rule.id.to_string(),
            rule.rule_set_id.to_string(),
            rule.kind.name(),
            rule.enabled,
            rule.action.name(),
            rule.priority,
            doors,
            params,
        ))
    })
    .map(|_| ())
    .map_err(store_error)
}

/// Creates or replaces a service.
pub(crate) fn put_service(db: &Connection, service: &Service) -> Result<(), RegistryError> {
    let settings =
        serde_json::to_string(service).map_err(|error| RegistryError::Store(Box::new(error)))?;
    db.prepare_cached(
        "INSERT INTO services (alias, base_url, kind, settings) VALUES (?1, ?2, ?3, ?4) \
         ON CONFLICT (alias) DO UPDATE SET base_url = excluded.base_url, kind = excluded.kind, \
         settings = excluded.settings",
    )
    .and_then(|mut statement| {
        statement.execute((
            &service.alias,
            service.base_url.as_str(),
            service.kind.name(),
            settings,
        ))
    })
    .map(|_| ())
    .map_err(store_error)
}

/// Creates or replaces a price.
pub(crate) fn put_price(db: &Connection, spec: &PriceSpec) -> Result<(), RegistryError> {
    let text =
        serde_json::to_string(spec).map_err(|error| RegistryError::Store(Box::new(error)))?;
    db.prepare_cached(
        "INSERT INTO prices (model, spec) VALUES (?1, ?2) \
         ON CONFLICT (model) DO UPDATE SET spec = excluded.spec",
    )
    .and_then(|mut statement| statement.execute((&spec.model, text)))
    .map(|_| ())
    .map_err(store_error)
}

fn agents(db: &Connection) -> Result<Vec<AgentRecord>, RegistryError> {
    let sql = "SELECT id, name, status, rule_set_id, token_hash, created_at, last_seen_at, \
               description FROM agents ORDER BY created_at, id";
    every(db, sql, |row| {
        let (id, status, set): (String, String, String) =
            (get(row, 0)?, get(row, 2)?, get(row, 3)?);
        let (created, seen): (String, Option<String>) = (get(row, 5)?, get(row, 6)?);
        let agent = Agent {
            id: id.parse().map_err(|_| strange("agents", "id", id))?,
            name: get(row, 1)?,
            status: AgentStatus::from_name(&status)
                .ok_or_else(|| strange("agents", "status", status))?,
            rule_set_id: set.parse().map_err(|_| strange("agents", "rule_set_id", set))?,
            created_at: time("agents", "created_at", created)?,
            last_seen_at: seen.map(|seen| time("agents", "last_seen_at", seen)).transpose()?,
            description: get(row, 7)?,
        };
        Ok(AgentRecord { agent, token_hash: TokenHash(get(row, 4)?) })
    })
}

fn rule_sets(db: &Connection) -> Result<Vec<RuleSet>, RegistryError> {
    let mut sets = every(db, "SELECT id, name FROM rule_sets ORDER BY name", |row| {
        let id: String = get(row, 0)?;
        let id: RuleSetId = id.parse().map_err(|_| strange("rule_sets", "id", id))?;
        Ok(RuleSet { id, name: get(row, 1)?, rules: Vec::new() })
    })?;
    let sql = "SELECT id, rule_set_id, type, enabled, action, priority, doors, params FROM rules \
               ORDER BY rule_set_id, position, id";
    for rule in every(db, sql, rule)? {
        let of = sets.iter_mut().find(|set| set.id == rule.rule_set_id);
        of.into_iter().for_each(|set| set.rules.push(rule.clone()));
    }
    Ok(sets)
}

fn rule(row: &Row<'_>) -> Result<RuleSpec, RegistryError> {
    let (id, set): (String, String) = (get(row, 0)?, get(row, 1)?);
    let (kind, action): (String, String) = (get(row, 2)?, get(row, 4)?);
    let (doors, params): (Option<String>, String) = (get(row, 6)?, get(row, 7)?);
    let doors = match doors {
        Some(text) => {
            Some(serde_json::from_str(&text).map_err(|_| strange("rules", "doors", text))?)
        }
        None => None,
    };
    Ok(RuleSpec {
        id: id.parse().map_err(|_| strange("rules", "id", id))?,
        rule_set_id: set.parse().map_err(|_| strange("rules", "rule_set_id", set))?,
        kind: RuleType::from_name(&kind).ok_or_else(|| strange("rules", "type", kind))?,
        enabled: get(row, 3)?,
        action: RuleAction::from_name(&action).ok_or_else(|| strange("rules", "action", action))?,
        priority: get(row, 5)?,
        doors,
        params: serde_json::from_str(&params).map_err(|_| strange("rules", "params", params))?,
    })
}

fn services(db: &Connection) -> Result<Vec<Service>, RegistryError> {
    every(db, "SELECT settings FROM services ORDER BY alias", |row| {
        let text: String = get(row, 0)?;
        serde_json::from_str(&text).map_err(|_| strange("services", "settings", text))
    })
}

fn prices(db: &Connection) -> Result<Vec<PriceSpec>, RegistryError> {
    every(db, "SELECT spec FROM prices ORDER BY model", |row| {
        let text: String = get(row, 0)?;
        serde_json::from_str(&text).map_err(|_| strange("prices", "spec", text))
    })
}

fn stops(db: &Connection) -> Result<Vec<Stop>, RegistryError> {
    let sql = "SELECT scope, paused_by, reason, paused_at FROM kill_switch ORDER BY scope";
    every(db, sql, |row| {
        let (scope, by, at): (String, String, String) = (get(row, 0)?, get(row, 1)?, get(row, 3)?);
        let scope = match scope.as_str() {
            "global" => Scope::Global,
            agent => {
                let id: Result<AgentId, _> = agent.parse();
                Scope::Agent(id.map_err(|_| strange("kill_switch", "scope", scope))?)
            }
        };
        Ok(Stop {
            scope,
            paused_by: PausedBy::from_name(&by)
                .ok_or_else(|| strange("kill_switch", "paused_by", by))?,
            reason: get(row, 2)?,
            paused_at: time("kill_switch", "paused_at", at)?,
        })
    })
}

fn every<T>(
    db: &Connection,
    sql: &str,
    mut read: impl FnMut(&Row<'_>) -> Result<T, RegistryError>,
) -> Result<Vec<T>, RegistryError> {
    let mut statement = db.prepare_cached(sql).map_err(store_error)?;
    let mut rows = statement.query([]).map_err(store_error)?;
    let mut all = Vec::new();
    while let Some(row) = rows.next().map_err(store_error)? {
        all.push(read(row)?);
    }
    Ok(all)
}

fn get<T: rusqlite::types::FromSql>(row: &Row<'_>, place: usize) -> Result<T, RegistryError> {
    row.get(place).map_err(store_error)
}

fn time(
    table: &'static str,
    column: &'static str,
    text: String,
) -> Result<Timestamp, RegistryError> {
    Timestamp::parse_rfc3339(&text).ok_or_else(|| strange(table, column, text))
}
