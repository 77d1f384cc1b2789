//! The gate's clock: the machine's time, that never goes back.
#![expect(clippy::disallowed_methods, reason = "the one place that reads the machine's clock")]

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use agentguard_core::Timestamp;

/// Wall time that only moves forward. Setting the machine's clock back must not give an agent its
/// day's budget a second time, so then the time since the start is counted on instead.
#[derive(Debug)]
pub struct Clock {
    base_micros: i64,
    started: Instant,
    latest: AtomicI64,
}

/// How far the machine's clock may be behind the record before it counts as set back: clocks are
/// corrected by a second or so all the time.
const SET_BACK_MICROS: i64 = 60_000_000;

impl Clock {
    /// A clock that does not start before `floor`, the last time on the record. Says by how many
    /// seconds the machine's clock is behind that, if it was set back.
    pub fn starting_after(floor: Option<Timestamp>) -> (Self, Option<i64>) {
        let wall = wall_micros();
        let floor = floor.map_or(i64::MIN, Timestamp::as_micros);
        let behind = floor.saturating_sub(wall);
        let base_micros = wall.max(floor);
        let clock =
            Self { base_micros, started: Instant::now(), latest: AtomicI64::new(base_micros) };
        (clock, (behind > SET_BACK_MICROS).then(|| behind.div_euclid(1_000_000)))
    }

    /// Now.
    pub fn now(&self) -> Timestamp {
        let elapsed = i64::try_from(self.started.elapsed().as_micros()).unwrap_or(i64::MAX);
        let now = wall_micros().max(self.base_micros.saturating_add(elapsed));
        Timestamp::from_micros(self.latest.fetch_max(now, Ordering::Relaxed).max(now))
    }
}

fn wall_micros() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_behind_the_record_goes_on_from_the_record() {
        let ahead = Timestamp::from_micros(wall_micros() + 3_600_000_000);
        let (clock, behind) = Clock::starting_after(Some(ahead));
        assert!(behind.is_some_and(|seconds| (3_500..=3_600).contains(&seconds)));
        let first = clock.now();
        assert!(first >= ahead && clock.now() >= first);
    }
}
