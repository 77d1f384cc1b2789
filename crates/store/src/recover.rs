//! What a crash left: intents without an outcome become rows, so that nothing that was let out is
//! missing and none of its money is forgotten.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use agentguard_core::{RequestId, Timestamp};
use agentguard_gate::{Row, Severity};
use rusqlite::Connection;
use serde_json::json;

use crate::commit::Ledger;
use crate::error::StoreError;
use crate::folder::sync_dir;
use crate::intent::decode;
use crate::journal::Folder;
use crate::limits::{BATCH_ROWS, LINE_BYTES_MAX};
use crate::rows::{Note, own_event};
use crate::time_index::{recorded_among, seq_ended_before};

/// How it went.
#[derive(Debug)]
pub(crate) struct Recovered {
    /// Intents that became rows.
    pub(crate) rows: usize,
    /// Lines that could not be read, in words.
    pub(crate) damaged: Vec<String>,
    /// The number that the next segment may have.
    pub(crate) next_segment: u64,
}

/// Reads all segments, writes the rows that are missing, and removes the segments.
pub(crate) fn recover(
    folder: &Folder,
    ledger: &mut Ledger,
    now: Timestamp,
) -> Result<Recovered, StoreError> {
    let failed = || StoreError::io("reading the journal in", &folder.dir);
    let segments = folder.segments().map_err(failed())?;
    let mut recovered = Recovered {
        rows: 0,
        damaged: Vec::new(),
        next_segment: segments.last().map_or(1, |(last, _)| last.saturating_add(1)),
    };
    for (_, path) in &segments {
        recover_segment(path, ledger, &mut recovered)?;
    }
    tell(ledger, &recovered, now)?;
    // Only now: a death before this reads them once more, and finds the rows.
    for (_, path) in &segments {
        fs::remove_file(path).map_err(StoreError::io("removing the journal segment", path))?;
    }
    sync_dir(&folder.dir).map_err(failed())?;
    Ok(recovered)
}

fn recover_segment(
    path: &PathBuf,
    ledger: &mut Ledger,
    recovered: &mut Recovered,
) -> Result<(), StoreError> {
    let bytes = fs::read(path).map_err(StoreError::io("reading the journal segment", path))?;
    let mut rows: Vec<Row> = Vec::new();
    for (place, line) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
        // A last line without its end was being written when the gate died: its action never left.
        let Some(whole) = line.strip_suffix(b"\n") else { break };
        match (whole.len() <= LINE_BYTES_MAX).then(|| decode(whole)).flatten() {
            Some(row) => rows.push(row),
            None => recovered.damaged.push(damaged(path, place.saturating_add(1))),
        }
    }
    let failed = || StoreError::sql("recovering intents");
    let recorded = already_recorded(&ledger.db, &rows).map_err(failed())?;
    rows.retain(|row| !recorded.contains(&row.id));
    for batch in rows.chunks(BATCH_ROWS) {
        let batch: Vec<&Row> = batch.iter().collect();
        ledger.write(&batch, &[]).map_err(failed())?;
        recovered.rows = recovered.rows.saturating_add(batch.len());
    }
    Ok(())
}

/// The actions of a segment whose rows are in the database: an action's row comes after its intent.
fn already_recorded(db: &Connection, rows: &[Row]) -> rusqlite::Result<HashSet<RequestId>> {
    let Some(first) = rows.iter().map(|row| row.at).min() else { return Ok(HashSet::new()) };
    let wanted = rows.iter().map(|row| row.id).collect();
    recorded_among(db, seq_ended_before(db, first)?, &wanted)
}

fn damaged(path: &Path, line: usize) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    format!("line {line} of journal segment {name} is damaged: an action may be missing")
}

fn tell(ledger: &mut Ledger, recovered: &Recovered, now: Timestamp) -> Result<(), StoreError> {
    let mut notes = Vec::new();
    if recovered.rows > 0 {
        let message = format!(
            "{} actions were under way when the gate last ended; they stay charged as reserved",
            recovered.rows
        );
        let details = json!({"rows": recovered.rows});
        notes.push(own_event(now, "record.recovered", Severity::Warning, message, details));
    }
    for message in &recovered.damaged {
        let details = json!({});
        notes.push(own_event(now, "record.damaged", Severity::Critical, message.clone(), details));
    }
    let notes: Vec<Note> = notes.into_iter().map(Note::Event).collect();
    let notes: Vec<&Note> = notes.iter().collect();
    if notes.is_empty() {
        return Ok(());
    }
    ledger.write(&[], &notes).map_err(StoreError::sql("recovering intents"))
}
