//! Load: kept connections that send the same bytes again and again, and readers of streams.
//!
//! It runs on one thread of the bench, and reads answers by hand, so that most of the machine is left
//! to the candidate. An answer other than 200 ends the bench: it would measure something else.

use std::cell::Cell;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use memchr::{memchr_iter, memmem};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::LocalSet;

use crate::upstream::MARK;
use crate::wire::{status, whole_answer};

/// No answer takes as long, unless something hangs.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);

/// Where requests go, and which ones: sent in turn.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) addr: SocketAddr,
    pub(crate) requests: Vec<Vec<u8>>,
}

/// When load ends.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Until {
    Passed(Duration),
    Sent(u64),
}

/// What was measured.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) requests: u64,
    pub(crate) seconds: f64,
    latency: Histogram<u64>,
}

impl Loaded {
    /// Microseconds within which this share of the requests was answered.
    pub(crate) fn micros(&self, share: f64) -> f64 {
        micros(&self.latency, share)
    }
}

/// What streams did.
#[derive(Debug)]
pub(crate) struct Streamed {
    pub(crate) events: u64,
    pub(crate) complete: u32,
    first_event: Histogram<u64>,
}

impl Streamed {
    /// Microseconds within which this share of the streams had its first event.
    pub(crate) fn first_micros(&self, share: f64) -> f64 {
        micros(&self.first_event, share)
    }
}

/// Sends over so many connections at once.
pub(crate) fn requests(target: &Target, connections: usize, until: Until) -> Loaded {
    let target = Rc::new(target.clone());
    let sent = Rc::new(Cell::new(0));
    let start = Instant::now();
    let work = (0..connections).map(|_| one_connection(target.clone(), sent.clone(), until));
    let parts = together(work.collect());
    let seconds = start.elapsed().as_secs_f64();
    let mut latency = histogram();
    for part in parts {
        latency.add(part).expect("the same bounds");
    }
    Loaded { requests: latency.len(), seconds, latency }
}

/// Opens so many streams, so far apart, and reads them to their ends. `meanwhile` is called when all
/// are open.
pub(crate) fn streams(
    target: &Target,
    (count, apart): (u32, Duration),
    meanwhile: impl FnOnce() + 'static,
) -> Streamed {
    let target = Rc::new(target.clone());
    let work = (0..count).map(|place| one_stream(target.clone(), apart * place)).collect();
    let opened = apart * count;
    let ends = together_with(work, async move {
        tokio::time::sleep(opened + Duration::from_millis(1_000)).await;
        meanwhile();
    });
    let mut first_event = histogram();
    let (mut events, mut complete) = (0, 0);
    for end in ends {
        events += end.events;
        complete += u32::from(end.complete);
        if let Some(after) = end.first {
            record(&mut first_event, after);
        }
    }
    Streamed { events, complete, first_event }
}

async fn one_connection(target: Rc<Target>, sent: Rc<Cell<u64>>, until: Until) -> Histogram<u64> {
    let mut latency = histogram();
    let mut stream = connect(target.addr).await;
    let mut buffer = Vec::with_capacity(8 * 1_024);
    let begin = Instant::now();
    loop {
        let number = sent.replace(sent.get() + 1);
        let start = Instant::now();
        let is_over = match until {
            Until::Passed(time) => start.duration_since(begin) >= time,
            Until::Sent(count) => number >= count,
        };
        if is_over {
            return latency;
        }
        let request = &target.requests[number as usize % target.requests.len()];
        let answered = exchange(&mut stream, request, &mut buffer);
        let code = tokio::time::timeout(ANSWER_LIMIT, answered).await.expect("an answer in time");
        let code = code.unwrap_or_else(|error| panic!("{}: {error}", target.addr));
        assert!(code == 200, "{}: {}", target.addr, String::from_utf8_lossy(&buffer));
        record(&mut latency, start.elapsed());
    }
}

async fn exchange(stream: &mut TcpStream, request: &[u8], buffer: &mut Vec<u8>) -> io::Result<u16> {
    stream.write_all(request).await?;
    buffer.clear();
    loop {
        if stream.read_buf(buffer).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if let Some(code) = whole_answer(buffer) {
            return Ok(code);
        }
    }
}

#[derive(Debug, Default)]
struct StreamEnd {
    events: u64,
    complete: bool,
    first: Option<Duration>,
}

async fn one_stream(target: Rc<Target>, after: Duration) -> StreamEnd {
    tokio::time::sleep(after).await;
    let mut stream = connect(target.addr).await;
    let start = Instant::now();
    let request = &target.requests[0];
    let mut end = StreamEnd::default();
    if stream.write_all(request).await.is_err() {
        return end;
    }
    let mut buffer = Vec::with_capacity(16 * 1_024);
    let mut is_head = true;
    loop {
        let read = tokio::time::timeout(ANSWER_LIMIT, stream.read_buf(&mut buffer)).await;
        if !matches!(read, Ok(Ok(1..))) {
            return end;
        }
        if is_head && memmem::find(&buffer, b"\r\n\r\n").is_some() {
            assert!(status(&buffer) == 200, "{}", String::from_utf8_lossy(&buffer));
            is_head = false;
        }
        let marks = memchr_iter(MARK, &buffer).count() as u64;
        if marks > 0 {
            end.first.get_or_insert_with(|| start.elapsed());
        }
        end.events += marks;
        if buffer.ends_with(b"0\r\n\r\n") {
            end.complete = true;
            return end;
        }
        // The end of a stream may come in two pieces.
        buffer.drain(..buffer.len().saturating_sub(4));
    }
}

async fn connect(addr: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(addr).await.expect("a candidate that accepts");
    stream.set_nodelay(true).expect("a socket without delay");
    stream
}

fn together<F: Future + 'static>(work: Vec<F>) -> Vec<F::Output> {
    together_with(work, async {})
}

fn together_with<F: Future + 'static>(
    work: Vec<F>,
    beside: impl Future<Output = ()> + 'static,
) -> Vec<F::Output> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    LocalSet::new().block_on(&runtime, async {
        tokio::task::spawn_local(beside);
        let tasks: Vec<_> = work.into_iter().map(tokio::task::spawn_local).collect();
        let mut ends = Vec::new();
        for task in tasks {
            ends.push(task.await.expect("load that ends"));
        }
        ends
    })
}

fn histogram() -> Histogram<u64> {
    // Nanoseconds up to a minute, to a thousandth.
    Histogram::new_with_bounds(1_000, 60_000_000_000, 3).expect("bounds that fit")
}

fn record(histogram: &mut Histogram<u64>, time: Duration) {
    histogram.saturating_record(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
}

fn micros(histogram: &Histogram<u64>, share: f64) -> f64 {
    histogram.value_at_quantile(share) as f64 / 1e3
}
