//! The three logs: their tables, columns and tags. Never here: what is in a row.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A log of the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Log {
    /// Requests.
    Transactions,
    /// Changes of policy.
    ConfigChanges,
    /// What happened to the gate itself.
    SystemEvents,
}

impl Log {
    /// All of them, in the order in which they are checked.
    pub const ALL: [Self; 3] = [Self::Transactions, Self::ConfigChanges, Self::SystemEvents];

    /// Its table.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Transactions => "transactions",
            Self::ConfigChanges => "config_changes",
            Self::SystemEvents => "system_events",
        }
    }

    /// The columns that the chain covers, in its order: all but the hash itself.
    pub(crate) const fn columns(self) -> &'static [&'static str] {
        match self {
            Self::Transactions => &[
                "seq",
                "id",
                "agent_id",
                "timestamp",
                "door",
                "method",
                "target_url",
                "target_service",
                "amount",
                "currency",
                "cost_micros",
                "decision",
                "block_reason",
                "rule_id",
                "response_status",
                "latency_us",
                "is_streaming",
                "estimated",
                "risk",
                "facts",
                "first_in_minute",
            ],
            Self::ConfigChanges => &[
                "seq",
                "timestamp",
                "actor",
                "action",
                "resource_type",
                "resource_id",
                "before",
                "after",
                "checksum",
            ],
            Self::SystemEvents => &["seq", "timestamp", "event", "severity", "message", "details"],
        }
    }

    /// The statement that adds a row: the columns, then the hash.
    pub(crate) const fn insert(self) -> &'static str {
        match self {
            Self::Transactions => {
                "INSERT INTO transactions (seq, id, agent_id, timestamp, door, method, target_url, \
                 target_service, amount, currency, cost_micros, decision, block_reason, rule_id, \
                 response_status, latency_us, is_streaming, estimated, risk, facts, \
                 first_in_minute, hash) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, \
                 ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22)"
            }
            Self::ConfigChanges => {
                "INSERT INTO config_changes (seq, timestamp, actor, action, resource_type, \
                 resource_id, before, after, checksum, hash) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)"
            }
            Self::SystemEvents => {
                "INSERT INTO system_events (seq, timestamp, event, severity, message, details, \
                 hash) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)"
            }
        }
    }

    /// What sets the hashes of one log apart from those of another.
    pub(crate) const fn tag(self) -> &'static [u8] {
        match self {
            Self::Transactions => b"agentguard transactions 1\n",
            Self::ConfigChanges => b"agentguard config_changes 1\n",
            Self::SystemEvents => b"agentguard system_events 1\n",
        }
    }
}

impl fmt::Display for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
