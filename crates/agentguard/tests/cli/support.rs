//! Starting the gate under test, and looking at what commands print.

use std::process::Output;

use agentguard_testkit::process::show;
use agentguard_testkit::{GateConfig, GateProcess};

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_agentguard");

/// A gate that runs.
pub(crate) fn gate() -> GateProcess {
    GateProcess::start(PROGRAM, GateConfig::new())
}

/// A gate that was not started.
pub(crate) fn prepared() -> GateProcess {
    GateProcess::prepare(PROGRAM, GateConfig::new())
}

/// What a command that must work prints for people.
pub(crate) fn says(gate: &GateProcess, args: &[&str]) -> String {
    let output = gate.cli(args);
    assert_eq!(output.status.code(), Some(0), "{args:?}: {}", show(&output));
    stdout(&output)
}

/// The exit code and stderr of a command that must not; its stdout must be empty.
pub(crate) fn fails(gate: &GateProcess, args: &[&str]) -> (i32, String) {
    let output = gate.cli(args);
    let code = output.status.code().unwrap();
    assert_ne!(code, 0, "{args:?}: {}", show(&output));
    assert_eq!(stdout(&output), "", "{args:?}: {}", show(&output));
    (code, String::from_utf8(output.stderr).unwrap())
}

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// Every line of stdout as JSON.
pub(crate) fn lines(text: &str) -> Vec<serde_json::Value> {
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}")))
        .collect()
}
