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
use agentguard_core::{Amount, MicroUsd, PriceTable, Reason, Refusal};
use bytes::Bytes;
use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH};
use http::request::Parts;
use http::{HeaderMap, HeaderValue};
use http_body::Body as _;
use hyper::body::Incoming;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::amount::{self, Extractor, Paper, Planned, Pricing, Settling};
use crate::body::{BodyError, Held, RequestBody, Sent, read_whole};
use crate::inflate::{Coding, Inflater};
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
    /// How its answer is settled, where that says what the call cost.
    pub(crate) settling: Option<Settling>,
}

/// What a body is read with.
#[derive(Clone, Debug)]
pub(crate) struct With<'a> {
    pub(crate) bytes_max: usize,
    pub(crate) intents: &'a Intents,
    pub(crate) prices: Arc<PriceTable>,
    /// What the call may cost, where the operator lets the gate lower it to that.
    pub(crate) room: Option<MicroUsd>,
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
        parts: &mut Parts,
        placed: &Placed,
        body: Incoming,
        with: With<'_>,
    ) -> Result<Prepared, Refusal> {
        let path = placed.path.path();
        let timeout = placed.route.timeout;
        let found = amount::extractor(&placed.route, parts, path);
        let Some(extractor) = found else {
            return passing(body, Planned::plain(Amount::Free), timeout).await;
        };
        if let Some(known) = extractor.without_body() {
            return passing(body, known, timeout).await;
        }
        let standing = with.intents.standing(&placed.route.alias, extractor.touch(path));
        let Some((bytes, room)) = self.take_in(body, with.bytes_max, timeout).await? else {
            return Ok(Prepared {
                amount: Amount::Unreadable(Unreadable::TooLong),
                body: RequestBody::Unusable,
                sent: Arc::default(),
                standing,
                settling: None,
            });
        };
        let planned = match standing {
            Standing::Plain | Standing::Makes => {
                self.read(extractor, parts, placed, &bytes, with).await?
            }
            // Whatever else it names: what it moves was never counted.
            Standing::Uncounted => Planned::plain(Amount::Unreadable(Unreadable::Missing)),
        };
        let Planned { amount, settling, rewritten } = planned;
        let bytes = match rewritten {
            Some(rewritten) => {
                as_rewritten(&mut parts.headers);
                rewritten
            }
            None => bytes,
        };
        let sent = Sent::whole(bytes.len());
        let body = RequestBody::Memory(Held { bytes, room });
        Ok(Prepared { amount, body, sent, standing, settling })
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

    /// The amount. A large or compressed body is read aside: a megabyte of JSON takes tens of
    /// milliseconds, and a stop must not wait behind it.
    async fn read(
        &self,
        extractor: Extractor,
        parts: &Parts,
        placed: &Placed,
        bytes: &Bytes,
        with: With<'_>,
    ) -> Result<Planned, Refusal> {
        let query = placed.path.query();
        let coding = Coding::of(&parts.headers);
        let With { bytes_max, prices, room, intents: _ } = with;
        if coding == Coding::Plain && bytes.len() <= READ_IN_PLACE_BYTES_MAX {
            let paper = Paper { headers: &parts.headers, query, body: bytes };
            let deployment = amount::deployment(placed.path.path());
            return Ok(extractor.read(paper, Pricing { prices: &prices, room, deployment }));
        }
        let reader = Arc::clone(&self.readers).acquire_owned();
        let reader = bounded(placed.route.timeout, reader).await?;
        let (headers, path, bytes) = (parts.headers.clone(), placed.path.clone(), bytes.clone());
        let reading = tokio::task::spawn_blocking(move || {
            let planned = match Inflater::whole(coding, &bytes, bytes_max) {
                Ok(body) => {
                    let paper = Paper { headers: &headers, query: path.query(), body: &body };
                    let deployment = amount::deployment(path.path());
                    extractor.read(paper, Pricing { prices: &prices, room, deployment })
                }
                Err(_) => Planned::plain(Amount::Unreadable(Unreadable::Encoding)),
            };
            drop(reader);
            planned
        });
        reading.await.map_err(|error| {
            tracing::error!(%error, "reading the amount of a large body");
            Refusal::plain(Reason::Internal)
        })
    }
}

/// A body of which nothing has to be read.
async fn passing(body: Incoming, planned: Planned, timeout: Duration) -> Result<Prepared, Refusal> {
    let streamed = tokio::time::timeout(timeout, RequestBody::streamed(body));
    let (body, sent) = streamed.await.map_err(|_| late())?.map_err(broken)?;
    let Planned { amount, settling, rewritten: _ } = planned;
    Ok(Prepared { amount, body, sent, standing: Standing::Plain, settling })
}

/// What the head says of a body that the gate wrote anew: it is not compressed, and the answer must not
/// be either, or no event could be kept back from it.
fn as_rewritten(headers: &mut HeaderMap) {
    headers.remove(CONTENT_ENCODING);
    headers.remove(CONTENT_LENGTH);
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
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
