//! The permit: proof that an action was admitted, the money it holds, and the signal that ends it.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use agentguard_core::action::AmountKind;
use agentguard_core::counters::Consequence;
use agentguard_core::risk::{Risk, is_risk};
use agentguard_core::{Action, AgentId, MicroUsd, Money, Policy, Reason, RequestId, wire};
use pin_project_lite::pin_project;
use serde_json::{Value, json};
use tokio::sync::futures::OwnedNotified;

use crate::alert::EventKind;
use crate::directory::Entry;
use crate::gate::Inner;
use crate::metrics::Ended;
use crate::ports::{RecordError, Ticket};
use crate::record::{Decision, Row};
use crate::stop::StopCell;
use crate::turnstile::{Pass, stopped_by};

/// Proof that an action was admitted. Only [`crate::Gate::admit`] makes one, and what reaches the
/// outside world takes `&Permit`, so a way around the gate does not compile.
#[derive(Debug)]
#[must_use = "a permit that is dropped charges all that it reserved"]
pub struct Permit {
    open: Option<Open>,
}

#[derive(Debug)]
pub(crate) struct Open {
    pub(crate) gate: Arc<Inner>,
    pub(crate) entry: Arc<Entry>,
    pub(crate) id: RequestId,
    pub(crate) action: Action,
    pub(crate) pass: Pass,
    pub(crate) ticket: Ticket,
    pub(crate) risk: Option<Risk>,
    pub(crate) first_in_minute: bool,
    /// Whether its answer is being streamed, which is counted.
    pub(crate) is_streaming: bool,
}

/// How an action ended.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The answer's status.
    pub status: Option<u16>,
    /// What it cost.
    pub spent: Spent,
    /// Whether the answer was a stream.
    pub is_streaming: bool,
    /// What went wrong, if something did.
    pub failure: Option<Reason>,
    /// What the door adds to the record.
    pub facts: Option<Value>,
}

/// What an action cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spent {
    /// Nothing: it did not happen, or the upstream turned it down.
    Nothing,
    /// All that was reserved.
    AsReserved,
    /// All that was reserved, because nobody knows better.
    Unknown,
    /// This much.
    Exactly(Money),
    /// About this much.
    Estimated(Money),
    /// All that was reserved, because the answer does not say how much less it was.
    Guessed,
}

impl Permit {
    pub(crate) const fn new(open: Open) -> Self {
        Self { open: Some(open) }
    }

    /// The request it is for.
    pub fn request_id(&self) -> Option<RequestId> {
        self.open.as_ref().map(|open| open.id)
    }

    /// Whose it is.
    pub fn agent_id(&self) -> Option<AgentId> {
        self.open.as_ref().map(|open| open.entry.agent.id)
    }

    /// Its answer is a stream that begins now and ends when this is settled.
    pub fn begins_stream(&mut self) {
        if let Some(open) = self.open.as_mut().filter(|open| !open.is_streaming) {
            open.is_streaming = true;
            open.gate.metrics.stream_opened();
        }
    }

    /// Which switch ended it, if one did.
    pub fn stopped(&self) -> Option<Reason> {
        self.open.as_ref().and_then(|open| open.pass.stopped())
    }

    /// Completes when a kill switch ends this action.
    pub fn watch(&self) -> StopWatch {
        // A permit is open until it is settled, which takes it away: there is always a pass here.
        let never = || [StopCell::new(), StopCell::new()];
        StopWatch::on(self.open.as_ref().map_or_else(never, |open| open.pass.cells().clone()))
    }

    /// The same, for `select!`.
    pub async fn cancelled(&self) -> Reason {
        self.watch().await
    }

    pub(crate) fn ticket(&self) -> Option<(&Ticket, &Action)> {
        self.open.as_ref().map(|open| (&open.ticket, &open.action))
    }

    pub(crate) fn log_unsynced(&self, error: &RecordError) {
        let Some(open) = &self.open else { return };
        let (agent, door) = (open.entry.agent.id, open.action.door());
        let service = open.action.service().map(AsRef::as_ref);
        tracing::error!(request_id = %open.id, %agent, %door, service, %error, "an intent could not be put on disk; the action is refused");
    }

    /// Ends it before anything was done.
    pub(crate) fn undo(self, failure: Reason) {
        self.settle(Outcome {
            status: None,
            spent: Spent::Nothing,
            is_streaming: false,
            failure: Some(failure),
            facts: None,
        });
    }

    /// Ends it: the reservation becomes what was spent, the row goes on the record. Cannot fail: the
    /// row's place was taken when the intent was written.
    pub fn settle(mut self, outcome: Outcome) {
        if let Some(open) = self.open.take() {
            open.settle(outcome);
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if let Some(open) = self.open.take() {
            let failure = open.pass.stopped();
            open.settle(Outcome {
                status: None,
                spent: Spent::Unknown,
                is_streaming: false,
                failure,
                facts: None,
            });
        }
    }
}

impl Open {
    fn settle(self, outcome: Outcome) {
        let Self { gate, entry, id, action, pass, ticket, mut risk, first_in_minute, is_streaming } =
            self;
        if is_streaming {
            gate.metrics.stream_closed();
        }
        let reserved = pass.cost();
        let (amount, cost, estimated) = charged(outcome.spent, &action, reserved, &entry.policy);
        let mut consequences = match outcome.spent {
            Spent::Unknown => pass.settle_guessed(cost, &entry.policy),
            Spent::Nothing
            | Spent::AsReserved
            | Spent::Exactly(_)
            | Spent::Estimated(_)
            | Spent::Guessed => pass.settle(cost, &entry.policy),
        };
        assess_afterwards(&mut risk, &consequences);
        if matches!(outcome.status, Some(402 | 403)) && outcome.failure.is_none() {
            let more = entry.turnstile.counters().upstream_denied(action.at, &entry.policy);
            consequences.extend(more);
        }
        let interrupted = (outcome.spent == Spent::Unknown).then_some("interrupted");
        let block_reason = outcome.failure.map(|reason| wire::row(reason).code).or(interrupted);
        let decision = match (block_reason, outcome.failure) {
            (None, _) => Decision::Allow,
            (Some(_), Some(Reason::DestinationBlocked)) => Decision::Block,
            (Some(_), _) => Decision::Error,
        };
        let latency_us = gate.clock.now().micros_since(action.at);
        let row = Row {
            id,
            agent_id: Some(entry.agent.id),
            at: action.at,
            door: action.door(),
            verb: action.shared_verb(),
            service: action.service().cloned(),
            amount,
            cost,
            decision,
            block_reason,
            rule_id: None,
            response_status: outcome.status,
            latency_us,
            is_streaming: outcome.is_streaming,
            estimated,
            risk,
            facts: outcome.facts,
            first_in_minute,
            is_metered: action.amount.kind() == AmountKind::Metered,
            target: into_target(action),
        };
        if let Some(reason) = outcome.failure.filter(|reason| is_upstream_trouble(*reason)) {
            let message = format!("agent `{}`: {}", entry.agent.name, wire::row(reason).text);
            let details =
                json!({"code": wire::row(reason).code, "request_id": id, "target": row.target});
            gate.alert(EventKind::ProxyError, Some(&entry), message, details);
        }
        gate.count_end(&row, reserved, outcome.failure);
        gate.record.finish(ticket, row);
        gate.follow(&entry, id, consequences);
    }
}

impl Inner {
    /// Counts an action that ended, and says so in the log.
    fn count_end(&self, row: &Row, reserved: MicroUsd, failure: Option<Reason>) {
        let ended = Ended {
            door: row.door,
            service: row.service.as_ref(),
            decision: row.decision,
            failure,
            cost: row.cost,
            latency_us: row.latency_us,
        };
        self.metrics.closed(reserved, &ended);
        tracing::debug!(
            request_id = %row.id,
            agent = row.agent_id.map(tracing::field::display),
            door = row.door.name(),
            service = row.service.as_deref(),
            decision = row.decision.name(),
            code = row.block_reason,
            status = row.response_status,
            latency_us = row.latency_us,
            cost_usd = %row.cost,
            is_streaming = row.is_streaming,
            "an action ended"
        );
    }
}

/// Puts what risk rules saw at the end beside what they saw before.
fn assess_afterwards(risk: &mut Option<Risk>, consequences: &[Consequence]) {
    for consequence in consequences {
        match consequence {
            Consequence::Tell(raised) if is_risk(raised.kind) => {
                risk.get_or_insert_with(Risk::none).add_afterwards(raised);
            }
            Consequence::Tell(_)
            | Consequence::StopAgent(..)
            | Consequence::StopAll(_)
            | Consequence::StopAgentForRisk => {}
        }
    }
}

/// The amount, what is charged for it, and whether that is an estimate.
fn charged(
    spent: Spent,
    action: &Action,
    reserved: MicroUsd,
    policy: &Policy,
) -> (Option<Money>, MicroUsd, bool) {
    match spent {
        Spent::Nothing => (action.money(), MicroUsd::ZERO, false),
        Spent::AsReserved => (action.money(), reserved, false),
        Spent::Unknown | Spent::Guessed => (action.money(), reserved, true),
        Spent::Exactly(money) | Spent::Estimated(money) => {
            let usd = policy.rates().to_usd(money);
            let is_told = matches!(spent, Spent::Exactly(_)) && usd.is_some();
            // Without a rate nobody can say what it is worth.
            (Some(money), usd.unwrap_or(reserved), !is_told)
        }
    }
}

/// What went wrong on the far side, which operators hear of as `proxy.error`.
const fn is_upstream_trouble(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::UpstreamTimeout
            | Reason::UpstreamUnreachable
            | Reason::UpstreamTlsError
            | Reason::Internal
    )
}

fn into_target(action: Action) -> String {
    use agentguard_core::Facts;
    match action.facts {
        Facts::Api(api) => api.masked_url,
        Facts::Web(web) => web.masked_url,
        Facts::Exec(exec) => exec.host_id.to_string(),
        Facts::Browser(browser) => browser.masked_url.unwrap_or_default(),
        Facts::Pipe(pipe) => pipe.domain.to_string(),
    }
}

pin_project! {
    /// A future that completes with the reason when a kill switch ends an action. Cheap to poll: it
    /// registers once.
    #[derive(Debug)]
    pub struct StopWatch {
        cells: [Arc<StopCell>; 2],
        #[pin]
        global: OwnedNotified,
        #[pin]
        agent: OwnedNotified,
    }
}

impl StopWatch {
    fn on(cells: [Arc<StopCell>; 2]) -> Self {
        let [global, agent] = cells.each_ref().map(|cell| cell.bell());
        Self { cells, global, agent }
    }
}

impl Future for StopWatch {
    type Output = Reason;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Reason> {
        let this = self.project();
        // The bells were taken before this look at the flags, so a stop in between still rings.
        if let Some(reason) = stopped_by(this.cells) {
            return Poll::Ready(reason);
        }
        if this.global.poll(context).is_ready() {
            return Poll::Ready(Reason::KillSwitchGlobal);
        }
        this.agent.poll(context).map(|()| Reason::KillSwitchAgent)
    }
}
