//! The management endpoint in process, over a gate with fake ports.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "test")]

mod areas;
mod credentials;
mod fakes;
mod metrics;
mod refusals;
