//! The one way out: resolve, classify, dial, and speak HTTP over what was dialled.
//!
//! ```text
//! Destination ──► Guard::approve ──► Approved ──► dial ──► TLS ──► pooled HTTP (Upstream)
//!                      └─► Blocked (why, and what would change it)
//! ```
//!
//! - Every address of a name is judged (by `core::net`) before one of them is dialled, and only the
//!   judged addresses are: a second look-up could return another one (DNS rebinding).
//! - [`Approved`] has no public constructor, and what leaves the machine takes a `&Permit`: a way
//!   around the guard or the gate does not compile.
//!
//! Never here: policy of its own, proxy variables from the environment, redirects.

mod approved;
mod cache;
mod connector;
mod dial;
mod error;
mod guard;
pub mod limits;
mod resolver;
mod switched;
mod tls;
mod upstream;

#[cfg(test)]
mod tests;

pub use approved::Approved;
pub use dial::dial;
pub use error::{ApproveError, DialError, DnsCause, DnsError, SendError, TlsError};
pub use guard::Guard;
pub use resolver::{Resolver, Resolving, SystemResolver};
pub use switched::{Switch, Switched};
pub use tls::{
    CaFileError, ClientTls, ExtraRoots, InsecureSkipTlsVerify, PlatformRoots, TlsSetupError,
    VerifiedTls,
};
pub use upstream::{Upstream, UpstreamConfig, UpstreamError};

pub use agentguard_core::net::{
    Blocked, BlockedNames, DangerAllow, Destination, Exceptions, Passage, PrivateAddresses,
};
