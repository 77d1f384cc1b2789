//! What the gate counts about itself, for operators: plain atomics, a few relaxed adds a request.
//!
//! Never here: the name of an agent, a URL or anything else that callers choose. Labels come from
//! closed lists and from the aliases of services, which only operators give. Never a ground for a
//! decision either: those stand on `Counters`, under their lock.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use agentguard_core::{Door, MicroUsd, Reason, wire};
use arc_swap::ArcSwap;

use crate::alert::EventKind;
use crate::directory::Directory;
use crate::exposition::{Exposition, MetricKind, Millionths};
use crate::record::Decision;

/// Aliases that get numbers of their own, those of removed services included. Operators have tens of
/// services; what comes after this many is counted without its name.
const SERVICES_MAX: usize = 1_000;

/// Upper ends of the histogram's buckets in microseconds, and as labels. A refusal takes well under
/// the first, a long model call some tens of seconds.
const BUCKETS: [(u64, &str); 15] = [
    (1_000, "0.001"),
    (2_500, "0.0025"),
    (5_000, "0.005"),
    (10_000, "0.01"),
    (25_000, "0.025"),
    (50_000, "0.05"),
    (100_000, "0.1"),
    (250_000, "0.25"),
    (500_000, "0.5"),
    (1_000_000, "1"),
    (2_500_000, "2.5"),
    (5_000_000, "5"),
    (10_000_000, "10"),
    (30_000_000, "30"),
    (60_000_000, "60"),
];

/// One more than the bounds: what took longer than the last.
const BUCKET_COUNT: usize = BUCKETS.len() + 1;

/// The gate's own numbers.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    doors: [DoorMeters; Door::COUNT],
    services: ArcSwap<HashMap<Arc<str>, Arc<ServiceMeters>>>,
    /// Actions that go to no service, or to one that is not known.
    elsewhere: ServiceMeters,
    alerts: [AtomicU64; EventKind::ALL.len()],
    /// Micro-dollars set aside by open permits.
    reserved: AtomicU64,
    streams_open: AtomicU64,
}

#[derive(Debug, Default)]
struct DoorMeters {
    permits_open: AtomicU64,
    refusals: [AtomicU64; Reason::ALL.len()],
    durations: [AtomicU64; BUCKET_COUNT],
    duration_micros: AtomicU64,
}

#[derive(Debug, Default)]
struct ServiceMeters {
    actions: [[AtomicU64; Decision::ALL.len()]; Door::COUNT],
    spent_micros: AtomicU64,
}

/// What a page shows besides what was counted here.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Switches {
    pub(crate) all_stopped: bool,
    pub(crate) agents_stopped: usize,
}

/// An action that has ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ended<'a> {
    pub(crate) door: Door,
    pub(crate) service: Option<&'a Arc<str>>,
    pub(crate) decision: Decision,
    pub(crate) failure: Option<Reason>,
    pub(crate) cost: MicroUsd,
    pub(crate) latency_us: i64,
}

impl Metrics {
    /// Gives every service of this policy numbers of its own. What was counted stays.
    pub(crate) fn know(&self, directory: &Directory) {
        let mut known = HashMap::clone(&self.services.load());
        for service in &directory.data().services {
            if known.len() < SERVICES_MAX && !known.contains_key(service.alias.as_str()) {
                known.insert(service.alias.as_str().into(), Arc::default());
            }
        }
        self.services.store(Arc::new(known));
    }

    /// A permit was given.
    pub(crate) fn opened(&self, door: Door, reserved: MicroUsd) {
        if let Some(meters) = self.doors.get(door.index()) {
            add(&meters.permits_open, 1);
        }
        add(&self.reserved, micros(reserved));
    }

    /// A permit ended.
    pub(crate) fn closed(&self, reserved: MicroUsd, ended: &Ended<'_>) {
        if let Some(meters) = self.doors.get(ended.door.index()) {
            take(&meters.permits_open, 1);
            meters.took(u64::try_from(ended.latency_us).unwrap_or(0));
        }
        take(&self.reserved, micros(reserved));
        self.counted(ended);
    }

    /// An action was refused.
    pub(crate) fn refused(&self, door: Door, service: Option<&Arc<str>>, reason: Reason) {
        self.counted(&Ended {
            door,
            service,
            decision: Decision::Block,
            failure: Some(reason),
            cost: MicroUsd::ZERO,
            latency_us: 0,
        });
    }

    pub(crate) fn stream_opened(&self) {
        add(&self.streams_open, 1);
    }

    pub(crate) fn stream_closed(&self) {
        take(&self.streams_open, 1);
    }

    pub(crate) fn alerted(&self, event: EventKind) {
        let place = EventKind::ALL.iter().position(|one| *one == event);
        if let Some(count) = place.and_then(|place| self.alerts.get(place)) {
            add(count, 1);
        }
    }

    fn counted(&self, ended: &Ended<'_>) {
        let services = self.services.load();
        let of_service = ended.service.and_then(|alias| services.get(alias));
        of_service.map_or(&self.elsewhere, Arc::as_ref).counted(ended);
        let reason = ended.failure.and_then(|reason| Reason::ALL.iter().position(|r| *r == reason));
        let refusals = self.doors.get(ended.door.index()).map(|meters| &meters.refusals);
        if let (Some(place), Some(refusals)) = (reason, refusals)
            && let Some(count) = refusals.get(place)
        {
            add(count, 1);
        }
    }

    /// Writes all of it.
    pub(crate) fn write(&self, page: &mut Exposition, switches: Switches) {
        self.write_services(page);
        self.write_doors(page);
        self.write_durations(page);
        let mut alerts = page.family(
            "agentguard_alerts_total",
            MetricKind::Counter,
            "Alerts that were made, by event; repetitions within 5 minutes are held back and not counted.",
        );
        for (event, count) in EventKind::ALL.iter().zip(&self.alerts) {
            alerts.sample(&[("event", event.name())], read(count));
        }
        page.family(
            "agentguard_reserved_usd",
            MetricKind::Gauge,
            "Dollars set aside for actions under way, all agents.",
        )
        .sample(&[], Millionths(read(&self.reserved)));
        page.family(
            "agentguard_streams_open",
            MetricKind::Gauge,
            "Streamed answers that are on their way to their callers.",
        )
        .sample(&[], read(&self.streams_open));
        page.family(
            "agentguard_kill_switch",
            MetricKind::Gauge,
            "Whether the kill switch is on for everybody.",
        )
        .sample(&[("scope", "global")], u8::from(switches.all_stopped));
        page.family(
            "agentguard_agents_stopped",
            MetricKind::Gauge,
            "Agents whose own kill switch is on.",
        )
        .sample(&[], switches.agents_stopped);
    }

    fn write_services(&self, page: &mut Exposition) {
        let services = self.services.load();
        let mut named: Vec<_> = services.iter().map(|(name, of)| (&**name, &**of)).collect();
        named.push(("", &self.elsewhere));
        named.sort_unstable_by_key(|(name, _)| *name);
        let mut actions = page.family(
            "agentguard_actions_total",
            MetricKind::Counter,
            "Actions that ended, by door, service and decision; without a service where none is known.",
        );
        for (service, meters) in &named {
            for (door, counts) in Door::ALL.iter().zip(&meters.actions) {
                for (decision, count) in Decision::ALL.iter().zip(counts) {
                    let (count, labels) = (
                        read(count),
                        [
                            ("door", door.name()),
                            ("service", service),
                            ("decision", decision.name()),
                        ],
                    );
                    // Services are for door `api`; elsewhere a zero for each of them is noise.
                    if count > 0 || *door == Door::Api {
                        actions.sample(&labels, count);
                    }
                }
            }
        }
        let mut spent = page.family(
            "agentguard_spent_usd_total",
            MetricKind::Counter,
            "Dollars charged to budgets, by service.",
        );
        for (service, meters) in &named {
            spent.sample(&[("service", service)], Millionths(read(&meters.spent_micros)));
        }
    }

    fn write_doors(&self, page: &mut Exposition) {
        let mut refusals = page.family(
            "agentguard_refusals_total",
            MetricKind::Counter,
            "Actions that were refused or failed, by door and code.",
        );
        for (door, meters) in Door::ALL.iter().zip(&self.doors) {
            for (reason, count) in Reason::ALL.into_iter().zip(&meters.refusals) {
                let count = read(count);
                if count > 0 || *door == Door::Api {
                    let code = wire::row(reason).code;
                    refusals.sample(&[("door", door.name()), ("code", code)], count);
                }
            }
        }
        let mut open = page.family(
            "agentguard_permits_open",
            MetricKind::Gauge,
            "Actions that were admitted and have not ended, by door.",
        );
        for (door, meters) in Door::ALL.iter().zip(&self.doors) {
            open.sample(&[("door", door.name())], read(&meters.permits_open));
        }
    }

    fn write_durations(&self, page: &mut Exposition) {
        let mut durations = page.family(
            "agentguard_action_duration_seconds",
            MetricKind::Histogram,
            "From the request to the end of its answer, of actions that were admitted, by door.",
        );
        for (door, meters) in Door::ALL.iter().zip(&self.doors) {
            let door = ("door", door.name());
            let mut total: u64 = 0;
            let ends = BUCKETS.iter().map(|(_, label)| *label).chain(["+Inf"]);
            for (end, count) in ends.zip(&meters.durations) {
                total = total.saturating_add(read(count));
                durations.part("_bucket", &[door, ("le", end)], total);
            }
            durations.part("_sum", &[door], Millionths(read(&meters.duration_micros)));
            // Not counted by itself: it could then differ from the last bucket.
            durations.part("_count", &[door], total);
        }
    }
}

impl DoorMeters {
    fn took(&self, micros: u64) {
        let place = BUCKETS.partition_point(|(end, _)| *end < micros);
        if let Some(count) = self.durations.get(place) {
            add(count, 1);
        }
        add(&self.duration_micros, micros);
    }
}

impl ServiceMeters {
    fn counted(&self, ended: &Ended<'_>) {
        let place = match ended.decision {
            Decision::Allow => 0,
            Decision::Block => 1,
            Decision::Error => 2,
        };
        let count = self.actions.get(ended.door.index()).and_then(|counts| counts.get(place));
        if let Some(count) = count {
            add(count, 1);
        }
        add(&self.spent_micros, micros(ended.cost));
    }
}

fn micros(money: MicroUsd) -> u64 {
    u64::try_from(money.micros()).unwrap_or(0)
}

fn add(count: &AtomicU64, more: u64) {
    if more > 0 {
        count.fetch_add(more, Ordering::Relaxed);
    }
}

/// Takes back what was added before, by the same amount: it cannot go below nothing.
fn take(count: &AtomicU64, less: u64) {
    if less > 0 {
        count.fetch_sub(less, Ordering::Relaxed);
    }
}

fn read(count: &AtomicU64) -> u64 {
    count.load(Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_falls_into_the_bucket_that_ends_with_it() {
        for (micros, place) in [
            (0, 0),
            (1_000, 0),
            (1_001, 1),
            (60_000_000, BUCKETS.len() - 1),
            (60_000_001, BUCKETS.len()),
            (u64::MAX, BUCKETS.len()),
        ] {
            let meters = DoorMeters::default();
            meters.took(micros);
            assert_eq!(read(&meters.durations[place]), 1, "{micros}");
        }
        assert!(BUCKETS.is_sorted_by_key(|(end, _)| *end));
        for (end, label) in BUCKETS {
            let exact = MicroUsd::parse(label).unwrap();
            assert_eq!(u64::try_from(exact.micros()).unwrap(), end, "{label}");
        }
    }

    #[test]
    fn what_is_opened_and_closed_leaves_nothing_open() {
        let metrics = Metrics::default();
        let ended = Ended {
            door: Door::Api,
            service: None,
            decision: Decision::Allow,
            failure: None,
            cost: MicroUsd::from_micros(3),
            latency_us: -1,
        };
        metrics.opened(Door::Api, MicroUsd::from_micros(5));
        metrics.closed(MicroUsd::from_micros(5), &ended);
        assert_eq!(read(&metrics.reserved), 0);
        assert_eq!(read(&metrics.doors[0].permits_open), 0);
        assert_eq!(read(&metrics.elsewhere.spent_micros), 3);
    }
}
