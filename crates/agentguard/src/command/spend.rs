//! `agentguard spend`

use clap::Args;
use serde_json::Value;

use crate::failure::Failure;
use crate::session::{Session, text};
use crate::table::Table;

#[derive(Debug, Args)]
pub(crate) struct SpendArgs {
    /// Only of this agent (name or id)
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
}

pub(crate) fn run(session: &Session, args: &SpendArgs) -> Result<(), Failure> {
    let query: Vec<_> = args.agent.iter().map(|name| ("agent", name.as_str())).collect();
    let spent = session.gate()?.query(&["spend"], &query)?;
    session.show(&spent, words)
}

fn words(spent: &Value) -> String {
    let mut table = Table::new(["AGENT", "PERIOD", "USED", "RESERVED", "LIMIT"]);
    let mut rows = |name: &str, of: &Value| {
        for period in ["day", "month"] {
            let Some(line) = of.get(period) else { continue };
            let limit = Some(text(line, "limit")).filter(|limit| !limit.is_empty());
            table.row([
                name.to_owned(),
                period.to_owned(),
                text(line, "used"),
                text(line, "reserved"),
                limit.unwrap_or_else(|| "none".to_owned()),
            ]);
        }
    };
    let agents = spent.get("agents").and_then(Value::as_array);
    let agents = agents.map(Vec::as_slice).unwrap_or_default();
    for agent in agents {
        rows(&text(agent, "agent"), agent);
    }
    if agents.len() != 1 {
        rows("(all)", spent);
    }
    format!("{table}\nIn US dollars.")
}
