//! `agentguard logs`, and what it shares with `logs export`: which rows, and who they are of.

use std::collections::HashMap;
use std::time::Duration;

use agentguard_core::{AgentId, Door};
use agentguard_gate::Decision;
use agentguard_store::{ExportRow, Filter, Reader, open_reader};
use clap::{Args, Subcommand};
use serde_json::json;

use super::export::{self, ExportArgs};
use crate::client::Client;
use crate::config::Config;
use crate::failure::Failure;
use crate::output;
use crate::session::{Session, items, text};
use crate::table::{Table, printable};

pub(crate) const EXAMPLES: &str = "\
Examples:
  agentguard logs -n 50 --decision block
  agentguard logs --follow
  agentguard logs export --format csv --output actions.csv";

/// New rows are written every two seconds; looking more often than this shows them no sooner.
const LOOK_EVERY: Duration = Duration::from_millis(500);

#[derive(Debug, Args)]
pub(crate) struct LogsArgs {
    #[command(subcommand)]
    command: Option<LogsCommand>,
    /// Go on showing new rows
    #[arg(long, short)]
    follow: bool,
    /// So many of the latest rows
    #[arg(short = 'n', long = "lines", value_name = "N", default_value_t = 20)]
    count: u32,
    #[command(flatten)]
    wanted: Wanted,
}

#[derive(Debug, Subcommand)]
enum LogsCommand {
    /// Take rows out, as JSON lines or CSV
    #[command(after_help = export::EXAMPLES)]
    Export(Box<ExportArgs>),
}

/// Which rows.
#[derive(Clone, Debug, Args)]
pub(crate) struct Wanted {
    /// Only of this agent (name or id)
    #[arg(long, value_name = "NAME")]
    pub(crate) agent: Option<String>,
    /// Only with this decision
    #[arg(long, value_parser = ["allow", "block", "error"])]
    pub(crate) decision: Option<String>,
    /// Only through this door
    #[arg(long, value_parser = ["api", "web", "exec", "browser", "pipe"])]
    pub(crate) door: Option<String>,
}

pub(crate) fn run(session: &Session, args: LogsArgs) -> Result<(), Failure> {
    match args.command {
        Some(LogsCommand::Export(export)) => export::run(session, &export),
        None => show(session, &args),
    }
}

/// The record, brought up to date by the running gate if there is one.
pub(crate) struct Source {
    pub(crate) reader: Reader,
    /// Agents by id, as far as a running gate tells.
    names: HashMap<String, String>,
}

impl Source {
    pub(crate) fn open(config: &Config) -> Result<Self, Failure> {
        let client = Client::new(config.admin.bind, &config.data_dir)?;
        let mut names = HashMap::new();
        if client.is_ready() {
            match client.post(&["record", "flush"], &json!({})) {
                Ok(_) => {}
                Err(failure) => {
                    output::warn(&format!("the latest rows may be missing: {}", failure.message()))
                }
            }
            for agent in client.get(&["agents"]).map(items).unwrap_or_default() {
                names.insert(text(&agent, "id"), text(&agent, "name"));
            }
        }
        let reader = open_reader(&config.data_dir).map_err(|error| {
            Failure::because("opening the record", &error)
                .hint("is `data_dir` right? `agentguard doctor` looks at it")
        })?;
        Ok(Self { reader, names })
    }

    pub(crate) fn filter(&self, wanted: &Wanted) -> Result<Filter, Failure> {
        let agent = wanted.agent.as_deref().map(|name| self.agent(name)).transpose()?;
        Ok(Filter {
            agent,
            decision: wanted.decision.as_deref().and_then(Decision::from_name),
            door: wanted.door.as_deref().and_then(Door::from_name),
            ..Filter::default()
        })
    }

    fn agent(&self, wanted: &str) -> Result<AgentId, Failure> {
        let by_name =
            self.names.iter().find(|(_, name)| *name == wanted).map(|(id, _)| id.as_str());
        by_name.unwrap_or(wanted).parse().map_err(|_| {
            let failure = Failure::failed(format!("no agent `{wanted}`"));
            if self.names.is_empty() {
                return failure.hint("no gate is running that knows names: give the agent's id");
            }
            failure.hint("`agentguard agent list` shows them")
        })
    }

    fn name(&self, row: &ExportRow) -> String {
        let id = row.agent_id.as_deref().unwrap_or("-");
        self.names.get(id).map_or(id, String::as_str).to_owned()
    }
}

fn show(session: &Session, args: &LogsArgs) -> Result<(), Failure> {
    let config = session.load_keys()?.config;
    let source = Source::open(&config)?;
    let mut filter = source.filter(&args.wanted)?;
    let read = |error| Failure::because("reading the record", &error);
    let last = source.reader.last_seq().map_err(read)?;
    let rows = source.reader.latest(&filter, args.count).map_err(read)?;
    if !args.follow {
        if session.json() {
            return output::json(&rows);
        }
        return output::line(&table(&source, &rows));
    }
    let tell = |row: &ExportRow| match session.json() {
        true => output::json(row),
        false => output::line(&line(&source, row)),
    };
    rows.iter().try_for_each(tell)?;
    filter.after_seq = Some(last);
    loop {
        std::thread::sleep(LOOK_EVERY);
        let mut told = Ok(());
        let mut seen = filter.after_seq;
        source
            .reader
            .export(&filter, &mut |row| {
                seen = Some(row.seq);
                told = tell(&row);
                match told {
                    Ok(()) => std::ops::ControlFlow::Continue(()),
                    Err(_) => std::ops::ControlFlow::Break(()),
                }
            })
            .map_err(read)?;
        told?;
        filter.after_seq = seen;
    }
}

fn table(source: &Source, rows: &[ExportRow]) -> String {
    if rows.is_empty() {
        return "no rows".to_owned();
    }
    let mut table = Table::new([
        "TIME", "AGENT", "DOOR", "DECISION", "STATUS", "COST", "METHOD", "TARGET", "REASON",
    ]);
    for row in rows {
        table.row(cells(source, row));
    }
    table.to_string()
}

/// While following, the widths of what is still to come are not known.
fn line(source: &Source, row: &ExportRow) -> String {
    let [time, agent, door, decision, status, cost, method, target, reason] =
        cells(source, row).map(|cell| printable(&cell));
    format!("{time}  {agent:<12}  {door:<7}  {decision:<5}  {status:<3}  {cost:>8}  {method:<6}  {target}  {reason}")
        .trim_end()
        .to_owned()
}

fn cells(source: &Source, row: &ExportRow) -> [String; 9] {
    [
        row.timestamp.to_rfc3339(),
        source.name(row),
        row.door.clone(),
        row.decision.clone(),
        row.response_status.map(|status| status.to_string()).unwrap_or_default(),
        row.cost.clone(),
        row.method.clone(),
        row.target_url.clone(),
        row.block_reason.clone().unwrap_or_default(),
    ]
}
