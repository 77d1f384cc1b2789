//! Behind the gate: refusals on the record, what the end of an action brings about, and changes.

use std::sync::Arc;

use agentguard_core::counters::{Consequence, Rejected, StopCause};
use agentguard_core::decide::Raised;
use agentguard_core::{
    Action, AgentId, AgentStatus, Counters, MicroUsd, Reason, Refusal, RequestId, Timestamp, wire,
};
use serde_json::{Value, json};

use crate::alert::{AlertEvent, EventKind, Severity};
use crate::change::{Actor, Change};
use crate::directory::{Compile, Directory, Entry, PolicyData};
use crate::gate::{ChangeError, Inner, Settings};
use crate::knock::Caller;
use crate::ports::RegistryError;
use crate::record::{Decision, Row, SystemEvent};
use crate::stop::{PausedBy, Scope, Stop};
use crate::turnstile::{Entered, Turned, Turnstile};

/// How often an admission asks again because the policy changed under it. Changes come from people;
/// one that loses this often is refused.
const ADMISSION_TRIES: usize = 4;

impl Inner {
    /// Puts an action to the policy of now.
    pub(crate) fn enter(&self, caller: &Caller, action: &Action) -> (Arc<Entry>, Entered) {
        let mut entry = Arc::clone(caller.entry());
        for _ in 0..ADMISSION_TRIES {
            // Between knocking and acting a body may have been awaited, and rules changed.
            let Some(current) = self.directory.load().by_id(entry.agent.id).cloned() else {
                return (entry, Err(Turned::Stopped(Reason::AgentRevoked)));
            };
            entry = current;
            if entry.agent.status == AgentStatus::Revoked {
                return (entry, Err(Turned::Stopped(Reason::AgentRevoked)));
            }
            match entry.turnstile.enter(&self.global, action, &entry.policy) {
                Err(Turned::Stale) => {}
                entered => return (entry, entered),
            }
        }
        (entry, Err(Turned::Stale))
    }

    pub(crate) fn turned_away(
        &self,
        entry: &Arc<Entry>,
        id: RequestId,
        action: &Action,
        turned: Turned,
    ) -> Refusal {
        let refusal = match turned {
            Turned::Stale => Refusal::plain(Reason::Internal),
            Turned::Stopped(Reason::AgentRevoked) => Refusal::plain(Reason::AgentRevoked),
            Turned::Stopped(reason) => self.stopped_refusal(reason, entry.agent.id),
            Turned::Denied(rejected) => return self.denied(entry, id, action, *rejected),
        };
        self.record_refusal(Some(entry.agent.id), id, action, &refusal, None);
        refusal
    }

    fn denied(
        &self,
        entry: &Arc<Entry>,
        id: RequestId,
        action: &Action,
        rejected: Rejected,
    ) -> Refusal {
        let Rejected { denied, consequences } = rejected;
        let refusal = Refusal::from_denied(&denied, &entry.agent.name, action.at);
        self.record_refusal(Some(entry.agent.id), id, action, &refusal, denied.risk);
        self.tell(entry, id, denied.raised);
        self.follow(entry, id, consequences);
        refusal
    }

    pub(crate) fn record_refusal(
        &self,
        agent_id: Option<AgentId>,
        id: RequestId,
        action: &Action,
        refusal: &Refusal,
        risk: Option<agentguard_core::risk::Risk>,
    ) {
        let row = wire::row(refusal.reason);
        let latency_us = self.clock.now().micros_since(action.at);
        self.metrics.refused(action.door(), action.service(), refusal.reason);
        tracing::debug!(
            request_id = %id,
            agent = agent_id.map(tracing::field::display),
            door = action.door().name(),
            service = action.service().map(AsRef::as_ref),
            decision = Decision::Block.name(),
            code = row.code,
            status = row.status,
            latency_us,
            "an action was refused"
        );
        self.record.refused(Row {
            id,
            agent_id,
            at: action.at,
            door: action.door(),
            verb: action.shared_verb(),
            target: action.target().to_owned(),
            service: action.service().cloned(),
            amount: action.money(),
            cost: MicroUsd::ZERO,
            decision: Decision::Block,
            block_reason: Some(row.code),
            rule_id: refusal.rule_id,
            response_status: Some(row.status),
            latency_us,
            is_streaming: false,
            estimated: false,
            risk,
            facts: None,
            first_in_minute: false,
            is_metered: false,
        });
        if refusal.reason == Reason::Internal {
            self.tell_own_fault(agent_id, id, action);
        }
    }

    /// A fault of the gate's own refuses, and somebody must hear of it.
    fn tell_own_fault(&self, agent_id: Option<AgentId>, id: RequestId, action: &Action) {
        let row = wire::row(Reason::Internal);
        tracing::error!(
            request_id = %id,
            agent = agent_id.map(tracing::field::display),
            door = action.door().name(),
            service = action.service().map(AsRef::as_ref),
            "{}", row.text
        );
        let entry = agent_id.and_then(|id| self.directory.load().by_id(id).cloned());
        let details = json!({"code": row.code, "request_id": id, "target": action.target()});
        self.alert(EventKind::ProxyError, entry.as_ref(), row.text.to_owned(), details);
    }

    pub(crate) fn stopped_refusal(&self, reason: Reason, agent: AgentId) -> Refusal {
        let scope =
            if reason == Reason::KillSwitchGlobal { Scope::Global } else { Scope::Agent(agent) };
        let stops = self.stops.lock();
        let known = stops.get(&scope);
        let refusal = match known {
            Some(stop) if !stop.reason.is_empty() => {
                Refusal::with(reason, format!("{}: {}", wire::row(reason).text, stop.reason))
            }
            Some(_) | None => Refusal::plain(reason),
        };
        match known {
            Some(stop) => refusal
                .detail("paused_by", stop.paused_by.name())
                .detail("paused_at", stop.paused_at.to_rfc3339()),
            None => refusal,
        }
    }

    /// Does what the end of an action brings about.
    pub(crate) fn follow(&self, entry: &Arc<Entry>, id: RequestId, consequences: Vec<Consequence>) {
        for consequence in consequences {
            match consequence {
                Consequence::Tell(raised) => self.tell(entry, id, vec![raised]),
                Consequence::StopAgent(cause, raised) => {
                    let by = match cause {
                        StopCause::ConsecutiveFailure => PausedBy::ConsecutiveFailure,
                        StopCause::UpstreamDenials => PausedBy::AutoRisk,
                    };
                    let reason = raised.hit.to_string();
                    self.tell(entry, id, vec![raised]);
                    self.stop_by_itself(entry, id, Scope::Agent(entry.agent.id), by, reason);
                }
                Consequence::StopAgentForRisk => {
                    let reason = "refused by risk rules too often in a row".to_owned();
                    self.stop_by_itself(
                        entry,
                        id,
                        Scope::Agent(entry.agent.id),
                        PausedBy::AutoRisk,
                        reason,
                    );
                }
                Consequence::StopAll(raised) => {
                    let reason =
                        format!("monthly budget of agent `{}`: {}", entry.agent.name, raised.hit);
                    self.tell(entry, id, vec![raised]);
                    self.stop_by_itself(entry, id, Scope::Global, PausedBy::BudgetExceeded, reason);
                }
            }
        }
    }

    pub(crate) fn stop_by_itself(
        &self,
        entry: &Arc<Entry>,
        id: RequestId,
        scope: Scope,
        paused_by: PausedBy,
        reason: String,
    ) {
        let stop = Stop { scope, paused_by, reason: reason.clone(), paused_at: self.clock.now() };
        self.ring(&stop);
        self.alert(
            EventKind::AgentAutoPaused,
            Some(entry),
            reason,
            json!({"paused_by": paused_by.name(), "request_id": id}),
        );
        self.registry.apply_soon(&Actor::System, Change::Stop(stop.clone()), stop.paused_at);
    }

    /// Puts a stop into force, for what is under way and for what comes.
    pub(crate) fn ring(&self, stop: &Stop) {
        self.stops.lock().entry(stop.scope).or_insert_with(|| stop.clone());
        match stop.scope {
            Scope::Global => self.global.stop(),
            Scope::Agent(id) => self.turnstile_of(id).switch().stop(),
        }
        let details = json!({"scope": scope_name(stop.scope), "paused_by": stop.paused_by.name()});
        self.record.event(SystemEvent {
            at: stop.paused_at,
            event: "kill_switch.on",
            severity: Severity::Critical,
            message: stop.reason.clone(),
            details: details.clone(),
        });
        let whom = self.agent_of(stop.scope);
        self.alert(
            EventKind::KillSwitchOn,
            whom.as_ref(),
            format!("stopped: {}", stop.reason),
            details,
        );
    }

    pub(crate) fn release(&self, scope: Scope) {
        self.stops.lock().remove(&scope);
        match scope {
            Scope::Global => self.global.resume(),
            Scope::Agent(id) => {
                let turnstile = self.turnstile_of(id);
                turnstile.counters().forgive();
                turnstile.switch().resume();
            }
        }
        let details = json!({"scope": scope_name(scope)});
        self.record.event(SystemEvent {
            at: self.clock.now(),
            event: "kill_switch.off",
            severity: Severity::Info,
            message: "resumed by a person".to_owned(),
            details: details.clone(),
        });
        let whom = self.agent_of(scope);
        self.alert(
            EventKind::KillSwitchOff,
            whom.as_ref(),
            "resumed by a person".to_owned(),
            details,
        );
    }

    fn agent_of(&self, scope: Scope) -> Option<Arc<Entry>> {
        match scope {
            Scope::Global => None,
            Scope::Agent(id) => self.directory.load().by_id(id).cloned(),
        }
    }

    pub(crate) fn change(&self, actor: &Actor, change: Change) -> Result<(), ChangeError> {
        let settings = self.settings.load_full();
        let (zone, rates) = (settings.zone.clone(), Arc::clone(&settings.rates));
        let prices = Arc::clone(&settings.prices);
        // Compile before the commit: what does not compile must not be stored.
        let accept = Box::new(move |data: &PolicyData| {
            let with = Compile { zone: &zone, rates, prices: &prices, version: 0 };
            let unused = Counters::new(zone.clone(), Timestamp::default());
            Directory::compile(data.clone(), &with, |_| Turnstile::new(unused.clone())).map(|_| ())
        });
        let data = self.registry.apply(actor, change, self.clock.now(), accept)?;
        let directory = self.compiled(data, &settings).map_err(RegistryError::Invalid)?;
        self.install(directory);
        Ok(())
    }

    /// Puts a compiled policy into force.
    pub(crate) fn install(&self, directory: Directory) {
        self.metrics.know(&directory);
        self.directory.store(Arc::new(directory));
    }

    pub(crate) fn compiled(
        &self,
        data: PolicyData,
        settings: &Settings,
    ) -> Result<Directory, String> {
        let version = self.directory.load().version().wrapping_add(1);
        let with = Compile {
            zone: &settings.zone,
            rates: Arc::clone(&settings.rates),
            prices: &settings.prices,
            version,
        };
        Directory::compile(data, &with, |id| self.turnstile_of(id))
    }

    pub(crate) fn turnstile_of(&self, id: AgentId) -> Arc<Turnstile> {
        let fresh =
            || Turnstile::new(Counters::new(self.settings.load().zone.clone(), self.clock.now()));
        Arc::clone(self.turnstiles.lock().entry(id).or_insert_with(fresh))
    }

    pub(crate) fn tell(&self, entry: &Arc<Entry>, id: RequestId, raised: Vec<Raised>) {
        for one in raised {
            let event = EventKind::of_rule(one.kind, &one.hit);
            let mut details = one.hit.details();
            details.insert("rule_id".into(), json!(one.rule_id));
            details.insert("request_id".into(), json!(id));
            let message = format!("agent `{}`: {}", entry.agent.name, one.hit);
            self.alert(event, Some(entry), message, Value::Object(details));
        }
    }

    pub(crate) fn alert(
        &self,
        event: EventKind,
        entry: Option<&Arc<Entry>>,
        message: String,
        details: Value,
    ) {
        let timestamp = self.clock.now();
        let agent_id = entry.map(|entry| entry.agent.id);
        let Some(held_back) = self.thinner.pass(agent_id, event, timestamp) else { return };
        let mut details = details;
        if let Some(map) = details.as_object_mut().filter(|_| held_back > 0) {
            map.insert("held_back".into(), json!(held_back));
        }
        let alert = AlertEvent {
            event,
            severity: event.severity(),
            agent_id,
            agent_name: entry.map(|entry| entry.agent.name.clone()),
            message,
            timestamp,
            details,
        };
        self.metrics.alerted(event);
        self.record.alert(&alert);
        // Nobody listening is no fault: the alert is kept.
        drop(self.live.send(alert));
    }
}

fn scope_name(scope: Scope) -> String {
    match scope {
        Scope::Global => "global".to_owned(),
        Scope::Agent(id) => id.to_string(),
    }
}
