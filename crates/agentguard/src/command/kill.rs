//! `agentguard kill` and `agentguard resume`

use std::fs::{File, TryLockError};
use std::io::Read as _;
use std::path::Path;

use clap::Args;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::client::Client;
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
    let state = match gate.post(&["kill-switch"], &body) {
        Ok(state) => state,
        Err(failure) => return by_signal(session, args, failure),
    };
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

/// The endpoint did not take it: it may be flooded. A gate that is alive hears a signal all the same.
fn by_signal(session: &Session, args: &KillArgs, failure: Failure) -> Result<(), Failure> {
    let data_dir = session.load_keys()?.config.data_dir;
    let Some(pid) = living_gate(&data_dir).filter(|_| args.agent.is_none()) else {
        return Err(failure);
    };
    if kill_process(pid, Signal::USR1).is_err() {
        return Err(failure);
    }
    output::warn(&format!("the management endpoint did not answer: {}", failure.message()));
    let pid = pid.as_raw_nonzero();
    let state = json!({"scope": "global", "paused": true, "paused_by": "user", "by_signal": true});
    session.show(&state, |_| {
        format!("the gate (process {pid}) was told by signal to stop all agents\nresume with `agentguard resume`")
    })
}

/// The process that holds the data folder. It is a gate: the lock ends with the process, so a number
/// that was given to another program since is never taken for it.
fn living_gate(data_dir: &Path) -> Option<Pid> {
    let mut file = File::open(data_dir.join("lock")).ok()?;
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => {}
        Ok(()) | Err(TryLockError::Error(_)) => return None,
    }
    let mut text = String::new();
    file.by_ref().take(16).read_to_string(&mut text).ok()?;
    Pid::from_raw(text.trim().parse().ok()?)
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
    let said = match &args.agent {
        Some(_) => released(&gate, &what),
        None => format!("{what} may act again; agents that were stopped one by one still are"),
    };
    session.show(&state, |_| said)
}

/// What to say of an agent whose own switch was just switched off: the global one holds it too.
pub(super) fn released(gate: &Client, what: &str) -> String {
    // The switch is off; a look that fails changes nothing about it.
    let global = gate.get(&["kill-switch"]).ok();
    let global = global.as_ref().and_then(|state| state.pointer("/global/paused"));
    if global == Some(&Value::Bool(true)) {
        output::warn("the global switch is still on: nobody acts until `agentguard resume`");
        return format!("the switch of {what} is off");
    }
    format!("{what} may act again")
}

const fn scope(agent: Option<&String>) -> &'static str {
    if agent.is_some() { "agent" } else { "global" }
}
