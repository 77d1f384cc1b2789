//! The file of past runs: one JSON line each, so that a trend can be seen, and what changed since the
//! last run on this machine.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use agentguard_core::Timestamp;
use serde_json::{Map, Value, json};

use crate::measure::Figure;

/// Smaller changes are noise on any shared machine.
const TOLD_FROM: f64 = 0.05;

/// Prints the figures beside those of the run before, and keeps them.
pub(crate) fn show_and_keep(figures: &[Figure]) {
    if figures.is_empty() {
        return;
    }
    let (path, machine) = (path(), machine());
    let before = last(&path, &machine);
    println!("\n{:<62} {:>10} {:<5} {:<22} since the last run", "what", "measured", "unit", "goal");
    for Figure { what, value, unit, goal } in figures {
        let change = before.get(what).and_then(Value::as_f64).map(|was| value / was - 1.0);
        let change = match change {
            Some(change) if change.is_finite() && change.abs() >= TOLD_FROM => {
                format!("{:+.0} %", change * 100.0)
            }
            Some(_) => "as before".to_owned(),
            None => String::new(),
        };
        println!("{what:<62} {value:>10.2} {unit:<5} {goal:<22} {change}");
    }
    let values: Map<_, _> = figures
        .iter()
        .map(|figure| (figure.what.clone(), json!((figure.value * 1e3).round() / 1e3)))
        .collect();
    let line = json!({
        "at": now(), "commit": commit(), "machine": machine, "values": values,
    });
    let file = fs::OpenOptions::new().create(true).append(true).open(&path);
    match file.and_then(|mut file| writeln!(file, "{line}")) {
        Ok(()) => println!("\nkept in bench/history.jsonl"),
        Err(error) => println!("\nnot kept: {error}"),
    }
}

/// The latest value of each figure that was measured on such a machine.
fn last(path: &Path, machine: &Value) -> Map<String, Value> {
    let text = fs::read_to_string(path).unwrap_or_default();
    let mut latest = Map::new();
    for line in text.lines() {
        let run: Value = serde_json::from_str(line).unwrap_or_default();
        if run["machine"] == *machine
            && let Value::Object(values) = &run["values"]
        {
            latest.extend(values.clone());
        }
    }
    latest
}

fn path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("history.jsonl")
}

/// Only runs on the same kind of machine are compared.
fn machine() -> Value {
    let cpus = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpus.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    json!({"cores": cores, "cpu": model.map_or("unknown", |(_, name)| name)})
}

fn commit() -> String {
    let git = |args: &[&str]| {
        let output =
            Command::new("git").args(args).current_dir(env!("CARGO_MANIFEST_DIR")).output();
        output.ok().filter(|output| output.status.success()).map(|output| output.stdout)
    };
    let Some(id) = git(&["rev-parse", "--short=12", "HEAD"]) else { return "unknown".to_owned() };
    let id = String::from_utf8_lossy(&id).trim().to_owned();
    let changed = git(&["status", "--porcelain", "--untracked-files=no", "--", "../crates"]);
    match changed {
        Some(changed) if !changed.is_empty() => format!("{id} with changes"),
        Some(_) | None => id,
    }
}

fn now() -> String {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let micros = since.map_or(0, |since| i64::try_from(since.as_micros()).unwrap_or(i64::MAX));
    Timestamp::from_micros(micros).to_rfc3339()
}
