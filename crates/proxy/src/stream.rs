//! An upstream's answer on its way to the client: bytes unchanged and as they come, watched by the
//! kill switch and an idle timer, and settled when it ends, however it ends.
//!
//! Never here: a copy of what passes, but for the answer in which an intent gets its id (`intents`), or
//! what the answer says of its cost (`meter`).

use std::future::Future as _;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use agentguard_core::Reason;
use agentguard_gate::{Outcome, Permit, Spent};
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use pin_project_lite::pin_project;
use tokio::time::{Instant, Sleep};

use crate::body::BodyError;
use crate::connection::ConnectionState;
use crate::intents::Birth;
use crate::limits::DRAIN_TIMEOUT;
use crate::meter::{Drains, Ending, Meter, Passed};
use crate::request::Note;

pin_project! {
    /// The body of an answer, with the permit of its request inside.
    #[derive(Debug)]
    pub(crate) struct GuardedBody {
        // None once it is drained elsewhere, or of no more use.
        inner: Option<Incoming>,
        ledger: Option<Ledger>,
        drains: Arc<Drains>,
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
            this.connection.end_with_nothing();
            this.connection.set_answering(false);
            if let Some(ledger) = this.ledger.take() {
                ledger.close_at_drop(this.inner.take(), this.drains);
            }
        }
    }
}

/// What is settled at the end.
#[derive(Debug)]
pub(crate) struct Ledger {
    permit: Permit,
    status: u16,
    is_streaming: bool,
    note: Note,
    bytes_out: u64,
    /// Reads the id of the intent that the call makes, if it makes one.
    birth: Option<Birth>,
    /// Reads what the call cost, where the answer says it.
    meter: Option<Meter>,
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
        ledger: Ledger,
        drains: Arc<Drains>,
        connection: Arc<ConnectionState>,
        idle_limit: Duration,
    ) -> Self {
        connection.set_answering(true);
        connection.set_stall_limit(idle_limit);
        Self {
            inner: Some(inner),
            ledger: Some(ledger),
            drains,
            connection,
            idle_limit,
            watched: false,
            idle: None,
            heard_at: None,
        }
    }

    fn end(self: Pin<&mut Self>, end: End) {
        let this = self.project();
        if let Some(ledger) = this.ledger.take() {
            ledger.close(end);
        }
        this.connection.end_with_nothing();
    }

    /// From now on a stop ends the whole connection. Not before there is something to wait for, on
    /// either side: most answers are one piece.
    fn watch(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Result<(), BodyError> {
        let this = self.as_mut().project();
        if std::mem::replace(this.watched, true) {
            return Ok(());
        }
        let watch = this.ledger.as_ref().map(|ledger| ledger.permit.watch());
        if watch.is_some_and(|watch| this.connection.end_with(watch, context)) {
            let stopped = this.ledger.as_ref().and_then(Ledger::stopped);
            this.connection.cut();
            self.end(End::Failed(stopped.unwrap_or(Reason::KillSwitchGlobal)));
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

    /// Bytes have come.
    fn heard(
        mut self: Pin<&mut Self>,
        frame: Frame<Bytes>,
        context: &mut Context<'_>,
    ) -> Option<NextFrame> {
        let this = self.as_mut().project();
        if this.idle.is_some() {
            *this.heard_at = Some(Instant::now());
        }
        let passed = this.ledger.as_mut().map_or(Next::On(None), |ledger| ledger.passed(frame));
        // A body of known length is not asked again after its last byte.
        let is_last = this.inner.as_ref().is_none_or(Incoming::is_end_stream);
        match passed {
            Next::Cut(last) => {
                *this.inner = None;
                self.end(End::Failed(Reason::ReservationExceeded));
                Some(Some(Ok(last)))
            }
            Next::On(frame) if is_last => {
                let rest = this.ledger.as_mut().and_then(Ledger::rest);
                *this.inner = None;
                self.end(End::Whole);
                Some(joined(frame, rest).map(Ok))
            }
            Next::On(None) => None,
            Next::On(Some(frame)) => Some(Some(self.watch(context).map(|()| frame))),
        }
    }
}

type NextFrame = Option<Result<Frame<Bytes>, BodyError>>;

impl Body for GuardedBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<NextFrame> {
        loop {
            let this = self.as_mut().project();
            if let Some(reason) = this.ledger.as_ref().and_then(Ledger::stopped) {
                this.connection.cut();
                self.end(End::Failed(reason));
                return Poll::Ready(Some(Err(BodyError::Upstream)));
            }
            let Some(inner) = this.inner else { return Poll::Ready(None) };
            match Pin::new(inner).poll_frame(context) {
                Poll::Pending => return self.wait(context),
                Poll::Ready(None) => {
                    let rest = this.ledger.as_mut().and_then(Ledger::rest);
                    *this.inner = None;
                    self.end(End::Whole);
                    return Poll::Ready(rest.map(Ok));
                }
                Poll::Ready(Some(Err(error))) => {
                    let request_id = this.ledger.as_ref().and_then(|one| one.permit.request_id());
                    let request_id = request_id.map(tracing::field::display);
                    tracing::debug!(request_id, %error, "an upstream broke off in its answer");
                    self.end(End::Failed(Reason::UpstreamUnreachable));
                    return Poll::Ready(Some(Err(BodyError::Upstream)));
                }
                Poll::Ready(Some(Ok(frame))) => {
                    if let Some(next) = self.as_mut().heard(frame, context) {
                        return Poll::Ready(next);
                    }
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.inner.as_ref().is_none_or(Incoming::is_end_stream)
            && self.ledger.as_ref().is_none_or(|ledger| !ledger.changes_length())
    }

    fn size_hint(&self) -> SizeHint {
        match &self.inner {
            Some(inner) if self.ledger.as_ref().is_none_or(|ledger| !ledger.changes_length()) => {
                inner.size_hint()
            }
            Some(_) => SizeHint::default(),
            None => SizeHint::with_exact(0),
        }
    }
}

/// What becomes of a frame.
enum Next {
    /// It goes on, or all of it stays here.
    On(Option<Frame<Bytes>>),
    /// This is the last one.
    Cut(Frame<Bytes>),
}

impl Ledger {
    pub(crate) fn new(mut permit: Permit, status: u16, is_streaming: bool, note: Note) -> Self {
        if is_streaming {
            permit.begins_stream();
        }
        Self { permit, status, is_streaming, note, bytes_out: 0, birth: None, meter: None }
    }

    /// Has the answer looked at as it passes.
    pub(crate) fn read_by(mut self, birth: Option<Birth>, meter: Option<Meter>) -> Self {
        self.birth = birth;
        self.meter = meter;
        self
    }

    fn stopped(&self) -> Option<Reason> {
        self.permit.stopped()
    }

    fn changes_length(&self) -> bool {
        self.meter.as_ref().is_some_and(Meter::changes_length)
    }

    fn passed(&mut self, frame: Frame<Bytes>) -> Next {
        let data = match frame.into_data() {
            Ok(data) => data,
            Err(trailers) => return Next::On(Some(trailers)),
        };
        let bytes = u64::try_from(data.len()).unwrap_or(u64::MAX);
        self.bytes_out = self.bytes_out.saturating_add(bytes);
        if let Some(birth) = &mut self.birth {
            birth.passed(&data);
        }
        match self.meter.as_mut().map(|meter| meter.passed(data.clone())) {
            None => Next::On(Some(Frame::data(data))),
            Some(Passed::On(on)) => Next::On(Some(on).filter(|on| !on.is_empty()).map(Frame::data)),
            Some(Passed::Cut(last)) => Next::Cut(Frame::data(last)),
        }
    }

    /// What was held back for a look, and passes after all.
    fn rest(&mut self) -> Option<Frame<Bytes>> {
        let rest = self.meter.as_mut().map(Meter::rest)?;
        Some(rest).filter(|rest| !rest.is_empty()).map(Frame::data)
    }

    fn close(self, end: End) {
        let Self { permit, status, is_streaming, note, bytes_out, birth, meter } = self;
        // What is not on the record must not go on: the rest of the upload stays here.
        note.sent.end();
        let mut facts = note.facts(bytes_out);
        // The head decides: an upstream that said yes has taken the money, whatever becomes of the
        // rest. A status that HTTP does not know says nothing, and is no way to get money back.
        let said_no = (400..=599).contains(&status);
        let spent = match meter {
            _ if said_no => Spent::Nothing,
            Some(mut meter) => meter.settle(end.ending(), &mut facts),
            None => Spent::AsReserved,
        };
        let failure = match end {
            End::Whole => None,
            End::Failed(reason) => Some(reason),
            End::ClientGone => {
                facts.insert("ended".to_owned(), "client_gone".into());
                None
            }
        };
        let outcome = Outcome {
            status: Some(status),
            spent,
            is_streaming,
            failure,
            facts: Some(facts.into()),
        };
        permit.settle(outcome);
        // Charged now, and before the client has the last byte: it may go on to confirm at once.
        if let Some(birth) = birth
            && spent == Spent::AsReserved
        {
            birth.over();
        }
    }

    /// Nobody asks for the rest of the answer any more.
    fn close_at_drop(self, inner: Option<Incoming>, drains: &Drains) {
        if let Some(reason) = self.stopped() {
            return self.close(End::Failed(reason));
        }
        match inner {
            Some(inner) if inner.is_end_stream() => self.close(End::Whole),
            Some(inner) if self.meter.as_ref().is_some_and(Meter::wants_more) => {
                let mut draining = Draining { ledger: Some(self) };
                drains.take(async move { draining.run(inner).await });
            }
            Some(_) | None => self.close(End::ClientGone),
        }
    }
}

/// An answer that is read for its usage only. However its task ends, it is settled.
struct Draining {
    ledger: Option<Ledger>,
}

impl Draining {
    async fn run(&mut self, mut inner: Incoming) {
        let Some(ledger) = &mut self.ledger else { return };
        let stopped = ledger.permit.watch();
        let drained = async {
            while let Some(Ok(frame)) = inner.frame().await {
                if let Next::Cut(_) = ledger.passed(frame) {
                    break;
                }
            }
        };
        tokio::select! {
            biased;
            _ = stopped => {}
            _ = tokio::time::timeout(DRAIN_TIMEOUT, drained) => {}
        }
    }
}

impl Drop for Draining {
    fn drop(&mut self) {
        let Some(ledger) = self.ledger.take() else { return };
        let end = ledger.stopped().map_or(End::ClientGone, End::Failed);
        ledger.close(end);
    }
}

impl End {
    /// Only a whole answer has told all that it had to tell.
    const fn ending(self) -> Ending {
        match self {
            Self::Whole => Ending::Whole,
            Self::Failed(_) | Self::ClientGone => Ending::Broken,
        }
    }
}

/// Two frames of data as one.
fn joined(first: Option<Frame<Bytes>>, second: Option<Frame<Bytes>>) -> Option<Frame<Bytes>> {
    let Some(second) = second else { return first };
    let Some(first) = first else { return Some(second) };
    match (first.into_data(), second.into_data()) {
        (Ok(first), Ok(second)) => Some(Frame::data([first, second].concat().into())),
        // Trailers are the last, so nothing is held back beside them.
        (Err(trailers), _) | (_, Err(trailers)) => Some(trailers),
    }
}
