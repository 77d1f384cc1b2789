//! What a start says on stdout: words for a person, JSON lines for a program.

use agentguard_core::AgentStatus;
use agentguard_gate::Gate;
use serde_json::json;

use super::first_start::FirstAgent;
use super::listen::Addresses;
use crate::config::Config;
use crate::failure::Failure;
use crate::output;

/// How a start is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Announce {
    Words,
    Json,
}

impl Announce {
    pub(super) fn ready(
        self,
        config: &Config,
        addresses: &Addresses,
        gate: &Gate,
        first: Option<&FirstAgent>,
    ) -> Result<(), Failure> {
        match self {
            Self::Words => output::line(&words(config, addresses, gate, first)),
            Self::Json => {
                if let Some(first) = first {
                    let (agent, token) = (&first.name, first.token.expose());
                    output::json(&json!({"event": "first_start", "agent": agent, "token": token}))?;
                }
                output::json(&json!({
                    "event": "ready",
                    "proxy": addresses.proxy.to_string(),
                    "admin": addresses.admin.to_string(),
                    "data_dir": config.data_dir,
                }))
            }
        }
    }
}

fn words(
    config: &Config,
    addresses: &Addresses,
    gate: &Gate,
    first: Option<&FirstAgent>,
) -> String {
    let directory = gate.directory();
    let living = directory.data().agents.iter().map(|record| &record.agent);
    let names: Vec<&str> = living
        .filter(|agent| agent.status != AgentStatus::Revoked)
        .map(|agent| agent.name.as_str())
        .collect();
    let proxy = addresses.proxy;
    let mut said = format!(
        "AgentGuard {version} is up.\n\n\
         \x20 API proxy     http://{proxy}/proxy/<service>/…\n\
         \x20 management    http://{admin} (for the agentguard command)\n\
         \x20 data folder   {folder}\n\
         \x20 agents        {agents}\n",
        version = env!("CARGO_PKG_VERSION"),
        admin = addresses.admin,
        folder = config.data_dir.display(),
        agents = names.join(", "),
    );
    if let Some(first) = first {
        said.push_str(&format!(
            "\nThis is the first start. Agent `{}` was made, with rules that let little money go.\n\
             Its token, which is not shown again:\n\n  {}\n",
            first.name,
            first.token.expose(),
        ));
    }
    said.push_str(&format!(
        "\nA first call:\n\n  \
         curl http://{proxy}/proxy/openai/v1/models -H \"Authorization: Bearer $OPENAI_API_KEY\"\n\n\
         Stop every agent at once with `agentguard kill`. End the gate with Ctrl-C.",
    ));
    said
}
