//! One place that a request wants to reach: host, port and whether TLS protects the way.
//!
//! Never here: whether it may. A destination is only well formed.

use std::fmt;

use url::Url;

use super::host::{Host, HostError};

/// The longest URL that is read: browsers and servers agree on less in practice.
pub const URL_BYTES_MAX: usize = 8 * 1024;

/// How the destination is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scheme {
    Http,
    Https,
}

/// A well-formed destination. Whether it may be reached is the guard's to say.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Destination {
    host: Host,
    port: u16,
    scheme: Scheme,
}

/// Why a URL is no destination.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DestinationError {
    #[error("the URL is longer than {URL_BYTES_MAX} bytes")]
    TooLong,
    #[error("the URL cannot be read: {0}")]
    Url(url::ParseError),
    #[error("only http and https URLs are allowed")]
    Scheme,
    #[error("the URL carries a user name or password; leave out everything up to the `@`")]
    Userinfo,
    #[error("the URL names no host")]
    NoHost,
    #[error("the URL's host cannot be used: {0}")]
    Host(#[from] HostError),
    #[error("port 0 cannot be reached")]
    PortZero,
}

impl Scheme {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }

    pub const fn default_port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}

impl Destination {
    /// # Errors
    /// For port 0.
    pub fn new(host: Host, port: u16, scheme: Scheme) -> Result<Self, DestinationError> {
        if port == 0 {
            return Err(DestinationError::PortZero);
        }
        Ok(Self { host, port, scheme })
    }

    /// Takes the destination of a parsed URL. An empty userinfo (`http://@host`) is already gone from
    /// a `Url`: read untrusted text with [`Destination::parse`].
    ///
    /// # Errors
    /// For another scheme, userinfo, no host, or a host that DNS cannot carry.
    pub fn from_url(url: &Url) -> Result<Self, DestinationError> {
        let scheme = match url.scheme() {
            "http" => Scheme::Http,
            "https" => Scheme::Https,
            _ => return Err(DestinationError::Scheme),
        };
        if !url.username().is_empty() || url.password().is_some() {
            return Err(DestinationError::Userinfo);
        }
        let host = url.host().ok_or(DestinationError::NoHost)?;
        let port = url.port().unwrap_or(scheme.default_port());
        Self::new(Host::from_parsed(&host)?, port, scheme)
    }

    /// Reads untrusted text by the WHATWG rules and the guard's stricter ones.
    ///
    /// # Errors
    /// For text that is no URL, is too long, or is refused by [`Destination::from_url`].
    pub fn parse(text: &str) -> Result<(Url, Self), DestinationError> {
        if text.len() > URL_BYTES_MAX {
            return Err(DestinationError::TooLong);
        }
        let url = Url::parse(text).map_err(DestinationError::Url)?;
        let destination = Self::from_url(&url)?;
        if authority_has_userinfo(text) {
            return Err(DestinationError::Userinfo);
        }
        Ok((url, destination))
    }

    pub fn host(&self) -> &Host {
        &self.host
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// True when TLS protects the way.
    pub fn tls(&self) -> bool {
        match self.scheme {
            Scheme::Http => false,
            Scheme::Https => true,
        }
    }

    /// `host` or `host:port`, as a `Host` header has it.
    pub fn authority(&self) -> String {
        if self.port == self.scheme.default_port() {
            self.host.to_string()
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

/// The URL parser drops an empty userinfo without a trace, so the raw text is looked at, with what
/// that parser ignores (tabs, line breaks, any number of slashes of either kind) ignored too.
fn authority_has_userinfo(text: &str) -> bool {
    let after_scheme = text.split_once(':').map_or("", |(_, rest)| rest);
    after_scheme
        .chars()
        .filter(|c| !matches!(c, '\t' | '\n' | '\r'))
        .skip_while(|c| matches!(c, '/' | '\\'))
        .take_while(|c| !matches!(c, '/' | '\\' | '?' | '#'))
        .any(|c| c == '@')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Result<&str, DestinationError>) {
        let got = Destination::parse(text).map(|(_, destination)| destination);
        let got = got.map(|d| format!("{}://{d}", d.scheme().as_str()));
        assert_eq!(got, expected.map(str::to_owned), "{text}");
    }

    #[test]
    fn destinations_are_read_by_the_url_rules() {
        check("https://Example.COM./a?b#c", Ok("https://example.com:443"));
        check("http://example.com:8080/", Ok("http://example.com:8080"));
        check("http:\\\\example.com\\x@y", Ok("http://example.com:80"));
        check("http://0x7f.1/", Ok("http://127.0.0.1:80"));
        check("http://[::ffff:7f00:1]/", Ok("http://[::ffff:127.0.0.1]:80"));
        check("https://example.com/a@b?c=d@e", Ok("https://example.com:443"));
        check(" \thttps://example.com", Ok("https://example.com:443"));
    }

    #[test]
    fn userinfo_is_refused_even_when_empty() {
        for text in [
            "http://a@example.com",
            "http://a:b@example.com",
            "http://:@example.com",
            "http://@example.com",
            "http:/\\@example.com",
            "http:@example.com",
            "ht\ntp://\t@example.com",
            "http://example.com@evil.example/",
        ] {
            check(text, Err(DestinationError::Userinfo));
        }
    }

    #[test]
    fn what_is_no_destination_is_refused() {
        check("ftp://example.com", Err(DestinationError::Scheme));
        check("file:///etc/passwd", Err(DestinationError::Scheme));
        check("javascript:alert(1)", Err(DestinationError::Scheme));
        check("ws://example.com", Err(DestinationError::Scheme));
        check("http://a..b/", Err(DestinationError::Host(HostError::EmptyLabel)));
        check("http://example.com:0/", Err(DestinationError::PortZero));
        check("/path", Err(DestinationError::Url(url::ParseError::RelativeUrlWithoutBase)));
        check(
            "http://[fe80::1%25lo]/",
            Err(DestinationError::Url(url::ParseError::InvalidIpv6Address)),
        );
        let long = format!("http://example.com/{}", "a".repeat(URL_BYTES_MAX));
        assert_eq!(Destination::parse(&long).map(|_| ()), Err(DestinationError::TooLong));
    }

    #[test]
    fn the_authority_leaves_out_the_default_port() {
        let authority = |text| Destination::parse(text).map(|(_, d)| d.authority());
        assert_eq!(authority("https://example.com:443/").as_deref(), Ok("example.com"));
        assert_eq!(authority("http://example.com:443/").as_deref(), Ok("example.com:443"));
        assert_eq!(authority("http://[::1]:81/").as_deref(), Ok("[::1]:81"));
    }
}
