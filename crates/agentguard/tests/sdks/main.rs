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
mod flows;
mod hang_ups;
mod refusals;

use agentguard_testkit::{GateConfig, GateProcess, Upstream};

/// What an agent that holds the vendor's own key would send.
const OWN_KEY: &str = "sk-of-the-agent";

/// A gate in front of an upstream under the alias `kind`, without rules.
async fn start(kind: &str) -> (GateProcess, Upstream) {
    let upstream = Upstream::start().await;
    let gate = GateProcess::start(env!("CARGO_BIN_EXE_agentguard"), GateConfig::new());
    gate.serve(kind, kind, &upstream);
    (gate, upstream)
}
