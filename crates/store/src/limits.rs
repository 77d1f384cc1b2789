//! Bounds of the store, each with the reason for its number.

use std::time::Duration;

/// Rows that may be on their way to the database, those of actions under way included. At some 400
/// bytes each this is 26 MB at the worst, and several seconds of a full load.
pub(crate) const PLACES: usize = 65_536;

/// Refused calls leave at least this much room: a flood of them must not close the gate to others.
pub(crate) const PLACES_KEPT_FROM_REFUSED: usize = PLACES / 2;

/// Events and alerts that may wait. They are rare; this many means that the disk is gone.
pub(crate) const NOTES_MAX: usize = 8_192;

/// Rows that start a commit.
pub(crate) const BATCH_ROWS: usize = 500;

/// Rows in one commit when more are waiting: under load a sync is shared by more of them.
pub(crate) const BATCH_ROWS_MAX: usize = 4_096;

/// The longest that a row waits for company.
pub(crate) const BATCH_WAIT: Duration = Duration::from_secs(2);

/// Rows after which a checkpoint is due.
pub(crate) const CHECKPOINT_ROWS: i64 = 500;

/// The longest that a new row goes without a checkpoint.
pub(crate) const CHECKPOINT_WAIT: Duration = Duration::from_secs(10);

/// Waits between attempts to write after a failure.
pub(crate) const RETRY_WAIT_MIN: Duration = Duration::from_millis(100);
/// The longest of them: a disk that has room again is noticed soon.
pub(crate) const RETRY_WAIT_MAX: Duration = Duration::from_secs(5);

/// Bytes of a journal segment. Some 30,000 intents: small enough to be read back in a moment, large
/// enough that making a file is rare.
pub(crate) const SEGMENT_BYTES_MAX: u64 = 8 << 20;

/// Bytes of one journal line that are read back. Ours are far shorter: texts are cut before.
pub(crate) const LINE_BYTES_MAX: usize = 64 << 10;

/// Bytes of a verb, target or service name in an intent.
pub(crate) const INTENT_TEXT_BYTES_MAX: usize = 4_096;

/// Bytes of a row's facts. Doors keep them small; one that does not must not swell the record.
pub(crate) const FACTS_BYTES_MAX: usize = 64 << 10;

/// Failed syncs that are remembered one by one; tickets from before those count as failed.
pub(crate) const FAILED_SYNCS_KEPT: usize = 64;

/// Rows that are read at a time. No read is held open longer than this takes: a reader that is slow
/// to consume must not keep the write-ahead log from being folded back.
pub(crate) const PAGE_ROWS: i64 = 4_096;

/// Rows between two reports of progress.
pub(crate) const PROGRESS_ROWS: u64 = 10_000;

/// Rows that retention removes in one transaction: some tens of milliseconds, in which requests wait
/// in the queue.
pub(crate) const RETENTION_ROWS: i64 = 20_000;

/// Days that hourly sums are kept: a year and a month, so that the same month of last year can be
/// shown beside this one.
pub(crate) const SNAPSHOT_DAYS: u32 = 400;

/// How long a connection waits for another one's lock. Only a backup or a person with a shell ever
/// holds one.
pub(crate) const BUSY_WAIT: Duration = Duration::from_secs(5);

/// Bytes of one line in the checkpoint file. Ours have some 700.
pub(crate) const CHECKPOINT_LINE_BYTES_MAX: u64 = 16 << 10;

/// Times that a check is repeated when the gate removed rows beneath it.
pub(crate) const VERIFY_ATTEMPTS: u32 = 5;
