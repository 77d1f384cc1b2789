//! What the pooled client calls when it needs a new connection: approve, dial, TLS.
//!
//! Never here: the address in the client's URI. A connector leads to one destination, fixed when it
//! was made.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use agentguard_core::net::{Destination, Exceptions};
use http::Uri;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_rustls::client::TlsStream;
use tower_service::Service;

use crate::dial::{Connect, dial_with};
use crate::error::{ConnectError, DialError};
use crate::guard::Guard;
use crate::tls::ClientTls;

/// Cheap to clone: the client clones it for every request.
#[derive(Debug, Clone)]
pub(crate) struct Connector(pub(crate) Arc<Route>);

#[derive(Debug, Clone)]
pub(crate) struct Route {
    pub(crate) guard: Arc<Guard>,
    pub(crate) destination: Destination,
    pub(crate) exceptions: Exceptions,
    pub(crate) tls: ClientTls,
    pub(crate) connect: Arc<dyn Connect>,
    pub(crate) connect_timeout: Duration,
}

/// A connection to the destination, ready for HTTP.
#[derive(Debug)]
pub(crate) enum Link {
    Plain(TokioIo<TcpStream>),
    Tls(Box<TokioIo<TlsStream<TcpStream>>>),
}

impl Service<Uri> for Connector {
    type Response = Link;
    type Error = ConnectError;
    type Future = Pin<Box<dyn Future<Output = Result<Link, ConnectError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), ConnectError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let route = Arc::clone(&self.0);
        Box::pin(async move { route.open().await })
    }
}

impl Route {
    async fn open(&self) -> Result<Link, ConnectError> {
        let approved = self.guard.approve(&self.destination, &self.exceptions).await?;
        if !self.destination.tls() {
            let stream = dial_with(&self.connect, &approved, self.connect_timeout).await?;
            return Ok(Link::Plain(TokioIo::new(stream)));
        }
        self.tls.check_usable()?;
        let started = Instant::now();
        let stream = dial_with(&self.connect, &approved, self.connect_timeout).await?;
        // One clock for both: a peer that accepts and then says nothing gains no second allowance.
        let left = self.connect_timeout.saturating_sub(started.elapsed());
        let handshake = self.tls.handshake(self.destination.host(), stream);
        match tokio::time::timeout(left, handshake).await {
            Ok(stream) => Ok(Link::Tls(Box::new(TokioIo::new(stream?)))),
            Err(_) => {
                let destination = self.destination.to_string().into();
                Err(DialError::Timeout { destination, after: self.connect_timeout }.into())
            }
        }
    }
}

impl Connection for Link {
    fn connected(&self) -> Connected {
        match self {
            Self::Plain(_) => Connected::new(),
            Self::Tls(stream) => {
                let (_, session) = stream.inner().get_ref();
                if session.alpn_protocol() == Some(b"h2") {
                    Connected::new().negotiated_h2()
                } else {
                    Connected::new()
                }
            }
        }
    }
}

impl Read for Link {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(cx, buf),
            Self::Tls(stream) => Pin::new(stream).poll_read(cx, buf),
        }
    }
}

impl Write for Link {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(cx, buf),
            Self::Tls(stream) => Pin::new(stream).poll_write(cx, buf),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Self::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(stream) => stream.is_write_vectored(),
            Self::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write_vectored(cx, bufs),
            Self::Tls(stream) => Pin::new(stream).poll_write_vectored(cx, bufs),
        }
    }
}
