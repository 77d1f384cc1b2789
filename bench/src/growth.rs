//! What a request and a start cost as agents, rules and rows grow.

use std::time::{Duration, Instant};

use agentguard_testkit::{GateConfig, GateProcess, ports};

use crate::child::{Process, gate_binary};
use crate::field::{cpu_at_rest, request};
use crate::forward::{ratio, turn};
use crate::load::{self, Target, Until};
use crate::measure::{Figure, median};
use crate::proc::Tree;
use crate::record::fill;
use crate::setup::{Gated, Size};

const ROUNDS: usize = 5;
const BUSY: Duration = Duration::from_millis(1_500);
const CONNECTIONS: usize = 64;
const WARM_UP: u64 = 10_000;
const STARTS: usize = 3;

/// The first is what the others are compared with.
const SIZES: [(&str, Size); 4] = [
    ("1 agent, 30 rules", Size { agents: 1, rules: 30 }),
    ("1,000 agents, 30 rules", Size { agents: 1_000, rules: 30 }),
    ("10,000 agents, 30 rules", Size { agents: 10_000, rules: 30 }),
    ("1 agent, 1,000 rules", Size { agents: 1, rules: 1_000 }),
];

struct Grown {
    tree: Tree,
    target: Target,
    cpu: Vec<f64>,
    _gate: GateProcess,
}

pub(crate) fn run() -> Vec<Figure> {
    let Some(binary) = gate_binary() else {
        println!("growth: no release binary of `agentguard`; run `make bench`");
        return Vec::new();
    };
    let [addr] = ports::free();
    let _upstream = Process::role("upstream", addr, &[]);
    let mut all: Vec<Grown> = SIZES
        .iter()
        .map(|(_, size)| {
            let Gated { gate, tokens } = Gated::start(&binary, addr, *size);
            let tree = Tree(gate.pid().expect("the gate runs"));
            let requests =
                tokens.iter().map(|token| request("/proxy/model", token, None)).collect();
            let target = Target { addr: gate.proxy_addr(), requests };
            load::requests(&target, CONNECTIONS, Until::Sent(WARM_UP));
            Grown { tree, target, cpu: Vec::new(), _gate: gate }
        })
        .collect();
    for round in 0..ROUNDS {
        for place in turn(round, all.len()) {
            let grown = &mut all[place];
            let before = cpu_at_rest(grown.tree);
            let loaded = load::requests(&grown.target, CONNECTIONS, Until::Passed(BUSY));
            let used = cpu_at_rest(grown.tree).seconds_since(&before);
            grown.cpu.push(used * 1e6 / loaded.requests as f64);
        }
    }
    println!("\ngrowth: every request by another agent; {ROUNDS} interleaved rounds");
    let mut figures = Vec::new();
    for ((name, _), grown) in SIZES.iter().zip(&all) {
        let (cpu, times) = (median(grown.cpu.clone()), ratio(&grown.cpu, &all[0].cpu));
        let rss = grown.tree.rss_mb();
        println!("  {name:<26} {cpu:>7.1} µs CPU a request, × {times:.2}; {rss:.1} MB");
        figures.push(Figure::new(
            format!("growth, {name}: CPU × the smallest"),
            times,
            "×",
            "flat",
        ));
    }
    figures
}

/// How long a start takes on an empty record and on a long one.
pub(crate) fn starts(rows: u64) -> Vec<Figure> {
    let Some(binary) = gate_binary() else { return Vec::new() };
    let mut figures = Vec::new();
    for rows in [0, rows] {
        let mut gate = GateProcess::prepare(&binary, GateConfig::new());
        fill(gate.folder(), rows);
        let times = (0..STARTS).map(|_| {
            let begin = Instant::now();
            gate.launch().expect("a gate that starts");
            let took = begin.elapsed().as_secs_f64() * 1e3;
            gate.terminate();
            took
        });
        let took = median(times.collect::<Vec<_>>());
        let goal = if rows == 0 { "" } else { "< 2 s with 10 million" };
        figures.push(Figure::new(
            format!("start with {rows} rows on the record"),
            took,
            "ms",
            goal,
        ));
    }
    figures
}
