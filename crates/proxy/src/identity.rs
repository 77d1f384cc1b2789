//! Who knocks: where a guard token is looked for, and which headers carry one.
//!
//! Never here: whose token it is. The gate says that.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

use agentguard_core::token::{BODY_CHARS, PREFIX, Token};
use agentguard_gate::Presented;
use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use http::header::{AUTHORIZATION, HOST, ORIGIN};
use http::{HeaderMap, HeaderName, HeaderValue};
use memchr::memmem;

use crate::limits::DECODE_ROUNDS_MAX;
use crate::path::decode_any;

/// The header that carries nothing but a token.
pub(crate) const TOKEN: HeaderName = HeaderName::from_static("x-agentguard-token");
/// Where some services take their key.
pub(crate) const API_KEY: HeaderName = HeaderName::from_static("x-api-key");
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Decodes with and without padding: what some server would read must be seen here too.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// The token that was shown, looked for in the order of 10-gate.md.
pub(crate) fn presented(headers: &HeaderMap) -> Presented {
    let mut own = headers.get_all(TOKEN).iter();
    if let Some(value) = own.next() {
        // Two tokens: whose request would it be?
        return if own.next().is_some() { Presented::Garbage } else { read(value.as_bytes()) };
    }
    let authorization = || headers.get_all(AUTHORIZATION).iter();
    let bearer = authorization().filter_map(|value| after_scheme(value, b"bearer"));
    let api_key = headers.get_all(API_KEY).iter().map(HeaderValue::as_bytes);
    if let Some(token) = bearer.chain(api_key).find(|text| claims(text)) {
        return read(token);
    }
    let basic = authorization().filter_map(basic);
    basic
        .map(|(user, password)| if claims(&user) { user } else { password })
        .find(|text| claims(text))
        .map_or(Presented::Nothing, |text| read(&text))
}

/// Where a guard token stood, and so what it stood for.
#[derive(PartialEq, Eq)]
pub(crate) enum Place {
    /// There is none.
    Nowhere,
    /// Only in `X-AgentGuard-Token`: the key's place is free, or holds the agent's own.
    OwnHeader,
    Bearer,
    ApiKey,
    /// As the user name of Basic authentication, beside this password.
    BasicUser {
        password: Vec<u8>,
    },
    /// As the password, beside this user name.
    BasicPassword {
        user: Vec<u8>,
    },
}

/// Where the token stands. The places that are meant for the service's key come first: a token there
/// is in that key's stead, even if the agent shows it in its own header too.
pub(crate) fn place(headers: &HeaderMap) -> Place {
    let authorization = || headers.get_all(AUTHORIZATION).iter();
    if authorization().filter_map(|value| after_scheme(value, b"bearer")).any(claims) {
        return Place::Bearer;
    }
    if headers.get_all(API_KEY).iter().any(|value| claims(value.as_bytes())) {
        return Place::ApiKey;
    }
    for (user, password) in authorization().filter_map(basic) {
        if claims(&user) {
            return Place::BasicUser { password };
        }
        if claims(&password) {
            return Place::BasicPassword { user };
        }
    }
    if headers.contains_key(TOKEN) { Place::OwnHeader } else { Place::Nowhere }
}

/// Whether a page in a browser sent it, or may have: a page whose name was pointed at this machine
/// after it was loaded sends no `Origin`, but it names itself in `Host`.
pub(crate) fn is_from_web_page(headers: &HeaderMap) -> bool {
    headers.contains_key(ORIGIN)
        || headers.get(HOST).is_some_and(|host| !host.to_str().is_ok_and(is_no_name))
        || headers.get_all(SEC_FETCH_SITE).iter().any(|value| {
            let site = value.as_bytes();
            site.eq_ignore_ascii_case(b"cross-site") || site.eq_ignore_ascii_case(b"same-site")
        })
}

/// Whether a header holds a guard token: as its name, or in its value, plain, percent-encoded or in
/// Basic credentials.
pub(crate) fn holds_token(name: &HeaderName, value: &HeaderValue) -> bool {
    if holds_token_text(name.as_str().as_bytes()) || holds_token_text(value.as_bytes()) {
        return true;
    }
    let encoded = after_scheme(value, b"basic").and_then(|text| BASE64.decode(text).ok());
    encoded.is_some_and(|text| holds_token_text(&text))
        || basic(value).is_some_and(|(user, password)| claims(&user) || claims(&password))
}

/// Whether a text holds a guard token, plain or percent-encoded, also more than once.
pub(crate) fn holds_token_text(text: &[u8]) -> bool {
    // Most names and values are shorter than a token, and decoding makes none longer.
    if text.len() < PREFIX.len().saturating_add(BODY_CHARS) {
        return false;
    }
    if holds_plainly(text) {
        return true;
    }
    if !text.contains(&b'%') {
        return false;
    }
    let mut text = decode_any(text);
    for _ in 0..DECODE_ROUNDS_MAX {
        if holds_plainly(&text) {
            return true;
        }
        let next = decode_any(&text);
        if next == text {
            return false;
        }
        text = next;
    }
    false
}

/// Made once: making it costs more than most searches.
static FINDER: LazyLock<memmem::Finder<'static>> =
    LazyLock::new(|| memmem::Finder::new(PREFIX.as_bytes()));

fn holds_plainly(text: &[u8]) -> bool {
    FINDER.find_iter(text).any(|at| {
        let body = text.get(at.saturating_add(PREFIX.len())..).unwrap_or_default();
        body.iter().take_while(|byte| byte.is_ascii_alphanumeric()).count() >= BODY_CHARS
    })
}

/// Whether a `Host` is an address or `localhost`: no page can have either as its own name.
fn is_no_name(host: &str) -> bool {
    if let Some(rest) = host.strip_prefix('[') {
        return rest.split_once(']').is_some_and(|(address, port)| {
            address.parse::<Ipv6Addr>().is_ok() && (port.is_empty() || port.starts_with(':'))
        });
    }
    let name = host.split(':').next().unwrap_or_default();
    let name = name.strip_suffix('.').unwrap_or(name);
    name.eq_ignore_ascii_case("localhost") || name.parse::<Ipv4Addr>().is_ok()
}

fn claims(text: &[u8]) -> bool {
    text.starts_with(PREFIX.as_bytes())
}

fn read(text: &[u8]) -> Presented {
    let token = std::str::from_utf8(text).ok().and_then(Token::parse);
    token.map_or(Presented::Garbage, Presented::Token)
}

fn after_scheme<'a>(value: &'a HeaderValue, scheme: &[u8]) -> Option<&'a [u8]> {
    let (name, rest) = value.as_bytes().split_at_checked(scheme.len())?;
    let (b' ' | b'\t', rest) = rest.split_first()? else { return None };
    name.eq_ignore_ascii_case(scheme).then(|| rest.trim_ascii())
}

fn basic(value: &HeaderValue) -> Option<(Vec<u8>, Vec<u8>)> {
    let mut user = BASE64.decode(after_scheme(value, b"basic")?).ok()?;
    let Some(colon) = user.iter().position(|byte| *byte == b':') else {
        return Some((user, Vec::new()));
    };
    let password = user.split_off(colon);
    Some((user, password.get(1..).unwrap_or_default().to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};

    const A: &str = "ag_live_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
    const B: &str = "ag_live_BBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBB";

    fn headers(pairs: &[(&str, &[u8])]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in pairs {
            let name: HeaderName = name.parse().unwrap();
            map.append(name, HeaderValue::from_bytes(value).unwrap());
        }
        map
    }

    fn check(pairs: &[(&str, &[u8])], expected: &str) {
        let found = match presented(&headers(pairs)) {
            Presented::Nothing => "nothing".to_owned(),
            Presented::Garbage => "garbage".to_owned(),
            Presented::Token(token) => token.expose().to_owned(),
        };
        assert_eq!(found, expected, "{pairs:?}");
    }

    #[test]
    fn tokens_are_found_in_the_order_of_the_specification() {
        let bearer_b = format!("Bearer {B}");
        let basic = |text: String| format!("Basic {}", STANDARD.encode(text));
        check(&[], "nothing");
        check(&[("x-agentguard-token", A.as_bytes()), ("authorization", bearer_b.as_bytes())], A);
        check(&[("authorization", bearer_b.as_bytes()), ("x-api-key", A.as_bytes())], B);
        check(&[("x-api-key", A.as_bytes())], A);
        check(&[("authorization", format!("bearer  {A}").as_bytes())], A);
        check(&[("authorization", basic(format!("{A}:")).as_bytes())], A);
        check(&[("authorization", basic(format!("user:{A}")).as_bytes())], A);
        check(&[("authorization", basic(A.to_owned()).as_bytes())], A);
        let unpadded = format!("Basic {}", STANDARD_NO_PAD.encode(format!("a:{A}")));
        check(&[("authorization", unpadded.as_bytes())], A);
        check(&[("authorization", b"Bearer sk_live_1"), ("x-api-key", b"sk-ant-1")], "nothing");
        check(&[("authorization", b"Bearer sk_live_1"), ("x-api-key", A.as_bytes())], A);
    }

    #[test]
    fn what_claims_to_be_a_token_and_is_none_is_garbage() {
        check(&[("x-agentguard-token", b"")], "garbage");
        check(&[("x-agentguard-token", b"hello")], "garbage");
        check(&[("x-agentguard-token", b"ag_live_\xff")], "garbage");
        check(
            &[("x-agentguard-token", A.as_bytes()), ("x-agentguard-token", A.as_bytes())],
            "garbage",
        );
        check(&[("authorization", b"Bearer ag_live_short")], "garbage");
        check(&[("x-api-key", b"ag_live_")], "garbage");
        check(&[("authorization", format!("Bearer {A}x").as_bytes())], "garbage");
    }

    #[test]
    fn tokens_are_noticed_wherever_they_stand_in_a_header() {
        let check = |name: &str, value: &str, expected: bool| {
            let value = HeaderValue::from_str(value).unwrap();
            assert_eq!(holds_token(&name.parse().unwrap(), &value), expected, "{name}: {value:?}");
        };
        check("cookie", &format!("a=1; t={A}; b=2"), true);
        check("x-other", &format!("ag_live_ {A}"), true);
        check("authorization", &format!("Basic {}", STANDARD.encode(format!("x:{A}"))), true);
        check("authorization", "Bearer sk_live_123", false);
        check("cookie", "a=ag_live_short", false);
        check("user-agent", "agent ag_live", false);
        let encoded = A.replacen("ag_", "%61%67%5f", 1);
        let twice = encoded.replace('%', "%25");
        check("cookie", &format!("t={encoded}"), true);
        check("referer", &format!("http://x/?t={twice}"), true);
        check("cookie", "t=%61g_live_short; u=100%", false);
        check("authorization", &format!("basic {}", STANDARD.encode(format!("x{A}y:z"))), true);
        check("authorization", &format!("Basic {}", STANDARD.encode(&encoded)), true);
        check("x-api-key", &format!("Basic {}", STANDARD.encode(format!("x:{A}"))), true);
        check(&A.to_ascii_lowercase(), "1", true);
    }

    #[test]
    fn web_pages_give_themselves_away() {
        for (pairs, expected) in [
            (headers(&[]), false),
            (headers(&[("origin", b"https://evil.example")]), true),
            (headers(&[("origin", b"null")]), true),
            (headers(&[("sec-fetch-site", b"cross-site")]), true),
            (headers(&[("sec-fetch-site", b"same-site")]), true),
            (headers(&[("sec-fetch-site", b"none")]), false),
            (headers(&[("host", b"127.0.0.1:8080")]), false),
            (headers(&[("host", b"LOCALHOST.")]), false),
            (headers(&[("host", b"[::1]:8080")]), false),
            (headers(&[("host", b"evil.example:8080")]), true),
            (headers(&[("host", b"127.0.0.1.evil.example")]), true),
            (headers(&[("host", b"127.1")]), true),
            (headers(&[("host", b"[::1]evil.example")]), true),
            (headers(&[("host", b"localhost\xff")]), true),
        ] {
            assert_eq!(is_from_web_page(&pairs), expected, "{pairs:?}");
        }
    }
}
