//! The operator's log, on stderr: words on a terminal, JSON lines elsewhere. Never evidence: that is
//! the record's work.

use std::io::{self, IsTerminal as _};

use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::reload::Handle;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{Layer as _, Registry, fmt, reload};

use crate::config::model::LogLevel;
use crate::failure::Failure;

/// The log that runs; its level can be changed.
#[derive(Clone, Debug)]
pub(crate) struct Log {
    filter: Handle<Targets, Registry>,
}

impl Log {
    /// From now on at this level.
    pub(crate) fn set_level(&self, level: LogLevel) {
        if let Err(error) = self.filter.reload(filter(level)) {
            tracing::error!(%error, "the log's level could not be changed");
        }
    }
}

/// Starts it.
pub(crate) fn start(level: LogLevel) -> Result<Log, Failure> {
    let (filter, handle) = reload::Layer::new(filter(level));
    let lines = if io::stderr().is_terminal() {
        fmt::layer().with_writer(io::stderr).with_target(false).boxed()
    } else {
        fmt::layer().json().flatten_event(true).with_writer(io::stderr).boxed()
    };
    tracing_subscriber::registry()
        .with(filter)
        .with(lines)
        .try_init()
        .map_err(|error| Failure::because("starting the log", &error))?;
    Ok(Log { filter: handle })
}

/// Ours at the level that was asked for. What the libraries below say may hold requests and heads,
/// so they only warn.
fn filter(level: LogLevel) -> Targets {
    let ours = match level {
        LogLevel::Trace => LevelFilter::TRACE,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Error => LevelFilter::ERROR,
    };
    Targets::new().with_default(ours.min(LevelFilter::WARN)).with_target("agentguard", ours)
}
