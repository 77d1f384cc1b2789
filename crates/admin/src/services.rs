//! Services: the aliases that agents reach APIs by.

use agentguard_core::service::{BUILT_IN, Service, ServiceKind};
use agentguard_gate::{Actor, Change};
use axum::extract::{Path, State};
use axum::{Extension, Json};
use serde::Deserialize;
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
    credential_env: Option<String>,
    timeout_sec: Option<u32>,
}

pub(crate) async fn list(State(admin): State<Admin>) -> Json<List<Service>> {
    let mut services = admin.gate().directory().data().services.clone();
    services.sort_by(|a, b| a.alias.cmp(&b.alias));
    Json(List::whole(services))
}

pub(crate) async fn put(
    State(admin): State<Admin>,
    Extension(actor): Extension<Actor>,
    Path(alias): Path<String>,
    Body(patch): Body<ServicePatch>,
) -> Result<Json<Service>, ApiError> {
    let _one = admin.one_change().await;
    let service = {
        let directory = admin.gate().directory();
        let old = directory.service(&alias);
        if old.is_none() && directory.data().services.len() >= THINGS_MAX {
            return Err(ApiError::invalid("alias", format!("there are {THINGS_MAX} already")));
        }
        changed(old.map(|service| (**service).clone()), alias, patch)?
    };
    let change = Change::PutService(service.clone());
    admin.blocking(move |gate| gate.change(&actor, change)).await??;
    Ok(Json(service))
}

pub(crate) async fn remove(
    State(admin): State<Admin>,
    Extension(actor): Extension<Actor>,
    Path(alias): Path<String>,
) -> Result<Json<Service>, ApiError> {
    let _one = admin.one_change().await;
    let removed = {
        let directory = admin.gate().directory();
        let found = directory.service(&alias);
        (**found.ok_or_else(|| ApiError::not_found("service", &alias))?).clone()
    };
    admin.blocking(move |gate| gate.change(&actor, Change::RemoveService(alias))).await??;
    Ok(Json(removed))
}

fn changed(old: Option<Service>, alias: String, patch: ServicePatch) -> Result<Service, ApiError> {
    if patch.alias.is_some_and(|given| given != alias) {
        return Err(ApiError::invalid("alias", "is not the one of the path"));
    }
    let base_url = patch.base_url.map(|text| url("base_url", &text)).transpose()?;
    let kind = patch.kind.map(|name| kind(&name)).transpose()?;
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
    if let Some(file) = patch.ca_file {
        service.ca_file = ca_file(file)?;
    }
    if let Some(name) = patch.credential_env {
        service.credential_env = variable(name)?;
    }
    service.timeout_sec = patch.timeout_sec.or(service.timeout_sec);
    // Its messages begin with the field.
    service.check().map_err(|error| ApiError::invalid_text(format!("parameter {error}")))?;
    Ok(service)
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
