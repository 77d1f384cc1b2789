//! Accepting connections and serving them: HTTP/1.1 or HTTP/2, by prior knowledge or as TLS agreed.
//!
//! Never here: routes.

use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio_rustls::TlsAcceptor;

use super::Recording;
use super::call::Call;
use super::ledger::Ledger;
use super::route::{self, Site};
use super::websocket;

/// Out of descriptors is the usual reason for a failed accept: give connections time to end.
const ACCEPT_RETRY: Duration = Duration::from_millis(10);

pub(crate) async fn accept(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    ledger: Arc<Ledger>,
    recording: Recording,
) {
    let site = Arc::new(Site::new(ledger));
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                site.ledger.connections.fetch_add(1, Relaxed);
                let (tls, site) = (tls.clone(), Arc::clone(&site));
                tokio::spawn(connection(stream, tls, site, recording));
            }
            Err(_) => tokio::time::sleep(ACCEPT_RETRY).await,
        }
    }
}

async fn connection(
    stream: TcpStream,
    tls: Option<TlsAcceptor>,
    site: Arc<Site>,
    recording: Recording,
) {
    // Each event has to leave when it is written, or pacing means nothing.
    let _ = stream.set_nodelay(true);
    let wishes = Wishes::default();
    let stream = Resettable { stream, reset: Arc::clone(&wishes.reset) };
    match tls {
        None => serve(stream, wishes, site, recording).await,
        Some(tls) => {
            if let Ok(stream) = tls.accept(stream).await {
                serve(stream, wishes, site, recording).await;
            }
        }
    }
}

async fn serve(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    wishes: Wishes,
    site: Arc<Site>,
    recording: Recording,
) {
    let leave = Arc::clone(&wishes.leave);
    let service = service_fn(move |mut request| {
        let (site, wishes) = (Arc::clone(&site), wishes.clone());
        async move {
            let path = request.uri().path().to_owned();
            if let Some(page) = path.strip_prefix("/__testkit/") {
                return Ok::<_, std::convert::Infallible>(route::own_page(page, &site));
            }
            let socket = websocket::asked(&mut request);
            let call = Call::read(request, &site.ledger, recording).await;
            Ok(match (socket, path.strip_prefix("/ws/")) {
                (Some(socket), Some(way)) => websocket::answer(&call, &site.ledger, socket, way),
                _ => route::answer(&call, &site, &wishes).await,
            })
        }
    });
    let builder = auto::Builder::new(TokioExecutor::new());
    let connection = builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    tokio::select! {
        _ = &mut connection => return,
        () = leave.notified() => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}

/// What an answer may ask of its connection.
#[derive(Clone, Default)]
pub(crate) struct Wishes {
    /// End with a reset.
    pub(crate) reset: Arc<AtomicBool>,
    /// Take no further requests (HTTP/2: GOAWAY), and end when those under way are answered.
    pub(crate) leave: Arc<Notify>,
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
