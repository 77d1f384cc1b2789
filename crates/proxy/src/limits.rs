//! Every bound of this door, with the reason for its number.

use std::time::Duration;

/// A request head. Real ones are under 16 KiB, even with large cookies and trace headers.
pub const HEAD_BYTES_MAX: usize = 64 * 1024;

/// What is read ahead of one connection: a head and as much body again.
pub const READ_BUFFER_BYTES_MAX: usize = 2 * HEAD_BYTES_MAX;

/// For a whole head to come, and so the longest an idle connection is kept. SDKs keep theirs for
/// 60 s or less, so they are the ones to close it.
pub const HEAD_TIMEOUT: Duration = Duration::from_secs(75);

/// What a tunnel holds of each direction: one TLS record, so that a large message costs few writes.
/// A slow reader makes the gate hold no more than this.
pub const TUNNEL_BUFFER_BYTES: usize = 16 * 1024;

/// For the second side of a tunnel to end after the first has. A WebSocket's last frame crosses the
/// world and back in less than a second.
pub const TUNNEL_CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

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

/// Values that one extractor of an operator may sum: as many as a Google Ads call may hold.
pub const EXTRACTED_VALUES_MAX: usize = 10_000;

/// The copy of an answer that an extractor reads. Answers that name a cost have a few KiB, with a
/// large result a few hundred.
pub const EXTRACTED_ANSWER_BYTES_MAX: usize = 1024 * 1024;

/// All bodies together that are held while they are read for their amount, in KiB: 64 of the largest
/// by default, and tens of thousands of the usual ones. It bounds what callers can make the gate hold
/// before anything is decided.
pub const INSPECT_ROOM_KIB: u32 = 64 * 1024;

/// A body up to here is read where it came in: that takes about a millisecond. Larger ones go aside.
pub const READ_IN_PLACE_BYTES_MAX: usize = 64 * 1024;

/// Large bodies that are read at once: some cores stay free for everything else.
pub const LARGE_BODIES_READ_AT_ONCE: usize = 2;

/// Tokens that a provider puts around a call by itself: the frame of a conversation. A handful in
/// truth.
pub const CALL_OVERHEAD_TOKENS: u64 = 64;

/// Tokens that a provider adds where tools are given, so that the model knows how to use them.
/// Anthropic's are the most, and under 900.
pub const TOOLS_OVERHEAD_TOKENS: u64 = 1_000;

/// What an image can be counted as. The dearest of today is a large one for gpt-4o-mini: 48,169.
pub const IMAGE_TOKENS_MAX: u64 = 50_000;

/// The `usage` of an answer that is kept to be read: real ones have under 600 bytes.
pub const USAGE_BYTES_MAX: usize = 16 * 1024;

/// One event of a stream that is held until it is whole, where the gate must see whether it may pass.
/// Longer ones pass in pieces: the event that only holds the usage has under 600 bytes.
pub const HELD_EVENT_BYTES_MAX: usize = 64 * 1024;

/// Bytes that a model writes for one token at the most, on average over an answer. English has four;
/// sixteen are not reached by any text, and an answer is only cut where it is past its bound by this.
pub const BYTES_PER_TOKEN_MAX: u64 = 16;

/// Tokens that may be on their way when a stream breaks off, beside those that were seen.
pub const IN_FLIGHT_TOKENS: u64 = 2_048;

/// How long the rest of an answer is read for its usage when the client is gone.
pub const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);

/// Answers that are drained at once; more are settled by estimate.
pub const DRAINS_AT_ONCE: usize = 256;

/// What is inflated of a compressed answer: beyond it, the answer is settled by estimate.
pub const INFLATED_ANSWER_BYTES_MAX: usize = 64 * 1024 * 1024;

/// The buffer of a brotli reader.
pub const INFLATE_BUFFER_BYTES: usize = 4 * 1024;

/// The window of a zstd body: 8 MiB, which is what HTTP asks every reader to have.
pub const ZSTD_WINDOW_LOG_MAX: u32 = 23;
