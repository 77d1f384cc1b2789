//! The door in one process with a real gate and a real upstream; only the store is a fake, at the
//! gate's ports.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests: a broken precondition has to end the test at once"
)]

mod amounts;
mod credentials;
mod error_table;
mod headers;
mod intents;
mod listening;
mod model_streams;
mod models;
mod odd_answers;
mod parked;
mod refusals;
mod secure;
mod smuggling;
mod stalls;
mod streams;
mod upstream_faults;
mod websocket;
mod websocket_ends;
mod world;
