//! What waits for the writer: rows with their places, notes, and orders. Bounded.
//!
//! Rows do not wake the writer one by one: that would cost more than writing them. It wakes when a
//! batch is full, when somebody waits for an answer, or when its own time is up.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use agentguard_core::Timestamp;
use agentguard_gate::ports::RegistryError;
use agentguard_gate::{Actor, Change, PolicyData, Row};
use parking_lot::{Condvar, Mutex};

use crate::error::StoreError;
use crate::limits::{BATCH_ROWS, NOTES_MAX, PLACES, PLACES_KEPT_FROM_REFUSED};
use crate::retention::Removed;
use crate::rows::Note;
use crate::verify::Checkpoints;

/// A row, and the journal segment that holds its intent.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) row: Row,
    pub(crate) segment: Option<u64>,
}

/// Something that the writer is asked to do.
pub(crate) enum Order {
    /// A change of policy; nobody waits for one that the gate made itself.
    Change(Box<ChangeOrder>),
    Flush(mpsc::Sender<Result<(), StoreError>>),
    /// With what was signed so far; none if nothing is old enough.
    Retain(Timestamp, Option<Box<Checkpoints>>, mpsc::Sender<Result<Removed, StoreError>>),
    Close(mpsc::Sender<Result<(), StoreError>>),
}

/// Looks at the policy that a change would lead to, and may turn it down.
pub(crate) type Accept = Box<dyn FnOnce(&PolicyData) -> Result<(), String> + Send>;

pub(crate) struct ChangeOrder {
    pub(crate) actor: Actor,
    pub(crate) change: Change,
    pub(crate) at: Timestamp,
    pub(crate) answer: Option<(Accept, mpsc::Sender<Result<PolicyData, RegistryError>>)>,
}

/// What the writer took.
#[derive(Default)]
pub(crate) struct Taken {
    pub(crate) rows: Vec<Waiting>,
    pub(crate) notes: Vec<Note>,
    pub(crate) orders: Vec<Order>,
}

/// The queue.
#[derive(Debug)]
pub(crate) struct Queue {
    lines: Mutex<Lines>,
    bell: Condvar,
    free: AtomicUsize,
    closed: AtomicBool,
    notes: AtomicUsize,
    dropped_refusals: AtomicU64,
    dropped_notes: AtomicU64,
    /// What was told of dropped ones already.
    dropped_before: AtomicU64,
    rows_written: AtomicU64,
    opened: Instant,
    /// Milliseconds from the opening to the last commit; 0 before the first.
    committed_ms: AtomicU64,
}

#[derive(Default)]
struct Lines {
    taken: Taken,
    closed: bool,
}

impl std::fmt::Debug for Lines {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lines")
            .field("rows", &self.taken.rows.len())
            .field("orders", &self.taken.orders.len())
            .field("closed", &self.closed)
            .finish_non_exhaustive()
    }
}

impl Queue {
    pub(crate) fn new() -> Self {
        Self {
            lines: Mutex::default(),
            bell: Condvar::new(),
            free: AtomicUsize::new(PLACES),
            closed: AtomicBool::new(false),
            notes: AtomicUsize::new(0),
            dropped_refusals: AtomicU64::new(0),
            dropped_notes: AtomicU64::new(0),
            dropped_before: AtomicU64::new(0),
            rows_written: AtomicU64::new(0),
            opened: Instant::now(),
            committed_ms: AtomicU64::new(0),
        }
    }

    /// Takes a place for a row, if more than `kept` are free.
    pub(crate) fn take_place(&self, kept: usize) -> bool {
        if self.closed.load(Ordering::Acquire) {
            return false;
        }
        let fewer = |free: usize| (free > kept).then(|| free.saturating_sub(1));
        self.free.fetch_update(Ordering::AcqRel, Ordering::Acquire, fewer).is_ok()
    }

    pub(crate) fn give_back(&self, places: usize) {
        self.free.fetch_add(places, Ordering::AcqRel);
    }

    /// Queues a row whose place is taken. After the end it is lost here, and the journal has it.
    pub(crate) fn row(&self, row: Row, segment: Option<u64>) {
        let mut lines = self.lines.lock();
        if lines.closed {
            tracing::error!(id = %row.id, "a row came after the record was closed");
            return;
        }
        lines.taken.rows.push(Waiting { row, segment });
        // Only the row that fills the batch rings: the writer takes all when it comes.
        if lines.taken.rows.len() == BATCH_ROWS {
            self.bell.notify_one();
        }
    }

    /// Queues the row of a refusal, or counts it as dropped.
    pub(crate) fn refused(&self, row: Row) {
        if self.take_place(PLACES_KEPT_FROM_REFUSED) {
            self.row(row, None);
        } else {
            self.dropped_refusals.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn note(&self, note: Note) {
        if self.notes.fetch_add(1, Ordering::AcqRel) >= NOTES_MAX {
            self.notes.fetch_sub(1, Ordering::AcqRel);
            self.dropped_notes.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let mut lines = self.lines.lock();
        if !lines.closed {
            lines.taken.notes.push(note);
        }
    }

    /// The writer adds a note of its own, which is counted like the others.
    pub(crate) fn note_taken(&self) {
        self.notes.fetch_add(1, Ordering::AcqRel);
    }

    pub(crate) fn notes_written(&self, count: usize) {
        self.notes.fetch_sub(count, Ordering::AcqRel);
    }

    /// Queues an order and wakes the writer. Gives it back if the writer has ended.
    pub(crate) fn order(&self, order: Order) -> Result<(), Order> {
        let mut lines = self.lines.lock();
        if lines.closed {
            return Err(order);
        }
        lines.taken.orders.push(order);
        self.bell.notify_one();
        Ok(())
    }

    /// Waits until there is enough to do or the time is up, and takes all of it.
    pub(crate) fn wait(&self, until: Instant, into: &mut Taken) {
        let mut lines = self.lines.lock();
        while lines.taken.orders.is_empty() && lines.taken.rows.len() < BATCH_ROWS {
            if self.bell.wait_until(&mut lines, until).timed_out() {
                break;
            }
        }
        // Empty vectors go back in, so that their room is used again.
        std::mem::swap(&mut lines.taken, into);
    }

    /// No more of anything. What still waits is taken one last time by the writer.
    pub(crate) fn close(&self) {
        self.lines.lock().closed = true;
        self.closed.store(true, Ordering::Release);
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    pub(crate) fn free_places(&self) -> usize {
        self.free.load(Ordering::Acquire)
    }

    /// Refusals and notes that were dropped since this was last asked.
    pub(crate) fn take_dropped(&self) -> (u64, u64) {
        let refusals = self.dropped_refusals.swap(0, Ordering::Relaxed);
        self.dropped_before.fetch_add(refusals, Ordering::Relaxed);
        (refusals, self.dropped_notes.swap(0, Ordering::Relaxed))
    }

    /// Refusals that were dropped since the opening.
    pub(crate) fn dropped_rows(&self) -> u64 {
        let before = self.dropped_before.load(Ordering::Relaxed);
        before.saturating_add(self.dropped_refusals.load(Ordering::Relaxed))
    }

    /// The database took so many rows.
    pub(crate) fn committed(&self, rows: usize) {
        let rows = u64::try_from(rows).unwrap_or(u64::MAX);
        self.rows_written.fetch_add(rows, Ordering::Relaxed);
        let since = u64::try_from(self.opened.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.committed_ms.store(since.max(1), Ordering::Relaxed);
    }

    pub(crate) fn rows_written(&self) -> u64 {
        self.rows_written.load(Ordering::Relaxed)
    }

    /// How long ago the last commit was; none before the first.
    pub(crate) fn since_commit(&self) -> Option<Duration> {
        match self.committed_ms.load(Ordering::Relaxed) {
            0 => None,
            ms => Some(self.opened.elapsed().saturating_sub(Duration::from_millis(ms))),
        }
    }
}
