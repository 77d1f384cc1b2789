//! Facts, policy and counters in; a verdict out.
//!
//! Here live the words of the product: agents, actions, rules, money, windows, risk, reasons. Never
//! here: I/O, async, clocks, randomness, logging. Time is a field of the action, and the same inputs
//! always give the same verdict, so what the gate decides can be replayed and explained.

#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

pub mod action;
pub mod agent;
pub mod baseline;
pub mod counters;
pub mod credential;
pub mod decide;
pub mod domain;
pub mod door;
pub mod explain;
pub mod extractor;
pub mod hit;
pub mod id;
pub mod limits;
pub mod mask;
pub mod money;
pub mod net;
mod params;
pub mod policy;
pub mod price;
pub mod reason;
pub mod refusal;
pub mod risk;
pub mod rule;
mod rule_type;
pub mod secret;
pub mod service;
pub mod time;
pub mod token;
pub mod window;
pub mod wire;

pub use action::{Action, Amount, Facts};
pub use agent::{Agent, AgentStatus};
pub use counters::Counters;
pub use credential::Credential;
pub use decide::{Verdict, decide};
pub use door::{Door, DoorSet};
pub use id::{AgentId, RequestId, RuleId, RuleSetId};
pub use money::{Currency, MicroUsd, Money, Rates};
pub use policy::Policy;
pub use price::{Price, PriceTable, Tokens};
pub use reason::Reason;
pub use refusal::Refusal;
pub use secret::Secret;
pub use time::Timestamp;
