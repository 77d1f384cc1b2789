//! Bodies in both directions, as enums: none has to be boxed.
//!
//! Never here: what a body says.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

use bytes::{Bytes, BytesMut};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use parking_lot::Mutex;
use pin_project_lite::pin_project;
use tokio::sync::OwnedSemaphorePermit;

use crate::headers::clean_request;
use crate::stream::GuardedBody;

/// What goes upstream.
#[derive(Debug)]
pub(crate) enum RequestBody {
    Empty,
    /// Read for its amount; the same bytes go out.
    Memory(Held),
    Stream(Streamed),
    /// Read in part and given up: it must never go out as if it were whole.
    Unusable,
}

/// A body in memory, and its share of the room for such.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) bytes: Bytes,
    #[expect(dead_code, reason = "held, and given back when it is dropped")]
    pub(crate) room: OwnedSemaphorePermit,
}

/// A body that passes as it comes.
#[derive(Debug)]
pub(crate) struct Streamed {
    /// What was looked at before anything left.
    first: Option<Frame<Bytes>>,
    rest: Incoming,
    sent: Arc<Sent>,
}

/// How much of a body has passed, whether the client broke off, and whether its call is over. Shared by
/// the body and the call's end.
#[derive(Debug, Default)]
pub(crate) struct Sent {
    bytes: AtomicU64,
    broke_off: AtomicBool,
    /// The call is settled: nothing more of the body leaves.
    over: AtomicBool,
    /// Who waits for more of the body.
    waiting: Mutex<Option<Waker>>,
}

/// Why a body did not come to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyError {
    /// The client sent a malformed one, or went away.
    Client,
    /// The upstream broke off, or was cut off by the gate.
    Upstream,
    /// Longer than is looked into.
    TooLong,
    /// Its call is settled.
    Over,
}

impl fmt::Display for BodyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Client => "the client's body broke off",
            Self::Upstream => "the upstream's body broke off or was cut off",
            Self::TooLong => "the body is too long to look into",
            Self::Over => "the call ended before its body",
        })
    }
}

impl std::error::Error for BodyError {}

/// Reads a body whole, up to a bound.
pub(crate) async fn read_whole(mut body: Incoming, bytes_max: usize) -> Result<Bytes, BodyError> {
    let told = body.size_hint().lower();
    if u64::try_from(bytes_max).is_ok_and(|max| told > max) {
        return Err(BodyError::TooLong);
    }
    let mut first = Bytes::new();
    let mut whole = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(|_| BodyError::Client)?.into_data() else { continue };
        let so_far = first.len().saturating_add(whole.len());
        if so_far.saturating_add(data.len()) > bytes_max {
            return Err(BodyError::TooLong);
        }
        // The usual body is one piece: it is not copied.
        if so_far == 0 {
            first = data;
        } else {
            whole.extend_from_slice(&std::mem::take(&mut first));
            whole.extend_from_slice(&data);
        }
    }
    Ok(if whole.is_empty() { first } else { whole.freeze() })
}

impl RequestBody {
    /// A body that passes as it comes. One without a length is looked at first, so that a chunk which
    /// is malformed from the start makes nothing leave.
    pub(crate) async fn streamed(mut body: Incoming) -> Result<(Self, Arc<Sent>), BodyError> {
        let sent = Arc::new(Sent::default());
        if body.is_end_stream() {
            return Ok((Self::Empty, sent));
        }
        let mut first = None;
        if body.size_hint().exact().is_none() {
            match body.frame().await {
                Some(Ok(frame)) => first = Some(frame),
                Some(Err(_)) => return Err(BodyError::Client),
                None => return Ok((Self::Empty, sent)),
            }
        }
        Ok((Self::Stream(Streamed { first, rest: body, sent: Arc::clone(&sent) }), sent))
    }
}

impl Sent {
    /// A body of which all is known.
    pub(crate) fn whole(bytes: usize) -> Arc<Self> {
        let sent = Self::default();
        sent.add(bytes);
        Arc::new(sent)
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn broke_off(&self) -> bool {
        self.broke_off.load(Ordering::Relaxed)
    }

    /// Ends the upload: an upstream that answered early, or whose call was stopped, gets no more of it.
    pub(crate) fn end(&self) {
        self.over.store(true, Ordering::SeqCst);
        let waiting = self.waiting.lock().take();
        if let Some(waker) = waiting {
            waker.wake();
        }
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::SeqCst)
    }

    /// Is woken at the end. True if that has come.
    fn wait(&self, context: &Context<'_>) -> bool {
        let mut waiting = self.waiting.lock();
        match &mut *waiting {
            Some(waker) => waker.clone_from(context.waker()),
            None => *waiting = Some(context.waker().clone()),
        }
        drop(waiting);
        // After the waker stands: an end in between is seen here or wakes it.
        self.is_over()
    }

    fn add(&self, bytes: usize) {
        self.bytes.fetch_add(u64::try_from(bytes).unwrap_or(u64::MAX), Ordering::Relaxed);
    }
}

impl Streamed {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        if self.sent.is_over() {
            return Poll::Ready(self.cut_off());
        }
        let next = match self.first.take() {
            Some(first) => Poll::Ready(Some(Ok(first))),
            None => Pin::new(&mut self.rest).poll_frame(context),
        };
        if next.is_pending() && self.sent.wait(context) {
            return Poll::Ready(self.cut_off());
        }
        next.map(|frame| {
            let frame = frame?.map(clean_trailers).map_err(|_| {
                self.sent.broke_off.store(true, Ordering::Relaxed);
                BodyError::Client
            });
            if let Ok(frame) = &frame {
                self.sent.add(frame.data_ref().map_or(0, Bytes::len));
            }
            Some(frame)
        })
    }

    /// An error, so that the upstream's connection is closed and what it got cannot look whole.
    fn cut_off(&self) -> Option<Result<Frame<Bytes>, BodyError>> {
        let is_whole = self.first.is_none() && self.rest.is_end_stream();
        (!is_whole).then_some(Err(BodyError::Over))
    }
}

/// Trailers are headers too: a token must not leave in them either.
fn clean_trailers(frame: Frame<Bytes>) -> Frame<Bytes> {
    match frame.into_trailers() {
        Ok(mut trailers) => {
            clean_request(&mut trailers);
            Frame::trailers(trailers)
        }
        Err(frame) => frame,
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = self.get_mut();
        match this {
            Self::Empty => Poll::Ready(None),
            Self::Memory(held) => {
                let bytes = std::mem::take(&mut held.bytes);
                *this = Self::Empty;
                Poll::Ready((!bytes.is_empty()).then(|| Ok(Frame::data(bytes))))
            }
            Self::Stream(streamed) => streamed.poll(context),
            Self::Unusable => Poll::Ready(Some(Err(BodyError::Client))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Empty => true,
            Self::Memory(held) => held.bytes.is_empty(),
            Self::Stream(streamed) => streamed.first.is_none() && streamed.rest.is_end_stream(),
            Self::Unusable => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Empty => SizeHint::with_exact(0),
            Self::Memory(held) => {
                SizeHint::with_exact(u64::try_from(held.bytes.len()).unwrap_or(u64::MAX))
            }
            Self::Stream(streamed) if streamed.first.is_none() => streamed.rest.size_hint(),
            Self::Stream(_) | Self::Unusable => SizeHint::default(),
        }
    }
}

pin_project! {
    /// What goes to the client.
    #[derive(Debug)]
    #[project = AnswerBodyProjection]
    pub(crate) enum AnswerBody {
        Own { bytes: Option<Bytes> },
        Upstream { #[pin] body: GuardedBody },
    }
}

impl AnswerBody {
    /// The gate's own words.
    pub(crate) fn whole(bytes: Bytes) -> Self {
        Self::Own { bytes: Some(bytes).filter(|bytes| !bytes.is_empty()) }
    }
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match self.project() {
            AnswerBodyProjection::Own { bytes } => {
                Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes))))
            }
            AnswerBodyProjection::Upstream { body } => body.poll_frame(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Own { bytes } => bytes.is_none(),
            Self::Upstream { body } => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Own { bytes } => {
                let length = bytes.as_ref().map_or(0, Bytes::len);
                SizeHint::with_exact(u64::try_from(length).unwrap_or(u64::MAX))
            }
            Self::Upstream { body } => body.size_hint(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{HeaderMap, HeaderValue};

    #[test]
    fn tokens_do_not_leave_in_trailers() {
        let token = format!("ag_live_{}", "A".repeat(32));
        let mut trailers = HeaderMap::new();
        trailers.insert("x-agentguard-token", HeaderValue::from_str(&token).unwrap());
        trailers.insert("x-note", HeaderValue::from_str(&token).unwrap());
        trailers.insert("x-checksum", HeaderValue::from_static("1"));
        let left = clean_trailers(Frame::trailers(trailers)).into_trailers().unwrap();
        assert_eq!(left.keys().collect::<Vec<_>>(), ["x-checksum"]);
        let data = clean_trailers(Frame::data(Bytes::from_static(b"x")));
        assert_eq!(data.into_data().unwrap(), "x");
    }
}
