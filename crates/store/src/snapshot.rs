//! Hourly sums by agent and door: written with the rows they sum up, read at a start.

use std::collections::HashMap;

use agentguard_core::time::{Span, Zone};
use agentguard_core::{AgentId, Door, Timestamp};
use agentguard_gate::{Decision, Row};
use rusqlite::Connection;

/// What a batch adds to the hours it touches, and when its agents were last seen.
#[derive(Debug, Default)]
pub(crate) struct Sums {
    hours: HashMap<(Timestamp, AgentId, Door), Sum>,
    seen: HashMap<AgentId, Timestamp>,
    /// The hour of the row before: rows come in the order of time, nearly.
    hour: Option<Span>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    total: i64,
    allowed: i64,
    blocked: i64,
    cost: i64,
    samples: i64,
    active_minutes: i64,
    metered_cost: i64,
    metered_samples: i64,
}

impl Sums {
    pub(crate) fn clear(&mut self) {
        self.hours.clear();
        self.seen.clear();
    }

    pub(crate) fn add(&mut self, row: &Row, zone: &Zone) {
        // Nobody's calls cost nobody anything.
        let Some(agent) = row.agent_id else { return };
        let seen = self.seen.entry(agent).or_insert(row.at);
        *seen = (*seen).max(row.at);
        let hour = self.hour_of(row.at, zone);
        let sum = self.hours.entry((hour, agent, row.door)).or_default();
        let (allowed, blocked) = match row.decision {
            // What went wrong was allowed first, and may have cost.
            Decision::Allow | Decision::Error => (1, 0),
            Decision::Block => (0, 1),
        };
        let cost = row.cost.micros();
        sum.total = sum.total.saturating_add(1);
        sum.allowed = sum.allowed.saturating_add(allowed);
        sum.blocked = sum.blocked.saturating_add(blocked);
        sum.cost = sum.cost.saturating_add(cost);
        sum.samples = sum.samples.saturating_add(i64::from(cost > 0));
        if row.is_metered {
            sum.metered_cost = sum.metered_cost.saturating_add(cost);
            sum.metered_samples = sum.metered_samples.saturating_add(i64::from(cost > 0));
        }
        sum.active_minutes = sum.active_minutes.saturating_add(i64::from(row.first_in_minute));
    }

    pub(crate) fn write(&self, db: &Connection) -> rusqlite::Result<()> {
        let mut upsert = db.prepare_cached(
            "INSERT INTO budget_snapshots (hour_start, agent_id, door, total_calls, allowed_calls, \
             blocked_calls, total_cost, amount_samples, active_minutes, metered_cost, metered_samples) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11) \
             ON CONFLICT (hour_start, agent_id, door) DO UPDATE SET \
             total_calls = total_calls + excluded.total_calls, \
             allowed_calls = allowed_calls + excluded.allowed_calls, \
             blocked_calls = blocked_calls + excluded.blocked_calls, \
             total_cost = total_cost + excluded.total_cost, \
             amount_samples = amount_samples + excluded.amount_samples, \
             active_minutes = active_minutes + excluded.active_minutes, \
             metered_cost = metered_cost + excluded.metered_cost, \
             metered_samples = metered_samples + excluded.metered_samples",
        )?;
        for ((hour, agent, door), sum) in &self.hours {
            upsert.execute((
                hour.as_micros(),
                agent.to_string(),
                door.name(),
                sum.total,
                sum.allowed,
                sum.blocked,
                sum.cost,
                sum.samples,
                sum.active_minutes,
                sum.metered_cost,
                sum.metered_samples,
            ))?;
        }
        let mut touch = db.prepare_cached(
            "UPDATE agents SET last_seen_at = max(coalesce(last_seen_at, ''), ?2) WHERE id = ?1",
        )?;
        for (agent, at) in &self.seen {
            touch.execute((agent.to_string(), at.to_rfc3339()))?;
        }
        Ok(())
    }

    fn hour_of(&mut self, at: Timestamp, zone: &Zone) -> Timestamp {
        match self.hour {
            Some(hour) if hour.start <= at && at < hour.end => hour.start,
            Some(_) | None => {
                let hour = Span::hour(at, zone);
                self.hour = Some(hour);
                hour.start
            }
        }
    }
}
