//! A call of a model, 1 KB of JSON, over kept connections: what each candidate adds to it.

use std::time::Duration;

use crate::field::{BARE, CONTROL, Candidate, Field, GATE_MODEL, GATE_PLAIN, cpu_at_rest};
use crate::load::{self, Until};
use crate::measure::{Figure, median, quantile};
use crate::proc::Tree;

const ROUNDS: usize = 6;
const BUSY: Duration = Duration::from_millis(2_000);
const ALONE: Duration = Duration::from_millis(600);
const CONNECTIONS: usize = 64;
/// Enough to fill pools and caches; not measured.
const WARM_UP: u64 = 5_000;

/// What was measured of one candidate, a value for each round.
#[derive(Debug, Default)]
struct Rounds {
    cpu: Vec<f64>,
    rate: Vec<f64>,
    p50: Vec<f64>,
    p99: Vec<f64>,
    added: Vec<f64>,
    rss: f64,
}

pub(crate) fn run() -> Vec<Figure> {
    let Some(field) = Field::start() else { return Vec::new() };
    let mut all: Vec<Rounds> = field.candidates.iter().map(|_| Rounds::default()).collect();
    for candidate in &field.candidates {
        load::requests(&field.target(candidate, None), CONNECTIONS, Until::Sent(WARM_UP));
    }
    for round in 0..ROUNDS {
        alone(&field, round, &mut all);
        for place in turn(round, all.len()) {
            busy(&field, &field.candidates[place], &mut all[place]);
        }
    }
    show(&field.candidates, &all);
    figures(&field.candidates, &all)
}

/// The order of one round: another one goes first each time.
pub(crate) fn turn(round: usize, count: usize) -> impl Iterator<Item = usize> {
    (0..count).map(move |place| (place + round) % count)
}

fn busy(field: &Field, candidate: &Candidate, rounds: &mut Rounds) {
    let tree = candidate.tree.unwrap_or(Tree(0));
    let before = tree.cpu();
    let loaded = load::requests(&field.target(candidate, None), CONNECTIONS, Until::Passed(BUSY));
    let used = cpu_at_rest(tree).seconds_since(&before);
    rounds.cpu.push(used * 1e6 / loaded.requests as f64);
    rounds.rate.push(loaded.requests as f64 / loaded.seconds);
    rounds.p50.push(loaded.micros(0.5));
    rounds.p99.push(loaded.micros(0.99));
    rounds.rss = tree.rss_mb();
}

/// One connection: how much longer than without anything between.
fn alone(field: &Field, round: usize, all: &mut [Rounds]) {
    let direct = load::requests(&field.direct(), 1, Until::Passed(ALONE)).micros(0.5);
    for place in turn(round, all.len()) {
        let target = field.target(&field.candidates[place], None);
        let through = load::requests(&target, 1, Until::Passed(ALONE)).micros(0.5);
        all[place].added.push(through - direct);
    }
}

fn show(candidates: &[Candidate], all: &[Rounds]) {
    println!(
        "\nforward: 1 KB JSON, kept connections, {ROUNDS} interleaved rounds; medians, × bare, \
         and the least disturbed round"
    );
    println!(
        "{:<14} {:>9} {:>7} {:>8} {:>9} {:>9} {:>9} {:>7} {:>10} {:>7} {:>8}",
        "candidate",
        "CPU µs",
        "× bare",
        "least µs",
        "req/s",
        "p50 µs",
        "p99 µs",
        "× bare",
        "alone +µs",
        "× bare",
        "RSS MB"
    );
    let bare = &all[0];
    for (candidate, rounds) in candidates.iter().zip(all) {
        println!(
            "{:<14} {:>9.1} {:>7.2} {:>8.1} {:>9.0} {:>9.0} {:>9.0} {:>7.2} {:>10.1} {:>7.2} {:>8.1}",
            candidate.name,
            median(rounds.cpu.clone()),
            ratio(&rounds.cpu, &bare.cpu),
            quantile(rounds.cpu.clone(), 0.0),
            median(rounds.rate.clone()),
            median(rounds.p50.clone()),
            median(rounds.p99.clone()),
            ratio(&rounds.p99, &bare.p99),
            median(rounds.added.clone()),
            ratio(&rounds.added, &bare.added),
            rounds.rss,
        );
    }
    let control = all.get(1).map_or(1.0, |control| ratio(&control.cpu, &bare.cpu));
    println!("noise: `{CONTROL}` is the same program as `{BARE}` and reads × {control:.2}");
}

/// The median of the rounds' ratios: what disturbs a round disturbs its neighbours.
pub(crate) fn ratio(of: &[f64], to: &[f64]) -> f64 {
    median(of.iter().zip(to).map(|(of, to)| of / to))
}

fn figures(candidates: &[Candidate], all: &[Rounds]) -> Vec<Figure> {
    let bare = &all[0];
    let mut figures = vec![Figure::new("forward, bare: CPU", median(bare.cpu.clone()), "µs", "")];
    for (candidate, rounds) in candidates.iter().zip(all).skip(1) {
        let is_gate = [GATE_PLAIN, GATE_MODEL].contains(&candidate.name);
        let goal = |text| if is_gate { text } else { "" };
        let mut add = |what: &str, value, goal| {
            figures.push(Figure::new(
                format!("forward, {}: {what}", candidate.name),
                value,
                "×",
                goal,
            ));
        };
        add("CPU per request, c=64, × bare", ratio(&rounds.cpu, &bare.cpu), goal("≤ 1.25"));
        add("added p50, c=1, × bare's", ratio(&rounds.added, &bare.added), goal("≤ 1.3"));
        add("p99, c=64, × bare", ratio(&rounds.p99, &bare.p99), goal("≤ 1.3"));
        if is_gate {
            let (what, rss) = (format!("forward, {}: memory", candidate.name), rounds.rss);
            figures.push(Figure::new(what, rss, "MB", "≤ 60 MB"));
        }
    }
    figures
}
