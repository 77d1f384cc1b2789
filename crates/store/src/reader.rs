//! Reading the record, beside a running gate or without one. A page at a time: memory does not grow
//! with the log, and no read is held open while its consumer thinks.

use std::ops::ControlFlow;
use std::path::Path;

use agentguard_core::{AgentId, Door, RequestId, Timestamp};
use agentguard_gate::Decision;
use rusqlite::types::Value as Bound;
use rusqlite::{Connection, Row, params_from_iter};

use crate::error::StoreError;
use crate::export::{
    AlertRow, ConfigChangeRow, ExportRow, REQUEST_COLUMNS, SystemEventRow, alert, config_change,
    request, system_event,
};
use crate::limits::PAGE_ROWS;
use crate::schema;
use crate::time_index::seq_ended_before;

/// Which requests are wanted. Nothing set means all.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Asked at this time or later.
    pub from: Option<Timestamp>,
    /// Asked before this time.
    pub to: Option<Timestamp>,
    /// Of this agent.
    pub agent: Option<AgentId>,
    /// With this decision.
    pub decision: Option<Decision>,
    /// Through this door.
    pub door: Option<Door>,
    /// To this service.
    pub service: Option<String>,
    /// With this text in id, method, target or reason.
    pub text: Option<String>,
    /// After this row: for following the log.
    pub after_seq: Option<i64>,
}

/// Reads the record.
#[derive(Debug)]
pub struct Reader {
    db: Connection,
}

/// Opens the record of a data folder to read it. Takes no lock and changes nothing.
pub fn open_reader(data_dir: &Path) -> Result<Reader, StoreError> {
    schema::open_for_reading(data_dir).map(|db| Reader { db })
}

impl Reader {
    /// Hands out the requests that are wanted, oldest first, until told to stop.
    pub fn export(
        &self,
        filter: &Filter,
        each: &mut dyn FnMut(ExportRow) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        let Wanted { conditions, mut bound } = filter.wanted();
        let mut from = filter.after_seq.unwrap_or(0).max(self.seq_before(filter.from)?);
        // Pages are cut by row number and not by the number of hits: a rare hit must not keep a
        // read open for as long as it takes to find it.
        bound.push(Bound::Null);
        bound.push(Bound::Null);
        let sql = format!(
            "SELECT {REQUEST_COLUMNS} FROM transactions WHERE {conditions} AND seq > ?{} \
             AND seq <= ?{} ORDER BY seq",
            bound.len().saturating_sub(1),
            bound.len()
        );
        // An action that began before `to` may have ended, and so been written, long after it.
        let last = self.last_seq()?;
        while from < last {
            let to = from.saturating_add(PAGE_ROWS).min(last);
            bound.truncate(bound.len().saturating_sub(2));
            bound.extend([Bound::Integer(from), Bound::Integer(to)]);
            let page = self.page(&sql, &bound, request)?;
            for row in page {
                if each(row).is_break() {
                    return Ok(());
                }
            }
            from = to;
        }
        Ok(())
    }

    /// The latest requests that are wanted, oldest first.
    pub fn latest(&self, filter: &Filter, count: u32) -> Result<Vec<ExportRow>, StoreError> {
        let Wanted { conditions, mut bound } = filter.wanted();
        bound.push(Bound::Integer(filter.after_seq.unwrap_or(0)));
        bound.push(Bound::Integer(i64::from(count)));
        let sql = format!(
            "SELECT {REQUEST_COLUMNS} FROM transactions WHERE {conditions} AND seq > ?{} \
             ORDER BY seq DESC LIMIT ?{}",
            bound.len().saturating_sub(1),
            bound.len()
        );
        let mut rows = self.page(&sql, &bound, request)?;
        rows.reverse();
        Ok(rows)
    }

    /// One request by its id.
    pub fn request(&self, id: RequestId) -> Result<Option<ExportRow>, StoreError> {
        // A request's id begins with the millisecond it was asked in.
        let first_us = i64::try_from(id.0.as_u128() >> 80).unwrap_or(0).saturating_mul(1_000);
        let asked = Timestamp::from_micros(first_us);
        let after =
            seq_ended_before(&self.db, asked).map_err(StoreError::sql("reading the record"))?;
        let sql = format!(
            "SELECT {REQUEST_COLUMNS} FROM transactions WHERE seq > ?1 AND timestamp BETWEEN ?2 \
             AND ?3 AND id = ?4 ORDER BY seq LIMIT 1"
        );
        let bound = [
            Bound::Integer(after),
            Bound::Integer(first_us),
            Bound::Integer(first_us.saturating_add(999)),
            Bound::Text(id.to_string()),
        ];
        Ok(self.page(&sql, &bound, request)?.pop())
    }

    /// The number of the last request, 0 if there is none.
    pub fn last_seq(&self) -> Result<i64, StoreError> {
        self.db
            .query_row("SELECT coalesce(max(seq), 0) FROM transactions", [], |row| row.get(0))
            .map_err(StoreError::sql("reading the record"))
    }

    /// Changes of policy after a row, oldest first, so many at the most.
    pub fn config_changes(
        &self,
        after_seq: i64,
        count: u32,
    ) -> Result<Vec<ConfigChangeRow>, StoreError> {
        let sql = "SELECT seq, timestamp, actor, action, resource_type, resource_id, before, \
                   after, checksum FROM config_changes WHERE seq > ?1 ORDER BY seq LIMIT ?2";
        self.page(
            sql,
            &[Bound::Integer(after_seq), Bound::Integer(i64::from(count))],
            config_change,
        )
    }

    /// Events of the gate itself after a row, oldest first, so many at the most.
    pub fn system_events(
        &self,
        after_seq: i64,
        count: u32,
    ) -> Result<Vec<SystemEventRow>, StoreError> {
        let sql = "SELECT seq, timestamp, event, severity, message, details FROM system_events \
                   WHERE seq > ?1 ORDER BY seq LIMIT ?2";
        self.page(sql, &[Bound::Integer(after_seq), Bound::Integer(i64::from(count))], system_event)
    }

    /// The latest alerts, newest first.
    pub fn alerts(&self, count: u32) -> Result<Vec<AlertRow>, StoreError> {
        let sql = "SELECT id, timestamp, event, severity, agent_id, agent_name, message, details \
                   FROM alerts ORDER BY id DESC LIMIT ?1";
        self.page(sql, &[Bound::Integer(i64::from(count))], alert)
    }

    fn page<T>(
        &self,
        sql: &str,
        bound: &[Bound],
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>, StoreError> {
        let rows = || -> rusqlite::Result<Vec<T>> {
            let mut statement = self.db.prepare_cached(sql)?;
            let rows = statement.query_map(params_from_iter(bound), read)?;
            rows.collect()
        };
        rows().map_err(StoreError::sql("reading the record"))
    }

    /// A row before the first one of this time or later: where an export starts.
    fn seq_before(&self, from: Option<Timestamp>) -> Result<i64, StoreError> {
        from.map_or(Ok(0), |from| seq_ended_before(&self.db, from))
            .map_err(StoreError::sql("reading the record"))
    }
}

struct Wanted {
    conditions: String,
    bound: Vec<Bound>,
}

impl Filter {
    fn wanted(&self) -> Wanted {
        let mut wanted = Wanted { conditions: "1".to_owned(), bound: Vec::new() };
        let micros = |at: Timestamp| Bound::Integer(at.as_micros());
        let text = |text: &str| Bound::Text(text.to_owned());
        wanted.add("timestamp >= ?", self.from.map(micros));
        wanted.add("timestamp < ?", self.to.map(micros));
        wanted.add("agent_id = ?", self.agent.map(|id| Bound::Text(id.to_string())));
        wanted.add("decision = ?", self.decision.map(|decision| text(decision.name())));
        wanted.add("door = ?", self.door.map(|door| text(door.name())));
        wanted.add("target_service = ?", self.service.as_deref().map(text));
        wanted.add(
            "instr(id || ' ' || method || ' ' || target_url || ' ' || coalesce(block_reason, ''), \
             ?) > 0",
            self.text.as_deref().map(text),
        );
        wanted
    }
}

impl Wanted {
    fn add(&mut self, condition: &str, value: Option<Bound>) {
        if let Some(value) = value {
            self.bound.push(value);
            self.conditions.push_str(" AND ");
            self.conditions.push_str(&condition.replace('?', &format!("?{}", self.bound.len())));
        }
    }
}
