//! Clients that do not read: how long a write may wait for one.
//!
//! A body is not polled while its client does not read, so no timer of the answer rings then. Without
//! this one, such clients hold their sockets, and the upstream's, for ever.
//!
//! Never here: an upstream that is silent (`stream`).

use std::future::Future as _;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::time::{Instant, Sleep};

use crate::connection::ConnectionState;

/// Watches the writes of one connection.
#[derive(Debug, Default)]
pub(crate) struct Stall {
    /// Since when nothing could be written.
    since: Option<Instant>,
    /// Made at the first wait and then kept: a client that is merely slower than its upstream makes
    /// writes wait all the time.
    timer: Option<Pin<Box<Sleep>>>,
}

impl Stall {
    /// Takes a write's result, and ends the connection if the client has not read for too long.
    ///
    /// `again` writes straight to the socket. The system calls a socket writable only when a third of
    /// its buffer is free, which is a megabyte or more: to a client that reads slowly that takes longer
    /// than any timeout. A write that is tried succeeds as soon as anything was read.
    pub(crate) fn watch(
        &mut self,
        context: &mut Context<'_>,
        state: &ConnectionState,
        written: Poll<io::Result<usize>>,
        again: impl FnOnce() -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        if written.is_ready() {
            self.since = None;
            return written;
        }
        let now = Instant::now();
        let since = *self.since.get_or_insert(now);
        let due = since.checked_add(state.stall_limit()).unwrap_or(now);
        let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(due)));
        if timer.deadline() > due {
            timer.as_mut().reset(due);
        }
        // The timer is not moved with every write; when it rings, it is seen whether that was due.
        while timer.as_mut().poll(context).is_ready() {
            if due <= now {
                let is_stalled = |error: &io::Error| error.kind() == io::ErrorKind::WouldBlock;
                let tried = again();
                if !tried.as_ref().is_err_and(is_stalled) {
                    self.since = None;
                    return Poll::Ready(tried);
                }
                tracing::debug!(client_ip = %state.client_ip, "a client does not read: it is cut off");
                state.cut();
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
            timer.as_mut().reset(due);
        }
        Poll::Pending
    }
}
