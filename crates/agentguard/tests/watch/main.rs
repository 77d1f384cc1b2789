//! What operators watch, through the real program: metrics, the log, and risk rules on real traffic.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test's broken precondition should stop it loudly"
)]

mod logging;
mod metrics;
mod risk;
mod support;
