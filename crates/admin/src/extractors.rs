//! Extractors of a service: where the operator says that its calls name money.

use agentguard_core::extractor::ExtractorSpec;
use agentguard_core::service::Service;
use agentguard_gate::{Actor, Change, CredentialChange};
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::{Extension, Json};
use serde_json::{Value, json};

use crate::body::{Body, List};
use crate::error::ApiError;
use crate::state::Admin;

pub(crate) async fn list(
    State(admin): State<Admin>,
    Path(alias): Path<String>,
) -> Result<Json<List<Value>>, ApiError> {
    let extractors = service(&admin, &alias)?.extractors;
    let shown = extractors.iter().enumerate().map(|(place, spec)| view(place, spec));
    Ok(Json(List::whole(shown.collect())))
}

/// Adds one after the others; the first that fits a call counts.
pub(crate) async fn add(
    State(admin): State<Admin>,
    Extension(actor): Extension<Actor>,
    Path(alias): Path<String>,
    Body(spec): Body<ExtractorSpec>,
) -> Result<(StatusCode, Json<Value>), ApiError> {
    let _one = admin.one_change().await;
    let mut service = service(&admin, &alias)?;
    // Its messages begin with the field.
    spec.compile().map_err(|error| ApiError::invalid_text(format!("parameter {error}")))?;
    let added = view(service.extractors.len(), &spec);
    service.extractors.push(spec);
    service.check().map_err(|error| ApiError::invalid_text(format!("parameter {error}")))?;
    let change = Change::PutService { service, credential: CredentialChange::Keep };
    admin.blocking(move |gate| gate.change(&actor, change)).await??;
    Ok((StatusCode::CREATED, Json(added)))
}

pub(crate) async fn remove(
    State(admin): State<Admin>,
    Extension(actor): Extension<Actor>,
    Path((alias, number)): Path<(String, String)>,
) -> Result<Json<Value>, ApiError> {
    let _one = admin.one_change().await;
    let mut service = service(&admin, &alias)?;
    let place = number.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
    let place = place.filter(|place| *place < service.extractors.len());
    let place = place.ok_or_else(|| ApiError::not_found("extractor", &number))?;
    let removed = view(place, &service.extractors.remove(place));
    let change = Change::PutService { service, credential: CredentialChange::Keep };
    admin.blocking(move |gate| gate.change(&actor, change)).await??;
    Ok(Json(removed))
}

fn service(admin: &Admin, alias: &str) -> Result<Service, ApiError> {
    let directory = admin.gate().directory();
    let found = directory.service(alias);
    found.map(|service| (**service).clone()).ok_or_else(|| ApiError::not_found("service", alias))
}

/// With its number, counted from 1, by which it is removed.
fn view(place: usize, spec: &ExtractorSpec) -> Value {
    let mut value = json!(spec);
    if let Some(map) = value.as_object_mut() {
        map.insert("number".to_owned(), place.saturating_add(1).into());
    }
    value
}
