//! Running a program to its end, within a time, with its output kept.

use std::fs::File;
use std::io::{Read as _, Seek as _};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

/// First pause between two looks at a child; it doubles up to [`POLL_MAX`].
const POLL_MIN: Duration = Duration::from_millis(1);
/// Short beside what a program start takes, long enough not to be busy waiting.
const POLL_MAX: Duration = Duration::from_millis(20);

/// Proxy settings of the machine must not reach programs under test.
pub const PROXY_VARIABLES: [&str; 8] = [
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
];

/// Runs to the end; panics with the output so far when `limit` passes.
pub fn run(command: Command, limit: Duration) -> Output {
    run_fed(command, Stdio::null(), limit)
}

/// As [`run`], with something to read on stdin.
pub fn run_fed(mut command: Command, stdin: Stdio, limit: Duration) -> Output {
    // Files, not pipes: a grandchild that keeps a pipe open cannot hang the test.
    let mut out = tempfile::tempfile().expect("a file for stdout");
    let mut err = tempfile::tempfile().expect("a file for stderr");
    command
        .stdin(stdin)
        .stdout(out.try_clone().expect("share the file for stdout"))
        .stderr(err.try_clone().expect("share the file for stderr"));
    let mut child =
        command.spawn().unwrap_or_else(|e| panic!("starting {:?}: {e}", command.get_program()));
    let status = wait(&mut child, limit);
    if status.is_none() {
        let _ = child.kill();
        let _ = child.wait();
    }
    let stdout = whole(&mut out);
    let stderr = whole(&mut err);
    let Some(status) = status else {
        panic!(
            "{command:?} did not end within {limit:?}\n--- stdout\n{}\n--- stderr\n{}",
            String::from_utf8_lossy(&stdout),
            String::from_utf8_lossy(&stderr)
        );
    };
    Output { status, stdout, stderr }
}

/// The exit status, or none when `limit` passed first.
pub fn wait(child: &mut Child, limit: Duration) -> Option<ExitStatus> {
    poll(limit, || child.try_wait().expect("look at the child"))
}

/// Looks again and again until there is a value or the time is over.
pub fn poll<T>(limit: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let deadline = Instant::now() + limit;
    let mut pause = POLL_MIN;
    loop {
        if let Some(value) = look() {
            return Some(value);
        }
        if Instant::now() >= deadline {
            return None;
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(POLL_MAX);
    }
}

/// Text of an output for a failed assertion.
pub fn show(output: &Output) -> String {
    format!(
        "{}\n--- stdout\n{}\n--- stderr\n{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

fn whole(file: &mut File) -> Vec<u8> {
    let mut bytes = Vec::new();
    file.rewind().expect("back to the start");
    file.read_to_end(&mut bytes).expect("read the output");
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_and_status_are_kept() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo out; echo err >&2; exit 3"]);
        let output = run(command, Duration::from_secs(10));
        assert_eq!(output.status.code(), Some(3));
        assert_eq!(output.stdout, b"out\n");
        assert_eq!(output.stderr, b"err\n");
    }

    #[test]
    #[should_panic(expected = "did not end within")]
    fn a_program_that_hangs_is_ended() {
        let mut command = Command::new("sleep");
        command.arg("600");
        run(command, Duration::from_millis(50));
    }
}
