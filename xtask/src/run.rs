//! Running another program, for a bounded time and with its output kept. Never here: what to run.

#![expect(clippy::disallowed_methods, reason = "xtask starts cargo and git; no agent is involved")]

use std::ffi::OsString;
use std::fs::File;
use std::io::{Read as _, Seek as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How a program ended, and what it wrote to standard output and standard error.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) success: bool,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// The cargo that runs us, so that nested calls use the same toolchain.
pub(crate) fn cargo() -> OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"))
}

/// Runs `program` in `folder` and waits at most `limit`; past that it is killed.
///
/// Output goes through temporary files: a pipe that nobody reads fills up and blocks the child.
pub(crate) fn run(
    program: &OsString,
    arguments: &[&str],
    folder: &Path,
    limit: Duration,
) -> Result<Ended, String> {
    let doing = format!("running `{} {}`", program.to_string_lossy(), arguments.join(" "));
    let failed = |cause: std::io::Error| format!("{doing}: {cause}");
    let (mut out, mut err) =
        (tempfile::tempfile().map_err(failed)?, tempfile::tempfile().map_err(failed)?);
    let mut child = Command::new(program)
        .args(arguments)
        .current_dir(folder)
        // Set by a developer's shell, these would point clippy at another configuration.
        .env_remove("CLIPPY_CONF_DIR")
        .env_remove("CLIPPY_ARGS")
        .env("CARGO_TERM_COLOR", "never")
        // The probes are built once and thrown away.
        .env("CARGO_INCREMENTAL", "0")
        .stdin(Stdio::null())
        .stdout(out.try_clone().map_err(failed)?)
        .stderr(err.try_clone().map_err(failed)?)
        .spawn()
        .map_err(failed)?;
    let started = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().map_err(failed)? {
            break status;
        }
        if started.elapsed() > limit {
            child.kill().map_err(failed)?;
            child.wait().map_err(failed)?;
            return Err(format!("{doing}: not done after {} s, killed", limit.as_secs()));
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    Ok(Ended {
        success: status.success(),
        stdout: text_of(&mut out).map_err(failed)?,
        stderr: text_of(&mut err).map_err(failed)?,
    })
}

fn text_of(file: &mut File) -> std::io::Result<String> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_larger_than_a_pipe_is_kept() {
        let ended = run(
            &OsString::from("head"),
            &["-c", "300000", "/dev/zero"],
            Path::new("."),
            Duration::from_secs(20),
        )
        .unwrap();
        assert!(ended.success);
        assert_eq!(ended.stdout.len(), 300_000);
    }

    #[test]
    fn a_program_that_does_not_end_is_killed() {
        let failure =
            run(&OsString::from("sleep"), &["600"], Path::new("."), Duration::from_millis(100))
                .unwrap_err();
        assert!(failure.contains("killed"), "{failure}");
    }
}
