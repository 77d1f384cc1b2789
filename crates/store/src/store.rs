//! The store itself: opening, closing, and the gate's ports.

use std::cell::RefCell;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use agentguard_core::Timestamp;
use agentguard_core::time::Zone;
use agentguard_gate::ports::{HourOfAgent, Record, RecordError, Registry, RegistryError, Ticket};
use agentguard_gate::{Actor, AlertEvent, Change, Clock, Intent, PolicyData, Row, SystemEvent};
use parking_lot::Mutex;

use crate::checkpoint::{CheckpointLog, Database, Kind, OpenedLog, checkpoint_path};
use crate::commit::Ledger;
use crate::credentials::Credentials;
use crate::error::StoreError;
use crate::folder::{FolderLock, make_private, sync_dir};
use crate::journal::{Folder, Journal};
use crate::keys::{Marked, RecordKey};
use crate::limits::{PLACES, SEGMENT_BYTES_MAX};
use crate::queue::{Accept, ChangeOrder, Order, Queue};
use crate::reader::{Reader, open_reader};
use crate::retention::{Removed, Retention};
use crate::rows::Note;
use crate::sync::SyncBoard;
use crate::verify::Checkpoints;
use crate::writer::{Desk, Writer};
use crate::{history, inspect, intent, policy, recover, schema};

/// What a store is opened with.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// Where everything is kept.
    pub data_dir: PathBuf,
    /// Whose hours spending is summed by.
    pub zone: Zone,
    /// Where checkpoints go; none means into the data folder.
    pub checkpoint_file: Option<PathBuf>,
    /// How long rows are kept.
    pub retention: Retention,
}

/// An open store, and what was found on the way.
#[derive(Debug)]
pub struct Opened {
    /// The store.
    pub store: Arc<Store>,
    /// The latest time on the record: the gate's clock must not start before it.
    pub last_seen: Option<Timestamp>,
    /// Actions under way when the gate last died: now rows `error`, `interrupted`.
    pub recovered: usize,
    /// Nothing was ever set up here.
    pub first_start: bool,
    /// What the operator should look at: permissions, damage, signs of tampering.
    pub warnings: Vec<String>,
}

/// Numbers about the store at work.
#[derive(Clone, Copy, Debug)]
pub struct Stats {
    /// Places left for rows.
    pub free_places: usize,
    /// Places in all.
    pub places: usize,
    /// Syncs of the journal so far.
    pub journal_syncs: u64,
    /// Rows of the request log that were committed since the store was opened.
    pub rows_written: u64,
    /// Rows of refused calls that were dropped since then, because the queue was crowded.
    pub rows_dropped: u64,
    /// How long ago the last commit was; none before the first.
    pub since_commit: Option<Duration>,
}

/// SQLite behind the gate's ports. Closed when it is dropped; better closed before, with an answer.
#[derive(Debug)]
pub struct Store {
    data_dir: PathBuf,
    queue: Arc<Queue>,
    journal: Arc<Journal>,
    board: Arc<SyncBoard>,
    threads: Mutex<Option<Threads>>,
    /// How long rows are kept, and where the checkpoints are. Held while rows are removed: what they
    /// are checked against must be what was signed last.
    retaining: Mutex<(Retention, PathBuf)>,
}

#[derive(Debug)]
struct Threads {
    writer: JoinHandle<()>,
    syncer: JoinHandle<()>,
    // Given up last: until then no other gate may come in.
    _lock: FolderLock,
}

impl Store {
    /// Opens the data folder, makes it if there is none, and brings in what a crash left.
    pub fn open(options: StoreOptions) -> Result<Opened, StoreError> {
        let StoreOptions { data_dir, zone, checkpoint_file, retention } = options;
        let mut warnings: Vec<String> = make_private(&data_dir)?.into_iter().collect();
        let lock = FolderLock::take(&data_dir)?;
        let file = schema::db_path(&data_dir);
        let path = checkpoint_file.unwrap_or_else(|| checkpoint_path(&data_dir));
        let db = schema::open_for_writing(&file, || inspect::may_begin(&data_dir, &path))?;
        let reading = |source| schema::opened(&file, source);
        let last_seen = history::last_seen(&db).map_err(reading)?;
        let mut ledger = Ledger::new(db, zone, Credentials::of(&data_dir)).map_err(reading)?;
        let first_start = inspect::is_first_start(&ledger).map_err(reading)?;
        let (clock, _) = Clock::starting_after(last_seen);

        let signed_before = ledger.heads().rows() > 0 || Marked::read(&data_dir) != Marked::Nothing;
        let key = RecordKey::open(&data_dir, signed_before)?;
        warnings.extend(RecordKey::exposed(&data_dir));
        warnings.extend(Credentials::of(&data_dir).exposed());
        let fresh = first_start && ledger.heads().rows() == 0;
        let database = if fresh { Database::Fresh } else { Database::Used };
        let opened = CheckpointLog::open(&data_dir, &path, key, database)?;
        let findings = inspect::findings(&ledger, &opened).map_err(reading)?;
        let OpenedLog { log: mut checkpoints, is_empty, .. } = opened;
        if is_empty && findings.is_empty() {
            // Before there is any row: a file that begins otherwise is not the first one.
            checkpoints.write(Kind::Checkpoint, clock.now(), ledger.heads(), None)?;
        }
        inspect::tell_findings(&mut ledger, &findings, clock.now())?;
        warnings.extend(findings);

        let folder = Folder::of(&data_dir);
        make_private(&folder.dir)?;
        sync_dir(&data_dir).map_err(StoreError::io("syncing the folder", &data_dir))?;
        let recovered = recover::recover(&folder, &mut ledger, clock.now())?;
        warnings.extend(recovered.damaged);
        checkpoints.write(Kind::Checkpoint, clock.now(), ledger.heads(), None)?;
        for warning in &warnings {
            tracing::warn!("{warning}");
        }

        let next = recovered.next_segment;
        let journal = Arc::new(Journal::new(Box::new(folder), next, SEGMENT_BYTES_MAX));
        let queue = Arc::new(Queue::new());
        let desk = Desk {
            queue: Arc::clone(&queue),
            journal: Arc::clone(&journal),
            ledger,
            checkpoints,
            retention,
            clock,
        };
        let board = Arc::new(SyncBoard::new());
        let threads = Threads::start(Writer::new(desk), &board, &journal, lock)
            .map_err(StoreError::io("starting the threads for", &data_dir))?;
        let threads = Mutex::new(Some(threads));
        let retaining = Mutex::new((retention, path));
        let store = Arc::new(Self { data_dir, queue, journal, board, threads, retaining });
        Ok(Opened { store, last_seen, recovered: recovered.rows, first_start, warnings })
    }

    /// Returns when all that was queued before is on disk.
    pub fn flush(&self) -> Result<(), StoreError> {
        self.ask(Order::Flush)
    }

    /// Removes rows whose days are over. They are checked first: where one is not as it was written,
    /// its log keeps all, and the error names it.
    pub fn retain(&self, now: Timestamp) -> Result<Removed, StoreError> {
        let retaining = self.retaining.lock();
        let (retention, checkpoints) = &*retaining;
        self.flush()?;
        let db = schema::open_for_reading(&self.data_dir)?;
        let due = retention.is_due(&db, now).map_err(StoreError::sql("looking for old rows"))?;
        drop(db);
        // Here and not on the writer's thread: the file may be long, and requests wait for that one.
        let read = || Checkpoints::read(&self.data_dir, checkpoints).map(Box::new);
        let signed = due.then(read).transpose()?;
        self.ask(|answer| Order::Retain(now, signed, answer))
    }

    /// Writes all that waits, signs where the record ends, and gives the folder up. Intents without
    /// an outcome stay in the journal for the next start. A second call does nothing.
    pub fn close(&self) -> Result<(), StoreError> {
        let Some(threads) = self.threads.lock().take() else { return Ok(()) };
        let closed = self.ask(Order::Close);
        self.board.close();
        let ended = threads.join();
        closed.and(if ended { Ok(()) } else { Err(StoreError::Closed) })
    }

    /// Something to read the record with.
    pub fn reader(&self) -> Result<Reader, StoreError> {
        open_reader(&self.data_dir)
    }

    /// The folder.
    pub fn data_dir(&self) -> &Path {
        &self.data_dir
    }

    /// Numbers, for metrics.
    pub fn stats(&self) -> Stats {
        Stats {
            free_places: self.queue.free_places(),
            places: PLACES,
            journal_syncs: self.board.syncs(),
            rows_written: self.queue.rows_written(),
            rows_dropped: self.queue.dropped_rows(),
            since_commit: self.queue.since_commit(),
        }
    }

    fn ask<T>(
        &self,
        order: impl FnOnce(mpsc::Sender<Result<T, StoreError>>) -> Order,
    ) -> Result<T, StoreError> {
        let (answer, answered) = mpsc::channel();
        if self.queue.order(order(answer)).is_err() {
            return Err(StoreError::Closed);
        }
        answered.recv().unwrap_or(Err(StoreError::Closed))
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        if let Err(error) = self.close() {
            tracing::error!(error = %error.in_full(), "the record could not be closed in order");
        }
    }
}

impl Threads {
    fn start(
        writer: Writer,
        board: &Arc<SyncBoard>,
        journal: &Arc<Journal>,
        lock: FolderLock,
    ) -> std::io::Result<Self> {
        let named = |name: &str| std::thread::Builder::new().name(name.to_owned());
        let syncer = {
            let (board, journal) = (Arc::clone(board), Arc::clone(journal));
            named("record-sync").spawn(move || board.run(&journal))?
        };
        let writer = named("record-writer").spawn(move || writer.run())?;
        Ok(Self { writer, syncer, _lock: lock })
    }

    fn join(self) -> bool {
        let writer = self.writer.join().is_ok();
        self.syncer.join().is_ok() && writer
    }
}

thread_local! {
    /// The line being made: every request needs one, and none should have to allocate it.
    static LINE: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

impl Record for Store {
    fn begin(&self, intent: &Intent<'_>) -> Result<Ticket, RecordError> {
        if !self.queue.take_place(0) {
            let closed = self.queue.is_closed();
            return Err(if closed { RecordError::Closed } else { RecordError::Full });
        }
        let written = LINE.with_borrow_mut(|line| {
            intent::encode(intent, line);
            self.journal.append(line)
        });
        match written {
            Ok((ticket, wants_spare)) => {
                if wants_spare {
                    self.board.want_spare();
                }
                Ok(ticket)
            }
            Err(error) => {
                self.queue.give_back(1);
                Err(RecordError::Io(error))
            }
        }
    }

    fn synced<'a>(
        &'a self,
        ticket: &Ticket,
    ) -> Pin<Box<dyn Future<Output = Result<(), RecordError>> + Send + 'a>> {
        Box::pin(self.board.synced(ticket.sequence))
    }

    fn finish(&self, ticket: Ticket, row: Row) {
        self.queue.row(row, Some(ticket.segment));
    }

    fn refused(&self, row: Row) {
        self.queue.refused(row);
    }

    fn event(&self, event: SystemEvent) {
        self.queue.note(Note::Event(event));
    }

    fn alert(&self, alert: &AlertEvent) {
        self.queue.note(Note::Alert(Box::new(alert.clone())));
    }
}

impl Registry for Store {
    fn load(&self) -> Result<PolicyData, RegistryError> {
        self.flush().map_err(boxed)?;
        let db = schema::open_for_reading(&self.data_dir).map_err(boxed)?;
        policy::load(&db, &Credentials::of(&self.data_dir))
    }

    fn apply(
        &self,
        actor: &Actor,
        change: Change,
        at: Timestamp,
        accept: Accept,
    ) -> Result<PolicyData, RegistryError> {
        let (answer, answered) = mpsc::channel();
        let answer = Some((accept, answer));
        let order = ChangeOrder { actor: actor.clone(), change, at, answer };
        if self.queue.order(Order::Change(Box::new(order))).is_err() {
            return Err(boxed(StoreError::Closed));
        }
        answered.recv().unwrap_or_else(|_| Err(boxed(StoreError::Closed)))
    }

    fn apply_soon(&self, actor: &Actor, change: Change, at: Timestamp) {
        let order = ChangeOrder { actor: actor.clone(), change, at, answer: None };
        if self.queue.order(Order::Change(Box::new(order))).is_err() {
            tracing::error!("a change came after the store was closed");
        }
    }

    fn history(&self, since: Timestamp) -> Result<Vec<HourOfAgent>, RegistryError> {
        self.flush().map_err(boxed)?;
        let db = schema::open_for_reading(&self.data_dir).map_err(boxed)?;
        history::hours(&db, since).map_err(policy::store_error)
    }
}

fn boxed(error: StoreError) -> RegistryError {
    RegistryError::Store(Box::new(error))
}
