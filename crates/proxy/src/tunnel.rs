//! A connection after its handshake: bytes pass both ways as they come, counted, watched by the kill
//! switch and an idle timer, and settled once when either side ends.
//!
//! It runs in the task of its connection, and holds both sockets: when it ends, nothing is left.
//!
//! Never here: what the bytes say.

use std::future::{Future as _, poll_fn};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use agentguard_core::Reason;
use agentguard_egress::Switched;
use agentguard_gate::{Outcome, Permit, Spent};
use bytes::{Buf as _, Bytes};
use http::StatusCode;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::futures::OwnedNotified;
use tokio::time::{Instant, Sleep};

use crate::connection::{Closing, ConnectionState};
use crate::limits::{TUNNEL_BUFFER_BYTES, TUNNEL_CLOSE_TIMEOUT};
use crate::request::Note;
use crate::socket::Socket;

/// What a connection becomes.
#[derive(Debug)]
pub(crate) struct Tunnel {
    /// The client's socket, once the answer is written.
    pub(crate) client: OnUpgrade,
    pub(crate) upstream: Switched,
    pub(crate) ledger: Ledger,
    /// How long both sides may be silent.
    pub(crate) idle_limit: Duration,
}

/// What is settled at the end, or when the tunnel is dropped before it.
#[derive(Debug)]
pub(crate) struct Ledger {
    permit: Option<Permit>,
    note: Note,
    bytes_in: u64,
    bytes_out: u64,
}

/// How a tunnel ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Closed(Side),
    /// Its connection broke, or it does not read.
    Broke(Side),
    Idle,
    Stopped(Reason),
    GateEnds,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Client,
    Upstream,
}

impl Tunnel {
    /// Copies until the end, whoever brings it about.
    pub(crate) async fn run(
        self,
        state: &ConnectionState,
        closing: &Closing,
        mut bell: Pin<&mut OwnedNotified>,
    ) {
        let Self { client, upstream, mut ledger, idle_limit } = self;
        // There at once: the answer is written. What came behind the request comes along.
        let parts = client.await.ok().and_then(|io| io.downcast::<TokioIo<Socket>>().ok());
        let Some(parts) = parts else { return ledger.close(End::Broke(Side::Client)) };
        let mut flow = Flow {
            client: parts.io.into_inner(),
            upstream,
            up: Pipe::new(parts.read_buf),
            down: Pipe::new(Bytes::new()),
            idle: Idle::new(idle_limit),
            first_end: None,
        };
        let end = poll_fn(|context| {
            if state.poll_stopped(context).is_ready() {
                let reason = ledger.stopped().unwrap_or(Reason::KillSwitchGlobal);
                return Poll::Ready(End::Stopped(reason));
            }
            // The bell wakes this task; the flag says that it rang, also if that was before.
            if bell.as_mut().poll(context).is_ready() || closing.is_told() {
                return Poll::Ready(End::GateEnds);
            }
            flow.poll(context)
        })
        .await;
        state.end_with_nothing();
        if let End::Stopped(_) = end {
            state.cut();
            flow.upstream.reset_at_end();
        }
        (ledger.bytes_in, ledger.bytes_out) = (flow.up.bytes, flow.down.bytes);
        // First the sockets: what is on the record as over must be over.
        drop(flow);
        ledger.close(end);
    }
}

/// Both directions.
struct Flow {
    client: Socket,
    upstream: Switched,
    up: Pipe,
    down: Pipe,
    idle: Idle,
    /// Who ended first, and when. The other has a moment to end as well.
    first_end: Option<(Side, Pin<Box<Sleep>>)>,
}

impl Flow {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<End> {
        let before = self.moved();
        let up = self.up.poll(context, &mut self.client, &mut self.upstream);
        let down = self.down.poll(context, &mut self.upstream, &mut self.client);
        let fault = match (&up, &down) {
            (Poll::Ready(Err(fault)), _) => Some(fault.end(Side::Client, Side::Upstream)),
            (_, Poll::Ready(Err(fault))) => Some(fault.end(Side::Upstream, Side::Client)),
            (Poll::Pending | Poll::Ready(Ok(())), Poll::Pending | Poll::Ready(Ok(()))) => None,
        };
        if let Some(end) = fault {
            // After the first end the second may be of any kind.
            return Poll::Ready(
                self.first_end.as_ref().map_or(end, |(side, _)| End::Closed(*side)),
            );
        }
        let first = match (up.is_ready(), down.is_ready()) {
            (false, false) => None,
            (true, _) => Some(Side::Client),
            (false, true) => Some(Side::Upstream),
        };
        if let Some(side) = first {
            let (side, timer) = self
                .first_end
                .get_or_insert_with(|| (side, Box::pin(tokio::time::sleep(TUNNEL_CLOSE_TIMEOUT))));
            let both = up.is_ready() && down.is_ready();
            if both || timer.as_mut().poll(context).is_ready() {
                return Poll::Ready(End::Closed(*side));
            }
        }
        let has_moved = self.moved() != before;
        // A client that does not read is the socket's matter: it knows a slow one from a stalled one.
        let excused = self.down.holds();
        self.idle.poll(context, has_moved || excused).map(|()| End::Idle)
    }

    const fn moved(&self) -> u64 {
        self.up.bytes.wrapping_add(self.down.bytes)
    }
}

/// One direction: what was read and not yet written, and no more.
struct Pipe {
    /// What was read before the tunnel began.
    early: Bytes,
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
    /// Written in all.
    bytes: u64,
    unflushed: bool,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Open,
    /// The reader has ended: the writer is told when it has everything.
    Ending,
    Ended,
}

/// Which end of a pipe broke.
enum Fault {
    Reading(io::Error),
    Writing(io::Error),
}

impl Fault {
    fn end(&self, reader: Side, writer: Side) -> End {
        let (side, error) = match self {
            Self::Reading(error) => (reader, error),
            Self::Writing(error) => (writer, error),
        };
        tracing::debug!(?side, %error, "a tunnel broke");
        End::Broke(side)
    }
}

impl Pipe {
    fn new(early: Bytes) -> Self {
        let buffer = vec![0; TUNNEL_BUFFER_BYTES].into_boxed_slice();
        Self { early, buffer, start: 0, end: 0, bytes: 0, unflushed: false, stage: Stage::Open }
    }

    /// Copies as far as both ends let it. Ready when the reader has ended and the writer knows.
    fn poll(
        &mut self,
        context: &mut Context<'_>,
        reader: &mut (impl AsyncRead + Unpin),
        writer: &mut (impl AsyncWrite + Unpin),
    ) -> Poll<Result<(), Fault>> {
        loop {
            ready!(self.poll_empty(context, writer)).map_err(Fault::Writing)?;
            match self.stage {
                Stage::Open => {}
                Stage::Ending => {
                    ready!(Pin::new(&mut *writer).poll_shutdown(context))
                        .map_err(Fault::Writing)?;
                    self.stage = Stage::Ended;
                }
                Stage::Ended => return Poll::Ready(Ok(())),
            }
            if self.stage == Stage::Open && self.poll_fill(context, reader)?.is_pending() {
                // Only now: as long as there is more, it goes out with the rest.
                if self.unflushed {
                    ready!(Pin::new(&mut *writer).poll_flush(context)).map_err(Fault::Writing)?;
                    self.unflushed = false;
                }
                return Poll::Pending;
            }
        }
    }

    fn poll_fill(
        &mut self,
        context: &mut Context<'_>,
        reader: &mut (impl AsyncRead + Unpin),
    ) -> Poll<Result<(), Fault>> {
        let mut buffer = ReadBuf::new(&mut self.buffer);
        let read = match ready!(Pin::new(reader).poll_read(context, &mut buffer)) {
            Ok(()) => buffer.filled().len(),
            // TLS without a last word. What passes has ends of its own, and is not cut short unseen.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => 0,
            Err(error) => return Poll::Ready(Err(Fault::Reading(error))),
        };
        (self.start, self.end) = (0, read);
        if read == 0 {
            self.stage = Stage::Ending;
        }
        Poll::Ready(Ok(()))
    }

    /// Writes all that is held.
    fn poll_empty(
        &mut self,
        context: &mut Context<'_>,
        writer: &mut (impl AsyncWrite + Unpin),
    ) -> Poll<io::Result<()>> {
        while self.holds() {
            let held = match self.early.is_empty() {
                true => self.buffer.get(self.start..self.end).unwrap_or_default(),
                false => &self.early,
            };
            let written = ready!(Pin::new(&mut *writer).poll_write(context, held))?.min(held.len());
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            match self.early.is_empty() {
                true => self.start = self.start.saturating_add(written),
                false => self.early.advance(written),
            }
            self.bytes = self.bytes.saturating_add(u64::try_from(written).unwrap_or(u64::MAX));
            self.unflushed = true;
        }
        Poll::Ready(Ok(()))
    }

    fn holds(&self) -> bool {
        self.start < self.end || !self.early.is_empty()
    }
}

/// Rings when nothing has moved for too long.
struct Idle {
    limit: Duration,
    moved_at: Instant,
    timer: Pin<Box<Sleep>>,
}

impl Idle {
    fn new(limit: Duration) -> Self {
        Self { limit, moved_at: Instant::now(), timer: Box::pin(tokio::time::sleep(limit)) }
    }

    fn poll(&mut self, context: &mut Context<'_>, has_moved: bool) -> Poll<()> {
        let now = Instant::now();
        if has_moved {
            self.moved_at = now;
        }
        // The timer is not moved with every piece; when it rings, it is seen whether that was due.
        while self.timer.as_mut().poll(context).is_ready() {
            let due = self.moved_at.checked_add(self.limit).unwrap_or(now);
            if due <= now {
                return Poll::Ready(());
            }
            self.timer.as_mut().reset(due);
        }
        Poll::Pending
    }
}

impl Ledger {
    pub(crate) const fn new(permit: Permit, note: Note) -> Self {
        Self { permit: Some(permit), note, bytes_in: 0, bytes_out: 0 }
    }

    fn stopped(&self) -> Option<Reason> {
        self.permit.as_ref().and_then(Permit::stopped)
    }

    fn close(&mut self, end: End) {
        let Some(permit) = self.permit.take() else { return };
        let (ended, failure) = match end {
            End::Closed(Side::Client) => (Some("client_closed"), None),
            End::Closed(Side::Upstream) => (Some("upstream_closed"), None),
            End::Broke(Side::Client) => (Some("client_gone"), None),
            End::Broke(Side::Upstream) => (None, Some(Reason::UpstreamUnreachable)),
            End::Idle => (Some("idle"), None),
            End::GateEnds => (Some("gate_ended"), None),
            End::Stopped(reason) => (None, Some(reason)),
        };
        let mut facts = self.note.facts(self.bytes_out);
        facts.insert("bytes_in".to_owned(), self.bytes_in.into());
        facts.insert("upgraded".to_owned(), "websocket".into());
        if let Some(ended) = ended {
            facts.insert("ended".to_owned(), ended.into());
        }
        permit.settle(Outcome {
            status: Some(StatusCode::SWITCHING_PROTOCOLS.as_u16()),
            spent: Spent::AsReserved,
            is_streaming: true,
            failure,
            facts: Some(facts.into()),
        });
    }
}

impl Drop for Ledger {
    fn drop(&mut self) {
        // Not come to its end: the client went while the answer was written, or a stop came.
        self.close(self.stopped().map_or(End::Broke(Side::Client), End::Stopped));
    }
}
