//! `agentguard explain`

use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::session::{Session, text};
use crate::table::Table;

#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// Through which door
    #[arg(long, value_parser = ["api", "web"], default_value = "api")]
    door: String,
    /// Which agent (name or id) [default: the only one]
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// The HTTP method
    #[arg(long, default_value = "GET")]
    method: String,
    /// The address, or /proxy/ALIAS/… as agents call it
    #[arg(long)]
    url: String,
    /// What the call costs or moves
    #[arg(long, value_name = "DECIMAL")]
    amount: Option<String>,
    /// In which currency
    #[arg(long, default_value = "USD")]
    currency: String,
    /// The service [default: found by the address]
    #[arg(long, value_name = "ALIAS")]
    service: Option<String>,
}

/// 0 if the gate would let it through, 1 if not.
pub(crate) fn run(session: &Session, args: &ExplainArgs) -> Result<ExitCode, Failure> {
    let body = json!({
        "door": args.door,
        "agent": args.agent,
        "method": args.method,
        "url": args.url,
        "amount": args.amount,
        "currency": args.currency,
        "service": args.service,
    });
    let answer = session.gate()?.post(&["explain"], &body)?;
    session.show(&answer, words)?;
    let allowed = answer.get("verdict").and_then(Value::as_str) == Some("allow");
    Ok(if allowed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn words(answer: &Value) -> String {
    let mut said = match (text(answer, "code"), text(answer, "remedy")) {
        (code, _) if code.is_empty() => "allow".to_owned(),
        (code, remedy) => format!("block: {code}\nwhat would change it: {remedy}"),
    };
    let destination = text(answer, "destination");
    if !destination.is_empty() {
        said.push_str(&format!("\ndestination: {destination}"));
    }
    let note = text(answer, "note");
    if !note.is_empty() {
        said.push_str(&format!("\nnote: {note}"));
    }
    let mut table = Table::new(["RULE", "ACTION", "RESULT", "WHY", "ID"]);
    let rules = answer.get("rules").and_then(Value::as_array);
    for rule in rules.into_iter().flatten() {
        let field = |name| text(rule, name);
        table.row([
            field("type"),
            field("action"),
            field("result"),
            field("why"),
            field("rule_id"),
        ]);
    }
    if rules.is_none_or(Vec::is_empty) {
        said.push_str("\nno rule was looked at");
    } else {
        said.push_str(&format!("\n\n{table}"));
    }
    said
}
