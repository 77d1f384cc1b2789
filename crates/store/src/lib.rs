//! SQLite behind the gate's ports: policy, the record, and money across restarts.
//!
//! Here live the database and its migrations, the one thread that writes it, the journal of intents
//! beside it, the hash chain and its signed checkpoints, and what reads, checks and trims them.
//! Never here: a decision. What may happen is settled before a row arrives.
//!
//! Three promises hold this together:
//! - an intent is in the journal before its action leaves, and its segment goes only when the row is
//!   on disk;
//! - what the writer has committed is on disk (full sync, many rows to a commit), so a checkpoint is
//!   never ahead of the database it speaks of;
//! - rows are chained by log and numbered without gaps; only retention removes any, from the start,
//!   and only after checking them and signing where the rest goes on.

mod chain;
mod change;
mod checkpoint;
mod commit;
mod credentials;
mod error;
mod export;
mod folder;
mod history;
mod import;
mod inspect;
mod intent;
mod journal;
mod keys;
mod limits;
mod log;
mod policy;
mod queue;
mod reader;
mod recover;
mod retention;
mod rows;
mod schema;
mod snapshot;
mod store;
mod sync;
mod time_index;
mod verify;
mod writer;

pub use checkpoint::checkpoint_path;
pub use error::StoreError;
pub use export::{AlertRow, ConfigChangeRow, ExportRow, SystemEventRow};
pub use log::Log;
pub use reader::{Filter, Reader, open_reader};
pub use retention::{Removed, Retention};
pub use store::{Opened, Stats, Store, StoreOptions};
pub use verify::{FirstBad, Progress, Verification, verify};
