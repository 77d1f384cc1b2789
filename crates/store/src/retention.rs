//! Retention: the oldest rows of each log go when their days are over, without breaking the chain.
//!
//! What goes is checked first, as `verify` does it: a row that was changed must not take the proof of
//! that with it. Then a signed line says up to where rows go and which hash the rest goes on from;
//! then they are removed. Dying in between leaves rows that were allowed to go, which is no fault.

use agentguard_core::Timestamp;
use agentguard_core::time::DAY_MICROS;
use rusqlite::{Connection, OptionalExtension};
use serde::Serialize;

use crate::chain::Heads;
use crate::checkpoint::Anchor;
use crate::limits::{RETENTION_ROWS, SNAPSHOT_DAYS};
use crate::log::Log;

/// How many days rows are kept; none means for ever.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    /// Requests.
    pub requests_days: Option<u32>,
    /// Changes of policy.
    pub config_changes_days: Option<u32>,
    /// System events and alerts.
    pub system_events_days: Option<u32>,
}

/// How many rows went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Removed {
    /// Requests.
    pub requests: u64,
    /// Changes of policy.
    pub config_changes: u64,
    /// System events.
    pub system_events: u64,
    /// Alerts.
    pub alerts: u64,
    /// Hourly sums.
    pub snapshots: u64,
}

impl Removed {
    pub(crate) const fn count(&mut self, log: Log, rows: u64) {
        let line = match log {
            Log::Transactions => &mut self.requests,
            Log::ConfigChanges => &mut self.config_changes,
            Log::SystemEvents => &mut self.system_events,
        };
        *line = line.saturating_add(rows);
    }
}

impl Retention {
    const fn days(&self, log: Log) -> Option<u32> {
        match log {
            Log::Transactions => self.requests_days,
            Log::ConfigChanges => self.config_changes_days,
            Log::SystemEvents => self.system_events_days,
        }
    }

    /// Up to where rows may go next, if any may. Never the last row of a log: where the chain stands is
    /// read from it.
    pub(crate) fn next_stretch(
        &self,
        db: &Connection,
        log: Log,
        now: Timestamp,
        covered: &Heads,
    ) -> rusqlite::Result<Option<i64>> {
        let Some(days) = self.days(log) else { return Ok(None) };
        let table = log.name();
        let first: Option<i64> =
            db.query_row(&format!("SELECT min(seq) FROM {table}"), [], |row| row.get(0))?;
        let Some(first) = first else { return Ok(None) };
        let end = first.saturating_add(RETENTION_ROWS);
        // Rows go from the start and without a gap, so the first young one is where it ends, even if
        // older ones (a long stream, put down when it ended) come after it.
        let young = format!(
            "SELECT seq FROM {table} WHERE seq < ?1 AND timestamp >= ?2 ORDER BY seq LIMIT 1"
        );
        let cutoff = before(now, days);
        let young: Option<i64> = match log {
            Log::Transactions => {
                db.query_row(&young, (end, cutoff.as_micros()), |row| row.get(0)).optional()?
            }
            Log::ConfigChanges | Log::SystemEvents => {
                db.query_row(&young, (end, cutoff.to_rfc3339()), |row| row.get(0)).optional()?
            }
        };
        let last = covered.of(log).rows;
        let through = young.unwrap_or(end).saturating_sub(1).min(last.saturating_sub(1));
        Ok((through >= first).then_some(through))
    }

    /// Whether there is anything to do in any log.
    pub(crate) fn is_due(&self, db: &Connection, now: Timestamp) -> rusqlite::Result<bool> {
        let heads = Heads::read(db)?;
        for log in Log::ALL {
            if self.next_stretch(db, log, now, &heads)?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Removes what no chain holds together: alerts and hourly sums.
    pub(crate) fn remove_loose(
        &self,
        db: &Connection,
        now: Timestamp,
        removed: &mut Removed,
    ) -> rusqlite::Result<()> {
        let count = |rows: usize| u64::try_from(rows).unwrap_or(u64::MAX);
        if let Some(days) = self.system_events_days {
            let cutoff = before(now, days).to_rfc3339();
            removed.alerts =
                count(db.execute("DELETE FROM alerts WHERE timestamp < ?1", [cutoff])?);
        }
        let cutoff = before(now, SNAPSHOT_DAYS).as_micros();
        removed.snapshots =
            count(db.execute("DELETE FROM budget_snapshots WHERE hour_start < ?1", [cutoff])?);
        Ok(())
    }
}

/// Removes the rows up to an anchor that has been signed.
pub(crate) fn remove_stretch(db: &Connection, anchor: &Anchor) -> rusqlite::Result<u64> {
    let sql = format!("DELETE FROM {} WHERE seq <= ?1", anchor.log.name());
    db.execute(&sql, [anchor.through]).map(|rows| u64::try_from(rows).unwrap_or(u64::MAX))
}

fn before(now: Timestamp, days: u32) -> Timestamp {
    now.plus_micros(DAY_MICROS.saturating_mul(i64::from(days)).saturating_neg())
}
