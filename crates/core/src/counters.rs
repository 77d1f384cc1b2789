//! Counters: what an agent has used, reserved and done. Pure state; the gate keeps it under a lock.
//!
//! [`Counters::admit`] decides and applies in one step. Under the gate's lock nobody comes between,
//! so `used + reserved ≤ limit` holds at every instant, for every budget at once.

use std::collections::VecDeque;

use crate::action::{Action, AmountKind};
use crate::baseline::{Baseline, Past};
use crate::decide::{Allowed, Denied, Finding, Raised, Verdict, decide, look_at_cost};
use crate::door::{Door, DoorSet};
use crate::hit::{Hit, Period};
use crate::id::RuleId;
use crate::limits::RISK_REFUSALS_TO_STOP;
use crate::money::MicroUsd;
use crate::policy::Policy;
use crate::rule::{Check, RateKey, Rule};
use crate::time::{SECOND_MICROS, Span, Timestamp, Zone};
use crate::window::SlidingWindow;

/// One agent's counters.
#[derive(Clone, Debug)]
pub struct Counters {
    zone: Zone,
    now: Timestamp,
    day: Meter,
    month: Meter,
    rates: Vec<(RateKey, SlidingWindow)>,
    aligned_to: Option<u64>,
    baseline: Baseline,
    refused_in_row: u32,
    risk_refused_in_row: u32,
    upstream_denials: VecDeque<Timestamp>,
    /// Rules whose last line was passed this month and has stopped everything once: a person who
    /// resumes beyond it has decided.
    past_line: Vec<RuleId>,
}

/// Money of one day or month, by door.
#[derive(Clone, Copy, Debug)]
pub struct Meter {
    span: Span,
    used: [MicroUsd; Door::COUNT],
    reserved: [MicroUsd; Door::COUNT],
}

/// Money that is set aside for one action. Not `Clone`: it is given back exactly once.
#[derive(Debug)]
#[must_use = "a hold that is never settled stays reserved"]
pub struct Hold {
    /// When it was taken: its day and month are the ones it is charged to.
    pub at: Timestamp,
    /// Through which door.
    pub door: Door,
    /// How much.
    pub cost: MicroUsd,
    /// Whether that is only a bound, and the end says how much it was. It counts among its kind.
    kind: AmountKind,
    day: Timestamp,
    month: Timestamp,
}

/// What an action's end brings about, besides its numbers.
#[derive(Clone, Debug)]
pub enum Consequence {
    /// Somebody should be told.
    Tell(Raised),
    /// The agent must be stopped.
    StopAgent(StopCause, Raised),
    /// Everything must be stopped: a month's budget is past its last line.
    StopAll(Raised),
    /// The agent must be stopped, though no single rule says so: risk refused it too often.
    StopAgentForRisk,
}

/// Why a rule stops an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopCause {
    /// `consecutive_failure`.
    ConsecutiveFailure,
    /// `upstream_denials`.
    UpstreamDenials,
}

/// What was admitted.
#[derive(Debug)]
pub struct Admitted {
    /// The verdict's details.
    pub allowed: Allowed,
    /// What is set aside.
    pub hold: Hold,
    /// Whether this is the first call of its minute, which baselines are kept by.
    pub first_in_minute: bool,
}

/// What was turned away.
#[derive(Debug)]
pub struct Rejected {
    /// The verdict's details.
    pub denied: Denied,
    /// What it brings about.
    pub consequences: Vec<Consequence>,
}

impl Counters {
    /// Nothing used, nothing known.
    pub fn new(zone: Zone, at: Timestamp) -> Self {
        Self {
            day: Meter::new(Span::day(at, &zone)),
            month: Meter::new(Span::month(at, &zone)),
            zone,
            now: at,
            rates: Vec::new(),
            aligned_to: None,
            baseline: Baseline::new(at),
            refused_in_row: 0,
            risk_refused_in_row: 0,
            upstream_denials: VecDeque::new(),
            past_line: Vec::new(),
        }
    }

    /// Takes in an hour out of the record. An hour that only partly lies in the current day or
    /// month counts in full: after a restart the sum is never below what was spent.
    pub fn restore(&mut self, hour: Span, door: Door, past: &Past) {
        for meter in [&mut self.day, &mut self.month] {
            if hour.end > meter.span.start && hour.start < meter.span.end {
                let used = slot(&mut meter.used, door);
                *used = used.plus(past.sum);
            }
        }
        self.baseline.restore(past);
    }

    /// Moves on to `at`: days and months turn over, windows slide. Time that goes back is ignored.
    pub fn advance(&mut self, at: Timestamp) {
        if at < self.now {
            return;
        }
        self.now = at;
        if at >= self.day.span.end {
            self.day = Meter::new(Span::day(at, &self.zone));
        }
        if at >= self.month.span.end {
            self.month = Meter::new(Span::month(at, &self.zone));
            self.past_line.clear();
        }
        for (_, window) in &mut self.rates {
            window.advance(at);
        }
        self.baseline.advance(at);
    }

    /// Decides, and if the answer is yes, takes what it needs: all or nothing.
    pub fn admit(&mut self, action: &Action, policy: &Policy) -> Result<Admitted, Box<Rejected>> {
        self.advance(action.at);
        self.align(policy);
        match decide(action, policy, self) {
            Verdict::Allow(allowed) => Ok(self.take(action, allowed)),
            Verdict::Refuse(denied) => {
                let consequences = self.refused(&denied, action.door(), policy);
                Err(Box::new(Rejected { denied, consequences }))
            }
        }
    }

    /// Ends a hold: what was really spent is used, the rest is free again.
    pub fn settle(&mut self, hold: &Hold, spent: MicroUsd, policy: &Policy) -> Vec<Consequence> {
        // Before it is counted: an amount must not make itself usual.
        let mut consequences = self.unusual(hold, spent, policy);
        consequences.extend(self.settle_guessed(hold, spent, policy));
        consequences
    }

    /// The same where `spent` is not what it cost but the most that it can have: nobody knows better.
    /// Budgets count it, but nobody is told that it is more than usual.
    pub fn settle_guessed(
        &mut self,
        hold: &Hold,
        spent: MicroUsd,
        policy: &Policy,
    ) -> Vec<Consequence> {
        if !self.correct(hold, spent) || spent == MicroUsd::ZERO {
            return Vec::new();
        }
        let passed = policy.afterwards().filter(|rule| rule.doors.contains(hold.door));
        let passed: Vec<_> = passed.filter_map(|rule| self.past_the_last_line(rule)).collect();
        self.past_line.extend(passed.iter().map(|raised| raised.rule_id));
        passed.into_iter().map(Consequence::StopAll).collect()
    }

    /// Ends a hold of which nobody knows what it spent: all of it, and no line is judged by a guess.
    pub fn settle_unknown(&mut self, hold: &Hold) {
        self.correct(hold, hold.cost);
    }

    /// Counts an answer in which the upstream turned the agent away (402, 403).
    pub fn upstream_denied(&mut self, at: Timestamp, policy: &Policy) -> Vec<Consequence> {
        self.upstream_denials.push_back(at);
        let mut consequences = Vec::new();
        for rule in policy.afterwards() {
            if let Check::UpstreamDenials { count, window_sec } = &rule.check {
                let since = at.plus_micros(
                    i64::from(*window_sec).saturating_mul(SECOND_MICROS).saturating_neg(),
                );
                let recent = self.upstream_denials.iter().filter(|when| **when > since).count();
                if recent >= usize::try_from(*count).unwrap_or(usize::MAX) {
                    let raised = raise(
                        rule,
                        Hit::UpstreamDenials { count: *count, window_sec: *window_sec },
                    );
                    consequences.push(match rule.action.blocks() {
                        true => Consequence::StopAgent(StopCause::UpstreamDenials, raised),
                        false => Consequence::Tell(raised),
                    });
                }
            }
        }
        while self.upstream_denials.len() > 1_000 {
            self.upstream_denials.pop_front();
        }
        consequences
    }

    /// Starts counting refusals in a row anew: a person resumed the agent.
    pub fn forgive(&mut self) {
        self.refused_in_row = 0;
        self.risk_refused_in_row = 0;
        self.upstream_denials.clear();
    }

    /// The window of a rate limit, by its slot in the policy.
    pub fn rate(&self, slot: usize) -> Option<&SlidingWindow> {
        self.rates.get(slot).map(|(_, window)| window)
    }

    /// The most that one more call through this door may cost before a rule refuses it; none if no rule
    /// does.
    pub fn room(&mut self, at: Timestamp, door: Door, policy: &Policy) -> Option<MicroUsd> {
        self.advance(at);
        let rules =
            policy.rules().iter().filter(|rule| rule.action.blocks() && rule.doors.contains(door));
        let rooms = rules.filter_map(|rule| {
            let (period, limit) = rule.check.allowance()?;
            let taken = period.map(|period| self.meter(period).taken(rule.doors));
            Some(limit.minus(taken.unwrap_or(MicroUsd::ZERO)).max(MicroUsd::ZERO))
        });
        rooms.min()
    }

    /// What is usual.
    pub const fn baseline(&self) -> &Baseline {
        &self.baseline
    }

    /// The money of the current day or month.
    pub const fn meter(&self, period: Period) -> &Meter {
        match period {
            Period::Day => &self.day,
            Period::Month => &self.month,
        }
    }

    /// Whether a newer policy than this one has been put to these counters. It must not be put to
    /// them any more: the windows follow the newer one.
    pub fn is_ahead_of(&self, policy: &Policy) -> bool {
        self.aligned_to.is_some_and(|version| version > policy.version())
    }

    /// Brings the windows into the order of the policy's slots. Windows of rules that are gone go.
    pub fn align(&mut self, policy: &Policy) {
        if self.aligned_to == Some(policy.version()) {
            return;
        }
        let mut old = std::mem::take(&mut self.rates);
        for key in policy.rate_keys() {
            let kept =
                old.iter().position(|(known, _)| known == key).map(|place| old.swap_remove(place));
            let fresh = || (key.clone(), SlidingWindow::new(key.window, self.now));
            self.rates.push(kept.unwrap_or_else(fresh));
        }
        self.aligned_to = Some(policy.version());
    }

    /// Moves a hold from reserved to used. Says whether it was of the current month.
    fn correct(&mut self, hold: &Hold, spent: MicroUsd) -> bool {
        for (meter, start) in [(&mut self.day, hold.day), (&mut self.month, hold.month)] {
            // A hold of a day that is over was forgotten with its day.
            if meter.span.start == start {
                let reserved = slot(&mut meter.reserved, hold.door);
                *reserved = reserved.minus(hold.cost);
                let used = slot(&mut meter.used, hold.door);
                *used = used.plus(spent);
            }
        }
        self.baseline.spent(hold.at, hold.kind, spent);
        self.month.span.start == hold.month
    }

    /// What rules on amounts say to the cost of a call of which only a bound was known before.
    fn unusual(&self, hold: &Hold, spent: MicroUsd, policy: &Policy) -> Vec<Consequence> {
        if hold.kind == AmountKind::Exact || spent == MicroUsd::ZERO {
            return Vec::new();
        }
        let rules = policy.afterwards().filter(|rule| rule.doors.contains(hold.door));
        let met = rules.filter_map(|rule| match look_at_cost(rule, spent, hold.at, self) {
            Finding::Met(hit) => Some(Consequence::Tell(raise(rule, hit))),
            Finding::Aside(_) | Finding::Clear | Finding::Near(_) => None,
        });
        met.collect()
    }

    fn take(&mut self, action: &Action, allowed: Allowed) -> Admitted {
        let door = action.door();
        for meter in [&mut self.day, &mut self.month] {
            let reserved = slot(&mut meter.reserved, door);
            *reserved = reserved.plus(allowed.cost);
        }
        for (key, window) in self.rates.iter_mut().filter(|(key, _)| key.doors.contains(door)) {
            let counts = key.service.as_ref().is_none_or(|wanted| action.service() == Some(wanted));
            if counts {
                window.add();
            }
        }
        let first_in_minute = self.baseline.called(action.at);
        self.refused_in_row = 0;
        self.risk_refused_in_row = 0;
        let hold = Hold {
            at: action.at,
            door,
            cost: allowed.cost,
            kind: action.amount.kind(),
            day: self.day.span.start,
            month: self.month.span.start,
        };
        Admitted { allowed, hold, first_in_minute }
    }

    fn refused(&mut self, denied: &Denied, door: Door, policy: &Policy) -> Vec<Consequence> {
        let mut consequences = Vec::new();
        self.refused_in_row = self.refused_in_row.saturating_add(1);
        for rule in policy.afterwards().filter(|rule| rule.doors.contains(door)) {
            if let Check::ConsecutiveFailure { count } = &rule.check
                && self.refused_in_row >= *count
            {
                let raised = raise(rule, Hit::Failures { count: *count });
                consequences.push(match rule.action.blocks() {
                    true => Consequence::StopAgent(StopCause::ConsecutiveFailure, raised),
                    false => Consequence::Tell(raised),
                });
            }
        }
        if denied.why.reason().is_risk() {
            self.risk_refused_in_row = self.risk_refused_in_row.saturating_add(1);
            if self.risk_refused_in_row >= RISK_REFUSALS_TO_STOP {
                consequences.push(Consequence::StopAgentForRisk);
            }
        } else {
            self.risk_refused_in_row = 0;
        }
        consequences
    }

    /// Whether a month's budget is past the line at which everything stops, and that is news. Also
    /// where the line was passed unseen: before a crash, or before the rule was made.
    fn past_the_last_line(&self, rule: &Rule) -> Option<Raised> {
        let Check::MonthlyBudget { limit, kill_at, .. } = &rule.check else { return None };
        let used = self.month.used(rule.doors);
        let news = used >= limit.share(*kill_at) && !self.past_line.contains(&rule.id);
        news.then(|| raise(rule, Hit::BudgetWarning { period: Period::Month, limit: *limit, used }))
    }
}

impl Meter {
    fn new(span: Span) -> Self {
        Self { span, used: [MicroUsd::ZERO; Door::COUNT], reserved: [MicroUsd::ZERO; Door::COUNT] }
    }

    /// From when to when.
    pub const fn span(&self) -> Span {
        self.span
    }

    /// Settled spending through these doors.
    pub fn used(&self, doors: DoorSet) -> MicroUsd {
        sum(&self.used, doors)
    }

    /// Set aside for what is under way through these doors.
    pub fn reserved(&self, doors: DoorSet) -> MicroUsd {
        sum(&self.reserved, doors)
    }

    /// Used and reserved: what a new call cannot have.
    pub fn taken(&self, doors: DoorSet) -> MicroUsd {
        self.used(doors).plus(self.reserved(doors))
    }
}

fn raise(rule: &Rule, hit: Hit) -> Raised {
    Raised { rule_id: rule.id, kind: rule.check.rule_type(), hit }
}

fn sum(amounts: &[MicroUsd; Door::COUNT], doors: DoorSet) -> MicroUsd {
    Door::ALL
        .into_iter()
        .zip(amounts)
        .filter(|(door, _)| doors.contains(*door))
        .fold(MicroUsd::ZERO, |total, (_, amount)| total.plus(*amount))
}

#[expect(clippy::indexing_slicing, reason = "`Door::index` is below `Door::COUNT` for every door")]
fn slot(amounts: &mut [MicroUsd; Door::COUNT], door: Door) -> &mut MicroUsd {
    &mut amounts[door.index()]
}

#[cfg(test)]
mod tests;
