//! The one thread that writes the database: batches, changes, checkpoints, retention.
//!
//! If the database does not take a batch, the rows stay and are tried again; meanwhile the queue
//! fills, and the gate refuses rather than forget.

use std::collections::{BTreeMap, VecDeque};
use std::ops::ControlFlow;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use agentguard_core::Timestamp;
use agentguard_gate::ports::RegistryError;
use agentguard_gate::{Clock, Row, Severity};
use rusqlite::Connection;
use serde_json::json;

use crate::chain::Heads;
use crate::checkpoint::{Anchor, CheckpointLog, HexHash, Kind};
use crate::commit::Ledger;
use crate::error::StoreError;
use crate::journal::Journal;
use crate::limits::{
    BATCH_ROWS, BATCH_ROWS_MAX, BATCH_WAIT, CHECKPOINT_ROWS, CHECKPOINT_WAIT, RETRY_WAIT_MAX,
    RETRY_WAIT_MIN,
};
use crate::log::Log;
use crate::queue::{ChangeOrder, Order, Queue, Taken, Waiting};
use crate::retention::{Removed, Retention};
use crate::rows::{Note, own_event};
use crate::verify::{Checkpoints, check_oldest};

/// What the writer works on.
#[derive(Debug)]
pub(crate) struct Desk {
    pub(crate) queue: Arc<Queue>,
    pub(crate) journal: Arc<Journal>,
    pub(crate) ledger: Ledger,
    pub(crate) checkpoints: CheckpointLog,
    pub(crate) retention: Retention,
    pub(crate) clock: Clock,
}

/// The writer.
pub(crate) struct Writer {
    desk: Desk,
    rows: VecDeque<Waiting>,
    notes: VecDeque<Note>,
    /// When what waits is written, however little it is.
    due: Instant,
    /// Why the database takes nothing, and how long the next wait is.
    failing: Option<(String, Duration)>,
    /// Where the logs stood at the last checkpoint, and when that was.
    covered: Heads,
    covered_at: Instant,
    /// Automatic changes that the database did not take.
    later: VecDeque<Box<ChangeOrder>>,
    retaining: Option<Retaining>,
    /// Logs whose altered rows are on the record: retention meets them every hour.
    told: Vec<&'static str>,
}

struct Retaining {
    now: Timestamp,
    logs: Vec<Log>,
    /// What old rows are checked against before they go.
    signed: Box<Checkpoints>,
    removed: Removed,
    /// Rows that were not as they had been written, the first such.
    altered: Option<StoreError>,
    answer: mpsc::Sender<Result<Removed, StoreError>>,
}

impl Drop for Writer {
    /// Also after a panic: nobody may wait for ever for a thread that has ended.
    fn drop(&mut self) {
        self.desk.queue.close();
        self.desk.queue.wait(Instant::now(), &mut Taken::default());
    }
}

impl Writer {
    pub(crate) fn new(desk: Desk) -> Self {
        let now = Instant::now();
        let covered = *desk.ledger.heads();
        Self {
            desk,
            rows: VecDeque::new(),
            notes: VecDeque::new(),
            due: now + BATCH_WAIT,
            failing: None,
            covered,
            covered_at: now,
            later: VecDeque::new(),
            retaining: None,
            told: Vec::new(),
        }
    }

    /// Works until it is told to close.
    pub(crate) fn run(mut self) {
        let mut taken = Taken::default();
        loop {
            let until = if self.retaining.is_some() { Instant::now() } else { self.due };
            self.desk.queue.wait(until, &mut taken);
            self.rows.extend(taken.rows.drain(..));
            self.notes.extend(taken.notes.drain(..));
            let now = Instant::now();
            if now >= self.due || (self.failing.is_none() && self.rows.len() >= BATCH_ROWS) {
                // A failure is kept, logged and tried again.
                let _ = self.write_out();
                self.checkpoint_if_due(now);
            }
            for order in taken.orders.drain(..) {
                if self.obey(order).is_break() {
                    return;
                }
            }
            self.retain_some();
        }
    }

    fn obey(&mut self, order: Order) -> ControlFlow<()> {
        match order {
            Order::Change(order) => self.change(order),
            Order::Flush(answer) => drop(answer.send(self.write_out())),
            Order::Retain(now, signed, answer) => {
                let logs = if signed.is_some() { Log::ALL.to_vec() } else { Vec::new() };
                let signed = signed.unwrap_or_default();
                let (removed, altered) = (Removed::default(), None);
                self.retaining = Some(Retaining { now, logs, signed, removed, altered, answer });
            }
            Order::Close(answer) => {
                drop(answer.send(self.close()));
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    }

    /// Writes all that waits. On failure it stays, and the next attempt is put off.
    fn write_out(&mut self) -> Result<(), StoreError> {
        self.due = Instant::now() + BATCH_WAIT;
        for order in std::mem::take(&mut self.later) {
            self.change(order);
        }
        self.note_dropped();
        while !(self.rows.is_empty() && self.notes.is_empty()) {
            if let Err(error) = self.write_batch() {
                return Err(self.failed(&error));
            }
        }
        if self.failing.take().is_some() {
            tracing::info!("the database takes rows again");
        }
        Ok(())
    }

    fn write_batch(&mut self) -> rusqlite::Result<()> {
        let rows: Vec<&Row> =
            self.rows.iter().take(BATCH_ROWS_MAX).map(|waiting| &waiting.row).collect();
        let notes: Vec<&Note> = self.notes.iter().take(BATCH_ROWS_MAX).collect();
        self.desk.ledger.write(&rows, &notes)?;
        let (rows, notes) = (rows.len(), notes.len());
        let mut segments = BTreeMap::<u64, u64>::new();
        for segment in self.rows.drain(..rows).filter_map(|waiting| waiting.segment) {
            let intents = segments.entry(segment).or_default();
            *intents = intents.saturating_add(1);
        }
        self.notes.drain(..notes);
        self.desk.queue.committed(rows);
        self.desk.queue.give_back(rows);
        self.desk.queue.notes_written(notes);
        for (segment, intents) in segments {
            self.desk.journal.committed(segment, intents);
        }
        Ok(())
    }

    fn failed(&mut self, error: &rusqlite::Error) -> StoreError {
        let why = error.to_string();
        let wait = self
            .failing
            .take()
            .map_or(RETRY_WAIT_MIN, |(_, wait)| wait.saturating_mul(2).min(RETRY_WAIT_MAX));
        let waiting = self.rows.len();
        tracing::error!(waiting, error = %why, retry_ms = wait.as_millis(), "rows could not be written");
        self.failing = Some((why.clone(), wait));
        self.due = Instant::now() + wait;
        StoreError::NotWritten { waiting, why }
    }

    fn note_dropped(&mut self) {
        let (refusals, notes) = self.desk.queue.take_dropped();
        if refusals == 0 && notes == 0 {
            return;
        }
        let message = format!(
            "{refusals} refused calls and {notes} events were not recorded: the queue was crowded"
        );
        let details = json!({"refusals": refusals, "events": notes});
        let at = self.desk.clock.now();
        let event = own_event(at, "record.dropped", Severity::Warning, message, details);
        self.desk.queue.note_taken();
        self.notes.push_back(Note::Event(event));
    }

    fn change(&mut self, order: Box<ChangeOrder>) {
        let ChangeOrder { actor, change, at, answer } = *order;
        let Some((accept, answer)) = answer else {
            let made = self.desk.ledger.change(&actor, &change, at, None);
            match made {
                Ok(_) => {}
                // The switch is on in memory; it must be on after a restart too.
                Err(error @ RegistryError::Store(_)) => {
                    tracing::error!(%error, "an automatic change could not be stored; it is tried again");
                    let order = ChangeOrder { actor, change, at, answer: None };
                    self.later.push_back(Box::new(order));
                }
                Err(
                    error @ (RegistryError::NotFound { .. }
                    | RegistryError::Exists { .. }
                    | RegistryError::Invalid(_)),
                ) => {
                    tracing::error!(%error, "an automatic change was not stored");
                }
            }
            return;
        };
        // Who asked may have gone away; the change is made all the same.
        drop(answer.send(self.desk.ledger.change(&actor, &change, at, Some(accept))));
    }

    fn checkpoint_if_due(&mut self, now: Instant) {
        let fresh = self.desk.ledger.heads().rows().saturating_sub(self.covered.rows());
        let waited = now.saturating_duration_since(self.covered_at) >= CHECKPOINT_WAIT;
        if (fresh >= CHECKPOINT_ROWS || (fresh > 0 && waited))
            && let Err(error) = self.checkpoint(Kind::Checkpoint)
        {
            // Nothing is lost: the rows are in the database, and the next line covers them.
            tracing::error!(error = %error.in_full(), "a checkpoint could not be written");
        }
    }

    fn checkpoint(&mut self, kind: Kind) -> Result<(), StoreError> {
        self.covered_at = Instant::now();
        let heads = *self.desk.ledger.heads();
        self.desk.checkpoints.write(kind, self.desk.clock.now(), &heads, None)?;
        self.covered = heads;
        Ok(())
    }

    /// One stretch of retention, so that requests never wait for more than that.
    fn retain_some(&mut self) {
        let Some(mut retaining) = self.retaining.take() else { return };
        match self.retain_step(&mut retaining) {
            Ok(ControlFlow::Continue(())) => self.retaining = Some(retaining),
            Ok(ControlFlow::Break(())) => {
                let Retaining { answer, altered, removed, .. } = retaining;
                drop(answer.send(altered.map_or(Ok(removed), Err)));
            }
            Err(error) => drop(retaining.answer.send(Err(error))),
        }
    }

    fn retain_step(&mut self, work: &mut Retaining) -> Result<ControlFlow<()>, StoreError> {
        let failed = || StoreError::sql("removing old rows");
        let Some(log) = work.logs.last().copied() else {
            let desk = &mut self.desk;
            let removed = &mut work.removed;
            desk.ledger.remove_loose(&desk.retention, work.now, removed).map_err(failed())?;
            return Ok(ControlFlow::Break(()));
        };
        if self.covered != *self.desk.ledger.heads() {
            self.checkpoint(Kind::Checkpoint)?;
        }
        work.signed.cover(&self.covered);
        match self.remove_stretch(log, work.now, &work.signed) {
            Ok(Some((anchor, rows))) => {
                work.signed.removed(&anchor);
                work.removed.count(log, rows);
            }
            Ok(None) => drop(work.logs.pop()),
            Err(error) => {
                let altered = self.tell_altered(error)?;
                work.altered.get_or_insert(altered);
                work.logs.pop();
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Checks, signs and removes the next stretch of a log, if there is one.
    fn remove_stretch(
        &mut self,
        log: Log,
        now: Timestamp,
        signed: &Checkpoints,
    ) -> Result<Option<(Anchor, u64)>, StoreError> {
        let Desk { ledger, checkpoints, retention, clock, .. } = &mut self.desk;
        let next = |db: &Connection| {
            let next = retention.next_stretch(db, log, now, &self.covered);
            next.map_err(StoreError::sql("removing old rows"))
        };
        // Mostly there is none, which is no reason to take the lock.
        if next(&ledger.db)?.is_none() {
            return Ok(None);
        }
        ledger.remove(|db| {
            let Some(through) = next(db)? else { return Ok(None) };
            let hash = HexHash(check_oldest(db, log, signed, through)?);
            let anchor = Anchor { log, through, hash };
            checkpoints.write(Kind::Retention, clock.now(), &self.covered, Some(anchor))?;
            Ok(Some(anchor))
        })
    }

    /// Puts on the record that rows are not as they were written. Another error is handed on.
    fn tell_altered(&mut self, error: StoreError) -> Result<StoreError, StoreError> {
        let StoreError::Altered { log, row, .. } = error else { return Err(error) };
        if !self.told.contains(&log) {
            self.told.push(log);
            let (at, message) = (self.desk.clock.now(), error.to_string());
            let details = json!({"log": log, "row": row});
            let event = own_event(at, "integrity.failed", Severity::Critical, message, details);
            self.desk.queue.note_taken();
            self.notes.push_back(Note::Event(event));
        }
        Ok(error)
    }

    fn close(&mut self) -> Result<(), StoreError> {
        let mut rest = Taken::default();
        self.desk.queue.close();
        self.desk.queue.wait(Instant::now(), &mut rest);
        self.rows.extend(rest.rows);
        self.notes.extend(rest.notes);
        for order in rest.orders {
            if let Order::Change(order) = order {
                self.change(order);
            }
        }
        let mut written = self.write_out();
        // A lock or a full disk may pass in a moment; a stop must not take longer than that.
        for _ in 0..2 {
            if written.is_err() {
                std::thread::sleep(RETRY_WAIT_MIN);
                written = self.write_out();
            }
        }
        written?;
        self.checkpoint(Kind::Stop)?;
        self.desk.journal.close();
        self.desk.ledger.fold().map_err(StoreError::sql("closing"))
    }
}
