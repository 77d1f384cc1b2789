//! Plain and misbehaving answers, for the ways a forwarder can go wrong.
//!
//! | path | answer |
//! |---|---|
//! | `/echo` | method, path, raw query, headers and trailers as pairs, body length and SHA-256 |
//! | `/bytes/{n}` | `n` bytes with a length |
//! | `/status/{code}` | that status |
//! | `/slow-head/{ms}` | the head after `ms` |
//! | `/slow-body/{chunks}/{ms}` | 16-byte chunks, `ms` apart |
//! | `/reset` | a head, a few bytes, then a reset of the connection |
//! | `/short` | says 1000 bytes, sends 10 and closes |
//! | `/stream?events=&interval_ms=` | server-sent events, endless without `events` |
//! | `/goaway` | an answer, after which the connection takes no more requests (HTTP/2: GOAWAY) |
//! | `/trailers` | chunked with a trailer `x-checksum` (when the client says `TE: trailers`) |
//! | `/redirect?to=&code=` | a redirect, 302 unless told |
//! | `/gzip` | a gzip body of 1024 bytes `a` |
//! | `/gzip-bomb/{mib}` | a gzip body that unpacks to `mib` MiB of zeroes, at 1 to 158 |

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody};
use serde_json::json;
use tokio::sync::Notify;

use super::call::{Answer, BrokenOff, Call, full, json as json_answer, streamed};
use super::ledger::Ledger;
use super::route::{delay, header_pairs};
use super::serve::Wishes;
use super::sse::{self, Count, Events};

/// Larger answers come from `/stream`; this bounds the memory of one answer.
const BYTES_MAX: usize = 64 * 1024 * 1024;
/// Shared by all `/bytes` answers up to its size, so that load runs measure the proxy.
static ZEROES: [u8; 64 * 1024] = [b'0'; 64 * 1024];
/// One unpacked answer must not fill the machine of whoever unpacks it by mistake in a test.
const GZIP_BOMB_MIB_MAX: usize = 1024;
const BINARY: &str = "application/octet-stream";
/// A forwarder must see the first bytes before the connection breaks; both ends are local.
const BREAK_AFTER: Duration = Duration::from_millis(20);

pub(crate) async fn answer(
    call: &Call,
    ledger: &Arc<Ledger>,
    parts: &[&str],
    wishes: &Wishes,
) -> Answer {
    match parts {
        ["echo", ..] => echo(call),
        ["bytes", n] => n.parse().map_or_else(|_| not_found(n), bytes),
        ["status", code] => status(code),
        ["slow-head", ms] => match ms.parse() {
            Ok(ms) => {
                delay(ms).await;
                json_answer(StatusCode::OK, &json!({"waited_ms": ms}))
            }
            Err(_) => not_found(ms),
        },
        ["slow-body", chunks, ms] => match (chunks.parse(), ms.parse()) {
            (Ok(chunks), Ok(ms)) => slow_body(call, ledger, chunks, ms),
            _ => not_found(chunks),
        },
        ["reset"] => reset_later(&wishes.reset),
        ["goaway"] => go_away(&wishes.leave),
        ["short"] => short(),
        ["stream"] => ticks(call, ledger),
        ["trailers"] => trailers(),
        ["redirect"] => redirect(call),
        ["gzip"] => gzip(),
        ["gzip-bomb", mib] => mib.parse().map_or_else(|_| not_found(mib), gzip_bomb),
        _ => not_found(call.path()),
    }
}

pub(crate) fn not_found(what: &str) -> Answer {
    json_answer(
        StatusCode::NOT_FOUND,
        &json!({"error": {"type": "invalid_request_error", "message": format!("nothing at `{what}`")}}),
    )
}

fn echo(call: &Call) -> Answer {
    json_answer(
        StatusCode::OK,
        &json!({
            "method": call.method.as_str(),
            "path": call.path(),
            "query": call.uri.query(),
            "headers": header_pairs(&call.headers),
            "trailers": header_pairs(&call.trailers),
            "body_len": call.body_len,
            "body_sha256": call.body_sha256,
            "complete": call.complete,
        }),
    )
}

fn bytes(count: usize) -> Answer {
    let body = match ZEROES.get(..count) {
        Some(part) => Bytes::from_static(part),
        None => Bytes::from(vec![b'0'; count.min(BYTES_MAX)]),
    };
    full(StatusCode::OK, BINARY, body)
}

fn status(code: &str) -> Answer {
    match code.parse().ok().and_then(|code| StatusCode::from_u16(code).ok()) {
        // 1xx is no final answer.
        Some(code) if code.as_u16() >= 200 => json_answer(code, &json!({"status": code.as_u16()})),
        _ => not_found(code),
    }
}

fn slow_body(call: &Call, ledger: &Arc<Ledger>, chunks: u64, ms: u64) -> Answer {
    let guard = ledger.open_stream(call.no, call.path());
    let frames = stream::unfold((0, guard), move |(sent, guard)| async move {
        if sent == chunks {
            guard.finished();
            return None;
        }
        if sent > 0 {
            delay(ms).await;
        }
        guard.sent_one();
        let chunk = Bytes::from(format!("chunk {sent:09}\n"));
        Some((Ok::<_, BrokenOff>(Frame::data(chunk)), (sent + 1, guard)))
    });
    streamed(BINARY, StreamBody::new(frames).boxed_unsync())
}

/// A few bytes, then an error in the body: the server drops the connection, and the flag makes
/// that a reset.
fn reset_later(reset: &Arc<AtomicBool>) -> Answer {
    reset.store(true, Relaxed);
    ten_bytes_then_break()
}

/// What is under way on this connection is still answered.
fn go_away(leave: &Notify) -> Answer {
    leave.notify_one();
    json_answer(StatusCode::OK, &json!({"leaving": true}))
}

/// Too few bytes for the length in the head; the connection is closed in order.
fn short() -> Answer {
    let mut answer = ten_bytes_then_break();
    answer.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from_static("1000"));
    answer
}

fn ten_bytes_then_break() -> Answer {
    let frames = stream::unfold(0, |sent| async move {
        if sent == 0 {
            let first = Frame::data(Bytes::from_static(b"0123456789"));
            return Some((Ok(first), 1));
        }
        tokio::time::sleep(BREAK_AFTER).await;
        Some((Err(BrokenOff), 2))
    });
    streamed(BINARY, StreamBody::new(frames).boxed_unsync())
}

fn ticks(call: &Call, ledger: &Arc<Ledger>) -> Answer {
    let count = Count::wanted(call, "events")
        .or_else(|| Count::wanted(call, "x-test-events"))
        .unwrap_or(Count::Endless);
    let each = |n| sse::event(Some("tick"), &json!({"n": n}));
    sse::answer(
        call,
        ledger,
        Events { head: Vec::new(), each: Box::new(each), count, tail: Vec::new() },
    )
}

fn trailers() -> Answer {
    let mut fields = HeaderMap::new();
    fields.insert("x-checksum", HeaderValue::from_static("0123456789"));
    let frames = stream::iter([
        Ok::<_, BrokenOff>(Frame::data(Bytes::from_static(b"0123456789"))),
        Ok(Frame::trailers(fields)),
    ]);
    let mut answer = streamed(BINARY, StreamBody::new(frames).boxed_unsync());
    answer.headers_mut().insert(header::TRAILER, HeaderValue::from_static("x-checksum"));
    answer
}

fn redirect(call: &Call) -> Answer {
    let code = call
        .query("code")
        .and_then(|code| code.parse().ok())
        .and_then(|code| StatusCode::from_u16(code).ok())
        .filter(StatusCode::is_redirection)
        .unwrap_or(StatusCode::FOUND);
    let Some(to) = call.query("to").and_then(|to| HeaderValue::try_from(to).ok()) else {
        return not_found("redirect without a usable `to`");
    };
    let mut answer = json_answer(code, &json!({}));
    answer.headers_mut().insert(header::LOCATION, to);
    answer
}

/// A gzip member with one stored block: valid for every decoder, and no compressor needed.
fn gzip() -> Answer {
    let plain = [b'a'; 1024];
    let len = 1024_u16;
    let mut body = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255, 1];
    body.extend_from_slice(&len.to_le_bytes());
    body.extend_from_slice(&(!len).to_le_bytes());
    body.extend_from_slice(&plain);
    body.extend_from_slice(&crc32fast::hash(&plain).to_le_bytes());
    body.extend_from_slice(&u32::from(len).to_le_bytes());
    let mut answer = full(StatusCode::OK, "text/plain", Bytes::from(body));
    answer.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    answer
}

/// One block of fixed codes: a zero, and then "the last 258 bytes once more" in 13 bits each.
fn gzip_bomb(mib: usize) -> Answer {
    const RUN: usize = 258;
    let plain_bytes = mib.min(GZIP_BOMB_MIB_MAX) * 1024 * 1024;
    let mut bits = Bits::default();
    // The last block, with fixed codes.
    bits.push(0b1, 1);
    bits.push(0b01, 2);
    // Codes go out with their first bit first: these are written backwards.
    let zero = |bits: &mut Bits| bits.push(0b0000_1100, 8);
    let runs = plain_bytes.saturating_sub(1) / RUN;
    for _ in 0..plain_bytes - runs * RUN {
        zero(&mut bits);
    }
    for _ in 0..runs {
        bits.push(0b1010_0011, 8);
        bits.push(0, 5);
    }
    bits.push(0, 7);
    let zeroes = vec![0; 1024 * 1024];
    let mut sum = crc32fast::Hasher::new();
    (0..mib.min(GZIP_BOMB_MIB_MAX)).for_each(|_| sum.update(&zeroes));
    let mut body = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
    body.extend(bits.bytes());
    body.extend_from_slice(&sum.finalize().to_le_bytes());
    body.extend_from_slice(&u32::try_from(plain_bytes).unwrap_or(u32::MAX).to_le_bytes());
    let mut answer = full(StatusCode::OK, "application/json", Bytes::from(body));
    answer.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    answer
}

/// Bits as deflate packs them: from the lowest up.
#[derive(Default)]
struct Bits {
    whole: Vec<u8>,
    part: u32,
    count: u32,
}

impl Bits {
    fn push(&mut self, bits: u32, count: u32) {
        self.part |= bits << self.count;
        self.count += count;
        while self.count >= 8 {
            self.whole.push(self.part.to_le_bytes()[0]);
            self.part >>= 8;
            self.count -= 8;
        }
    }

    fn bytes(mut self) -> Vec<u8> {
        if self.count > 0 {
            self.push(0, 8 - self.count);
        }
        self.whole
    }
}
