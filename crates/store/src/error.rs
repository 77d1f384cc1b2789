//! What can go wrong with the store, in words that say what to do.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// Why the store could not do something.
#[derive(Debug, Error)]
pub enum StoreError {
    /// A file or folder.
    #[error("{doing} `{}`", path.display())]
    Io {
        /// What was being done: `creating the folder`, say.
        doing: &'static str,
        /// To which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The database.
    #[error("{doing} in the database")]
    Sql {
        /// What was being done.
        doing: &'static str,
        /// What SQLite said.
        source: rusqlite::Error,
    },
    /// The database file is damaged or is none.
    #[error(
        "`{}` is not a usable database; it was not touched: put a good copy in its place, or move it away to begin anew",
        file.display()
    )]
    Corrupt {
        /// The file.
        file: PathBuf,
        /// What SQLite said.
        source: rusqlite::Error,
    },
    /// A later version wrote it.
    #[error(
        "`{}` has schema version {found}, and this program knows versions up to {known}: use the newer program; the file was not touched",
        file.display()
    )]
    Newer {
        /// The file.
        file: PathBuf,
        /// Its version.
        found: i64,
        /// The latest one known here.
        known: i64,
    },
    /// A database of something else.
    #[error("`{}` is a database of another program; it was not touched: choose another data folder", file.display())]
    Foreign {
        /// The file.
        file: PathBuf,
    },
    /// There is no record to read.
    #[error("there is no record in `{}`: `agentguard.db` is missing", dir.display())]
    Missing {
        /// The data folder.
        dir: PathBuf,
    },
    /// The database is gone, and something beside it says that there was one.
    #[error(
        "the database `{}` is missing or empty, and a record was kept here: {} still there. Restore the database from a copy; or, to begin anew on purpose, move away {}",
        file.display(),
        there_are(traces),
        listed(traces)
    )]
    Lost {
        /// The database file.
        file: PathBuf,
        /// What is still there of the record.
        traces: Vec<PathBuf>,
    },
    /// Old rows are not as they were written, so they must not go: nobody could find out any more.
    #[error(
        "{log} row {row}: {why}; nothing was removed, so that it can be looked at: run `agentguard verify-logs`"
    )]
    Altered {
        /// `transactions`, `config_changes`, `system_events` or `checkpoints`.
        log: &'static str,
        /// The row's number in its log, or the line of the checkpoint file.
        row: i64,
        /// What is wrong with it.
        why: String,
    },
    /// Another gate has it.
    #[error("the data folder `{}` is in use by another gate{holder}: stop that one, or choose another folder", dir.display())]
    InUse {
        /// The data folder.
        dir: PathBuf,
        /// ` (process 123)`, if it is known.
        holder: String,
    },
    /// The key is unreadable, or gone while the record was signed with it.
    #[error("the record's key `{}`: {why}", file.display())]
    Key {
        /// The file.
        file: PathBuf,
        /// What is wrong, and what to do.
        why: String,
    },
    /// A credential could not be sealed.
    #[error("sealing a credential")]
    Seal,
    /// No random bytes for a new key.
    #[error("reading the system's random source")]
    NoRandomness(#[source] getrandom::Error),
    /// Something that waits for the writer did not get its answer.
    #[error("the store is closed")]
    Closed,
    /// Rows still wait: the database does not take them.
    #[error("{waiting} rows of the record still wait to be written: {why}")]
    NotWritten {
        /// How many.
        waiting: usize,
        /// What the database said last.
        why: String,
    },
}

fn listed(paths: &[PathBuf]) -> String {
    let shown: Vec<String> = paths.iter().map(|path| format!("`{}`", path.display())).collect();
    shown.join(", ")
}

fn there_are(paths: &[PathBuf]) -> String {
    format!("{} {}", listed(paths), if paths.len() == 1 { "is" } else { "are" })
}

impl StoreError {
    /// For `map_err` on file operations.
    pub(crate) fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { doing, path, source }
    }

    /// For `map_err` on statements.
    pub(crate) const fn sql(doing: &'static str) -> impl FnOnce(rusqlite::Error) -> Self {
        move |source| Self::Sql { doing, source }
    }

    /// With its sources, on one line: for logs and for rows of the record.
    pub(crate) fn in_full(&self) -> String {
        let mut text = self.to_string();
        let mut next = std::error::Error::source(self);
        while let Some(source) = next {
            text.push_str(": ");
            text.push_str(&source.to_string());
            next = source.source();
        }
        text
    }
}
