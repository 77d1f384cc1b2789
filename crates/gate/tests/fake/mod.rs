//! The gate's ports in memory: what they hold can be looked at, and they can be told to fail.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use agentguard_core::rule::{RuleSpec, RuleType};
use agentguard_core::time::Zone;
use agentguard_core::token::{PREFIX, TokenHash};
use agentguard_core::{Agent, AgentStatus, Rates, Reason, RuleId, RuleSetId, Timestamp};
use agentguard_gate::ports::{
    Accept, Durabilities, HourOfAgent, Record, RecordError, Registry, RegistryError, Ticket,
};
use agentguard_gate::{
    Actor, AgentRecord, AlertEvent, Caller, Change, Clock, Entry, Gate, IdSource, Intent, Knock,
    PolicyData, Presented, Row, RuleSet, Settings, SystemEvent,
};
use parking_lot::Mutex;
use serde_json::Value;
use uuid::Uuid;

/// Everything that was recorded.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    pub(crate) rows: Mutex<Vec<Row>>,
    pub(crate) alerts: Mutex<Vec<AlertEvent>>,
    pub(crate) events: Mutex<Vec<SystemEvent>>,
    pub(crate) changes: Mutex<Vec<Change>>,
    pub(crate) begun: AtomicU64,
    pub(crate) full: AtomicBool,
    pub(crate) sync_fails: AtomicBool,
    pub(crate) syncs: AtomicU64,
    pub(crate) data: Mutex<PolicyData>,
    pub(crate) history: Mutex<Vec<HourOfAgent>>,
}

impl Record for Memory {
    fn begin(&self, _: &Intent<'_>) -> Result<Ticket, RecordError> {
        if self.full.load(Ordering::SeqCst) {
            return Err(RecordError::Full);
        }
        Ok(Ticket { segment: 0, sequence: self.begun.fetch_add(1, Ordering::SeqCst) })
    }

    fn synced<'a>(
        &'a self,
        _: &Ticket,
    ) -> Pin<Box<dyn Future<Output = Result<(), RecordError>> + Send + 'a>> {
        self.syncs.fetch_add(1, Ordering::SeqCst);
        let fails = self.sync_fails.load(Ordering::SeqCst);
        Box::pin(async move { if fails { Err(RecordError::Closed) } else { Ok(()) } })
    }

    fn finish(&self, _: Ticket, row: Row) {
        self.rows.lock().push(row);
    }

    fn refused(&self, row: Row) {
        self.rows.lock().push(row);
    }

    fn event(&self, event: SystemEvent) {
        self.events.lock().push(event);
    }

    fn alert(&self, alert: &AlertEvent) {
        self.alerts.lock().push(alert.clone());
    }
}

impl Registry for Memory {
    fn load(&self) -> Result<PolicyData, RegistryError> {
        Ok(self.data.lock().clone())
    }

    fn apply(
        &self,
        _: &Actor,
        change: Change,
        _: Timestamp,
        accept: Accept,
    ) -> Result<PolicyData, RegistryError> {
        let mut data = self.data.lock().clone();
        match &change {
            Change::AddRule(rule) => data.rule_sets[0].rules.push(rule.clone()),
            Change::Stop(stop) => data.stops.push(stop.clone()),
            Change::Reload { .. } => {}
            Change::PutPrice(spec) => {
                data.prices.retain(|known| known.model != spec.model);
                data.prices.push(spec.clone());
            }
            Change::RemovePrice(model) => data.prices.retain(|known| known.model != *model),
            Change::Resume(scope) => data.stops.retain(|stop| stop.scope != *scope),
            Change::AddAgent { agent, token_hash } => {
                data.agents.push(AgentRecord { agent: agent.clone(), token_hash: *token_hash });
            }
            other @ (Change::RevokeAgent(_)
            | Change::RotateToken { .. }
            | Change::RemoveRule(_)
            | Change::ClearRules(_)
            | Change::PutService { .. }
            | Change::RemoveService(_)
            | Change::Import(_)) => panic!("the fake has no {other:?}"),
        }
        accept(&data).map_err(RegistryError::Invalid)?;
        self.changes.lock().push(change);
        *self.data.lock() = data.clone();
        Ok(data)
    }

    fn apply_soon(&self, _: &Actor, change: Change, _: Timestamp) {
        if let Change::Stop(stop) = &change {
            self.data.lock().stops.push(stop.clone());
        }
        self.changes.lock().push(change);
    }

    fn history(&self, _: Timestamp) -> Result<Vec<HourOfAgent>, RegistryError> {
        Ok(self.history.lock().clone())
    }
}

/// A gate over memory with one agent under these rules.
pub(crate) fn gate(rules: &[(RuleType, Value)]) -> (Gate, Arc<Memory>) {
    let memory = Arc::new(Memory::default());
    let ids = IdSource::new().unwrap();
    let token = ids.token(PREFIX).unwrap();
    add_agent(&memory, "bot", token.hash());
    memory.data.lock().rule_sets.push(RuleSet {
        id: SET,
        name: "default".into(),
        rules: rules
            .iter()
            .enumerate()
            .map(|(place, (kind, params))| spec(place, *kind, params))
            .collect(),
    });
    (open(&memory), memory)
}

/// Opens a gate over what the memory holds, as a restart would.
pub(crate) fn open(memory: &Arc<Memory>) -> Gate {
    let (record, registry): (Arc<dyn Record>, Arc<dyn Registry>) = (memory.clone(), memory.clone());
    let clock = Clock::starting_after(None).0;
    Gate::open(settings(), record, registry, clock, IdSource::new().unwrap()).unwrap()
}

pub(crate) fn settings() -> Settings {
    Settings {
        zone: Zone::UTC,
        rates: Arc::new(Rates::default()),
        prices: Arc::default(),
        allow_client_ips: vec!["127.0.0.0/8".parse().unwrap()],
        durability: Durabilities::default(),
    }
}

pub(crate) const SET: RuleSetId = RuleSetId(Uuid::from_u128(1));

pub(crate) fn add_agent(memory: &Memory, name: &str, token_hash: TokenHash) {
    let agent = Agent {
        id: IdSource::new().unwrap().agent().unwrap(),
        name: name.into(),
        status: AgentStatus::Active,
        rule_set_id: SET,
        created_at: Timestamp::from_micros(0),
        last_seen_at: None,
        description: None,
    };
    memory.data.lock().agents.push(AgentRecord { agent, token_hash });
}

/// The only agent, having knocked as its client would.
pub(crate) fn caller(gate: &Gate) -> Result<Caller, Reason> {
    let knock = Knock {
        presented: Presented::Nothing,
        client_ip: [127, 0, 0, 1].into(),
        from_web_page: false,
    };
    gate.identify(&knock).map_err(|rebuff| rebuff.refusal.reason)
}

pub(crate) fn sole(gate: &Gate) -> Arc<Entry> {
    gate.directory().sole().unwrap().clone()
}

pub(crate) fn spec(place: usize, kind: RuleType, params: &Value) -> RuleSpec {
    RuleSpec {
        id: RuleId(Uuid::from_u128(place as u128 + 1)),
        rule_set_id: SET,
        kind,
        enabled: true,
        action: kind.default_action(),
        priority: 100,
        doors: None,
        params: params.as_object().unwrap().clone(),
    }
}

pub(crate) fn dollars(amount: &str, gate: &Gate) -> agentguard_core::Action {
    let micros = agentguard_core::money::parse_micros(amount).unwrap();
    agentguard_core::Action {
        at: gate.now(),
        facts: agentguard_core::Facts::Api(agentguard_core::action::ApiFacts {
            method: "POST".into(),
            masked_url: "https://api.stripe.com/v1/charges".into(),
            host: "api.stripe.com".into(),
            service: Some("stripe".into()),
        }),
        amount: agentguard_core::Amount::Exact(
            agentguard_core::Money::new(micros, agentguard_core::Currency::USD).unwrap(),
        ),
    }
}
