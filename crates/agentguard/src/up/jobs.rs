//! What runs beside the listeners, and what the management endpoint asks of the store.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use agentguard_admin::{ProcessVitals, RecordVitals, Upkeep, Vitals};
use agentguard_core::net::{Host, judge_addresses, judge_name};
use agentguard_core::service::Service;
use agentguard_egress::{
    BlockedNames, DangerAllow, Destination, Exceptions, Passage, PrivateAddresses,
};
use agentguard_gate::{EventKind, Gate};
use agentguard_store::{Store, StoreError};
use url::Url;

/// Rows are kept for days; an hour more or less is nothing.
const RETENTION_EVERY: Duration = Duration::from_secs(3_600);

/// The rest of the process, as the management endpoint sees it.
#[derive(Debug)]
pub(super) struct House {
    store: Arc<Store>,
    listeners: [SocketAddr; 2],
    openings: Mutex<Openings>,
}

/// What the configuration closes and opens.
#[derive(Debug)]
pub(super) struct Openings {
    pub(super) blocked: BlockedNames,
    pub(super) danger_allow: Vec<DangerAllow>,
}

impl House {
    pub(super) fn new(
        store: Arc<Store>,
        listeners: [SocketAddr; 2],
        openings: Openings,
    ) -> Arc<Self> {
        Arc::new(Self { store, listeners, openings: Mutex::new(openings) })
    }

    /// Takes what a changed configuration says.
    pub(super) fn configure(&self, openings: Openings) {
        *self.openings() = openings;
    }

    fn openings(&self) -> MutexGuard<'_, Openings> {
        self.openings.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Upkeep for House {
    fn flush(&self) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        self.store.flush().map_err(Into::into)
    }

    fn vitals(&self) -> Vitals {
        let stats = self.store.stats();
        let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
        let record = RecordVitals {
            rows_written: stats.rows_written,
            rows_dropped: stats.rows_dropped,
            queue_depth: count(stats.places.saturating_sub(stats.free_places)),
            queue_places: count(stats.places),
            journal_syncs: stats.journal_syncs,
            since_commit: stats.since_commit,
        };
        Vitals { record, process: process() }
    }

    fn closed_destination(&self, url: &Url, service: Option<&Service>) -> Option<String> {
        let destination = match Destination::from_url(url) {
            Ok(destination) => destination,
            Err(error) => return Some(error.to_string()),
        };
        let private = match service {
            Some(service) if service.allow_private => PrivateAddresses::AllowedForService,
            Some(_) | None => PrivateAddresses::Refused,
        };
        let openings = self.openings();
        let exceptions = Exceptions::new(private, openings.danger_allow.clone());
        let by_name = judge_name(&destination, &openings.blocked, &exceptions);
        let judged = by_name.and_then(|_| match destination.host() {
            Host::Ip(ip) => {
                judge_addresses(&destination, &[ip.to_canonical()], &self.listeners, &exceptions)
            }
            // Where a name leads is only known by asking for it, which an explanation must not.
            Host::Name(_) => Ok(Passage::Ordinary),
        });
        judged.err().map(|blocked| blocked.to_string())
    }
}

/// What the system says of this process; on systems without `/proc`, nothing.
fn process() -> ProcessVitals {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = resident.and_then(|text| text.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    let open = std::fs::read_dir("/proc/self/fd").ok().map(Iterator::count);
    ProcessVitals {
        resident_bytes: kib.map(|kib| kib.saturating_mul(1_024)),
        // One of them is the look itself.
        open_fds: open.and_then(|count| u64::try_from(count.saturating_sub(1)).ok()),
    }
}

/// Removes what is old, once an hour.
pub(super) async fn retention(store: Arc<Store>, gate: Gate) {
    let mut hours = tokio::time::interval(RETENTION_EVERY);
    loop {
        hours.tick().await;
        let (store, now) = (Arc::clone(&store), gate.now());
        match tokio::task::spawn_blocking(move || store.retain(now)).await {
            Ok(Ok(removed)) => tracing::debug!(?removed, "old rows of the record are gone"),
            Ok(Err(error)) => {
                tracing::warn!(%error, "old rows of the record could not be removed");
                if let StoreError::Altered { .. } = error {
                    let details = serde_json::json!({});
                    gate.raise(EventKind::AuditIntegrityFailed, error.to_string(), details);
                }
            }
            Err(error) => tracing::error!(%error, "removing old rows broke off"),
        }
    }
}
