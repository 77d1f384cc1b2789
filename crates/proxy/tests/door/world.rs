//! A gate over a store in memory, its door on a free port, and an upstream behind it.

use std::future::ready;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use ::http::Method;
use agentguard_core::rule::{RuleAction, RuleSpec, RuleType};
use agentguard_core::service::{Service, ServiceKind};
use agentguard_core::time::Zone;
use agentguard_core::{
    Agent, AgentId, AgentStatus, Credential, Currency, MicroUsd, PriceTable, Rates, RuleId,
    RuleSetId, Secret, Timestamp,
};
use agentguard_egress::{BlockedNames, Guard, PlatformRoots, Resolver, Resolving};
use agentguard_gate::ports::{
    Durabilities, HourOfAgent, Record, RecordError, Registry, RegistryError, Ticket,
};
use agentguard_gate::{
    Actor, AgentRecord, AlertEvent, Change, Clock, CredentialChange, CredentialSource,
    CredentialState, Gate, IdSource, Intent, PausedBy, PolicyData, Row, RuleSet, Scope, Settings,
    StopReport, SystemEvent,
};
use agentguard_proxy::{Proxy, ProxyOptions};
use agentguard_testkit::Upstream;
use agentguard_testkit::http::{self, Answer};
use parking_lot::Mutex;
use serde_json::{Map, Value};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

const RULE_SET: RuleSetId = RuleSetId(uuid::Uuid::from_u128(1));

pub(crate) struct World {
    pub(crate) gate: Gate,
    pub(crate) guard: Arc<Guard>,
    pub(crate) record: Arc<MemoryRecord>,
    pub(crate) upstream: Upstream,
    pub(crate) proxy: Proxy,
    pub(crate) addr: SocketAddr,
    pub(crate) agent: AgentId,
    pub(crate) token: String,
    stop: Option<oneshot::Sender<()>>,
    pub(crate) served: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
pub(crate) struct MemoryRecord {
    rows: Mutex<Vec<Row>>,
    pub(crate) alerts: Mutex<Vec<AlertEvent>>,
    pub(crate) intents: AtomicU64,
    pub(crate) is_full: AtomicBool,
}

/// The policy, and what the record knew of the past when the gate was opened.
#[derive(Debug)]
struct MemoryRegistry(Mutex<PolicyData>, Vec<HourOfAgent>);

struct Names;

impl MemoryRecord {
    pub(crate) fn count(&self) -> usize {
        self.rows.lock().len()
    }
}

impl World {
    pub(crate) async fn new() -> Self {
        Self::with(ProxyOptions::default()).await
    }

    pub(crate) async fn with(options: ProxyOptions) -> Self {
        Self::with_past(options, |_| Vec::new()).await
    }

    /// With a gate that was opened over a record which knows this of its agent.
    pub(crate) async fn with_past(
        options: ProxyOptions,
        past: impl FnOnce(AgentId) -> Vec<HourOfAgent>,
    ) -> Self {
        let upstream = Upstream::start().await;
        let ids = IdSource::new().unwrap();
        let token = ids.token("ag_live_").unwrap();
        let agent = agent(&ids, "tester");
        let data = PolicyData {
            agents: vec![AgentRecord { agent: agent.clone(), token_hash: token.hash() }],
            rule_sets: vec![RuleSet { id: RULE_SET, name: "default".into(), rules: Vec::new() }],
            services: services(&upstream),
            ..PolicyData::default()
        };
        let record = Arc::new(MemoryRecord::default());
        let registry = Arc::new(MemoryRegistry(Mutex::new(data), past(agent.id)));
        let clock = Clock::starting_after(None).0;
        let gate =
            Gate::open(settings(&["127.0.0.0/8"]), Arc::clone(&record) as _, registry, clock, ids)
                .unwrap();
        let guard = Arc::new(Guard::new(Names, BlockedNames::default()));
        let proxy = Proxy::new(gate.clone(), Arc::clone(&guard), PlatformRoots::none(), options);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let addr = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let served = tokio::spawn(proxy.clone().serve(listener, async {
            let _ = stopped.await;
        }));
        let token = token.expose().to_owned();
        let agent = agent.id;
        let served = Some(served);
        Self { gate, guard, record, upstream, proxy, addr, agent, token, stop: Some(stop), served }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.addr)
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        http::request(Method::GET, &self.url(path), &[], "").await
    }

    pub(crate) async fn get_with(&self, path: &str, headers: &[(&str, &str)]) -> Answer {
        http::request(Method::GET, &self.url(path), headers, "").await
    }

    /// A form, as Stripe's SDKs send it.
    pub(crate) async fn form(&self, path: &str, body: &str) -> Answer {
        let kind = [("content-type", "application/x-www-form-urlencoded")];
        http::request(Method::POST, &self.url(path), &kind, body.to_owned()).await
    }

    pub(crate) async fn json(&self, path: &str, body: &str) -> Answer {
        let kind = [("content-type", "application/json")];
        http::request(Method::POST, &self.url(path), &kind, body.to_owned()).await
    }

    pub(crate) fn rule(&self, kind: RuleType, params: Value) {
        let Value::Object(params) = params else { panic!("parameters are an object") };
        self.change(Change::AddRule(rule(kind, params)));
    }

    pub(crate) fn add_agent(&self, name: &str) -> String {
        let ids = self.gate.ids();
        let token = ids.token("ag_live_").unwrap();
        self.change(Change::AddAgent { agent: agent(ids, name), token_hash: token.hash() });
        token.expose().to_owned()
    }

    pub(crate) fn put(&self, service: Service) {
        self.change(Change::PutService { service, credential: CredentialChange::Keep });
    }

    /// Lets the gate hold a credential for a service, or no more.
    pub(crate) fn hold(&self, alias: &str, credential: Option<&str>) {
        let service = (**self.gate.directory().service(alias).unwrap()).clone();
        let credential = match credential {
            Some(text) => {
                let credential = Credential::parse(Secret::new(text.to_owned()));
                CredentialChange::Set(credential.unwrap())
            }
            None => CredentialChange::Remove,
        };
        self.change(Change::PutService { service, credential });
    }

    pub(crate) fn change(&self, change: Change) {
        self.gate.change(&Actor::Cli, change).unwrap();
    }

    pub(crate) fn kill(&self, scope: Scope) {
        let report = self.gate.stop(&Actor::Cli, scope, PausedBy::User, "a test".to_owned());
        assert!(matches!(report, StopReport::Kept));
    }

    pub(crate) fn spent(&self) -> (MicroUsd, MicroUsd) {
        let directory = self.gate.directory();
        let day = self.gate.spending(directory.by_id(self.agent).unwrap()).day;
        (day.used, day.reserved)
    }

    /// The rows, once there are as many as asked for.
    pub(crate) async fn rows(&self, count: usize) -> Vec<Row> {
        for _ in 0..400 {
            let rows = self.record.rows.lock().clone();
            if rows.len() >= count {
                return rows;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("waited for {count} rows, there are {:?}", self.record.rows.lock());
    }

    pub(crate) async fn last_row(&self) -> Row {
        self.rows(1).await.pop().unwrap()
    }

    /// Ends the door; the handle completes when it has.
    pub(crate) fn shut_down(&mut self) -> JoinHandle<()> {
        drop(self.stop.take());
        self.served.take().unwrap()
    }
}

/// The refusal of this code, on the wire and on the record.
pub(crate) async fn check_refused(world: &World, answer: &Answer, status: u16, code: &str) -> Row {
    check_answer(answer, status, code);
    let row = world.last_row().await;
    assert_eq!(row.block_reason, Some(code));
    assert_eq!(answer.header("x-agentguard-request-id"), Some(row.id.to_string().as_str()));
    row
}

pub(crate) fn check_answer(answer: &Answer, status: u16, code: &str) {
    assert_eq!(answer.status.as_u16(), status, "{}", answer.text());
    let error = &answer.json()["error"];
    assert_eq!(error["code"], code, "{error}");
    assert!(error["message"].as_str().is_some_and(|message| !message.is_empty()), "{error}");
    assert_eq!(error["request_id"], answer.header("x-agentguard-request-id").unwrap());
    assert_eq!(answer.header("content-type"), Some("application/json"));
    assert!(answer.header("x-should-retry").is_some());
}

pub(crate) fn service(alias: &str, base_url: &str, kind: ServiceKind) -> Service {
    Service {
        alias: alias.to_owned(),
        base_url: base_url.parse().unwrap(),
        kind,
        allow_private: true,
        insecure_skip_tls_verify: false,
        allow_websocket: false,
        ca_file: None,
        credential_env: None,
        timeout_sec: None,
        extractors: Vec::new(),
    }
}

/// An upstream that says these pieces to whoever asks first, with pauses. Its base URL.
pub(crate) async fn scripted(pieces: &'static [&'static str]) -> String {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.read_buf(&mut Vec::with_capacity(16 * 1024)).await.unwrap();
        for piece in pieces {
            stream.write_all(piece.as_bytes()).await.unwrap();
            tokio::time::sleep(Duration::from_millis(30)).await;
        }
    });
    base
}

/// A client's own connection, with as little room for what it does not read as there is.
#[expect(clippy::disallowed_methods, reason = "a test's own client")]
pub(crate) async fn connect(addr: SocketAddr) -> TcpStream {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    socket.connect(addr).await.unwrap()
}

pub(crate) fn settings(allowed: &[&str]) -> Settings {
    Settings {
        zone: Zone::named("UTC").unwrap(),
        rates: Arc::new(Rates::new([(Currency::parse("EUR").unwrap(), 1_080_000)]).unwrap()),
        prices: Arc::new(PriceTable::built_in().unwrap()),
        allow_client_ips: allowed.iter().map(|net| net.parse().unwrap()).collect(),
        durability: Durabilities::default(),
    }
}

fn services(upstream: &Upstream) -> Vec<Service> {
    let base = upstream.base_url();
    vec![
        service("stripe", &base, ServiceKind::Stripe),
        service("google-ads", &base, ServiceKind::GoogleAds),
        service("openai", &base, ServiceKind::Openai),
        service("anthropic", &base, ServiceKind::Anthropic),
        service("plain", &base, ServiceKind::Generic),
        service("based", &format!("{base}/echo/base/"), ServiceKind::Generic),
    ]
}

fn agent(ids: &IdSource, name: &str) -> Agent {
    Agent {
        id: ids.agent().unwrap(),
        name: name.to_owned(),
        status: AgentStatus::Active,
        rule_set_id: RULE_SET,
        created_at: Timestamp::default(),
        last_seen_at: None,
        description: None,
    }
}

fn rule(kind: RuleType, params: Map<String, Value>) -> RuleSpec {
    RuleSpec {
        id: RuleId(uuid::Uuid::from_u128(7)),
        rule_set_id: RULE_SET,
        kind,
        enabled: true,
        action: RuleAction::Block,
        priority: 100,
        doors: None,
        params,
    }
}

impl Record for MemoryRecord {
    fn begin(&self, _: &Intent<'_>) -> Result<Ticket, RecordError> {
        if self.is_full.load(Ordering::SeqCst) {
            return Err(RecordError::Full);
        }
        let sequence = self.intents.fetch_add(1, Ordering::SeqCst);
        Ok(Ticket { segment: 0, sequence })
    }

    fn synced<'a>(
        &'a self,
        _: &Ticket,
    ) -> Pin<Box<dyn Future<Output = Result<(), RecordError>> + Send + 'a>> {
        Box::pin(ready(Ok(())))
    }

    fn finish(&self, _: Ticket, row: Row) {
        self.rows.lock().push(row);
    }

    fn refused(&self, row: Row) {
        self.rows.lock().push(row);
    }

    fn event(&self, _: SystemEvent) {}

    fn alert(&self, alert: &AlertEvent) {
        self.alerts.lock().push(alert.clone());
    }
}

impl Registry for MemoryRegistry {
    fn load(&self) -> Result<PolicyData, RegistryError> {
        Ok(self.0.lock().clone())
    }

    fn apply(
        &self,
        _: &Actor,
        change: Change,
        _: Timestamp,
        accept: Box<dyn FnOnce(&PolicyData) -> Result<(), String> + Send>,
    ) -> Result<PolicyData, RegistryError> {
        let mut kept = self.0.lock();
        let mut data = kept.clone();
        match change {
            Change::AddAgent { agent, token_hash } => {
                data.agents.push(AgentRecord { agent, token_hash });
            }
            Change::RevokeAgent(id) => {
                let agents = data.agents.iter_mut().filter(|record| record.agent.id == id);
                agents.for_each(|record| record.agent.status = AgentStatus::Revoked);
            }
            Change::AddRule(rule) => data.rule_sets[0].rules.push(rule),
            Change::PutService { service, credential } => {
                let source = CredentialSource::Store;
                match credential {
                    CredentialChange::Keep => None,
                    CredentialChange::Remove => data.credentials.remove(&service.alias),
                    CredentialChange::Set(credential) => data.credentials.insert(
                        service.alias.clone(),
                        CredentialState::Held { credential, source },
                    ),
                };
                data.services.retain(|old| old.alias != service.alias);
                data.services.push(service);
            }
            Change::Stop(stop) => data.stops.push(stop),
            Change::Reload { .. } => {}
            Change::PutPrice(spec) => data.prices.push(spec),
            Change::Resume(scope) => data.stops.retain(|stop| stop.scope != scope),
            Change::RotateToken { agent_id, token_hash } => {
                let agents = data.agents.iter_mut().filter(|record| record.agent.id == agent_id);
                agents.for_each(|record| record.token_hash = token_hash);
            }
            Change::RemoveService(alias) => data.services.retain(|old| old.alias != alias),
            other @ (Change::RemoveRule(_)
            | Change::ClearRules(_)
            | Change::RemovePrice(_)
            | Change::Import(_)) => {
                panic!("this store keeps no {other:?}")
            }
        }
        accept(&data).map_err(RegistryError::Invalid)?;
        *kept = data.clone();
        Ok(data)
    }

    fn apply_soon(&self, _: &Actor, _: Change, _: Timestamp) {}

    fn history(&self, _: Timestamp) -> Result<Vec<HourOfAgent>, RegistryError> {
        Ok(self.1.clone())
    }
}

/// Knows one name, which leads to a private address; everything else does not exist.
impl Resolver for Names {
    fn resolve<'a>(&'a self, host: &'a str) -> Resolving<'a> {
        let answer = match host {
            "inside.example" => Ok(vec![IpAddr::from([10, 0, 0, 1])]),
            _ => Err(io::ErrorKind::NotFound.into()),
        };
        Box::pin(ready(answer))
    }
}
