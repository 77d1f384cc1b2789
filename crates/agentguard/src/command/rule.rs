//! `agentguard rule …`

mod lower;

use agentguard_core::rule::RuleType;
use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use crate::failure::Failure;
use crate::output;
use crate::session::{Session, items, text};
use crate::table::Table;

pub(crate) const EXAMPLES: &str = "\
Examples:
  agentguard rule add --type daily_budget --param limit=20.00
  agentguard rule add --type domain_whitelist --param domains=api.openai.com,*.stripe.com
  agentguard rule add --type time_window_block --param start=22:00 --param end=06:00 --door api";

#[derive(Debug, Subcommand)]
pub(crate) enum RuleCommand {
    /// Add a rule; it is in force at once
    #[command(after_help = EXAMPLES)]
    Add(AddArgs),
    /// List rules, in the order in which they are looked at
    #[command(after_help = "Example:\n  agentguard rule list --rule-set strict")]
    List {
        /// Only of this set
        #[arg(long, value_name = "NAME")]
        rule_set: Option<String>,
    },
    /// Remove a rule
    #[command(after_help = "Example:\n  agentguard rule remove 0190d3a2-…")]
    Remove {
        /// From `rule list`
        id: String,
    },
    /// Remove every rule of a set
    #[command(after_help = "Example:\n  agentguard rule clear --rule-set strict")]
    Clear {
        /// Which set
        #[arg(long, value_name = "NAME", default_value = "default")]
        rule_set: String,
    },
}

#[derive(Debug, Args)]
pub(crate) struct AddArgs {
    /// The set it goes into
    #[arg(long, value_name = "NAME", default_value = "default")]
    rule_set: String,
    /// What it looks at
    #[arg(long = "type", value_name = "TYPE", value_parser = types())]
    kind: String,
    /// A parameter; a list takes commas
    #[arg(long = "param", value_name = "KEY=VALUE", value_parser = param)]
    params: Vec<(String, String)>,
    /// What it does [default: what the type does]
    #[arg(long, value_parser = ["block", "alert", "alert_and_block"])]
    action: Option<String>,
    /// Only at this door; may be given again [default: every door where it has a meaning]
    #[arg(long = "door", value_parser = ["api", "web", "exec", "browser", "pipe"])]
    doors: Vec<String>,
    /// Small first, within a type
    #[arg(long, value_name = "N", default_value_t = 100, allow_negative_numbers = true)]
    priority: i32,
    /// Add it, but not in force
    #[arg(long)]
    disabled: bool,
}

pub(crate) fn run(session: &Session, command: RuleCommand) -> Result<(), Failure> {
    let gate = session.gate()?;
    match command {
        RuleCommand::Add(args) => {
            let path = ["rule-sets", args.rule_set.as_str(), "rules"];
            let rule = gate.post(&path, &draft(&args)?)?;
            // The rule is there; that no hint can be given changes nothing about it.
            let all = gate.get(&path).map(items).unwrap_or_default();
            if let Some(hint) = lower::hint(&rule, &all) {
                output::note(&hint);
            }
            session.show(&rule, |rule| {
                let (kind, set) = (text(rule, "type"), text(rule, "rule_set"));
                format!("rule `{kind}` is in rule set `{set}`\nid:  {}", text(rule, "id"))
            })
        }
        RuleCommand::List { rule_set } => {
            let names = match rule_set {
                Some(name) => vec![name],
                None => items(gate.get(&["rule-sets"])?).iter().map(|s| text(s, "name")).collect(),
            };
            let mut rules = Vec::new();
            for name in names {
                rules.extend(items(gate.get(&["rule-sets", &name, "rules"])?));
            }
            session.show(&Value::Array(rules), list)
        }
        RuleCommand::Remove { id } => {
            let rule = gate.delete(&["rules", &id])?;
            session.show(&rule, |rule| {
                format!("rule `{}` is gone from `{}`", text(rule, "type"), text(rule, "rule_set"))
            })
        }
        RuleCommand::Clear { rule_set } => {
            let cleared = gate.delete(&["rule-sets", &rule_set, "rules"])?;
            session.show(&cleared, |cleared| {
                let (set, count) = (text(cleared, "rule_set"), text(cleared, "removed"));
                format!("rule set `{set}` is empty; {count} rules are gone")
            })
        }
    }
}

fn types() -> PossibleValuesParser {
    PossibleValuesParser::new(RuleType::ALL.map(RuleType::name))
}

fn param(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("write it as KEY=VALUE, like limit=20.00")?;
    if key.is_empty() {
        return Err("the part before `=` names the parameter".to_owned());
    }
    Ok((key.to_owned(), value.to_owned()))
}

fn draft(args: &AddArgs) -> Result<Value, Failure> {
    let mut params: Map<String, Value> = Map::new();
    for (key, value) in &args.params {
        let value = parsed(key, value)?;
        match params.get_mut(key) {
            None => {
                params.insert(key.clone(), value);
            }
            // Given again: a list. Where none is meant, the gate says so by the parameter's name.
            Some(Value::Array(list)) => list.push(value),
            Some(first) => *first = json!([first.take(), value]),
        }
    }
    let doors = (!args.doors.is_empty()).then_some(&args.doors);
    Ok(json!({
        "type": args.kind,
        "params": params,
        "action": args.action,
        "doors": doors,
        "priority": args.priority,
        "enabled": !args.disabled,
    }))
}

/// Everything is a text to the shell, and the gate reads numbers from texts. Only a list may be
/// written as JSON.
fn parsed(key: &str, value: &str) -> Result<Value, Failure> {
    if !value.starts_with('[') {
        return Ok(Value::String(value.to_owned()));
    }
    serde_json::from_str(value)
        .map_err(|error| Failure::usage(format!("parameter `{key}`: is no JSON list: {error}")))
}

fn list(rules: &Value) -> String {
    let mut table =
        Table::new(["RULE SET", "TYPE", "ACTION", "PRIORITY", "DOORS", "PARAMETERS", "ID"]);
    for rule in rules.as_array().into_iter().flatten() {
        let field = |name| text(rule, name);
        let doors = rule.get("doors").and_then(Value::as_array);
        let doors = doors.map_or_else(
            || "all".to_owned(),
            |doors| doors.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(","),
        );
        let action = match rule.get("enabled").and_then(Value::as_bool) {
            Some(false) => format!("{} (off)", field("action")),
            Some(true) | None => field("action"),
        };
        table.row([
            field("rule_set"),
            field("type"),
            action,
            field("priority"),
            doors,
            parameters(rule),
            field("id"),
        ]);
    }
    table.to_string()
}

fn parameters(rule: &Value) -> String {
    let params = rule.get("params").and_then(Value::as_object).into_iter().flatten();
    let shown = params.map(|(key, value)| match value {
        Value::String(text) => format!("{key}={text}"),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            format!("{key}={value}")
        }
    });
    shown.collect::<Vec<_>>().join(" ")
}
