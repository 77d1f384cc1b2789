//! `agentguard logs export`: row by row, so that a million of them need no more memory than one.

mod csv;

use std::fs::OpenOptions;
use std::io::{self, BufWriter, Write};
use std::ops::ControlFlow;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;

use agentguard_core::Timestamp;
use agentguard_store::ExportRow;
use clap::{Args, ValueEnum};

use super::logs::{Source, Wanted};
use crate::failure::Failure;
use crate::output;
use crate::session::Session;

pub(crate) const EXAMPLES: &str = "\
Examples:
  agentguard logs export --format jsonl > actions.jsonl
  agentguard logs export --format csv --from 2026-01-01 --agent ads-bot --output actions.csv";

#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// How rows are written
    #[arg(long, value_enum, default_value_t = Format::Jsonl)]
    format: Format,
    /// Asked at this time or later: 2026-11-15, or 2026-11-15T21:00:00Z
    #[arg(long, value_name = "TIME", value_parser = time)]
    from: Option<Timestamp>,
    /// Asked before this time
    #[arg(long, value_name = "TIME", value_parser = time)]
    to: Option<Timestamp>,
    #[command(flatten)]
    wanted: Wanted,
    /// Into this file, which only you may read [default: stdout]
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Jsonl,
    Csv,
}

pub(crate) fn run(session: &Session, args: &ExportArgs) -> Result<(), Failure> {
    let config = session.load_keys()?.config;
    let source = Source::open(&config)?;
    let mut filter = source.filter(&args.wanted)?;
    (filter.from, filter.to) = (args.from, args.to);
    let mut sink: Box<dyn Write> = match &args.output {
        None => Box::new(BufWriter::new(io::stdout().lock())),
        Some(path) => {
            let mut options = OpenOptions::new();
            options.write(true).create(true).truncate(true).mode(0o600);
            let file = options.open(path).map_err(|error| {
                Failure::failed(format!("writing `{}`: {error}", path.display()))
            })?;
            Box::new(BufWriter::new(file))
        }
    };
    if args.format == Format::Csv {
        writeln!(sink, "{}", csv::line(COLUMNS.into_iter()))?;
    }
    let mut written: io::Result<()> = Ok(());
    let mut rows: u64 = 0;
    source
        .reader
        .export(&filter, &mut |row| {
            written = write_row(&mut sink, args.format, &row);
            rows = rows.saturating_add(1);
            if written.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })
        .map_err(|error| Failure::because("reading the record", &error))?;
    written?;
    sink.flush()?;
    if let Some(path) = &args.output {
        output::note(&format!("{rows} rows in {}", path.display()));
    }
    Ok(())
}

fn write_row(sink: &mut dyn Write, format: Format, row: &ExportRow) -> io::Result<()> {
    match format {
        Format::Jsonl => {
            serde_json::to_writer(&mut *sink, row)?;
            sink.write_all(b"\n")
        }
        Format::Csv => {
            let cells = cells(row);
            writeln!(sink, "{}", csv::line(cells.iter().map(String::as_str)))
        }
    }
}

/// The columns of JSON lines, by the same names.
const COLUMNS: [&str; 23] = [
    "seq",
    "id",
    "agent_id",
    "timestamp",
    "door",
    "method",
    "target_url",
    "target_service",
    "amount",
    "amount_micros",
    "currency",
    "cost",
    "cost_micros",
    "decision",
    "block_reason",
    "rule_id",
    "response_status",
    "latency_ms",
    "is_streaming",
    "estimated",
    "risk",
    "facts",
    "hash",
];

fn cells(row: &ExportRow) -> [String; COLUMNS.len()] {
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    let number = |value: Option<i64>| value.map(|value| value.to_string()).unwrap_or_default();
    [
        row.seq.to_string(),
        row.id.clone(),
        text(&row.agent_id),
        row.timestamp.to_rfc3339(),
        row.door.clone(),
        row.method.clone(),
        row.target_url.clone(),
        text(&row.target_service),
        text(&row.amount),
        number(row.amount_micros),
        text(&row.currency),
        row.cost.clone(),
        row.cost_micros.to_string(),
        row.decision.clone(),
        text(&row.block_reason),
        text(&row.rule_id),
        number(row.response_status),
        row.latency_ms.clone(),
        row.is_streaming.to_string(),
        row.estimated.to_string(),
        row.risk.as_ref().map(|risk| risk.get().to_owned()).unwrap_or_default(),
        row.facts.as_ref().map(|facts| facts.get().to_owned()).unwrap_or_default(),
        row.hash.clone(),
    ]
}

/// A day means its first instant, in UTC, as on the record.
fn time(text: &str) -> Result<Timestamp, String> {
    Timestamp::parse_rfc3339(text)
        .or_else(|| Timestamp::parse_rfc3339(&format!("{text}T00:00:00Z")))
        .ok_or_else(|| "write it as 2026-11-15 or 2026-11-15T21:00:00Z".to_owned())
}
