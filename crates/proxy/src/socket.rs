//! The socket of one client: what comes in is looked at before hyper has it, and what hyper says by
//! itself goes out in the gate's words.
//!
//! hyper answers a head that it cannot read without asking the door: with an empty body, without the
//! request's name, and a long head with 431. Here such an answer is put in place of it.
//!
//! Never here: what is wrong with a head (`head_scan`), or the words (`respond`).

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, Bytes};
use memchr::memmem;
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use crate::connection::ConnectionState;
use crate::door::Door;
use crate::head_scan::{HeadScan, Seen};
use crate::respond::REQUEST_ID;
use crate::stall::Stall;

/// A socket whose reads and answers are looked at.
#[derive(Debug)]
pub(crate) struct Socket {
    stream: TcpStream,
    scan: HeadScan,
    state: Arc<ConnectionState>,
    door: Arc<Door>,
    /// The next write starts an answer. Only then can it be one of hyper's own: a body may hold
    /// anything, also what looks like a head.
    at_head: bool,
    /// What is left to write of an answer in place of hyper's. It is the last one: hyper closes.
    in_place: Bytes,
    stall: Stall,
}

impl Socket {
    pub(crate) fn new(stream: TcpStream, state: Arc<ConnectionState>, door: Arc<Door>) -> Self {
        let (scan, in_place) = (HeadScan::new(), Bytes::new());
        Self { stream, scan, state, door, at_head: true, in_place, stall: Stall::default() }
    }

    /// Whether what hyper writes here is an answer of its own. If so, the gate's stands ready.
    fn is_replaced(&mut self, bytes: &[u8]) -> bool {
        let at_head = std::mem::take(&mut self.at_head);
        if !at_head || !is_of_hyper(bytes) {
            return false;
        }
        self.in_place = self.door.unread(&self.state, date(bytes));
        true
    }

    fn poll_in_place(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.in_place.is_empty() {
            let written = Pin::new(&mut self.stream).poll_write(context, &self.in_place);
            let again = || SockRef::from(&self.stream).send(&self.in_place);
            let written = ready!(self.stall.watch(context, &self.state, written, again))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.in_place.advance(written.min(self.in_place.len()));
        }
        Poll::Ready(Ok(()))
    }
}

/// An answer of 400 to 499 without the name that every answer of the door has.
fn is_of_hyper(head: &[u8]) -> bool {
    let refuses = head.starts_with(b"HTTP/1.") && head.get(9) == Some(&b'4');
    refuses && memmem::find(head, REQUEST_ID.as_str().as_bytes()).is_none()
}

/// The value of hyper's `Date`, which it keeps at hand.
fn date(head: &[u8]) -> Option<&[u8]> {
    let mut lines = head.split(|byte| *byte == b'\n');
    lines.find_map(|line| line.strip_prefix(b"date: ")).map(<[u8]>::trim_ascii)
}

impl Drop for Socket {
    fn drop(&mut self) {
        // After an orderly close the system goes on delivering what it holds: megabytes, to a client
        // that reads slowly. A reset stops that.
        if self.state.is_cut()
            && let Err(error) = self.stream.set_zero_linger()
        {
            tracing::debug!(%error, "resetting a client's connection");
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        let read = Pin::new(&mut this.stream).poll_read(context, buffer);
        if let Some(fresh) = buffer.filled().get(before..)
            && !fresh.is_empty()
        {
            match this.scan.feed(fresh) {
                Seen::Nothing => {}
                Seen::Last => this.state.set_last(),
                Seen::Bad(malformed) => this.state.set_malformed(malformed),
            }
        }
        read
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if this.is_replaced(bytes) {
            return Poll::Ready(Ok(bytes.len()));
        }
        ready!(this.poll_in_place(context))?;
        let written = Pin::new(&mut this.stream).poll_write(context, bytes);
        let again = || SockRef::from(&this.stream).send(bytes);
        this.stall.watch(context, &this.state, written, again)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.poll_in_place(context))?;
        ready!(Pin::new(&mut this.stream).poll_flush(context))?;
        // hyper flushes when it has written all it has. If no answer is under way then, the next
        // thing it writes is a head.
        this.at_head = !this.state.is_answering();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.poll_in_place(context))?;
        Pin::new(&mut this.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        // A head is in one piece, and hyper's own answer is a head and nothing else.
        if this.is_replaced(slices.first().map_or(&[], |slice| slice)) {
            return Poll::Ready(Ok(slices.iter().map(|slice| slice.len()).sum()));
        }
        ready!(this.poll_in_place(context))?;
        let written = Pin::new(&mut this.stream).poll_write_vectored(context, slices);
        let again = || SockRef::from(&this.stream).send_vectored(slices);
        this.stall.watch(context, &this.state, written, again)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_heads_that_refuse_without_a_name_are_of_hyper() {
        for (head, expected) in [
            ("HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n", true),
            ("HTTP/1.0 431 Request Header Fields Too Large\r\n\r\n", true),
            ("HTTP/1.1 404 Not Found\r\nx-agentguard-request-id: 1\r\n\r\n", false),
            ("HTTP/1.1 200 OK\r\n\r\n", false),
            ("HTTP/1.1 100 Continue\r\n\r\n", false),
            ("{\"a\":\"b4\"}", false),
            ("", false),
        ] {
            assert_eq!(is_of_hyper(head.as_bytes()), expected, "{head}");
        }
        assert_eq!(date(b"HTTP/1.1 400 X\r\ndate: now\r\n\r\n"), Some(&b"now"[..]));
        assert_eq!(date(b"HTTP/1.1 400 X\r\n\r\n"), None);
    }
}
