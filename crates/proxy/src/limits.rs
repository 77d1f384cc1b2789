//! Every bound of this door, with the reason for its number.

use std::time::Duration;

/// A request head. Real ones are under 16 KiB, even with large cookies and trace headers.
pub const HEAD_BYTES_MAX: usize = 64 * 1024;

/// What is read ahead of one connection: a head and as much body again.
pub const READ_BUFFER_BYTES_MAX: usize = 2 * HEAD_BYTES_MAX;

/// For a whole head to come, and so the longest an idle connection is kept. SDKs keep theirs for
/// 60 s or less, so they are the ones to close it.
pub const HEAD_TIMEOUT: Duration = Duration::from_secs(75);

/// The longest wait for which a client is told to come back by itself. A window of a minute is over by
/// then. Clients of OpenAI and Anthropic sleep as long as `Retry-After` says, without a word: for a
/// window of an hour or a day the agent has to hear of the refusal instead.
pub const RETRY_WAIT_SEC_MAX: i64 = 120;

/// Pause after a failed accept: out of descriptors is the usual reason, and others must end first.
pub const ACCEPT_RETRY: Duration = Duration::from_millis(20);

/// Rounds of percent-decoding before a path counts as made to deceive. Honest ones need one, doubly
/// encoded ones two.
pub const DECODE_ROUNDS_MAX: usize = 4;

/// Depth of a JSON body that is looked into. Paying requests are three deep.
pub const JSON_DEPTH_MAX: usize = 32;

/// Payment intents that are remembered as counted, the oldest forgotten first. They are confirmed
/// within minutes; at about 100 bytes each this is 1 MB.
pub const INTENTS_MAX: usize = 10_000;

/// The answer to the creation of an intent that is looked into for its id. Stripe's are about 2 KiB,
/// and with everything expanded under 20.
pub const INTENT_ANSWER_BYTES_MAX: usize = 64 * 1024;

/// An id of Stripe, by its own documentation.
pub const INTENT_ID_BYTES_MAX: usize = 255;

/// Requests for money that one Google Ads call may hold (Google's own limit is 10,000).
pub const ADS_OPERATIONS_MAX: usize = 10_000;

/// All bodies together that are held while they are read for their amount, in KiB: 64 of the largest
/// by default, and tens of thousands of the usual ones. It bounds what callers can make the gate hold
/// before anything is decided.
pub const INSPECT_ROOM_KIB: u32 = 64 * 1024;

/// A body up to here is read where it came in: that takes about a millisecond. Larger ones go aside.
pub const READ_IN_PLACE_BYTES_MAX: usize = 64 * 1024;

/// Large bodies that are read at once: some cores stay free for everything else.
pub const LARGE_BODIES_READ_AT_ONCE: usize = 2;
