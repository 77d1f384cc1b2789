//! Real counterparts for tests. Nothing here is shipped.
//!
//! - [`upstream`]: a local server that speaks enough of Stripe, OpenAI, Anthropic and Google Ads
//!   for their official clients, counts the money it took, and can misbehave on request.
//! - [`gate_process`]: starts, stops, kills and restarts the real binary on a throw-away folder.
//! - [`http`]: a small client for tests, down to exact bytes on the wire.
//! - [`scrape`]: a strict reader of Prometheus' text format.
//! - [`python`], [`node`]: run scripts where the official packages are installed.
//!
//! Never here: fakes of our own crates. A test that needs the gate takes the gate.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "test-only crate: a broken precondition has to end the test at once, and its job is to open sockets and start processes"
)]

mod gate_config;
pub mod gate_process;
pub mod http;
pub mod node;
pub mod ports;
pub mod process;
pub mod python;
pub mod scrape;
pub mod upstream;

pub use gate_config::GateConfig;
pub use gate_process::{GateProcess, StartFailure};
pub use node::node_task;
pub use python::{python, python_task};
pub use scrape::Scrape;
pub use upstream::{Alpn, Recording, Upstream, UpstreamOptions};
