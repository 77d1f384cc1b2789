//! An upstream's answer on its way to the client: bytes unchanged and as they come, watched by the
//! kill switch and an idle timer, and settled when it ends, however it ends.
//!
//! Never here: a copy of what passes, but for the answer in which an intent gets its id (`intents`).

use std::future::Future as _;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use agentguard_core::Reason;
use agentguard_gate::{Outcome, Permit, Spent};
use bytes::Bytes;
use http::HeaderMap;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use pin_project_lite::pin_project;
use tokio::time::{Instant, Sleep};

use crate::body::BodyError;
use crate::connection::ConnectionState;
use crate::intents::Birth;
use crate::request::Note;

pin_project! {
    /// The body of an answer, with the permit of its request inside.
    #[derive(Debug)]
    pub(crate) struct GuardedBody {
        inner: Incoming,
        ledger: Ledger,
        connection: Arc<ConnectionState>,
        idle_limit: Duration,
        // Whether the kill switch watches the connection.
        watched: bool,
        // Made when the upstream first lets us wait: most answers are there at once.
        #[pin]
        idle: Option<Sleep>,
        heard_at: Option<Instant>,
    }

    impl PinnedDrop for GuardedBody {
        fn drop(this: Pin<&mut Self>) {
            let this = this.project();
            this.ledger.close_at_drop(this.inner.is_end_stream());
            this.connection.end_with_nothing();
            this.connection.set_answering(false);
        }
    }
}

/// What is settled at the end.
#[derive(Debug)]
struct Ledger {
    permit: Option<Permit>,
    status: u16,
    is_streaming: bool,
    note: Note,
    bytes_out: u64,
    /// Reads the id of the intent that the call makes, if it makes one.
    birth: Option<Birth>,
}

/// How the answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Whole,
    Failed(Reason),
    ClientGone,
}

impl GuardedBody {
    pub(crate) fn new(
        inner: Incoming,
        mut permit: Permit,
        head: (u16, &HeaderMap),
        note: Note,
        connection: Arc<ConnectionState>,
        idle_limit: Duration,
    ) -> Self {
        let (status, headers) = head;
        let is_streaming = is_streaming(headers, &inner);
        if is_streaming {
            permit.begins_stream();
        }
        let permit = Some(permit);
        let ledger = Ledger { permit, status, is_streaming, note, bytes_out: 0, birth: None };
        connection.set_answering(true);
        connection.set_stall_limit(idle_limit);
        Self { inner, ledger, connection, idle_limit, watched: false, idle: None, heard_at: None }
    }

    /// Has the id of a new intent read from the body as it passes.
    pub(crate) fn watched_by(mut self, birth: Option<Birth>) -> Self {
        self.ledger.birth = birth;
        self
    }

    fn end(self: Pin<&mut Self>, end: End) {
        let this = self.project();
        this.ledger.close(end);
        this.connection.end_with_nothing();
    }

    /// From now on a stop ends the whole connection. Not before there is something to wait for, on
    /// either side: most answers are one piece.
    fn watch(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Result<(), BodyError> {
        let this = self.as_mut().project();
        if std::mem::replace(this.watched, true) {
            return Ok(());
        }
        let watch = this.ledger.permit.as_ref().map(Permit::watch);
        if watch.is_some_and(|watch| this.connection.end_with(watch, context)) {
            let reason = this.ledger.stopped().unwrap_or(Reason::KillSwitchGlobal);
            this.connection.cut();
            self.end(End::Failed(reason));
            return Err(BodyError::Upstream);
        }
        Ok(())
    }

    /// Waits for the upstream, for as long as it may be silent.
    fn wait(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<NextFrame> {
        if let Err(error) = self.as_mut().watch(context) {
            return Poll::Ready(Some(Err(error)));
        }
        let now = Instant::now();
        let mut this = self.as_mut().project();
        if this.idle.is_none() {
            let until = now.checked_add(*this.idle_limit).unwrap_or(now);
            this.idle.set(Some(tokio::time::sleep_until(until)));
            *this.heard_at = Some(now);
        }
        // The timer is not moved with every chunk; when it rings, it is seen whether that was due.
        while this.idle.as_mut().as_pin_mut().is_some_and(|idle| idle.poll(context).is_ready()) {
            let due = this.heard_at.and_then(|heard| heard.checked_add(*this.idle_limit));
            match (due.filter(|due| *due > now), this.idle.as_mut().as_pin_mut()) {
                (Some(due), Some(idle)) => idle.reset(due),
                (Some(_) | None, _) => {
                    self.end(End::Failed(Reason::UpstreamTimeout));
                    return Poll::Ready(Some(Err(BodyError::Upstream)));
                }
            }
        }
        Poll::Pending
    }
}

type NextFrame = Option<Result<Frame<Bytes>, BodyError>>;

impl Body for GuardedBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<NextFrame> {
        let this = self.as_mut().project();
        if let Some(reason) = this.ledger.stopped() {
            this.connection.cut();
            self.end(End::Failed(reason));
            return Poll::Ready(Some(Err(BodyError::Upstream)));
        }
        match Pin::new(&mut *this.inner).poll_frame(context) {
            Poll::Pending => self.wait(context),
            Poll::Ready(None) => {
                self.end(End::Whole);
                Poll::Ready(None)
            }
            Poll::Ready(Some(Err(error))) => {
                let request_id = this.ledger.permit.as_ref().and_then(Permit::request_id);
                let request_id = request_id.map(tracing::field::display);
                tracing::debug!(request_id, %error, "an upstream broke off in its answer");
                self.end(End::Failed(Reason::UpstreamUnreachable));
                Poll::Ready(Some(Err(BodyError::Upstream)))
            }
            Poll::Ready(Some(Ok(frame))) => {
                this.ledger.passed(frame.data_ref());
                if this.idle.is_some() {
                    *this.heard_at = Some(Instant::now());
                }
                // A body of known length is not asked again after its last byte.
                if this.inner.is_end_stream() {
                    self.end(End::Whole);
                    return Poll::Ready(Some(Ok(frame)));
                }
                Poll::Ready(Some(self.watch(context).map(|()| frame)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

impl Ledger {
    fn stopped(&self) -> Option<Reason> {
        self.permit.as_ref().and_then(Permit::stopped)
    }

    fn passed(&mut self, data: Option<&Bytes>) {
        let bytes = data.map_or(0, |data| u64::try_from(data.len()).unwrap_or(u64::MAX));
        self.bytes_out = self.bytes_out.saturating_add(bytes);
        if let (Some(birth), Some(data)) = (&mut self.birth, data) {
            birth.passed(data);
        }
    }

    fn close(&mut self, end: End) {
        let Some(permit) = self.permit.take() else { return };
        // The head decides: an upstream that said yes has taken the money, whatever becomes of the
        // rest. A status that HTTP does not know says nothing, and is no way to get money back.
        let said_no = (400..=599).contains(&self.status);
        let spent = if said_no { Spent::Nothing } else { Spent::AsReserved };
        // What is not on the record must not go on: the rest of the upload stays here.
        self.note.sent.end();
        let mut facts = self.note.facts(self.bytes_out);
        let failure = match end {
            End::Whole => None,
            End::Failed(reason) => Some(reason),
            End::ClientGone => {
                facts.insert("ended".to_owned(), "client_gone".into());
                None
            }
        };
        permit.settle(Outcome {
            status: Some(self.status),
            spent,
            is_streaming: self.is_streaming,
            failure,
            facts: Some(facts.into()),
        });
        // Charged now, and before the client has the last byte: it may go on to confirm at once.
        if let Some(birth) = self.birth.take()
            && spent == Spent::AsReserved
        {
            birth.over();
        }
    }

    fn close_at_drop(&mut self, at_end: bool) {
        let end = match self.stopped() {
            Some(reason) => End::Failed(reason),
            None if at_end => End::Whole,
            None => End::ClientGone,
        };
        self.close(end);
    }
}

fn is_streaming(headers: &HeaderMap, body: &Incoming) -> bool {
    let events = headers.get(CONTENT_TYPE).is_some_and(|kind| {
        let name = kind.as_bytes().split(|byte| *byte == b';').next().unwrap_or_default();
        name.trim_ascii().eq_ignore_ascii_case(b"text/event-stream")
    });
    events || (!headers.contains_key(CONTENT_LENGTH) && !body.is_end_stream())
}
