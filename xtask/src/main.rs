//! `cargo xtask tidy` and `cargo xtask prove-lints`: the rules of this repository that the
//! compiler cannot hold by itself.
//!
//! Here: reading the command line, gathering files, printing findings. The rules are pure
//! functions in their own modules. Never here: anything that a shipped crate needs.

mod code;
mod decisions;
mod edges;
mod excuses;
mod finding;
mod metadata;
mod probes;
mod prove;
mod run;
mod sizes;
mod tree;
mod words;

use finding::{Finding, Level};
use metadata::Workspace;
use std::io::Write as _;
use std::process::ExitCode;
use tree::File;

const USAGE: &str = "\
usage: cargo xtask <command>

  tidy         check crate edges, excuses from lints, sizes, words and decision links
  prove-lints  check that clippy really refuses each call that clippy.toml bans
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let result = match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["tidy"] => tidy(),
        ["prove-lints"] => prove::prove_all(),
        ["help" | "--help" | "-h"] => {
            say(USAGE);
            return ExitCode::SUCCESS;
        }
        [] | [_, ..] => {
            say(USAGE);
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(findings) => report(findings),
        Err(failure) => {
            say(&format!("error: {failure}\n"));
            ExitCode::FAILURE
        }
    }
}

fn tidy() -> Result<Vec<Finding>, String> {
    let workspace = Workspace::load()?;
    let files = tree::read(&workspace.root)?;
    Ok(findings(&workspace, &files))
}

/// Every rule of `tidy` over what was gathered.
fn findings(workspace: &Workspace, files: &[File]) -> Vec<Finding> {
    let mut all = edges::check_manifests(workspace);
    all.extend(edges::check_sources(workspace, files));
    all.extend(excuses::check(workspace, files));
    all.extend(sizes::check(files));
    all.extend(words::check(files));
    all.extend(decisions::check(files));
    all
}

fn report(mut findings: Vec<Finding>) -> ExitCode {
    findings.sort();
    let count = |level: Level| findings.iter().filter(|f| f.level == level).count();
    let (errors, warnings, notes) =
        (count(Level::Error), count(Level::Warning), count(Level::Note));
    for finding in &findings {
        say(&format!("{finding}\n"));
    }
    say(&format!("xtask: {errors} errors, {warnings} warnings, {notes} notes\n"));
    if errors == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// A closed pipe (`| head`) is no reason to fail, so a write that cannot be made is let go.
fn say(text: &str) {
    let _ = std::io::stdout().write_all(text.as_bytes());
}
