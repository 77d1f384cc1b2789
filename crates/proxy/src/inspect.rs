//! Bodies on their way in: which are read for their amount, how much of them is held at once, and
//! where the large ones are read.
//!
//! All of this comes before a decision, so whoever may knock can cause it. Hence the bounds.
//!
//! Never here: how a body names money (`amount`).

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use agentguard_core::action::Unreadable;
use agentguard_core::{Amount, Reason, Refusal};
use bytes::Bytes;
use http::request::Parts;
use http_body::Body as _;
use hyper::body::Incoming;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::amount::{self, Extractor, Paper};
use crate::body::{BodyError, Held, RequestBody, Sent, read_whole};
use crate::intents::{Intents, Standing};
use crate::limits::{INSPECT_ROOM_KIB, LARGE_BODIES_READ_AT_ONCE, READ_IN_PLACE_BYTES_MAX};
use crate::request::Placed;

/// What bodies share while they are looked into.
#[derive(Debug)]
pub(crate) struct Inspection {
    /// In KiB.
    room: Arc<Semaphore>,
    readers: Arc<Semaphore>,
}

/// A body ready to go, and what the call costs.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) amount: Amount,
    pub(crate) body: RequestBody,
    pub(crate) sent: Arc<Sent>,
    pub(crate) standing: Standing,
}

impl Default for Inspection {
    fn default() -> Self {
        let room = usize::try_from(INSPECT_ROOM_KIB).unwrap_or(usize::MAX);
        Self {
            room: Arc::new(Semaphore::new(room)),
            readers: Arc::new(Semaphore::new(LARGE_BODIES_READ_AT_ONCE)),
        }
    }
}

impl Inspection {
    /// Check 5: the amount, read from the body only where such a call names money.
    pub(crate) async fn prepare(
        &self,
        parts: &Parts,
        placed: &Placed,
        body: Incoming,
        bytes_max: usize,
        intents: &Intents,
    ) -> Result<Prepared, Refusal> {
        let path = placed.path.path();
        let timeout = placed.route.timeout;
        let found = amount::extractor(&placed.route, &parts.method, &parts.headers, path);
        let known = found.as_ref().map_or(Some(Amount::Free), Extractor::without_body);
        let (Some(extractor), None) = (found, known.clone()) else {
            let amount = known.unwrap_or(Amount::Free);
            let streamed = tokio::time::timeout(timeout, RequestBody::streamed(body));
            let (body, sent) = streamed.await.map_err(|_| late())?.map_err(broken)?;
            return Ok(Prepared { amount, body, sent, standing: Standing::Plain });
        };
        let standing = intents.standing(&placed.route.alias, extractor.touch(path));
        match self.take_in(body, bytes_max, timeout).await? {
            Some((bytes, room)) => {
                let amount = match standing {
                    Standing::Plain | Standing::Makes => {
                        self.read(extractor, parts, placed, &bytes).await?
                    }
                    // Whatever else it names: what it moves was never counted.
                    Standing::Uncounted => Amount::Unreadable(Unreadable::Missing),
                };
                let sent = Sent::whole(bytes.len());
                let body = RequestBody::Memory(Held { bytes, room });
                Ok(Prepared { amount, body, sent, standing })
            }
            None => Ok(Prepared {
                amount: Amount::Unreadable(Unreadable::TooLong),
                body: RequestBody::Unusable,
                sent: Arc::default(),
                standing,
            }),
        }
    }

    /// The whole body and the room it takes; none if it is too long to be looked into.
    async fn take_in(
        &self,
        body: Incoming,
        bytes_max: usize,
        timeout: Duration,
    ) -> Result<Option<(Bytes, OwnedSemaphorePermit)>, Refusal> {
        let told = body.size_hint().exact().map(|told| usize::try_from(told).unwrap_or(usize::MAX));
        if told.is_some_and(|told| told > bytes_max) {
            return Ok(None);
        }
        let room = Arc::clone(&self.room).acquire_many_owned(kib(told.unwrap_or(bytes_max)));
        let room = bounded(timeout, room).await?;
        let whole = tokio::time::timeout(timeout, read_whole(body, bytes_max));
        match whole.await.map_err(|_| late())? {
            Ok(bytes) => {
                let room = shrunk(room, kib(bytes.len()));
                Ok(Some((bytes, room)))
            }
            Err(BodyError::TooLong) => Ok(None),
            Err(error @ (BodyError::Client | BodyError::Upstream | BodyError::Over)) => {
                Err(broken(error))
            }
        }
    }

    /// The amount. A large body is read aside: a megabyte of JSON takes tens of milliseconds, and a
    /// stop must not wait behind it.
    async fn read(
        &self,
        extractor: Extractor,
        parts: &Parts,
        placed: &Placed,
        bytes: &Bytes,
    ) -> Result<Amount, Refusal> {
        let query = placed.path.query();
        if bytes.len() <= READ_IN_PLACE_BYTES_MAX {
            return Ok(extractor.read(Paper { headers: &parts.headers, query, body: bytes }));
        }
        let reader = Arc::clone(&self.readers).acquire_owned();
        let reader = bounded(placed.route.timeout, reader).await?;
        let (headers, path, bytes) = (parts.headers.clone(), placed.path.clone(), bytes.clone());
        let reading = tokio::task::spawn_blocking(move || {
            let amount =
                extractor.read(Paper { headers: &headers, query: path.query(), body: &bytes });
            drop(reader);
            amount
        });
        reading.await.map_err(|error| {
            tracing::error!(%error, "reading the amount of a large body");
            Refusal::plain(Reason::Internal)
        })
    }
}

/// Runs a future, and says whether it had to wait: then what was true before may not be any more.
pub(crate) async fn noticing_waits<F: Future>(future: F) -> (F::Output, bool) {
    let mut future = pin!(future);
    let mut waited = false;
    let output = poll_fn(|context| {
        let polled = future.as_mut().poll(context);
        waited |= polled.is_pending();
        polled
    })
    .await;
    (output, waited)
}

async fn bounded<E>(
    timeout: Duration,
    turn: impl Future<Output = Result<OwnedSemaphorePermit, E>>,
) -> Result<OwnedSemaphorePermit, Refusal> {
    match tokio::time::timeout(timeout, turn).await {
        Ok(Ok(permit)) => Ok(permit),
        Ok(Err(_)) | Err(_) => {
            let message = "too many bodies are being read; send it again later".to_owned();
            Err(Refusal::with(Reason::BadRequest, message))
        }
    }
}

/// All of the room at the most, or a body could never have it.
fn kib(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(1024)).unwrap_or(u32::MAX).min(INSPECT_ROOM_KIB)
}

/// Gives back what a body of unknown length did not need.
fn shrunk(mut room: OwnedSemaphorePermit, kib: u32) -> OwnedSemaphorePermit {
    let needed = usize::try_from(kib).ok().and_then(|kib| room.split(kib));
    needed.unwrap_or(room)
}

fn late() -> Refusal {
    Refusal::with(Reason::BadRequest, "the request's body did not come".to_owned())
}

fn broken(_: BodyError) -> Refusal {
    let message = "the request's body is malformed or broke off".to_owned();
    Refusal::with(Reason::BadRequest, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_of_unknown_length_gives_back_what_it_did_not_need() {
        let inspection = Inspection::default();
        let all = inspection.room.available_permits();
        let taken = Arc::clone(&inspection.room).try_acquire_many_owned(kib(1024 * 1024)).unwrap();
        assert_eq!(inspection.room.available_permits(), all - 1024);
        let kept = shrunk(taken, kib(1025));
        assert_eq!(inspection.room.available_permits(), all - 2);
        drop(kept);
        assert_eq!(inspection.room.available_permits(), all);
    }

    #[test]
    fn no_body_asks_for_more_than_there_is() {
        for (bytes, expected) in
            [(0, 0), (1, 1), (1024, 1), (1025, 2), (usize::MAX, INSPECT_ROOM_KIB)]
        {
            assert_eq!(kib(bytes), expected, "{bytes}");
        }
    }
}
