//! Checkpoints: signed lines in a file of their own that say how far each log had come.
//!
//! `{"checkpoint":{…},"signature":"…"}`, one to a line. The signature covers the exact bytes of the
//! inner object, which names the line before it by its hash: lines cannot be taken out, and the mark
//! beside the key tells if the last ones are gone.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use agentguard_core::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use crate::chain::{GENESIS, Hash, Head, Heads, hex, unhex};
use crate::error::StoreError;
use crate::folder::{PRIVATE_FILE, sync_dir};
use crate::keys::{Mark, Marked, RecordKey, write_mark};
use crate::limits::CHECKPOINT_LINE_BYTES_MAX;
use crate::log::Log;

/// Where checkpoints of a data folder are, unless the configuration says otherwise.
pub fn checkpoint_path(data_dir: &Path) -> PathBuf {
    data_dir.join("checkpoints.jsonl")
}

/// Why a line was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    /// In the course of things, and at a start.
    Checkpoint,
    /// At a stop: no row follows until the next start.
    Stop,
    /// Before the oldest rows of a log go.
    Retention,
}

/// The signed part of a line.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Body {
    version: u32,
    pub(crate) number: u64,
    time: Timestamp,
    pub(crate) kind: Kind,
    previous: HexHash,
    logs: LogHeads,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) removed: Option<Anchor>,
    /// There was no good mark when the gate started: lines before this one may have been taken away,
    /// and no later mark may hide that.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) unmarked: bool,
}

/// The format of [`Body`].
const VERSION: u32 = 1;

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct LogHeads {
    transactions: HeadText,
    config_changes: HeadText,
    system_events: HeadText,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct HeadText {
    rows: i64,
    head: HexHash,
}

/// Up to where a log's rows were removed, and the hash that the rest goes on from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Anchor {
    pub(crate) log: Log,
    pub(crate) through: i64,
    pub(crate) hash: HexHash,
}

/// A hash that is written as hexadecimal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HexHash(pub(crate) Hash);

impl Serialize for HexHash {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&hex(&self.0))
    }
}

impl<'de> Deserialize<'de> for HexHash {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        unhex(&text).map(Self).ok_or_else(|| serde::de::Error::custom("is no SHA-256"))
    }
}

impl Body {
    /// Where a log stood.
    pub(crate) fn head(&self, log: Log) -> Head {
        let text = match log {
            Log::Transactions => self.logs.transactions,
            Log::ConfigChanges => self.logs.config_changes,
            Log::SystemEvents => self.logs.system_events,
        };
        Head { rows: text.rows, hash: text.head.0 }
    }

    pub(crate) const fn previous(&self) -> &Hash {
        &self.previous.0
    }

    /// Whether a file may begin with this line: nothing is before it, neither lines nor rows.
    pub(crate) fn is_a_beginning(&self) -> bool {
        let rows = Log::ALL.into_iter().any(|log| self.head(log) != Head::EMPTY);
        self.number == 1 && self.previous.0 == GENESIS && !rows
    }
}

#[derive(Serialize, Deserialize)]
struct Line<'a> {
    #[serde(borrow)]
    checkpoint: &'a RawValue,
    signature: &'a str,
}

/// A line that was read: the body, the bytes that were signed, the signature, and its own hash.
#[derive(Debug)]
pub(crate) struct ReadLine {
    pub(crate) body: Body,
    pub(crate) signed: Vec<u8>,
    pub(crate) signature: [u8; 64],
    pub(crate) hash: Hash,
}

/// Reads one line (without its end); `None` if it is none of ours.
pub(crate) fn parse_line(line: &[u8]) -> Option<ReadLine> {
    let outer: Line<'_> = serde_json::from_slice(line).ok()?;
    let body: Body = serde_json::from_str(outer.checkpoint.get()).ok()?;
    let signature = unhex(outer.signature)?;
    (body.version == VERSION).then(|| ReadLine {
        body,
        signed: outer.checkpoint.get().as_bytes().to_vec(),
        signature,
        hash: Sha256::digest(line).into(),
    })
}

/// What to do after a line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Line,
    Stop,
}

/// Goes through the whole lines of a checkpoint file. A last one without an end is not whole: the
/// machine died while it was written. A file that is not there has no lines.
pub(crate) fn each_line(
    file: &Path,
    mut each: impl FnMut(&[u8]) -> Next,
) -> Result<(), StoreError> {
    let failed = || StoreError::io("reading the checkpoints", file);
    let mut reader = match File::open(file) {
        Ok(open) => BufReader::new(open),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(source) => return Err(failed()(source)),
    };
    let mut line = Vec::new();
    loop {
        line.clear();
        let limited = &mut (&mut reader).take(CHECKPOINT_LINE_BYTES_MAX);
        limited.read_until(b'\n', &mut line).map_err(failed())?;
        let long = u64::try_from(line.len()).is_ok_and(|n| n >= CHECKPOINT_LINE_BYTES_MAX);
        match line.strip_suffix(b"\n") {
            Some(whole) => {
                if each(whole) == Next::Stop {
                    return Ok(());
                }
            }
            None if long => {
                each(&line);
                return Ok(());
            }
            None => return Ok(()),
        }
    }
}

/// The file that checkpoints are appended to.
#[derive(Debug)]
pub(crate) struct CheckpointLog {
    data_dir: PathBuf,
    path: PathBuf,
    file: File,
    bytes: u64,
    key: RecordKey,
    last: Mark,
    unmarked: bool,
}

/// What the database holds while the checkpoints are opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Database {
    /// Neither rows nor policy: nothing has happened yet.
    Fresh,
    Used,
}

/// What opening the file brought to light.
#[derive(Debug)]
pub(crate) struct OpenedLog {
    pub(crate) log: CheckpointLog,
    /// The file has no line yet.
    pub(crate) is_empty: bool,
    /// Where the logs stood at the last checkpoint, if there is one.
    pub(crate) heads: Option<Heads>,
    /// What does not fit together.
    pub(crate) findings: Vec<String>,
}

impl CheckpointLog {
    pub(crate) fn open(
        data_dir: &Path,
        path: &Path,
        key: RecordKey,
        database: Database,
    ) -> Result<OpenedLog, StoreError> {
        let failed = || StoreError::io("opening the checkpoints", path);
        let file = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .mode(PRIVATE_FILE)
            .open(path)
            .map_err(failed())?;
        if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            sync_dir(parent).map_err(failed())?;
        }
        let mut findings: Vec<String> = beginning(path)?.into_iter().collect();
        let (tail, bytes) = last_line(&file).map_err(failed())?;
        let bytes = end_cleanly(&file, bytes).map_err(failed())?;
        let read = tail.as_deref().and_then(parse_line);
        if tail.is_some() && read.is_none() {
            findings.push(format!("the last line of `{}` is no checkpoint", path.display()));
        }
        let mut unmarked = false;
        let in_file = read.as_ref().map(|line| Mark { number: line.body.number, line: line.hash });
        let last = match (Marked::read(data_dir), in_file) {
            (Marked::At(mark), Some(in_file)) if in_file.number >= mark.number => in_file,
            (Marked::At(mark), _) => {
                findings.push(format!(
                    "`{}` ends before checkpoint {}, which was written: lines are missing",
                    path.display(),
                    mark.number
                ));
                mark
            }
            (Marked::Damaged, in_file) => {
                findings.push("the mark beside the record's key is damaged".to_owned());
                unmarked = true;
                in_file.unwrap_or(NONE)
            }
            // The first start died between its first line and the mark.
            (Marked::Nothing, Some(first)) if first.number == 1 && database == Database::Fresh => {
                first
            }
            (Marked::Nothing, Some(in_file)) => {
                findings.push(
                    "the mark beside the record's key is missing: checkpoints may be missing too"
                        .to_owned(),
                );
                unmarked = true;
                in_file
            }
            (Marked::Nothing, None) => NONE,
        };
        let heads = read.map(|line| Heads {
            transactions: line.body.head(Log::Transactions),
            config_changes: line.body.head(Log::ConfigChanges),
            system_events: line.body.head(Log::SystemEvents),
        });
        let (data_dir, path) = (data_dir.to_owned(), path.to_owned());
        let log = Self { data_dir, path, file, bytes, key, last, unmarked };
        Ok(OpenedLog { log, is_empty: tail.is_none(), heads, findings })
    }

    /// Signs where the logs stand, and puts it on disk.
    pub(crate) fn write(
        &mut self,
        kind: Kind,
        at: Timestamp,
        heads: &Heads,
        removed: Option<Anchor>,
    ) -> Result<(), StoreError> {
        let text = |log| {
            let head = heads.of(log);
            HeadText { rows: head.rows, head: HexHash(head.hash) }
        };
        let body = Body {
            version: VERSION,
            number: self.last.number.saturating_add(1),
            time: at,
            kind,
            previous: HexHash(self.last.line),
            logs: LogHeads {
                transactions: text(Log::Transactions),
                config_changes: text(Log::ConfigChanges),
                system_events: text(Log::SystemEvents),
            },
            removed,
            unmarked: self.unmarked,
        };
        let mark =
            self.append(&body).map_err(StoreError::io("writing a checkpoint to", &self.path))?;
        (self.last, self.unmarked) = (mark, false);
        write_mark(&self.data_dir, mark)
            .map_err(StoreError::io("marking a checkpoint in", &self.data_dir))
    }

    fn append(&mut self, body: &Body) -> io::Result<Mark> {
        let inner = serde_json::value::to_raw_value(body)?;
        let signature = hex(&self.key.sign(inner.get().as_bytes()));
        let mut line = serde_json::to_vec(&Line { checkpoint: &inner, signature: &signature })?;
        let mark = Mark { number: body.number, line: Sha256::digest(&line).into() };
        line.push(b'\n');
        let written = self.file.write_all(&line).and_then(|()| self.file.sync_data());
        if let Err(error) = written {
            // Half a line, or one that may not be on disk, must not stay: the next is another one
            // of the same number.
            self.file.set_len(self.bytes)?;
            return Err(error);
        }
        self.bytes = self.bytes.saturating_add(u64::try_from(line.len()).unwrap_or(u64::MAX));
        Ok(mark)
    }
}

/// What is wrong with the first line of a file.
fn beginning(path: &Path) -> Result<Option<String>, StoreError> {
    let mut finding = None;
    each_line(path, |line| {
        let shown = path.display();
        finding = match parse_line(line) {
            None => Some(format!("the first line of `{shown}` is no checkpoint")),
            Some(first) if first.body.is_a_beginning() => None,
            Some(_) => Some(format!(
                "`{shown}` begins in the middle of the record: earlier checkpoints are missing; \
                 run `agentguard verify-logs`"
            )),
        };
        Next::Stop
    })?;
    Ok(finding)
}

const NONE: Mark = Mark { number: 0, line: GENESIS };

/// Sees to it that the next line does not become part of one that was cut short.
fn end_cleanly(mut file: &File, whole: u64) -> io::Result<u64> {
    let length = file.metadata()?.len();
    let rest = length.saturating_sub(whole);
    if rest == 0 {
        return Ok(length);
    }
    if rest < CHECKPOINT_LINE_BYTES_MAX {
        // The machine died while it was written: it was never promised to anybody.
        file.set_len(whole)?;
        return Ok(whole);
    }
    // Too long to be ours. It stays, for `verify` to find.
    file.write_all(b"\n")?;
    Ok(length.saturating_add(1))
}

/// The last whole line, and where it ends.
fn last_line(file: &File) -> io::Result<(Option<Vec<u8>>, u64)> {
    let length = file.metadata()?.len();
    // Two lines' worth: a whole one, and one that was cut short after it.
    let from = length.saturating_sub(CHECKPOINT_LINE_BYTES_MAX.saturating_mul(2));
    let mut tail = Vec::new();
    let mut reader = file;
    reader.seek(SeekFrom::Start(from))?;
    reader.read_to_end(&mut tail)?;
    let Some(end) = tail.iter().rposition(|byte| *byte == b'\n') else { return Ok((None, from)) };
    let whole = tail.get(..end).unwrap_or_default();
    let start = whole.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at.saturating_add(1));
    let line = whole.get(start..).unwrap_or_default().to_vec();
    let end = from.saturating_add(u64::try_from(end).unwrap_or(0)).saturating_add(1);
    Ok((Some(line), end))
}
