//! Streams of events: what an event costs, how soon the first one comes, and what an open one holds.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use crate::field::{BARE, CONTROL, Candidate, Field, GATE_MODEL, GATE_PLAIN, cpu_at_rest};
use crate::forward::{ratio, turn};
use crate::load;
use crate::measure::{Figure, median};
use crate::proc::Tree;

const ROUNDS: usize = 4;
const PACED: u32 = 100;
/// 20 events a second, for three seconds.
const PACE: &str = "60,50";
/// Openings do not wait for each other on a machine that keeps up.
const PACED_APART: Duration = Duration::from_millis(5);
const MANY: u32 = 1_000;
const MANY_APART: Duration = Duration::from_millis(1);
/// Long enough that all are open at once for some seconds.
const SLOW_PACE: &str = "16,250";

#[derive(Debug, Default)]
struct Rounds {
    cpu: Vec<f64>,
    first: Vec<f64>,
    rss: f64,
    complete: u32,
}

pub(crate) fn run() -> Vec<Figure> {
    let Some(field) = Field::start() else { return Vec::new() };
    let mut all: Vec<Rounds> = field.candidates.iter().map(|_| Rounds::default()).collect();
    for round in 0..=ROUNDS {
        for place in turn(round, all.len()) {
            let candidate = &field.candidates[place];
            let tree = candidate.tree.unwrap_or(Tree(0));
            let before = cpu_at_rest(tree);
            let target = field.target(candidate, Some(PACE));
            let seen = load::streams(&target, (PACED, PACED_APART), || {});
            let used = cpu_at_rest(tree).seconds_since(&before);
            assert!(seen.complete == PACED, "{}: streams broke off", candidate.name);
            // The first round fills pools and caches.
            if round > 0 {
                all[place].cpu.push(used * 1e6 / seen.events as f64);
                all[place].first.push(seen.first_micros(0.5));
            }
        }
    }
    // The gate once: one process serves both of its services, and what the first load left in it could
    // not be told from the second.
    let once = |candidate: &&Candidate| candidate.name != GATE_PLAIN;
    for (candidate, rounds) in field.candidates.iter().zip(&mut all).filter(|(one, _)| once(one)) {
        let tree = candidate.tree.unwrap_or(Tree(0));
        let rss = Rc::new(Cell::new(0.0));
        let seen = {
            let rss = Rc::clone(&rss);
            let target = field.target(candidate, Some(SLOW_PACE));
            load::streams(&target, (MANY, MANY_APART), move || rss.set(tree.rss_mb()))
        };
        (rounds.rss, rounds.complete) = (rss.get(), seen.complete);
    }
    show(&field, &all);
    figures(&field, &all)
}

fn show(field: &Field, all: &[Rounds]) {
    println!(
        "\nstreams: {PACED} at 20 events a second, {ROUNDS} interleaved rounds; then {MANY} at once"
    );
    println!(
        "{:<14} {:>13} {:>7} {:>14} {:>7} {:>14} {:>9}",
        "candidate",
        "CPU µs/event",
        "× bare",
        "first event µs",
        "× bare",
        "RSS MB, 1,000",
        "complete"
    );
    for (candidate, rounds) in field.candidates.iter().zip(all) {
        let (rss, complete) = match rounds.complete {
            0 => ("-".to_owned(), "-".to_owned()),
            complete => (format!("{:.1}", rounds.rss), complete.to_string()),
        };
        println!(
            "{:<14} {:>13.1} {:>7.2} {:>14.0} {:>7.2} {rss:>14} {complete:>9}",
            candidate.name,
            median(rounds.cpu.clone()),
            ratio(&rounds.cpu, &all[0].cpu),
            median(rounds.first.clone()),
            ratio(&rounds.first, &all[0].first),
        );
    }
    let control = all.get(1).map_or(1.0, |control| ratio(&control.cpu, &all[0].cpu));
    println!("noise: `{CONTROL}` is the same program as `{BARE}` and reads × {control:.2}");
}

fn figures(field: &Field, all: &[Rounds]) -> Vec<Figure> {
    let mut figures = Vec::new();
    for (candidate, rounds) in field.candidates.iter().zip(all).skip(1) {
        let is_gate = [GATE_PLAIN, GATE_MODEL].contains(&candidate.name);
        let mut add = |what: &str, value, unit, goal| {
            let goal = if is_gate { goal } else { "" };
            let what = format!("streams, {}: {what}", candidate.name);
            figures.push(Figure::new(what, value, unit, goal));
        };
        add("CPU per event, × bare", ratio(&rounds.cpu, &all[0].cpu), "×", "≤ 1.15");
        add("first event p50, × bare", ratio(&rounds.first, &all[0].first), "×", "≤ 1.15");
        if rounds.complete > 0 {
            add("memory, 1,000 open", rounds.rss, "MB", "≤ 80 MB");
            add("complete of 1,000", f64::from(rounds.complete), "", "1,000");
        }
    }
    figures
}
