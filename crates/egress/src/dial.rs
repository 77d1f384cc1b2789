//! Sockets to addresses that were judged, and to no others.
//!
//! Never here: a name. What is dialled comes out of an [`Approved`].
#![expect(
    clippy::disallowed_methods,
    reason = "the one place that opens sockets to the outside; it dials judged addresses only"
)]

use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use agentguard_core::net::Blocked;
use agentguard_gate::Permit;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::approved::Approved;
use crate::error::DialError;
use crate::limits::{DIAL_ATTEMPTS_MAX, DIAL_STAGGER};

/// Opens a connection to an approved destination: for tunnels and protocols other than HTTP. The
/// permit is the proof that the gate admitted the action.
///
/// # Errors
/// When no judged address answers in time, or what answers is the gate itself or another peer.
pub async fn dial(
    _permit: &Permit,
    approved: &Approved,
    timeout: Duration,
) -> Result<TcpStream, DialError> {
    let connect: Arc<dyn Connect> = Arc::new(TcpConnect);
    dial_with(&connect, approved, timeout).await
}

/// The step that opens a socket, apart so that tests can count what would have been dialled.
pub(crate) trait Connect: fmt::Debug + Send + Sync + 'static {
    fn connect(&self, to: SocketAddr) -> Connecting;
}

pub(crate) type Connecting = Pin<Box<dyn Future<Output = io::Result<TcpStream>> + Send>>;

/// The real step.
#[derive(Debug)]
pub(crate) struct TcpConnect;

impl Connect for TcpConnect {
    fn connect(&self, to: SocketAddr) -> Connecting {
        Box::pin(TcpStream::connect(to))
    }
}

pub(crate) async fn dial_with(
    connect: &Arc<dyn Connect>,
    approved: &Approved,
    timeout: Duration,
) -> Result<TcpStream, DialError> {
    match tokio::time::timeout(timeout, race(connect, approved)).await {
        Ok(result) => result,
        Err(_) => Err(DialError::Timeout { destination: name_of(approved), after: timeout }),
    }
}

/// Tries the addresses one after another, the next as soon as one fails or hesitates. The first to
/// connect wins; dropping the set ends the others.
async fn race(connect: &Arc<dyn Connect>, approved: &Approved) -> Result<TcpStream, DialError> {
    let mut waiting = in_dial_order(approved.addresses()).into_iter();
    let mut attempts = JoinSet::new();
    let mut failure = DialError::Timeout { destination: name_of(approved), after: Duration::ZERO };
    loop {
        if let Some(address) = waiting.next() {
            attempts.spawn(attempt(Arc::clone(connect), approved.clone(), address));
        }
        let more = waiting.len() > 0;
        tokio::select! {
            ended = attempts.join_next() => match ended {
                Some(Ok(Ok(stream))) => return Ok(stream),
                // Something stands between us and the address: no other address heals that.
                Some(Ok(Err(blocked @ DialError::Blocked(_)))) => return Err(blocked),
                Some(Ok(Err(error @ (DialError::Failed { .. } | DialError::Timeout { .. })))) => {
                    failure = error;
                }
                // An attempt that panicked; the others may still succeed.
                Some(Err(_)) => {}
                None => return Err(failure),
            },
            () = tokio::time::sleep(DIAL_STAGGER), if more => {}
        }
    }
}

async fn attempt(
    connect: Arc<dyn Connect>,
    approved: Approved,
    meant: SocketAddr,
) -> Result<TcpStream, DialError> {
    let failed = |error: io::Error| DialError::Failed {
        destination: name_of(&approved),
        address: meant,
        error: Arc::new(error),
    };
    let stream = connect.connect(meant).await.map_err(failed)?;
    check_ends(&stream, meant, approved.own_listeners()).map_err(failed)??;
    // Small writes (stream events, request heads) must not wait for the peer's acknowledgement.
    stream.set_nodelay(true).map_err(failed)?;
    Ok(stream)
}

/// Before the first byte: the peer is the address that was judged, and it is not the gate itself at
/// another of the machine's addresses (then both ends of the connection have the same address).
pub(crate) fn check_ends(
    stream: &TcpStream,
    meant: SocketAddr,
    own_listeners: &[SocketAddr],
) -> io::Result<Result<(), Blocked>> {
    let (reached, local) = (stream.peer_addr()?, stream.local_addr()?);
    if (reached.ip().to_canonical(), reached.port()) != (meant.ip().to_canonical(), meant.port()) {
        return Ok(Err(Blocked::PeerDiffers { meant, reached }));
    }
    let listens =
        own_listeners.iter().any(|own| own.port() == meant.port() && own.ip().is_unspecified());
    if listens && local.ip() == reached.ip() {
        return Ok(Err(Blocked::OwnListener { address: reached }));
    }
    Ok(Ok(()))
}

/// The two families take turns, starting with the resolver's first choice: a family without a route
/// then costs one head start, not many.
fn in_dial_order(addresses: &[SocketAddr]) -> Vec<SocketAddr> {
    let v6_first = addresses.first().is_some_and(SocketAddr::is_ipv6);
    let (mut first, mut second): (Vec<_>, Vec<_>) =
        addresses.iter().copied().partition(|address| address.is_ipv6() == v6_first);
    first.reverse();
    second.reverse();
    let mut order = Vec::with_capacity(addresses.len());
    while order.len() < DIAL_ATTEMPTS_MAX && !(first.is_empty() && second.is_empty()) {
        order.extend(first.pop());
        order.extend(second.pop());
    }
    order.truncate(DIAL_ATTEMPTS_MAX);
    order
}

fn name_of(approved: &Approved) -> Arc<str> {
    approved.destination().to_string().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_take_turns_in_the_resolvers_order() {
        let read = |list: &[&str]| -> Vec<SocketAddr> {
            list.iter().map(|a| format!("{a}:443").parse().expect("an address")).collect()
        };
        let mixed = read(&["[2600::1]", "[2600::2]", "[2600::3]", "1.1.1.1", "1.1.1.2"]);
        let order = read(&["[2600::1]", "1.1.1.1", "[2600::2]", "1.1.1.2", "[2600::3]"]);
        assert_eq!(in_dial_order(&mixed), order);
        let many: Vec<SocketAddr> = (1..=30).map(|n| ([1, 1, 1, n], 443).into()).collect();
        assert_eq!(in_dial_order(&many).len(), DIAL_ATTEMPTS_MAX);
    }
}
