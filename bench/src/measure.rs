//! Medians of interleaved rounds, by the clock and by the CPU time of the whole process.

use std::time::Instant;

/// One measured figure.
#[derive(Debug, Clone)]
pub(crate) struct Figure {
    pub(crate) what: String,
    pub(crate) value: f64,
    pub(crate) unit: &'static str,
    pub(crate) goal: &'static str,
}

impl Figure {
    pub(crate) fn new(
        what: impl Into<String>,
        value: f64,
        unit: &'static str,
        goal: &'static str,
    ) -> Self {
        Self { what: what.into(), value, unit, goal }
    }
}

/// Nanoseconds an iteration, the median of `rounds` rounds.
pub(crate) fn nanos(rounds: usize, iterations: u32, mut work: impl FnMut()) -> f64 {
    median((0..rounds).map(|_| {
        let start = Instant::now();
        for _ in 0..iterations {
            work();
        }
        start.elapsed().as_nanos() as f64 / f64::from(iterations)
    }))
}

/// CPU nanoseconds, user and system, that all threads of this process have used.
pub(crate) fn cpu_nanos() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

/// CPU nanoseconds of this thread alone.
pub(crate) fn thread_cpu_nanos() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

/// The middle value.
pub(crate) fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    quantile(values, 0.5)
}

/// The value that this share of the values does not exceed.
pub(crate) fn quantile(values: impl IntoIterator<Item = f64>, share: f64) -> f64 {
    let mut sorted: Vec<f64> = values.into_iter().collect();
    sorted.sort_by(f64::total_cmp);
    let place = ((sorted.len() as f64 - 1.0) * share).ceil() as usize;
    sorted[place]
}
