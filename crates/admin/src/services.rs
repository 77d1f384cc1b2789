//! Services: the aliases that agents reach APIs by.

use agentguard_core::extractor::ExtractorSpec;
use agentguard_core::service::{BUILT_IN, Service, ServiceKind};
use agentguard_core::{Credential, Secret};
use agentguard_gate::{Actor, Change, CredentialChange, Directory, from_environment};
use axum::extract::{Path, State};
use axum::{Extension, Json};
use serde::{Deserialize, Serialize};
use url::Url;

use crate::body::{Body, List};
use crate::error::ApiError;
use crate::limits::{PATH_BYTES_MAX, THINGS_MAX};
use crate::state::Admin;

/// What is to be changed. What is not given stays; an empty text takes a value away.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ServicePatch {
    /// If it is given, it must be the alias of the path.
    alias: Option<String>,
    base_url: Option<String>,
    kind: Option<String>,
    allow_private: Option<bool>,
    insecure_skip_tls_verify: Option<bool>,
    allow_websocket: Option<bool>,
    ca_file: Option<String>,
    /// Taken in and never given out.
    credential: Option<Given>,
    /// Another source of the same: a variable of the gate's environment.
    credential_env: Option<String>,
    timeout_sec: Option<u32>,
    /// All of them.
    extractors: Option<Vec<ExtractorSpec>>,
}

/// A credential on its way in.
#[derive(Debug)]
struct Given(Secret<String>);

impl<'de> Deserialize<'de> for Given {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from).map(|text| Self(Secret::new(text)))
    }
}

/// A service as it is shown: of its credential only where that is from.
#[derive(Debug, Serialize)]
pub(crate) struct Shown {
    #[serde(flatten)]
    service: Service,
    /// `stored`, `env`, `unusable`, or none.
    credential: Option<&'static str>,
    /// What is wrong with an unusable one.
    #[serde(skip_serializing_if = "Option::is_none")]
    credential_problem: Option<String>,
    /// It was for another origin than the service leads to now, and is gone.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    credential_dropped: bool,
}

impl Shown {
    fn of(service: Service, directory: &Directory) -> Self {
        let state = directory.credential(&service.alias);
        Self {
            credential: state.name(),
            credential_problem: state.problem().map(ToString::to_string),
            credential_dropped: false,
            service,
        }
    }
}

pub(crate) async fn list(State(admin): State<Admin>) -> Json<List<Shown>> {
    let directory = admin.gate().directory();
    let mut services = directory.data().services.clone();
    services.sort_by(|a, b| a.alias.cmp(&b.alias));
    let shown = services.into_iter().map(|service| Shown::of(service, &directory));
    Json(List::whole(shown.collect()))
}

pub(crate) async fn show(
    State(admin): State<Admin>,
    Path(alias): Path<String>,
) -> Result<Json<Shown>, ApiError> {
    let directory = admin.gate().directory();
    let found = directory.service(&alias);
    let service = found.ok_or_else(|| ApiError::not_found("service", &alias))?;
    Ok(Json(Shown::of((**service).clone(), &directory)))
}

pub(crate) async fn put(
    State(admin): State<Admin>,
    Extension(actor): Extension<Actor>,
    Path(alias): Path<String>,
    Body(mut patch): Body<ServicePatch>,
) -> Result<Json<Shown>, ApiError> {
    let _one = admin.one_change().await;
    let (service, credential, credential_dropped) = {
        let directory = admin.gate().directory();
        let old = directory.service(&alias);
        if old.is_none() && directory.data().services.len() >= THINGS_MAX {
            return Err(ApiError::invalid("alias", format!("there are {THINGS_MAX} already")));
        }
        let old = old.map(|service| (**service).clone());
        let (old_origin, had) = (old.as_ref().map(Service::origin), directory.credential(&alias));
        let mut service = changed(old, alias, &mut patch)?;
        let moved = old_origin.is_some_and(|origin| origin != service.origin());
        let credential = credential(&mut service, patch, moved)?;
        let kept = matches!(credential, CredentialChange::Keep) && service.credential_env.is_none();
        (service, credential, moved && kept && had.name().is_some())
    };
    let change = Change::PutService { service: service.clone(), credential };
    admin.blocking(move |gate| gate.change(&actor, change)).await??;
    let shown = Shown::of(service, &admin.gate().directory());
    Ok(Json(Shown { credential_dropped, ..shown }))
}

pub(crate) async fn remove(
    State(admin): State<Admin>,
    Extension(actor): Extension<Actor>,
    Path(alias): Path<String>,
) -> Result<Json<Shown>, ApiError> {
    let _one = admin.one_change().await;
    let removed = {
        let directory = admin.gate().directory();
        let found = directory.service(&alias);
        let service = found.ok_or_else(|| ApiError::not_found("service", &alias))?;
        Shown::of((**service).clone(), &directory)
    };
    admin.blocking(move |gate| gate.change(&actor, Change::RemoveService(alias))).await??;
    Ok(Json(removed))
}

fn changed(
    old: Option<Service>,
    alias: String,
    patch: &mut ServicePatch,
) -> Result<Service, ApiError> {
    if patch.alias.take().is_some_and(|given| given != alias) {
        return Err(ApiError::invalid("alias", "is not the one of the path"));
    }
    let base_url = patch.base_url.take().map(|text| url("base_url", &text)).transpose()?;
    let kind = patch.kind.take().map(|name| kind(&name)).transpose()?;
    let mut service = match old {
        Some(service) => service,
        None => {
            let missing = || {
                let why = "is missing, and there is no service of this alias yet";
                ApiError::invalid("base_url", why)
            };
            blank(alias, base_url.clone().ok_or_else(missing)?)
        }
    };
    service.base_url = base_url.unwrap_or(service.base_url);
    service.kind = kind.unwrap_or(service.kind);
    service.allow_private = patch.allow_private.unwrap_or(service.allow_private);
    service.insecure_skip_tls_verify =
        patch.insecure_skip_tls_verify.unwrap_or(service.insecure_skip_tls_verify);
    service.allow_websocket = patch.allow_websocket.unwrap_or(service.allow_websocket);
    if let Some(file) = patch.ca_file.take() {
        service.ca_file = ca_file(file)?;
    }
    service.timeout_sec = patch.timeout_sec.or(service.timeout_sec);
    service.extractors = patch.extractors.take().unwrap_or(service.extractors);
    // Its messages begin with the field.
    service.check().map_err(|error| ApiError::invalid_text(format!("parameter {error}")))?;
    Ok(service)
}

/// What becomes of the service's credential. There is one source of it: the store or a variable.
fn credential(
    service: &mut Service,
    patch: ServicePatch,
    moved: bool,
) -> Result<CredentialChange, ApiError> {
    let named = patch.credential_env.map(variable).transpose()?;
    let given = patch.credential.map(|Given(text)| text);
    let asked_to_remove = given.as_ref().is_some_and(|text| text.expose().is_empty());
    if moved || named.is_some() || given.is_some() {
        // One for another origin must not follow the service there.
        service.credential_env = None;
    }
    match (given.filter(|text| !text.expose().is_empty()), named.flatten()) {
        (Some(_), Some(_)) => {
            let why = "give it, or the variable that holds it, not both";
            Err(ApiError::invalid("credential", why))
        }
        (Some(text), None) => Credential::parse(text)
            .map(CredentialChange::Set)
            .map_err(|error| ApiError::invalid("credential", error)),
        (None, Some(name)) => {
            from_environment(&name).map_err(|error| ApiError::invalid("credential_env", error))?;
            service.credential_env = Some(name);
            Ok(CredentialChange::Remove)
        }
        (None, None) if asked_to_remove => Ok(CredentialChange::Remove),
        (None, None) => Ok(CredentialChange::Keep),
    }
}

fn blank(alias: String, base_url: Url) -> Service {
    let built_in = BUILT_IN.iter().find(|(known, _, _)| *known == alias);
    Service {
        kind: built_in.map_or(ServiceKind::Generic, |(_, _, kind)| *kind),
        alias,
        base_url,
        allow_private: false,
        insecure_skip_tls_verify: false,
        allow_websocket: false,
        ca_file: None,
        credential_env: None,
        timeout_sec: None,
        extractors: Vec::new(),
    }
}

pub(crate) fn url(field: &str, text: &str) -> Result<Url, ApiError> {
    if text.len() > PATH_BYTES_MAX {
        return Err(ApiError::invalid(field, format!("is longer than {PATH_BYTES_MAX} bytes")));
    }
    Url::parse(text).map_err(|error| {
        ApiError::invalid(field, format!("is no URL such as https://api.example.com: {error}"))
    })
}

fn kind(name: &str) -> Result<ServiceKind, ApiError> {
    ServiceKind::from_name(name).ok_or_else(|| {
        let known: Vec<_> = ServiceKind::ALL.into_iter().map(ServiceKind::name).collect();
        ApiError::invalid("kind", format!("must be one of {}", known.join(", ")))
    })
}

/// Read by the gate, whatever folder it was started in: the path must be whole.
fn ca_file(file: String) -> Result<Option<String>, ApiError> {
    if file.is_empty() {
        return Ok(None);
    }
    if file.len() > PATH_BYTES_MAX || file.chars().any(char::is_control) {
        return Err(ApiError::invalid("ca_file", "is no path"));
    }
    if !std::path::Path::new(&file).is_absolute() {
        return Err(ApiError::invalid("ca_file", "must be an absolute path"));
    }
    Ok(Some(file))
}

fn variable(name: String) -> Result<Option<String>, ApiError> {
    if name.is_empty() {
        return Ok(None);
    }
    let first_ok = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let rest_ok = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    // A credential pasted in place of the variable's name must not be stored and shown.
    if !first_ok || !rest_ok || name.len() > 128 {
        let why = "must be the name of an environment variable, not the credential itself";
        return Err(ApiError::invalid("credential_env", why));
    }
    Ok(Some(name))
}
