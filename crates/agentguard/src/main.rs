//! The command line, the configuration, and the assembly of a running gate. Never here: logic that a
//! door or a rule needs.

mod ask;
mod cli;
mod client;
mod command;
mod config;
mod failure;
mod output;
mod session;
mod table;
mod up;

use std::process::ExitCode;

use clap::Parser as _;

/// Faster than the system's under many small, short-lived allocations: a proxy's daily bread.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = match cli::Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version go to stdout with 0, mistakes to stderr with 2. Where neither can
            // be written to, the code still says it.
            drop(error.print());
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    match command::run(cli) {
        Ok(code) => code,
        Err(failure) => failure.report(),
    }
}
