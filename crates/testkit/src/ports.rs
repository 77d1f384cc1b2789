//! Free loopback ports for programs that must be told their port.
//!
//! The numbers lie below the range from which the kernel takes ports for outgoing connections.
//! In that range a client that keeps dialling a gate that was just killed can be given the very
//! port it dials and connect to itself, and the restarted gate then finds its port taken.

use std::hash::{BuildHasher as _, RandomState};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};

/// Below are ports that well-known services like to use.
const PORT_MIN: u16 = 10_000;
/// The kernel's own range starts here unless it was changed.
const EPHEMERAL_MIN_DEFAULT: u16 = 32_768;
/// So many tries fail only on a machine that has no ports left.
const TRIES_MAX: usize = 1_000;

/// Different free ports on 127.0.0.1, held all at once while they are chosen.
pub fn free<const N: usize>() -> [SocketAddr; N] {
    let mut held: Vec<TcpListener> = Vec::with_capacity(N);
    std::array::from_fn(|_| {
        let listener = bind_one();
        let addr = listener.local_addr().expect("a bound socket has an address");
        held.push(listener);
        addr
    })
}

/// True when nothing listens there and a program could.
pub fn is_free(addr: SocketAddr) -> bool {
    TcpListener::bind(addr).is_ok()
}

fn bind_one() -> TcpListener {
    let end = ephemeral_min().max(PORT_MIN + 1);
    for _ in 0..TRIES_MAX {
        let spread = u64::from(end - PORT_MIN);
        // The keys of the standard hasher are random: enough to keep test processes apart.
        let offset = RandomState::new().hash_one(0) % spread;
        let port = PORT_MIN + u16::try_from(offset).expect("smaller than a port");
        if let Ok(listener) = TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
            return listener;
        }
    }
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("no free loopback port")
}

fn ephemeral_min() -> u16 {
    std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range")
        .ok()
        .and_then(|range| range.split_whitespace().next()?.parse().ok())
        .unwrap_or(EPHEMERAL_MIN_DEFAULT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_different_and_can_be_bound() {
        let mut ports = free::<16>().map(|addr| addr.port());
        assert!(free::<1>().iter().all(|addr| is_free(*addr)));
        ports.sort_unstable();
        assert!(ports.windows(2).all(|pair| pair[0] != pair[1]), "{ports:?}");
    }

    #[test]
    fn a_held_port_is_not_free() {
        let held = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        assert!(!is_free(held.local_addr().unwrap()));
    }
}
