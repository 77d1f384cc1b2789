//! Bounds of the management endpoint, each with the reason for its number.

use std::time::Duration;

/// Bytes of a request body: a policy of thousands of rules fits, a mistake does not fill memory.
pub(crate) const BODY_BYTES_MAX: usize = 1 << 20;

/// Connections at once. A person, a dashboard and a few scripts need far fewer; the bound keeps a
/// local program from taking all descriptors of the gate.
pub(crate) const CONNECTIONS_MAX: usize = 128;

/// For the head of a request, and then for its body: the caller is on this machine.
pub(crate) const READ_LIMIT: Duration = Duration::from_secs(10);

/// How long requests under way may go on when the gate stops.
pub(crate) const DRAIN_LIMIT: Duration = Duration::from_secs(3);

/// After a failed `accept` (no descriptors left) it is tried again this much later.
pub(crate) const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Rule sets, services and agents, each: far above what a person keeps in order, and a list of them
/// is still one answer.
pub(crate) const THINGS_MAX: usize = 1_000;

/// Bytes of a path or of a variable's name: what operating systems take.
pub(crate) const PATH_BYTES_MAX: usize = 4_096;
