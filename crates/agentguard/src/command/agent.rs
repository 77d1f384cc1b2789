//! `agentguard agent …`

use clap::Subcommand;
use serde_json::{Value, json};

use super::kill;
use crate::ask;
use crate::failure::Failure;
use crate::session::{Session, items, text};
use crate::table::Table;

#[derive(Debug, Subcommand)]
pub(crate) enum AgentCommand {
    /// Add an agent and show its token, once
    #[command(after_help = "Example:\n  agentguard agent add ads-bot --rule-set strict")]
    Add {
        /// Letters, digits, `-`, `_` and `.`
        name: String,
        /// The rules it is under
        #[arg(long, value_name = "NAME", default_value = "default")]
        rule_set: String,
        /// What it is for
        #[arg(long, value_name = "TEXT")]
        description: Option<String>,
    },
    /// List agents
    #[command(after_help = "Example:\n  agentguard agent list")]
    List,
    /// Show an agent
    #[command(after_help = "Example:\n  agentguard agent show ads-bot")]
    Show {
        /// Name or id
        name: String,
    },
    /// Stop an agent, at once
    #[command(after_help = "Example:\n  agentguard agent pause ads-bot --reason \"odd spending\"")]
    Pause {
        /// Name or id
        name: String,
        /// Why; refusals say it
        #[arg(long, value_name = "TEXT", default_value = "")]
        reason: String,
    },
    /// Let a stopped agent act again; asks twice
    #[command(after_help = "Example:\n  agentguard agent resume ads-bot")]
    Resume {
        /// Name or id
        name: String,
        /// Do not ask
        #[arg(long, short)]
        yes: bool,
    },
    /// Revoke an agent for ever; its token opens nothing any more
    #[command(after_help = "Example:\n  agentguard agent revoke ads-bot")]
    Revoke {
        /// Name or id
        name: String,
        /// Do not ask
        #[arg(long, short)]
        yes: bool,
    },
    /// Make a new token and show it, once; the old one opens nothing any more
    #[command(after_help = "Example:\n  agentguard agent rotate ads-bot")]
    Rotate {
        /// Name or id
        name: String,
    },
}

pub(crate) fn run(session: &Session, command: AgentCommand) -> Result<(), Failure> {
    let gate = session.gate()?;
    match command {
        AgentCommand::Add { name, rule_set, description } => {
            let body = json!({"name": name, "rule_set": rule_set, "description": description});
            let added = gate.post(&["agents"], &body)?;
            session.show(&added, |agent| with_token(agent, "added"))
        }
        AgentCommand::List => {
            let agents = items(gate.get(&["agents"])?);
            session.show(&Value::Array(agents), list)
        }
        AgentCommand::Show { name } => {
            let agent = gate.get(&["agents", &name])?;
            session.show(&agent, show)
        }
        AgentCommand::Pause { name, reason } => {
            let agent = gate.post(&["agents", &name, "pause"], &json!({"reason": reason}))?;
            session.show(&agent, |agent| {
                let name = text(agent, "name");
                format!(
                    "agent `{name}` is stopped\nresume it with `agentguard agent resume {name}`"
                )
            })
        }
        AgentCommand::Resume { name, yes } => {
            ask::to_resume(&format!("agent `{name}`"), yes)?;
            let agent = gate.post(&["agents", &name, "resume"], &json!({"confirm": "RESUME"}))?;
            let said = kill::released(&gate, &format!("agent `{}`", text(&agent, "name")));
            session.show(&agent, |_| said)
        }
        AgentCommand::Revoke { name, yes } => {
            let question = format!("Revoke agent `{name}` for ever?");
            ask::once("revoking", &format!("agent `{name}`"), &question, yes)?;
            let agent = gate.post(&["agents", &name, "revoke"], &json!({}))?;
            session.show(&agent, |agent| format!("agent `{}` is revoked", text(agent, "name")))
        }
        AgentCommand::Rotate { name } => {
            let agent = gate.post(&["agents", &name, "rotate-token"], &json!({}))?;
            session.show(&agent, |agent| with_token(agent, "has a new token; the old one is dead"))
        }
    }
}

fn with_token(agent: &Value, what: &str) -> String {
    let (name, id, token) = (text(agent, "name"), text(agent, "id"), text(agent, "token"));
    format!("agent `{name}` {what}\nid:     {id}\ntoken:  {token}\nThe token is not shown again.")
}

fn list(agents: &Value) -> String {
    let mut table = Table::new(["NAME", "STATUS", "RULE SET", "LAST SEEN", "ID"]);
    for agent in agents.as_array().into_iter().flatten() {
        let field = |name| text(agent, name);
        let seen = Some(field("last_seen_at")).filter(|seen| !seen.is_empty());
        let seen = seen.unwrap_or_else(|| "never".to_owned());
        table.row([field("name"), field("status"), field("rule_set"), seen, field("id")]);
    }
    table.to_string()
}

fn show(agent: &Value) -> String {
    let fields = ["name", "id", "status", "rule_set", "description", "created_at", "last_seen_at"];
    let lines = fields.map(|field| format!("{field:<14}{}", text(agent, field)));
    lines.map(|line| line.trim_end().to_owned()).join("\n")
}
