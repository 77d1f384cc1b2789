//! `agentguard doctor`: looks, changes nothing, and says what to do.

mod checks;
mod folder;

use std::process::ExitCode;

use serde::Serialize;
use serde_json::{Value, json};

use crate::config::Loaded;
use crate::failure::Failure;
use crate::session::{Session, text};
use crate::table::Table;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Health {
    Ok,
    Warn,
    Fail,
}

/// One thing that was looked at.
#[derive(Debug, Serialize)]
struct Check {
    what: &'static str,
    result: Health,
    found: String,
    /// What to do about it; empty if nothing.
    todo: String,
}

impl Check {
    fn ok(what: &'static str, found: impl Into<String>) -> Self {
        Self { what, result: Health::Ok, found: found.into(), todo: String::new() }
    }

    fn warn(what: &'static str, found: impl Into<String>, todo: impl Into<String>) -> Self {
        Self { what, result: Health::Warn, found: found.into(), todo: todo.into() }
    }

    fn fail(what: &'static str, found: impl Into<String>, todo: impl Into<String>) -> Self {
        Self { what, result: Health::Fail, found: found.into(), todo: todo.into() }
    }
}

/// 0 if nothing fails, 1 if something does.
pub(crate) fn run(session: &Session) -> Result<ExitCode, Failure> {
    let found = match session.load() {
        Ok(loaded) => of(&loaded),
        Err(failure) => vec![Check::fail(
            "config",
            failure.message(),
            "correct the file; `agentguard config reference` explains every key",
        )],
    };
    let sick = found.iter().any(|check| check.result == Health::Fail);
    session.show(&json!({"ok": !sick, "checks": found}), words)?;
    Ok(if sick { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn of(loaded: &Loaded) -> Vec<Check> {
    let config = &loaded.config;
    let running = checks::is_running(config);
    let mut found = vec![checks::configuration(loaded)];
    found.extend(
        config
            .warnings
            .iter()
            .map(|warning| Check::warn("config", warning.as_str(), "leave it only if you mean it")),
    );
    found.extend(folder::folder(&config.data_dir));
    found.extend(checks::store(config));
    found.push(folder::journal(&config.data_dir, running));
    found.push(folder::disk(&config.data_dir));
    found.extend(checks::ports(config, running));
    found.push(checks::roots());
    found.push(checks::gate(config, running));
    found
}

fn words(report: &Value) -> String {
    let mut table = Table::new(["", "CHECK", "FOUND", "WHAT TO DO"]);
    for check in report.get("checks").and_then(Value::as_array).into_iter().flatten() {
        let field = |name| text(check, name);
        table.row([field("result"), field("what"), field("found"), field("todo")]);
    }
    table.to_string()
}
