//! Names to addresses, behind a trait so that tests can lie.
//!
//! Never here: judging an address, caching an answer.
#![expect(
    clippy::disallowed_methods,
    reason = "the one place that asks the system's resolver; the guard judges every answer"
)]

use std::future::Future;
use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;

use crate::limits::{ADDRESSES_MAX, LOOKUP_TIMEOUT, LOOKUPS_MAX};

/// A look-up under way.
pub type Resolving<'a> = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send + 'a>>;

/// Answers where a name leads. What it answers is not trusted.
pub trait Resolver: Send + Sync + 'static {
    fn resolve<'a>(&'a self, host: &'a str) -> Resolving<'a>;
}

/// The system's own resolver, so that /etc/hosts and the like count as they do elsewhere.
#[derive(Debug, Clone)]
pub struct SystemResolver {
    slots: Arc<Semaphore>,
    timeout: Duration,
}

impl SystemResolver {
    pub fn new() -> Self {
        Self { slots: Arc::new(Semaphore::new(LOOKUPS_MAX)), timeout: LOOKUP_TIMEOUT }
    }

    async fn look_up(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        let slot = Arc::clone(&self.slots).acquire_owned().await.map_err(io::Error::other)?;
        let host = host.to_owned();
        // The system call cannot be cancelled. Its thread owns the slot, so that look-ups nobody
        // waits for any more still count, and slow names cannot pile up threads.
        let thread = tokio::task::spawn_blocking(move || {
            let addresses = (host.as_str(), 0).to_socket_addrs();
            drop(slot);
            addresses.map(|all| all.map(|address| address.ip()).take(ADDRESSES_MAX).collect())
        });
        thread.await.map_err(io::Error::other)?
    }
}

impl Default for SystemResolver {
    fn default() -> Self {
        Self::new()
    }
}

impl Resolver for SystemResolver {
    fn resolve<'a>(&'a self, host: &'a str) -> Resolving<'a> {
        Box::pin(async move {
            match tokio::time::timeout(self.timeout, self.look_up(host)).await {
                Ok(answer) => answer,
                Err(_) => Err(io::ErrorKind::TimedOut.into()),
            }
        })
    }
}
