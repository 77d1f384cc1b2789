//! The guard's judgement: may this name be asked for, may these addresses be dialled?
//!
//! Two pure functions, because the look-up stands between them. Never here: the look-up.

use std::net::{IpAddr, SocketAddr};

use super::address::{AddressClass, classify};
use super::destination::Destination;
use super::exceptions::{DangerAllow, Exceptions, PrivateAddresses};
use super::host::{Host, HostName};
use super::name::{BlockedNames, NameClass, classify_name};

/// Why a destination is refused. `Display` says why; `what_would_change_it` says the way out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Blocked {
    #[error("`{name}` is refused by its name: {class}")]
    Name { name: HostName, class: NameClass },
    #[error("`{host}` leads to {address}, which is not public: {class}")]
    Address { host: Host, address: IpAddr, class: AddressClass },
    #[error("{address} is the gate itself")]
    OwnListener { address: SocketAddr },
    #[error("connected to {reached} instead of {meant}, the address that was checked")]
    PeerDiffers { meant: SocketAddr, reached: SocketAddr },
}

/// By what right a destination passed. Anything but `Ordinary` is a use of an exception, which the
/// caller records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Passage {
    Ordinary,
    /// The service is marked `allow_private`.
    PrivateService,
    /// The operator's opening, as configured.
    DangerAllow(DangerAllow),
}

/// Judges the name, before anyone is asked where it leads: asking already tells its server something.
///
/// # Errors
/// When the name's class is refused and no exception names it.
pub fn judge_name(
    destination: &Destination,
    blocked: &BlockedNames,
    exceptions: &Exceptions,
) -> Result<Passage, Blocked> {
    let name = match destination.host() {
        Host::Ip(_) => return Ok(Passage::Ordinary),
        Host::Name(name) => name,
    };
    let class = classify_name(destination.host(), blocked);
    let named = || {
        let opening = exceptions.names(destination.host(), destination.port());
        opening.map(|allow| Passage::DangerAllow(allow.clone()))
    };
    let passage = match class {
        NameClass::Ordinary => Some(Passage::Ordinary),
        NameClass::OperatorBlocked => None,
        NameClass::MetadataName => named(),
        NameClass::Localhost | NameClass::LocalSuffix | NameClass::SingleLabel => {
            match exceptions.private() {
                PrivateAddresses::AllowedForService => Some(Passage::PrivateService),
                PrivateAddresses::Refused => named(),
            }
        }
    };
    passage.ok_or_else(|| Blocked::Name { name: name.clone(), class })
}

/// Judges every address of the destination. One that may not be dialled refuses them all: a name with
/// one public and one private address is an attack or a mistake, and the client's choice between them
/// would be the attacker's.
///
/// # Errors
/// The first address that is refused.
pub fn judge_addresses(
    destination: &Destination,
    addresses: &[IpAddr],
    own_listeners: &[SocketAddr],
    exceptions: &Exceptions,
) -> Result<Passage, Blocked> {
    let mut passage = Passage::Ordinary;
    for &address in addresses {
        let right = judge_address(destination, address, own_listeners, exceptions)?;
        if right != Passage::Ordinary {
            passage = right;
        }
    }
    Ok(passage)
}

impl Blocked {
    /// What an operator can do about it.
    pub fn what_would_change_it(&self) -> &'static str {
        match self {
            Self::Name { class, .. } => match class {
                NameClass::OperatorBlocked => "the operator can take the name off the blocked list",
                NameClass::MetadataName => {
                    "nothing by default; an operator who means it can add exactly this host:port to \
                     danger_allow"
                }
                NameClass::Localhost | NameClass::LocalSuffix | NameClass::SingleLabel => {
                    "the operator can mark the service allow_private: true, or add this host:port to \
                     danger_allow"
                }
                NameClass::Ordinary => "nothing: the name is allowed",
            },
            Self::Address { class, .. } => match class {
                AddressClass::Metadata => {
                    "nothing by default; an operator who means it can add exactly this address to \
                     danger_allow"
                }
                AddressClass::Loopback
                | AddressClass::Private
                | AddressClass::SharedCgnat
                | AddressClass::LinkLocal => {
                    "the operator can mark the service allow_private: true, or add the host:port or \
                     network to danger_allow"
                }
                AddressClass::Unspecified
                | AddressClass::Multicast
                | AddressClass::Documentation
                | AddressClass::Benchmark
                | AddressClass::Reserved
                | AddressClass::Embedded(_)
                | AddressClass::Global => {
                    "use a public address; an operator can add the host:port or network to \
                     danger_allow"
                }
            },
            Self::OwnListener { .. } => "nothing: the gate never calls itself; name another port",
            Self::PeerDiffers { .. } => {
                "nothing by rule: something on this machine redirects connections; look for it there"
            }
        }
    }
}

fn judge_address(
    destination: &Destination,
    address: IpAddr,
    own_listeners: &[SocketAddr],
    exceptions: &Exceptions,
) -> Result<Passage, Blocked> {
    let port = destination.port();
    let address = address.to_canonical();
    let class = classify(address);
    // Before any exception: through its own listener an agent could speak to the gate as the gate.
    if own_listeners.iter().any(|own| is_own(address, class, port, *own)) {
        return Err(Blocked::OwnListener { address: SocketAddr::new(address, port) });
    }
    let opening = match class {
        AddressClass::Global => return Ok(Passage::Ordinary),
        AddressClass::Metadata => exceptions
            .names_address(address, port)
            .or_else(|| metadata_name_opening(destination, exceptions)),
        AddressClass::Unspecified
        | AddressClass::Loopback
        | AddressClass::Private
        | AddressClass::SharedCgnat
        | AddressClass::LinkLocal
        | AddressClass::Multicast
        | AddressClass::Documentation
        | AddressClass::Benchmark
        | AddressClass::Reserved
        | AddressClass::Embedded(_) => {
            if exceptions.private().cover(class) {
                return Ok(Passage::PrivateService);
            }
            exceptions.holds(address, port).or_else(|| exceptions.names(destination.host(), port))
        }
    };
    opening.map(|allow| Passage::DangerAllow(allow.clone())).ok_or_else(|| Blocked::Address {
        host: destination.host().clone(),
        address,
        class,
    })
}

/// An opening for `metadata.google.internal:80` means the metadata service. One for any other name
/// does not: its DNS answer may be turned to a metadata address later.
fn metadata_name_opening<'a>(
    destination: &Destination,
    exceptions: &'a Exceptions,
) -> Option<&'a DangerAllow> {
    match classify_name(destination.host(), &BlockedNames::default()) {
        NameClass::MetadataName => exceptions.names(destination.host(), destination.port()),
        NameClass::Ordinary
        | NameClass::Localhost
        | NameClass::LocalSuffix
        | NameClass::SingleLabel
        | NameClass::OperatorBlocked => None,
    }
}

/// Any loopback or unspecified address at a listener's port counts as that listener, whichever one it
/// is bound to. A listener on all addresses also answers at the machine's other addresses; the dialler
/// sees that after connecting, when both ends have one address.
fn is_own(address: IpAddr, class: AddressClass, port: u16, own: SocketAddr) -> bool {
    let local = matches!(class, AddressClass::Loopback | AddressClass::Unspecified);
    own.port() == port && (local || own.ip().to_canonical() == address)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(url: &str, answers: &[&str], exceptions: &Exceptions) -> Result<Passage, Blocked> {
        let (_, destination) = Destination::parse(url).expect("a test URL");
        let blocked = BlockedNames::parse(&["evil.example"]).expect("a list");
        let by_name = judge_name(&destination, &blocked, exceptions)?;
        let own = ["127.0.0.1:8080".parse().expect("own"), "10.0.0.5:8080".parse().expect("own")];
        let addresses: Vec<IpAddr> = match destination.host() {
            Host::Ip(ip) => vec![*ip],
            Host::Name(_) => answers.iter().map(|a| a.parse().expect("an address")).collect(),
        };
        let by_address = judge_addresses(&destination, &addresses, &own, exceptions)?;
        Ok(if by_address == Passage::Ordinary { by_name } else { by_address })
    }

    fn exceptions(private: PrivateAddresses, openings: &[&str]) -> Exceptions {
        let openings = openings.iter().map(|o| o.parse().expect("an exception")).collect();
        Exceptions::new(private, openings)
    }

    fn passes(url: &str, answers: &[&str], exceptions: &Exceptions) {
        let got = judge(url, answers, exceptions);
        assert!(got.is_ok(), "{url} {answers:?}: {got:?}");
    }

    fn refused(url: &str, answers: &[&str], exceptions: &Exceptions) -> Blocked {
        judge(url, answers, exceptions).expect_err(url)
    }

    #[test]
    fn without_exceptions_only_global_addresses_pass() {
        let none = Exceptions::none();
        assert_eq!(
            judge("https://example.com", &["1.1.1.1", "2600::1"], &none),
            Ok(Passage::Ordinary)
        );
        refused("https://example.com", &["1.1.1.1", "10.0.0.1"], &none);
        refused("https://example.com", &["::ffff:127.0.0.1"], &none);
        refused("http://127.1", &[], &none);
        refused("http://[64:ff9b::a9fe:a9fe]", &[], &none);
        refused("http://localhost", &["1.1.1.1"], &none);
        refused("http://db.corp", &["1.1.1.1"], &none);
        refused("http://redis", &["1.1.1.1"], &none);
        refused("http://metadata.goog", &["1.1.1.1"], &none);
        refused("http://a.evil.example", &["1.1.1.1"], &none);
    }

    #[test]
    fn allow_private_opens_networks_but_no_metadata_and_no_operator_block() {
        let private = exceptions(PrivateAddresses::AllowedForService, &[]);
        for (url, answer) in [
            ("http://127.0.0.1:9000", ""),
            ("http://[::1]:9000", ""),
            ("http://ollama:11434", "172.17.0.2"),
            ("http://localhost:11434", "127.0.0.1"),
            ("http://x.corp", "100.64.0.1"),
        ] {
            let answers: Vec<&str> = [answer].into_iter().filter(|a| !a.is_empty()).collect();
            assert_eq!(judge(url, &answers, &private), Ok(Passage::PrivateService), "{url}");
        }
        refused("http://169.254.169.254", &[], &private);
        refused("http://x.corp", &["10.0.0.1", "fd00:ec2::254"], &private);
        refused("http://metadata.google.internal", &["10.0.0.1"], &private);
        refused("http://0.0.0.0:9000", &[], &private);
        refused("http://224.0.0.1", &[], &private);
        refused("http://a.evil.example", &["10.0.0.1"], &private);
    }

    #[test]
    fn an_opening_opens_what_it_names_and_no_more() {
        let open = exceptions(
            PrivateAddresses::Refused,
            &["db.corp:5432", "10.2.0.0/16", "evil.example:80"],
        );
        passes("http://db.corp:5432", &["10.9.9.9"], &open);
        passes("http://x.example", &["10.2.3.4"], &open);
        passes("http://[::ffff:10.2.3.4]", &[], &open);
        refused("http://db.corp:5433", &["10.9.9.9"], &open);
        refused("http://a.db.corp:5432", &["10.9.9.9"], &open);
        refused("http://x.example", &["10.2.3.4", "10.3.0.1"], &open);
        refused("http://[2002:a02:304::]", &[], &open);
        refused("http://evil.example", &["1.1.1.1"], &open);
    }

    #[test]
    fn metadata_needs_an_opening_that_names_it() {
        let open = |opening| exceptions(PrivateAddresses::AllowedForService, &[opening]);
        refused("http://169.254.169.254", &[], &open("169.254.0.0/16"));
        refused("http://db.corp:80", &["169.254.169.254"], &open("db.corp:80"));
        refused("http://169.254.169.254:81", &[], &open("169.254.169.254:80"));
        passes("http://169.254.169.254", &[], &open("169.254.169.254:80"));
        passes("http://169.254.169.254", &[], &open("169.254.169.254/32"));
        passes("http://metadata.goog", &["169.254.169.254"], &open("metadata.goog:80"));
    }

    #[test]
    fn the_gate_itself_is_never_a_destination() {
        let open = exceptions(
            PrivateAddresses::AllowedForService,
            &["0.0.0.0/0", "::/0", "127.0.0.1:8080", "localhost:8080"],
        );
        for (url, answers) in [
            ("http://127.0.0.1:8080", &[][..]),
            ("http://127.9.9.9:8080", &[]),
            ("http://[::1]:8080", &[]),
            ("http://[::]:8080", &[]),
            ("http://0.0.0.0:8080", &[]),
            ("http://[::ffff:127.0.0.1]:8080", &[]),
            ("http://10.0.0.5:8080", &[]),
            ("http://localhost:8080", &["127.0.0.1"]),
            ("http://x.example:8080", &["1.1.1.1", "::1"]),
        ] {
            let blocked = refused(url, answers, &open);
            assert!(matches!(blocked, Blocked::OwnListener { .. }), "{url}: {blocked}");
        }
        passes("http://127.0.0.1:8081", &[], &open);
        passes("http://10.0.0.6:8080", &[], &open);
    }

    #[test]
    fn a_refusal_says_why_and_what_would_change_it() {
        let blocked = refused("http://x.example", &["10.0.0.1"], &Exceptions::none());
        assert_eq!(
            blocked.to_string(),
            "`x.example` leads to 10.0.0.1, which is not public: private"
        );
        assert!(blocked.what_would_change_it().contains("allow_private"));
    }
}
