//! One log from its first row to its last: numbers without gaps, hashes that follow from each other,
//! and through every head that was signed.

use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row};

use super::signed::Signed;
use super::{FirstBad, Progress};
use crate::chain::{Chainer, GENESIS, Hash};
use crate::limits::{PAGE_ROWS, PROGRESS_ROWS};
use crate::log::Log;
use crate::rows::checksum;

pub(super) struct Walk<'a> {
    log: Log,
    signed: &'a Signed,
    progress: &'a mut dyn FnMut(Progress),
    chainer: Chainer,
    /// The row that was checked last, and its hash.
    at: i64,
    hash: Hash,
    /// The last row that a signature vouches for.
    vouched: i64,
    /// How many of the signed heads were passed.
    heads_passed: usize,
    done: u64,
    total: u64,
}

/// A finding ends the walk.
type Step = Result<(), FirstBad>;

impl<'a> Walk<'a> {
    pub(super) fn new(log: Log, signed: &'a Signed, progress: &'a mut dyn FnMut(Progress)) -> Self {
        Self {
            log,
            signed,
            progress,
            chainer: Chainer::default(),
            at: 0,
            hash: GENESIS,
            vouched: 0,
            heads_passed: 0,
            done: 0,
            total: 0,
        }
    }

    pub(super) const fn done(&self) -> u64 {
        self.done
    }

    /// Checks the whole log; says the first thing that is wrong.
    pub(super) fn check(&mut self, db: &Connection) -> rusqlite::Result<Option<FirstBad>> {
        if let Some(lacking) = self.lacking(db)? {
            return Ok(Some(self.bad(1, lacking)));
        }
        let table = self.log.name();
        let ends = format!("SELECT min(seq), max(seq) FROM {table}");
        let (first, last): (Option<i64>, Option<i64>) =
            db.query_row(&ends, [], |row| Ok((row.get(0)?, row.get(1)?)))?;
        if let Err(bad) = self.start(first) {
            return Ok(Some(bad));
        }
        self.total = u64::try_from(last.unwrap_or(0).saturating_sub(self.at)).unwrap_or(0);
        if let Err(bad) = self.rows(db, i64::MAX)? {
            return Ok(Some(bad));
        }
        self.report();
        Ok(self.end().err())
    }

    /// Checks the rows up to `through`, and those after it up to a head that was signed: a chain that
    /// only follows from itself proves nothing. Gives the hash at `through`.
    pub(super) fn check_oldest(
        &mut self,
        db: &Connection,
        through: i64,
    ) -> rusqlite::Result<Result<Hash, FirstBad>> {
        let sql = format!("SELECT min(seq) FROM {}", self.log.name());
        let first: Option<i64> = db.query_row(&sql, [], |row| row.get(0))?;
        if let Err(bad) = self.start(first) {
            return Ok(Err(bad));
        }
        let mut hash = self.hash;
        let mut heads = self.signed.heads.iter().map(|(rows, _)| *rows);
        let vouched = heads.find(|rows| *rows >= through);
        for until in [through, vouched.unwrap_or(i64::MAX)] {
            if let Err(bad) = self.rows(db, until)? {
                return Ok(Err(bad));
            }
            if self.at < until {
                let next = self.at.saturating_add(1);
                let why = format!("is missing, and so is all after it up to {until}");
                return Ok(Err(self.bad(next, why)));
            }
            if until == through {
                hash = self.hash;
            }
        }
        Ok(Ok(hash))
    }

    /// What the table lacks, if it is not as it was made.
    fn lacking(&self, db: &Connection) -> rusqlite::Result<Option<String>> {
        let table = self.log.name();
        let mut statement = db.prepare("SELECT name FROM pragma_table_info(?1)")?;
        let found: Vec<String> =
            statement.query_map([table], |row| row.get(0))?.collect::<Result<_, _>>()?;
        if found.is_empty() {
            return Ok(Some(format!("the table `{table}` is missing from the database")));
        }
        let mut wanted = self.log.columns().iter().chain(&["hash"]);
        let gone = wanted.find(|column| !found.iter().any(|name| name == *column));
        Ok(gone.map(|column| format!("the table `{table}` has no column `{column}` any more")))
    }

    /// Checks the rows that follow, up to one.
    fn rows(&mut self, db: &Connection, until: i64) -> rusqlite::Result<Step> {
        let columns = self.log.columns().join(", ");
        let sql = format!(
            "SELECT {columns}, hash FROM {} WHERE seq > ?1 AND seq <= ?2 ORDER BY seq \
             LIMIT {PAGE_ROWS}",
            self.log.name()
        );
        let mut statement = db.prepare(&sql)?;
        loop {
            let mut rows = statement.query([self.at, until])?;
            let mut any = false;
            while let Some(row) = rows.next()? {
                any = true;
                if let Err(bad) = self.row(row)? {
                    return Ok(Err(bad));
                }
            }
            if !any {
                return Ok(Ok(()));
            }
        }
    }

    /// Where the log may begin: at the start, or after rows whose removal was signed. Rows that were
    /// allowed to go may still be there: the gate may have died before it removed them.
    fn start(&mut self, first: Option<i64>) -> Step {
        let Some(first) = first else {
            let (through, hash) = self.signed.anchors.last().copied().unwrap_or((0, GENESIS));
            (self.at, self.hash) = (through, hash);
            return Ok(());
        };
        let begin = std::iter::once(&(0, GENESIS)).chain(&self.signed.anchors);
        let before = begin.filter(|(through, _)| *through < first).max_by_key(|(t, _)| *t);
        let Some((through, hash)) = before else {
            return Err(self.bad(first, "has a number that was never given".to_owned()));
        };
        (self.at, self.hash, self.vouched) = (*through, *hash, *through);
        if first != through.saturating_add(1) {
            return Err(self.missing(first));
        }
        Ok(())
    }

    fn row(&mut self, row: &Row<'_>) -> rusqlite::Result<Step> {
        let seq: i64 = row.get(0)?;
        if seq != self.at.saturating_add(1) {
            return Ok(Err(self.missing(seq)));
        }
        let columns = self.log.columns().len();
        self.chainer.begin(self.log, &self.hash);
        for place in 0..columns {
            self.chainer.column(row.get_ref(place)?);
        }
        let hash = self.chainer.end();
        if row.get_ref(columns)? != ValueRef::Blob(&hash) {
            let why = "does not have the hash that follows from it and from the row before: it was \
                       changed, put in, or put in another place";
            return Ok(Err(self.bad(seq, why.to_owned())));
        }
        if self.log == Log::ConfigChanges && !has_its_checksum(row)? {
            return Ok(Err(self.bad(seq, "does not have its checksum: it was changed".to_owned())));
        }
        (self.at, self.hash) = (seq, hash);
        self.done = self.done.saturating_add(1);
        if self.done.is_multiple_of(PROGRESS_ROWS) {
            self.report();
        }
        Ok(self.pass_heads())
    }

    /// Compares with every head that was signed here.
    fn pass_heads(&mut self) -> Step {
        while let Some((rows, hash)) = self.signed.heads.get(self.heads_passed) {
            if *rows > self.at {
                break;
            }
            // Those before the first row went with the rows they spoke of.
            if *rows == self.at {
                if *hash != self.hash {
                    let first = self.vouched.saturating_add(1);
                    let why = format!(
                        "rows {first} to {rows} do not lead to the hash that was signed for row \
                         {rows}: one or more were changed, and the chain was worked out anew"
                    );
                    return Err(self.bad(first, why));
                }
                self.vouched = self.at;
            }
            self.heads_passed = self.heads_passed.saturating_add(1);
        }
        Ok(())
    }

    /// What was signed must be there; after a stop nothing else may be.
    fn end(&mut self) -> Step {
        self.pass_heads()?;
        let signed = self.signed.heads.last().map_or(0, |(rows, _)| *rows);
        let next = self.at.saturating_add(1);
        if self.at < signed {
            let why = format!(
                "rows {next} to {signed} were signed and are missing: the tail was cut off, or an \
                 older database was put back"
            );
            return Err(self.bad(next, why));
        }
        if self.signed.stopped && self.at > signed {
            let why = "was added after the gate had stopped".to_owned();
            return Err(self.bad(signed.saturating_add(1), why));
        }
        Ok(())
    }

    fn missing(&self, found: i64) -> FirstBad {
        let missing = self.at.saturating_add(1);
        self.bad(missing, format!("is missing: the next row there is has number {found}"))
    }

    const fn bad(&self, row: i64, why: String) -> FirstBad {
        FirstBad { log: self.log.name(), row, why }
    }

    fn report(&mut self) {
        (self.progress)(Progress { log: self.log, done: self.done, total: self.total });
    }
}

fn has_its_checksum(row: &Row<'_>) -> rusqlite::Result<bool> {
    let text = |name: &str| row.get::<_, String>(name);
    let (at, action, id) = (text("timestamp")?, text("action")?, text("resource_id")?);
    let (before, after) = (text("before")?, text("after")?);
    Ok(text("checksum")? == checksum(&[&at, &action, &id, &before, &after]))
}
