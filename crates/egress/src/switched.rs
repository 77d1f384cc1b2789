//! A connection to a service that has left HTTP behind (`101 Switching Protocols`).
//!
//! Never here: what is spoken on it. It is bytes, both ways, until one side ends it.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::Response;
use hyper::body::Incoming;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use crate::connector::Link;

/// What a service said to a request for another protocol.
#[derive(Debug)]
pub enum Switch {
    /// Yes: its head, and the connection.
    Switched(Response<()>, Switched),
    /// An ordinary answer.
    Answered(Response<Incoming>),
}

/// The connection itself. Nothing else holds it: dropping it closes it.
pub struct Switched {
    /// What came right behind the head.
    early: Bytes,
    stream: Stream,
}

enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Switched {
    /// The connection of a response of 101; none if it is gone already.
    pub(crate) async fn take(response: &mut Response<Incoming>) -> Option<Self> {
        let upgraded = hyper::upgrade::on(response).await.ok()?;
        let parts = upgraded.downcast::<Link>().ok()?;
        let stream = match parts.io {
            Link::Plain(stream) => Stream::Plain(stream.into_inner()),
            Link::Tls(stream) => Stream::Tls(Box::new(stream.into_inner())),
        };
        Some(Self { early: parts.read_buf, stream })
    }

    /// Has the connection end with a reset when it is dropped: what the system still holds for the
    /// service is thrown away, where an orderly close would go on delivering it.
    pub fn reset_at_end(&self) {
        let stream = match &self.stream {
            Stream::Plain(stream) => stream,
            Stream::Tls(stream) => stream.get_ref().0,
        };
        if let Err(error) = stream.set_zero_linger() {
            tracing::debug!(%error, "resetting a service's connection");
        }
    }
}

impl fmt::Debug for Switched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Switched").field("early_bytes", &self.early.len()).finish_non_exhaustive()
    }
}

impl AsyncRead for Switched {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if !this.early.is_empty() {
            let taken = this.early.split_to(this.early.len().min(buffer.remaining()));
            buffer.put_slice(&taken);
            return Poll::Ready(Ok(()));
        }
        match &mut this.stream {
            Stream::Plain(stream) => Pin::new(stream).poll_read(context, buffer),
            Stream::Tls(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Switched {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match &mut self.get_mut().stream {
            Stream::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            Stream::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().stream {
            Stream::Plain(stream) => Pin::new(stream).poll_flush(context),
            Stream::Tls(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().stream {
            Stream::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Stream::Tls(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}
