//! A registry in memory and a record that keeps nothing: the edge of I/O.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use agentguard_admin::{Admin, AdminOptions, Operator, RecordVitals, Upkeep, Vitals, plan, router};
use agentguard_core::service::Service;
use agentguard_core::time::Zone;
use agentguard_core::token::ADMIN_PREFIX;
use agentguard_core::{AgentStatus, PriceTable, Rates, Timestamp};
use agentguard_gate::ports::{
    Durabilities, HourOfAgent, Record, RecordError, Registry, RegistryError, Ticket,
};
use agentguard_gate::{
    Actor, AgentRecord, AlertEvent, Change, Clock, CredentialChange, CredentialSource,
    CredentialState, Gate, IdSource, Intent, PolicyData, Row, Scope, Settings, SystemEvent,
    defaults,
};
use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::BodyExt as _;
use parking_lot::Mutex;
use serde_json::Value;
use tower_service::Service as _;
use url::Url;

#[derive(Debug, Default)]
pub(crate) struct NoRecord;

impl Record for NoRecord {
    fn begin(&self, _: &Intent<'_>) -> Result<Ticket, RecordError> {
        Ok(Ticket { segment: 0, sequence: 0 })
    }
    fn synced<'a>(
        &'a self,
        _: &Ticket,
    ) -> Pin<Box<dyn Future<Output = Result<(), RecordError>> + Send + 'a>> {
        Box::pin(async { Ok(()) })
    }
    fn finish(&self, _: Ticket, _: Row) {}
    fn refused(&self, _: Row) {}
    fn event(&self, _: SystemEvent) {}
    fn alert(&self, _: &AlertEvent) {}
}

#[derive(Debug, Default)]
pub(crate) struct InMemory {
    data: Mutex<PolicyData>,
}

impl Registry for InMemory {
    fn load(&self) -> Result<PolicyData, RegistryError> {
        Ok(self.data.lock().clone())
    }

    fn apply(
        &self,
        _: &Actor,
        change: Change,
        _: Timestamp,
        accept: Box<dyn FnOnce(&PolicyData) -> Result<(), String> + Send>,
    ) -> Result<PolicyData, RegistryError> {
        let mut data = self.data.lock();
        let mut next = data.clone();
        make(&mut next, change);
        accept(&next).map_err(RegistryError::Invalid)?;
        *data = next.clone();
        Ok(next)
    }

    fn apply_soon(&self, _: &Actor, change: Change, _: Timestamp) {
        make(&mut self.data.lock(), change);
    }

    fn history(&self, _: Timestamp) -> Result<Vec<HourOfAgent>, RegistryError> {
        Ok(Vec::new())
    }
}

fn make(data: &mut PolicyData, change: Change) {
    match change {
        Change::AddAgent { agent, token_hash } => {
            data.agents.push(AgentRecord { agent, token_hash });
        }
        Change::RevokeAgent(id) => {
            let agents = data.agents.iter_mut();
            agents.filter(|r| r.agent.id == id).for_each(|r| r.agent.status = AgentStatus::Revoked);
        }
        Change::RotateToken { agent_id, token_hash } => {
            let agents = data.agents.iter_mut();
            agents.filter(|r| r.agent.id == agent_id).for_each(|r| r.token_hash = token_hash);
        }
        Change::AddRule(spec) => {
            let mut sets = data.rule_sets.iter_mut();
            sets.find(|set| set.id == spec.rule_set_id).unwrap().rules.push(spec);
        }
        Change::RemoveRule(id) => {
            data.rule_sets.iter_mut().for_each(|set| set.rules.retain(|rule| rule.id != id));
        }
        Change::ClearRules(id) => {
            let sets = data.rule_sets.iter_mut();
            sets.filter(|set| set.id == id).for_each(|set| set.rules.clear());
        }
        Change::PutService { service, credential } => put_service(data, service, credential),
        Change::RemoveService(alias) => {
            data.services.retain(|known| known.alias != alias);
            data.credentials.remove(&alias);
        }
        Change::PutPrice(spec) => {
            data.prices.retain(|known| known.model != spec.model);
            data.prices.push(spec);
        }
        Change::RemovePrice(model) => data.prices.retain(|known| known.model != model),
        Change::Stop(stop) => data.stops.push(stop),
        Change::Reload { .. } => {}
        Change::Resume(scope) => data.stops.retain(|stop| stop.scope != scope),
        Change::Import(plan) => {
            let before = data.clone();
            data.credentials.retain(|alias, _| plan.keeps_credential(alias, &before));
            data.rule_sets = plan.rule_sets;
            data.services = plan.services;
            data.prices = plan.prices.unwrap_or_else(|| data.prices.clone());
            let new = plan.new_agents.into_iter();
            data.agents.extend(new.map(|(agent, token_hash)| AgentRecord { agent, token_hash }));
            for (id, set) in plan.moved_agents {
                let agents = data.agents.iter_mut();
                agents.filter(|r| r.agent.id == id).for_each(|r| r.agent.rule_set_id = set);
            }
        }
    }
}

/// As the store does it.
fn put_service(data: &mut PolicyData, service: Service, credential: CredentialChange) {
    let source = CredentialSource::Store;
    let old = data.services.iter().find(|known| known.alias == service.alias);
    let same_origin = old.is_some_and(|old| old.origin() == service.origin());
    match credential {
        CredentialChange::Keep if same_origin => {}
        CredentialChange::Keep | CredentialChange::Remove => {
            data.credentials.remove(&service.alias);
        }
        CredentialChange::Set(credential) => {
            let held = CredentialState::Held { credential, source };
            data.credentials.insert(service.alias.clone(), held);
        }
    }
    data.services.retain(|known| known.alias != service.alias);
    data.services.push(service);
}

#[derive(Debug)]
struct NothingToFlush;

impl Upkeep for NothingToFlush {
    fn flush(&self) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        Ok(())
    }

    fn vitals(&self) -> Vitals {
        let record = RecordVitals { rows_written: 42, queue_places: 7, ..RecordVitals::default() };
        Vitals { record, ..Vitals::default() }
    }

    fn closed_destination(&self, url: &Url, service: Option<&Service>) -> Option<String> {
        let private = url.host_str() == Some("10.0.0.1");
        let allowed = service.is_some_and(|service| service.allow_private);
        (private && !allowed).then(|| "10.0.0.1 is private".to_owned())
    }
}

/// The endpoint over a gate as it is after a first start.
pub(crate) struct Endpoint {
    pub(crate) gate: Gate,
    pub(crate) admin: Admin,
    pub(crate) token: String,
    pub(crate) agent_token: String,
    router: Router,
}

pub(crate) const HOST: &str = "127.0.0.1:3000";

impl Endpoint {
    pub(crate) fn new() -> Self {
        let settings = Settings {
            zone: Zone::UTC,
            rates: Arc::new(Rates::default()),
            prices: Arc::new(PriceTable::built_in().unwrap()),
            allow_client_ips: Vec::new(),
            durability: Durabilities::default(),
        };
        let (clock, _) = Clock::starting_after(None);
        let ids = IdSource::new().unwrap();
        let registry = Arc::new(InMemory::default());
        let gate = Gate::open(settings, Arc::new(NoRecord), registry, clock, ids).unwrap();
        let policy = defaults::first_policy();
        let planned = plan(policy, &PolicyData::default(), gate.ids(), gate.now()).unwrap();
        gate.change(&Actor::System, Change::Import(Box::new(planned.plan))).unwrap();
        let agent_token = planned.new_agents[0].token.expose().to_owned();
        let token = gate.ids().token(ADMIN_PREFIX).unwrap();
        let operator = Operator { token_hash: token.hash(), actor: Actor::Cli };
        let admin = Admin::new(AdminOptions {
            gate: gate.clone(),
            upkeep: Arc::new(NothingToFlush),
            operators: vec![operator],
            bound: HOST.parse().unwrap(),
        });
        let router = router(admin.clone());
        Self { gate, admin, token: token.expose().to_owned(), agent_token, router }
    }

    /// Sends exactly these headers.
    pub(crate) async fn raw(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Body>,
    ) -> (StatusCode, Value) {
        let mut request = Request::builder().method(Method::try_from(method).unwrap()).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(body.into()).unwrap();
        let response = self.router.clone().call(request).await.unwrap();
        let status = response.status();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        (status, serde_json::from_slice(&bytes).unwrap_or(Value::Null))
    }

    /// What a path without a token says to somebody who calls the endpoint by this name.
    pub(crate) async fn text(&self, path: &str, host: &str) -> (StatusCode, HeaderMap, String) {
        let request = Request::builder().uri(path).header("host", host);
        let request = request.body(Body::empty()).unwrap();
        let response = self.router.clone().call(request).await.unwrap();
        let (head, body) = response.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        (head.status, head.headers, String::from_utf8(bytes.to_vec()).unwrap())
    }

    /// As the command line does it.
    pub(crate) async fn call(&self, method: &str, path: &str, body: Value) -> (u16, Value) {
        let bearer = format!("Bearer {}", self.token);
        let headers = [("host", HOST), ("authorization", bearer.as_str())];
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let (status, answer) = self.raw(method, &format!("/api/v1{path}"), &headers, body).await;
        (status.as_u16(), answer)
    }

    /// As [`Self::call`], for what must work.
    pub(crate) async fn ok(&self, method: &str, path: &str, body: Value) -> Value {
        let (status, answer) = self.call(method, path, body).await;
        assert!((200..300).contains(&status), "{method} {path}: {status} {answer}");
        answer
    }

    /// As [`Self::call`], for what must not: status, code, message.
    pub(crate) async fn refused(&self, method: &str, path: &str, body: Value) -> (u16, String) {
        let (status, answer) = self.call(method, path, body).await;
        assert!(status >= 400, "{method} {path}: {status} {answer}");
        let part = |name: &str| answer["error"][name].as_str().unwrap().to_owned();
        assert!(!part("request_id").is_empty() && answer["error"]["details"].is_object());
        (status, format!("{}: {}", part("code"), part("message")))
    }

    pub(crate) fn is_agent_stopped(&self, name: &str) -> bool {
        let directory = self.gate.directory();
        let entry = directory.by_name(name).unwrap();
        let known = directory.data().stops.iter().any(|s| s.scope == Scope::Agent(entry.agent.id));
        assert_eq!(known, entry.turnstile.switch().is_stopped());
        known
    }
}
