//! Lists of domains, as operators write them: `api.stripe.com` or `*.stripe.com`.

use std::collections::HashSet;

use thiserror::Error;

/// A set of exact names and suffixes, found in time that does not grow with its size.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DomainSet {
    exact: HashSet<String>,
    suffixes: HashSet<String>,
}

/// A pattern that is neither a name nor `*.` and a name.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("`{0}` is neither a domain such as `api.example.com` nor `*.example.com`")]
pub struct DomainError(pub String);

impl DomainSet {
    /// Adds a pattern. Case and a trailing dot do not matter.
    pub fn insert(&mut self, pattern: &str) -> Result<(), DomainError> {
        let folded = pattern.trim().trim_end_matches('.').to_ascii_lowercase();
        let (name, set) = match folded.strip_prefix("*.") {
            Some(suffix) => (suffix, &mut self.suffixes),
            None => (folded.as_str(), &mut self.exact),
        };
        if !is_host(name) {
            return Err(DomainError(pattern.to_owned()));
        }
        set.insert(name.to_owned());
        Ok(())
    }

    /// Whether the host (lower case) is listed, itself or by a suffix above it.
    pub fn contains(&self, host: &str) -> bool {
        let host = host.trim_end_matches('.');
        if self.exact.contains(host) {
            return true;
        }
        parents(host).any(|above| self.suffixes.contains(above))
    }

    /// The names that are listed as they are.
    pub(crate) fn exact(&self) -> impl Iterator<Item = &str> {
        self.exact.iter().map(String::as_str)
    }

    /// The names of which everything below is listed.
    pub(crate) fn suffixes(&self) -> impl Iterator<Item = &str> {
        self.suffixes.iter().map(String::as_str)
    }

    /// How many patterns it holds.
    pub fn len(&self) -> usize {
        self.exact.len().saturating_add(self.suffixes.len())
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.exact.is_empty() && self.suffixes.is_empty()
    }
}

/// The names above a host, nearest first: `b.c` and `c` for `a.b.c`.
pub(crate) fn parents(host: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(above(host), |name| above(name))
}

fn above(name: &str) -> Option<&str> {
    name.split_once('.').map(|(_, above)| above)
}

fn is_host(name: &str) -> bool {
    let v6 = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    if let Some(literal) = v6 {
        return literal.parse::<std::net::Ipv6Addr>().is_ok();
    }
    !name.is_empty()
        && name.len() <= 253
        && name.split('.').all(|label| {
            (1..=63).contains(&label.len())
                && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suffix_covers_what_is_below_it_and_nothing_beside() {
        let mut set = DomainSet::default();
        set.insert("*.Example.com").unwrap();
        set.insert("api.stripe.com.").unwrap();
        for (host, listed) in [
            ("a.example.com", true),
            ("a.b.example.com", true),
            ("example.com", false),
            ("badexample.com", false),
            ("api.stripe.com", true),
            ("api.stripe.com.", true),
            ("evil.api.stripe.com", false),
            ("example.com.evil.net", false),
        ] {
            assert_eq!(set.contains(host), listed, "{host}");
        }
    }

    #[test]
    fn patterns_that_cannot_be_domains_are_refused() {
        for bad in ["", "*", "*.", "a..b", "https://a.com", "a.com/path", "a b.com", "*.*.com"] {
            assert!(DomainSet::default().insert(bad).is_err(), "{bad}");
        }
    }
}
