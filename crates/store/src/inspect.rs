//! What a start looks at before it goes on: whether the database that should be there is, and whether
//! it fits what was signed. The whole check is `verify`; this one costs next to nothing.

use std::fs;
use std::path::{Path, PathBuf};

use agentguard_core::Timestamp;
use agentguard_gate::Severity;
use rusqlite::{Connection, OptionalExtension};
use serde_json::json;

use crate::chain::{Hash, Heads};
use crate::checkpoint::{Next, OpenedLog, each_line, parse_line};
use crate::commit::Ledger;
use crate::error::StoreError;
use crate::journal::Folder;
use crate::keys::{Marked, mark_path};
use crate::log::Log;
use crate::rows::{Note, own_event};
use crate::schema;

/// Refuses to begin a record where one was kept: without its database the gate would forget stops,
/// rules and what was spent.
pub(crate) fn may_begin(data_dir: &Path, checkpoint_file: &Path) -> Result<(), StoreError> {
    let mut traces = Vec::new();
    if has_signed_rows(checkpoint_file)? {
        traces.push(checkpoint_file.to_owned());
    }
    if Marked::read(data_dir) != Marked::Nothing {
        traces.push(mark_path(data_dir));
    }
    traces.extend(journal_with_intents(data_dir)?);
    if traces.is_empty() {
        return Ok(());
    }
    Err(StoreError::Lost { file: schema::db_path(data_dir), traces })
}

/// Nobody ever changed anything: the first start died before it was done, or this is it.
pub(crate) fn is_first_start(ledger: &Ledger) -> rusqlite::Result<bool> {
    Ok(rule_sets(&ledger.db)? == 0 && ledger.heads().config_changes.rows == 0)
}

/// What does not fit together: the database, and what was signed of it.
pub(crate) fn findings(ledger: &Ledger, opened: &OpenedLog) -> rusqlite::Result<Vec<String>> {
    let mut findings = opened.findings.clone();
    if opened.is_empty && ledger.heads().rows() > 0 {
        findings.push(
            "there are rows and no checkpoints: the file is missing or was emptied; run \
             `agentguard verify-logs`"
                .to_owned(),
        );
    }
    if rule_sets(&ledger.db)? > 0 && ledger.heads().config_changes.rows == 0 {
        // A change and its row are one transaction, and retention leaves the last row.
        findings.push(
            "there are rules, and not one change on the record that made them: rows were removed"
                .to_owned(),
        );
    }
    if let Some(heads) = &opened.heads {
        findings.extend(compare(&ledger.db, heads)?);
    }
    Ok(findings)
}

/// Puts findings on the record.
pub(crate) fn tell_findings(
    ledger: &mut Ledger,
    findings: &[String],
    now: Timestamp,
) -> Result<(), StoreError> {
    if findings.is_empty() {
        return Ok(());
    }
    let notes: Vec<Note> = findings
        .iter()
        .map(|message| {
            let (severity, message) = (Severity::Critical, message.clone());
            Note::Event(own_event(now, "integrity.failed", severity, message, json!({})))
        })
        .collect();
    let notes: Vec<&Note> = notes.iter().collect();
    ledger.write(&[], &notes).map_err(StoreError::sql("telling what was found"))
}

/// How many rule sets there are: none only before the first policy.
pub(crate) fn rule_sets(db: &Connection) -> rusqlite::Result<i64> {
    db.query_row("SELECT count(*) FROM rule_sets", [], |row| row.get(0))
}

/// Whether the database still leads to the heads that were last signed. The whole check is
/// `verify`; this one costs nothing and sees an older database put back.
fn compare(db: &Connection, signed: &Heads) -> rusqlite::Result<Vec<String>> {
    let mut findings = Vec::new();
    for log in Log::ALL {
        let head = signed.of(log);
        if head.rows == 0 {
            continue;
        }
        let sql = format!("SELECT hash FROM {} WHERE seq = ?1", log.name());
        let hash: Option<Hash> = db.query_row(&sql, [head.rows], |row| row.get(0)).optional()?;
        match hash {
            Some(hash) if hash == head.hash => {}
            Some(_) => findings.push(format!(
                "row {} of {log} is not the one that was signed: run `agentguard verify-logs`",
                head.rows
            )),
            None => findings.push(format!(
                "{log} should have {} rows and ends before: the tail was cut off or an older \
                 database was put back; run `agentguard verify-logs`",
                head.rows
            )),
        }
    }
    Ok(findings)
}

/// Whether a line speaks of rows. One that cannot be read may have.
fn has_signed_rows(checkpoint_file: &Path) -> Result<bool, StoreError> {
    let mut found = false;
    each_line(checkpoint_file, |line| {
        found = parse_line(line)
            .is_none_or(|line| Log::ALL.into_iter().any(|log| line.body.head(log).rows > 0));
        if found { Next::Stop } else { Next::Line }
    })?;
    Ok(found)
}

/// The journal's folder, if there is anything in its segments.
fn journal_with_intents(data_dir: &Path) -> Result<Option<PathBuf>, StoreError> {
    let folder = Folder::of(data_dir);
    if !folder.dir.exists() {
        return Ok(None);
    }
    let failed = || StoreError::io("reading the journal in", &folder.dir);
    for (_, path) in folder.segments().map_err(failed())? {
        if fs::metadata(path).map_err(failed())?.len() > 0 {
            return Ok(Some(folder.dir));
        }
    }
    Ok(None)
}
