//! The hash chain: what a row's hash covers, and where each log stands.
//!
//! `hash = SHA-256(tag of the log || hash of the row before || every column but the hash)`, each
//! column as a type byte and, for texts, its length. Typed and length-prefixed: two different rows
//! never give the same bytes, whatever their texts hold.

use rusqlite::types::{ToSql, ToSqlOutput, ValueRef};
use rusqlite::{Connection, OptionalExtension};
use sha2::{Digest, Sha256};

use crate::log::Log;

/// A SHA-256.
pub(crate) type Hash = [u8; 32];

/// What comes before the first row.
pub(crate) const GENESIS: Hash = [0; 32];

/// One column of a row on its way into the database.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Cell<'a> {
    Null,
    Int(i64),
    Text(&'a str),
}

impl<'a> Cell<'a> {
    pub(crate) fn text(text: Option<&'a str>) -> Self {
        text.map_or(Self::Null, Self::Text)
    }

    pub(crate) fn int(value: Option<i64>) -> Self {
        value.map_or(Self::Null, Self::Int)
    }

    pub(crate) const fn flag(value: bool) -> Self {
        Self::Int(if value { 1 } else { 0 })
    }

    const fn value(&self) -> ValueRef<'_> {
        match self {
            Self::Null => ValueRef::Null,
            Self::Int(value) => ValueRef::Integer(*value),
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
        }
    }
}

impl ToSql for Cell<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(self.value()))
    }
}

/// Works out hashes; keeps its buffer.
#[derive(Debug, Default)]
pub(crate) struct Chainer {
    bytes: Vec<u8>,
}

impl Chainer {
    pub(crate) fn begin(&mut self, log: Log, before: &Hash) {
        self.bytes.clear();
        self.bytes.extend_from_slice(log.tag());
        self.bytes.extend_from_slice(before);
    }

    /// Takes in a column as it is stored: a number put in as text does not pass for the number.
    pub(crate) fn column(&mut self, value: ValueRef<'_>) {
        match value {
            ValueRef::Null => self.bytes.push(0),
            ValueRef::Integer(value) => {
                self.bytes.push(1);
                self.bytes.extend_from_slice(&value.to_le_bytes());
            }
            ValueRef::Text(text) => self.long(2, text),
            ValueRef::Blob(blob) => self.long(3, blob),
            // Nothing here is ever stored as a float; one that turns up must not pass.
            ValueRef::Real(value) => {
                self.bytes.push(4);
                self.bytes.extend_from_slice(&value.to_bits().to_le_bytes());
            }
        }
    }

    pub(crate) fn end(&self) -> Hash {
        Sha256::digest(&self.bytes).into()
    }

    /// The hash of a whole row.
    pub(crate) fn row(&mut self, log: Log, before: &Hash, cells: &[Cell<'_>]) -> Hash {
        self.begin(log, before);
        for cell in cells {
            self.column(cell.value());
        }
        self.end()
    }

    fn long(&mut self, kind: u8, bytes: &[u8]) {
        self.bytes.push(kind);
        let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        self.bytes.extend_from_slice(&length.to_le_bytes());
        self.bytes.extend_from_slice(bytes);
    }
}

/// Where a log stands: how many rows it ever had, and the hash of the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) rows: i64,
    pub(crate) hash: Hash,
}

impl Head {
    pub(crate) const EMPTY: Self = Self { rows: 0, hash: GENESIS };
}

/// Where all three stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Heads {
    pub(crate) transactions: Head,
    pub(crate) config_changes: Head,
    pub(crate) system_events: Head,
}

impl Heads {
    pub(crate) const EMPTY: Self =
        Self { transactions: Head::EMPTY, config_changes: Head::EMPTY, system_events: Head::EMPTY };

    pub(crate) const fn of(&self, log: Log) -> &Head {
        match log {
            Log::Transactions => &self.transactions,
            Log::ConfigChanges => &self.config_changes,
            Log::SystemEvents => &self.system_events,
        }
    }

    pub(crate) const fn of_mut(&mut self, log: Log) -> &mut Head {
        match log {
            Log::Transactions => &mut self.transactions,
            Log::ConfigChanges => &mut self.config_changes,
            Log::SystemEvents => &mut self.system_events,
        }
    }

    /// All rows that ever were.
    pub(crate) const fn rows(&self) -> i64 {
        self.transactions
            .rows
            .saturating_add(self.config_changes.rows)
            .saturating_add(self.system_events.rows)
    }

    /// As the database has them. Retention never takes a log's last row, so this is all it needs.
    pub(crate) fn read(db: &Connection) -> rusqlite::Result<Self> {
        let mut heads = Self::EMPTY;
        for log in Log::ALL {
            let sql = format!("SELECT seq, hash FROM {} ORDER BY seq DESC LIMIT 1", log.name());
            let last = db
                .query_row(&sql, [], |row| Ok(Head { rows: row.get(0)?, hash: row.get(1)? }))
                .optional()?;
            *heads.of_mut(log) = last.unwrap_or(Head::EMPTY);
        }
        Ok(heads)
    }
}

/// Lower-case hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(bytes.len().saturating_mul(2)), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Reads exactly so many bytes of lower- or upper-case hexadecimal.
pub(crate) fn unhex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digits: Vec<u8> = text
        .chars()
        .map(|c| c.to_digit(16).and_then(|d| u8::try_from(d).ok()))
        .collect::<Option<_>>()?;
    if digits.len() != N.checked_mul(2)? {
        return None;
    }
    let bytes: Vec<u8> = digits
        .chunks_exact(2)
        .map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | digit))
        .collect();
    bytes.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(cells: &[Cell<'_>]) -> Hash {
        Chainer::default().row(Log::Transactions, &GENESIS, cells)
    }

    #[test]
    fn rows_that_differ_in_anything_differ_in_their_hash() {
        let rows: [&[Cell<'_>]; 8] = [
            &[Cell::Text("ab"), Cell::Text("c")],
            &[Cell::Text("a"), Cell::Text("bc")],
            &[Cell::Text("abc")],
            &[Cell::Int(1)],
            &[Cell::Text("1")],
            &[Cell::Null],
            &[Cell::Text("")],
            &[Cell::Null, Cell::Null],
        ];
        for (place, row) in rows.iter().enumerate() {
            for other in rows.iter().skip(place + 1) {
                assert_ne!(hash(row), hash(other), "{row:?} {other:?}");
            }
        }
    }

    #[test]
    fn the_same_row_has_another_hash_in_another_log_and_after_another_row() {
        let cells = [Cell::Int(7)];
        let mut chainer = Chainer::default();
        let here = chainer.row(Log::Transactions, &GENESIS, &cells);
        assert_ne!(here, chainer.row(Log::SystemEvents, &GENESIS, &cells));
        assert_ne!(here, chainer.row(Log::Transactions, &here, &cells));
    }

    #[test]
    fn hex_reads_back_what_it_wrote_and_nothing_else() {
        let bytes: [u8; 4] = [0, 15, 160, 255];
        assert_eq!(hex(&bytes), "000fa0ff");
        assert_eq!(unhex("000fa0ff"), Some(bytes));
        for bad in ["", "000fa0f", "000fa0ff0", "000fa0fg", "000fa0ffff"] {
            assert_eq!(unhex::<4>(bad), None, "{bad}");
        }
    }
}
