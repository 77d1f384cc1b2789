//! `agentguard service …`

mod credential;

use agentguard_core::service::ServiceKind;
use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use crate::command::extractor;
use crate::failure::Failure;
use crate::session::{Session, items, text};
use crate::table::Table;

pub(crate) const EXAMPLES: &str = "\
Examples:
  agentguard service set billing --base-url https://billing.example.com
  agentguard service set local-model --base-url http://127.0.0.1:11434 --kind openai --allow-private
  agentguard service set openai --credential-env OPENAI_API_KEY
  agentguard service set billing --timeout-sec 60
  agentguard service set realtime --base-url https://realtime.example.com --allow-websocket";

#[derive(Debug, Subcommand)]
pub(crate) enum ServiceCommand {
    /// Add a service, or change what is given of it
    #[command(after_help = EXAMPLES)]
    Set(Box<SetArgs>),
    /// Extractors: where its calls name money
    #[command(subcommand, after_help = extractor::EXAMPLES)]
    Extractor(extractor::ExtractorCommand),
    /// List services
    #[command(after_help = "Example:\n  agentguard service list")]
    List,
    /// Show a service
    #[command(after_help = "Example:\n  agentguard service show openai")]
    Show {
        /// The name in /proxy/<ALIAS>/…
        alias: String,
    },
    /// Remove a service
    #[command(after_help = "Example:\n  agentguard service remove billing")]
    Remove {
        /// The name in /proxy/<ALIAS>/…
        alias: String,
    },
}

#[derive(Debug, Args)]
pub(crate) struct SetArgs {
    /// The name in /proxy/<ALIAS>/…
    alias: String,
    /// Where the alias leads; needed for a new service
    #[arg(long, value_name = "URL")]
    base_url: Option<String>,
    /// How its money is read [default: generic]
    #[arg(long, value_parser = kinds())]
    kind: Option<String>,
    /// Let it be on a private address
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    allow_private: Option<bool>,
    /// Do not check its certificate: anybody on the way can read and change what is sent
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    insecure_skip_tls_verify: Option<bool>,
    /// Let WebSockets be opened to it; their bytes are counted, not read
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    allow_websocket: Option<bool>,
    /// A PEM file with further roots; empty takes it away
    #[arg(long, value_name = "FILE")]
    ca_file: Option<String>,
    #[command(flatten)]
    credential: credential::CredentialArgs,
    /// Seconds to wait for the head of an answer
    #[arg(long, value_name = "N")]
    timeout_sec: Option<u32>,
}

pub(crate) fn run(session: &Session, command: ServiceCommand) -> Result<(), Failure> {
    let gate = || session.gate();
    match command {
        ServiceCommand::Extractor(command) => extractor::run(session, command),
        ServiceCommand::Set(args) => {
            let put = gate()?.put(&["services", &args.alias], &patch(&args)?);
            let service = put.map_err(|failure| args.credential.explain(failure))?;
            if args.insecure_skip_tls_verify == Some(true) {
                crate::output::warn("the certificate of this service is not checked any more");
            }
            if service.get("credential_dropped") == Some(&Value::Bool(true)) {
                crate::output::warn(&format!(
                    "its credential was for another origin and is gone: store one for this one with \
                     `agentguard service set {} --credential-env NAME`",
                    args.alias
                ));
            }
            session.show(&service, described)
        }
        ServiceCommand::Show { alias } => {
            session.show(&gate()?.get(&["services", &alias])?, described)
        }
        ServiceCommand::List => {
            let services = items(gate()?.get(&["services"])?);
            session.show(&Value::Array(services), list)
        }
        ServiceCommand::Remove { alias } => {
            let service = gate()?.delete(&["services", &alias])?;
            session
                .show(&service, |service| format!("service `{}` is gone", text(service, "alias")))
        }
    }
}

fn kinds() -> PossibleValuesParser {
    PossibleValuesParser::new(ServiceKind::ALL.map(ServiceKind::name))
}

fn patch(args: &SetArgs) -> Result<Value, Failure> {
    let ca_file = args.ca_file.as_deref().map(certificates).transpose()?;
    let fields = [
        ("base_url", json!(args.base_url)),
        ("kind", json!(args.kind)),
        ("allow_private", json!(args.allow_private)),
        ("insecure_skip_tls_verify", json!(args.insecure_skip_tls_verify)),
        ("allow_websocket", json!(args.allow_websocket)),
        ("ca_file", json!(ca_file)),
        ("timeout_sec", json!(args.timeout_sec)),
    ];
    let credential = args.credential.fields()?;
    let given = fields.into_iter().chain(credential).filter(|(_, value)| !value.is_null());
    Ok(Value::Object(given.map(|(name, value)| (name.to_owned(), value)).collect::<Map<_, _>>()))
}

/// The gate reads the file later and from its own folder: so the whole path, and a look now.
fn certificates(file: &str) -> Result<String, Failure> {
    if file.is_empty() {
        return Ok(String::new());
    }
    let wrong = |why: String| Failure::usage(format!("parameter `ca_file`: `{file}` {why}"));
    let path = std::path::absolute(file).map_err(|error| wrong(format!("is no path: {error}")))?;
    let bytes = std::fs::read(&path).map_err(|error| wrong(format!("cannot be read: {error}")))?;
    let mark = b"-----BEGIN CERTIFICATE-----";
    if !bytes.windows(mark.len()).any(|part| part == mark) {
        return Err(wrong("holds no PEM certificate".to_owned()));
    }
    path.into_os_string().into_string().map_err(|_| wrong("is not UTF-8".to_owned()))
}

fn described(service: &Value) -> String {
    let (alias, url) = (text(service, "alias"), text(service, "base_url"));
    let held = match service.get("credential").and_then(Value::as_str) {
        Some("stored") => "; its credential is stored".to_owned(),
        Some("env") => {
            let name = text(service, "credential_env");
            format!("; its credential is the variable {name} of the gate's environment")
        }
        Some(_) => {
            let why = text(service, "credential_problem");
            format!("; its credential cannot be used: {why}")
        }
        None => String::new(),
    };
    format!("service `{alias}` ({}) leads to {url}{held}", text(service, "kind"))
}

fn list(services: &Value) -> String {
    let mut table = Table::new(["ALIAS", "KIND", "BASE URL", "OPTIONS"]);
    for service in services.as_array().into_iter().flatten() {
        table.row([
            text(service, "alias"),
            text(service, "kind"),
            text(service, "base_url"),
            options(service),
        ]);
    }
    table.to_string()
}

fn options(service: &Value) -> String {
    let switches = ["allow_private", "insecure_skip_tls_verify", "allow_websocket"];
    let on = switches.into_iter().filter(|name| service.get(*name) == Some(&Value::Bool(true)));
    let values =
        ["ca_file", "credential", "credential_env", "timeout_sec"].into_iter().filter_map(|name| {
            service.get(name).filter(|value| !value.is_null())?;
            Some(format!("{name}={}", text(service, name)))
        });
    let extractors = service.get("extractors").and_then(Value::as_array);
    let extractors = extractors.map(|all| format!("extractors={}", all.len()));
    on.map(str::to_owned).chain(values).chain(extractors).collect::<Vec<_>>().join(" ")
}
