//! Checking the record: every row, the chain, the checkpoints. Reads only; beside a running gate too.
//!
//! The checkpoints are read before the rows, so that what they speak of is there. If the gate removes
//! old rows meanwhile, it has signed that, and the check is made again.

use std::path::Path;

use rusqlite::Connection;
use serde::Serialize;

use crate::chain::Hash;
use crate::checkpoint::checkpoint_path;
use crate::error::StoreError;
use crate::inspect::rule_sets;
use crate::limits::VERIFY_ATTEMPTS;
use crate::log::Log;
use crate::schema;

mod signed;
mod walk;

pub(crate) use signed::Checkpoints;
use walk::Walk;

/// What a check found.
#[derive(Clone, Debug, Serialize)]
pub struct Verification {
    /// Whether all is as it was written.
    pub ok: bool,
    /// Rows that were checked, of all logs.
    pub rows: u64,
    /// Checkpoints that were checked.
    pub checkpoints: u64,
    /// The first thing that is not as it was written.
    pub first_bad: Option<FirstBad>,
}

/// The first thing that is not as it was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FirstBad {
    /// `transactions`, `config_changes`, `system_events` or `checkpoints`.
    pub log: &'static str,
    /// The row's number in its log, or the line of the checkpoint file.
    pub row: i64,
    /// What is wrong with it.
    pub why: String,
}

/// How far a check has come.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Which log is being checked.
    pub log: Log,
    /// Rows of it that are done.
    pub done: u64,
    /// Rows that it has.
    pub total: u64,
}

/// Checks the record of a data folder.
pub fn verify(
    data_dir: &Path,
    checkpoint_file: Option<&Path>,
    progress: &mut dyn FnMut(Progress),
) -> Result<Verification, StoreError> {
    let default = checkpoint_path(data_dir);
    let file = checkpoint_file.unwrap_or(&default);
    let mut checkpoints = Checkpoints::read(data_dir, file)?;
    for _ in 1..VERIFY_ATTEMPTS {
        let found = verify_once(data_dir, &checkpoints, progress)?;
        if found.ok {
            return Ok(found);
        }
        // What looks wrong may be the gate at work: rows that it removed, or a start. It signs
        // before it does either.
        let again = Checkpoints::read(data_dir, file)?;
        if !again.moved_on_from(&checkpoints) {
            return Ok(found);
        }
        checkpoints = again;
    }
    verify_once(data_dir, &checkpoints, progress)
}

/// Checks the oldest rows of a log before they go: up to `through`, and on to the first head that was
/// signed there or later. Gives the hash that the rest goes on from.
pub(crate) fn check_oldest(
    db: &Connection,
    log: Log,
    checkpoints: &Checkpoints,
    through: i64,
) -> Result<Hash, StoreError> {
    let altered = |FirstBad { log, row, why }| StoreError::Altered { log, row, why };
    if let Some(bad) = checkpoints.bad.clone() {
        return Err(altered(bad));
    }
    let mut progress = |_: Progress| {};
    let mut walk = Walk::new(log, checkpoints.of(log), &mut progress);
    let checked = walk.check_oldest(db, through);
    checked.map_err(StoreError::sql("checking old rows"))?.map_err(altered)
}

fn verify_once(
    data_dir: &Path,
    checkpoints: &Checkpoints,
    progress: &mut dyn FnMut(Progress),
) -> Result<Verification, StoreError> {
    let file = schema::db_path(data_dir);
    let db = match schema::open_for_reading(data_dir) {
        Ok(db) => db,
        Err(StoreError::Missing { .. }) if !checkpoints.is_nothing() => {
            let why =
                format!("the database `{}` is missing, and a record was kept", file.display());
            let log = Log::Transactions.name();
            let first_bad = Some(FirstBad { log, row: 1, why });
            let checkpoints = checkpoints.count;
            return Ok(Verification { ok: false, rows: 0, checkpoints, first_bad });
        }
        Err(error) => return Err(error),
    };
    let mut rows = 0;
    let mut first_bad = None;
    for log in Log::ALL {
        let mut walk = Walk::new(log, checkpoints.of(log), progress);
        let bad = walk.check(&db).map_err(|source| schema::opened(&file, source))?;
        rows += walk.done();
        first_bad = first_bad.or(bad);
    }
    // Rules without a row and without a line: all of it was taken away.
    let unproven = checkpoints.count == 0
        && (rows > 0
            || first_bad.is_none()
                && rule_sets(&db).map_err(|source| schema::opened(&file, source))? > 0);
    // A row says more than a line about it, so those come first.
    let first_bad = first_bad.or_else(|| checkpoints.bad.clone()).or_else(|| {
        unproven.then(|| FirstBad {
            log: CHECKPOINTS,
            row: 1,
            why: "there is a record and no checkpoint: the file is missing or was emptied"
                .to_owned(),
        })
    });
    Ok(Verification { ok: first_bad.is_none(), rows, checkpoints: checkpoints.count, first_bad })
}

const CHECKPOINTS: &str = "checkpoints";
