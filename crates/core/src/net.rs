//! Where a request may go: address classes, name classes, destinations, exceptions and the judgement
//! over them. One guard for every door.
//!
//! Never here: a look-up, a socket, a clock. `egress` resolves and dials; what it may dial is said here.

mod address;
mod destination;
mod exceptions;
mod host;
mod judge;
mod name;

pub use address::{AddressClass, Embedding, classify, is_global};
pub use destination::{Destination, DestinationError, Scheme, URL_BYTES_MAX};
pub use exceptions::{DangerAllow, DangerAllowError, Exceptions, PrivateAddresses};
pub use host::{HOST_BYTES_MAX, Host, HostError, HostName, LABEL_BYTES_MAX};
pub use judge::{Blocked, Passage, judge_addresses, judge_name};
pub use name::{BlockedNames, NameClass, classify_name};
