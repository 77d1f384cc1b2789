//! Agents: the callers.

use serde::{Deserialize, Serialize};

use crate::id::{AgentId, RuleSetId};
use crate::limits::NAME_BYTES_MAX;
use crate::time::Timestamp;

/// Whether an agent may act.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AgentStatus {
    /// It may, within its rules.
    Active,
    /// Stopped by its kill switch until a person resumes it.
    Paused,
    /// Never again: its token opens nothing.
    Revoked,
}

impl AgentStatus {
    /// Its name on the wire and in the store.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Paused => "paused",
            Self::Revoked => "revoked",
        }
    }

    /// The status of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Active, Self::Paused, Self::Revoked].into_iter().find(|s| s.name() == name)
    }
}

/// An agent as operators see it. Its token is not here: only the hash exists, in the store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Agent {
    /// For ever.
    pub id: AgentId,
    /// Unique among agents that are not revoked.
    pub name: String,
    /// Whether it may act.
    pub status: AgentStatus,
    /// The rules it is under.
    pub rule_set_id: RuleSetId,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it last knocked, as of the last batch written.
    pub last_seen_at: Option<Timestamp>,
    /// What it is for.
    pub description: Option<String>,
}

/// Whether the text can be a name: letters, digits, `-`, `_`, `.`, at most 64 bytes. Names end up in
/// messages, logs and shells, so control characters and markup have no place in them.
pub fn is_name(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= NAME_BYTES_MAX
        && text.chars().all(|c| c.is_alphanumeric() || matches!(c, '-' | '_' | '.'))
}
