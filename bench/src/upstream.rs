//! A server that costs as little as a server can: it finds the end of a request and answers with
//! bytes that were made before. It speaks like a model: an answer with its usage, or a stream.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use memchr::memmem;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::MissedTickBehavior;

use crate::child::until_parent_ends;
use crate::wire::{content_length, header};

/// Asks for a stream: `events,milliseconds between two`.
pub(crate) const PACE: &str = "x-bench-pace";
/// Stands once in each event, and nowhere else.
pub(crate) const MARK: u8 = b'~';

const ANSWER: &str = r#"{"id":"chatcmpl-bench","object":"chat.completion","created":1763294400,"model":"gpt-4o-mini","choices":[{"index":0,"message":{"role":"assistant","content":"The bridge opened in 1883."},"finish_reason":"stop"}],"usage":{"prompt_tokens":214,"completion_tokens":9,"total_tokens":223}}"#;
const EVENT: &str = r#"data: {"id":"chatcmpl-bench","object":"chat.completion.chunk","created":1763294400,"model":"gpt-4o-mini","choices":[{"index":0,"delta":{"content":"word~"},"finish_reason":null}]}"#;
const LAST_EVENTS: &str = concat!(
    r#"data: {"id":"chatcmpl-bench","object":"chat.completion.chunk","created":1763294400,"model":"gpt-4o-mini","choices":[],"usage":{"prompt_tokens":214,"completion_tokens":9,"total_tokens":223}}"#,
    "\n\ndata: [DONE]"
);
// nginx would gather events unless it is told not to.
const STREAM_HEAD: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-cache\r\nX-Accel-Buffering: no\r\nTransfer-Encoding: chunked\r\n\r\n";

/// Serves until the parent ends.
pub(crate) fn run(listen: SocketAddr) {
    until_parent_ends();
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async move {
        let listener = TcpListener::bind(listen).await.expect("a free port");
        loop {
            if let Ok((stream, _)) = listener.accept().await {
                let _ = stream.set_nodelay(true);
                tokio::spawn(serve(stream));
            }
        }
    });
}

async fn serve(mut stream: TcpStream) -> io::Result<()> {
    let answer = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{ANSWER}",
        ANSWER.len()
    );
    let mut buffer = Vec::with_capacity(8 * 1_024);
    loop {
        let Some((length, pace)) = whole_request(&buffer) else {
            if stream.read_buf(&mut buffer).await? == 0 {
                return Ok(());
            }
            continue;
        };
        buffer.drain(..length);
        match pace {
            None => stream.write_all(answer.as_bytes()).await?,
            Some((events, pause)) => send_stream(&mut stream, events, pause).await?,
        }
    }
}

/// The length of the request that stands at the front, if all of it is there, and its pace.
fn whole_request(bytes: &[u8]) -> Option<(usize, Option<(u64, Duration)>)> {
    let head_end = memmem::find(bytes, b"\r\n\r\n")? + 4;
    let head = &bytes[..head_end];
    let length = match content_length(head) {
        Some(length) => head_end + length,
        // Re-encoded on the way, in chunks.
        None if header(head, "transfer-encoding").is_some() => {
            head_end + memmem::find(&bytes[head_end..], b"0\r\n\r\n")? + 5
        }
        None => head_end,
    };
    let pace = header(head, PACE).and_then(|text| {
        let (events, pause) = text.split_once(',')?;
        Some((events.parse().ok()?, Duration::from_millis(pause.parse().ok()?)))
    });
    (bytes.len() >= length).then_some((length, pace))
}

async fn send_stream(stream: &mut TcpStream, events: u64, pause: Duration) -> io::Result<()> {
    let event = chunk(EVENT);
    let mut ticks = tokio::time::interval(pause);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks.tick().await;
    // The first event comes with the head, as those of models nearly do.
    stream.write_all(format!("{STREAM_HEAD}{event}").as_bytes()).await?;
    for _ in 1..events {
        ticks.tick().await;
        stream.write_all(event.as_bytes()).await?;
    }
    stream.write_all(format!("{}0\r\n\r\n", chunk(LAST_EVENTS)).as_bytes()).await
}

fn chunk(event: &str) -> String {
    format!("{:x}\r\n{event}\n\n\r\n", event.len() + 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_whole_with_its_body() {
        let head = format!("POST / HTTP/1.1\r\nContent-Length: 3\r\n{PACE}: 20,50\r\n\r\n");
        let pace = Some((20, Duration::from_millis(50)));
        assert_eq!(whole_request(format!("{head}abcd").as_bytes()), Some((head.len() + 3, pace)));
        assert_eq!(whole_request(format!("{head}ab").as_bytes()), None);
    }

    #[test]
    fn the_mark_stands_once_in_an_event_and_never_in_the_last_ones() {
        let count = |text: &str| memchr::memchr_iter(MARK, text.as_bytes()).count();
        assert_eq!((count(EVENT), count(LAST_EVENTS), count(STREAM_HEAD)), (1, 0, 0));
    }
}
