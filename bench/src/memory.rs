//! Whether the gate's memory stays flat while requests pass.

use crate::field::{Field, GATE_MODEL};
use crate::load::{self, Until};
use crate::measure::Figure;
use crate::proc::Tree;

const CONNECTIONS: usize = 64;
/// Pools and caches are full by then: growth is counted from here.
const START: u64 = 10_000;
const SAMPLES: u64 = 10;

pub(crate) fn run(requests: u64) -> Vec<Figure> {
    let Some(field) = Field::start() else { return Vec::new() };
    let Some(gate) = field.candidates.iter().find(|one| one.name == GATE_MODEL) else {
        return Vec::new();
    };
    let tree = gate.tree.unwrap_or(Tree(0));
    let target = field.target(gate, None);
    println!("\nmemory: RSS of the gate, c={CONNECTIONS}, every request recorded");
    let mut samples = Vec::new();
    let mut sent = 0;
    let step = (requests.saturating_sub(START) / SAMPLES).max(1);
    for batch in std::iter::once(START).chain((0..SAMPLES).map(|_| step)) {
        load::requests(&target, CONNECTIONS, Until::Sent(batch));
        sent += batch;
        let rss = tree.rss_mb();
        println!("  {sent:>9} requests {rss:>8.1} MB");
        samples.push((sent as f64 / 1e6, rss));
    }
    let (first, last) = (samples[0].1, samples[samples.len() - 1].1);
    vec![
        Figure::new(format!("memory after {START} requests"), first, "MB", ""),
        Figure::new(format!("memory after {sent} requests"), last, "MB", "≤ 60 MB"),
        Figure::new(
            "memory: slope of the second half",
            slope(&samples[samples.len() / 2..]),
            "MB/M",
            "flat",
        ),
    ]
}

/// MB a million requests, by least squares.
fn slope(samples: &[(f64, f64)]) -> f64 {
    let count = samples.len() as f64;
    let mean_x = samples.iter().map(|(x, _)| x).sum::<f64>() / count;
    let mean_y = samples.iter().map(|(_, y)| y).sum::<f64>() / count;
    let rise: f64 = samples.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum();
    let run: f64 = samples.iter().map(|(x, _)| (x - mean_x).powi(2)).sum();
    rise / run
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_straight_line_has_its_slope() {
        assert!((super::slope(&[(0.0, 1.0), (1.0, 3.0), (2.0, 5.0)]) - 2.0).abs() < 1e-9);
    }
}
