//! Why a configuration is refused: every message names the place, the key and what would be
//! right, in one line, and shows no secret.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use thiserror::Error;

use super::key::Key;
use super::limits::{FILE_BYTES_MAX, SHOWN_CHARS_MAX};

/// All that was found wrong; at least one problem.
#[derive(Debug)]
pub(crate) struct ConfigError {
    problems: Vec<Problem>,
}

/// Where a value was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// In a file.
    File { name: Arc<str>, line: u64, column: u64 },
    /// In an environment variable.
    Variable(Arc<str>),
    /// Nowhere: it is the default.
    Default,
}

/// One thing that is wrong.
#[derive(Debug, Error)]
pub(crate) enum Problem {
    /// A file that was named, or found, cannot be read.
    #[error("reading the configuration `{}` ({named_by}): {source}", path.display())]
    Unreadable { path: PathBuf, named_by: &'static str, source: io::Error },
    /// More than anybody writes.
    #[error("{name}: larger than {FILE_BYTES_MAX} bytes; is this the right file?")]
    TooLarge { name: Arc<str> },
    /// Bytes that are no text.
    #[error("{name}: not UTF-8 text; save it as UTF-8")]
    NotText { name: Arc<str> },
    /// No YAML, or YAML that asks for too much.
    #[error("{origin}: {why}")]
    Syntax { origin: Origin, why: String },
    /// A key that does not exist.
    #[error("{origin}: unknown key {key}; {hint}")]
    UnknownKey { origin: Origin, key: String, hint: String },
    /// A value that cannot be.
    #[error("{origin}: {key} {}; expected {expected}", says(found.as_deref()))]
    BadValue { origin: Origin, key: String, found: Option<String>, expected: String },
    /// An entry of a table whose name cannot be.
    #[error("{origin}: `{table}` names {name}; expected {expected}")]
    BadName { origin: Origin, table: String, name: String, expected: String },
    /// A value that this version cannot serve.
    #[error("{origin}: `{key}`: {what} is not available in this version; use {instead}")]
    NotAvailable { origin: Origin, key: String, what: &'static str, instead: &'static str },
    /// A variable whose name cannot be a key.
    #[error("variable {name}: {why}")]
    BadVariable { name: String, why: String },
}

impl Problem {
    /// A bad value; it is shown unless the key is secret.
    pub(super) fn bad_value(origin: Origin, key: &Key, found: &str, expected: String) -> Self {
        let found = (!key.is_secret()).then(|| shorten(found));
        let key = if key.is_top() { "the file".into() } else { format!("`{key}`") };
        Self::BadValue { origin, key, found, expected }
    }

    /// A bad name of an entry.
    pub(super) fn bad_name(origin: Origin, table: &Key, name: &str, expected: String) -> Self {
        Self::BadName { origin, table: table.to_string(), name: shorten(name), expected }
    }

    /// A key that does not exist.
    pub(super) fn unknown_key(origin: Origin, key: &Key, hint: String) -> Self {
        Self::UnknownKey { origin, key: shorten(&key.to_string()), hint }
    }
}

impl ConfigError {
    /// `None` if nothing is wrong.
    pub(super) fn of(problems: Vec<Problem>) -> Option<Self> {
        (!problems.is_empty()).then_some(Self { problems })
    }
}

impl From<Problem> for ConfigError {
    fn from(problem: Problem) -> Self {
        Self { problems: vec![problem] }
    }
}

impl std::error::Error for ConfigError {}

impl fmt::Display for ConfigError {
    /// One line for each problem.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, problem) in self.problems.iter().enumerate() {
            if place > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{problem}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { name, line, column } => write!(f, "{name} line {line}, column {column}"),
            Self::Variable(name) => write!(f, "variable {name}"),
            Self::Default => f.write_str("configuration"),
        }
    }
}

fn says(found: Option<&str>) -> String {
    match found {
        Some(found) => format!("is {found}"),
        None => "has a wrong value".into(),
    }
}

/// Control characters are escaped: a message must stay on its line.
fn shorten(found: &str) -> String {
    let mut shown: String =
        found.chars().take(SHOWN_CHARS_MAX).flat_map(char::escape_debug).collect();
    if found.chars().nth(SHOWN_CHARS_MAX).is_some() {
        shown.push('…');
    }
    format!("`{shown}`")
}
