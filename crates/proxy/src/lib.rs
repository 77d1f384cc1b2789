//! Door `api`, mode A: `ANY /proxy/<alias>/<path>?<query>` goes to the service of that alias.
//!
//! ```text
//! listen ─► connection ─► door ─► request (facts) ─► gate.identify
//!                           ├─► routes (service, path, destination guard) ─► amount ─► gate.admit
//!                           ├─► forward (egress, with the permit) ─► stream ─► permit.settle
//!                           └─► upgrade (a WebSocket's handshake) ──► tunnel ─► permit.settle
//! ```
//!
//! Here live the listener, what of a request passes and what not, where requests name money, and the
//! streaming of answers. Never here: dialling (`egress`), deciding (`core`), keeping (`store`).

mod amount;
mod body;
mod connection;
mod credential;
mod door;
mod dry_run;
mod forward;
mod head_scan;
mod headers;
mod identity;
mod inflate;
mod inspect;
mod intents;
pub mod limits;
mod listen;
mod meter;
mod options;
mod path;
mod request;
mod respond;
mod routes;
mod socket;
mod stall;
mod stream;
mod tunnel;
mod upgrade;

pub use dry_run::{Sample, extract, matching};
pub use listen::Proxy;
pub use options::ProxyOptions;
