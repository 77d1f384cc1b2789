//! The database: its tables, its migrations, and how it is opened. Never here: what rows mean.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use rusqlite::{Connection, ErrorCode, OpenFlags, Transaction, TransactionBehavior};

use crate::error::StoreError;
use crate::folder::{ensure_private_file, make_file_private};
use crate::limits::BUSY_WAIT;

/// One script per version, in order. A script that was shipped is never changed: add another.
const MIGRATIONS: [&str; 4] = [VERSION_1, VERSION_2, VERSION_3, VERSION_4];

/// The version that this program writes.
pub(crate) fn known_version() -> i64 {
    i64::try_from(MIGRATIONS.len()).unwrap_or(i64::MAX)
}

/// Marks the file as ours ("AgGd"), so that another program's database is told apart.
const APPLICATION_ID: i64 = 0x4167_4764;

// Times of the request log are microseconds since 1970: it is the log that is large. Elsewhere they
// are RFC 3339 in UTC with six digits, which sort as text. Its id has no index, which would cost a
// fifth of writing a row: a request is found by its time, which its id begins with. Nor is it unique:
// if a door ever gave one id to two rows, both must be kept.
const VERSION_1: &str = "
CREATE TABLE agents (
  id TEXT PRIMARY KEY,
  name TEXT NOT NULL,
  status TEXT NOT NULL CHECK (status IN ('active', 'paused', 'revoked')),
  rule_set_id TEXT NOT NULL REFERENCES rule_sets (id),
  token_hash BLOB NOT NULL UNIQUE CHECK (length(token_hash) = 32),
  created_at TEXT NOT NULL,
  last_seen_at TEXT,
  description TEXT
) STRICT;
CREATE UNIQUE INDEX agents_name ON agents (name) WHERE status <> 'revoked';
CREATE TABLE rule_sets (
  id TEXT PRIMARY KEY,
  name TEXT NOT NULL UNIQUE
) STRICT;
CREATE TABLE rules (
  id TEXT PRIMARY KEY,
  rule_set_id TEXT NOT NULL REFERENCES rule_sets (id),
  position INTEGER NOT NULL,
  type TEXT NOT NULL,
  enabled INTEGER NOT NULL,
  action TEXT NOT NULL,
  priority INTEGER NOT NULL,
  doors TEXT,
  params TEXT NOT NULL
) STRICT;
CREATE INDEX rules_set ON rules (rule_set_id, position);
CREATE TABLE services (
  alias TEXT PRIMARY KEY,
  base_url TEXT NOT NULL,
  kind TEXT NOT NULL,
  settings TEXT NOT NULL
) STRICT;
CREATE TABLE transactions (
  seq INTEGER PRIMARY KEY,
  id TEXT NOT NULL,
  agent_id TEXT,
  timestamp INTEGER NOT NULL,
  door TEXT NOT NULL,
  method TEXT NOT NULL,
  target_url TEXT NOT NULL,
  target_service TEXT,
  amount INTEGER,
  currency TEXT,
  cost_micros INTEGER NOT NULL,
  decision TEXT NOT NULL,
  block_reason TEXT,
  rule_id TEXT,
  response_status INTEGER,
  latency_us INTEGER NOT NULL,
  is_streaming INTEGER NOT NULL,
  estimated INTEGER NOT NULL,
  risk TEXT,
  facts TEXT,
  first_in_minute INTEGER NOT NULL,
  hash BLOB NOT NULL
) STRICT;
CREATE INDEX transactions_ended ON transactions (timestamp + latency_us)
  WHERE seq % 64 = 0 AND block_reason IS NOT 'interrupted';
CREATE TABLE budget_snapshots (
  hour_start INTEGER NOT NULL,
  agent_id TEXT NOT NULL,
  door TEXT NOT NULL,
  total_calls INTEGER NOT NULL,
  allowed_calls INTEGER NOT NULL,
  blocked_calls INTEGER NOT NULL,
  total_cost INTEGER NOT NULL,
  amount_samples INTEGER NOT NULL,
  active_minutes INTEGER NOT NULL,
  PRIMARY KEY (hour_start, agent_id, door)
) STRICT, WITHOUT ROWID;
CREATE TABLE kill_switch (
  scope TEXT PRIMARY KEY,
  paused_by TEXT NOT NULL,
  reason TEXT NOT NULL,
  paused_at TEXT NOT NULL
) STRICT;
CREATE TABLE alerts (
  id INTEGER PRIMARY KEY,
  timestamp TEXT NOT NULL,
  event TEXT NOT NULL,
  severity TEXT NOT NULL,
  agent_id TEXT,
  agent_name TEXT,
  message TEXT NOT NULL,
  details TEXT NOT NULL
) STRICT;
CREATE TABLE alert_channels (
  id TEXT PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  kind TEXT NOT NULL,
  settings TEXT NOT NULL,
  enabled INTEGER NOT NULL,
  created_at TEXT NOT NULL
) STRICT;
CREATE TABLE config_changes (
  seq INTEGER PRIMARY KEY,
  timestamp TEXT NOT NULL,
  actor TEXT NOT NULL,
  action TEXT NOT NULL,
  resource_type TEXT NOT NULL,
  resource_id TEXT NOT NULL,
  before TEXT NOT NULL,
  after TEXT NOT NULL,
  checksum TEXT NOT NULL,
  hash BLOB NOT NULL
) STRICT;
CREATE TABLE system_events (
  seq INTEGER PRIMARY KEY,
  timestamp TEXT NOT NULL,
  event TEXT NOT NULL,
  severity TEXT NOT NULL,
  message TEXT NOT NULL,
  details TEXT NOT NULL,
  hash BLOB NOT NULL
) STRICT;
CREATE TABLE settings (
  key TEXT PRIMARY KEY,
  value TEXT NOT NULL
) STRICT;
";

// Sealed: see `credentials`.
const VERSION_2: &str = "
CREATE TABLE credentials (
  alias TEXT PRIMARY KEY,
  sealed BLOB NOT NULL
) STRICT;
";

/// Prices of models that operators set. `spec` is JSON.
const VERSION_3: &str = "
CREATE TABLE prices (
  model TEXT PRIMARY KEY,
  spec TEXT NOT NULL
) STRICT;
";

/// The part of the sums whose cost was known only after its call. Hours from before do not know theirs:
/// all of it counts as known before, until a baseline has passed them.
const VERSION_4: &str = "
ALTER TABLE budget_snapshots ADD COLUMN metered_cost INTEGER NOT NULL DEFAULT 0;
ALTER TABLE budget_snapshots ADD COLUMN metered_samples INTEGER NOT NULL DEFAULT 0;
";

/// The database file of a data folder.
pub(crate) fn db_path(data_dir: &Path) -> PathBuf {
    data_dir.join("agentguard.db")
}

/// Opens the database for the writer, and brings it to the version of this program. If there is none,
/// or nothing in it, `may_begin` is asked before one is made.
pub(crate) fn open_for_writing(
    file: &Path,
    may_begin: impl Fn() -> Result<(), StoreError>,
) -> Result<Connection, StoreError> {
    if check_start_of(file)? == Start::Nothing {
        may_begin()?;
    }
    // Before SQLite comes: it gives the files beside the database the mode that this one has. Those
    // that a crash left keep theirs.
    ensure_private_file(file)?;
    for beside in ["-wal", "-shm"] {
        make_file_private(&path_beside(file, beside))?;
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = Connection::open_with_flags(file, flags).map_err(|source| opened(file, source))?;
    // Looked at before anything is set: what is not ours or not for us stays as it was.
    let Recognised { version, tables } = recognise(&db, file)?;
    if tables == 0 {
        may_begin()?;
    }
    settle_in(&db).map_err(|source| opened(file, source))?;
    migrate(&db, version).map_err(StoreError::sql("migrating"))?;
    Ok(db)
}

/// Opens the database to read, whether a gate is running or not.
pub(crate) fn open_for_reading(data_dir: &Path) -> Result<Connection, StoreError> {
    let file = db_path(data_dir);
    if !file.exists() {
        return Err(StoreError::Missing { dir: data_dir.to_owned() });
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let shared = Connection::open_with_flags(&file, flags).and_then(|db| {
        db.busy_timeout(BUSY_WAIT)?;
        db.pragma_query_value(None, "user_version", |row| row.get::<_, i64>(0))?;
        Ok(db)
    });
    let db = match shared {
        Ok(db) => db,
        // In a folder that cannot be written (evidence on a read-only disk) the files that readers
        // share cannot be made. Nothing else writes there either, so do without them.
        Err(source) if cannot_share(&source) && !path_beside(&file, "-wal").exists() => {
            let uri = format!("file:{}?immutable=1", percent_encoded(&file));
            Connection::open_with_flags(uri, flags | OpenFlags::SQLITE_OPEN_URI)
                .map_err(|source| opened(&file, source))?
        }
        Err(source) => return Err(opened(&file, source)),
    };
    recognise(&db, &file)?;
    db.pragma_update(None, "query_only", true).map_err(StoreError::sql("opening to read"))?;
    Ok(db)
}

/// Says that the file is what is wrong, where it is.
pub(crate) fn opened(file: &Path, source: rusqlite::Error) -> StoreError {
    match source.sqlite_error_code() {
        Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => {
            StoreError::Corrupt { file: file.to_owned(), source }
        }
        _ => StoreError::Sql { doing: "opening", source },
    }
}

/// SQLite takes a few bytes of anything for an empty database, and would write over them.
fn check_start_of(file: &Path) -> Result<Start, StoreError> {
    const MAGIC: &[u8; 16] = b"SQLite format 3\0";
    let mut start = Vec::new();
    let failed = || StoreError::io("reading", file);
    match File::open(file) {
        Ok(open) => open.take(PAGE_BYTES_MIN).read_to_end(&mut start).map_err(failed())?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Start::Nothing),
        Err(source) => return Err(failed()(source)),
    };
    if start.is_empty() {
        return Ok(Start::Nothing);
    }
    let whole = u64::try_from(start.len()).is_ok_and(|length| length == PAGE_BYTES_MIN);
    if whole && start.starts_with(MAGIC) {
        return Ok(Start::Database);
    }
    let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_NOTADB);
    let source = rusqlite::Error::SqliteFailure(code, None);
    Err(StoreError::Corrupt { file: file.to_owned(), source })
}

/// The smallest page that SQLite knows: no database has fewer bytes.
const PAGE_BYTES_MIN: u64 = 512;

/// What a file begins with.
#[derive(PartialEq, Eq)]
enum Start {
    /// It is not there, or is empty.
    Nothing,
    Database,
}

fn path_beside(file: &Path, ending: &str) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

fn cannot_share(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly | ErrorCode::PermissionDenied)
    )
}

fn percent_encoded(file: &Path) -> String {
    use std::os::unix::ffi::OsStrExt;
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'/' | b'-' | b'_' | b'.');
    file.as_os_str()
        .as_bytes()
        .iter()
        .map(|b| if plain(*b) { char::from(*b).to_string() } else { format!("%{b:02X}") })
        .collect()
}

/// A database that is ours, or new.
struct Recognised {
    version: i64,
    /// How many tables and indexes there are.
    tables: i64,
}

fn recognise(db: &Connection, file: &Path) -> Result<Recognised, StoreError> {
    let number = |pragma: &str| {
        db.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0))
            .map_err(|source| opened(file, source))
    };
    let found = number("user_version")?;
    let owner = number("application_id")?;
    let tables: i64 = db
        .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
        .map_err(|source| opened(file, source))?;
    if tables > 0 && owner != APPLICATION_ID {
        return Err(StoreError::Foreign { file: file.to_owned() });
    }
    let known = known_version();
    if found > known {
        return Err(StoreError::Newer { file: file.to_owned(), found, known });
    }
    Ok(Recognised { version: found, tables })
}

fn settle_in(db: &Connection) -> rusqlite::Result<()> {
    db.busy_timeout(BUSY_WAIT)?;
    // Before the first table, or it has no effect. Rows are only added, many at once: a quarter of the
    // pages is a quarter of the writes, to the log and from it to the file.
    db.pragma_update(None, "page_size", 16_384)?;
    db.pragma_update_and_check(None, "journal_mode", "wal", |_| Ok(()))?;
    // Full sync costs a commit of many rows next to nothing, and then what is committed is on disk:
    // journal segments can go and checkpoints can be signed right after.
    db.pragma_update(None, "synchronous", "full")?;
    db.pragma_update(None, "foreign_keys", true)?;
    db.pragma_update(None, "trusted_schema", false)?;
    // 8 MiB of pages, 16 MiB of write-ahead log before it is folded back, 64 MiB kept at the most.
    db.pragma_update(None, "cache_size", -8_192)?;
    db.pragma_update(None, "wal_autocheckpoint", 1_000)?;
    db.pragma_update_and_check(None, "journal_size_limit", 64 << 20, |_| Ok(()))?;
    db.pragma_update(None, "temp_store", "memory")?;
    db.set_prepared_statement_cache_capacity(32);
    Ok(())
}

fn migrate(db: &Connection, from: i64) -> rusqlite::Result<()> {
    let done = usize::try_from(from).unwrap_or(0);
    for (place, script) in MIGRATIONS.iter().enumerate().skip(done) {
        let transaction = Transaction::new_unchecked(db, TransactionBehavior::Immediate)?;
        transaction.execute_batch(script)?;
        transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
        let version = i64::try_from(place).unwrap_or(i64::MAX).saturating_add(1);
        transaction.pragma_update(None, "user_version", version)?;
        transaction.commit()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_database_has_exactly_these_tables() {
        let dir = tempfile::tempdir().unwrap();
        let db = open_for_writing(&db_path(dir.path()), || Ok(())).unwrap();
        let mut statement = db
            .prepare("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")
            .unwrap();
        let names: Vec<String> =
            statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
        assert_eq!(
            names,
            [
                "agents",
                "alert_channels",
                "alerts",
                "budget_snapshots",
                "config_changes",
                "credentials",
                "kill_switch",
                "prices",
                "rule_sets",
                "rules",
                "services",
                "settings",
                "system_events",
                "transactions"
            ]
        );
    }

    #[test]
    fn opening_again_migrates_nothing_and_keeps_the_version() {
        let dir = tempfile::tempdir().unwrap();
        for _ in 0..2 {
            let db = open_for_writing(&db_path(dir.path()), || Ok(())).unwrap();
            let version: i64 =
                db.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap();
            assert_eq!(version, known_version());
        }
    }

    #[test]
    fn a_database_of_the_first_version_is_brought_up_to_date() {
        let dir = tempfile::tempdir().unwrap();
        let file = db_path(dir.path());
        let db = Connection::open(&file).unwrap();
        db.execute_batch(VERSION_1).unwrap();
        let hour = "INSERT INTO budget_snapshots VALUES (0, 'a', 'api', 1, 1, 0, 5, 1, 1)";
        db.execute_batch(hour).unwrap();
        db.pragma_update(None, "application_id", APPLICATION_ID).unwrap();
        db.pragma_update(None, "user_version", 1).unwrap();
        drop(db);
        let db = open_for_writing(&file, || Ok(())).unwrap();
        let prices: i64 =
            db.query_row("SELECT count(*) FROM prices", [], |row| row.get(0)).unwrap();
        let version: i64 = db.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap();
        assert_eq!((prices, version), (0, known_version()));
        let sums = "SELECT total_cost, metered_cost, metered_samples FROM budget_snapshots";
        let sums: (i64, i64, i64) =
            db.query_row(sums, [], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).unwrap();
        assert_eq!(sums, (5, 0, 0));
    }

    #[test]
    fn the_columns_of_each_log_are_those_of_its_table() {
        use crate::log::Log;
        let dir = tempfile::tempdir().unwrap();
        let db = open_for_writing(&db_path(dir.path()), || Ok(())).unwrap();
        for log in Log::ALL {
            let statement = db.prepare(&format!("SELECT * FROM {}", log.name())).unwrap();
            let mut expected = log.columns().to_vec();
            expected.push("hash");
            assert_eq!(statement.column_names().collect::<Vec<_>>(), expected);
            assert_eq!(db.prepare(log.insert()).unwrap().parameter_count(), expected.len());
        }
    }
}
