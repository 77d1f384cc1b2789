//! Rows of the record on their way into the database: the three logs, and alerts.
//!
//! Every function here runs inside a transaction of its caller and moves a copy of the heads on: if
//! the transaction does not commit, the copy is thrown away.

use std::borrow::Cow;

use agentguard_core::risk::Risk;
use agentguard_core::{Currency, Timestamp};
use agentguard_gate::{AlertEvent, Row, Severity, SystemEvent};
use rusqlite::{CachedStatement, Connection};
use serde_json::{Value, json};
use uuid::Uuid;
use uuid::fmt::Hyphenated;

use crate::chain::{Cell, Chainer, Head, Heads};
use crate::limits::FACTS_BYTES_MAX;
use crate::log::Log;

/// An event or an alert that waits to be written.
#[derive(Debug)]
pub(crate) enum Note {
    Event(SystemEvent),
    Alert(Box<AlertEvent>),
}

/// A row of `config_changes`.
#[derive(Debug)]
pub(crate) struct ConfigChange<'a> {
    pub(crate) at: Timestamp,
    pub(crate) actor: &'a str,
    pub(crate) action: &'a str,
    pub(crate) resource_type: &'a str,
    pub(crate) resource_id: &'a str,
    pub(crate) before: &'a Value,
    pub(crate) after: &'a Value,
}

/// Adds rows to the request log.
pub(crate) fn insert_requests<'r>(
    db: &Connection,
    heads: &mut Heads,
    chainer: &mut Chainer,
    rows: impl Iterator<Item = &'r Row>,
) -> rusqlite::Result<()> {
    let mut statement = db.prepare_cached(Log::Transactions.insert())?;
    let mut texts = Texts::default();
    for row in rows {
        let seq = heads.transactions.rows.saturating_add(1);
        texts.fill(row);
        let cells = texts.cells(seq, row);
        insert(&mut statement, Log::Transactions, &mut heads.transactions, chainer, &cells)?;
    }
    Ok(())
}

/// Adds an event to the system log.
pub(crate) fn insert_event(
    db: &Connection,
    heads: &mut Heads,
    chainer: &mut Chainer,
    event: &SystemEvent,
) -> rusqlite::Result<()> {
    let seq = heads.system_events.rows.saturating_add(1);
    let (at, details) = (event.at.to_rfc3339(), event.details.to_string());
    let cells = [
        Cell::Int(seq),
        Cell::Text(&at),
        Cell::Text(event.event),
        Cell::Text(event.severity.name()),
        Cell::Text(&event.message),
        Cell::Text(&details),
    ];
    let mut statement = db.prepare_cached(Log::SystemEvents.insert())?;
    insert(&mut statement, Log::SystemEvents, &mut heads.system_events, chainer, &cells)
}

/// Keeps an alert, and puts it on the system log.
pub(crate) fn insert_alert(
    db: &Connection,
    heads: &mut Heads,
    chainer: &mut Chainer,
    alert: &AlertEvent,
) -> rusqlite::Result<()> {
    let agent_id = alert.agent_id.map(|id| id.to_string());
    let details = alert.details.to_string();
    db.prepare_cached(
        "INSERT INTO alerts (timestamp, event, severity, agent_id, agent_name, message, details) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    )?
    .execute((
        alert.timestamp.to_rfc3339(),
        alert.event.name(),
        alert.severity.name(),
        &agent_id,
        &alert.agent_name,
        &alert.message,
        &details,
    ))?;
    let event = SystemEvent {
        at: alert.timestamp,
        event: "alert",
        severity: alert.severity,
        message: alert.message.clone(),
        details: json!({
            "event": alert.event.name(),
            "agent_id": agent_id,
            "agent_name": alert.agent_name,
            "details": alert.details,
        }),
    };
    insert_event(db, heads, chainer, &event)
}

/// Adds a row to the log of changes.
pub(crate) fn insert_config_change(
    db: &Connection,
    heads: &mut Heads,
    chainer: &mut Chainer,
    change: &ConfigChange<'_>,
) -> rusqlite::Result<()> {
    let seq = heads.config_changes.rows.saturating_add(1);
    let at = change.at.to_rfc3339();
    let (before, after) = (change.before.to_string(), change.after.to_string());
    let sum = checksum(&[&at, change.action, change.resource_id, &before, &after]);
    let cells = [
        Cell::Int(seq),
        Cell::Text(&at),
        Cell::Text(change.actor),
        Cell::Text(change.action),
        Cell::Text(change.resource_type),
        Cell::Text(change.resource_id),
        Cell::Text(&before),
        Cell::Text(&after),
        Cell::Text(&sum),
    ];
    let mut statement = db.prepare_cached(Log::ConfigChanges.insert())?;
    insert(&mut statement, Log::ConfigChanges, &mut heads.config_changes, chainer, &cells)
}

/// An event that the store itself has to tell.
pub(crate) fn own_event(
    at: Timestamp,
    event: &'static str,
    severity: Severity,
    message: String,
    details: Value,
) -> SystemEvent {
    SystemEvent { at, event, severity, message, details }
}

/// `SHA-256(timestamp + action + resource_id + before + after)`, of the texts as they are stored.
pub(crate) fn checksum(parts: &[&str]) -> String {
    use sha2::{Digest, Sha256};
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update(part.as_bytes());
    }
    crate::chain::hex(&hasher.finalize())
}

/// What stands in `risk` where a risk rule looked and nothing was unusual, which is most rows: the
/// whole text would be a fifth of such a row. Readers show it in full.
pub(crate) const NOTHING_UNUSUAL: &str = "0";

/// The JSON of a risk. It is plain data; if it ever could not be written, the row still must be.
fn risk_text(risk: &Risk) -> Option<Cow<'static, str>> {
    if *risk == Risk::none() {
        return Some(Cow::Borrowed(NOTHING_UNUSUAL));
    }
    serde_json::to_string(risk).ok().map(Cow::Owned)
}

fn insert(
    statement: &mut CachedStatement<'_>,
    log: Log,
    head: &mut Head,
    chainer: &mut Chainer,
    cells: &[Cell<'_>],
) -> rusqlite::Result<()> {
    let hash = chainer.row(log, &head.hash, cells);
    let mut place = 1;
    for cell in cells {
        statement.raw_bind_parameter(place, cell)?;
        place = place.saturating_add(1);
    }
    statement.raw_bind_parameter(place, hash)?;
    statement.raw_execute()?;
    *head = Head { rows: head.rows.saturating_add(1), hash };
    Ok(())
}

/// Texts of a row that have to be made; kept from row to row.
#[derive(Debug)]
struct Texts {
    id: [u8; Hyphenated::LENGTH],
    agent: [u8; Hyphenated::LENGTH],
    rule: [u8; Hyphenated::LENGTH],
    currency: Option<Currency>,
    risk: Option<Cow<'static, str>>,
    facts: Option<String>,
}

impl Default for Texts {
    fn default() -> Self {
        let empty = [0; Hyphenated::LENGTH];
        Self { id: empty, agent: empty, rule: empty, currency: None, risk: None, facts: None }
    }
}

impl Texts {
    fn fill(&mut self, row: &Row) {
        encode(row.id.0, &mut self.id);
        encode(row.agent_id.map_or(Uuid::nil(), |id| id.0), &mut self.agent);
        encode(row.rule_id.map_or(Uuid::nil(), |id| id.0), &mut self.rule);
        self.currency = row.amount.map(|money| money.currency());
        self.risk = row.risk.as_ref().and_then(risk_text);
        self.facts = row.facts.as_ref().map(|facts| {
            let text = facts.to_string();
            if text.len() <= FACTS_BYTES_MAX {
                text
            } else {
                json!({"left_out": "larger than the record takes", "bytes": text.len()}).to_string()
            }
        });
    }

    fn cells<'a>(&'a self, seq: i64, row: &'a Row) -> [Cell<'a>; 21] {
        [
            Cell::Int(seq),
            Cell::Text(ascii(&self.id)),
            row.agent_id.map_or(Cell::Null, |_| Cell::Text(ascii(&self.agent))),
            Cell::Int(row.at.as_micros()),
            Cell::Text(row.door.name()),
            Cell::Text(&row.verb),
            Cell::Text(&row.target),
            Cell::text(row.service.as_deref()),
            Cell::int(row.amount.map(|money| money.micros())),
            Cell::text(self.currency.as_ref().map(Currency::code)),
            Cell::Int(row.cost.micros()),
            Cell::Text(row.decision.name()),
            Cell::text(row.block_reason),
            row.rule_id.map_or(Cell::Null, |_| Cell::Text(ascii(&self.rule))),
            Cell::int(row.response_status.map(i64::from)),
            Cell::Int(row.latency_us),
            Cell::flag(row.is_streaming),
            Cell::flag(row.estimated),
            Cell::text(self.risk.as_deref()),
            Cell::text(self.facts.as_deref()),
            Cell::flag(row.first_in_minute),
        ]
    }
}

fn encode(id: Uuid, into: &mut [u8; Hyphenated::LENGTH]) {
    id.hyphenated().encode_lower(into);
}

fn ascii(bytes: &[u8]) -> &str {
    // What `encode` wrote: hexadecimal and hyphens.
    std::str::from_utf8(bytes).unwrap_or_default()
}
