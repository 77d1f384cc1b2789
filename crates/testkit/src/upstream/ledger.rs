//! What the upstream saw and took: counters, the last requests, every taking of money, every
//! stream. The tests compare this with the gate's own record, so nothing here is ever estimated.
//!
//! Never here: protocol shapes.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Instant;

use http::{HeaderMap, Method};
use serde_json::{Value, json};
use tokio::sync::watch;

/// Enough for the tail of any test; a load run of a million requests must not grow the process.
pub const REQUESTS_KEPT_MAX: usize = 10_000;
/// Crash tests compare every taking, so this is large; past it `takings_dropped` counts.
pub const TAKINGS_KEPT_MAX: usize = 1_000_000;
/// Kill tests open a few hundred streams; a long load run must stay flat.
pub const STREAMS_KEPT_MAX: usize = 10_000;

/// One request, as it came off the wire.
#[derive(Debug, Clone)]
pub struct Seen {
    /// Counted from 1, in order of arrival; also in the answer as `x-upstream-request-no`.
    pub no: u64,
    pub method: Method,
    pub path_and_query: String,
    pub headers: HeaderMap,
    pub body_len: u64,
    /// Lower-case hex.
    pub body_sha256: String,
    /// False when the body broke off before its end.
    pub complete: bool,
}

/// What moved the money.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TakingKind {
    Charge,
    PaymentIntent,
    Transfer,
    Payout,
    /// Money back. Not part of `taken_minor`.
    Refund,
}

/// One movement of money that really happened.
#[derive(Debug, Clone)]
pub struct Taking {
    pub request_no: u64,
    pub kind: TakingKind,
    pub object_id: String,
    pub amount_minor: u64,
    /// Lower case, as Stripe writes it.
    pub currency: String,
    pub idempotency_key: Option<String>,
    /// Every `x-test-id` value of the request, in order.
    pub test_ids: Vec<String>,
    /// Every header whose name begins with `x-`.
    pub marks: Vec<(String, String)>,
}

/// One streamed answer.
#[derive(Debug)]
pub struct StreamRow {
    pub request_no: u64,
    pub path: String,
    pub opened_at: Instant,
    events_sent: AtomicU64,
    closed: OnceLock<(Instant, StreamEnd)>,
}

impl StreamRow {
    /// Events handed to the connection so far.
    pub fn events_sent(&self) -> u64 {
        self.events_sent.load(Relaxed)
    }

    /// When and how the stream ended; none while it is open.
    pub fn closed(&self) -> Option<(Instant, StreamEnd)> {
        self.closed.get().copied()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamEnd {
    /// The last event was produced.
    Finished,
    /// The other side went away first.
    Dropped,
}

/// A snapshot of the counters.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stats {
    pub connections: u64,
    pub requests: u64,
    pub requests_incomplete: u64,
    pub body_bytes_in: u64,
    /// Takings other than refunds.
    pub charges: u64,
    pub taken_minor: BTreeMap<String, u64>,
    pub refunded_minor: BTreeMap<String, u64>,
    pub declined: u64,
    /// Answers repeated for an `Idempotency-Key`; they took nothing.
    pub replays: u64,
    pub takings_dropped: u64,
    pub ads_budgets: u64,
    pub ads_micros: u64,
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub streams_opened: u64,
    pub open_streams: u64,
    /// Bytes of WebSockets, as read from and written to them.
    pub websocket_bytes_in: u64,
    pub websocket_bytes_out: u64,
    /// Requests that carried `ag_live_` in a header or the URL. Anything but 0 is a leak.
    pub guard_tokens_seen: u64,
}

impl Stats {
    pub fn to_json(&self) -> Value {
        json!({
            "connections": self.connections,
            "requests": self.requests,
            "requests_incomplete": self.requests_incomplete,
            "body_bytes_in": self.body_bytes_in,
            "charges": self.charges,
            "taken_minor": self.taken_minor,
            "refunded_minor": self.refunded_minor,
            "declined": self.declined,
            "replays": self.replays,
            "takings_dropped": self.takings_dropped,
            "ads_budgets": self.ads_budgets,
            "ads_micros": self.ads_micros,
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
            "streams_opened": self.streams_opened,
            "open_streams": self.open_streams,
            "websocket_bytes_in": self.websocket_bytes_in,
            "websocket_bytes_out": self.websocket_bytes_out,
            "guard_tokens_seen": self.guard_tokens_seen,
        })
    }
}

impl Taking {
    pub fn to_json(&self) -> Value {
        json!({
            "request_no": self.request_no,
            "kind": format!("{:?}", self.kind),
            "object_id": self.object_id,
            "amount_minor": self.amount_minor,
            "currency": self.currency,
            "idempotency_key": self.idempotency_key,
            "test_ids": self.test_ids,
            "marks": self.marks,
        })
    }
}

#[derive(Debug, Default)]
struct Money {
    taken_minor: BTreeMap<String, u64>,
    refunded_minor: BTreeMap<String, u64>,
    takings: Vec<Taking>,
    dropped: u64,
}

#[derive(Debug)]
pub(crate) struct Ledger {
    pub(crate) connections: AtomicU64,
    pub(crate) requests_incomplete: AtomicU64,
    pub(crate) body_bytes_in: AtomicU64,
    pub(crate) declined: AtomicU64,
    pub(crate) replays: AtomicU64,
    pub(crate) ads_budgets: AtomicU64,
    pub(crate) ads_micros: AtomicU64,
    pub(crate) input_tokens: AtomicU64,
    pub(crate) output_tokens: AtomicU64,
    pub(crate) guard_tokens_seen: AtomicU64,
    pub(crate) websocket_bytes_in: AtomicU64,
    pub(crate) websocket_bytes_out: AtomicU64,
    requests: AtomicU64,
    charges: AtomicU64,
    streams_opened: AtomicU64,
    open_streams: watch::Sender<u64>,
    money: Mutex<Money>,
    seen: Mutex<VecDeque<Seen>>,
    streams: Mutex<VecDeque<Arc<StreamRow>>>,
}

impl Ledger {
    pub(crate) fn new() -> Self {
        Self {
            connections: AtomicU64::new(0),
            requests_incomplete: AtomicU64::new(0),
            body_bytes_in: AtomicU64::new(0),
            declined: AtomicU64::new(0),
            replays: AtomicU64::new(0),
            ads_budgets: AtomicU64::new(0),
            ads_micros: AtomicU64::new(0),
            input_tokens: AtomicU64::new(0),
            output_tokens: AtomicU64::new(0),
            guard_tokens_seen: AtomicU64::new(0),
            websocket_bytes_in: AtomicU64::new(0),
            websocket_bytes_out: AtomicU64::new(0),
            requests: AtomicU64::new(0),
            charges: AtomicU64::new(0),
            streams_opened: AtomicU64::new(0),
            open_streams: watch::Sender::new(0),
            money: Mutex::default(),
            seen: Mutex::default(),
            streams: Mutex::default(),
        }
    }

    /// The number of the request that just arrived.
    pub(crate) fn next_request_no(&self) -> u64 {
        self.requests.fetch_add(1, Relaxed) + 1
    }

    pub(crate) fn see(&self, seen: Seen) {
        push_bounded(&mut self.seen.lock().unwrap(), seen, REQUESTS_KEPT_MAX);
    }

    pub(crate) fn take(&self, taking: Taking) {
        let mut money = self.money.lock().unwrap();
        let refund = taking.kind == TakingKind::Refund;
        let sums = if refund { &mut money.refunded_minor } else { &mut money.taken_minor };
        *sums.entry(taking.currency.clone()).or_default() += taking.amount_minor;
        if money.takings.len() < TAKINGS_KEPT_MAX {
            money.takings.push(taking);
        } else {
            money.dropped += 1;
        }
        if !refund {
            self.charges.fetch_add(1, Relaxed);
        }
    }

    pub(crate) fn open_stream(self: &Arc<Self>, request_no: u64, path: &str) -> StreamGuard {
        let row = Arc::new(StreamRow {
            request_no,
            path: path.to_owned(),
            opened_at: Instant::now(),
            events_sent: AtomicU64::new(0),
            closed: OnceLock::new(),
        });
        push_bounded(&mut self.streams.lock().unwrap(), Arc::clone(&row), STREAMS_KEPT_MAX);
        self.streams_opened.fetch_add(1, Relaxed);
        self.open_streams.send_modify(|open| *open += 1);
        StreamGuard { row, ledger: Arc::clone(self) }
    }

    pub(crate) fn stats(&self) -> Stats {
        let money = self.money.lock().unwrap();
        Stats {
            connections: self.connections.load(Relaxed),
            requests: self.requests.load(Relaxed),
            requests_incomplete: self.requests_incomplete.load(Relaxed),
            body_bytes_in: self.body_bytes_in.load(Relaxed),
            charges: self.charges.load(Relaxed),
            taken_minor: money.taken_minor.clone(),
            refunded_minor: money.refunded_minor.clone(),
            declined: self.declined.load(Relaxed),
            replays: self.replays.load(Relaxed),
            takings_dropped: money.dropped,
            ads_budgets: self.ads_budgets.load(Relaxed),
            ads_micros: self.ads_micros.load(Relaxed),
            input_tokens: self.input_tokens.load(Relaxed),
            output_tokens: self.output_tokens.load(Relaxed),
            streams_opened: self.streams_opened.load(Relaxed),
            open_streams: *self.open_streams.borrow(),
            websocket_bytes_in: self.websocket_bytes_in.load(Relaxed),
            websocket_bytes_out: self.websocket_bytes_out.load(Relaxed),
            guard_tokens_seen: self.guard_tokens_seen.load(Relaxed),
        }
    }

    pub(crate) fn requests(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().iter().cloned().collect()
    }

    pub(crate) fn takings(&self) -> Vec<Taking> {
        self.money.lock().unwrap().takings.clone()
    }

    pub(crate) fn streams(&self) -> Vec<Arc<StreamRow>> {
        self.streams.lock().unwrap().iter().cloned().collect()
    }

    pub(crate) fn watch_open_streams(&self) -> watch::Receiver<u64> {
        self.open_streams.subscribe()
    }
}

/// Lives inside a streamed body: its drop is the moment the connection let go of the stream.
#[derive(Debug)]
pub(crate) struct StreamGuard {
    row: Arc<StreamRow>,
    ledger: Arc<Ledger>,
}

impl StreamGuard {
    pub(crate) fn sent_one(&self) {
        self.row.events_sent.fetch_add(1, Relaxed);
    }

    pub(crate) fn finished(&self) {
        let _ = self.row.closed.set((Instant::now(), StreamEnd::Finished));
    }
}

impl Drop for StreamGuard {
    fn drop(&mut self) {
        // Keeps `Finished` when it is there already.
        let _ = self.row.closed.set((Instant::now(), StreamEnd::Dropped));
        self.ledger.open_streams.send_modify(|open| *open -= 1);
    }
}

fn push_bounded<T>(ring: &mut VecDeque<T>, item: T, max: usize) {
    if ring.len() == max {
        ring.pop_front();
    }
    ring.push_back(item);
}
