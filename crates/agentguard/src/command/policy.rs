//! `agentguard policy …`

use std::io::Read as _;
use std::path::{Path, PathBuf};

use agentguard_gate::PolicyFile;
use clap::Subcommand;
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::output;
use crate::session::{Session, text};
use crate::table::Table;

/// What the endpoint takes, and some more for comments, which do not travel.
const FILE_BYTES_MAX: u64 = 4 << 20;

#[derive(Debug, Subcommand)]
pub(crate) enum PolicyCommand {
    /// Write agents, rules and services as YAML; no secrets
    #[command(after_help = "Example:\n  agentguard policy export policy.yaml")]
    Export {
        /// Where to [default: stdout]
        file: Option<PathBuf>,
    },
    /// Make rules and services exactly those of the file; agents are added, never removed
    #[command(after_help = "Example:\n  agentguard policy import policy.yaml --dry-run")]
    Import {
        /// `-` reads stdin
        file: PathBuf,
        /// Only say what would happen
        #[arg(long)]
        dry_run: bool,
    },
}

pub(crate) fn run(session: &Session, command: PolicyCommand) -> Result<(), Failure> {
    match command {
        PolicyCommand::Export { file } => export(session, file.as_deref()),
        PolicyCommand::Import { file, dry_run } => import(session, &file, dry_run),
    }
}

fn export(session: &Session, file: Option<&Path>) -> Result<(), Failure> {
    let policy = session.gate()?.get(&["policy"])?;
    if file.is_none() && session.json() {
        return output::json(&policy);
    }
    let policy: PolicyFile = serde_json::from_value(policy)
        .map_err(|error| Failure::because("reading the gate's answer", &error))?;
    let yaml = serde_saphyr::to_string(&policy)
        .map_err(|error| Failure::because("writing YAML", &error))?;
    match file {
        None => output::line(yaml.trim_end()),
        Some(path) => {
            std::fs::write(path, yaml).map_err(|error| {
                Failure::failed(format!("writing `{}`: {error}", path.display()))
            })?;
            session
                .show(&json!({"path": path}), |written| format!("wrote {}", text(written, "path")))
        }
    }
}

fn import(session: &Session, file: &Path, dry_run: bool) -> Result<(), Failure> {
    let yaml = read(file)?;
    let policy: PolicyFile = serde_saphyr::from_str(&yaml)
        .map_err(|error| Failure::usage(format!("`{}`: {error}", file.display())))?;
    let body = serde_json::to_value(&policy)
        .map_err(|error| Failure::because("making the request", &error))?;
    let query = [("dry_run", if dry_run { "true" } else { "false" })];
    let report = session.gate()?.post_with(&["policy"], &query, &body)?;
    session.show(&report, words)
}

fn read(file: &Path) -> Result<String, Failure> {
    let shown = file.display();
    String::from_utf8(read_bytes(file)?)
        .map_err(|_| Failure::usage(format!("`{shown}` is not UTF-8 text")))
}

/// A file, or stdin for `-`, within its bound.
pub(crate) fn read_bytes(file: &Path) -> Result<Vec<u8>, Failure> {
    let shown = file.display();
    let wrong = |error: std::io::Error| Failure::usage(format!("reading `{shown}`: {error}"));
    let mut bytes = Vec::new();
    let limit = FILE_BYTES_MAX.saturating_add(1);
    if file == Path::new("-") {
        std::io::stdin().lock().take(limit).read_to_end(&mut bytes).map_err(wrong)?;
    } else {
        let opened = std::fs::File::open(file).map_err(wrong)?;
        opened.take(limit).read_to_end(&mut bytes).map_err(wrong)?;
    }
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > FILE_BYTES_MAX {
        return Err(Failure::usage(format!("`{shown}` is larger than {FILE_BYTES_MAX} bytes")));
    }
    Ok(bytes)
}

fn words(report: &Value) -> String {
    let number = |field| text(report, field);
    let done = if report.get("dry_run") == Some(&Value::Bool(true)) {
        "the file is valid; nothing was changed. It would make"
    } else {
        "in force now:"
    };
    let mut said = format!(
        "{done} {} rule sets with {} rules, {} services; {} agents moved",
        number("rule_sets"),
        number("rules"),
        number("services"),
        number("agents_moved"),
    );
    let added = report.get("agents_added").and_then(Value::as_array);
    if let Some(added) = added.filter(|added| !added.is_empty()) {
        let mut table = Table::new(["NEW AGENT", "TOKEN (NOT SHOWN AGAIN)"]);
        for agent in added {
            table.row([text(agent, "name"), text(agent, "token")]);
        }
        said.push_str(&format!("\n{table}"));
    }
    let dropped = report.get("credentials_dropped").and_then(Value::as_array);
    for alias in dropped.into_iter().flatten().filter_map(Value::as_str) {
        said.push_str(&format!(
            "\nthe credential of service `{}` does not stay: the file leads it elsewhere",
            crate::table::printable(alias)
        ));
    }
    said
}
