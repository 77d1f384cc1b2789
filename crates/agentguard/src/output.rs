//! Results to stdout, everything else to stderr.

use std::io::{self, Write as _};

use serde::Serialize;

use crate::failure::Failure;

/// One JSON document, on one line.
pub(crate) fn json(value: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string(value).map_err(io::Error::other)?;
    line(&text)
}

/// One line (or several) of result.
pub(crate) fn line(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{text}")?;
    stdout.flush()?;
    Ok(())
}

/// A remark for the person at the terminal: never part of the result.
pub(crate) fn note(text: &str) {
    // Nobody reads stderr: then nobody misses it.
    drop(writeln!(io::stderr().lock(), "{text}"));
}

/// A warning.
pub(crate) fn warn(text: &str) {
    note(&format!("warning: {text}"));
}
