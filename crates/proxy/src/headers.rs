//! Which headers pass: hop-by-hop ones, guard tokens and `X-AgentGuard-…` do not.
//!
//! Never here: values that are changed. A header passes to the byte or is removed.

use http::Version;
use http::header::{
    CONNECTION, CONTENT_LENGTH, EXPECT, HOST, HeaderMap, HeaderName, HeaderValue, TE,
    TRANSFER_ENCODING, UPGRADE, VIA,
};

use crate::identity::holds_token;

const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const OWN_PREFIX: &str = "x-agentguard-";
const PROXY_PREFIX: &str = "proxy-";

/// Takes out of a request's headers what must not go upstream.
pub(crate) fn clean_request(headers: &mut HeaderMap) {
    let mut gone = named_by_connection(headers);
    for (name, value) in &*headers {
        if is_hop_by_hop(name)
            || name.as_str().starts_with(OWN_PREFIX)
            || (*name == TE && !is_trailers(value))
            || *name == EXPECT
            || holds_token(name, value)
        {
            gone.push(name.clone());
        }
    }
    let kept = untainted(headers, &gone);
    for name in &gone {
        headers.remove(name);
    }
    for (name, value) in kept {
        headers.append(name, value);
    }
}

/// Takes out of a response's headers what belongs to the upstream's connection, and what only the
/// gate may say. `Trailer` stays: it announces fields that pass.
pub(crate) fn clean_response(headers: &mut HeaderMap) {
    let mut gone = named_by_connection(headers);
    let ours = |name: &HeaderName| name.as_str().starts_with(OWN_PREFIX);
    gone.extend(headers.keys().filter(|name| is_hop_by_hop(name) || ours(name)).cloned());
    for name in &gone {
        headers.remove(name);
    }
}

/// Whether the request names `mark` in its `Via`: it has been here before.
pub(crate) fn came_by(headers: &HeaderMap, mark: &str) -> bool {
    headers.get_all(VIA).iter().any(|value| {
        let mut words = value.as_bytes().split(|byte| matches!(byte, b',' | b' ' | b'\t'));
        words.any(|word| word.eq_ignore_ascii_case(mark.as_bytes()))
    })
}

/// A transfer coding other than plain `chunked` cannot be passed on as it is.
pub(crate) fn is_plainly_framed(headers: &HeaderMap) -> bool {
    let mut codings = headers.get_all(TRANSFER_ENCODING).iter();
    match (codings.next(), codings.next()) {
        (None, _) => true,
        (Some(only), None) => only.as_bytes().eq_ignore_ascii_case(b"chunked"),
        (Some(_), Some(_)) => false,
    }
}

/// Whether the request says in one way for which host it is: two could be read in two ways, and
/// HTTP/1.1 asks for one.
pub(crate) fn names_one_host(version: Version, headers: &HeaderMap) -> bool {
    match headers.get_all(HOST).iter().count() {
        0 => version < Version::HTTP_11,
        1 => true,
        _ => false,
    }
}

fn is_hop_by_hop(name: &HeaderName) -> bool {
    *name == CONNECTION
        || *name == TRANSFER_ENCODING
        || *name == UPGRADE
        || *name == KEEP_ALIVE
        || name.as_str().starts_with(PROXY_PREFIX)
}

fn is_trailers(value: &HeaderValue) -> bool {
    value.as_bytes().trim_ascii().eq_ignore_ascii_case(b"trailers")
}

/// Headers that `Connection` names. Length and host stay: they say what the request is.
fn named_by_connection(headers: &HeaderMap) -> Vec<HeaderName> {
    let lines = headers.get_all(CONNECTION).iter();
    lines
        .flat_map(|line| line.as_bytes().split(|byte| *byte == b','))
        .map(<[u8]>::trim_ascii)
        .filter(|word| {
            !word.eq_ignore_ascii_case(b"close") && !word.eq_ignore_ascii_case(b"keep-alive")
        })
        .filter_map(|word| HeaderName::from_bytes(word).ok())
        .filter(|name| *name != CONTENT_LENGTH && *name != HOST && *name != TE && *name != VIA)
        .collect()
}

/// Further values of a header whose other value was a guard token: the agent's own credential beside
/// a guard token still passes.
fn untainted(headers: &HeaderMap, gone: &[HeaderName]) -> Vec<(HeaderName, HeaderValue)> {
    let mut kept = Vec::new();
    for name in gone {
        if headers.get_all(name).iter().nth(1).is_none() {
            continue;
        }
        let tainted = headers.get_all(name).iter().any(|value| holds_token(name, value));
        let own = is_hop_by_hop(name) || name.as_str().starts_with(OWN_PREFIX);
        let seen = kept.iter().any(|(other, _)| other == name);
        if tainted && !own && !seen {
            let clean = headers.get_all(name).iter().filter(|value| !holds_token(name, value));
            kept.extend(clean.map(|value| (name.clone(), value.clone())));
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&str, &str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in pairs {
            let name: HeaderName = name.parse().unwrap();
            map.append(name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        map
    }

    fn check(before: &[(&str, &str)], after: &[(&str, &str)]) {
        let mut headers = map(before);
        clean_request(&mut headers);
        let mut left: Vec<_> = headers
            .iter()
            .map(|(name, value)| (name.as_str(), std::str::from_utf8(value.as_bytes()).unwrap()))
            .collect();
        left.sort_unstable();
        assert_eq!(left, after, "{before:?}");
    }

    #[test]
    fn only_end_to_end_headers_pass() {
        let token = "ag_live_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
        check(
            &[("accept", "*/*"), ("x-é", "1")]
                .map(|(n, v)| (if n == "x-é" { "x-e" } else { n }, v)),
            &[("accept", "*/*"), ("x-e", "1")],
        );
        check(
            &[("connection", "keep-alive, X-Secret , close"), ("x-secret", "1"), ("a", "b")],
            &[("a", "b")],
        );
        check(
            &[
                ("keep-alive", "5"),
                ("proxy-authorization", "x"),
                ("proxy-x", "y"),
                ("upgrade", "h2c"),
            ],
            &[],
        );
        check(
            &[("te", "trailers"), ("trailer", "x-sum")],
            &[("te", "trailers"), ("trailer", "x-sum")],
        );
        check(&[("te", "gzip")], &[]);
        check(&[("transfer-encoding", "chunked"), ("expect", "100-continue")], &[]);
        check(&[("x-agentguard-token", token), ("x-agentguard-anything", "1")], &[]);
        check(&[("authorization", "Bearer sk_live_1")], &[("authorization", "Bearer sk_live_1")]);
        let bearer = format!("Bearer {token}");
        check(&[("authorization", &bearer), ("x-api-key", token), ("cookie", token)], &[]);
        check(
            &[("authorization", &bearer), ("authorization", "Basic eDp5")],
            &[("authorization", "Basic eDp5")],
        );
        // A length may not be talked away: it frames the body.
        check(
            &[("connection", "content-length, host"), ("content-length", "3"), ("host", "x")],
            &[("content-length", "3"), ("host", "x")],
        );
    }

    #[test]
    fn a_request_that_came_by_is_known_by_its_via() {
        for (via, expected) in [
            ("1.1 agentguard-0011aabb", true),
            ("1.1 other, 1.1 agentguard-0011aabb", true),
            ("1.1 AgentGuard-0011AABB (x)", true),
            ("1.1 agentguard-0011aabc", false),
            ("1.1 agentguard-0011aabb0", false),
        ] {
            assert_eq!(came_by(&map(&[("via", via)]), "agentguard-0011aabb"), expected, "{via}");
        }
    }

    #[test]
    fn only_plain_chunked_is_understood() {
        for (codings, expected) in [
            (vec![], true),
            (vec![("transfer-encoding", "chunked")], true),
            (vec![("transfer-encoding", "Chunked")], true),
            (vec![("transfer-encoding", "gzip, chunked")], false),
            (vec![("transfer-encoding", "chunked"), ("transfer-encoding", "chunked")], false),
            (vec![("transfer-encoding", "identity")], false),
        ] {
            assert_eq!(is_plainly_framed(&map(&codings)), expected, "{codings:?}");
        }
    }
}
