//! Server-sent events with a pace: a head, a run of events (or endless), a tail.
//!
//! Never here: the events of one provider.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use http::{HeaderValue, header};
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody};
use serde_json::Value;

use super::call::{Answer, BrokenOff, Call, streamed};
use super::ledger::{Ledger, StreamGuard};

/// An endless stream without a pace would only measure memory copies and starve the machine.
const ENDLESS_INTERVAL_MS_MIN: u64 = 1;

/// How many events, as asked by the test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Count {
    Events(u64),
    /// Until the client goes.
    Endless,
}

impl Count {
    /// `x-test-events: 20`, or `x-test-events: endless`.
    pub(crate) fn wanted(call: &Call, name: &str) -> Option<Self> {
        let text = call.knob(name)?;
        if text == "endless" {
            return Some(Self::Endless);
        }
        text.parse().ok().map(Self::Events)
    }
}

pub(crate) struct Events {
    pub(crate) head: Vec<Bytes>,
    /// The event with this number, counted from 0.
    pub(crate) each: Box<dyn Fn(u64) -> Bytes + Send>,
    pub(crate) count: Count,
    pub(crate) tail: Vec<Bytes>,
}

/// `data: {…}` with an optional event name.
pub(crate) fn event(name: Option<&str>, data: &Value) -> Bytes {
    Bytes::from(match name {
        Some(name) => format!("event: {name}\ndata: {data}\n\n"),
        None => format!("data: {data}\n\n"),
    })
}

pub(crate) fn answer(call: &Call, ledger: &Arc<Ledger>, events: Events) -> Answer {
    let mut interval_ms = call
        .knob_number("x-test-interval-ms")
        .or_else(|| call.query("interval_ms")?.parse().ok())
        .unwrap_or(0);
    if events.count == Count::Endless {
        interval_ms = interval_ms.max(ENDLESS_INTERVAL_MS_MIN);
    }
    let run = Run {
        head: events.head.into_iter(),
        each: events.each,
        count: events.count,
        next: 0,
        tail: events.tail.into_iter(),
        interval: Duration::from_millis(interval_ms),
        guard: ledger.open_stream(call.no, call.path()),
    };
    let frames = stream::unfold(run, |mut run| async move {
        let bytes = run.step().await;
        if bytes.is_none() {
            run.guard.finished();
        }
        bytes.map(|bytes| (Ok::<_, BrokenOff>(Frame::data(bytes)), run))
    });
    let mut answer = streamed("text/event-stream", StreamBody::new(frames).boxed_unsync());
    answer.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    answer
}

struct Run {
    head: std::vec::IntoIter<Bytes>,
    each: Box<dyn Fn(u64) -> Bytes + Send>,
    count: Count,
    next: u64,
    tail: std::vec::IntoIter<Bytes>,
    interval: Duration,
    guard: StreamGuard,
}

impl Run {
    async fn step(&mut self) -> Option<Bytes> {
        if let Some(bytes) = self.head.next() {
            return Some(bytes);
        }
        let more = match self.count {
            Count::Events(count) => self.next < count,
            Count::Endless => true,
        };
        if !more {
            return self.tail.next();
        }
        // The first event goes out at once: tests measure the time to it.
        if self.next > 0 && !self.interval.is_zero() {
            tokio::time::sleep(self.interval).await;
        }
        let bytes = (self.each)(self.next);
        self.next += 1;
        self.guard.sent_one();
        Some(bytes)
    }
}
