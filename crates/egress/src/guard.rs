//! Approval of destinations: name judged, addresses looked up, every one of them judged.
//!
//! Never here: the judgement itself (`core::net`), or a socket.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use agentguard_core::net::{
    Blocked, BlockedNames, Destination, Exceptions, Host, Passage, judge_addresses, judge_name,
};
use arc_swap::ArcSwap;
use tokio::time::Instant;

use crate::approved::Approved;
use crate::cache::ApprovalCache;
use crate::error::{ApproveError, DnsCause, DnsError};
use crate::limits::ADDRESSES_MAX;
use crate::resolver::Resolver;

/// The destination guard: one for every door.
pub struct Guard {
    resolver: Box<dyn Resolver>,
    closed: ArcSwap<Closed>,
    /// Counts changes of `closed`, for those who hold connections that were approved before.
    changes: AtomicU64,
    approvals: ApprovalCache,
}

/// What is closed whatever the exceptions say.
#[derive(Debug, Default)]
pub(crate) struct Closed {
    blocked_names: BlockedNames,
    own_listeners: Arc<[SocketAddr]>,
}

impl Guard {
    pub fn new(resolver: impl Resolver, blocked_names: BlockedNames) -> Self {
        let closed = Closed { blocked_names, own_listeners: Arc::default() };
        Self {
            resolver: Box::new(resolver),
            closed: ArcSwap::from_pointee(closed),
            changes: AtomicU64::new(0),
            approvals: ApprovalCache::default(),
        }
    }

    /// Says where the gate itself listens. Call it once the listeners are bound, before they accept.
    pub fn set_own_listeners(&self, listeners: &[SocketAddr]) {
        self.closed.rcu(|old| Closed {
            blocked_names: old.blocked_names.clone(),
            own_listeners: listeners.into(),
        });
        self.changes.fetch_add(1, Ordering::Release);
    }

    /// Replaces the operator's list of blocked names.
    pub fn set_blocked_names(&self, blocked_names: &BlockedNames) {
        self.closed.rcu(|old| Closed {
            blocked_names: blocked_names.clone(),
            own_listeners: Arc::clone(&old.own_listeners),
        });
        self.changes.fetch_add(1, Ordering::Release);
    }

    /// Judges the destination, with at most one look-up, and none when the same was approved in the
    /// last seconds.
    ///
    /// # Errors
    /// When the name or one of its addresses is refused, or the name cannot be resolved.
    pub async fn approve(
        &self,
        destination: &Destination,
        exceptions: &Exceptions,
    ) -> Result<Approved, ApproveError> {
        self.approve_at(destination, exceptions, Instant::now()).await
    }

    pub(crate) async fn approve_at(
        &self,
        destination: &Destination,
        exceptions: &Exceptions,
        now: Instant,
    ) -> Result<Approved, ApproveError> {
        let closed = self.closed.load_full();
        if let Some(approved) = self.approvals.get(destination, exceptions, &closed, now) {
            return Ok(approved);
        }
        let by_name = judge_name(destination, &closed.blocked_names, exceptions)?;
        let addresses = self.addresses(destination.host()).await?;
        let own = &closed.own_listeners;
        let by_address = judge_addresses(destination, &addresses, own, exceptions)?;
        let passage = if by_address == Passage::Ordinary { by_name } else { by_address };

        let port = destination.port();
        let addresses = addresses.into_iter().map(|ip| SocketAddr::new(ip, port)).collect();
        let approved = Approved::new(destination.clone(), addresses, Arc::clone(own), passage);
        self.approvals.put(&approved, exceptions, closed, now);
        Ok(approved)
    }

    /// How often the closed set has changed: while the number stays, so does what was judged.
    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// Judges the name alone, for a connection whose address was judged when it was dialled.
    pub(crate) fn judge_name(
        &self,
        destination: &Destination,
        exceptions: &Exceptions,
    ) -> Result<Passage, Blocked> {
        judge_name(destination, &self.closed.load().blocked_names, exceptions)
    }

    /// An address literal needs no resolver, but is judged like any answer of one.
    async fn addresses(&self, host: &Host) -> Result<Vec<IpAddr>, DnsError> {
        let failed = |cause| DnsError { host: host.clone(), cause };
        let name = match host {
            Host::Ip(ip) => return Ok(vec![ip.to_canonical()]),
            Host::Name(name) => name,
        };
        let answer = self.resolver.resolve(name.as_str()).await;
        let mut addresses = answer.map_err(|error| {
            if error.kind() == io::ErrorKind::TimedOut {
                failed(DnsCause::TimedOut)
            } else {
                failed(DnsCause::Failed(Arc::new(error)))
            }
        })?;
        addresses.truncate(ADDRESSES_MAX);
        if addresses.is_empty() {
            return Err(failed(DnsCause::NoAddress));
        }
        // IPv4-mapped answers are dialled as the IPv4 addresses they are, and judged as such.
        Ok(addresses.into_iter().map(|ip| ip.to_canonical()).collect())
    }

    #[cfg(test)]
    pub(crate) fn approvals_kept(&self) -> usize {
        self.approvals.len()
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard").field("closed", &self.closed).finish_non_exhaustive()
    }
}
