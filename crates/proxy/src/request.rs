//! A request as facts: where it wants to go, and what goes on the record about it.
//!
//! Never here: headers that pass or not (`headers`), or a decision.

use std::sync::{Arc, LazyLock};

use agentguard_core::action::ApiFacts;
use agentguard_core::{Action, Amount, Facts, RequestId, Timestamp, mask};
use http::uri::PathAndQuery;
use http::{Method, Uri};
use serde_json::{Map, Value};

use crate::body::Sent;
use crate::identity::holds_token_text;
use crate::routes::Route;

/// Methods that pass, as the record names them.
static METHODS: LazyLock<[(Method, Arc<str>); 7]> = LazyLock::new(|| {
    [
        Method::GET,
        Method::POST,
        Method::PUT,
        Method::PATCH,
        Method::DELETE,
        Method::HEAD,
        Method::OPTIONS,
    ]
    .map(|method| {
        let name = method.as_str().into();
        (method, name)
    })
});

/// The same, for an `Allow` header.
pub(crate) const ALLOWED: &str = "GET, POST, PUT, PATCH, DELETE, HEAD, OPTIONS";

/// The request line, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Target<'a> {
    pub(crate) alias: &'a str,
    /// Empty, or starting with `/`; as it came, to the byte.
    pub(crate) path: &'a str,
    pub(crate) query: Option<&'a str>,
}

/// Why a request is for no service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoTarget {
    /// `CONNECT`, or a whole URL: use as an ordinary proxy.
    ProxyForm,
    /// Not `/proxy/…`.
    Elsewhere,
}

/// When a request came, and its name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Visit {
    pub(crate) at: Timestamp,
    pub(crate) id: RequestId,
}

/// Where a call goes.
#[derive(Debug)]
pub(crate) struct Placed {
    pub(crate) route: Arc<Route>,
    pub(crate) path: PathAndQuery,
}

/// What the door adds to the record of a call. With it the call ends, and so does its upload.
#[derive(Debug)]
pub(crate) struct Note {
    pub(crate) sent: Arc<Sent>,
    /// The opening in the destination guard that was used, if one was.
    pub(crate) exception: Option<&'static str>,
}

impl Drop for Note {
    fn drop(&mut self) {
        self.sent.end();
    }
}

impl Note {
    pub(crate) fn facts(&self, bytes_out: u64) -> Map<String, Value> {
        let mut facts = Map::new();
        facts.insert("bytes_in".to_owned(), self.sent.bytes().into());
        facts.insert("bytes_out".to_owned(), bytes_out.into());
        if let Some(exception) = self.exception {
            facts.insert("exception".to_owned(), exception.into());
        }
        facts
    }
}

/// The method's name for the record, if it may pass.
pub(crate) fn method_name(method: &Method) -> Option<Arc<str>> {
    METHODS.iter().find(|(known, _)| known == method).map(|(_, name)| Arc::clone(name))
}

/// The service and path that a request line names.
pub(crate) fn target<'a>(method: &Method, uri: &'a Uri) -> Result<Target<'a>, NoTarget> {
    if *method == Method::CONNECT || uri.scheme().is_some() || uri.authority().is_some() {
        return Err(NoTarget::ProxyForm);
    }
    let rest = uri.path().strip_prefix("/proxy/").ok_or(NoTarget::Elsewhere)?;
    let alias_bytes = rest.find('/').unwrap_or(rest.len());
    let (alias, path) = rest.split_at_checked(alias_bytes).ok_or(NoTarget::Elsewhere)?;
    Ok(Target { alias, path, query: uri.query() })
}

impl Target<'_> {
    /// What the upstream is asked for: base path, path and query, each as it is.
    pub(crate) fn upstream_path(&self, route: &Route) -> Option<PathAndQuery> {
        let (base, query) = (&route.base_path, self.query.unwrap_or_default());
        let mut text = String::with_capacity(base.len() + self.path.len() + query.len() + 2);
        text.push_str(base);
        text.push_str(self.path);
        if text.is_empty() {
            text.push('/');
        }
        if self.query.is_some() {
            text.push('?');
            text.push_str(query);
        }
        PathAndQuery::from_maybe_shared(bytes::Bytes::from(text)).ok()
    }
}

impl Visit {
    /// The call as the gate judges and records it.
    pub(crate) fn action(&self, method: &Arc<str>, placed: &Placed, amount: Amount) -> Action {
        let Placed { route, path } = placed;
        let facts = ApiFacts {
            method: Arc::clone(method),
            masked_url: masked(&route.origin, path.path(), path.query()),
            host: Arc::clone(&route.host),
            service: Some(Arc::clone(&route.alias)),
        };
        Action { at: self.at, facts: Facts::Api(facts), amount }
    }

    /// A call whose head could not be read: all that is known is that it came.
    pub(crate) fn unread(&self) -> Action {
        let facts = ApiFacts {
            method: "OTHER".into(),
            masked_url: String::new(),
            host: "".into(),
            service: None,
        };
        Action { at: self.at, facts: Facts::Api(facts), amount: Amount::Free }
    }

    /// A call that is refused before it is known where it leads: on the record by what it asked for.
    pub(crate) fn unplaced(&self, method: &Method, uri: &Uri) -> Action {
        let facts = ApiFacts {
            method: method_name(method).unwrap_or_else(|| "OTHER".into()),
            masked_url: masked("", uri.path(), uri.query()),
            host: "".into(),
            service: None,
        };
        Action { at: self.at, facts: Facts::Api(facts), amount: Amount::Free }
    }
}

/// The target for the record. A token that is hidden in a path by encoding must not stand there either.
fn masked(origin: &str, path: &str, query: Option<&str>) -> String {
    let hides_token = path.contains('%') && holds_token_text(path.as_bytes());
    mask::target(origin, if hides_token { "/***" } else { path }, query)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_lines_are_taken_apart_to_the_byte() {
        let check = |line: &str, expected: Result<(&str, &str, Option<&str>), NoTarget>| {
            let uri: Uri = line.parse().unwrap();
            let found = target(&Method::GET, &uri).map(|t| (t.alias, t.path, t.query));
            assert_eq!(found, expected, "{line}");
        };
        check("/proxy/stripe/v1/charges?limit=3", Ok(("stripe", "/v1/charges", Some("limit=3"))));
        check("/proxy/stripe", Ok(("stripe", "", None)));
        check("/proxy/stripe/", Ok(("stripe", "/", None)));
        check("/proxy/stripe?", Ok(("stripe", "", Some(""))));
        check("/proxy/x//evil", Ok(("x", "//evil", None)));
        check("/proxy/x@evil/a%20b", Ok(("x@evil", "/a%20b", None)));
        check("/proxy//v1", Ok(("", "/v1", None)));
        check("/proxy", Err(NoTarget::Elsewhere));
        check("/", Err(NoTarget::Elsewhere));
        check("/PROXY/x/y", Err(NoTarget::Elsewhere));
        check("http://example.com/proxy/stripe/v1", Err(NoTarget::ProxyForm));
        check("example.com:443", Err(NoTarget::ProxyForm));
    }
}
