//! The verdict in advance: an action in, every rule that was looked at out, nothing done.

use std::sync::Arc;

use agentguard_core::action::{ApiFacts, WebFacts};
use agentguard_core::explain::Explanation;
use agentguard_core::money::parse_micros;
use agentguard_core::service::{Service, ServiceKind};
use agentguard_core::{
    Action, AgentStatus, Amount, Currency, Door, Facts, Money, Reason, mask, wire,
};
use agentguard_gate::Directory;
use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use url::Url;

use crate::agents;
use crate::body::Body;
use crate::error::ApiError;
use crate::services;
use crate::state::Admin;

const NO_AMOUNT: &str = "without `amount` this is judged as a call that costs nothing; the door reads a call's cost from its body, which is not asked for here";

/// A call through `/proxy/…` names its service; where none is known, only the rules can be asked.
const NO_SERVICE: &str = "no service has this host, so as /proxy/ALIAS/… the call is refused \
    (SERVICE_UNKNOWN); this is what the rules alone say. Name the service if one is meant";

/// What an agent would do.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Question {
    door: Option<String>,
    /// By name or id. None means the only one.
    agent: Option<String>,
    method: Option<String>,
    url: Option<String>,
    service: Option<String>,
    amount: Option<String>,
    currency: Option<String>,
}

/// The answer.
#[derive(Debug, Serialize)]
pub(crate) struct Answer {
    agent: String,
    door: Door,
    service: Option<String>,
    target: String,
    /// Why the destination guard refuses it, if it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    destination: Option<String>,
    /// What else the asker should know.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<&'static str>,
    #[serde(flatten)]
    explanation: Explanation,
}

/// Where a call goes.
struct Target {
    url: Url,
    service: Found,
}

/// Whether a service answers for it.
enum Found {
    Service(String),
    /// None is named, and none has this host.
    None,
    /// One is named that does not exist.
    Unknown(String),
}

pub(crate) async fn explain(
    State(admin): State<Admin>,
    Body(asked): Body<Question>,
) -> Result<Json<Answer>, ApiError> {
    let gate = admin.gate();
    let directory = gate.directory();
    let entry = match &asked.agent {
        Some(wanted) => agents::find(&admin, wanted)?,
        None => directory.sole().cloned().ok_or_else(|| {
            ApiError::invalid("agent", "is missing, and there is not exactly one")
        })?,
    };
    let door = door(asked.door.as_deref())?;
    let target = target(&directory, &asked, door)?;
    let amount = amount(&asked)?;
    let action = Action { at: gate.now(), facts: facts(&asked, door, &target)?, amount };
    let mut explanation = gate.explain(&entry, &action);
    // The gate looks at these before any rule; the last one here is the first one there.
    let closed = match &target.service {
        Found::Service(alias) => {
            let service = directory.service(alias).map(|service| &**service);
            admin.upkeep().closed_destination(service.map_or(&target.url, |s| &s.base_url), service)
        }
        Found::None => admin.upkeep().closed_destination(&target.url, None),
        Found::Unknown(_) => None,
    };
    if closed.is_some() && !gate_is_stopped(&explanation) {
        refuse(&mut explanation, Reason::DestinationBlocked);
    }
    if matches!(target.service, Found::Unknown(_)) && !gate_is_stopped(&explanation) {
        refuse(&mut explanation, Reason::ServiceUnknown);
    }
    if entry.agent.status == AgentStatus::Revoked {
        refuse(&mut explanation, Reason::AgentRevoked);
    }
    let note = match target.service {
        Found::None if door == Door::Api => Some(NO_SERVICE),
        Found::Service(ref alias) if asked.amount.is_none() && action.method() != Some("GET") => {
            let service = directory.service(alias);
            let pays =
                service.is_some_and(|s| s.kind != ServiceKind::Generic || !s.extractors.is_empty());
            pays.then_some(NO_AMOUNT)
        }
        Found::None | Found::Service(_) | Found::Unknown(_) => None,
    };
    let service = match target.service {
        Found::Service(alias) | Found::Unknown(alias) => Some(alias),
        Found::None => None,
    };
    Ok(Json(Answer {
        agent: entry.agent.name.clone(),
        door,
        service,
        target: action.target().to_owned(),
        destination: closed,
        note,
        explanation,
    }))
}

fn door(given: Option<&str>) -> Result<Door, ApiError> {
    let name = given.unwrap_or(Door::Api.name());
    match Door::from_name(name) {
        Some(door @ (Door::Api | Door::Web)) => Ok(door),
        Some(door @ (Door::Exec | Door::Browser | Door::Pipe)) => {
            Err(ApiError::invalid("door", format!("`{door}` cannot be explained here yet")))
        }
        None => Err(ApiError::invalid("door", "must be api or web")),
    }
}

fn target(directory: &Directory, asked: &Question, door: Door) -> Result<Target, ApiError> {
    let text = asked.url.as_deref().ok_or_else(|| ApiError::invalid("url", "is missing"))?;
    as_sent(text)?;
    if let Some(rest) = text.strip_prefix("/proxy/") {
        return mapped(directory, rest);
    }
    let url = services::url("url", text)?;
    if url.host_str().is_none_or(str::is_empty) || !matches!(url.scheme(), "http" | "https") {
        return Err(ApiError::invalid("url", "must be an http or https address with a host"));
    }
    if let Some(rest) = url.path().strip_prefix("/proxy/").filter(|_| is_loopback(&url)) {
        let query = url.query().map(|query| format!("?{query}")).unwrap_or_default();
        return mapped(directory, &format!("{rest}{query}"));
    }
    let service = match &asked.service {
        Some(alias) => match directory.service(alias) {
            Some(service) => Found::Service(service.alias.clone()),
            None => Found::Unknown(alias.clone()),
        },
        None if door == Door::Api => by_host(&directory.data().services, &url),
        None => Found::None,
    };
    Ok(Target { url, service })
}

/// The door judges a path as it came, but reading a URL rewrites `..` away, and a verdict about
/// another path would be worse than none. What cannot be explained as it stands is not explained.
fn as_sent(text: &str) -> Result<(), ApiError> {
    if text.chars().any(char::is_control) {
        return Err(ApiError::invalid("url", "must not hold control characters"));
    }
    let before_query = text.split(['?', '#']).next().unwrap_or_default().to_ascii_lowercase();
    if ["\\", "%2f", "%5c", "%25"].iter().any(|part| before_query.contains(part)) {
        let why = "give the URL without backslashes and encoded slashes or percent signs";
        return Err(ApiError::invalid("url", why));
    }
    let path = before_query.split_once("://").map_or(before_query.as_str(), |(_, rest)| rest);
    let plain = path.replace("%2e", ".");
    // `..;x=1` is `..` to servers that know path parameters.
    let names = plain.split('/').map(|segment| segment.split(';').next().unwrap_or_default());
    if names.into_iter().any(|name| matches!(name, "." | "..")) {
        return Err(ApiError::invalid("url", "give the URL without `.` or `..` segments"));
    }
    if path.contains("//") {
        return Err(ApiError::invalid("url", "give the URL without `//` in its path"));
    }
    Ok(())
}

/// `/proxy/<alias>/<path>`, as agents call it.
fn mapped(directory: &Directory, rest: &str) -> Result<Target, ApiError> {
    let (alias, path) = rest.split_once('/').unwrap_or((rest, ""));
    let Some(service) = directory.service(alias) else {
        let url = services::url("url", "http://unknown.invalid/")?;
        return Ok(Target { url, service: Found::Unknown(alias.to_owned()) });
    };
    let mut url = service.base_url.clone();
    let base = url.path().trim_end_matches('/').to_owned();
    let (path, query) = path.split_once('?').map_or((path, None), |(p, q)| (p, Some(q)));
    url.set_path(&format!("{base}/{path}"));
    url.set_query(query);
    Ok(Target { url, service: Found::Service(service.alias.clone()) })
}

/// The service of the same host and port whose base path is the longest that fits.
fn by_host(services: &[Service], url: &Url) -> Found {
    let same_place = |service: &&Service| {
        service.host() == url.host_str().unwrap_or_default().to_ascii_lowercase()
            && service.base_url.port_or_known_default() == url.port_or_known_default()
            && url.path().starts_with(service.base_url.path().trim_end_matches('/'))
    };
    let best = services.iter().filter(same_place).max_by_key(|s| s.base_url.path().len());
    best.map_or(Found::None, |service| Found::Service(service.alias.clone()))
}

fn facts(asked: &Question, door: Door, target: &Target) -> Result<Facts, ApiError> {
    let method = asked.method.as_deref().unwrap_or("GET").to_ascii_uppercase();
    if method.is_empty() || method.len() > 32 || !method.bytes().all(|b| b.is_ascii_uppercase()) {
        return Err(ApiError::invalid("method", "must be an HTTP method such as POST"));
    }
    let url = &target.url;
    let host: Arc<str> = url.host_str().unwrap_or_default().to_ascii_lowercase().into();
    let masked_url = mask::target(&url.origin().ascii_serialization(), url.path(), url.query());
    let service = match &target.service {
        Found::Service(alias) => Some(Arc::from(alias.as_str())),
        Found::None | Found::Unknown(_) => None,
    };
    Ok(match door {
        Door::Web => Facts::Web(WebFacts { method: method.into(), masked_url, host }),
        Door::Api | Door::Exec | Door::Browser | Door::Pipe => {
            Facts::Api(ApiFacts { method: method.into(), masked_url, host, service })
        }
    })
}

fn amount(asked: &Question) -> Result<Amount, ApiError> {
    let code = asked.currency.as_deref().unwrap_or(Currency::USD.code());
    let currency = Currency::parse(code)
        .ok_or_else(|| ApiError::invalid("currency", "must be three letters such as EUR"))?;
    let Some(text) = &asked.amount else { return Ok(Amount::Free) };
    let micros = parse_micros(text)
        .map_err(|error| ApiError::invalid("amount", format!("`{text}` {error}")))?;
    Money::new(micros, currency)
        .map(Amount::Exact)
        .ok_or_else(|| ApiError::invalid("amount", "is too large"))
}

fn refuse(explanation: &mut Explanation, reason: Reason) {
    let row = wire::row(reason);
    explanation.verdict = "block";
    explanation.code = Some(row.code);
    explanation.remedy = Some(row.remedy);
}

/// A stop comes before everything but identity.
fn gate_is_stopped(explanation: &Explanation) -> bool {
    let stops = [Reason::KillSwitchGlobal, Reason::KillSwitchAgent];
    stops.into_iter().any(|reason| explanation.code == Some(wire::row(reason).code))
}

fn is_loopback(url: &Url) -> bool {
    matches!(url.host_str(), Some("127.0.0.1" | "localhost" | "[::1]"))
}
