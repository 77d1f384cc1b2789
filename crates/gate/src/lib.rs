//! The one admission path: admit, permit, settle.
//!
//! Every door turns what an agent asked into an action, asks [`Gate::admit`], and does nothing without
//! the [`Permit`] it returns. Here live reservations, the kill switch, audit intents and outcomes,
//! alerts, and the ports that a store implements. Never here: SQL, HTTP, or what a rule means.

mod alert;
mod change;
mod clock;
mod credential;
pub mod defaults;
mod directory;
mod exposition;
mod gate;
mod ids;
mod inner;
mod knock;
mod metrics;
mod permit;
pub mod ports;
mod record;
mod spending;
mod stop;
mod sync;
mod turnstile;

pub use alert::{AlertEvent, EventKind, Severity};
pub use change::{Actor, AgentDraft, Change, ImportPlan, PolicyFile, RuleDraft, RuleSetDraft};
pub use clock::Clock;
pub use credential::{
    CredentialChange, CredentialSource, CredentialState, EnvironmentError, Unusable,
    from_environment,
};
pub use directory::{AgentRecord, Directory, Entry, PolicyData, RuleSet};
pub use exposition::{Exposition, Family, MetricKind, Millionths};
pub use gate::{ChangeError, Gate, Settings, StopReport};
pub use ids::IdSource;
pub use knock::{Caller, Knock, Presented, Rebuff};
pub use permit::{Outcome, Permit, Spent, StopWatch};
pub use record::{Decision, Durability, Intent, Row, SystemEvent};
pub use spending::{SpendLine, Spending};
pub use stop::{PausedBy, Scope, Stop};
pub use turnstile::{Entered, Pass, Turned, Turnstile};

/// The kill switch's parts, for the concurrency model.
#[cfg(feature = "model")]
pub mod model {
    pub use crate::stop::StopSlot;
}
