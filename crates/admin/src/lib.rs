//! The management endpoint: what people and the command line use to see and steer the gate.
//!
//! JSON under `/api/v1`, on loopback only. Every request passes [`guard`](guard.rs): the `Host` it
//! names, the web page it may come from, the management token. One module for each area; the full
//! API grows beside them. Never here: SQL, what a rule means, or a file. What the endpoint needs
//! from the rest of the process comes in as [`Upkeep`].

mod agents;
mod body;
mod error;
mod explain;
mod extractors;
mod guard;
mod health;
mod limits;
mod metrics;
mod plan;
mod policy;
mod prices;
mod proof;
mod record;
mod rules;
mod serve;
mod services;
mod spend;
mod state;
mod stops;

pub use error::ApiError;
pub use plan::{NewAgent, PlanError, Planned, plan};
pub use proof::{Nonce, Proof};
pub use serve::{router, serve};
pub use state::{Admin, AdminOptions, Operator, ProcessVitals, RecordVitals, Upkeep, Vitals};
