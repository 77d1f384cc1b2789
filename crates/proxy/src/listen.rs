//! Accepting clients, up to a bound, until the gate ends.
//!
//! Never here: a request.

use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::Arc;

use agentguard_egress::{Guard, PlatformRoots};
use agentguard_gate::Gate;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;

use crate::connection::{self, Closing};
use crate::door::Door;
use crate::limits::ACCEPT_RETRY;
use crate::options::ProxyOptions;

/// The door `api`. Cheap to clone; clones are the same door.
#[derive(Clone, Debug)]
pub struct Proxy {
    door: Arc<Door>,
}

impl Proxy {
    /// A door over the gate and the one way out.
    pub fn new(gate: Gate, guard: Arc<Guard>, roots: PlatformRoots, options: ProxyOptions) -> Self {
        Self { door: Arc::new(Door::new(gate, guard, roots, options)) }
    }

    /// Takes new settings. Requests under way go on with the old ones.
    pub fn configure(&self, options: ProxyOptions) {
        self.door.configure(options);
    }

    /// Serves until `shutdown` completes; then lets requests under way finish, for a bounded time.
    pub async fn serve(self, listener: TcpListener, shutdown: impl Future<Output = ()>) {
        let options = self.door.options();
        let slots = Arc::new(Semaphore::new(options.max_connections.max(1)));
        let closing = Arc::new(Closing::default());
        let mut connections = JoinSet::new();
        let mut shutdown = pin!(shutdown);
        loop {
            tokio::select! {
                biased;
                () = &mut shutdown => break,
                Some(ended) = connections.join_next() => report(ended),
                client = accept(&listener, &slots) => match client {
                    Ok((stream, slot)) => self.welcome(stream, slot, &mut connections, &closing),
                    Err(error) => {
                        tracing::warn!(%error, "accepting a client");
                        tokio::time::sleep(ACCEPT_RETRY).await;
                    }
                },
            }
        }
        drop(listener);
        closing.ring();
        let drained = async {
            while let Some(ended) = connections.join_next().await {
                report(ended)
            }
        };
        if tokio::time::timeout(options.drain_timeout, drained).await.is_err() {
            tracing::warn!(open = connections.len(), "clients were cut off at the end");
        }
        connections.shutdown().await;
        self.door.finish().await;
    }

    fn welcome(
        &self,
        stream: TcpStream,
        slot: OwnedSemaphorePermit,
        connections: &mut JoinSet<()>,
        closing: &Arc<Closing>,
    ) {
        // A client that is gone already has no address.
        let Ok(peer) = stream.peer_addr() else { return };
        // Events of a stream leave when they come, not when a packet is full.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "switching off delays for a client");
        }
        let (door, closing) = (Arc::clone(&self.door), Arc::clone(closing));
        connections.spawn(async move {
            connection::serve(stream, peer.ip(), door, closing).await;
            drop(slot);
        });
    }
}

async fn accept(
    listener: &TcpListener,
    slots: &Arc<Semaphore>,
) -> io::Result<(TcpStream, OwnedSemaphorePermit)> {
    // First a slot: who has none waits in the system's queue, and costs nothing here.
    let slot = Arc::clone(slots).acquire_owned().await.map_err(io::Error::other)?;
    let (stream, _) = listener.accept().await?;
    Ok((stream, slot))
}

/// A panic ends the connection it happened on, and no other.
fn report(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended
        && error.is_panic()
    {
        tracing::error!(%error, "a connection ended in a panic");
    }
}
