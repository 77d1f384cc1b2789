//! What goes on the record.

use std::sync::Arc;

use agentguard_core::risk::Risk;
use agentguard_core::{Action, AgentId, Door, MicroUsd, Money, RequestId, RuleId, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// How safe an intent must be before its action leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Durability {
    /// Handed to the operating system: survives the gate's death.
    Process,
    /// On disk: survives the machine's.
    Power,
}

/// What an action will do, written down before it does it.
#[derive(Clone, Debug)]
pub struct Intent<'a> {
    /// Its request.
    pub id: RequestId,
    /// Whose.
    pub agent_id: AgentId,
    /// What.
    pub action: &'a Action,
    /// What is reserved for it.
    pub cost: MicroUsd,
}

/// How an action ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Decision {
    /// It was allowed, and done.
    Allow,
    /// It was refused.
    Block,
    /// It was allowed, and went wrong.
    Error,
}

impl Decision {
    /// Every one.
    pub const ALL: [Self; 3] = [Self::Allow, Self::Block, Self::Error];

    /// Its name on the wire and in the store.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Block => "block",
            Self::Error => "error",
        }
    }

    /// The decision of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|d| d.name() == name)
    }
}

/// One action on the record (`transactions`).
#[derive(Clone, Debug)]
pub struct Row {
    /// Its request.
    pub id: RequestId,
    /// Whose; none if nobody was identified.
    pub agent_id: Option<AgentId>,
    /// When it was asked.
    pub at: Timestamp,
    /// Through which door.
    pub door: Door,
    /// Method or verb.
    pub verb: Arc<str>,
    /// Where to, masked.
    pub target: String,
    /// Which service.
    pub service: Option<Arc<str>>,
    /// What it asked for or cost, in its own currency.
    pub amount: Option<Money>,
    /// What is charged to budgets.
    pub cost: MicroUsd,
    /// How it ended.
    pub decision: Decision,
    /// The code of the refusal or failure.
    pub block_reason: Option<&'static str>,
    /// The rule that refused.
    pub rule_id: Option<RuleId>,
    /// The answer's status.
    pub response_status: Option<u16>,
    /// From asked to ended, in microseconds.
    pub latency_us: i64,
    /// Whether the answer was a stream.
    pub is_streaming: bool,
    /// Whether the amount is a guess on the safe side.
    pub estimated: bool,
    /// The risk, if a risk rule looked.
    pub risk: Option<Risk>,
    /// What the door adds.
    pub facts: Option<Value>,
    /// Whether it is the first call of its minute: baselines count those.
    pub first_in_minute: bool,
    /// Whether its cost was known only at its end: baselines keep those apart. For the hourly sums
    /// alone, not a column of the log.
    pub is_metered: bool,
}

/// Something that happened to the gate itself (`system_events`).
#[derive(Clone, Debug)]
pub struct SystemEvent {
    /// When.
    pub at: Timestamp,
    /// Its name: `start`, `stop`, `kill_switch.on` and so on.
    pub event: &'static str,
    /// `info`, `warning` or `critical`.
    pub severity: crate::alert::Severity,
    /// In words.
    pub message: String,
    /// In numbers.
    pub details: Value,
}
