//! What was signed: the lines of the checkpoint file, checked, and what they say of each log.

use std::path::Path;

use super::{CHECKPOINTS, FirstBad};
use crate::chain::{GENESIS, Hash, Heads};
use crate::checkpoint::{Anchor, Kind, Next, each_line, parse_line};
use crate::error::StoreError;
use crate::keys::{Marked, PublicKey};
use crate::log::Log;

/// What the checkpoint file says of each log.
#[derive(Debug, Default)]
pub(crate) struct Checkpoints {
    pub(super) count: u64,
    transactions: Signed,
    config_changes: Signed,
    system_events: Signed,
    /// The first line that is not as it was written.
    pub(crate) bad: Option<FirstBad>,
}

/// What was signed of one log.
#[derive(Debug, Default)]
pub(super) struct Signed {
    /// Row and hash of each checkpoint that is new to this log, by row.
    pub(super) heads: Vec<(i64, Hash)>,
    /// Up to where rows were removed, and the hash there, in order.
    pub(super) anchors: Vec<(i64, Hash)>,
    /// The gate had stopped: no row may follow.
    pub(super) stopped: bool,
}

impl Checkpoints {
    pub(crate) fn read(data_dir: &Path, file: &Path) -> Result<Self, StoreError> {
        let key = PublicKey::read(data_dir)?;
        let marked = Marked::read(data_dir);
        let mut all = Self::default();
        let mut line_number = 0;
        let mut previous = (0, GENESIS);
        let mut marked_line = None;
        each_line(file, |line| {
            line_number += 1;
            match all.take_in(line_number, line, key.as_ref(), &mut previous) {
                Ok(()) => {
                    if let Marked::At(mark) = marked
                        && mark.number == previous.0
                    {
                        marked_line = Some(previous.1);
                    }
                    Next::Line
                }
                Err(why) => {
                    all.note_bad(line_number, why);
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

    /// Takes in where the logs stand now.
    pub(crate) fn cover(&mut self, heads: &Heads) {
        for log in Log::ALL {
            let (head, signed) = (heads.of(log), self.of_mut(log));
            if signed.heads.last().is_none_or(|(rows, _)| *rows < head.rows) {
                signed.heads.push((head.rows, head.hash));
            }
        }
    }

    /// Takes in that rows were removed.
    pub(crate) fn removed(&mut self, anchor: &Anchor) {
        self.of_mut(anchor.log).anchors.push((anchor.through, anchor.hash.0));
    }

    /// Whether anything was ever signed or marked here.
    pub(super) const fn is_nothing(&self) -> bool {
        self.count == 0 && self.bad.is_none()
    }

    fn note_bad(&mut self, row: i64, why: String) {
        self.bad.get_or_insert(FirstBad { log: CHECKPOINTS, row, why });
    }

    /// Whether rows were removed, or the gate was started or stopped, since.
    pub(super) fn moved_on_from(&self, before: &Self) -> bool {
        Log::ALL.into_iter().any(|log| {
            let (now, then) = (self.of(log), before.of(log));
            now.anchors.len() != then.anchors.len() || now.stopped != then.stopped
        })
    }

    fn take_in(
        &mut self,
        line_number: i64,
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
        if line_number == 1 {
            // Without an end of the search: what the lines after it say of the rows still counts.
            if !line.body.is_a_beginning() {
                let why = "the checkpoint file begins in the middle of the record: earlier lines \
                           were taken away, or the file was";
                self.note_bad(line_number, why.to_owned());
            }
        } else if line.body.number != expected {
            return Err(format!("checkpoint {expected} is missing: here is {}", line.body.number));
        } else if *line.body.previous() != previous.1 {
            return Err("does not follow from the line before it".to_owned());
        }
        if line.body.unmarked {
            let why = "the mark beside the record's key was missing or damaged when the gate \
                       started here: lines before this one may have been taken away";
            self.note_bad(line_number, why.to_owned());
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
            self.removed(&anchor);
        }
        Ok(())
    }

    pub(super) const fn of(&self, log: Log) -> &Signed {
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
