//! `make bench`: what a decision, an admission, a recorded row, a stop, a call and a stream cost
//! on this machine, and how that compares with a forwarder that checks nothing.
//!
//! Figures are medians over interleaved rounds. Times are printed, never asserted: a busy machine is
//! no defect. Each run is kept in `bench/history.jsonl`, so that a trend can be seen.
#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::disallowed_methods,
    clippy::float_arithmetic,
    reason = "a bench prints figures, and stops loudly when it cannot measure"
)]

mod admit;
mod bare;
mod child;
mod decide;
mod field;
mod forward;
mod growth;
mod history;
mod kill;
mod load;
mod measure;
mod memory;
mod proc;
mod record;
mod setup;
mod streams;
mod upstream;
mod wire;
mod world;

use std::net::SocketAddr;

use measure::Figure;

/// The allocator that ships, since rows are made on one thread and freed on another.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const PARTS: [&str; 9] =
    ["decide", "admit", "record", "kill", "forward", "streams", "memory", "growth", "start"];

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.first().is_some_and(|word| word == child::ROLE) {
        return play(&words[1..]);
    }
    let asked = Asked::read(&words);
    let mut figures = Vec::new();
    for part in asked.parts {
        figures.extend(run(part, asked.requests, asked.rows));
    }
    history::show_and_keep(&figures);
}

fn run(part: &str, requests: u64, rows: u64) -> Vec<Figure> {
    match part {
        "decide" => decide::run(),
        "admit" => admit::run(),
        "record" => record::run(),
        "kill" => kill::run(),
        "forward" => forward::run(),
        "streams" => streams::run(),
        "memory" => memory::run(requests),
        "growth" => growth::run(),
        "start" => growth::starts(rows),
        other => unreachable!("{other} is no part"),
    }
}

/// What the command line asks for.
struct Asked {
    parts: Vec<&'static str>,
    /// For `memory`. The goal speaks of a million: `--requests 1000000`.
    requests: u64,
    /// For `start`. The goal speaks of ten million: `--rows 10000000`.
    rows: u64,
}

impl Asked {
    fn read(words: &[String]) -> Self {
        let mut asked = Self { parts: Vec::new(), requests: 200_000, rows: 1_000_000 };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let mut number = || words.next().and_then(|word| word.parse().ok());
            match word.as_str() {
                "--requests" => asked.requests = number().unwrap_or_else(|| wrong(word)),
                "--rows" => asked.rows = number().unwrap_or_else(|| wrong(word)),
                name => {
                    let part = PARTS.into_iter().find(|part| *part == name);
                    asked.parts.push(part.unwrap_or_else(|| wrong(word)));
                }
            }
        }
        if asked.parts.is_empty() {
            asked.parts = PARTS.to_vec();
        }
        asked
    }
}

fn wrong(word: &str) -> ! {
    println!("`{word}`? Parts: {}. Options: --requests N, --rows N.", PARTS.join(", "));
    std::process::exit(2)
}

/// This program as a part of its own bench.
fn play(words: &[String]) {
    let listen: SocketAddr = words[1].parse().expect("an address to listen at");
    match words[0].as_str() {
        "upstream" => upstream::run(listen),
        "bare" => bare::run(listen, &words[2]),
        other => unreachable!("{other} is no role"),
    }
}
