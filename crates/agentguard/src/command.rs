//! What each command does: one module for each area.

pub(crate) mod agent;
pub(crate) mod config_check;
pub(crate) mod docs;
pub(crate) mod doctor;
pub(crate) mod explain;
pub(crate) mod export;
pub(crate) mod extractor;
pub(crate) mod init;
pub(crate) mod kill;
pub(crate) mod logs;
pub(crate) mod policy;
pub(crate) mod price;
pub(crate) mod rule;
pub(crate) mod rule_set;
pub(crate) mod service;
pub(crate) mod spend;
pub(crate) mod verify;

use std::process::ExitCode;

use crate::cli::{Cli, Command};
use crate::failure::Failure;
use crate::session::Session;
use crate::up;

/// Runs the command.
pub(crate) fn run(cli: Cli) -> Result<ExitCode, Failure> {
    let session = Session::new(cli.shared.config, cli.shared.json);
    let done = match cli.command {
        Command::Up => return up::run(&session),
        Command::Doctor => return doctor::run(&session),
        Command::Explain(args) => return explain::run(&session, &args),
        Command::VerifyLogs => return verify::run(&session),
        Command::Init(args) => init::run(&session, &args),
        Command::Config(command) => config_check::run(&session, &command),
        Command::Agent(command) => agent::run(&session, command),
        Command::Rule(command) => rule::run(&session, command),
        Command::RuleSet(command) => rule_set::run(&session, command),
        Command::Service(command) => service::run(&session, command),
        Command::Price(command) => price::run(&session, command),
        Command::Kill(args) => kill::kill(&session, &args),
        Command::Resume(args) => kill::resume(&session, &args),
        Command::Spend(args) => spend::run(&session, &args),
        Command::Logs(args) => logs::run(&session, args),
        Command::Policy(command) => policy::run(&session, command),
        Command::Completions(args) => docs::completions(&args),
        Command::Man(args) => docs::man(&session, &args),
    };
    done.map(|()| ExitCode::SUCCESS)
}
