//! `make bench`: what a decision, an admission, a recorded row and a stop cost on this machine.
//!
//! Figures are medians over interleaved rounds. Times are printed, never asserted: a busy machine is
//! no defect. The last results are kept in `bench/results.jsonl`, so that a trend can be seen.
#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::disallowed_methods,
    clippy::float_arithmetic,
    reason = "a bench prints figures, and stops loudly when it cannot measure"
)]

mod admit;
mod decide;
mod kill;
mod measure;
mod record;
mod world;

use std::io::Write as _;

use measure::Figure;

/// The allocator that ships, since rows are made on one thread and freed on another.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    let asked = |name: &str| wanted.is_empty() || wanted.iter().any(|word| word == name);
    let mut figures = Vec::new();
    if asked("decide") {
        figures.extend(decide::run());
    }
    if asked("admit") {
        figures.extend(admit::run());
    }
    if asked("record") {
        figures.extend(record::run());
    }
    if asked("kill") {
        figures.extend(kill::run());
    }
    println!("{:<58} {:>12} {:<8} goal", "what", "measured", "unit");
    for figure in &figures {
        println!("{:<58} {:>12.2} {:<8} {}", figure.what, figure.value, figure.unit, figure.goal);
    }
    keep(&figures);
}

/// Appends the run to the file of results.
fn keep(figures: &[Figure]) {
    let at = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |t| t.as_secs());
    let values: serde_json::Map<_, _> = figures
        .iter()
        .map(|figure| (figure.what.clone(), serde_json::json!(figure.value)))
        .collect();
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("results.jsonl");
    let line = serde_json::json!({"at": at, "values": values});
    let file = std::fs::OpenOptions::new().create(true).append(true).open(&path);
    match file.and_then(|mut file| writeln!(file, "{line}")) {
        Ok(()) => println!("\nkept in {}", path.display()),
        Err(error) => println!("\nnot kept: {error}"),
    }
}
