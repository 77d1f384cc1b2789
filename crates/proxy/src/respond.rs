//! Answers of the gate itself: refusals as HTTP, and what is said to requests for nothing.
//!
//! Never here: which reason has which status. That table is `core::wire`.

use agentguard_core::wire::{self, Retry};
use agentguard_core::{Reason, Refusal, RequestId};
use bytes::Bytes;
use http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use serde_json::{Value, json};

use crate::body::AnswerBody;
use crate::limits::RETRY_WAIT_SEC_MAX;

/// On every answer.
pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-agentguard-request-id");
/// On the answer to a model call whose maximum of output tokens was lowered to what is left: to how many.
pub(crate) const CLAMPED: HeaderName = HeaderName::from_static("x-agentguard-max-tokens");
const SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");
const STRIPE_SHOULD_RETRY: HeaderName = HeaderName::from_static("stripe-should-retry");
const RATE_LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
const RATE_REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
const RATE_RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");

/// An answer, the gate's own or an upstream's.
pub(crate) type Answer = Response<AnswerBody>;

/// Names the request on its answer.
pub(crate) fn name(headers: &mut HeaderMap, id: RequestId) {
    let mut text = [0; 36];
    let text = id.0.hyphenated().encode_lower(&mut text);
    if let Ok(value) = HeaderValue::from_str(text) {
        headers.insert(REQUEST_ID, value);
    }
}

/// A refusal.
pub(crate) fn refusal(refusal: &Refusal, id: RequestId) -> Answer {
    let row = wire::row(refusal.reason);
    let mut answer = json_answer(row.status, &refusal.body(id), id);
    let headers = answer.headers_mut();
    let too_long = refusal.rate.is_some_and(|rate| rate.retry_after_sec > RETRY_WAIT_SEC_MAX);
    match row.retry {
        Retry::Later if !too_long => {
            // Nothing for Stripe's clients: told to retry they come back within a second, whatever
            // `Retry-After` says, and a full rate would be hammered.
            headers.insert(SHOULD_RETRY, HeaderValue::from_static("true"));
        }
        Retry::Later | Retry::Never => leave_it(headers),
    }
    if row.status == StatusCode::UNAUTHORIZED.as_u16() {
        headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    if let Some(rate) = refusal.rate {
        headers.insert(RATE_LIMIT, rate.limit.into());
        headers.insert(RATE_REMAINING, rate.remaining.into());
        headers.insert(RATE_RESET, rate.resets_at.as_secs_ceil().into());
        headers.insert(RETRY_AFTER, rate.retry_after_sec.into());
    }
    answer
}

/// The bytes of a refusal that closes its connection, where hyper writes none of ours.
pub(crate) fn closing_bytes(refusal: &Refusal, id: RequestId, date: Option<&[u8]>) -> Bytes {
    let (head, _) = self::refusal(refusal, id).into_parts();
    let body = refusal.body(id).to_string();
    let mut wire = format!("HTTP/1.1 {}\r\n", head.status).into_bytes();
    let mut line = |name: &str, value: &[u8]| {
        for piece in [name.as_bytes(), b": ", value, b"\r\n"] {
            wire.extend_from_slice(piece);
        }
    };
    for (name, value) in &head.headers {
        line(name.as_str(), value.as_bytes());
    }
    if let Some(date) = date {
        line("date", date);
    }
    line("connection", b"close");
    line("content-length", body.len().to_string().as_bytes());
    wire.extend_from_slice(b"\r\n");
    wire.extend_from_slice(body.as_bytes());
    wire.into()
}

/// An answer to something that is no call: nothing is decided or recorded.
pub(crate) fn no_call(status: StatusCode, code: &str, message: &str, id: RequestId) -> Answer {
    let body = json!({"error": {"code": code, "message": message, "request_id": id}});
    let mut answer = json_answer(status.as_u16(), &body, id);
    leave_it(answer.headers_mut());
    answer
}

/// The status that a reason is answered with.
pub(crate) fn status(reason: Reason) -> u16 {
    wire::row(reason).status
}

/// Tells clients not to send the same again. Both names go to every service: a client of Stripe's may
/// well speak to a service of another kind, and others pass over the name.
fn leave_it(headers: &mut HeaderMap) {
    headers.insert(SHOULD_RETRY, HeaderValue::from_static("false"));
    headers.insert(STRIPE_SHOULD_RETRY, HeaderValue::from_static("false"));
}

fn json_answer(status: u16, body: &Value, id: RequestId) -> Answer {
    let text = Bytes::from(body.to_string());
    let mut answer = Response::new(AnswerBody::whole(text));
    *answer.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_GATEWAY);
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    name(answer.headers_mut(), id);
    answer
}

#[cfg(test)]
mod tests {
    use super::*;
    use agentguard_core::Timestamp;
    use agentguard_core::refusal::RateState;

    fn id() -> RequestId {
        "01890000-0000-7000-8000-000000000000".parse().unwrap()
    }

    #[test]
    fn every_reason_is_answered_with_its_status_and_retry_hint() {
        for reason in Reason::ALL {
            let row = wire::row(reason);
            let answer = refusal(&Refusal::plain(reason), id());
            assert_eq!(answer.status().as_u16(), row.status, "{}", row.code);
            let hint = if row.retry == Retry::Later { "true" } else { "false" };
            assert_eq!(answer.headers().get(SHOULD_RETRY).unwrap(), hint, "{}", row.code);
            let stripe_hint = answer.headers().get(STRIPE_SHOULD_RETRY).map(HeaderValue::as_bytes);
            let expected = (row.retry == Retry::Never).then_some(&b"false"[..]);
            assert_eq!(stripe_hint, expected, "{}", row.code);
            assert_eq!(answer.headers().contains_key(WWW_AUTHENTICATE), row.status == 401);
            assert_eq!(answer.headers().get(REQUEST_ID).unwrap(), &id().to_string());
        }
    }

    fn full_rate(retry_after_sec: i64) -> Answer {
        let mut full = Refusal::plain(Reason::RateLimited);
        full.rate = Some(RateState {
            limit: 5,
            remaining: 0,
            resets_at: Timestamp::from_micros(1_700_000_000_000_001),
            retry_after_sec,
        });
        refusal(&full, id())
    }

    #[test]
    fn a_full_rate_says_when_to_come_back() {
        let answer = full_rate(7);
        let header = |name: &HeaderName| answer.headers().get(name).unwrap().to_str().unwrap();
        assert_eq!(header(&RATE_LIMIT), "5");
        assert_eq!(header(&RATE_REMAINING), "0");
        assert_eq!(header(&RATE_RESET), "1700000001");
        assert_eq!(header(&RETRY_AFTER), "7");
    }

    #[test]
    fn a_client_is_not_sent_to_sleep_for_an_hour() {
        for (wait_sec, hint, stripe_hint) in [
            (1, "true", None),
            (RETRY_WAIT_SEC_MAX, "true", None),
            (RETRY_WAIT_SEC_MAX + 1, "false", Some("false")),
            (3_600, "false", Some("false")),
        ] {
            let answer = full_rate(wait_sec);
            let header = |name: &HeaderName| answer.headers().get(name)?.to_str().ok();
            assert_eq!(header(&SHOULD_RETRY), Some(hint), "{wait_sec}");
            assert_eq!(header(&STRIPE_SHOULD_RETRY), stripe_hint, "{wait_sec}");
            assert_eq!(header(&RETRY_AFTER), Some(wait_sec.to_string().as_str()));
        }
    }
}
