//! The vendors' own clients, and curl, through the gate: set up as their users do, with a base URL and
//! a key.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "tests start programs and stop loudly"
)]

mod client;
mod curl;
mod cuts;
mod flows;
mod hang_ups;
mod refusals;
mod virtual_keys;
mod websocket;

use std::time::Duration;

use agentguard_testkit::{GateConfig, GateProcess, Upstream, process};
use serde_json::Value;

/// What an agent that holds the vendor's own key would send.
const OWN_KEY: &str = "sk-of-the-agent";

/// A gate in front of an upstream under the alias `kind`, without rules.
async fn start(kind: &str) -> (GateProcess, Upstream) {
    let upstream = Upstream::start().await;
    let gate = GateProcess::start(env!("CARGO_BIN_EXE_agentguard"), GateConfig::new());
    gate.serve(kind, kind, &upstream);
    (gate, upstream)
}

/// The record, once it has this many rows or as it is after a while. A row is written when the gate's
/// own end of a stream is gone, which may be after the client's.
fn rows(gate: &GateProcess, count: usize) -> Vec<Value> {
    let limit = Duration::from_secs(20);
    let look = || Some(gate.record_rows()).filter(|rows| rows.len() >= count);
    process::poll(limit, look).unwrap_or_else(|| gate.record_rows())
}

/// A count that a script reports.
fn number(said: &Value, name: &str) -> usize {
    usize::try_from(said[name].as_u64().unwrap()).unwrap()
}
