//! Readers of single values. On failure each says what it expected; the caller knows the key and
//! the place.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use agentguard_core::Currency;
use agentguard_core::money::{DecimalError, parse_micros};
use agentguard_core::time::Zone;
use ipnet::IpNet;
use url::Host;

use super::limits::TOKEN_BYTES_MAX;
use super::model::{Exception, HostPort, Pattern};
use super::suggest;

/// What would have been right.
pub(super) type Expected = String;

/// The actions of the pipe's protocol 1.0, which is frozen.
const PIPE_ACTIONS: [&str; 11] = [
    "navigate",
    "click",
    "type",
    "getText",
    "getAttribute",
    "waitFor",
    "pressKey",
    "select",
    "scroll",
    "screenshot",
    "getUrl",
];

/// An address to listen on. Port 0 lets the system choose.
pub(super) fn address(text: &str) -> Result<SocketAddr, Expected> {
    // No host names: what they resolve to may change, and with it who can connect.
    text.parse().map_err(|_| {
        "an IP address and a port from 0 to 65535, like `127.0.0.1:8080` or `[::1]:8080`".into()
    })
}

/// A network. A single address is a network of one.
pub(super) fn network(text: &str) -> Result<IpNet, Expected> {
    if let Ok(single) = text.parse::<IpAddr>() {
        return Ok(single.into());
    }
    let network: IpNet = text
        .parse()
        .map_err(|_| "a network in CIDR notation, like `127.0.0.0/8` or `::1/128`".to_owned())?;
    // `10.1.2.3/8` opens 10.0.0.0/8, and whoever wrote it may have meant the one address.
    if network.trunc() != network {
        let host = network.addr();
        return Err(format!("the network `{}`, or the one address `{host}`", network.trunc()));
    }
    Ok(network)
}

/// One port of one host.
pub(super) fn host_port(text: &str) -> Result<HostPort, Expected> {
    let expected = || "a host and a port from 1 to 65535, like `example.com:8443`".to_owned();
    let (host, port) = text.rsplit_once(':').ok_or_else(expected)?;
    let digits = port.bytes().all(|byte| byte.is_ascii_digit());
    let port = port.parse().ok().filter(|port| digits && *port != 0).ok_or_else(expected)?;
    let host = match Host::parse(host).map_err(|_| expected())? {
        Host::Domain(name) if is_host_name(&name) => name,
        Host::Domain(_) => return Err(expected()),
        Host::Ipv4(address) => address.to_string(),
        Host::Ipv6(address) => address.to_string(),
    };
    Ok(HostPort { host, port })
}

/// A destination that is opened although it is private.
pub(super) fn exception(text: &str) -> Result<Exception, Expected> {
    if text.contains('/') {
        return network(text).map(Exception::Network);
    }
    host_port(text)
        .map(Exception::HostPort)
        .map_err(|_| "`host:port`, or a network in CIDR notation like `10.1.0.0/16`".into())
}

/// `host`, or `*.suffix` for every name below it.
pub(super) fn wildcard(text: &str) -> Result<Pattern, Expected> {
    pattern(text, "*.").ok_or_else(|| {
        "a host name, or `*.` and a suffix, like `api.example.com` or `*.example.com`".into()
    })
}

/// `host`, or `.suffix` for every name below it.
pub(super) fn domain(text: &str) -> Result<Pattern, Expected> {
    pattern(text, ".").ok_or_else(|| {
        "a host name, or a dot and a suffix, like `erp.example.com` or `.example.com`".into()
    })
}

/// The end of blocked names, without its first dot.
pub(super) fn suffix(text: &str) -> Result<String, Expected> {
    match pattern(text, ".") {
        Some(Pattern::Below(name)) => Ok(name),
        Some(Pattern::Exactly(_)) | None => Err("a dot and the end of names, like `.corp`".into()),
    }
}

/// An action of the pipe.
pub(super) fn pipe_action(text: &str) -> Result<String, Expected> {
    if PIPE_ACTIONS.contains(&text) {
        return Ok(text.to_owned());
    }
    Err(suggest::one_of(text, &PIPE_ACTIONS))
}

/// A currency other than the dollar, in which budgets are kept.
pub(super) fn currency(code: &str) -> Result<Currency, Expected> {
    Currency::parse(code)
        .filter(|currency| currency.code() == code && *currency != Currency::USD)
        .ok_or_else(|| "a currency code other than USD, of three capitals, like `EUR`".into())
}

/// Micro-dollars for one unit.
pub(super) fn rate(text: &str) -> Result<i64, Expected> {
    match parse_micros(text) {
        Ok(0) => Err("more than nothing: a rate of 0 would make spending free".into()),
        Ok(micros) => Ok(micros),
        Err(DecimalError::TooFine) => {
            Err("at most six digits after the point; round up, so that no spending is missed"
                .into())
        }
        Err(DecimalError::TooLarge) => Err("at most 1000000000".into()),
        Err(DecimalError::Malformed) => {
            Err("US dollars for one unit as a decimal, like `\"1.08\"`".into())
        }
    }
}

/// An IANA time zone out of the table that is compiled in.
pub(super) fn zone(name: &str) -> Result<Zone, Expected> {
    let expected = || "an IANA time zone, like `Europe/Berlin` or `UTC`".to_owned();
    // A name of the table that stands for "not known" and would count as UTC.
    if name.eq_ignore_ascii_case("Etc/Unknown") {
        return Err(expected());
    }
    Zone::named(name).map_err(|_| expected())
}

/// A path; a leading `~` is the home folder.
pub(super) fn path(text: &str, home: Option<&Path>) -> Result<PathBuf, Expected> {
    if text.is_empty() || text.contains('\0') {
        return Err("a path".into());
    }
    if !text.starts_with('~') {
        return Ok(text.into());
    }
    let home = home.ok_or("a path without `~`, as $HOME is not set")?;
    match text.strip_prefix('~') {
        Some("") => Ok(home.to_owned()),
        Some(rest) if rest.starts_with('/') => Ok(home.join(rest.trim_start_matches('/'))),
        Some(_) | None => Err("`~/` and a path; other users' home folders are not known".into()),
    }
}

/// A bearer token: what a header can carry, and nothing that a log or a shell would break up.
pub(super) fn token(text: &str) -> Result<(), Expected> {
    if text.len() <= TOKEN_BYTES_MAX && text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Ok(());
    }
    Err(format!("at most {TOKEN_BYTES_MAX} visible ASCII characters without spaces"))
}

fn pattern(text: &str, below: &str) -> Option<Pattern> {
    let (name, is_below) = match text.strip_prefix(below) {
        Some(name) => (name, true),
        None => (text, false),
    };
    // The same folding that a URL's host goes through, or `Bücher.example` would never match.
    let Ok(Host::Domain(name)) = Host::parse(name) else { return None };
    if !is_host_name(&name) {
        return None;
    }
    Some(if is_below { Pattern::Below(name) } else { Pattern::Exactly(name) })
}

/// Labels of 1 to 63 letters, digits, `-` or `_`, and 253 characters at most (RFC 1035; the
/// underscore occurs in practice).
fn is_host_name(name: &str) -> bool {
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
    };
    name.len() <= 253 && name.split('.').all(is_label)
}
