//! A medium that fails on demand.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use super::{Medium, Segment};

/// What the next operations do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Mood {
    #[default]
    Good,
    /// Takes this many bytes of a write, and no more.
    Short(usize),
    /// Takes this many bytes of a write, and cannot be truncated.
    Stuck(usize),
    /// Does not sync.
    NoSync,
}

/// Files in memory, shared with the test.
#[derive(Clone, Debug, Default)]
pub(crate) struct Memory(pub(crate) Arc<Inner>);

#[derive(Debug, Default)]
pub(crate) struct Inner {
    pub(crate) files: Mutex<BTreeMap<u64, Vec<u8>>>,
    pub(crate) mood: Mutex<Mood>,
    pub(crate) syncs: AtomicU64,
    /// How long a sync takes.
    pub(crate) sync_ms: AtomicU64,
}

#[derive(Debug)]
struct MemoryFile {
    inner: Arc<Inner>,
    segment: u64,
}

impl Memory {
    pub(crate) fn set(&self, mood: Mood) {
        *self.0.mood.lock() = mood;
    }

    pub(crate) fn contents(&self) -> Vec<(u64, String)> {
        let files = self.0.files.lock();
        files.iter().map(|(n, b)| (*n, String::from_utf8_lossy(b).into_owned())).collect()
    }
}

impl Medium for Memory {
    fn create(&self, segment: u64) -> io::Result<Arc<dyn Segment>> {
        self.0.files.lock().insert(segment, Vec::new());
        Ok(Arc::new(MemoryFile { inner: Arc::clone(&self.0), segment }))
    }

    fn remove(&self, segment: u64) -> io::Result<()> {
        self.0.files.lock().remove(&segment);
        Ok(())
    }
}

impl Segment for MemoryFile {
    fn append(&self, bytes: &[u8]) -> io::Result<usize> {
        let taken = match *self.inner.mood.lock() {
            Mood::Good | Mood::NoSync => bytes.len(),
            Mood::Short(n) | Mood::Stuck(n) => n.min(bytes.len()),
        };
        let mut files = self.inner.files.lock();
        files.entry(self.segment).or_default().extend_from_slice(&bytes[..taken]);
        Ok(taken)
    }

    fn truncate(&self, bytes: u64) -> io::Result<()> {
        if matches!(*self.inner.mood.lock(), Mood::Stuck(_)) {
            return Err(io::Error::other("stuck"));
        }
        let mut files = self.inner.files.lock();
        files.entry(self.segment).or_default().truncate(usize::try_from(bytes).unwrap());
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.inner.syncs.fetch_add(1, Ordering::SeqCst);
        let pause = self.inner.sync_ms.load(Ordering::SeqCst);
        std::thread::sleep(std::time::Duration::from_millis(pause));
        match *self.inner.mood.lock() {
            Mood::NoSync => Err(io::Error::other("no sync")),
            Mood::Good | Mood::Short(_) | Mood::Stuck(_) => Ok(()),
        }
    }
}
