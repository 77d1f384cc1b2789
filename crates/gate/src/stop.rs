//! The kill switch: a flag that admissions read, and a signal that ends what is under way.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use agentguard_core::{AgentId, Timestamp};
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

use crate::sync::{AtomicBool, Mutex, lock};

/// Who is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// Every agent.
    Global,
    /// One agent.
    Agent(AgentId),
}

/// Who or what stopped it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PausedBy {
    /// A person.
    User,
    /// Refusals by risk rules in a row.
    AutoRisk,
    /// A month's budget past its last line.
    BudgetExceeded,
    /// Refusals of any kind in a row.
    ConsecutiveFailure,
}

impl PausedBy {
    /// Its name on the wire and in the store.
    pub const fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::AutoRisk => "auto_risk",
            Self::BudgetExceeded => "budget_exceeded",
            Self::ConsecutiveFailure => "consecutive_failure",
        }
    }

    /// The one of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::User, Self::AutoRisk, Self::BudgetExceeded, Self::ConsecutiveFailure]
            .into_iter()
            .find(|by| by.name() == name)
    }
}

/// A switch that is on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stop {
    /// Who is stopped.
    pub scope: Scope,
    /// Who stopped it.
    pub paused_by: PausedBy,
    /// Why.
    pub reason: String,
    /// Since when.
    pub paused_at: Timestamp,
}

/// One on-period of a switch. What is admitted holds on to the cell of its time: once stopped, a
/// cell stays so, and resuming puts a fresh one in its place.
#[derive(Debug)]
pub(crate) struct StopCell {
    stopped: AtomicBool,
    bell: Arc<Notify>,
}

impl StopCell {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { stopped: AtomicBool::new(false), bell: Arc::new(Notify::new()) })
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::SeqCst)
    }

    /// Rings when the cell is stopped. Take it first, look at the flag second: a stop in between
    /// rings it.
    pub(crate) fn bell(&self) -> tokio::sync::futures::OwnedNotified {
        Arc::clone(&self.bell).notified_owned()
    }
}

/// A switch: the cell of now.
#[derive(Debug)]
pub struct StopSlot {
    cell: Mutex<Arc<StopCell>>,
}

impl Default for StopSlot {
    fn default() -> Self {
        Self { cell: Mutex::new(StopCell::new()) }
    }
}

impl StopSlot {
    pub(crate) fn cell(&self) -> Arc<StopCell> {
        Arc::clone(&lock(&self.cell))
    }

    /// Whether it is on.
    pub fn is_stopped(&self) -> bool {
        lock(&self.cell).is_stopped()
    }

    /// Switches it on, and rings for everything under way. When this returns, every pass that was
    /// given before knows, and none will be given after.
    pub fn stop(&self) {
        let cell = self.cell();
        cell.stopped.store(true, Ordering::SeqCst);
        cell.bell.notify_waiters();
    }

    /// Switches it off for what comes now. What was stopped stays stopped.
    pub fn resume(&self) {
        let mut cell = lock(&self.cell);
        if cell.is_stopped() {
            *cell = StopCell::new();
        }
    }
}
