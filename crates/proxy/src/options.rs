//! What the configuration says to this door.

use std::time::Duration;

use agentguard_egress::DangerAllow;

use crate::limits::HEAD_TIMEOUT;

/// The door's settings. All but those marked can be changed while it runs.
#[derive(Clone, Debug)]
pub struct ProxyOptions {
    /// A request body that must be read for its amount may be this long.
    pub max_body_inspect_bytes: usize,
    /// To the response head, and then between two chunks, where a service does not say otherwise.
    pub upstream_timeout: Duration,
    /// Lower the maximum of a model call that a budget does not cover, instead of refusing it.
    pub clamp_max_tokens: bool,
    /// Openings in the destination guard that hold for every service.
    pub danger_allow: Vec<DangerAllow>,
    /// For a client's whole head to come, and so how long an idle connection is kept.
    pub head_timeout: Duration,
    /// Clients at once; further ones wait to be accepted. Taken at the start.
    pub max_connections: usize,
    /// How long requests may go on when the gate ends. Taken at the start.
    pub drain_timeout: Duration,
    /// Which gate this is, so that a request which comes back to it is known. Random per start; taken
    /// at the start.
    pub instance: u32,
}

impl Default for ProxyOptions {
    fn default() -> Self {
        Self {
            max_body_inspect_bytes: 1024 * 1024,
            upstream_timeout: Duration::from_secs(30),
            clamp_max_tokens: false,
            danger_allow: Vec::new(),
            head_timeout: HEAD_TIMEOUT,
            max_connections: 4_096,
            drain_timeout: Duration::from_secs(10),
            instance: 0,
        }
    }
}
