//! WebSockets: enough of RFC 6455 for real clients, and raw bytes for tests of what lies between.
//!
//! | path | after the handshake |
//! |---|---|
//! | `/ws/echo` | every message comes back; pings and closes are answered |
//! | `/ws/raw` | every byte comes back as it is, whatever it is |
//! | `/ws/flood` | zeroes without end, as fast as they are taken; nothing is read |
//! | `/ws/silent` | reads, and says nothing |
//! | `/ws/deaf` | neither reads nor says anything |
//! | `/ws/hang-up` | ends after the first byte that comes |
//! | anything else | 403, without a handshake |
//!
//! Each is a stream on the ledger, so that tests see it open and close.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use aws_lc_rs::digest;
use base64::Engine as _;
use bytes::Bytes;
use http::{HeaderValue, Request, StatusCode, header};
use hyper::body::Incoming;
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::call::{Answer, Call, full, json as json_answer};
use super::ledger::Ledger;

/// By the RFC.
const MAGIC: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;
/// No test sends a larger message.
const FRAME_BYTES_MAX: u64 = 64 * 1024 * 1024;

type Io = TokioIo<Upgraded>;

/// The socket that a request asks for.
pub(crate) fn asked(request: &mut Request<Incoming>) -> Option<OnUpgrade> {
    let wanted = request.headers().get(header::UPGRADE)?;
    wanted.as_bytes().eq_ignore_ascii_case(b"websocket").then(|| hyper::upgrade::on(request))
}

/// Agrees, and serves the socket in a task of the upstream's runtime, which ends with it.
pub(crate) fn answer(call: &Call, ledger: &Arc<Ledger>, socket: OnUpgrade, way: &str) -> Answer {
    let way = match way {
        "echo" => Way::Echo,
        "raw" => Way::Raw,
        "flood" => Way::Flood,
        "silent" => Way::Silent,
        "deaf" => Way::Deaf,
        "hang-up" => Way::HangUp,
        _ => return json_answer(StatusCode::FORBIDDEN, &json!({"error": "no socket here"})),
    };
    let Some(key) = call.header("sec-websocket-key") else {
        return json_answer(StatusCode::BAD_REQUEST, &json!({"error": "no key"}));
    };
    let guard = ledger.open_stream(call.no, call.path());
    let books = Arc::clone(ledger);
    tokio::spawn(async move {
        if let Ok(io) = socket.await {
            let mut io = TokioIo::new(io);
            // A broken connection is an end like any other.
            let _ = match way {
                Way::Echo => echo(&mut io, &books).await,
                Way::Raw => raw(&mut io, &books).await,
                Way::Flood => flood(&mut io, &books).await,
                Way::Silent => silent(&mut io, &books).await,
                Way::Deaf => std::future::pending().await,
                Way::HangUp => io.read_u8().await.map(drop),
            };
        }
        drop(guard);
    });
    let mut answer = full(StatusCode::SWITCHING_PROTOCOLS, "text/plain", Bytes::new());
    let headers = answer.headers_mut();
    headers.remove(header::CONTENT_TYPE);
    headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    let accept = HeaderValue::try_from(accept(&key)).expect("base64 is plain");
    headers.insert(header::SEC_WEBSOCKET_ACCEPT, accept);
    answer
}

#[derive(Clone, Copy)]
enum Way {
    Echo,
    Raw,
    Flood,
    Silent,
    Deaf,
    HangUp,
}

fn accept(key: &str) -> String {
    let mut sum = digest::Context::new(&digest::SHA1_FOR_LEGACY_USE_ONLY);
    sum.update(key.as_bytes());
    sum.update(MAGIC);
    base64::engine::general_purpose::STANDARD.encode(sum.finish())
}

async fn echo(io: &mut Io, books: &Ledger) -> io::Result<()> {
    loop {
        let (first, payload) = read_frame(io, books).await?;
        let answer = match first & 0x0f {
            PING => first & 0xf0 | PONG,
            PONG => continue,
            _ => first,
        };
        write_frame(io, books, answer, &payload).await?;
        if first & 0x0f == CLOSE {
            return io.shutdown().await;
        }
    }
}

async fn read_frame(io: &mut Io, books: &Ledger) -> io::Result<(u8, Vec<u8>)> {
    let (first, second) = (io.read_u8().await?, io.read_u8().await?);
    let mut head = 2;
    let length = match second & 0x7f {
        126 => {
            head += 2;
            u64::from(io.read_u16().await?)
        }
        127 => {
            head += 8;
            io.read_u64().await?
        }
        short => u64::from(short),
    };
    if length > FRAME_BYTES_MAX {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut mask = [0; 4];
    if second & 0x80 != 0 {
        head += 4;
        io.read_exact(&mut mask).await?;
    }
    let mut payload = vec![0; usize::try_from(length).unwrap_or(usize::MAX)];
    io.read_exact(&mut payload).await?;
    payload.iter_mut().zip(mask.iter().cycle()).for_each(|(byte, mask)| *byte ^= mask);
    add(&books.websocket_bytes_in, payload.len() + head);
    Ok((first, payload))
}

async fn write_frame(io: &mut Io, books: &Ledger, first: u8, payload: &[u8]) -> io::Result<()> {
    let mut frame = vec![first];
    match payload.len() {
        short @ 0..126 => frame.push(u8::try_from(short).unwrap_or(125)),
        medium @ 126..0x1_0000 => {
            frame.push(126);
            frame.extend_from_slice(&u16::try_from(medium).unwrap_or(u16::MAX).to_be_bytes());
        }
        long => {
            frame.push(127);
            frame.extend_from_slice(&(long as u64).to_be_bytes());
        }
    }
    frame.extend_from_slice(payload);
    io.write_all(&frame).await?;
    add(&books.websocket_bytes_out, frame.len());
    io.flush().await
}

async fn raw(io: &mut Io, books: &Ledger) -> io::Result<()> {
    let mut buffer = vec![0; 16 * 1024];
    loop {
        let read = io.read(&mut buffer).await?;
        add(&books.websocket_bytes_in, read);
        if read == 0 {
            return io.shutdown().await;
        }
        io.write_all(&buffer[..read]).await?;
        add(&books.websocket_bytes_out, read);
        io.flush().await?;
    }
}

async fn flood(io: &mut Io, books: &Ledger) -> io::Result<()> {
    let zeroes = vec![0; 16 * 1024];
    loop {
        io.write_all(&zeroes).await?;
        add(&books.websocket_bytes_out, zeroes.len());
    }
}

async fn silent(io: &mut Io, books: &Ledger) -> io::Result<()> {
    let mut buffer = vec![0; 16 * 1024];
    loop {
        let read = io.read(&mut buffer).await?;
        add(&books.websocket_bytes_in, read);
        if read == 0 {
            return Ok(());
        }
    }
}

fn add(counter: &AtomicU64, bytes: usize) {
    counter.fetch_add(bytes as u64, Relaxed);
}
