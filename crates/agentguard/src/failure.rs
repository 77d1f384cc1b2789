//! How a command fails: one line that says what, one that says what to do, and an exit code.

use std::fmt::Display;
use std::io::{self, Write as _};
use std::process::ExitCode;

/// A command that did not do what was asked.
#[derive(Debug)]
pub(crate) struct Failure {
    message: String,
    hint: Option<String>,
    code: Code,
}

/// The exit codes that other programs rely on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Code {
    /// It failed, or was refused.
    Failed,
    /// The command line or the configuration is wrong.
    Usage,
    /// The reader of our output went away; nothing is wrong with us.
    NobodyReads,
}

impl Failure {
    /// It did not work, or was refused.
    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Self { message: message.into(), hint: None, code: Code::Failed }
    }

    /// What was asked cannot be meant: exit code 2.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self { message: message.into(), hint: None, code: Code::Usage }
    }

    /// An error with all its causes.
    pub(crate) fn because(doing: impl Display, error: &dyn std::error::Error) -> Self {
        Self::failed(format!("{doing}: {}", causes(error)))
    }

    /// What to do about it.
    #[must_use]
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The same, but as a mistake of usage or configuration.
    #[must_use]
    pub(crate) const fn into_usage(mut self) -> Self {
        self.code = Code::Usage;
        self
    }

    /// Prints it on stderr and gives the exit code.
    pub(crate) fn report(&self) -> ExitCode {
        let code = match self.code {
            Code::Failed => 1,
            Code::Usage => 2,
            Code::NobodyReads => return ExitCode::SUCCESS,
        };
        let mut stderr = io::stderr().lock();
        for line in self.message.lines() {
            drop(writeln!(stderr, "error: {line}"));
        }
        if let Some(hint) = &self.hint {
            drop(writeln!(stderr, "hint: {hint}"));
        }
        ExitCode::from(code)
    }

    /// The message, for where a failure is only shown.
    pub(crate) fn message(&self) -> &str {
        &self.message
    }
}

/// Writing to stdout failed. A closed pipe (`… | head`) is an orderly end.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        let gone = error.kind() == io::ErrorKind::BrokenPipe;
        let code = if gone { Code::NobodyReads } else { Code::Failed };
        Self { message: format!("writing the output: {error}"), hint: None, code }
    }
}

impl From<crate::config::ConfigError> for Failure {
    fn from(error: crate::config::ConfigError) -> Self {
        Self::usage(error.to_string())
    }
}

/// The whole chain in one line.
pub(crate) fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text.push_str(": ");
        text.push_str(&inner.to_string());
        cause = inner.source();
    }
    text
}
