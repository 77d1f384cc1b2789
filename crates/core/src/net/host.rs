//! A host as it was really meant: a name that DNS can carry, or an address, however it was spelled.
//!
//! Parsing is done once, at the edge, by the WHATWG rules and then by stricter ones: `url` accepts
//! empty labels, long labels and names that no resolver can ask for. Never here: judging the host.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

/// The longest name DNS can carry in text form (RFC 1035, 255 bytes on the wire).
pub const HOST_BYTES_MAX: usize = 253;
/// The longest label DNS can carry.
pub const LABEL_BYTES_MAX: usize = 63;
/// Longer input is refused before Unicode mapping: no spelling of a 253-byte name needs more, and
/// mapping costs time for every byte.
const INPUT_BYTES_MAX: usize = 1024;

/// A DNS name: lower case, ASCII (punycode), without the trailing dot.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HostName(Arc<str>);

/// Where a destination is: by name or by address.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Host {
    Name(HostName),
    Ip(IpAddr),
}

/// Why a text is no host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum HostError {
    #[error("the host is empty")]
    Empty,
    #[error("the host is longer than {HOST_BYTES_MAX} bytes")]
    TooLong,
    #[error("the host has an empty label (two dots in a row, or a leading dot)")]
    EmptyLabel,
    #[error("the host has a label longer than {LABEL_BYTES_MAX} bytes")]
    LongLabel,
    #[error("the host has a character that no host name has")]
    Character,
    #[error("the host ends in a number but is no IPv4 address")]
    BadIpv4,
    #[error("the host is no valid name or address")]
    Invalid,
}

impl Host {
    /// Reads a host by the URL rules: `0x7f.1`, `127.1` and `2130706433` are all 127.0.0.1, IPv6
    /// stands in brackets, Unicode names become punycode. A zone id (`%eth0`) is refused.
    ///
    /// # Errors
    /// When the text is neither an address nor a name that DNS can carry.
    pub fn parse(text: &str) -> Result<Self, HostError> {
        if text.is_empty() {
            return Err(HostError::Empty);
        }
        if text.len() > INPUT_BYTES_MAX {
            return Err(HostError::TooLong);
        }
        match url::Host::parse(text) {
            Ok(host) => Self::from_parsed(&host),
            Err(url::ParseError::EmptyHost) => Err(HostError::Empty),
            Err(url::ParseError::InvalidIpv4Address) => Err(HostError::BadIpv4),
            Err(_) => Err(HostError::Invalid),
        }
    }

    /// Takes a host that `url` has parsed, and applies the stricter rules.
    ///
    /// # Errors
    /// When the name is one that DNS cannot carry.
    pub fn from_parsed<S: AsRef<str>>(host: &url::Host<S>) -> Result<Self, HostError> {
        match host {
            url::Host::Domain(name) => HostName::check(name.as_ref()).map(Self::Name),
            url::Host::Ipv4(ip) => Ok(Self::Ip(IpAddr::V4(*ip))),
            url::Host::Ipv6(ip) => Ok(Self::Ip(IpAddr::V6(*ip))),
        }
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => name.fmt(f),
            Self::Ip(IpAddr::V4(ip)) => ip.fmt(f),
            Self::Ip(IpAddr::V6(ip)) => write!(f, "[{ip}]"),
        }
    }
}

impl HostName {
    /// Reads a name; an address is refused.
    ///
    /// # Errors
    /// When the text is no name that DNS can carry.
    pub fn parse(text: &str) -> Result<Self, HostError> {
        match Host::parse(text)? {
            Host::Name(name) => Ok(name),
            Host::Ip(_) => Err(HostError::Invalid),
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// True for the name itself and for every name below it, by whole labels.
    pub fn is_within(&self, parent: &str) -> bool {
        self.0.strip_suffix(parent).is_some_and(|below| below.is_empty() || below.ends_with('.'))
    }

    fn check(name: &str) -> Result<Self, HostError> {
        // One trailing dot only says "absolute": folded, so that no rule is passed by writing it.
        let name = name.strip_suffix('.').unwrap_or(name);
        if name.is_empty() {
            return Err(HostError::Empty);
        }
        if name.len() > HOST_BYTES_MAX {
            return Err(HostError::TooLong);
        }
        for label in name.split('.') {
            if label.is_empty() {
                return Err(HostError::EmptyLabel);
            }
            if label.len() > LABEL_BYTES_MAX {
                return Err(HostError::LongLabel);
            }
            // Underscores are no host names by the letter, but are in use.
            if !label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_') {
                return Err(HostError::Character);
            }
        }
        let name = name.to_ascii_lowercase();
        // `getaddrinfo` reads numbers as IPv4 in more forms than any parser above it: a name that
        // ends like a number must never reach it.
        let last = name.rsplit('.').next().unwrap_or_default();
        let hex = last.strip_prefix("0x").is_some_and(|h| h.bytes().all(|b| b.is_ascii_hexdigit()));
        if hex || last.bytes().all(|b| b.is_ascii_digit()) {
            return Err(HostError::BadIpv4);
        }
        Ok(Self(name.into()))
    }
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HostName({})", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &Result<&str, HostError>) {
        let got = Host::parse(text).map(|host| host.to_string());
        let shown: String = text.chars().take(40).collect();
        assert_eq!(
            got.as_deref().map_err(|e| *e),
            expected.as_ref().map(|s| *s).map_err(|e| *e),
            "{shown}"
        );
    }

    #[test]
    fn names_are_folded_to_one_spelling() {
        for (text, expected) in [
            ("example.com", "example.com"),
            ("EXAMPLE.Com.", "example.com"),
            ("_dmarc.example.com", "_dmarc.example.com"),
            ("r3---sn-x.example.com", "r3---sn-x.example.com"),
            ("bücher.example", "xn--bcher-kva.example"),
            ("ｅｘａｍｐｌｅ。com", "example.com"),
            ("local%68ost", "localhost"),
            ("localhost", "localhost"),
        ] {
            check(text, &Ok(expected));
        }
    }

    #[test]
    fn numbers_in_any_spelling_are_the_address_they_mean() {
        for text in [
            "127.0.0.1",
            "127.0.0.1.",
            "127.1",
            "2130706433",
            "0x7f000001",
            "0X7F.1",
            "017700000001",
            "0177.0.0.01",
            "①②⑦.⓪.⓪.①",
            "127。0。0。1",
            "%31%32%37.0.0.1",
        ] {
            check(text, &Ok("127.0.0.1"));
        }
        check("[::1]", &Ok("[::1]"));
        check("[0:0:0:0:0:FFFF:127.0.0.1]", &Ok("[::ffff:127.0.0.1]"));
    }

    #[test]
    fn what_dns_cannot_carry_is_refused() {
        check("", &Err(HostError::Empty));
        check(".", &Err(HostError::Empty));
        check("example.com..", &Err(HostError::EmptyLabel));
        check(".example.com", &Err(HostError::EmptyLabel));
        check("a..b", &Err(HostError::EmptyLabel));
        check(&format!("{}.com", "a".repeat(64)), &Err(HostError::LongLabel));
        check(&format!("{}com", "a.".repeat(126)), &Err(HostError::TooLong));
        check(&"a".repeat(2000), &Err(HostError::TooLong));
        check("exa!mple.com", &Err(HostError::Character));
        check("a*b.com", &Err(HostError::Character));
        check("1.2.3.4.5", &Err(HostError::BadIpv4));
        check("256.1.1.1", &Err(HostError::BadIpv4));
        check("foo.0x4", &Err(HostError::BadIpv4));
        check("a b", &Err(HostError::Invalid));
        check("a@b", &Err(HostError::Invalid));
        check("a:80", &Err(HostError::Invalid));
        check("[fe80::1%25eth0]", &Err(HostError::Invalid));
        check("::1", &Err(HostError::Invalid));
    }

    #[test]
    fn within_goes_by_whole_labels() {
        let name = HostName::parse("a.corp").expect("a name");
        assert!(name.is_within("corp"));
        assert!(name.is_within("a.corp"));
        assert!(!name.is_within("orp"));
        assert!(!HostName::parse("acorp").expect("a name").is_within("corp"));
    }
}
