//! Python scripts with the official packages, in the environment that the test run prepared.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::Duration;

use crate::process;

/// Names the folder of the virtual environment.
pub const VENV_VARIABLE: &str = "AGENTGUARD_TEST_VENV";
/// Importing the packages alone takes seconds on a busy machine.
const SCRIPT_LIMIT: Duration = Duration::from_secs(180);

/// Runs `script` (`sys.argv[1:]` are `args`) and waits for it, blocking this thread.
///
/// A test whose gate runs on the same single-threaded runtime must use [`python_task`].
pub fn python(script: &str, args: &[&str], env: &[(&str, &str)]) -> Output {
    let mut command = Command::new(interpreter());
    for name in process::PROXY_VARIABLES {
        command.env_remove(name);
    }
    // `-I` would also hide PYTHON* variables that a test sets on purpose; `-B` keeps the tree clean.
    command
        .args(["-B", "-c", script])
        .args(args)
        .envs(env.iter().map(|(k, v)| (OsStr::new(k), OsStr::new(v))));
    process::run(command, SCRIPT_LIMIT)
}

/// As [`python`], on a thread of its own.
pub async fn python_task(
    script: impl Into<String>,
    args: Vec<String>,
    env: Vec<(String, String)>,
) -> Output {
    let script = script.into();
    let run = move || {
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let env: Vec<(&str, &str)> = env.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        python(&script, &args, &env)
    };
    match tokio::task::spawn_blocking(run).await {
        Ok(output) => output,
        Err(e) => std::panic::resume_unwind(e.into_panic()),
    }
}

fn interpreter() -> PathBuf {
    let Some(venv) = std::env::var_os(VENV_VARIABLE) else {
        panic!(
            "{VENV_VARIABLE} is not set: it names the Python environment with the packages stripe, openai and anthropic. `make test` prepares it and sets the variable"
        );
    };
    let path = PathBuf::from(venv).join("bin/python");
    assert!(
        path.exists(),
        "no Python at {} ({VENV_VARIABLE}): `make test` prepares it",
        path.display()
    );
    path
}
