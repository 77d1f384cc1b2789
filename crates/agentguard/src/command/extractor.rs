//! `agentguard service extractor …`

use std::path::Path;

use agentguard_core::Money;
use agentguard_core::extractor::{Extractor, ExtractorSpec};
use agentguard_proxy::{Sample, extract, matching};
use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use crate::failure::Failure;
use crate::session::{Session, items, text};
use crate::table::Table;

pub(crate) const EXAMPLES: &str = "\
Examples:
  agentguard service extractor add shop --method POST --path '/orders/*/pay' --amount '$.total' --scale minor --currency '$.currency'
  agentguard service extractor add search --path /v1/search --amount fixed:0.005
  agentguard service extractor add router --path /v1/run --source response --amount '$.usage.cost' --max 2.00
  echo '{\"total\": 12.5}' | agentguard service extractor try --amount '$.total' -";

#[derive(Debug, Subcommand)]
pub(crate) enum ExtractorCommand {
    /// Say where the calls of a service name their money; it is in force at once
    #[command(after_help = EXAMPLES)]
    Add(Box<AddArgs>),
    /// List the extractors of a service, in the order in which they are looked at
    #[command(after_help = "Example:\n  agentguard service extractor list shop")]
    List {
        /// The service
        alias: String,
    },
    /// Remove an extractor
    #[command(after_help = "Example:\n  agentguard service extractor remove shop 1")]
    Remove {
        /// The service
        alias: String,
        /// From `service extractor list`
        number: usize,
    },
    /// Show what an extractor would read from a sample; nothing is sent or charged
    #[command(after_help = "\
Examples:
  agentguard service extractor try --amount '$.total' --scale minor sample.json
  agentguard service extractor try shop --method POST --path /orders/7/pay sample.json")]
    Try(Box<TryArgs>),
}

/// What an extractor says about money.
#[derive(Debug, Args)]
pub(crate) struct Figures {
    /// Which side names the money
    #[arg(long, value_parser = ["request", "response"])]
    source: Option<String>,
    /// A factor, or `units`, `minor` (cents, by currency), `micros` [default: units]
    #[arg(long)]
    scale: Option<String>,
    /// `USD`, or where the code stands: a path into JSON, or `form:NAME` [default: USD]
    #[arg(long)]
    currency: Option<String>,
    /// What is reserved before a call whose answer names the money
    #[arg(long, value_name = "DECIMAL")]
    max: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct AddArgs {
    /// The service
    alias: String,
    /// Only calls of this method
    #[arg(long)]
    method: Option<String>,
    /// Which calls, below the base URL: `*` is one segment, `**` at the end is the rest
    #[arg(long, value_name = "PATTERN")]
    path: String,
    /// A path into JSON (`$.a[0].b`, `$.items[*].price`), `form:NAME`, or `fixed:0.04`
    #[arg(long)]
    amount: String,
    #[command(flatten)]
    figures: Figures,
}

#[derive(Debug, Args)]
pub(crate) struct TryArgs {
    /// A service whose extractors are tried, and then the sample; or only the sample (`-` is stdin)
    #[arg(value_name = "[ALIAS] FILE", num_args = 1..=2, required = true)]
    names: Vec<String>,
    /// The method of the call [default: POST]
    #[arg(long)]
    method: Option<String>,
    /// The path of the call below the base URL, with its query
    #[arg(long)]
    path: Option<String>,
    /// What to read, where no service is named
    #[arg(long)]
    amount: Option<String>,
    #[command(flatten)]
    figures: Figures,
    /// Of the sample [default: the one that is read]
    #[arg(long, value_name = "TYPE")]
    content_type: Option<String>,
}

pub(crate) fn run(session: &Session, command: ExtractorCommand) -> Result<(), Failure> {
    match command {
        ExtractorCommand::Add(args) => {
            let body = fields(&args.figures, &args.amount, &args.path, args.method.as_deref());
            let path = ["services", args.alias.as_str(), "extractors"];
            let added = session.gate()?.post(&path, &body)?;
            session.show(&added, |added| {
                let (number, path) = (text(added, "number"), text(added, "path"));
                format!("extractor {number} of `{}` reads calls to {path}", args.alias)
            })
        }
        ExtractorCommand::List { alias } => {
            let found = items(session.gate()?.get(&["services", &alias, "extractors"])?);
            session.show(&Value::Array(found), list)
        }
        ExtractorCommand::Remove { alias, number } => {
            let number = number.to_string();
            let path = ["services", alias.as_str(), "extractors", number.as_str()];
            let removed = session.gate()?.delete(&path)?;
            session.show(&removed, |removed| {
                format!("extractor {number} of `{alias}` ({}) is gone", text(removed, "path"))
            })
        }
        ExtractorCommand::Try(args) => try_one(session, &args),
    }
}

fn fields(figures: &Figures, amount: &str, path: &str, method: Option<&str>) -> Value {
    let fields = [
        ("method", json!(method)),
        ("path", json!(path)),
        ("source", json!(figures.source)),
        ("amount", json!(amount)),
        ("scale", json!(figures.scale)),
        ("currency", json!(figures.currency)),
        ("max", json!(figures.max)),
    ];
    let given = fields.into_iter().filter(|(_, value)| !value.is_null());
    Value::Object(given.map(|(name, value)| (name.to_owned(), value)).collect::<Map<_, _>>())
}

fn try_one(session: &Session, args: &TryArgs) -> Result<(), Failure> {
    let (alias, file) = match args.names.as_slice() {
        [file] => (None, file),
        [alias, file] => (Some(alias.as_str()), file),
        _ => return Err(Failure::usage("name a sample, and before it at most a service")),
    };
    let target = args.path.as_deref().unwrap_or("/");
    let (path, query) = target.split_once('?').map_or((target, None), |(p, q)| (p, Some(q)));
    let (extractor, number) = match alias {
        Some(alias) => of_service(session, args, alias, path)?,
        None => (of_flags(args)?, None),
    };
    let body = crate::command::policy::read_bytes(Path::new(file))?;
    let sample = Sample { content_type: args.content_type.as_deref(), query, body: &body };
    let money = extract(&extractor, sample).map_err(|why| {
        Failure::failed(format!("the amount cannot be read: {}", why.text()))
            .hint("such a call would be refused with AMOUNT_UNREADABLE")
    })?;
    let shown = shown(session, money, number)?;
    session.show(&shown, |shown| {
        let (amount, currency) = (text(shown, "amount"), text(shown, "currency"));
        match text(shown, "cost_usd") {
            usd if usd.is_empty() => {
                format!("{amount} {currency}; there is no rate for it in `currency_rates`")
            }
            usd => format!("{amount} {currency}, which counts as {usd} USD"),
        }
    })
}

fn of_flags(args: &TryArgs) -> Result<Extractor, Failure> {
    let amount = args.amount.as_deref().ok_or_else(|| {
        Failure::usage("parameter `amount`: say what to read with --amount, or name a service")
    })?;
    let mut fields = fields(&args.figures, amount, "/**", args.method.as_deref());
    // What is reserved does not matter to what is read.
    if let Some(map) = fields.as_object_mut()
        && map.get("source").and_then(Value::as_str) == Some("response")
    {
        map.entry("max").or_insert_with(|| "1".into());
    }
    let spec: ExtractorSpec = serde_json::from_value(fields)
        .map_err(|error| Failure::usage(format!("parameter {error}")))?;
    spec.compile().map_err(|error| Failure::usage(format!("parameter {error}")))
}

fn of_service(
    session: &Session,
    args: &TryArgs,
    alias: &str,
    path: &str,
) -> Result<(Extractor, Option<usize>), Failure> {
    if args.path.is_none() || args.amount.is_some() {
        let why = "with a service, say which call it is with --path (and --method), nothing else";
        return Err(Failure::usage(why));
    }
    let services = items(session.gate()?.get(&["services"])?);
    let found = services.into_iter().find(|service| text(service, "alias") == alias);
    let found = found.ok_or_else(|| Failure::failed(format!("no service `{alias}`")))?;
    let unread =
        |error: &dyn std::error::Error| Failure::because("reading the gate's answer", error);
    let specs = found.get("extractors").cloned().unwrap_or_else(|| json!([]));
    let specs: Vec<ExtractorSpec> = serde_json::from_value(specs).map_err(|e| unread(&e))?;
    let extractors: Vec<_> = specs
        .iter()
        .map(ExtractorSpec::compile)
        .collect::<Result<_, _>>()
        .map_err(|e| unread(&e))?;
    let method = args.method.as_deref().unwrap_or("POST");
    let place = matching(&extractors, method, path);
    let fitting = place.and_then(|place| Some((extractors.get(place)?.clone(), place)));
    let (extractor, place) = fitting.ok_or_else(|| {
        Failure::failed(format!("no extractor of `{alias}` fits {method} {path}"))
            .hint("what its kind of service counts by itself is not tried here")
    })?;
    Ok((extractor, Some(place.saturating_add(1))))
}

fn shown(session: &Session, money: Money, number: Option<usize>) -> Result<Value, Failure> {
    let rates = session.load_keys()?.config.currency_rates;
    let mut shown = json!({
        "amount": money.decimal(),
        "currency": money.currency(),
        "cost_usd": rates.to_usd(money),
    });
    if let (Some(map), Some(number)) = (shown.as_object_mut(), number) {
        map.insert("number".to_owned(), number.into());
    }
    Ok(shown)
}

fn list(extractors: &Value) -> String {
    let mut table =
        Table::new(["NUMBER", "METHOD", "PATH", "SOURCE", "AMOUNT", "SCALE", "CURRENCY", "MAX"]);
    for one in extractors.as_array().into_iter().flatten() {
        let field = |name| text(one, name);
        let method = Some(field("method")).filter(|method| !method.is_empty());
        table.row([
            field("number"),
            method.unwrap_or_else(|| "any".to_owned()),
            field("path"),
            field("source"),
            field("amount"),
            field("scale"),
            field("currency"),
            field("max"),
        ]);
    }
    table.to_string()
}
