//! Proof that a destination's addresses were judged, and which they are.
//!
//! Never here: a public constructor. Only the guard makes one.

use std::net::SocketAddr;
use std::sync::Arc;

use agentguard_core::net::{Destination, Passage};

/// A destination whose every address the guard let pass. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Approved(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    destination: Destination,
    addresses: Box<[SocketAddr]>,
    own_listeners: Arc<[SocketAddr]>,
    passage: Passage,
}

impl Approved {
    pub(crate) fn new(
        destination: Destination,
        addresses: Box<[SocketAddr]>,
        own_listeners: Arc<[SocketAddr]>,
        passage: Passage,
    ) -> Self {
        Self(Arc::new(Inner { destination, addresses, own_listeners, passage }))
    }

    pub fn destination(&self) -> &Destination {
        &self.0.destination
    }

    /// The judged addresses, in the resolver's order of preference.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.0.addresses
    }

    /// By what right it passed. Anything but `Passage::Ordinary` is a use of an exception, which
    /// belongs on the record.
    pub fn passage(&self) -> &Passage {
        &self.0.passage
    }

    pub(crate) fn own_listeners(&self) -> &[SocketAddr] {
        &self.0.own_listeners
    }
}
