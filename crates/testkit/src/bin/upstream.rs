//! The upstream as a program, for scripts and benches that are not written in Rust.
//!
//! `testkit-upstream [--bind 127.0.0.1:0] [--workers N] [--counts-only] [--with-stdin]` prints one line of JSON,
//! `{"addr":…,"base_url":…}`, and serves until SIGTERM, SIGINT, or (with `--with-stdin`) the end of stdin.
#![expect(
    clippy::expect_used,
    reason = "test-only program: it has to end at once with a plain text when it cannot start"
)]

use std::io::Write as _;

use agentguard_testkit::{Recording, Upstream, UpstreamOptions};
use tokio::signal::unix::{SignalKind, signal};

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let (options, with_stdin) = read_arguments();
    let upstream = Upstream::start_with(options);
    let line = serde_json::json!({
        "addr": upstream.addr().to_string(),
        "base_url": upstream.base_url(),
    });
    let mut out = std::io::stdout();
    writeln!(out, "{line}").and_then(|()| out.flush()).expect("print where it listens");
    let mut terminated = signal(SignalKind::terminate()).expect("listen for SIGTERM");
    let mut interrupted = signal(SignalKind::interrupt()).expect("listen for SIGINT");
    tokio::select! {
        _ = terminated.recv() => {}
        _ = interrupted.recv() => {}
        () = stdin_closed(), if with_stdin => {}
    }
    drop(upstream);
    // A thread may still sit in a read of stdin; nothing is left to be done.
    std::process::exit(0);
}

/// Ends the program with its parent, so that a broken script leaves nothing behind.
async fn stdin_closed() {
    let (closed, wait) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        let _ = closed.send(());
    });
    let _ = wait.await;
}

fn read_arguments() -> (UpstreamOptions, bool) {
    let mut options = UpstreamOptions::default();
    let mut with_stdin = false;
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().unwrap_or_else(|| wrong_usage(&argument));
        match argument.as_str() {
            "--bind" => options.bind = parsed(&argument, &value()),
            "--workers" => options.workers = parsed(&argument, &value()),
            "--counts-only" => options.recording = Recording::CountsOnly,
            "--with-stdin" => with_stdin = true,
            _ => wrong_usage(&argument),
        }
    }
    (options, with_stdin)
}

fn parsed<T: std::str::FromStr>(argument: &str, value: &str) -> T {
    value.parse().unwrap_or_else(|_| wrong_usage(argument))
}

fn wrong_usage(argument: &str) -> ! {
    const USAGE: &str =
        "testkit-upstream [--bind ADDR:PORT] [--workers N] [--counts-only] [--with-stdin]";
    let text = format!("cannot use `{argument}` like that; usage: {USAGE}");
    let _ = writeln!(std::io::stderr(), "{text}");
    std::process::exit(2);
}
