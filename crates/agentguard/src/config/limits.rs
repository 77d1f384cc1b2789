//! Bounds of the configuration, each with the reason for its number. The JSON schema shows the
//! same constants that the compiler of the configuration enforces.

/// The least and the greatest value that a number may have.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// The least.
    pub(super) min: u64,
    /// The greatest.
    pub(super) max: u64,
}

const fn bounds(min: u64, max: u64) -> Bounds {
    Bounds { min, max }
}

/// A file written by hand has a few kilobytes; a mebibyte leaves room for thousands of hosts.
pub(super) const FILE_BYTES_MAX: usize = 1 << 20;
/// Every map, list and scalar is a node; a thousand hosts with thirty keys each stay below.
pub(super) const NODES_MAX: usize = 100_000;
/// The deepest key of the gate is four levels down; templates of commands need a few more.
pub(super) const DEPTH_MAX: usize = 24;
/// Anchors save typing. Beyond this many uses they only serve to blow a small file up.
pub(super) const ALIASES_MAX: usize = 256;
/// What all uses of anchors together may add.
pub(super) const ALIAS_EVENTS_MAX: usize = 20_000;
/// Entries of any list or table: they are scanned one by one on the path of a request.
pub(super) const ENTRIES_MAX: usize = 1_024;
/// Steps of a variable's name: the deepest key has three, an entry of a table adds one.
pub(super) const VARIABLE_STEPS_MAX: usize = 8;
/// What a message shows of a value: enough to recognise it, too little to fill a screen.
pub(super) const SHOWN_CHARS_MAX: usize = 80;
/// The longest name that is compared with known ones; theirs have less than half of it.
pub(super) const NAME_BYTES_MAX: usize = 128;
/// A bearer token travels in a header line, and servers cut those at a few kilobytes.
pub(super) const TOKEN_BYTES_MAX: usize = 1_024;

/// Calls under way at once: each holds a remote channel and its output buffer of a mebibyte.
pub(super) const CONCURRENT: Bounds = bounds(1, 4_096);
/// Connections held open at once: each takes a descriptor, of which a process has some thousands.
pub(super) const CONNECTIONS: Bounds = bounds(1, 65_536);
/// Seconds: at least one, so that it can succeed; an hour outlasts the longest model call.
pub(super) const TIMEOUT_SEC: Bounds = bounds(1, 3_600);
/// Milliseconds, for single steps of a fetch: above two minutes the caller has long gone.
pub(super) const STEP_TIMEOUT_MS: Bounds = bounds(1, 120_000);
/// Bytes of a body held in memory to be read: below a kibibyte no amount would be found.
pub(super) const INSPECT_BYTES: Bounds = bounds(1_024, 64 << 20);
/// Bytes of a page: it is held in memory, once for each fetch under way.
pub(super) const PAGE_BYTES: Bounds = bounds(1_024, 256 << 20);
/// Redirects: browsers stop at twenty.
pub(super) const REDIRECTS: Bounds = bounds(0, 20);
/// TCP ports that can be dialled.
pub(super) const PORT: Bounds = bounds(1, 65_535);
/// Days of a log: one at least, or the record would be gone before it is read; a century at most.
pub(super) const RETENTION_DAYS: Bounds = bounds(1, 36_500);
