//! The gate: who is it, is it allowed, can it still pay, is it stopped?

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use agentguard_core::explain::{Explanation, explain};
use agentguard_core::time::{DAY_MICROS, Zone};
use agentguard_core::{
    Action, AgentId, AgentStatus, Counters, Door, MicroUsd, PriceTable, Rates, Reason, Refusal,
    RequestId, Timestamp, wire,
};
use arc_swap::ArcSwap;
use ipnet::IpNet;
use parking_lot::Mutex;
use serde_json::Value;
use thiserror::Error;

use crate::alert::{AlertEvent, EventKind, Severity, Thinner};
use crate::change::{Actor, Change};
use crate::clock::Clock;
use crate::directory::{Compile, Directory, Entry};
use crate::exposition::{Exposition, MetricKind};
use crate::ids::IdSource;
use crate::knock::{Caller, Knock, Presented, Rebuff};
use crate::metrics::{Metrics, Switches};
use crate::permit::{Open, Permit};
use crate::ports::{Durabilities, HourOfAgent, Record, Registry, RegistryError};
use crate::record::{Durability, Intent, SystemEvent};
use crate::spending::Spending;
use crate::stop::{PausedBy, Scope, Stop, StopSlot};
use crate::turnstile::Turnstile;

/// How far back baselines reach at a start. Budgets need the month, which may be longer.
const HISTORY_MICROS: i64 = 32 * DAY_MICROS;

/// The one admission path. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Gate {
    inner: Arc<Inner>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) directory: ArcSwap<Directory>,
    pub(crate) settings: ArcSwap<Settings>,
    pub(crate) turnstiles: Mutex<HashMap<AgentId, Arc<Turnstile>>>,
    pub(crate) global: StopSlot,
    /// Every switch that is on, with who and why: also those that the store has yet to hear of.
    pub(crate) stops: Mutex<HashMap<Scope, Stop>>,
    pub(crate) record: Arc<dyn Record>,
    pub(crate) registry: Arc<dyn Registry>,
    pub(crate) clock: Clock,
    pub(crate) ids: IdSource,
    pub(crate) thinner: Thinner,
    pub(crate) live: tokio::sync::broadcast::Sender<AlertEvent>,
    pub(crate) metrics: Metrics,
    /// One change at a time: the directory of one must not overwrite that of another.
    pub(crate) changing: Mutex<()>,
}

/// What the configuration says to the gate.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Whose midnight ends a day.
    pub zone: Zone,
    /// Currency rates.
    pub rates: Arc<Rates>,
    /// What models cost: the program's own figures, and those of the configuration over them.
    pub prices: Arc<PriceTable>,
    /// Who may knock at all.
    pub allow_client_ips: Vec<IpNet>,
    /// How safe intents must be.
    pub durability: Durabilities,
}

/// How a stop went.
#[derive(Debug)]
pub enum StopReport {
    /// In force, and kept across restarts.
    Kept,
    /// In force, but the store did not take it: a restart would forget it.
    InMemoryOnly(RegistryError),
}

/// Why a change was not made.
#[derive(Debug, Error)]
pub enum ChangeError {
    /// The store turned it down.
    #[error(transparent)]
    Registry(#[from] RegistryError),
}

impl Gate {
    /// Opens the gate over a store: loads policy, spending and switches.
    pub fn open(
        settings: Settings,
        record: Arc<dyn Record>,
        registry: Arc<dyn Registry>,
        clock: Clock,
        ids: IdSource,
    ) -> Result<Self, ChangeError> {
        let now = clock.now();
        let data = registry.load()?;
        let history = registry.history(now.plus_micros(-HISTORY_MICROS))?;
        let mut turnstiles = restored(&history, &settings.zone, now);
        let with = Compile {
            zone: &settings.zone,
            rates: Arc::clone(&settings.rates),
            prices: &settings.prices,
            version: 1,
        };
        let fresh = || Turnstile::new(Counters::new(settings.zone.clone(), now));
        let directory = Directory::compile(data, &with, |id| {
            Arc::clone(turnstiles.entry(id).or_insert_with(fresh))
        })
        .map_err(RegistryError::Invalid)?;
        let global = StopSlot::default();
        let mut stops = HashMap::new();
        for stop in &directory.data().stops {
            match stop.scope {
                Scope::Global => global.stop(),
                Scope::Agent(id) => turnstiles.get(&id).into_iter().for_each(|t| t.switch().stop()),
            }
            stops.insert(stop.scope, stop.clone());
        }
        let metrics = Metrics::default();
        metrics.know(&directory);
        Ok(Self {
            inner: Arc::new(Inner {
                directory: ArcSwap::from_pointee(directory),
                settings: ArcSwap::from_pointee(settings),
                turnstiles: Mutex::new(turnstiles),
                global,
                stops: Mutex::new(stops),
                record,
                registry,
                clock,
                ids,
                thinner: Thinner::default(),
                live: tokio::sync::broadcast::channel(256).0,
                metrics,
                changing: Mutex::new(()),
            }),
        })
    }

    /// Now, by the gate's clock.
    pub fn now(&self) -> Timestamp {
        self.inner.clock.now()
    }

    /// The id of a request that came in now.
    pub fn request_id(&self, at: Timestamp) -> RequestId {
        self.inner.ids.request(at)
    }

    /// Makes ids and tokens.
    pub fn ids(&self) -> &IdSource {
        &self.inner.ids
    }

    /// The compiled policy of now.
    pub fn directory(&self) -> arc_swap::Guard<Arc<Directory>> {
        self.inner.directory.load()
    }

    /// Alerts as they are made.
    pub fn alerts(&self) -> tokio::sync::broadcast::Receiver<AlertEvent> {
        self.inner.live.subscribe()
    }

    /// Checks 1 to 3: the token, the client's address, the kill switch.
    pub fn identify(&self, knock: &Knock) -> Result<Caller, Box<Rebuff>> {
        let directory = self.inner.directory.load();
        let entry = self.who(&directory, knock).map_err(|refusal| Rebuff::boxed(None, refusal))?;
        let id = Some(entry.agent.id);
        if entry.agent.status == AgentStatus::Revoked {
            return Err(Rebuff::boxed(id, Refusal::plain(Reason::AgentRevoked)));
        }
        let ip = canonical(knock.client_ip);
        if !self.inner.settings.load().allow_client_ips.iter().any(|net| net.contains(&ip)) {
            let message = format!("the client address {ip} is not in `proxy.allow_client_ips`");
            return Err(Rebuff::boxed(id, Refusal::with(Reason::ClientIpDenied, message)));
        }
        match entry.turnstile.stopped(&self.inner.global) {
            Some(reason) => {
                Err(Rebuff::boxed(id, self.inner.stopped_refusal(reason, entry.agent.id)))
            }
            None => Ok(Caller::new(entry)),
        }
    }

    /// Checks 5 to 9: the amount, the rules, the rates, the risk; then the intent is written. The
    /// only way to a [`Permit`]. The agent's policy is the one of now, however long ago it knocked.
    pub async fn admit(
        &self,
        caller: &Caller,
        id: RequestId,
        action: Action,
    ) -> Result<Permit, Refusal> {
        let inner = &self.inner;
        let (entry, passed) = inner.enter(caller, &action);
        let (pass, allowed, first_in_minute) = match passed {
            Ok(passed) => passed,
            Err(turned) => return Err(inner.turned_away(&entry, id, &action, turned)),
        };
        let intent = Intent { id, agent_id: entry.agent.id, action: &action, cost: allowed.cost };
        let ticket = match inner.record.begin(&intent) {
            Ok(ticket) => ticket,
            Err(error) => {
                pass.settle(MicroUsd::ZERO, &entry.policy);
                let (agent, door) = (entry.agent.id, action.door());
                let service = action.service().map(AsRef::as_ref);
                tracing::error!(request_id = %id, %agent, %door, service, %error, "an intent could not be recorded; the action is refused");
                inner.metrics.refused(door, action.service(), Reason::AuditUnavailable);
                return Err(Refusal::plain(Reason::AuditUnavailable));
            }
        };
        inner.tell(&entry, id, allowed.raised);
        inner.metrics.opened(action.door(), pass.cost());
        let open = Open {
            gate: Arc::clone(inner),
            entry,
            id,
            action,
            pass,
            ticket,
            risk: allowed.risk,
            first_in_minute,
            is_streaming: false,
        };
        self.make_durable(Permit::new(open)).await
    }

    /// Puts a refusal that a door made (or that came before admission) on the record.
    pub fn refuse(
        &self,
        agent: Option<AgentId>,
        id: RequestId,
        action: &Action,
        refusal: &Refusal,
    ) {
        self.inner.record_refusal(agent, id, action, refusal, None);
    }

    /// What the decision would be, with every rule that was looked at. Nothing is done or counted.
    pub fn explain(&self, entry: &Arc<Entry>, action: &Action) -> Explanation {
        let mut counters = entry.turnstile.snapshot();
        counters.advance(action.at);
        counters.align(&entry.policy);
        let mut explanation = explain(action, &entry.policy, &counters);
        if let Some(reason) = entry.turnstile.stopped(&self.inner.global) {
            let row = wire::row(reason);
            explanation.verdict = "block";
            explanation.code = Some(row.code);
            explanation.remedy = Some(row.remedy);
        }
        explanation
    }

    /// What an agent spent today and this month.
    pub fn spending(&self, entry: &Arc<Entry>) -> Spending {
        let mut counters = entry.turnstile.snapshot();
        counters.advance(self.now());
        Spending::of(entry, &counters)
    }

    /// The most that one more action of this caller may cost before a rule refuses it; none if no rule
    /// does. Nothing is reserved: another action may come first.
    pub fn room(&self, caller: &Caller, door: Door) -> Option<MicroUsd> {
        let entry = caller.entry();
        entry.turnstile.counters().room(self.now(), door, &entry.policy)
    }

    /// Makes a change of policy. In force when this returns. Blocks on the store.
    pub fn change(&self, actor: &Actor, change: Change) -> Result<(), ChangeError> {
        let _one = self.inner.changing.lock();
        self.inner.change(actor, change)
    }

    /// Switches the kill switch on: first in memory, so that it acts at once, then in the store.
    pub fn stop(
        &self,
        actor: &Actor,
        scope: Scope,
        paused_by: PausedBy,
        reason: String,
    ) -> StopReport {
        let stop = Stop { scope, paused_by, reason, paused_at: self.now() };
        self.inner.ring(&stop);
        let _one = self.inner.changing.lock();
        match self.inner.change(actor, Change::Stop(stop)) {
            Ok(()) => StopReport::Kept,
            Err(ChangeError::Registry(error)) => StopReport::InMemoryOnly(error),
        }
    }

    /// Switches it off: first in the store, so that a failure leaves everything stopped. Only ever
    /// called for a person who confirmed it.
    pub fn resume(&self, actor: &Actor, scope: Scope) -> Result<(), ChangeError> {
        let _one = self.inner.changing.lock();
        self.inner.change(actor, Change::Resume(scope))?;
        self.inner.release(scope);
        Ok(())
    }

    /// Whether everything is stopped.
    pub fn is_stopped(&self) -> bool {
        self.inner.global.is_stopped()
    }

    /// Every switch that is on, with who and why, the global one first.
    pub fn stops(&self) -> Vec<Stop> {
        let mut stops: Vec<_> = self.inner.stops.lock().values().cloned().collect();
        stops.sort_by_key(|stop| (stop.scope != Scope::Global, stop.paused_at));
        stops
    }

    /// An agent's status as it is in force, which the store may have yet to hear of.
    pub fn status_of(&self, entry: &Entry) -> AgentStatus {
        match entry.agent.status {
            AgentStatus::Revoked => AgentStatus::Revoked,
            AgentStatus::Active | AgentStatus::Paused if entry.turnstile.switch().is_stopped() => {
                AgentStatus::Paused
            }
            AgentStatus::Active | AgentStatus::Paused => AgentStatus::Active,
        }
    }

    /// Takes new settings. Policies are compiled again, for rates and services.
    pub fn configure(&self, settings: Settings) -> Result<(), ChangeError> {
        let _one = self.inner.changing.lock();
        let data = self.inner.directory.load().data().clone();
        let directory = self.inner.compiled(data, &settings).map_err(RegistryError::Invalid)?;
        self.inner.settings.store(Arc::new(settings));
        self.inner.install(directory);
        Ok(())
    }

    /// Writes what the gate counts about itself, for operators. Tells nothing of who asked for what.
    pub fn write_metrics(&self, page: &mut Exposition) {
        page.family(
            "agentguard_build_info",
            MetricKind::Gauge,
            "Always 1; the version is its label.",
        )
        .sample(&[("version", env!("CARGO_PKG_VERSION"))], 1);
        let stops = self.inner.stops.lock();
        let agents_stopped = stops.keys().filter(|scope| **scope != Scope::Global).count();
        drop(stops);
        let switches = Switches { all_stopped: self.is_stopped(), agents_stopped };
        self.inner.metrics.write(page, switches);
    }

    /// Puts something that happened to the gate itself on the record.
    pub fn note(&self, event: &'static str, severity: Severity, message: String, details: Value) {
        self.inner.record.event(SystemEvent { at: self.now(), event, severity, message, details });
    }

    /// Tells people something that no rule saw: trouble with the record, say.
    pub fn raise(&self, event: EventKind, message: String, details: Value) {
        self.inner.alert(event, None, message, details);
    }

    fn who(&self, directory: &Directory, knock: &Knock) -> Result<Arc<Entry>, Refusal> {
        let entry = match &knock.presented {
            Presented::Token(token) => directory.by_token(&token.hash()),
            Presented::Garbage => None,
            // A page in the user's browser can reach loopback too: it must not spend.
            Presented::Nothing if knock.from_web_page => {
                let message = "a request from a web page needs an agent token".to_owned();
                return Err(Refusal::with(Reason::Unauthenticated, message));
            }
            Presented::Nothing => {
                return directory.sole().cloned().ok_or_else(|| {
                    let message = "no agent token, and there is not exactly one agent".to_owned();
                    Refusal::with(Reason::Unauthenticated, message)
                });
            }
        };
        entry.cloned().ok_or_else(|| Refusal::plain(Reason::Unauthenticated))
    }

    async fn make_durable(&self, permit: Permit) -> Result<Permit, Refusal> {
        let Some((ticket, durability)) = permit.ticket().map(|(t, a)| (t, self.durability(a)))
        else {
            return Err(Refusal::plain(Reason::Internal));
        };
        if durability == Durability::Power
            && let Err(error) = self.inner.record.synced(ticket).await
        {
            permit.log_unsynced(&error);
            permit.undo(Reason::AuditUnavailable);
            return Err(Refusal::plain(Reason::AuditUnavailable));
        }
        Ok(permit)
    }

    fn durability(&self, action: &Action) -> Durability {
        let by_door = self.inner.settings.load().durability.by_door;
        let asked = Door::ALL.into_iter().zip(by_door).find(|(door, _)| *door == action.door());
        asked.and_then(|(_, durability)| durability).unwrap_or_else(|| self.by_service(action))
    }

    fn by_service(&self, action: &Action) -> Durability {
        let directory = self.inner.directory.load();
        let service = action.service().and_then(|alias| directory.service(alias));
        match service {
            Some(service) if service.pays_by_request() => Durability::Power,
            Some(_) | None => Durability::Process,
        }
    }
}

fn restored(
    history: &[HourOfAgent],
    zone: &Zone,
    now: Timestamp,
) -> HashMap<AgentId, Arc<Turnstile>> {
    let mut counters: HashMap<AgentId, Counters> = HashMap::new();
    for hour in history {
        let of_agent =
            counters.entry(hour.agent_id).or_insert_with(|| Counters::new(zone.clone(), now));
        of_agent.restore(hour.hour, hour.door, &hour.past);
    }
    counters.into_iter().map(|(id, counters)| (id, Turnstile::new(counters))).collect()
}

/// `::ffff:127.0.0.1` is 127.0.0.1: an allowlist must not be passed or missed by spelling.
const fn canonical(ip: IpAddr) -> IpAddr {
    ip.to_canonical()
}
