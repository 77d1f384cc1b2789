//! How single values are read and refused: the key and its place are added to what `values` says.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::error::{Origin, Problem};
use super::key::Key;
use super::limits::{Bounds, ENTRIES_MAX, STEP_TIMEOUT_MS, TIMEOUT_SEC};
use super::tree::Node;
use super::values::{self, Expected};

/// Reads values of one file.
pub(super) struct Reader<'a> {
    /// Knows where each value is written.
    pub(super) tree: &'a Node,
    /// What `~` stands for.
    pub(super) home: Option<&'a Path>,
}

impl Reader<'_> {
    pub(super) fn text<T>(
        &self,
        key: &str,
        text: &str,
        read: impl Fn(&str) -> Result<T, Expected>,
    ) -> Result<T, Problem> {
        read(text).map_err(|expected| self.bad(&Key::of(key), text, expected))
    }

    pub(super) fn path(&self, key: &str, text: &str) -> Result<PathBuf, Problem> {
        self.text(key, text, |text| values::path(text, self.home))
    }

    pub(super) fn list<T>(
        &self,
        key: &Key,
        items: &[String],
        read: impl Fn(&str) -> Result<T, Expected>,
    ) -> Result<Vec<T>, Problem> {
        self.bounded_entries(key, items.len())?;
        let read = |(place, item): (usize, &String)| {
            read(item).map_err(|expected| self.bad(&key.index(place), item, expected))
        };
        items.iter().enumerate().map(read).collect()
    }

    pub(super) fn number<T: TryFrom<u64>>(
        &self,
        key: &str,
        number: u64,
        bounds: Bounds,
    ) -> Result<T, Problem> {
        self.bounded(&Key::of(key), number, bounds)
    }

    pub(super) fn seconds(&self, key: &str, number: u64) -> Result<Duration, Problem> {
        self.number(key, number, TIMEOUT_SEC).map(Duration::from_secs)
    }

    pub(super) fn milliseconds(&self, key: &str, number: u64) -> Result<Duration, Problem> {
        self.number(key, number, STEP_TIMEOUT_MS).map(Duration::from_millis)
    }

    pub(super) fn bounded<T: TryFrom<u64>>(
        &self,
        key: &Key,
        number: u64,
        Bounds { min, max }: Bounds,
    ) -> Result<T, Problem> {
        let inside = Some(number).filter(|number| (min..=max).contains(number));
        inside.and_then(|number| T::try_from(number).ok()).ok_or_else(|| {
            self.bad(key, &number.to_string(), format!("a number from {min} to {max}"))
        })
    }

    pub(super) fn bounded_entries(&self, key: &Key, entries: usize) -> Result<(), Problem> {
        if entries <= ENTRIES_MAX {
            return Ok(());
        }
        Err(self.bad(key, &format!("{entries} entries"), format!("at most {ENTRIES_MAX}")))
    }

    fn origin(&self, key: &Key) -> Origin {
        self.tree.find(key).map_or(Origin::Default, |node| node.origin.clone())
    }

    pub(super) fn bad(&self, key: &Key, found: &str, expected: Expected) -> Problem {
        Problem::bad_value(self.origin(key), key, found, expected)
    }

    /// The name of an entry is wrong, not its value.
    pub(super) fn bad_name(&self, table: &Key, name: &str, expected: Expected) -> Problem {
        Problem::bad_name(self.origin(&table.entry(name)), table, name, expected)
    }

    pub(super) fn not_available(
        &self,
        key: &Key,
        what: &'static str,
        instead: &'static str,
    ) -> Problem {
        Problem::NotAvailable { origin: self.origin(key), key: key.to_string(), what, instead }
    }
}
