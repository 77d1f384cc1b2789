//! What ends the gate.

use agentguard_gate::{Actor, Gate, PausedBy, Scope, StopReport};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

use crate::failure::Failure;

/// SIGTERM and SIGINT, from the moment on that this exists.
#[derive(Debug)]
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    pub(super) fn new() -> Result<Self, Failure> {
        let listen =
            |kind| signal(kind).map_err(|error| Failure::because("waiting for signals", &error));
        Ok(Self {
            terminate: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
        })
    }

    /// Returns when one came.
    pub(super) async fn wait(mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// SIGHUP: read the configuration again. Until this is called it would end the process.
pub(super) fn hang_up() -> Result<Signal, Failure> {
    listen(SignalKind::hangup())
}

fn listen(kind: SignalKind) -> Result<Signal, Failure> {
    signal(kind).map_err(|error| Failure::because("waiting for signals", &error))
}

/// SIGUSR1: stop every agent. A signal needs no port and no file descriptor, so it also comes through
/// when somebody has used those up.
pub(super) fn stop_all() -> Result<Signal, Failure> {
    listen(SignalKind::user_defined1())
}

/// Switches the global kill switch on at every such signal.
pub(super) async fn obey_stop_all(mut signal: Signal, gate: Gate) {
    while signal.recv().await.is_some() {
        tracing::warn!("SIGUSR1: all agents are stopped");
        let gate = gate.clone();
        let stop = move || {
            gate.stop(&Actor::Cli, Scope::Global, PausedBy::User, "stopped by a signal".to_owned())
        };
        match tokio::task::spawn_blocking(stop).await {
            Ok(StopReport::Kept) => {}
            Ok(StopReport::InMemoryOnly(error)) => {
                tracing::error!(%error, "the stop is in force, but a restart would forget it");
            }
            Err(error) => tracing::error!(%error, "stopping broke off"),
        }
    }
}

/// Completes when the end was told, or when nobody is left to tell it.
pub(super) async fn told(mut ended: watch::Receiver<bool>) {
    drop(ended.wait_for(|ended| *ended).await);
}
