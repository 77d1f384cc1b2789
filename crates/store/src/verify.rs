//! Checking the record: every row, the chain, the checkpoints. Reads only; beside a running gate too.
//!
//! The checkpoints are read before the rows, so that what they speak of is there. If the gate removes
//! old rows meanwhile, it has signed that, and the check is made again.

use std::path::Path;

use serde::Serialize;

use crate::chain::{GENESIS, Hash};
use crate::checkpoint::{Kind, Next, checkpoint_path, each_line, parse_line};
use crate::error::StoreError;
use crate::keys::{Marked, PublicKey};
use crate::limits::VERIFY_ATTEMPTS;
use crate::log::Log;
use crate::schema;

mod walk;

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

fn verify_once(
    data_dir: &Path,
    checkpoints: &Checkpoints,
    progress: &mut dyn FnMut(Progress),
) -> Result<Verification, StoreError> {
    let db = schema::open_for_reading(data_dir)?;
    let file = schema::db_path(data_dir);
    let mut rows = 0;
    let mut first_bad = None;
    for log in Log::ALL {
        let mut walk = Walk::new(log, checkpoints.of(log), progress);
        let bad = walk.check(&db).map_err(|source| schema::opened(&file, source))?;
        rows += walk.done();
        first_bad = first_bad.or(bad);
    }
    // A row says more than a line about it, so those come first.
    let first_bad = first_bad.or_else(|| checkpoints.bad.clone()).or_else(|| {
        (rows > 0 && checkpoints.count == 0).then(|| FirstBad {
            log: CHECKPOINTS,
            row: 1,
            why: "there are rows and no checkpoints: the file is missing or was emptied".to_owned(),
        })
    });
    Ok(Verification { ok: first_bad.is_none(), rows, checkpoints: checkpoints.count, first_bad })
}

const CHECKPOINTS: &str = "checkpoints";

/// What the checkpoint file says of each log.
#[derive(Debug, Default)]
struct Checkpoints {
    count: u64,
    transactions: Signed,
    config_changes: Signed,
    system_events: Signed,
    bad: Option<FirstBad>,
}

/// What was signed of one log.
#[derive(Debug, Default)]
struct Signed {
    /// Row and hash of each checkpoint that is new to this log, by row.
    heads: Vec<(i64, Hash)>,
    /// Up to where rows were removed, and the hash there, in order.
    anchors: Vec<(i64, Hash)>,
    /// The gate had stopped: no row may follow.
    stopped: bool,
}

impl Checkpoints {
    fn read(data_dir: &Path, file: &Path) -> Result<Self, StoreError> {
        let key = PublicKey::read(data_dir)?;
        let marked = Marked::read(data_dir);
        let mut all = Self::default();
        let mut line_number = 0;
        let mut previous = (0, GENESIS);
        let mut marked_line = None;
        each_line(file, |line| {
            line_number += 1;
            match all.take_in(line, key.as_ref(), &mut previous) {
                Ok(()) => {
                    if let Marked::At(mark) = marked
                        && mark.number == previous.0
                    {
                        marked_line = Some(previous.1);
                    }
                    Next::Line
                }
                Err(why) => {
                    all.bad = Some(FirstBad { log: CHECKPOINTS, row: line_number, why });
                    Next::Stop
                }
            }
        })?;
        for log in Log::ALL {
            // In order already, unless an older database was put back and signed over.
            all.of_mut(log).heads.sort_by_key(|(rows, _)| *rows);
        }
        if all.bad.is_none() {
            let why = match marked {
                Marked::At(mark) if previous.0 < mark.number => Some(format!(
                    "checkpoint {} was written and the file ends at {}: its tail was cut off, or \
                     an older copy was put back",
                    mark.number, previous.0
                )),
                Marked::At(mark) if marked_line != Some(mark.line) => {
                    Some(format!("checkpoint {} is not the one that was written", mark.number))
                }
                Marked::At(_) => None,
                Marked::Damaged => Some("the mark beside the record's key is damaged".to_owned()),
                Marked::Nothing if previous.0 > 0 => {
                    Some("the mark beside the record's key is missing".to_owned())
                }
                Marked::Nothing => None,
            };
            let row = i64::try_from(previous.0).unwrap_or(i64::MAX).saturating_add(1);
            all.bad = why.map(|why| FirstBad { log: CHECKPOINTS, row, why });
        }
        Ok(all)
    }

    /// Whether rows were removed, or the gate was started or stopped, since.
    fn moved_on_from(&self, before: &Self) -> bool {
        Log::ALL.into_iter().any(|log| {
            let (now, then) = (self.of(log), before.of(log));
            now.anchors.len() != then.anchors.len() || now.stopped != then.stopped
        })
    }

    fn take_in(
        &mut self,
        line: &[u8],
        key: Option<&PublicKey>,
        previous: &mut (u64, Hash),
    ) -> Result<(), String> {
        let line = parse_line(line).ok_or("is no checkpoint")?;
        let key = key.ok_or("cannot be checked: neither key nor public key is there")?;
        if !key.signed(&line.signed, &line.signature) {
            return Err("its signature is wrong: the line was changed, or signed with another key"
                .to_owned());
        }
        let expected = previous.0.saturating_add(1);
        if line.body.number != expected {
            return Err(format!("checkpoint {expected} is missing: here is {}", line.body.number));
        }
        if *line.body.previous() != previous.1 {
            return Err("does not follow from the line before it".to_owned());
        }
        *previous = (line.body.number, line.hash);
        self.count = self.count.saturating_add(1);
        for log in Log::ALL {
            let head = line.body.head(log);
            let signed = self.of_mut(log);
            signed.stopped = line.body.kind == Kind::Stop;
            if signed.heads.last() != Some(&(head.rows, head.hash)) && head.rows > 0 {
                signed.heads.push((head.rows, head.hash));
            }
        }
        if let Some(anchor) = line.body.removed {
            self.of_mut(anchor.log).anchors.push((anchor.through, anchor.hash.0));
        }
        Ok(())
    }

    const fn of(&self, log: Log) -> &Signed {
        match log {
            Log::Transactions => &self.transactions,
            Log::ConfigChanges => &self.config_changes,
            Log::SystemEvents => &self.system_events,
        }
    }

    const fn of_mut(&mut self, log: Log) -> &mut Signed {
        match log {
            Log::Transactions => &mut self.transactions,
            Log::ConfigChanges => &mut self.config_changes,
            Log::SystemEvents => &mut self.system_events,
        }
    }
}
