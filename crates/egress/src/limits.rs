//! Every bound of the way out, with the reason for its number.

use std::time::Duration;

/// Addresses of one name that are considered. Large public names answer with fewer than 16; the rest
/// of a longer answer is neither judged nor dialled.
pub const ADDRESSES_MAX: usize = 32;

/// Look-ups under way at once. Each holds a thread until the system's resolver gives up.
pub const LOOKUPS_MAX: usize = 32;

/// For one look-up, waiting for a free slot included. The usual resolver asks a second server after
/// 5 s, so that one dead server does not fail the name.
pub const LOOKUP_TIMEOUT: Duration = Duration::from_secs(8);

/// How long an approval is used without a new look-up. Long enough that a burst of new connections
/// costs one look-up, short enough that a moved name is followed.
pub const APPROVAL_TTL: Duration = Duration::from_secs(10);

/// Approvals kept. More hosts in 10 s than this is a crawl, which may pay for its look-ups.
pub const APPROVALS_MAX: usize = 1024;

/// Head start of one address before the next is tried beside it (RFC 8305 recommends 250 ms).
pub const DIAL_STAGGER: Duration = Duration::from_millis(250);

/// Addresses dialled for one connection. After eight of both families the name is down, not unlucky.
pub const DIAL_ATTEMPTS_MAX: usize = 8;

/// TCP and TLS together, unless configured. A handshake across the world takes under a second; three
/// lost SYNs take 7 s.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// To the response head, unless configured (the proxy's promise of 30 s).
pub const HEAD_TIMEOUT: Duration = Duration::from_secs(30);

/// Idle connections kept per service: as many as a busy machine has requests at once, and far below
/// the usual limit on open files (1,024).
pub const IDLE_PER_HOST_MAX: usize = 256;

/// How long an idle connection is kept. Common load balancers close theirs after 60 s; being first
/// avoids sending into a closing connection.
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(55);

/// Read buffer of an HTTP/1 connection, and so the largest response head. Heads of real APIs are under
/// 16 KiB.
pub const HTTP1_BUFFER_BYTES_MAX: usize = 128 * 1024;

/// Largest HTTP/2 response head, after decompression.
pub const HTTP2_HEAD_BYTES_MAX: u32 = 128 * 1024;

/// Unread bytes of one HTTP/2 stream: what a client that stopped reading can make the gate hold.
pub const HTTP2_STREAM_WINDOW_BYTES: u32 = 256 * 1024;

/// Unread bytes of one HTTP/2 connection. 256 stalled streams fill it (servers usually allow 100 to
/// 250), so that a few stalled agents cannot stop the others on the shared connection.
pub const HTTP2_CONNECTION_WINDOW_BYTES: u32 = 64 * 1024 * 1024;

/// Streams the server reset that are remembered, and resets caused by the server's own errors, before
/// the connection is given up. Against floods of resets; a healthy connection has close to none.
pub const HTTP2_RESETS_MAX: usize = 128;

/// A ping when a stream is open and nothing was heard for so long, to notice a dead peer under a
/// silent stream.
pub const HTTP2_PING_INTERVAL: Duration = Duration::from_secs(30);

/// Time for the answer to that ping.
pub const HTTP2_PING_TIMEOUT: Duration = Duration::from_secs(15);

/// Size of a CA file. All of the web's roots are 230 KiB.
pub const CA_FILE_BYTES_MAX: u64 = 4 * 1024 * 1024;
