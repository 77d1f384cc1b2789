//! What every handler can reach.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use agentguard_core::Timestamp;
use agentguard_core::service::Service;
use agentguard_core::token::{Token, TokenHash};
use agentguard_gate::{Actor, Gate};
use tokio::sync::Mutex;
use url::Url;

use crate::error::ApiError;
use crate::proof::{Nonce, Proof};

/// What the endpoint asks of the process around it. The binary implements it over the store.
pub trait Upkeep: Send + Sync + std::fmt::Debug + 'static {
    /// Writes out every row that waits, and returns when it can be read. May block.
    fn flush(&self) -> Result<(), Box<dyn std::error::Error + Send + Sync>>;

    /// How the record and the process are doing, for `/metrics`. May block for a moment.
    fn vitals(&self) -> Vitals;

    /// Why the destination guard would refuse this address, as far as can be said without asking
    /// anybody where a name leads. `service` is the one that a call goes to.
    fn closed_destination(&self, url: &Url, service: Option<&Service>) -> Option<String>;
}

/// How the rest of the process is doing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Vitals {
    /// The record.
    pub record: RecordVitals,
    /// The process.
    pub process: ProcessVitals,
}

/// How the record is doing.
#[derive(Clone, Copy, Debug, Default)]
pub struct RecordVitals {
    /// Rows of the request log that were committed since the start.
    pub rows_written: u64,
    /// Rows of refused calls that were dropped since the start, because the queue was crowded.
    pub rows_dropped: u64,
    /// Rows on their way to the database, those of actions under way included.
    pub queue_depth: u64,
    /// How many there can be; then the gate refuses.
    pub queue_places: u64,
    /// Syncs of the journal since the start.
    pub journal_syncs: u64,
    /// How long ago the last commit was; none before the first.
    pub since_commit: Option<Duration>,
}

/// What the system says of the process, as far as it does.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProcessVitals {
    /// Memory that is really there.
    pub resident_bytes: Option<u64>,
    /// Open files and sockets.
    pub open_fds: Option<u64>,
}

/// Somebody who may manage the gate.
#[derive(Clone, Debug)]
pub struct Operator {
    /// What the token hashes to.
    pub token_hash: TokenHash,
    /// As whom changes are recorded.
    pub actor: Actor,
}

/// What the endpoint is made of.
#[derive(Debug)]
pub struct AdminOptions {
    /// The gate that is managed.
    pub gate: Gate,
    /// The rest of the process.
    pub upkeep: Arc<dyn Upkeep>,
    /// Who may come in.
    pub operators: Vec<Operator>,
    /// Where the endpoint listens, as bound: the names it may be called by follow from it.
    pub bound: SocketAddr,
}

/// The management endpoint's state. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Admin {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    gate: Gate,
    upkeep: Arc<dyn Upkeep>,
    operators: Vec<Operator>,
    bound: SocketAddr,
    hosts: Vec<String>,
    ready: AtomicBool,
    started: Timestamp,
    /// Held by changes that read the policy first: two of them must not build on the same state.
    changing: Mutex<()>,
}

impl Admin {
    /// Not ready until [`Admin::set_ready`] says so.
    pub fn new(options: AdminOptions) -> Self {
        let AdminOptions { gate, upkeep, operators, bound } = options;
        let hosts = names_of(bound);
        let (ready, changing) = (AtomicBool::new(false), Mutex::new(()));
        let started = gate.now();
        let inner = Inner { gate, upkeep, operators, bound, hosts, ready, started, changing };
        Self { inner: Arc::new(inner) }
    }

    /// Whether `/readyz` says that the gate serves.
    pub fn set_ready(&self, ready: bool) {
        self.inner.ready.store(ready, Ordering::SeqCst);
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.inner.ready.load(Ordering::SeqCst)
    }

    /// When this was made, which is when the process started, give or take a second.
    pub(crate) fn started(&self) -> Timestamp {
        self.inner.started
    }

    pub(crate) fn gate(&self) -> &Gate {
        &self.inner.gate
    }

    pub(crate) fn upkeep(&self) -> Arc<dyn Upkeep> {
        Arc::clone(&self.inner.upkeep)
    }

    /// `127.0.0.1:3000` and the like: what `Host` may be.
    pub(crate) fn hosts(&self) -> &[String] {
        &self.inner.hosts
    }

    /// Who holds the token. Every operator is looked at, in a time that tells nothing.
    pub(crate) fn operator(&self, token: &Token) -> Option<Actor> {
        let hash = token.hash();
        let mut found = None;
        for operator in &self.inner.operators {
            if operator.token_hash.same_as(&hash) {
                found = Some(operator.actor.clone());
            }
        }
        found
    }

    /// That we know the token of the command line, if there is one.
    pub(crate) fn proof(&self, nonce: &Nonce) -> Option<Proof> {
        let own = self.inner.operators.iter().find(|operator| operator.actor == Actor::Cli)?;
        Some(Proof::of(&own.token_hash, nonce, self.inner.bound))
    }

    /// One change that reads first at a time.
    pub(crate) async fn one_change(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.inner.changing.lock().await
    }

    /// Runs what blocks on the store away from the threads that serve. It goes on when the caller
    /// hangs up: a stop that was asked for is carried out.
    pub(crate) async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Gate) -> T + Send + 'static,
    ) -> Result<T, ApiError> {
        let gate = self.gate().clone();
        tokio::task::spawn_blocking(move || work(&gate)).await.map_err(|error| {
            tracing::error!(%error, "a change of the management endpoint broke off");
            ApiError::internal()
        })
    }
}

/// The names by which a caller on this machine may address the endpoint. A web page whose name was
/// pointed at loopback (DNS rebinding) sends its own name, and is turned away.
fn names_of(bound: SocketAddr) -> Vec<String> {
    let port = bound.port();
    let mut names: Vec<String> = ["127.0.0.1", "localhost", "[::1]"]
        .iter()
        .flat_map(|host| {
            let plain = (port == 80).then(|| (*host).to_owned());
            [Some(format!("{host}:{port}")), plain].into_iter().flatten()
        })
        .collect();
    names.push(bound.to_string());
    names
}
