//! What ends the gate.

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

/// Completes when the end was told, or when nobody is left to tell it.
pub(super) async fn told(mut ended: watch::Receiver<bool>) {
    drop(ended.wait_for(|ended| *ended).await);
}
