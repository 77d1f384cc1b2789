//! Approvals of the last seconds, so that a burst of connections costs one look-up.
//!
//! Never here: refusals. One that was lifted must count at once.

use std::collections::HashMap;
use std::sync::Arc;

use agentguard_core::net::{Destination, Exceptions};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::approved::Approved;
use crate::guard::Closed;
use crate::limits::{APPROVAL_TTL, APPROVALS_MAX};

#[derive(Debug, Default)]
pub(crate) struct ApprovalCache(Mutex<HashMap<Key, Entry>>);

#[derive(Debug, PartialEq, Eq, Hash)]
struct Key {
    destination: Destination,
    exceptions: Exceptions,
}

#[derive(Debug)]
struct Entry {
    approved: Approved,
    /// What was closed when it was judged: another set, and the judgement no longer holds.
    closed: Arc<Closed>,
    until: Instant,
}

impl ApprovalCache {
    pub(crate) fn get(
        &self,
        destination: &Destination,
        exceptions: &Exceptions,
        closed: &Arc<Closed>,
        now: Instant,
    ) -> Option<Approved> {
        let key = Key { destination: destination.clone(), exceptions: exceptions.clone() };
        let entries = self.0.lock();
        let entry = entries.get(&key)?;
        let fresh = now < entry.until && Arc::ptr_eq(&entry.closed, closed);
        fresh.then(|| entry.approved.clone())
    }

    pub(crate) fn put(
        &self,
        approved: &Approved,
        exceptions: &Exceptions,
        closed: Arc<Closed>,
        now: Instant,
    ) {
        let key =
            Key { destination: approved.destination().clone(), exceptions: exceptions.clone() };
        let Some(until) = now.checked_add(APPROVAL_TTL) else { return };
        let mut entries = self.0.lock();
        if entries.len() >= APPROVALS_MAX {
            entries.retain(|_, entry| now < entry.until);
        }
        // Full of fresh entries: this one is simply looked up again.
        if entries.len() < APPROVALS_MAX || entries.contains_key(&key) {
            entries.insert(key, Entry { approved: approved.clone(), closed, until });
        }
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.0.lock().len()
    }
}
