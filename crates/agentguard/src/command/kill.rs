//! `agentguard kill` and `agentguard resume`

use clap::Args;
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::session::{Session, text};
use crate::{ask, output};

#[derive(Debug, Args)]
pub(crate) struct KillArgs {
    /// Only this agent (name or id)
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// Why; refusals say it
    #[arg(long, value_name = "TEXT", default_value = "")]
    reason: String,
}

#[derive(Debug, Args)]
pub(crate) struct ResumeArgs {
    /// Only this agent (name or id)
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// Do not ask
    #[arg(long, short)]
    yes: bool,
}

pub(crate) fn kill(session: &Session, args: &KillArgs) -> Result<(), Failure> {
    let gate = session.gate()?;
    let body = json!({
        "scope": scope(args.agent.as_ref()),
        "agent": args.agent,
        "paused": true,
        "reason": args.reason,
    });
    let state = gate.post(&["kill-switch"], &body)?;
    if state.get("kept") == Some(&Value::Bool(false)) {
        output::warn("it is in force, but could not be stored: a restart would forget it");
    }
    session.show(&state, |state| {
        let (who, again) = match &args.agent {
            Some(_) => {
                let name = text(state, "agent");
                (format!("agent `{name}` is"), format!("agentguard resume --agent {name}"))
            }
            None => ("all agents are".to_owned(), "agentguard resume".to_owned()),
        };
        format!("{who} stopped\nresume with `{again}`")
    })
}

pub(crate) fn resume(session: &Session, args: &ResumeArgs) -> Result<(), Failure> {
    let what = match &args.agent {
        Some(name) => format!("agent `{name}`"),
        None => "all agents".to_owned(),
    };
    ask::to_resume(&what, args.yes)?;
    let gate = session.gate()?;
    let body = json!({
        "scope": scope(args.agent.as_ref()),
        "agent": args.agent,
        "paused": false,
        "confirm": "RESUME",
    });
    let state = gate.post(&["kill-switch"], &body)?;
    session.show(&state, |_| {
        let mut said = format!("{what} may act again");
        if args.agent.is_none() {
            said.push_str("; agents that were stopped one by one still are");
        }
        said
    })
}

const fn scope(agent: Option<&String>) -> &'static str {
    if agent.is_some() { "agent" } else { "global" }
}
