//! Accepting connections and serving them, HTTP/1.1 or HTTP/2 with prior knowledge.
//!
//! Never here: routes.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};

use super::Recording;
use super::call::Call;
use super::ledger::Ledger;
use super::route::{self, Site};

/// Out of descriptors is the usual reason for a failed accept: give connections time to end.
const ACCEPT_RETRY: Duration = Duration::from_millis(10);

pub(crate) async fn accept(listener: TcpListener, ledger: Arc<Ledger>, recording: Recording) {
    let site = Arc::new(Site::new(ledger));
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                site.ledger.connections.fetch_add(1, Relaxed);
                tokio::spawn(connection(stream, Arc::clone(&site), recording));
            }
            Err(_) => tokio::time::sleep(ACCEPT_RETRY).await,
        }
    }
}

async fn connection(stream: TcpStream, site: Arc<Site>, recording: Recording) {
    // Each event has to leave when it is written, or pacing means nothing.
    let _ = stream.set_nodelay(true);
    let reset = Arc::new(AtomicBool::new(false));
    let io = TokioIo::new(Resettable { stream, reset: Arc::clone(&reset) });
    let service = service_fn(|request| {
        let site = Arc::clone(&site);
        let reset = Arc::clone(&reset);
        async move {
            let path = request.uri().path().to_owned();
            if let Some(page) = path.strip_prefix("/__testkit/") {
                return Ok::<_, std::convert::Infallible>(route::own_page(page, &site));
            }
            let call = Call::read(request, &site.ledger, recording).await;
            Ok(route::answer(&call, &site, &reset).await)
        }
    });
    let _ = auto::Builder::new(TokioExecutor::new()).serve_connection(io, service).await;
}

/// A socket that can end with a reset instead of an orderly close.
struct Resettable {
    stream: TcpStream,
    reset: Arc<AtomicBool>,
}

impl Drop for Resettable {
    fn drop(&mut self) {
        if self.reset.load(Relaxed) {
            let _ = self.stream.set_zero_linger();
        }
    }
}

impl AsyncRead for Resettable {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Resettable {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // An orderly end first would turn the reset into a clean end of the body.
        if self.reset.load(Relaxed) {
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
