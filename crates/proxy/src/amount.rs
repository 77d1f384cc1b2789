//! What a call costs, as its request says it.
//!
//! Which calls pay is decided on a loose reading of the path (case, slashes, escapes), so that no
//! spelling which an upstream may forgive slips past. Whatever is doubtful is unreadable, and the gate
//! refuses that.
//!
//! Never here: what a response says (`meter`).

pub(crate) mod custom;
mod form;
mod google_ads;
mod json;
mod model;
mod stripe;

use std::sync::Arc;

use agentguard_core::action::{Unpriced, Unreadable};
use agentguard_core::service::ServiceKind;
use agentguard_core::{Amount, Money};
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::request::Parts;
use http::{HeaderMap, Method};

use crate::intents::Touch;
use crate::path;
use crate::routes::Route;
use crate::upgrade::AsksForWebSocket;
pub(crate) use model::{Api, Plan, Pricing, deployment};

/// How one kind of call names its money.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Extractor {
    /// As the operator says.
    Custom(Arc<agentguard_core::extractor::Extractor>),
    Stripe(stripe::Call),
    GoogleAds(google_ads::Call),
    /// By the tokens of a model.
    Model(Api),
    /// Paid for in a way that is not known here.
    Uncounted,
}

/// What a call costs before it is made, and how it is settled after.
#[derive(Debug)]
pub(crate) struct Planned {
    pub(crate) amount: Amount,
    /// Where the answer says what the call cost.
    pub(crate) settling: Option<Settling>,
    /// The body as it has to go out, where that is another.
    pub(crate) rewritten: Option<Bytes>,
}

/// What an answer is read for.
#[derive(Debug)]
pub(crate) enum Settling {
    /// The usage of a model.
    Model(Box<Plan>),
    /// What the operator's extractor finds in it.
    Custom(Arc<agentguard_core::extractor::Extractor>),
}

impl Planned {
    /// A call that costs what it says, and goes out as it is.
    pub(crate) const fn plain(amount: Amount) -> Self {
        Self { amount, settling: None, rewritten: None }
    }
}

/// What is read: everything of a request that may name money. The body is inflated.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Paper<'a> {
    pub(crate) headers: &'a HeaderMap,
    pub(crate) query: Option<&'a str>,
    pub(crate) body: &'a [u8],
}

/// Headers by which some servers take another method than the one on the request line.
const METHOD_OVERRIDES: [&str; 3] =
    ["x-http-method-override", "x-http-method", "x-method-override"];

/// The extractor for a call: the operator's own that fits, or else the one of its kind of service.
/// `path` is the upstream's whole path.
pub(crate) fn extractor(route: &Route, parts: &Parts, path: &str) -> Option<Extractor> {
    let (method, headers) = (&parts.method, &parts.headers);
    let below = path.strip_prefix(route.base_path.as_str()).unwrap_or(path);
    if let Some(own) = custom::find(&route.extractors, method, headers, below) {
        return Some(Extractor::Custom(Arc::clone(own)));
    }
    let kind = route.service.kind;
    // Over a connection of its own, anything could be asked for.
    let is_model = matches!(kind, ServiceKind::Openai | ServiceKind::Anthropic);
    if is_model && parts.extensions.get::<AsksForWebSocket>().is_some() {
        return Some(Extractor::Uncounted);
    }
    of_kind(kind, method, headers, path)
}

fn of_kind(
    kind: ServiceKind,
    method: &Method,
    headers: &HeaderMap,
    path: &str,
) -> Option<Extractor> {
    let writes = matches!(*method, Method::POST | Method::PUT | Method::PATCH);
    if !writes && !overridden(headers) {
        return None;
    }
    match kind {
        ServiceKind::Stripe => stripe::call(&path::loosely(path)).map(Extractor::Stripe),
        ServiceKind::GoogleAds => google_ads::call(&path::loosely(path)).map(Extractor::GoogleAds),
        ServiceKind::Openai | ServiceKind::Anthropic => model::call(kind, &path::loosely(path))
            .map(|api| api.map_or(Extractor::Uncounted, Extractor::Model)),
        ServiceKind::Generic => None,
    }
}

/// Whether a server may take another method than the one on the request line.
fn overridden(headers: &HeaderMap) -> bool {
    METHOD_OVERRIDES.iter().any(|name| headers.contains_key(*name))
}

impl Extractor {
    /// What the call does with a payment intent. `path` is the upstream's whole path.
    pub(crate) fn touch<'a>(&self, path: &'a str) -> Touch<'a> {
        match self {
            Self::Stripe(call) => stripe::touch(*call, path),
            Self::Custom(_) | Self::GoogleAds(_) | Self::Model(_) | Self::Uncounted => {
                Touch::Nothing
            }
        }
    }

    /// The amount and how it is settled, where that is known without the request's body.
    pub(crate) fn without_body(&self) -> Option<Planned> {
        match self {
            Self::Custom(own) => custom::without_body(own),
            Self::Uncounted => Some(Planned::plain(Amount::Unpriced(Unpriced::Call))),
            Self::Stripe(_) | Self::GoogleAds(_) | Self::Model(_) => None,
        }
    }

    /// The amount; what cannot be read for certain is `Unreadable`.
    pub(crate) fn read(&self, paper: Paper<'_>, with: Pricing<'_>) -> Planned {
        if let Some(known) = self.without_body() {
            return known;
        }
        let found = match self {
            Self::Custom(own) => custom::request(own, paper),
            Self::Stripe(call) => stripe::read(*call, paper),
            Self::GoogleAds(call) => google_ads::read(*call, paper),
            Self::Model(api) => {
                return model_plan(*api, paper, with).unwrap_or_else(unreadable);
            }
            // Known without a body; and never free.
            Self::Uncounted => Err(Unreadable::Missing),
        };
        match found {
            Ok(Some(money)) => Planned::plain(Amount::Exact(money)),
            Ok(None) => Planned::plain(Amount::Free),
            Err(problem) => unreadable(problem),
        }
    }
}

fn model_plan(api: Api, paper: Paper<'_>, with: Pricing<'_>) -> Result<Planned, Unreadable> {
    match media(paper)? {
        Media::Json => model::plan(api, paper.body, with),
        Media::Empty => Err(Unreadable::Missing),
        Media::Form => Err(Unreadable::Encoding),
    }
}

fn unreadable(problem: Unreadable) -> Planned {
    Planned::plain(Amount::Unreadable(problem))
}

/// Money, none, or why that cannot be said.
type Reading = Result<Option<Money>, Unreadable>;

/// What a body is, as far as amounts are read from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Media {
    Empty,
    Json,
    Form,
}

/// The body's type by its headers. More than one header or an unknown charset could be read in another
/// way by the upstream.
fn media(paper: Paper<'_>) -> Result<Media, Unreadable> {
    if paper.body.is_empty() {
        return Ok(Media::Empty);
    }
    let mut types = paper.headers.get_all(CONTENT_TYPE).iter();
    let (Some(only), None) = (types.next(), types.next()) else {
        return Err(Unreadable::Encoding);
    };
    let text = only.to_str().map_err(|_| Unreadable::Encoding)?.to_ascii_lowercase();
    let mut parts = text.split(';').map(str::trim);
    let media = match parts.next() {
        Some("application/json") => Media::Json,
        Some("application/x-www-form-urlencoded") => Media::Form,
        Some(_) | None => return Err(Unreadable::Encoding),
    };
    let understood = |part: &str| {
        let charset = part.strip_prefix("charset=").map(|name| name.trim_matches('"'));
        charset.is_none_or(|name| matches!(name, "utf-8" | "utf8" | "us-ascii"))
    };
    if parts.all(understood) { Ok(media) } else { Err(Unreadable::Encoding) }
}

/// A plain non-negative number: digits and nothing else.
fn digits(text: &str) -> Result<u64, Unreadable> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(Unreadable::NotAnAmount);
    }
    text.parse().map_err(|_| Unreadable::NotAnAmount)
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in pairs {
            map.append(*name, HeaderValue::from_static(value));
        }
        map
    }

    #[test]
    fn only_paying_calls_are_read() {
        let none = HeaderMap::new();
        let check = |kind, method: Method, path, expected: bool| {
            let found = of_kind(kind, &method, &none, path);
            assert_eq!(found.is_some(), expected, "{kind} {method} {path}");
        };
        check(ServiceKind::Stripe, Method::POST, "/v1/charges", true);
        check(ServiceKind::Stripe, Method::GET, "/v1/charges", false);
        check(ServiceKind::Generic, Method::POST, "/v1/charges", false);
        check(ServiceKind::Openai, Method::POST, "/v1/chat/completions", true);
        check(ServiceKind::Openai, Method::POST, "/v1/images/generations", true);
        check(ServiceKind::Openai, Method::GET, "/v1/models", false);
        check(
            ServiceKind::GoogleAds,
            Method::POST,
            "/v17/customers/1/campaignBudgets:mutate",
            true,
        );
        check(ServiceKind::GoogleAds, Method::POST, "/v17/customers/1/googleAds:search", false);
        let overriding = headers(&[("x-http-method-override", "POST")]);
        assert!(of_kind(ServiceKind::Stripe, &Method::GET, &overriding, "/v1/charges").is_some());
    }

    #[test]
    fn doubtful_media_are_not_read() {
        let json = ("content-type", "application/json");
        for (pairs, body, expected) in [
            (vec![], "", Ok(Media::Empty)),
            (vec![json], "{}", Ok(Media::Json)),
            (vec![("content-type", "Application/JSON; charset=UTF-8")], "{}", Ok(Media::Json)),
            (vec![("content-type", "application/x-www-form-urlencoded")], "a", Ok(Media::Form)),
            (vec![], "{}", Err(Unreadable::Encoding)),
            (vec![json, json], "{}", Err(Unreadable::Encoding)),
            (vec![("content-type", "text/plain")], "{}", Err(Unreadable::Encoding)),
            (
                vec![("content-type", "multipart/form-data; boundary=x")],
                "x",
                Err(Unreadable::Encoding),
            ),
            (
                vec![("content-type", "application/json; charset=utf-16")],
                "{}",
                Err(Unreadable::Encoding),
            ),
        ] {
            let map = headers(&pairs);
            let paper = Paper { headers: &map, query: None, body: body.as_bytes() };
            assert_eq!(media(paper), expected, "{pairs:?} {body}");
        }
    }
}
