//! The journal: intents appended to segment files, one write each. Never half a line: what could not
//! be written whole is taken back, or the segment is left behind.
//!
//! A segment goes when it is full and every intent in it has its row in the database, on disk.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use agentguard_gate::ports::Ticket;
use parking_lot::Mutex;

use crate::folder::{PRIVATE_FILE, sync_dir};

/// Where segments are kept. A folder, or a fake that fails on demand.
pub(crate) trait Medium: Send + Sync + std::fmt::Debug {
    fn create(&self, segment: u64) -> io::Result<Arc<dyn Segment>>;
    fn remove(&self, segment: u64) -> io::Result<()>;
}

/// A file that is only added to.
pub(crate) trait Segment: Send + Sync + std::fmt::Debug {
    /// One write at the end; says how many bytes were taken.
    fn append(&self, bytes: &[u8]) -> io::Result<usize>;
    fn truncate(&self, bytes: u64) -> io::Result<()>;
    fn sync(&self) -> io::Result<()>;
}

/// The journal.
#[derive(Debug)]
pub(crate) struct Journal {
    medium: Box<dyn Medium>,
    segment_bytes_max: u64,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    active: Option<Active>,
    /// Made ahead, so that no request waits for a file to be created.
    spare: Option<(u64, Arc<dyn Segment>)>,
    /// Making one failed: not again until one is needed.
    spare_failed: bool,
    /// Intents written so far.
    sequence: u64,
    next_segment: u64,
    /// Segments with intents whose rows are not in the database yet, and the active one.
    outstanding: BTreeMap<u64, Outstanding>,
    /// Full segments that were never synced.
    unsynced: Vec<Full>,
}

#[derive(Debug)]
struct Active {
    segment: u64,
    file: Arc<dyn Segment>,
    bytes: u64,
}

#[derive(Debug, Default)]
struct Outstanding {
    intents: u64,
    full: bool,
}

/// A segment that takes no more, and the last intent in it.
#[derive(Clone, Debug)]
pub(crate) struct Full {
    pub(crate) segment: u64,
    pub(crate) file: Arc<dyn Segment>,
    pub(crate) last: u64,
    /// A sync of it failed: the system may have thrown its data away and would not say so again.
    pub(crate) poisoned: bool,
}

/// What has to be synced to reach everything written so far.
#[derive(Debug)]
pub(crate) struct ToSync {
    pub(crate) full: Vec<Full>,
    pub(crate) active: Option<(u64, Arc<dyn Segment>)>,
    pub(crate) sequence: u64,
}

impl Journal {
    pub(crate) fn new(medium: Box<dyn Medium>, first_segment: u64, segment_bytes_max: u64) -> Self {
        let state = State {
            active: None,
            spare: None,
            spare_failed: false,
            sequence: 0,
            next_segment: first_segment,
            outstanding: BTreeMap::new(),
            unsynced: Vec::new(),
        };
        Self { medium, segment_bytes_max, state: Mutex::new(state) }
    }

    /// Appends one line with one write. Says where it lies, and whether a spare segment is wanted.
    pub(crate) fn append(&self, line: &[u8]) -> io::Result<(Ticket, bool)> {
        let length = u64::try_from(line.len()).unwrap_or(u64::MAX);
        let mut state = self.state.lock();
        let state = &mut *state;
        let full = state
            .active
            .as_ref()
            .is_some_and(|active| active.bytes.saturating_add(length) > self.segment_bytes_max);
        if full {
            state.retire(false);
        }
        let active = match &mut state.active {
            Some(active) => active,
            empty @ None => {
                let (segment, file) = match state.spare.take() {
                    Some(spare) => spare,
                    None => {
                        let segment = state.next_segment;
                        let file = self.medium.create(segment)?;
                        state.next_segment = segment.saturating_add(1);
                        (segment, file)
                    }
                };
                state.outstanding.insert(segment, Outstanding::default());
                empty.insert(Active { segment, file, bytes: 0 })
            }
        };
        if let Err(error) = write_whole(&*active.file, line) {
            // Take back what was written of it. If that fails too, go on in a new segment: a torn
            // last line is known for what it is when the segment is read.
            if active.file.truncate(active.bytes).is_err() {
                state.retire(false);
            }
            return Err(error);
        }
        active.bytes = active.bytes.saturating_add(length);
        state.sequence = state.sequence.saturating_add(1);
        let ticket = Ticket { segment: active.segment, sequence: state.sequence };
        if let Some(outstanding) = state.outstanding.get_mut(&active.segment) {
            outstanding.intents = outstanding.intents.saturating_add(1);
        }
        Ok((ticket, state.spare.is_none() && !state.spare_failed))
    }

    /// So many intents of a segment have their rows on disk.
    pub(crate) fn committed(&self, segment: u64, intents: u64) {
        let done = {
            let mut state = self.state.lock();
            let Some(outstanding) = state.outstanding.get_mut(&segment) else { return };
            outstanding.intents = outstanding.intents.saturating_sub(intents);
            let done = outstanding.full && outstanding.intents == 0;
            if done {
                state.forget(segment);
            }
            done
        };
        if done {
            self.remove(segment);
        }
    }

    /// Makes the segment that comes next, off the path of requests.
    pub(crate) fn make_spare(&self) {
        let segment = {
            let mut state = self.state.lock();
            if state.spare.is_some() {
                return;
            }
            let segment = state.next_segment;
            state.next_segment = segment.saturating_add(1);
            segment
        };
        match self.medium.create(segment) {
            // A request that found none meanwhile has made its own, with a higher number: no harm.
            Ok(file) => self.state.lock().spare = Some((segment, file)),
            Err(error) => {
                self.state.lock().spare_failed = true;
                tracing::warn!(segment, %error, "a journal segment could not be made ahead");
            }
        }
    }

    pub(crate) fn to_sync(&self) -> ToSync {
        let mut state = self.state.lock();
        ToSync {
            full: std::mem::take(&mut state.unsynced),
            active: state.active.as_ref().map(|a| (a.segment, Arc::clone(&a.file))),
            sequence: state.sequence,
        }
    }

    /// A sync of this segment failed. Nothing in it can be promised any more, nor what was added to
    /// it meanwhile; what comes now goes into another. Says up to which intent the loss reaches.
    pub(crate) fn poison(&self, segment: u64) -> u64 {
        let mut state = self.state.lock();
        if state.active.as_ref().is_some_and(|active| active.segment == segment) {
            state.retire(true);
        }
        for full in &mut state.unsynced {
            full.poisoned |= full.segment == segment;
        }
        state.sequence
    }

    /// Removes what holds no open intent. What still does stays for the next start.
    pub(crate) fn close(&self) {
        let finished: Vec<u64> = {
            let mut state = self.state.lock();
            state.retire(false);
            let mut finished: Vec<u64> =
                state.spare.take().into_iter().map(|(segment, _)| segment).collect();
            let empty = state.outstanding.iter().filter(|(_, o)| o.intents == 0);
            finished.extend(empty.map(|(segment, _)| *segment));
            for segment in &finished {
                state.forget(*segment);
            }
            finished
        };
        for segment in finished {
            self.remove(segment);
        }
    }

    fn remove(&self, segment: u64) {
        // Left behind, it is read at the next start, and its intents are found to have their rows.
        if let Err(error) = self.medium.remove(segment) {
            tracing::warn!(segment, %error, "a journal segment could not be removed");
        }
    }
}

impl State {
    fn retire(&mut self, poisoned: bool) {
        let Some(active) = self.active.take() else { return };
        self.spare_failed = false;
        if let Some(outstanding) = self.outstanding.get_mut(&active.segment) {
            outstanding.full = true;
        }
        self.unsynced.push(Full {
            segment: active.segment,
            file: active.file,
            last: self.sequence,
            poisoned,
        });
    }

    fn forget(&mut self, segment: u64) {
        self.outstanding.remove(&segment);
        self.unsynced.retain(|full| full.segment != segment);
    }
}

fn write_whole(file: &dyn Segment, line: &[u8]) -> io::Result<()> {
    loop {
        match file.append(line) {
            Ok(written) if written == line.len() => return Ok(()),
            Ok(_) => return Err(io::Error::new(io::ErrorKind::StorageFull, "a short write")),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Segments in a folder: `00000001.log`.
#[derive(Debug)]
pub(crate) struct Folder {
    pub(crate) dir: PathBuf,
}

impl Folder {
    pub(crate) fn of(data_dir: &Path) -> Self {
        Self { dir: data_dir.join("journal") }
    }

    fn path(&self, segment: u64) -> PathBuf {
        self.dir.join(format!("{segment:08}.log"))
    }

    /// The segments that are there, oldest first.
    pub(crate) fn segments(&self) -> io::Result<Vec<(u64, PathBuf)>> {
        let mut found = Vec::new();
        for entry in std::fs::read_dir(&self.dir)? {
            let path = entry?.path();
            if let Some(number) = number_of(&path) {
                found.push((number, path));
            }
        }
        found.sort();
        Ok(found)
    }
}

fn number_of(path: &Path) -> Option<u64> {
    path.file_name()?.to_str()?.strip_suffix(".log")?.parse().ok()
}

impl Medium for Folder {
    fn create(&self, segment: u64) -> io::Result<Arc<dyn Segment>> {
        let file = OpenOptions::new()
            .append(true)
            .create_new(true)
            .mode(PRIVATE_FILE)
            .open(self.path(segment))?;
        // Without this a power cut may leave the data on disk and no name for it.
        sync_dir(&self.dir)?;
        Ok(Arc::new(file))
    }

    fn remove(&self, segment: u64) -> io::Result<()> {
        std::fs::remove_file(self.path(segment))
    }
}

impl Segment for File {
    fn append(&self, bytes: &[u8]) -> io::Result<usize> {
        (&*self).write(bytes)
    }

    fn truncate(&self, bytes: u64) -> io::Result<()> {
        self.set_len(bytes)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }
}

#[cfg(test)]
pub(crate) mod fake;

#[cfg(test)]
mod tests;
