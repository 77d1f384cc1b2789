//! `agentguard up`: puts the parts together, runs them, and ends them in order. Assembly only.

mod banner;
mod first_start;
mod jobs;
mod listen;
mod logging;
mod parts;
mod reload;
mod stop;
mod token_file;

use std::io::{self, IsTerminal as _};
use std::process::ExitCode;
use std::sync::Arc;

use agentguard_admin::{Admin, AdminOptions, Operator};
use agentguard_egress::{Guard, PlatformRoots, SystemResolver};
use agentguard_gate::{Actor, Clock, EventKind, Gate, IdSource, Severity};
use agentguard_proxy::Proxy;
use agentguard_store::{Opened, Store, StoreOptions};
use rustix::fs::Mode;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::json;
use tokio::sync::watch;

use crate::config::{Config, Loaded};
use crate::failure::Failure;
use crate::session::Session;

pub(crate) use parts::prices;

use banner::Announce;
use jobs::House;
use listen::Listeners;
use logging::Log;

/// Everything that runs.
#[derive(Debug)]
struct Running {
    gate: Gate,
    guard: Arc<Guard>,
    proxy: Proxy,
    admin: Admin,
    store: Arc<Store>,
    house: Arc<House>,
    log: Log,
    /// Which gate this is, for loops to be seen.
    instance: u32,
}

/// Runs until a signal ends it.
pub(crate) fn run(session: &Session) -> Result<ExitCode, Failure> {
    // Before anything is made: every file of the gate is its owner's only, whoever makes it.
    rustix::process::umask(Mode::RWXG | Mode::RWXO);
    raise_file_limit();
    let loaded = session.load()?;
    let log = logging::start(loaded.config.server.log_level)?;
    for warning in &loaded.config.warnings {
        tracing::warn!("{warning}");
    }
    let announce = if session.json() || !io::stdout().is_terminal() {
        Announce::Json
    } else {
        Announce::Words
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::because("starting the runtime", &error))?;
    runtime.block_on(serve(session, loaded, log, announce))?;
    Ok(ExitCode::SUCCESS)
}

/// As many open files as this process may have: each connection takes one, and running out of them
/// must not be a way to keep the management endpoint from answering.
fn raise_file_limit() {
    let limit = getrlimit(Resource::Nofile);
    // Refused, the gate runs with what it has.
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    let _ = setrlimit(Resource::Nofile, raised);
}

async fn serve(
    session: &Session,
    loaded: Loaded,
    log: Log,
    announce: Announce,
) -> Result<(), Failure> {
    // Signals first: one that comes while the store opens must end us in order too.
    let ending = stop::Signals::new()?;
    let hang_up = stop::hang_up()?;
    let stop_all = stop::stop_all()?;
    let config = &loaded.config;
    // Ports before the store: a first start that fails must not have shown a token.
    let listeners = Listeners::bind(config).await?;
    let opened = open_store(config).await?;
    let store = Arc::clone(&opened.store);
    let started = assemble(config, &listeners, opened, log).await;
    let (running, first) = match started {
        Ok(started) => started,
        Err(failure) => {
            close(store).await;
            return Err(failure);
        }
    };
    let (end, ended) = watch::channel(false);
    let proxy = {
        let (proxy, ended) = (running.proxy.clone(), ended.clone());
        tokio::spawn(proxy.serve(listeners.proxy, stop::told(ended)))
    };
    let admin = {
        let (admin, ended) = (running.admin.clone(), ended.clone());
        tokio::spawn(agentguard_admin::serve(listeners.admin, admin, stop::told(ended)))
    };
    let stopping = tokio::spawn(stop::obey_stop_all(stop_all, running.gate.clone()));
    let retention = tokio::spawn(jobs::retention(running.store.clone(), running.gate.clone()));
    let parts = reload::Parts::of(&running);
    let flag = session.config_flag().map(ToOwned::to_owned);
    let reload = tokio::spawn(reload::watch(hang_up, flag, loaded.clone(), parts));

    running.gate.note("start", Severity::Info, "the gate started".to_owned(), about(config));
    let announced = announce.ready(config, &listeners.addresses, &running.gate, first.as_ref());
    if let Err(failure) = announced {
        // `/readyz` tells it too; a reader that hung up is no reason to leave agents unguarded.
        tracing::warn!("nobody reads what the start has to say: {}", failure.message());
    }
    // Last: who waits for `/readyz` finds on stdout what there is to read.
    running.admin.set_ready(true);
    ending.wait().await;
    tracing::info!("stopping: requests under way have a few seconds to end");
    running.admin.set_ready(false);
    // Nobody is left to be told where nobody listens.
    end.send_replace(true);
    reload.abort();
    retention.abort();
    stopping.abort();
    for task in [proxy, admin] {
        if let Err(error) = task.await {
            tracing::error!(%error, "a listener broke off");
        }
    }
    running.gate.note("stop", Severity::Info, "the gate stopped".to_owned(), json!({}));
    close(store).await;
    Ok(())
}

async fn open_store(config: &Config) -> Result<Opened, Failure> {
    let options = StoreOptions {
        data_dir: config.data_dir.clone(),
        zone: config.timezone.clone(),
        checkpoint_file: config.audit.checkpoint_file.clone(),
        retention: parts::retention(config),
    };
    let opened = tokio::task::spawn_blocking(move || Store::open(options)).await;
    opened.map_err(|error| Failure::because("opening the store", &error))?.map_err(|error| {
        Failure::because("`data_dir`", &error)
            .hint("`agentguard doctor` looks at the folder, the database and the disk")
            .into_usage()
    })
}

/// The gate over the store, the door and the endpoint over the gate.
async fn assemble(
    config: &Config,
    listeners: &Listeners,
    opened: Opened,
    log: Log,
) -> Result<(Running, Option<first_start::FirstAgent>), Failure> {
    let failed =
        |doing: &'static str| move |error: &dyn std::error::Error| Failure::because(doing, error);
    let (clock, behind_sec) = Clock::starting_after(opened.last_seen);
    let ids = IdSource::new().map_err(|error| failed("making ids")(&error))?;
    if opened.recovered > 0 {
        let count = opened.recovered;
        tracing::warn!("{count} actions were under way when the gate died; they stay charged");
    }
    let found = opened.warnings;
    let store = opened.store;
    let settings = parts::settings(config);
    let over = Arc::clone(&store);
    let opening = move || Gate::open(settings, over.clone(), over, clock, ids);
    let gate = tokio::task::spawn_blocking(opening)
        .await
        .map_err(|error| failed("opening the gate")(&error))?
        .map_err(|error| failed("reading the policy")(&error))?;
    raise_found(&gate, &found);
    tell_unusable_credentials(&gate);
    if let Some(seconds) = behind_sec {
        let message = format!("the machine's clock is {seconds} s behind the record");
        tracing::warn!("{message}; the gate goes on from the record's time");
        gate.note("clock.set_back", Severity::Warning, message, json!({"seconds": seconds}));
    }
    let first = first_start::policy(&gate).await?;
    let token = token_file::ensure(&config.data_dir, gate.ids())?;
    let guard = Arc::new(Guard::new(SystemResolver::new(), parts::blocked_names(config)?));
    guard.set_own_listeners(&listeners.addresses.all());
    let instance = parts::instance()?;
    let options = parts::proxy(config, instance)?;
    let openings = parts::openings(config)?;
    let house = House::new(Arc::clone(&store), listeners.addresses.all(), openings);
    let proxy = Proxy::new(gate.clone(), Arc::clone(&guard), PlatformRoots::load(), options);
    let admin = Admin::new(AdminOptions {
        gate: gate.clone(),
        upkeep: Arc::<House>::clone(&house),
        operators: vec![Operator { token_hash: token.hash(), actor: Actor::Cli }],
        bound: listeners.addresses.admin,
    });
    if gate.is_stopped() {
        tracing::warn!("the kill switch is on: everything is refused until `agentguard resume`");
    }
    Ok((Running { gate, guard, proxy, admin, store, house, log, instance }, first))
}

/// What the store found at its opening is more than a line in a log: somebody must hear of it.
fn raise_found(gate: &Gate, found: &[String]) {
    // A damaged journal may have thousands; the first tell what it is about.
    const TOLD_MAX: usize = 20;
    let Some(first) = found.first() else { return };
    let more = match found.len() {
        1 => String::new(),
        count => format!(" (the first of {count})"),
    };
    let told: Vec<_> = found.iter().take(TOLD_MAX).collect();
    let details = json!({"found": told, "count": found.len()});
    gate.raise(EventKind::AuditIntegrityFailed, format!("{first}{more}"), details);
}

/// The gate runs without them; calls that need one are refused.
fn tell_unusable_credentials(gate: &Gate) {
    let directory = gate.directory();
    for service in &directory.data().services {
        let Some(why) = directory.credential(&service.alias).problem() else { continue };
        let alias = &service.alias;
        let message = format!("the credential of service `{alias}` cannot be used: {why}");
        tracing::warn!("{message}; calls that need it are refused");
        let details = json!({"service": alias});
        gate.note("credential.unusable", Severity::Warning, message, details);
    }
}

async fn close(store: Arc<Store>) {
    match tokio::task::spawn_blocking(move || store.close()).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::error!(%error, "closing the store"),
        Err(error) => tracing::error!(%error, "closing the store broke off"),
    }
}

fn about(config: &Config) -> serde_json::Value {
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "proxy": config.proxy.bind.to_string(),
        "admin": config.admin.bind.to_string(),
    })
}
