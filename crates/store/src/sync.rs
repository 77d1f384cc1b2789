//! Group commit of intents: one thread syncs the journal for all who wait.
//!
//! A sync that fails is final for what it covered: the system may have dropped the data and report
//! success the next time, so nothing written before a failed sync is ever promised afterwards.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use agentguard_gate::ports::RecordError;
use parking_lot::{Condvar, Mutex};
use tokio::sync::watch;

use crate::journal::Journal;
use crate::limits::FAILED_SYNCS_KEPT;

/// Where those who wait for a sync and the thread that does it meet.
#[derive(Debug)]
pub(crate) struct SyncBoard {
    wishes: Mutex<Wishes>,
    bell: Condvar,
    /// Every intent up to this one is on disk or has failed.
    settled: watch::Sender<u64>,
    failures: Mutex<Failures>,
    syncs: AtomicU64,
}

#[derive(Debug, Default)]
struct Wishes {
    /// The last intent that somebody waits for.
    upto: u64,
    spare: bool,
    closing: bool,
}

#[derive(Debug, Default)]
struct Failures {
    /// First and last intent of each failed sync.
    ranges: VecDeque<(u64, u64)>,
    /// Ranges up to here were forgotten: doubt refuses.
    forgotten: u64,
}

impl Failures {
    fn add(&mut self, first: u64, last: u64) {
        if first > last {
            return;
        }
        if self.ranges.len() >= FAILED_SYNCS_KEPT
            && let Some((_, last)) = self.ranges.pop_front()
        {
            self.forgotten = self.forgotten.max(last);
        }
        self.ranges.push_back((first, last));
    }

    fn hold(&self, sequence: u64) -> bool {
        sequence <= self.forgotten
            || self.ranges.iter().any(|(first, last)| (*first..=*last).contains(&sequence))
    }
}

impl SyncBoard {
    pub(crate) fn new() -> Self {
        Self {
            wishes: Mutex::default(),
            bell: Condvar::new(),
            settled: watch::Sender::new(0),
            failures: Mutex::default(),
            syncs: AtomicU64::new(0),
        }
    }

    /// Returns when the intent is on disk, or is known not to be.
    pub(crate) async fn synced(&self, sequence: u64) -> Result<(), RecordError> {
        {
            let mut wishes = self.wishes.lock();
            if wishes.closing {
                return Err(RecordError::Closed);
            }
            wishes.upto = wishes.upto.max(sequence);
            self.bell.notify_one();
        }
        let mut settled = self.settled.subscribe();
        settled.wait_for(|upto| *upto >= sequence).await.map_err(|_| RecordError::Closed)?;
        if self.failures.lock().hold(sequence) {
            return Err(RecordError::Io(std::io::Error::other(
                "the disk did not take the journal",
            )));
        }
        Ok(())
    }

    /// Asks for a segment to be made ahead.
    pub(crate) fn want_spare(&self) {
        let mut wishes = self.wishes.lock();
        if !wishes.spare {
            wishes.spare = true;
            self.bell.notify_one();
        }
    }

    pub(crate) fn close(&self) {
        self.wishes.lock().closing = true;
        self.bell.notify_one();
    }

    /// Syncs that were made: fewer than intents, if they are shared.
    pub(crate) fn syncs(&self) -> u64 {
        self.syncs.load(Ordering::Relaxed)
    }

    /// The thread's work, until it is closed. Serves all wishes first.
    pub(crate) fn run(&self, journal: &Arc<Journal>) {
        loop {
            let (spare, sync) = {
                let mut wishes = self.wishes.lock();
                loop {
                    let sync = wishes.upto > *self.settled.borrow();
                    if wishes.spare || sync {
                        break (std::mem::take(&mut wishes.spare), sync);
                    }
                    if wishes.closing {
                        return;
                    }
                    self.bell.wait(&mut wishes);
                }
            };
            if sync {
                self.sync(journal);
            }
            if spare {
                journal.make_spare();
            }
        }
    }

    fn sync(&self, journal: &Journal) {
        let work = journal.to_sync();
        let mut settled = *self.settled.borrow();
        for full in work.full {
            let ok = !full.poisoned && self.sync_one(&*full.file, full.segment);
            if !ok {
                self.failures.lock().add(settled.saturating_add(1), full.last);
            }
            settled = settled.max(full.last);
        }
        if let Some((segment, file)) = work.active
            && !self.sync_one(&*file, segment)
        {
            let last = journal.poison(segment);
            self.failures.lock().add(settled.saturating_add(1), work.sequence.max(last));
            settled = settled.max(last);
        }
        // In this order: who wakes must find the failure.
        self.settled.send_replace(settled.max(work.sequence));
    }

    fn sync_one(&self, file: &dyn crate::journal::Segment, segment: u64) -> bool {
        self.syncs.fetch_add(1, Ordering::Relaxed);
        match file.sync() {
            Ok(()) => true,
            Err(error) => {
                tracing::error!(segment, %error, "the journal could not be put on disk");
                false
            }
        }
    }
}
