//! Node scripts with the official packages, in the folder that the test run prepared.

use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::Duration;

use crate::process;

/// Names the folder that holds `node_modules`.
pub const NODE_VARIABLE: &str = "AGENTGUARD_TEST_NODE";
/// As for Python scripts: far above what any of them takes.
const SCRIPT_LIMIT: Duration = Duration::from_secs(180);

/// Runs an ES module (`process.argv.slice(1)` are `args`) on a thread of its own.
pub async fn node_task(script: impl Into<String>, args: Vec<String>) -> Output {
    let script = script.into();
    match tokio::task::spawn_blocking(move || node(&script, &args)).await {
        Ok(output) => output,
        Err(e) => std::panic::resume_unwind(e.into_panic()),
    }
}

fn node(script: &str, args: &[String]) -> Output {
    let mut command = Command::new("node");
    for name in process::PROXY_VARIABLES {
        command.env_remove(name);
    }
    // A module given as text finds its packages from the working folder.
    command
        .current_dir(folder())
        .env_remove("NODE_OPTIONS")
        .args(["--input-type=module", "--eval", script, "--"])
        .args(args);
    process::run(command, SCRIPT_LIMIT)
}

fn folder() -> PathBuf {
    let Some(folder) = std::env::var_os(NODE_VARIABLE) else {
        panic!(
            "{NODE_VARIABLE} is not set: it names the folder with the Node packages stripe, openai and @anthropic-ai/sdk. `make test` prepares it and sets the variable"
        );
    };
    let folder = PathBuf::from(folder);
    assert!(
        folder.join("node_modules").is_dir(),
        "no node_modules in {} ({NODE_VARIABLE}): `make test` prepares it",
        folder.display()
    );
    folder
}
