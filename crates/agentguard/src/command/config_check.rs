//! `agentguard config …`

use clap::Subcommand;
use serde_json::json;

use crate::config;
use crate::failure::Failure;
use crate::output;
use crate::session::Session;

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Check the configuration without starting
    #[command(after_help = "Example:\n  agentguard config check --config agentguard.yaml")]
    Check,
    /// Print the JSON Schema of the configuration, for editors
    #[command(after_help = "Example:\n  agentguard config schema > config.schema.json")]
    Schema,
    /// Print the reference of all keys, as Markdown
    #[command(after_help = "Example:\n  agentguard config reference > configuration.md")]
    Reference,
}

pub(crate) fn run(session: &Session, command: &ConfigCommand) -> Result<(), Failure> {
    match command {
        ConfigCommand::Check => check(session),
        ConfigCommand::Schema => output::line(config::json_schema().trim_end()),
        ConfigCommand::Reference => output::line(config::reference_markdown().trim_end()),
    }
}

fn check(session: &Session) -> Result<(), Failure> {
    let loaded = session.load()?;
    for warning in &loaded.config.warnings {
        output::warn(warning);
    }
    let found = json!({"ok": true, "file": loaded.file, "warnings": loaded.config.warnings});
    session.show(&found, |_| match &loaded.file {
        Some(file) => format!("{} is valid", file.display()),
        None => "there is no configuration file; the defaults are valid".to_owned(),
    })
}
