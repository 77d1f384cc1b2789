//! The database with where its logs stand: every transaction of the writer. All or nothing: where
//! the logs stand moves on only when the commit has succeeded.

use agentguard_core::Timestamp;
use agentguard_core::time::Zone;
use agentguard_gate::ports::RegistryError;
use agentguard_gate::{Actor, Change, PolicyData, Row};
use rusqlite::{Connection, Transaction, TransactionBehavior};

use crate::chain::{Chainer, Heads};
use crate::change;
use crate::checkpoint::Anchor;
use crate::credentials::Credentials;
use crate::error::StoreError;
use crate::policy::{self, store_error};
use crate::queue::Accept;
use crate::retention::{Removed, Retention, remove_stretch};
use crate::rows::{
    ConfigChange, Note, insert_alert, insert_config_change, insert_event, insert_requests,
};
use crate::snapshot::Sums;
use crate::time_index::recorded_among;

#[derive(Debug)]
pub(crate) struct Ledger {
    pub(crate) db: Connection,
    heads: Heads,
    chainer: Chainer,
    sums: Sums,
    zone: Zone,
    credentials: Credentials,
    /// Where the request log stood when a commit failed that may have happened all the same: look at
    /// what came after it before writing again.
    doubt_since: Option<i64>,
}

impl Ledger {
    pub(crate) fn new(
        db: Connection,
        zone: Zone,
        credentials: Credentials,
    ) -> rusqlite::Result<Self> {
        let heads = Heads::read(&db)?;
        let (chainer, sums) = (Chainer::default(), Sums::default());
        Ok(Self { db, heads, chainer, sums, zone, credentials, doubt_since: None })
    }

    pub(crate) const fn heads(&self) -> &Heads {
        &self.heads
    }

    /// Adds rows and notes to the record, in one transaction.
    pub(crate) fn write(&mut self, rows: &[&Row], notes: &[&Note]) -> rusqlite::Result<()> {
        let mut heads = self.settled_heads()?;
        let fresh;
        let rows = match self.doubt_since {
            Some(since) => {
                fresh = self.not_yet_written(rows, since)?;
                &fresh
            }
            None => rows,
        };
        self.doubt_since.get_or_insert(heads.transactions.rows);
        let transaction = begin(&self.db)?;
        self.sums.clear();
        for row in rows {
            self.sums.add(row, &self.zone);
        }
        insert_requests(&transaction, &mut heads, &mut self.chainer, rows.iter().copied())?;
        self.sums.write(&transaction)?;
        for note in notes {
            match note {
                Note::Event(event) => {
                    insert_event(&transaction, &mut heads, &mut self.chainer, event)?;
                }
                Note::Alert(alert) => {
                    insert_alert(&transaction, &mut heads, &mut self.chainer, alert)?;
                }
            }
        }
        transaction.commit()?;
        self.heads = heads;
        self.doubt_since = None;
        Ok(())
    }

    /// Makes a change of policy with its row, unless `accept` turns the result down.
    pub(crate) fn change(
        &mut self,
        actor: &Actor,
        change: &Change,
        at: Timestamp,
        accept: Option<Accept>,
    ) -> Result<PolicyData, RegistryError> {
        let mut heads = self.settled_heads().map_err(store_error)?;
        let transaction = begin(&self.db).map_err(store_error)?;
        let before = policy::load(&transaction, &self.credentials)?;
        let told = change::make(&transaction, change, &before, &self.credentials)?;
        let after = policy::load(&transaction, &self.credentials)?;
        if let Some(accept) = accept {
            accept(&after).map_err(RegistryError::Invalid)?;
        }
        let row = ConfigChange {
            at,
            actor: actor.name(),
            action: told.action,
            resource_type: told.resource_type,
            resource_id: &told.resource_id,
            before: &told.before,
            after: &told.after,
        };
        insert_config_change(&transaction, &mut heads, &mut self.chainer, &row)
            .map_err(store_error)?;
        if let Err(error) = transaction.commit() {
            self.doubt_since.get_or_insert(self.heads.transactions.rows);
            return Err(store_error(error));
        }
        self.heads = heads;
        Ok(after)
    }

    /// Removes the rows up to the anchor that `sign` has checked and signed. All under one lock, so
    /// that nobody changes a row between its check and its end.
    pub(crate) fn remove(
        &mut self,
        sign: impl FnOnce(&Connection) -> Result<Option<Anchor>, StoreError>,
    ) -> Result<Option<(Anchor, u64)>, StoreError> {
        let failed = || StoreError::sql("removing old rows");
        let transaction = begin(&self.db).map_err(failed())?;
        let Some(anchor) = sign(&transaction)? else { return Ok(None) };
        let rows = remove_stretch(&transaction, &anchor).map_err(failed())?;
        transaction.commit().map_err(failed())?;
        Ok(Some((anchor, rows)))
    }

    pub(crate) fn remove_loose(
        &mut self,
        retention: &Retention,
        now: Timestamp,
        removed: &mut Removed,
    ) -> rusqlite::Result<()> {
        let transaction = begin(&self.db)?;
        retention.remove_loose(&transaction, now, removed)?;
        transaction.commit()
    }

    /// Folds the write-ahead log back into the database file.
    pub(crate) fn fold(&self) -> rusqlite::Result<()> {
        self.db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
    }

    fn settled_heads(&mut self) -> rusqlite::Result<Heads> {
        if self.doubt_since.is_some() {
            self.heads = Heads::read(&self.db)?;
        }
        Ok(self.heads)
    }

    fn not_yet_written<'r>(&self, rows: &[&'r Row], since: i64) -> rusqlite::Result<Vec<&'r Row>> {
        let wanted = rows.iter().map(|row| row.id).collect();
        let written = recorded_among(&self.db, since, &wanted)?;
        Ok(rows.iter().copied().filter(|row| !written.contains(&row.id)).collect())
    }
}

fn begin(db: &Connection) -> rusqlite::Result<Transaction<'_>> {
    // Immediate: a lock that somebody else holds is met here, not in the middle.
    Transaction::new_unchecked(db, TransactionBehavior::Immediate)
}

#[cfg(test)]
mod tests {
    use agentguard_core::{Door, MicroUsd, RequestId};
    use agentguard_gate::Decision;
    use uuid::Uuid;

    use super::*;

    fn row(number: u128) -> Row {
        Row {
            id: RequestId(Uuid::from_u128(number)),
            agent_id: None,
            at: Timestamp::from_micros(1),
            door: Door::Web,
            verb: "GET".into(),
            target: "https://a.com/".into(),
            service: None,
            amount: None,
            cost: MicroUsd::ZERO,
            decision: Decision::Allow,
            block_reason: None,
            rule_id: None,
            response_status: None,
            latency_us: 0,
            is_streaming: false,
            estimated: false,
            risk: None,
            facts: None,
            first_in_minute: false,
            is_metered: false,
        }
    }

    #[test]
    fn a_commit_that_failed_and_happened_all_the_same_is_not_written_twice() {
        let dir = tempfile::tempdir().unwrap();
        let db = crate::schema::open_for_writing(&crate::schema::db_path(dir.path()), || Ok(()))
            .unwrap();
        let mut ledger = Ledger::new(db, Zone::UTC, Credentials::of(dir.path())).unwrap();
        let rows = [row(1), row(2), row(3)];
        let rows: Vec<&Row> = rows.iter().collect();
        ledger.write(&rows[..2], &[]).unwrap();
        let heads = *ledger.heads();
        // As after a sync error: the rows are there, and this does not know.
        ledger.heads = Heads::EMPTY;
        ledger.doubt_since = Some(0);
        ledger.write(&rows, &[]).unwrap();
        assert_eq!(ledger.heads().transactions.rows, 3);
        assert_ne!(ledger.heads(), &heads);
        assert_eq!(&Heads::read(&ledger.db).unwrap(), ledger.heads());
    }
}
