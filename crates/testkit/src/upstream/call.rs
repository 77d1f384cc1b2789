//! One request, read to its end, and the ways to build an answer.
//!
//! Never here: what an answer means.

use std::sync::atomic::Ordering::Relaxed;

use base64::Engine as _;
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, Uri, header};
use http_body::Body as _;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Either, Full};
use hyper::body::Incoming;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::Recording;
use super::ledger::{Ledger, Seen};

/// API bodies are small; a longer body is hashed and counted but not kept.
pub(crate) const BODY_KEPT_BYTES_MAX: usize = 8 * 1024 * 1024;

pub(crate) type Body = Either<Full<Bytes>, UnsyncBoxBody<Bytes, BrokenOff>>;
pub(crate) type Answer = Response<Body>;

/// Ends a body before its end, because the test asked for that.
#[derive(Debug)]
pub(crate) struct BrokenOff;

impl std::fmt::Display for BrokenOff {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("broken off as asked")
    }
}

impl std::error::Error for BrokenOff {}

#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) no: u64,
    pub(crate) method: Method,
    pub(crate) uri: Uri,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) body_len: u64,
    pub(crate) body_sha256: String,
    pub(crate) complete: bool,
    pub(crate) trailers: HeaderMap,
}

impl Call {
    /// Reads the whole request and puts it on the ledger, also when the body breaks off.
    pub(crate) async fn read(
        request: http::Request<Incoming>,
        ledger: &Ledger,
        recording: Recording,
    ) -> Self {
        let no = ledger.next_request_no();
        let (head, mut incoming) = request.into_parts();
        let mut kept = BytesMut::new();
        // A load run pays for hashing only where a test asked to see the hash.
        let mut hash = match recording {
            Recording::Full => Some(Sha256::new()),
            Recording::CountsOnly => (head.uri.path() == "/echo").then(Sha256::new),
        };
        let mut body_len = 0_u64;
        let mut complete = true;
        let mut trailers = HeaderMap::new();
        while !incoming.is_end_stream() {
            match incoming.frame().await {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => {
                        body_len += data.len() as u64;
                        if let Some(hash) = &mut hash {
                            hash.update(&data);
                        }
                        if kept.len() + data.len() <= BODY_KEPT_BYTES_MAX {
                            kept.extend_from_slice(&data);
                        }
                    }
                    Err(frame) => trailers = frame.into_trailers().unwrap_or_default(),
                },
                Some(Err(_)) => {
                    complete = false;
                    break;
                }
                None => break,
            }
        }
        ledger.body_bytes_in.fetch_add(body_len, Relaxed);
        let call = Self {
            no,
            method: head.method,
            uri: head.uri,
            headers: head.headers,
            body: kept.freeze(),
            body_len,
            body_sha256: hash.map(|hash| hex(&hash.finalize())).unwrap_or_default(),
            complete,
            trailers,
        };
        call.record(ledger, recording);
        call
    }

    fn record(&self, ledger: &Ledger, recording: Recording) {
        if !self.complete {
            ledger.requests_incomplete.fetch_add(1, Relaxed);
        }
        match recording {
            Recording::CountsOnly => {}
            Recording::Full => {
                if self.carries_guard_token() {
                    ledger.guard_tokens_seen.fetch_add(1, Relaxed);
                }
                ledger.see(Seen {
                    no: self.no,
                    method: self.method.clone(),
                    path_and_query: self.path_and_query().to_owned(),
                    headers: self.headers.clone(),
                    body_len: self.body_len,
                    body_sha256: self.body_sha256.clone(),
                    complete: self.complete,
                });
            }
        }
    }

    pub(crate) fn path(&self) -> &str {
        self.uri.path()
    }

    pub(crate) fn path_and_query(&self) -> &str {
        self.uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str)
    }

    /// A test's wish: header `x-test-…` or the query parameter of the same name.
    pub(crate) fn knob(&self, name: &str) -> Option<String> {
        match self.headers.get(name) {
            Some(value) => Some(latin1(value.as_bytes())),
            None => self.query(name),
        }
    }

    pub(crate) fn knob_number(&self, name: &str) -> Option<u64> {
        self.knob(name)?.parse().ok()
    }

    /// The error that the test asked for; an impossible one becomes 500.
    pub(crate) fn wanted_status(&self) -> Option<StatusCode> {
        let status = u16::try_from(self.knob_number("x-test-status")?).ok();
        let status = status.and_then(|status| StatusCode::from_u16(status).ok());
        Some(
            status
                .filter(|status| status.as_u16() >= 400)
                .unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
        )
    }

    pub(crate) fn query(&self, name: &str) -> Option<String> {
        form_urlencoded::parse(self.uri.query()?.as_bytes())
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.into_owned())
    }

    pub(crate) fn header(&self, name: &str) -> Option<String> {
        self.headers.get(name).map(|value| latin1(value.as_bytes()))
    }

    pub(crate) fn json(&self) -> Result<Value, serde_json::Error> {
        serde_json::from_slice(&self.body)
    }

    /// A guard token must never leave the gate, whichever place the agent put it in.
    fn carries_guard_token(&self) -> bool {
        const MARK: &[u8] = b"ag_live_";
        let holds = |bytes: &[u8]| bytes.windows(MARK.len()).any(|window| window == MARK);
        let hidden = |value: &HeaderValue| {
            let text = latin1(value.as_bytes());
            let encoded = text.rsplit(' ').next().unwrap_or_default();
            base64::engine::general_purpose::STANDARD
                .decode(encoded)
                .is_ok_and(|plain| holds(&plain))
        };
        holds(self.path_and_query().as_bytes())
            || self.headers.values().any(|value| holds(value.as_bytes()) || hidden(value))
    }
}

/// Bytes to text one to one, so that a test can get the exact bytes of a header back.
pub(crate) fn latin1(bytes: &[u8]) -> String {
    bytes.iter().map(|&byte| char::from(byte)).collect()
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("writing to a String");
        text
    })
}

pub(crate) fn full(status: StatusCode, content_type: &'static str, body: Bytes) -> Answer {
    let mut answer = Response::new(Either::Left(Full::new(body)));
    *answer.status_mut() = status;
    answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    answer
}

pub(crate) fn json(status: StatusCode, body: &Value) -> Answer {
    full(
        status,
        "application/json",
        Bytes::from(serde_json::to_vec(body).expect("a JSON value encodes")),
    )
}

pub(crate) fn streamed(
    content_type: &'static str,
    body: UnsyncBoxBody<Bytes, BrokenOff>,
) -> Answer {
    let mut answer = Response::new(Either::Right(body));
    answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    answer
}
