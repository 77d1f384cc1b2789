//! What an operator has opened on purpose: private addresses for one service, single `host:port`
//! places and networks.
//!
//! Never here: weighing an exception against a class; that is `judge`.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use std::sync::Arc;

use ipnet::IpNet;

use super::address::AddressClass;
use super::host::{Host, HostError};

/// Whether the destination may be on a private network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum PrivateAddresses {
    #[default]
    Refused,
    /// The operator marked the service `allow_private: true`.
    AllowedForService,
}

/// One opening in the guard. The name says what it is: each one is a hole that somebody asked for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum DangerAllow {
    /// Every address of a network, at any port.
    Network(IpNet),
    /// One host at one port, wherever its name leads (but not to a metadata service).
    HostPort { host: Host, port: u16 },
}

/// All that is open for one caller. Cheap to clone: it is part of the guard's cache key.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Exceptions {
    private: PrivateAddresses,
    danger_allow: Arc<[DangerAllow]>,
}

/// Why a text is no exception.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DangerAllowError {
    #[error("`{text}` is no network: write an address and a prefix length, like 10.1.0.0/16")]
    Network { text: String },
    #[error("`{text}` names no port: write host:port, or a network like 10.1.0.0/16")]
    Port { text: String },
    #[error("`{text}` has a host that cannot be used: {error}")]
    Host { text: String, error: HostError },
}

impl Exceptions {
    /// Nothing is open.
    pub fn none() -> Self {
        Self::default()
    }

    pub fn new(private: PrivateAddresses, danger_allow: Vec<DangerAllow>) -> Self {
        Self { private, danger_allow: danger_allow.into() }
    }

    pub fn private(&self) -> PrivateAddresses {
        self.private
    }

    pub fn danger_allow(&self) -> &[DangerAllow] {
        &self.danger_allow
    }

    /// The opening that names this host and port.
    pub(super) fn names(&self, host: &Host, port: u16) -> Option<&DangerAllow> {
        self.danger_allow.iter().find(|allow| match allow {
            DangerAllow::Network(_) => false,
            DangerAllow::HostPort { host: named, port: at } => named == host && *at == port,
        })
    }

    /// The opening that holds this address and port.
    pub(super) fn holds(&self, address: IpAddr, port: u16) -> Option<&DangerAllow> {
        self.danger_allow.iter().find(|allow| match allow {
            DangerAllow::Network(net) => net.contains(&address),
            DangerAllow::HostPort { host, port: at } => *host == Host::Ip(address) && *at == port,
        })
    }

    /// The opening that names this one address, and not just a network around it: what a metadata
    /// service needs, since a wide network is rarely meant to include one.
    pub(super) fn names_address(&self, address: IpAddr, port: u16) -> Option<&DangerAllow> {
        self.danger_allow.iter().find(|allow| match allow {
            DangerAllow::Network(net) => {
                net.prefix_len() == net.max_prefix_len() && net.contains(&address)
            }
            DangerAllow::HostPort { host, port: at } => *host == Host::Ip(address) && *at == port,
        })
    }
}

impl PrivateAddresses {
    /// What `allow_private` opens: networks somebody runs. Never a metadata service, and not
    /// 0.0.0.0, multicast or reserved blocks, where no service lives.
    pub(super) fn cover(self, class: AddressClass) -> bool {
        match self {
            Self::Refused => false,
            Self::AllowedForService => match class {
                AddressClass::Loopback
                | AddressClass::Private
                | AddressClass::SharedCgnat
                | AddressClass::LinkLocal => true,
                AddressClass::Global
                | AddressClass::Unspecified
                | AddressClass::Metadata
                | AddressClass::Multicast
                | AddressClass::Documentation
                | AddressClass::Benchmark
                | AddressClass::Reserved
                | AddressClass::Embedded(_) => false,
            },
        }
    }
}

impl FromStr for DangerAllow {
    type Err = DangerAllowError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let owned = || text.to_owned();
        if text.contains('/') {
            let net = text.parse::<IpNet>();
            return net
                .map(|net| Self::Network(net.trunc()))
                .map_err(|_| DangerAllowError::Network { text: owned() });
        }
        let (host, port) = text.rsplit_once(':').unwrap_or((text, ""));
        let port = port.parse::<u16>().ok().filter(|port| *port != 0);
        let port = port.ok_or_else(|| DangerAllowError::Port { text: owned() })?;
        match Host::parse(host) {
            // Addresses are judged in canonical form, so an IPv4-mapped spelling is folded here too.
            Ok(Host::Ip(ip)) => Ok(Self::HostPort { host: Host::Ip(ip.to_canonical()), port }),
            Ok(host @ Host::Name(_)) => Ok(Self::HostPort { host, port }),
            Err(error) => Err(DangerAllowError::Host { text: owned(), error }),
        }
    }
}

impl fmt::Display for DangerAllow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Network(net) => net.fmt(f),
            Self::HostPort { host, port } => write!(f, "{host}:{port}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exceptions_are_read_and_shown_in_one_form() {
        for (text, shown) in [
            ("10.1.2.3/16", "10.1.0.0/16"),
            ("fd00::/8", "fd00::/8"),
            ("DB.corp.:5432", "db.corp:5432"),
            ("[::1]:80", "[::1]:80"),
            ("0x7f.1:80", "127.0.0.1:80"),
            ("[::ffff:10.0.0.1]:80", "10.0.0.1:80"),
        ] {
            let read: DangerAllow = text.parse().expect("a test exception");
            assert_eq!(read.to_string(), shown);
        }
    }

    #[test]
    fn half_an_exception_is_refused() {
        for text in
            ["db.corp", "db.corp:", "db.corp:0", "db.corp:99999", ":80", "10.0.0.0/33", "a/b"]
        {
            assert!(text.parse::<DangerAllow>().is_err(), "{text}");
        }
    }
}
