//! What a rule found, and how it is printed. Never here: a rule.

use std::fmt;

/// How much a finding matters. Errors come last in the output, where they are seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    Note,
    Warning,
    Error,
}

/// One line of output.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    pub(crate) level: Level,
    /// A file, with its line where that is known, or a crate.
    pub(crate) place: String,
    pub(crate) text: String,
}

impl Finding {
    pub(crate) fn error(place: impl Into<String>, text: impl Into<String>) -> Self {
        Self { level: Level::Error, place: place.into(), text: text.into() }
    }

    pub(crate) fn warning(place: impl Into<String>, text: impl Into<String>) -> Self {
        Self { level: Level::Warning, place: place.into(), text: text.into() }
    }

    pub(crate) fn note(place: impl Into<String>, text: impl Into<String>) -> Self {
        Self { level: Level::Note, place: place.into(), text: text.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let level = match self.level {
            Level::Note => "note",
            Level::Warning => "warning",
            Level::Error => "error",
        };
        write!(f, "{level}: {}: {}", self.place, self.text)
    }
}
