//! What is usual for an agent: the ground that risk rules stand on.

use std::collections::VecDeque;

use crate::action::AmountKind;
use crate::limits::BASELINE_DAYS_MAX;
use crate::money::MicroUsd;
use crate::rule::RateWindow;
use crate::time::{DAY_MICROS, MINUTE_MICROS, Timestamp};
use crate::window::SlidingWindow;

/// Daily sums of amounts and calls, and the calls of the last minute.
#[derive(Clone, Debug)]
pub struct Baseline {
    days: VecDeque<Day>,
    minute: SlidingWindow,
    last_active_minute: i64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Day {
    number: i64,
    exact: Amounts,
    metered: Amounts,
    calls: u64,
    active_minutes: u64,
}

/// Amounts of one kind.
#[derive(Clone, Copy, Debug, Default)]
struct Amounts {
    sum: MicroUsd,
    samples: u64,
}

/// What the record knows of one stretch of the past.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Past {
    /// Some instant in it.
    pub at: Timestamp,
    /// Money spent, of both kinds: what budgets count.
    pub sum: MicroUsd,
    /// Calls that cost something, of both kinds.
    pub samples: u64,
    /// The part of `sum` that was known only after its call.
    pub metered_sum: MicroUsd,
    /// The part of `samples` of which that is so.
    pub metered_samples: u64,
    /// Calls that were allowed.
    pub calls: u64,
    /// Minutes in which there was one.
    pub active_minutes: u64,
}

impl Baseline {
    /// Knows nothing yet.
    pub fn new(at: Timestamp) -> Self {
        Self {
            days: VecDeque::new(),
            minute: SlidingWindow::new(RateWindow::Minute, at),
            last_active_minute: i64::MIN,
        }
    }

    /// Takes in what the record has.
    pub fn restore(&mut self, past: &Past) {
        if let Some(day) = self.day_mut(past.at) {
            day.exact.add(
                past.sum.minus(past.metered_sum),
                past.samples.saturating_sub(past.metered_samples),
            );
            day.metered.add(past.metered_sum, past.metered_samples);
            day.calls = day.calls.saturating_add(past.calls);
            day.active_minutes = day.active_minutes.saturating_add(past.active_minutes);
        }
    }

    pub(crate) fn advance(&mut self, at: Timestamp) {
        self.minute.advance(at);
    }

    /// Counts a call that was let through. Says whether its minute had none before.
    pub(crate) fn called(&mut self, at: Timestamp) -> bool {
        self.minute.add();
        let minute = at.as_micros().div_euclid(MINUTE_MICROS);
        let fresh = minute > self.last_active_minute;
        self.last_active_minute = self.last_active_minute.max(minute);
        if let Some(day) = self.day_mut(at) {
            day.calls = day.calls.saturating_add(1);
            day.active_minutes = day.active_minutes.saturating_add(u64::from(fresh));
        }
        fresh
    }

    /// Counts money that was really spent.
    pub(crate) fn spent(&mut self, at: Timestamp, kind: AmountKind, amount: MicroUsd) {
        if amount > MicroUsd::ZERO
            && let Some(day) = self.day_mut(at)
        {
            match kind {
                AmountKind::Exact => day.exact.add(amount, 1),
                AmountKind::Metered => day.metered.add(amount, 1),
            }
        }
    }

    /// Calls in the last minute.
    pub fn calls_in_last_minute(&self) -> u64 {
        self.minute.total()
    }

    /// Sum and number of the amounts of this kind of the last `window_days` days.
    pub fn amounts(&self, at: Timestamp, window_days: u32, kind: AmountKind) -> (MicroUsd, u64) {
        let mut all = Amounts::default();
        for day in self.since(at, window_days) {
            let of_kind = match kind {
                AmountKind::Exact => day.exact,
                AmountKind::Metered => day.metered,
            };
            all.add(of_kind.sum, of_kind.samples);
        }
        (all.sum, all.samples)
    }

    /// Calls and active minutes of the last seven days, before the last minute.
    pub fn pace(&self, at: Timestamp) -> (u64, u64) {
        let (calls, minutes) = self.since(at, 7).fold((0_u64, 0_u64), |(calls, minutes), day| {
            (calls.saturating_add(day.calls), minutes.saturating_add(day.active_minutes))
        });
        // The burst that is being judged must not make itself normal.
        (
            calls.saturating_sub(self.minute.total()),
            minutes.saturating_sub(u64::from(self.minute.total() > 0)),
        )
    }

    fn since(&self, at: Timestamp, window_days: u32) -> impl Iterator<Item = &Day> {
        let oldest = day_number(at).saturating_sub(i64::from(window_days));
        self.days.iter().filter(move |day| day.number > oldest)
    }

    fn day_mut(&mut self, at: Timestamp) -> Option<&mut Day> {
        let number = day_number(at);
        if let Some(place) = self.days.iter().rposition(|day| day.number == number) {
            return self.days.get_mut(place);
        }
        let place = self.days.iter().position(|day| day.number > number).unwrap_or(self.days.len());
        self.days.insert(place, Day { number, ..Day::default() });
        if self.days.len() > usize::try_from(BASELINE_DAYS_MAX).unwrap_or(30).saturating_add(1) {
            self.days.pop_front();
        }
        self.days.iter_mut().rfind(|day| day.number == number)
    }
}

impl Amounts {
    fn add(&mut self, sum: MicroUsd, samples: u64) {
        self.sum = self.sum.plus(sum);
        self.samples = self.samples.saturating_add(samples);
    }
}

fn day_number(at: Timestamp) -> i64 {
    at.as_micros().div_euclid(DAY_MICROS)
}
