//! `agentguard rule-set …`

use clap::Subcommand;
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::session::{Session, items, text};
use crate::table::Table;

#[derive(Debug, Subcommand)]
pub(crate) enum RuleSetCommand {
    /// Add a rule set
    #[command(after_help = "Example:\n  agentguard rule-set add strict --copy-from default")]
    Add {
        /// Letters, digits, `-`, `_` and `.`
        name: String,
        /// Begin with the rules of this set
        #[arg(long, value_name = "NAME")]
        copy_from: Option<String>,
    },
    /// List rule sets
    #[command(after_help = "Example:\n  agentguard rule-set list")]
    List,
}

pub(crate) fn run(session: &Session, command: RuleSetCommand) -> Result<(), Failure> {
    let gate = session.gate()?;
    match command {
        RuleSetCommand::Add { name, copy_from } => {
            let body = json!({"name": name, "copy_from": copy_from});
            let set = gate.post(&["rule-sets"], &body)?;
            session.show(&set, |set| {
                format!("rule set `{}` has {} rules", text(set, "name"), text(set, "rules"))
            })
        }
        RuleSetCommand::List => {
            let sets = items(gate.get(&["rule-sets"])?);
            session.show(&Value::Array(sets), list)
        }
    }
}

fn list(sets: &Value) -> String {
    let mut table = Table::new(["NAME", "RULES", "AGENTS", "ID"]);
    for set in sets.as_array().into_iter().flatten() {
        let agents = set.get("agents").and_then(Value::as_array).into_iter().flatten();
        let agents: Vec<_> = agents.filter_map(Value::as_str).collect();
        table.row([text(set, "name"), text(set, "rules"), agents.join(", "), text(set, "id")]);
    }
    table.to_string()
}
