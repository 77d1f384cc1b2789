//! A local server that speaks enough of the paid APIs for their official clients, and counts.
//!
//! It runs on its own thread with its own runtime, so a test may block (a CLI call, a Python
//! script) while the upstream goes on answering, and instants are not disturbed by the test.
//!
//! Every request may carry, as a header or (all but `x-test-id`) a query parameter:
//! | name | effect |
//! |---|---|
//! | `x-test-id` | kept with the taking, to match against the gate's record |
//! | `x-test-delay-ms` | the answer waits this long, after its effect has happened |
//! | `x-test-status` | an API call answers this error in its provider's shape, with no effect |
//! | `x-test-events` | output tokens and stream events per choice, or `endless` |
//! | `x-test-interval-ms` | pause between stream events |
//! | `x-test-input-tokens`, `x-test-cached-tokens`, `x-test-reasoning-tokens`, `x-test-cache-write-tokens` | what `usage` says |
//!
//! `GET /__testkit/stats`, `/__testkit/takings` and `/__testkit/requests` show the ledger to other
//! processes; they are not counted themselves.

mod ads;
mod anthropic;
mod call;
mod generic;
mod ledger;
mod model;
mod openai;
mod responses;
mod route;
mod serve;
mod sse;
mod stripe;
mod stripe_objects;
mod stripe_params;
mod tls;
mod websocket;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio_rustls::TlsAcceptor;

use ledger::Ledger;
pub use ledger::{
    REQUESTS_KEPT_MAX, STREAMS_KEPT_MAX, Seen, Stats, StreamEnd, StreamRow, TAKINGS_KEPT_MAX,
    Taking, TakingKind,
};
pub use stripe::{AMOUNT_DECLINED, AMOUNT_FAULT, AMOUNT_RATE_LIMITED};
pub use tls::Alpn;
use tls::Identity;

/// What is kept of each request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recording {
    /// Head, length and hash of the last requests: for tests.
    Full,
    /// Counters and takings only: for load runs.
    CountsOnly,
}

#[derive(Debug, Clone, Copy)]
pub struct UpstreamOptions {
    pub bind: SocketAddr,
    pub recording: Recording,
    /// Serve TLS, with a certificate for `localhost` and 127.0.0.1 of an authority made for this
    /// upstream: see [`Upstream::ca_file`].
    pub tls: Option<Alpn>,
    /// Threads that serve. One is enough for tests and leaves the cores to what is measured.
    pub workers: usize,
}

impl Default for UpstreamOptions {
    fn default() -> Self {
        Self {
            bind: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            recording: Recording::Full,
            tls: None,
            workers: 1,
        }
    }
}

/// A running upstream. Dropping it closes the listener and every connection.
#[derive(Debug)]
pub struct Upstream {
    addr: SocketAddr,
    ledger: Arc<Ledger>,
    identity: Option<Identity>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Upstream {
    /// Starts on a free loopback port. Async only for the look of the caller: it never waits.
    #[expect(clippy::unused_async, reason = "callers await it; it may come to wait")]
    pub async fn start() -> Self {
        Self::start_with(UpstreamOptions::default())
    }

    /// Starts on a free loopback port with TLS.
    pub fn start_tls(alpn: Alpn) -> Self {
        Self::start_with(UpstreamOptions { tls: Some(alpn), ..UpstreamOptions::default() })
    }

    pub fn start_with(options: UpstreamOptions) -> Self {
        let ledger = Arc::new(Ledger::new());
        let identity = options.tls.map(Identity::new);
        let tls = identity.as_ref().map(Identity::acceptor);
        let (stop, stopped) = oneshot::channel();
        let (report, reported) = mpsc::channel();
        let thread = std::thread::Builder::new()
            .name("testkit-upstream".to_owned())
            .spawn({
                let ledger = Arc::clone(&ledger);
                move || run(options, tls, ledger, &report, stopped)
            })
            .expect("start the upstream's thread");
        let addr = reported
            .recv()
            .expect("the upstream's thread reports its address")
            .unwrap_or_else(|e| panic!("binding the upstream to {}: {e}", options.bind));
        Self { addr, ledger, identity, stop: Some(stop), thread: Some(thread) }
    }

    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// `http://127.0.0.1:PORT` (or `https:`), without a slash at the end.
    pub fn base_url(&self) -> String {
        let scheme = if self.identity.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", self.addr)
    }

    /// The certificate of the authority that vouches for it, in PEM. Gone with the upstream.
    pub fn ca_file(&self) -> &Path {
        self.identity.as_ref().expect("an upstream with TLS").ca_file()
    }

    pub fn stats(&self) -> Stats {
        self.ledger.stats()
    }

    /// The last [`REQUESTS_KEPT_MAX`] requests, oldest first; empty with [`Recording::CountsOnly`].
    pub fn requests(&self) -> Vec<Seen> {
        self.ledger.requests()
    }

    /// Every movement of money, oldest first.
    pub fn takings(&self) -> Vec<Taking> {
        self.ledger.takings()
    }

    /// The last [`STREAMS_KEPT_MAX`] streams, oldest first.
    pub fn streams(&self) -> Vec<Arc<StreamRow>> {
        self.ledger.streams()
    }

    pub fn open_streams(&self) -> u64 {
        *self.ledger.watch_open_streams().borrow()
    }

    /// Waits until exactly `count` streams are open; panics with both numbers after `limit`.
    pub async fn wait_open_streams(&self, count: u64, limit: Duration) {
        let mut open = self.ledger.watch_open_streams();
        let reached = tokio::time::timeout(limit, open.wait_for(|open| *open == count)).await;
        assert!(
            matches!(reached, Ok(Ok(_))),
            "waited {limit:?} for {count} open streams, there are {}",
            self.open_streams()
        );
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn run(
    options: UpstreamOptions,
    tls: Option<TlsAcceptor>,
    ledger: Arc<Ledger>,
    report: &mpsc::Sender<std::io::Result<SocketAddr>>,
    stopped: oneshot::Receiver<()>,
) {
    let mut builder = if options.workers > 1 {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        builder.worker_threads(options.workers);
        builder
    } else {
        tokio::runtime::Builder::new_current_thread()
    };
    let runtime = builder.enable_all().build().expect("build a runtime");
    runtime.block_on(async {
        let listener = match TcpListener::bind(options.bind).await {
            Ok(listener) => listener,
            Err(e) => return report.send(Err(e)).unwrap_or(()),
        };
        report.send(listener.local_addr()).unwrap_or(());
        tokio::select! {
            () = serve::accept(listener, tls, ledger, options.recording) => {}
            _ = stopped => {}
        }
    });
    // Connections are tasks of this runtime; none may outlive the handle.
    runtime.shutdown_timeout(Duration::from_secs(1));
}
