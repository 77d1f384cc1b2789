//! What the gate needs from a store. Implemented there; faked in tests, at the edge of I/O.

use std::future::Future;
use std::pin::Pin;

use agentguard_core::baseline::Past;
use agentguard_core::time::Span;
use agentguard_core::{AgentId, Door, Timestamp};
use thiserror::Error;

use crate::alert::AlertEvent;
use crate::change::{Actor, Change};
use crate::directory::PolicyData;
use crate::record::{Durability, Intent, Row, SystemEvent};

/// The record: intents before effects, rows after.
pub trait Record: Send + Sync + std::fmt::Debug + 'static {
    /// Takes a place in the queue for the row that will follow, and writes the intent so that the
    /// death of this process does not lose it. No place or no write: no effect.
    fn begin(&self, intent: &Intent<'_>) -> Result<Ticket, RecordError>;

    /// Returns when the intent is on disk. Called after `begin` where [`Durability::Power`] is asked.
    fn synced<'a>(
        &'a self,
        ticket: &Ticket,
    ) -> Pin<Box<dyn Future<Output = Result<(), RecordError>> + Send + 'a>>;

    /// The row of an intent. Cannot fail: its place was taken by `begin`.
    fn finish(&self, ticket: Ticket, row: Row);

    /// A row that had no intent: a refusal. Dropped (and counted) when the queue is crowded, so that
    /// a flood of refused calls cannot push out what was allowed.
    fn refused(&self, row: Row);

    /// Something that happened to the gate itself.
    fn event(&self, event: SystemEvent);

    /// An alert to keep.
    fn alert(&self, alert: &AlertEvent);
}

/// A place in the record's queue, and where the intent lies.
#[derive(Debug)]
#[must_use = "a ticket that is not finished holds its place for ever"]
pub struct Ticket {
    /// Which journal segment holds the intent.
    pub segment: u64,
    /// How many intents were written when this one was: what a sync must reach.
    pub sequence: u64,
}

/// Why nothing can be recorded.
#[derive(Debug, Error)]
pub enum RecordError {
    /// Too many rows wait to be written.
    #[error("the record's queue is full")]
    Full,
    /// The disk refused.
    #[error("writing the intent")]
    Io(#[from] std::io::Error),
    /// The writer is gone.
    #[error("the record's writer has ended")]
    Closed,
}

/// Looks at the policy that a change would make, and turns it down by saying why.
pub type Accept = Box<dyn FnOnce(&PolicyData) -> Result<(), String> + Send>;

/// Where policy is kept.
pub trait Registry: Send + Sync + std::fmt::Debug + 'static {
    /// All of it.
    fn load(&self) -> Result<PolicyData, RegistryError>;

    /// Makes a change, all or nothing, with its row in `config_changes`. `accept` sees the result
    /// before it is committed and may turn it down. Blocks until it is on disk.
    fn apply(
        &self,
        actor: &Actor,
        change: Change,
        at: Timestamp,
        accept: Accept,
    ) -> Result<PolicyData, RegistryError>;

    /// Queues a change that the gate made itself (an automatic stop) without waiting for the disk.
    fn apply_soon(&self, actor: &Actor, change: Change, at: Timestamp);

    /// What was spent and done, by agent, hour and door, since `since`.
    fn history(&self, since: Timestamp) -> Result<Vec<HourOfAgent>, RegistryError>;
}

/// One hour of one agent at one door.
#[derive(Clone, Copy, Debug)]
pub struct HourOfAgent {
    /// Whose.
    pub agent_id: AgentId,
    /// Which hour.
    pub hour: Span,
    /// Through which door.
    pub door: Door,
    /// What was done.
    pub past: Past,
}

/// Why a change was not made.
#[derive(Debug, Error)]
pub enum RegistryError {
    /// What the change names does not exist.
    #[error("no {kind} `{name}`")]
    NotFound {
        /// `agent`, `rule`, `service` or `rule set`.
        kind: &'static str,
        /// As it was given.
        name: String,
    },
    /// It exists already.
    #[error("{kind} `{name}` exists already")]
    Exists {
        /// `agent`, `rule` or `service`.
        kind: &'static str,
        /// As it was given.
        name: String,
    },
    /// The result would not be a valid policy.
    #[error("{0}")]
    Invalid(String),
    /// The store failed.
    #[error("changing the store")]
    Store(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// How safe intents must be, by door.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Durabilities {
    /// What each door's operator asked for; none means the default for what is done.
    pub by_door: [Option<Durability>; Door::COUNT],
}

impl Default for Durabilities {
    fn default() -> Self {
        let power = Some(Durability::Power);
        // In the order of `Door::ALL`: for `api` it depends on whether the call itself pays.
        Self { by_door: [None, Some(Durability::Process), power, power, power] }
    }
}
