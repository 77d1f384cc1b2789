//! Rows as they are shown and taken out: names as on the wire, times as RFC 3339, money twice, as a
//! decimal and as the integer it is.

use agentguard_core::risk::Risk;
use agentguard_core::{MicroUsd, Timestamp};
use rusqlite::Row;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::rows::NOTHING_UNUSUAL;

/// One request.
#[derive(Clone, Debug, Serialize)]
pub struct ExportRow {
    /// Its place in the log.
    pub seq: i64,
    /// Its request.
    pub id: String,
    /// Whose; none if nobody was identified.
    pub agent_id: Option<String>,
    /// When it was asked.
    pub timestamp: Timestamp,
    /// Through which door.
    pub door: String,
    /// Method or verb.
    pub method: String,
    /// Where to, masked.
    pub target_url: String,
    /// Which service.
    pub target_service: Option<String>,
    /// What it asked for or cost: `12.50`.
    pub amount: Option<String>,
    /// The same in micro-units.
    pub amount_micros: Option<i64>,
    /// In which currency.
    pub currency: Option<String>,
    /// What is charged to budgets, in US dollars: `12.50`.
    pub cost: String,
    /// The same in micro-dollars.
    pub cost_micros: i64,
    /// `allow`, `block` or `error`.
    pub decision: String,
    /// The code of the refusal or failure.
    pub block_reason: Option<String>,
    /// The rule that refused.
    pub rule_id: Option<String>,
    /// The answer's status.
    pub response_status: Option<i64>,
    /// From asked to ended: `12.345`, as a number in JSON.
    #[serde(serialize_with = "plain_number")]
    pub latency_ms: String,
    /// Whether the answer was a stream.
    pub is_streaming: bool,
    /// Whether the amount is a guess on the safe side.
    pub estimated: bool,
    /// The risk, if a risk rule looked.
    pub risk: Option<Box<RawValue>>,
    /// What the door adds.
    pub facts: Option<Box<RawValue>>,
    /// The row's hash in the chain.
    pub hash: String,
}

/// One change of policy.
#[derive(Clone, Debug, Serialize)]
pub struct ConfigChangeRow {
    /// Its place in the log.
    pub seq: i64,
    /// When.
    pub timestamp: String,
    /// Who.
    pub actor: String,
    /// What was done: `rule.add`, say.
    pub action: String,
    /// To what kind of thing.
    pub resource_type: String,
    /// To which.
    pub resource_id: String,
    /// As it was.
    pub before: Option<Box<RawValue>>,
    /// As it is.
    pub after: Option<Box<RawValue>>,
    /// SHA-256 of timestamp, action, resource_id, before and after.
    pub checksum: String,
}

/// One event of the gate itself.
#[derive(Clone, Debug, Serialize)]
pub struct SystemEventRow {
    /// Its place in the log.
    pub seq: i64,
    /// When.
    pub timestamp: String,
    /// Its name.
    pub event: String,
    /// `info`, `warning` or `critical`.
    pub severity: String,
    /// In words.
    pub message: String,
    /// In numbers.
    pub details: Option<Box<RawValue>>,
}

/// One alert.
#[derive(Clone, Debug, Serialize)]
pub struct AlertRow {
    /// Its number.
    pub id: i64,
    /// When.
    pub timestamp: String,
    /// What happened.
    pub event: String,
    /// `info`, `warning` or `critical`.
    pub severity: String,
    /// To whom, if it is about one agent.
    pub agent_id: Option<String>,
    /// By name.
    pub agent_name: Option<String>,
    /// In words.
    pub message: String,
    /// In numbers.
    pub details: Option<Box<RawValue>>,
}

/// The columns that [`request`] reads, in its order.
pub(crate) const REQUEST_COLUMNS: &str = "seq, id, agent_id, timestamp, door, method, target_url, \
    target_service, amount, currency, cost_micros, decision, block_reason, rule_id, \
    response_status, latency_us, is_streaming, estimated, risk, facts, hash";

pub(crate) fn request(row: &Row<'_>) -> rusqlite::Result<ExportRow> {
    let amount_micros: Option<i64> = row.get(8)?;
    let cost_micros: i64 = row.get(10)?;
    let hash: Vec<u8> = row.get(20)?;
    Ok(ExportRow {
        seq: row.get(0)?,
        id: row.get(1)?,
        agent_id: row.get(2)?,
        timestamp: Timestamp::from_micros(row.get(3)?),
        door: row.get(4)?,
        method: row.get(5)?,
        target_url: row.get(6)?,
        target_service: row.get(7)?,
        amount: amount_micros.map(decimal),
        amount_micros,
        currency: row.get(9)?,
        cost: decimal(cost_micros),
        cost_micros,
        decision: row.get(11)?,
        block_reason: row.get(12)?,
        rule_id: row.get(13)?,
        response_status: row.get(14)?,
        latency_ms: milliseconds(row.get(15)?),
        is_streaming: row.get(16)?,
        estimated: row.get(17)?,
        risk: risk(row, 18)?,
        facts: json(row, 19)?,
        hash: crate::chain::hex(&hash),
    })
}

pub(crate) fn config_change(row: &Row<'_>) -> rusqlite::Result<ConfigChangeRow> {
    Ok(ConfigChangeRow {
        seq: row.get(0)?,
        timestamp: row.get(1)?,
        actor: row.get(2)?,
        action: row.get(3)?,
        resource_type: row.get(4)?,
        resource_id: row.get(5)?,
        before: json(row, 6)?,
        after: json(row, 7)?,
        checksum: row.get(8)?,
    })
}

pub(crate) fn system_event(row: &Row<'_>) -> rusqlite::Result<SystemEventRow> {
    Ok(SystemEventRow {
        seq: row.get(0)?,
        timestamp: row.get(1)?,
        event: row.get(2)?,
        severity: row.get(3)?,
        message: row.get(4)?,
        details: json(row, 5)?,
    })
}

pub(crate) fn alert(row: &Row<'_>) -> rusqlite::Result<AlertRow> {
    Ok(AlertRow {
        id: row.get(0)?,
        timestamp: row.get(1)?,
        event: row.get(2)?,
        severity: row.get(3)?,
        agent_id: row.get(4)?,
        agent_name: row.get(5)?,
        message: row.get(6)?,
        details: json(row, 7)?,
    })
}

/// A text that is JSON, unless somebody changed it: `verify` tells that, an export goes on.
fn risk(row: &Row<'_>, place: usize) -> rusqlite::Result<Option<Box<RawValue>>> {
    if row.get_ref(place)?.as_str_or_null().is_ok_and(|text| text == Some(NOTHING_UNUSUAL)) {
        return Ok(serde_json::value::to_raw_value(&Risk::none()).ok());
    }
    json(row, place)
}

fn json(row: &Row<'_>, place: usize) -> rusqlite::Result<Option<Box<RawValue>>> {
    let text: Option<String> = row.get(place)?;
    Ok(text.and_then(|text| RawValue::from_string(text).ok()))
}

fn decimal(micros: i64) -> String {
    MicroUsd::from_micros(micros).to_string()
}

/// Thousandths of a millisecond as a decimal, without a float.
fn milliseconds(micros: i64) -> String {
    let sign = if micros < 0 { "-" } else { "" };
    let absolute = micros.unsigned_abs();
    format!("{sign}{}.{:03}", absolute / 1_000, absolute % 1_000)
}

fn plain_number<S: serde::Serializer>(text: &str, serializer: S) -> Result<S::Ok, S::Error> {
    let number = RawValue::from_string(text.to_owned()).map_err(serde::ser::Error::custom)?;
    number.serialize(serializer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_are_exact_decimals() {
        for (micros, shown) in [(0, "0.000"), (7, "0.007"), (12_345, "12.345"), (-1_500, "-1.500")]
        {
            assert_eq!(milliseconds(micros), shown);
        }
    }
}
