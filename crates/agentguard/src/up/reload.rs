//! A changed configuration in a running gate: what can be taken over is, the rest is named, and a
//! broken file changes nothing.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use agentguard_egress::Guard;
use agentguard_gate::{Actor, Change, Gate, Severity};
use agentguard_proxy::Proxy;
use serde_json::json;
use tokio::signal::unix::Signal;

use super::jobs::House;
use super::logging::Log;
use super::{Running, parts};
use crate::config::{self, Config, Loaded, ReloadPlan};
use crate::failure::Failure;

/// How often the file is looked at: one `stat`, and nobody waits longer for an edit to hold.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// A file that was not touched for this long is written.
const REST: Duration = Duration::from_millis(200);

/// Node, length and time of change.
type FileState = (u64, u64, i64, i64);

/// What takes new settings.
#[derive(Debug)]
pub(super) struct Parts {
    gate: Gate,
    guard: Arc<Guard>,
    proxy: Proxy,
    house: Arc<House>,
    log: Log,
    instance: u32,
}

impl Parts {
    pub(super) fn of(running: &Running) -> Self {
        Self {
            gate: running.gate.clone(),
            guard: Arc::clone(&running.guard),
            proxy: running.proxy.clone(),
            house: Arc::clone(&running.house),
            log: running.log.clone(),
            instance: running.instance,
        }
    }
}

/// Watches for SIGHUP and for changes of the file, for ever.
pub(super) async fn watch(
    mut hang_up: Signal,
    flag: Option<PathBuf>,
    loaded: Loaded,
    parts: Parts,
) {
    let Loaded { config: mut running, file } = loaded;
    let parts = Arc::new(parts);
    let mut seen = look_at_all(file.as_deref(), &running);
    let mut looks = tokio::time::interval(LOOK_EVERY);
    loop {
        let asked = tokio::select! {
            _ = hang_up.recv() => true,
            _ = looks.tick() => false,
        };
        let mut now = look_at_all(file.as_deref(), &running);
        // A file that is gone for a moment is being replaced by an editor.
        if !asked && (now == seen || now.contains(&None)) {
            continue;
        }
        now = at_rest(file.as_deref(), &running, now).await;
        seen = now;
        // Reads the file and waits for the store: both block.
        let reading = {
            let (flag, parts, running) = (flag.clone(), Arc::clone(&parts), running.clone());
            tokio::task::spawn_blocking(move || read_again(flag.as_deref(), &parts, running))
        };
        match reading.await {
            Ok(next) => running = next,
            Err(error) => broken(&parts, &error.to_string()),
        }
    }
}

/// The configuration that holds afterwards.
fn read_again(flag: Option<&Path>, parts: &Parts, running: Config) -> Config {
    let new = match config::load(flag) {
        Ok(loaded) => loaded.config,
        Err(error) => {
            broken(parts, &error.to_string());
            return running;
        }
    };
    let plan = config::diff(&running, &new);
    if plan.is_empty() {
        tracing::info!("the configuration was read again; nothing in it changed");
        return running;
    }
    match take_over(parts, &running, new, &plan) {
        Ok(next) => {
            tell(parts, &plan, &next);
            next
        }
        Err(failure) => {
            broken(parts, failure.message());
            running
        }
    }
}

fn take_over(
    parts: &Parts,
    running: &Config,
    new: Config,
    plan: &ReloadPlan,
) -> Result<Config, Failure> {
    let (before, after) = config::sides(running, &new, plan);
    let next = with_reloadable(running, new, plan);
    apply(parts, &next)?;
    if let Err(error) = parts.gate.change(&Actor::File, Change::Reload { before, after }) {
        // What is not on the record does not hold.
        apply(parts, running)?;
        return Err(Failure::because("recording the change of the configuration", &error));
    }
    Ok(next)
}

/// The running configuration with those keys of the new one that can change while it runs. Takes
/// what `config::diff` calls reloadable; the rest stays, so that a change back is no change.
fn with_reloadable(running: &Config, new: Config, plan: &ReloadPlan) -> Config {
    let mut next = running.clone();
    config::note_written(&mut next, &new, &plan.applied);
    next.server.log_level = new.server.log_level;
    next.proxy.upstream_timeout = new.proxy.upstream_timeout;
    next.proxy.allow_client_ips = new.proxy.allow_client_ips;
    next.proxy.max_body_inspect_bytes = new.proxy.max_body_inspect_bytes;
    next.proxy.prices_file = new.proxy.prices_file;
    next.proxy.file_prices = new.proxy.file_prices;
    next.proxy.fallback_price = new.proxy.fallback_price;
    next.proxy.clamp_max_tokens = new.proxy.clamp_max_tokens;
    next.destinations = new.destinations;
    next.currency_rates = new.currency_rates;
    next.warnings = new.warnings;
    next
}

/// All that can fail comes first: half a configuration must not hold.
fn apply(parts: &Parts, config: &Config) -> Result<(), Failure> {
    let blocked = parts::blocked_names(config)?;
    let options = parts::proxy(config, parts.instance)?;
    let openings = parts::openings(config)?;
    parts
        .gate
        .configure(parts::settings(config))
        .map_err(|error| Failure::because("taking over the configuration", &error))?;
    parts.guard.set_blocked_names(&blocked);
    parts.house.configure(openings);
    parts.proxy.configure(options);
    parts.log.set_level(config.server.log_level);
    Ok(())
}

fn tell(parts: &Parts, plan: &ReloadPlan, config: &Config) {
    for warning in &config.warnings {
        tracing::warn!("{warning}");
    }
    if !plan.applied.is_empty() {
        tracing::info!(keys = ?plan.applied, "the configuration was taken over");
    }
    if !plan.needs_restart.is_empty() {
        tracing::warn!(keys = ?plan.needs_restart, "these changes hold after a restart");
    }
    let details = json!({"applied": plan.applied, "needs_restart": plan.needs_restart});
    let message = "the configuration file was read again".to_owned();
    parts.gate.note("config.reloaded", Severity::Info, message, details);
}

fn broken(parts: &Parts, why: &str) {
    tracing::error!("the configuration is broken, and the running one stays: {why}");
    let message = "a broken configuration was not taken over".to_owned();
    parts.gate.note("config.broken", Severity::Warning, message, json!({"why": why}));
}

/// Waits until nobody writes the file any more: half of it, or an emptied one, may well be valid and
/// mean something else.
async fn at_rest(
    file: Option<&Path>,
    running: &Config,
    mut seen: Vec<Option<FileState>>,
) -> Vec<Option<FileState>> {
    loop {
        tokio::time::sleep(REST).await;
        let now = look_at_all(file, running);
        if now == seen {
            return now;
        }
        seen = now;
    }
}

/// The configuration, and the file of prices that it names.
fn look_at_all(file: Option<&Path>, running: &Config) -> Vec<Option<FileState>> {
    file.into_iter().chain(running.proxy.prices_file.as_deref()).map(look).collect()
}

/// What tells one state of a file from another.
fn look(file: &Path) -> Option<FileState> {
    let about = std::fs::metadata(file).ok()?;
    Some((about.ino(), about.len(), about.mtime(), about.mtime_nsec()))
}
