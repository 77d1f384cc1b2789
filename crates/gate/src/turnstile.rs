//! One agent's turnstile: counters and switch together, so that money and stops cannot race.

use std::sync::Arc;

use agentguard_core::counters::{Admitted, Consequence, Hold, Rejected};
use agentguard_core::decide::Allowed;
use agentguard_core::{Action, Counters, MicroUsd, Policy, Reason};

use crate::stop::{StopCell, StopSlot};
use crate::sync::{Mutex, MutexGuard, lock};

/// Where an agent's actions are counted and can be stopped.
#[derive(Debug)]
pub struct Turnstile {
    counters: Mutex<Counters>,
    stop: StopSlot,
}

/// Why nobody came through.
#[derive(Debug)]
pub enum Turned {
    /// A switch is on.
    Stopped(Reason),
    /// The policy has changed meanwhile: ask again with the one of now.
    Stale,
    /// The decision is no.
    Denied(Box<Rejected>),
}

/// A pass, what the decision said, and whether it is the first call of its minute; or why not.
pub type Entered = Result<(Pass, Allowed, bool), Turned>;

impl Turnstile {
    /// A turnstile over these counters.
    pub fn new(counters: Counters) -> Arc<Self> {
        Arc::new(Self { counters: Mutex::new(counters), stop: StopSlot::default() })
    }

    /// The agent's switch.
    pub const fn switch(&self) -> &StopSlot {
        &self.stop
    }

    /// Which switch is on, the global one first.
    pub fn stopped(&self, global: &StopSlot) -> Option<Reason> {
        if global.is_stopped() {
            Some(Reason::KillSwitchGlobal)
        } else {
            self.stop.is_stopped().then_some(Reason::KillSwitchAgent)
        }
    }

    /// Decides and reserves in one step, under the lock: no two admissions see the same room.
    pub fn enter(self: &Arc<Self>, global: &StopSlot, action: &Action, policy: &Policy) -> Entered {
        // The cells come first: a stop after this point marks the pass itself.
        let cells = [global.cell(), self.stop.cell()];
        if let Some(reason) = stopped_by(&cells) {
            return Err(Turned::Stopped(reason));
        }
        let mut counters = self.counters();
        if counters.is_ahead_of(policy) {
            return Err(Turned::Stale);
        }
        let admitted = counters.admit(action, policy).map_err(Turned::Denied)?;
        drop(counters);
        let Admitted { allowed, hold, first_in_minute } = admitted;
        let pass = Pass { hold: Some(hold), turnstile: Arc::clone(self), cells };
        if let Some(reason) = pass.stopped() {
            pass.settle(MicroUsd::ZERO, policy);
            return Err(Turned::Stopped(reason));
        }
        Ok((pass, allowed, first_in_minute))
    }

    /// The counters, locked.
    pub(crate) fn counters(&self) -> MutexGuard<'_, Counters> {
        lock(&self.counters)
    }

    /// The counters as they stand.
    pub fn snapshot(&self) -> Counters {
        self.counters().clone()
    }
}

/// Room that was reserved, and the switches that can end it.
#[derive(Debug)]
#[must_use = "a pass that is dropped charges all that it reserved"]
pub struct Pass {
    hold: Option<Hold>,
    turnstile: Arc<Turnstile>,
    cells: [Arc<StopCell>; 2],
}

impl Pass {
    /// Which switch ended it, the global one first.
    pub fn stopped(&self) -> Option<Reason> {
        stopped_by(&self.cells)
    }

    /// What it reserved.
    pub fn cost(&self) -> MicroUsd {
        self.hold.as_ref().map_or(MicroUsd::ZERO, |hold| hold.cost)
    }

    pub(crate) fn cells(&self) -> &[Arc<StopCell>; 2] {
        &self.cells
    }

    /// Corrects the reservation to what was spent. Exactly once: the pass is gone after it.
    pub fn settle(mut self, spent: MicroUsd, policy: &Policy) -> Vec<Consequence> {
        match self.hold.take() {
            Some(hold) => self.turnstile.counters().settle(&hold, spent, policy),
            None => Vec::new(),
        }
    }

    /// The same, where that is only the most that it can have been.
    pub(crate) fn settle_guessed(mut self, spent: MicroUsd, policy: &Policy) -> Vec<Consequence> {
        match self.hold.take() {
            Some(hold) => self.turnstile.counters().settle_guessed(&hold, spent, policy),
            None => Vec::new(),
        }
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        // Nobody said what it cost: all of it, so that the ceiling holds and no reservation leaks.
        if let Some(hold) = self.hold.take() {
            self.turnstile.counters().settle_unknown(&hold);
        }
    }
}

pub(crate) fn stopped_by([global, agent]: &[Arc<StopCell>; 2]) -> Option<Reason> {
    if global.is_stopped() {
        Some(Reason::KillSwitchGlobal)
    } else {
        agent.is_stopped().then_some(Reason::KillSwitchAgent)
    }
}
