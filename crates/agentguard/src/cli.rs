//! The command line's grammar. What a command does is in `command`; other programs rely on these
//! forms, so they only grow.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::command::{
    agent, config_check, docs, explain, init, kill, logs, policy, price, rule, rule_set, service,
    spend,
};

const START: &str = "\
Start here:
  agentguard up                      start the gate
  agentguard agent list              who may act
  agentguard rule list               what they may do
  agentguard kill                    stop everything, at once

Exit codes: 0 done, 1 failed or refused, 2 wrong usage or configuration.";

/// One gate between AI agents and the world.
#[derive(Debug, Parser)]
#[command(name = "agentguard", version, after_help = START, disable_help_subcommand = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) shared: Shared,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What every command takes, before or after its name.
#[derive(Debug, Args)]
pub(crate) struct Shared {
    /// The configuration file [default: $AGENTGUARD_CONFIG, ./agentguard.yaml, ~/.config/agentguard]
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Print the result as JSON
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Start the gate and everything that is configured
    #[command(after_help = "Example:\n  agentguard up --config agentguard.yaml")]
    Up,
    /// Write a commented configuration file
    #[command(after_help = "Example:\n  agentguard init agentguard.yaml")]
    Init(init::InitArgs),
    /// Check the configuration
    #[command(subcommand, after_help = "Example:\n  agentguard config check")]
    Config(config_check::ConfigCommand),
    /// Look for what is wrong: configuration, folder, ports, store, clock, disk
    #[command(after_help = "Example:\n  agentguard doctor")]
    Doctor,
    /// Agents: who may act
    #[command(subcommand, after_help = "Example:\n  agentguard agent add ads-bot")]
    Agent(agent::AgentCommand),
    /// Rules: what agents may do
    #[command(subcommand, after_help = rule::EXAMPLES)]
    Rule(rule::RuleCommand),
    /// Rule sets: rules that agents share
    #[command(
        subcommand,
        after_help = "Example:\n  agentguard rule-set add strict --copy-from default"
    )]
    RuleSet(rule_set::RuleSetCommand),
    /// Services: APIs by alias
    #[command(subcommand, after_help = service::EXAMPLES)]
    Service(service::ServiceCommand),
    /// Prices: what models cost
    #[command(subcommand, after_help = price::EXAMPLES)]
    Price(price::PriceCommand),
    /// Stop everything, or one agent, at once
    #[command(
        after_help = "Examples:\n  agentguard kill\n  agentguard kill --agent ads-bot --reason \"odd spending\""
    )]
    Kill(kill::KillArgs),
    /// Let stopped agents act again; asks twice
    #[command(after_help = "Example:\n  agentguard resume --agent ads-bot")]
    Resume(kill::ResumeArgs),
    /// Ask for a verdict in advance, with every rule that was looked at
    #[command(
        after_help = "Example:\n  agentguard explain --agent ads-bot --method POST --url https://api.stripe.com/v1/charges --amount 3.00"
    )]
    Explain(explain::ExplainArgs),
    /// What was spent today and this month
    #[command(after_help = "Example:\n  agentguard spend --agent ads-bot")]
    Spend(spend::SpendArgs),
    /// The record of what agents did
    #[command(after_help = logs::EXAMPLES)]
    Logs(logs::LogsArgs),
    /// Check every row, the chain and the signed checkpoints of the record
    #[command(after_help = "Example:\n  agentguard verify-logs --json")]
    VerifyLogs,
    /// Agents, rules and services as one YAML file
    #[command(
        subcommand,
        after_help = "Examples:\n  agentguard policy export policy.yaml\n  agentguard policy import policy.yaml --dry-run"
    )]
    Policy(policy::PolicyCommand),
    /// Completions for a shell
    #[command(
        after_help = "Example:\n  agentguard completions bash > ~/.local/share/bash-completion/completions/agentguard"
    )]
    Completions(docs::CompletionsArgs),
    /// The manual page, or all of them into a folder
    #[command(after_help = "Examples:\n  agentguard man | man -l -\n  agentguard man --dir man1")]
    Man(docs::ManArgs),
}
