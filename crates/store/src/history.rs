//! What was spent and done, out of the hourly sums.

use agentguard_core::baseline::Past;
use agentguard_core::time::{HOUR_MICROS, Span};
use agentguard_core::{AgentId, Door, MicroUsd, Timestamp};
use agentguard_gate::ports::HourOfAgent;
use rusqlite::Connection;
use rusqlite::types::Type;

/// The hours that end after `since`.
pub(crate) fn hours(db: &Connection, since: Timestamp) -> rusqlite::Result<Vec<HourOfAgent>> {
    let mut statement = db.prepare_cached(
        "SELECT hour_start, agent_id, door, allowed_calls, total_cost, amount_samples, \
         active_minutes, metered_cost, metered_samples FROM budget_snapshots WHERE hour_start > ?1 ORDER BY hour_start",
    )?;
    let from = since.plus_micros(-HOUR_MICROS).as_micros();
    let rows = statement.query_map([from], |row| {
        let start = Timestamp::from_micros(row.get(0)?);
        let agent: String = row.get(1)?;
        let door: String = row.get(2)?;
        let agent_id: AgentId = agent.parse().map_err(|error| {
            rusqlite::Error::FromSqlConversionFailure(1, Type::Text, Box::new(error))
        })?;
        let door = Door::from_name(&door).ok_or_else(|| {
            rusqlite::Error::FromSqlConversionFailure(
                2,
                Type::Text,
                format!("`{door}` is no door").into(),
            )
        })?;
        let count = |place: usize| -> rusqlite::Result<u64> {
            row.get::<_, i64>(place).map(|n| u64::try_from(n).unwrap_or(0))
        };
        Ok(HourOfAgent {
            agent_id,
            hour: Span { start, end: start.plus_micros(HOUR_MICROS) },
            door,
            past: Past {
                at: start,
                sum: MicroUsd::from_micros(row.get(4)?),
                samples: count(5)?,
                metered_sum: MicroUsd::from_micros(row.get(7)?),
                metered_samples: count(8)?,
                calls: count(3)?,
                active_minutes: count(6)?,
            },
        })
    })?;
    rows.collect()
}

/// The latest time on the record: the gate's clock must not start before it.
pub(crate) fn last_seen(db: &Connection) -> rusqlite::Result<Option<Timestamp>> {
    // Rows lie in the order in which they ended, so the latest end is among the last of them, and no
    // request was asked for after it.
    let requests: Option<i64> = db.query_row(
        "SELECT max(timestamp + latency_us) FROM \
         (SELECT timestamp, latency_us FROM transactions ORDER BY seq DESC LIMIT 1000)",
        [],
        |row| row.get(0),
    )?;
    let mut latest = requests.map(Timestamp::from_micros);
    for log in ["config_changes", "system_events"] {
        // These are written in the order of time, so the last row is the latest.
        let text: Option<String> = db.query_row(
            &format!("SELECT (SELECT timestamp FROM {log} ORDER BY seq DESC LIMIT 1)"),
            [],
            |row| row.get(0),
        )?;
        latest = latest.max(text.and_then(|text| Timestamp::parse_rfc3339(&text)));
    }
    Ok(latest)
}
