//! `agentguard price …`

use agentguard_core::PriceTable;
use agentguard_core::price::{Checked, built_in_date};
use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use crate::failure::Failure;
use crate::session::{Session, items, text};
use crate::table::Table;
use crate::up;

pub(crate) const EXAMPLES: &str = "\
Examples:
  agentguard price check gpt-4o
  agentguard price set llama-3.3-70b --input 0.60 --output 0.90 --no-reasoning
  agentguard price set 'mistral-*' --input 2 --output 6 --max-output-tokens 32000
  agentguard price remove llama-3.3-70b";

#[derive(Debug, Subcommand)]
pub(crate) enum PriceCommand {
    /// List prices, and where each comes from
    #[command(after_help = "Example:\n  agentguard price list")]
    List,
    /// What a call that names this model would be charged by; works without a running gate
    #[command(after_help = "Example:\n  agentguard price check gpt-4o-2024-08-06")]
    Check {
        /// As calls name it
        model: String,
    },
    /// Set what a model costs, in US dollars for a million tokens; it holds from the next call
    #[command(after_help = EXAMPLES)]
    Set(Box<SetArgs>),
    /// Remove a price that was set; the file's or the program's holds again
    #[command(after_help = "Example:\n  agentguard price remove llama-3.3-70b")]
    Remove {
        /// As it was set
        model: String,
    },
}

#[derive(Debug, Args)]
pub(crate) struct SetArgs {
    /// The model's name, or the beginning of names and `*`
    model: String,
    /// Input
    #[arg(long, value_name = "USD")]
    input: String,
    /// Output
    #[arg(long, value_name = "USD")]
    output: String,
    /// Input from a cache [default: as input]
    #[arg(long, value_name = "USD")]
    cached_input: Option<String>,
    /// Input into a cache [default: as input]
    #[arg(long, value_name = "USD")]
    cache_write: Option<String>,
    /// The longest input [default: 2000000]
    #[arg(long, value_name = "N")]
    max_input_tokens: Option<u64>,
    /// The longest output, which is reserved where a call names none [default: 200000]
    #[arg(long, value_name = "N")]
    max_output_tokens: Option<u64>,
    /// It never thinks before it speaks
    #[arg(long)]
    no_reasoning: bool,
}

pub(crate) fn run(session: &Session, command: PriceCommand) -> Result<(), Failure> {
    match command {
        PriceCommand::List => {
            let prices = items(session.gate()?.get(&["prices"])?);
            session.show(&Value::Array(prices), list)
        }
        PriceCommand::Check { model } => check(session, &model),
        PriceCommand::Set(args) => {
            let spec = session.gate()?.put(&["prices", &args.model], &body(&args))?;
            session.show(&spec, |spec| {
                let (input, output) = (text(spec, "input"), text(spec, "output"));
                let model = text(spec, "model");
                format!("`{model}` costs {input} in and {output} out, USD for a million tokens")
            })
        }
        PriceCommand::Remove { model } => {
            let gate = session.gate()?;
            let removed = gate.delete(&["prices", &model])?;
            session.show(&removed, |spec| format!("the price of `{}` is gone", text(spec, "model")))
        }
    }
}

fn body(args: &SetArgs) -> Value {
    let fields = [
        ("input", json!(args.input)),
        ("output", json!(args.output)),
        ("cached_input", json!(args.cached_input)),
        ("cache_write", json!(args.cache_write)),
        ("max_input_tokens", json!(args.max_input_tokens)),
        ("max_output_tokens", json!(args.max_output_tokens)),
        ("reasons", json!(!args.no_reasoning)),
    ];
    let given = fields.into_iter().filter(|(_, value)| !value.is_null());
    Value::Object(given.map(|(name, value)| (name.to_owned(), value)).collect::<Map<_, _>>())
}

/// By the gate if one runs, else by what it would start with.
fn check(session: &Session, model: &str) -> Result<(), Failure> {
    let gate = session.gate()?;
    let (mut checked, asked) = if gate.is_ready() {
        (gate.get(&["prices", model])?, "gate")
    } else {
        (check_offline(session, model)?, "configuration")
    };
    if let Some(map) = checked.as_object_mut() {
        map.insert("asked_of".to_owned(), asked.into());
    }
    session.show(&checked, words)
}

fn check_offline(session: &Session, model: &str) -> Result<Value, Failure> {
    let table = up::prices(&session.load()?.config);
    let checked = Checked::of(&table, model).ok_or_else(|| unknown(&table, model))?;
    serde_json::to_value(checked).map_err(|error| Failure::because("showing the price", &error))
}

fn unknown(table: &PriceTable, model: &str) -> Failure {
    let shown = crate::table::printable(model);
    let set = format!("`agentguard price set '{shown}' --input … --output …` sets one");
    let nearest = table.nearest(model);
    let hint = match nearest.as_slice() {
        [] => set,
        near => format!("did you mean {}? {set}", near.join(", ")),
    };
    let said =
        format!("no price of model `{shown}` (no gate is running: prices set there are not seen)");
    Failure::failed(said).hint(hint)
}

fn words(checked: &Value) -> String {
    let nothing = Value::Null;
    let price = checked.get("price").unwrap_or(&nothing);
    let field = |name| text(price, name);
    let asked = text(checked, "asked");
    let entry = field("model");
    let why = match text(checked, "how").as_str() {
        "exact" => format!("the entry `{entry}`"),
        "dated_version" => format!("the entry `{entry}`, of which `{asked}` is a dated version"),
        "fine_tune" => format!("the entry `{entry}`, of which `{asked}` is a fine-tune"),
        "beginning" => format!("the entry `{entry}`, by the beginning of the name"),
        _ => "`proxy.fallback_price`: no entry fits".to_owned(),
    };
    let from = match field("origin").as_str() {
        "built_in" => format!("the program's own figures of {}", text(checked, "built_in_date")),
        "file" => "`proxy.prices_file`".to_owned(),
        "stored" => "set by an operator".to_owned(),
        _ => "the configuration".to_owned(),
    };
    let mut table = Table::new(["USD FOR A MILLION TOKENS", "USUAL", "LONG INPUT"]);
    let long = price.get("long");
    for (name, shown) in FIGURES {
        let long = long.map(|long| text(long, name)).unwrap_or_default();
        table.row([shown.to_owned(), field(name), long]);
    }
    let above = long.map(|long| text(long, "above_tokens"));
    let above = above.map_or_else(String::new, |n| format!("; long is above {n} tokens"));
    let thinks = match price.get("reasons") == Some(&Value::Bool(true)) {
        true => "may think unseen",
        false => "does not think unseen",
    };
    let offline = match text(checked, "asked_of").as_str() {
        "configuration" => "\nNo gate is running: prices that were set there are not seen here.",
        _ => "",
    };
    format!(
        "`{asked}` is charged by {why}\nfrom:    {from}\n\n{table}\n\n\
         limits:  {} tokens in, {} tokens out{above}; {thinks}\n\
         example: 1,000 tokens in and 1,000 out cost {} USD{offline}",
        field("max_input_tokens"),
        field("max_output_tokens"),
        text(checked, "example_usd"),
    )
}

const FIGURES: [(&str, &str); 5] = [
    ("input", "input"),
    ("cached_input", "input from a cache"),
    ("cache_write", "input into a cache"),
    ("cache_write_hour", "input into a cache for an hour"),
    ("output", "output"),
];

fn list(prices: &Value) -> String {
    let mut table = Table::new(["MODEL", "INPUT", "CACHED", "OUTPUT", "LONG ABOVE", "FROM"]);
    for price in prices.as_array().into_iter().flatten() {
        let field = |name| text(price, name);
        let long = price.get("long").map(|long| text(long, "above_tokens")).unwrap_or_default();
        table.row([
            field("model"),
            field("input"),
            field("cached_input"),
            field("output"),
            long,
            field("origin"),
        ]);
    }
    let date = built_in_date();
    format!("{table}\nIn US dollars for a million tokens. The built-in figures are of {date}.")
}
