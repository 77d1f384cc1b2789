//! Sliding windows of counts.

use crate::rule::RateWindow;
use crate::time::{MINUTE_MICROS, SECOND_MICROS, Timestamp};

/// How many counts fell into the last minute, hour or day.
///
/// Kept in buckets, so its size does not depend on the traffic. A bucket is forgotten only when all
/// of it is older than the window: the count is never too small, so no true window ever holds more
/// than was allowed, and a slot comes free at most one bucket late.
#[derive(Clone, Debug)]
pub struct SlidingWindow {
    bucket_micros: i64,
    counts: Box<[u32]>,
    /// The number, since the epoch, of the bucket that counts go into.
    newest: i64,
    total: u64,
}

impl SlidingWindow {
    /// An empty window that ends at `at`.
    pub fn new(window: RateWindow, at: Timestamp) -> Self {
        let bucket_micros = match window {
            RateWindow::Minute => SECOND_MICROS,
            RateWindow::Hour => 30 * SECOND_MICROS,
            RateWindow::Day => 5 * MINUTE_MICROS,
        };
        // One more than fills the window: the newest bucket is always in the making.
        let buckets = window.micros().div_euclid(bucket_micros).saturating_add(1);
        let counts = vec![0; usize::try_from(buckets).unwrap_or(1)].into_boxed_slice();
        Self { bucket_micros, counts, newest: at.as_micros().div_euclid(bucket_micros), total: 0 }
    }

    /// Moves on to `at`, forgetting what is too old. Never moves back.
    pub fn advance(&mut self, at: Timestamp) {
        let now = at.as_micros().div_euclid(self.bucket_micros);
        let buckets = i64::try_from(self.counts.len()).unwrap_or(i64::MAX);
        if now.saturating_sub(self.newest) >= buckets {
            self.counts.fill(0);
            self.total = 0;
            self.newest = now;
            return;
        }
        while self.newest < now {
            self.newest = self.newest.saturating_add(1);
            let gone = std::mem::take(self.bucket(self.newest));
            self.total = self.total.saturating_sub(u64::from(gone));
        }
    }

    /// Counts one now.
    pub fn add(&mut self) {
        let newest = self.newest;
        let bucket = self.bucket(newest);
        *bucket = bucket.saturating_add(1);
        self.total = self.total.saturating_add(1);
    }

    /// How many are in the window.
    pub const fn total(&self) -> u64 {
        self.total
    }

    /// When the oldest count leaves the window.
    pub fn frees_at(&self) -> Timestamp {
        let buckets = i64::try_from(self.counts.len()).unwrap_or(i64::MAX);
        let oldest = self.newest.saturating_sub(buckets).saturating_add(1);
        let first =
            (oldest..=self.newest).find(|number| self.peek(*number) > 0).unwrap_or(self.newest);
        Timestamp::from_micros(first.saturating_add(buckets).saturating_mul(self.bucket_micros))
    }

    fn place(&self, number: i64) -> usize {
        let buckets = i64::try_from(self.counts.len()).unwrap_or(i64::MAX).max(1);
        usize::try_from(number.rem_euclid(buckets)).unwrap_or(0)
    }

    fn peek(&self, number: i64) -> u32 {
        self.counts.get(self.place(number)).copied().unwrap_or(0)
    }

    #[expect(clippy::indexing_slicing, reason = "`place` is below the length, which is never zero")]
    fn bucket(&mut self, number: i64) -> &mut u32 {
        let place = self.place(number);
        &mut self.counts[place]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(micros: i64) -> Timestamp {
        Timestamp::from_micros(1_700_000_000_000_000 + micros)
    }

    #[test]
    fn a_count_leaves_when_all_of_its_bucket_is_a_window_old() {
        let mut window = SlidingWindow::new(RateWindow::Minute, at(0));
        window.advance(at(500_000));
        window.add();
        assert_eq!(window.frees_at(), at(61_000_000));
        window.advance(at(60_999_999));
        assert_eq!(window.total(), 1);
        window.advance(at(61_000_000));
        assert_eq!(window.total(), 0);
    }

    #[test]
    fn time_going_back_changes_nothing() {
        let mut window = SlidingWindow::new(RateWindow::Hour, at(0));
        window.advance(at(90_000_000));
        window.add();
        window.advance(at(0));
        assert_eq!(window.total(), 1);
    }

    proptest! {
        #[test]
        fn the_count_is_never_below_the_true_one(mut times in prop::collection::vec(0_i64..300_000_000, 1..200)) {
            times.sort_unstable();
            let mut window = SlidingWindow::new(RateWindow::Minute, at(0));
            for (index, time) in times.iter().enumerate() {
                window.advance(at(*time));
                window.add();
                let truth = times[..=index].iter().filter(|t| time - **t < 60_000_000).count() as u64;
                let late = times[..=index].iter().filter(|t| time - **t < 61_000_000).count() as u64;
                prop_assert!(window.total() >= truth && window.total() <= late);
            }
        }
    }
}
