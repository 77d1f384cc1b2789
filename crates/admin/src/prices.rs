//! Prices of models: the program's own, those of the file, and those that operators set here.

use agentguard_core::PriceTable;
use agentguard_core::price::{Checked, Listed, PriceSpec};
use agentguard_gate::{Actor, Change};
use axum::extract::{Path, State};
use axum::{Extension, Json};
use serde::Deserialize;
use serde_json::Value;

use crate::body::{Body, List};
use crate::error::ApiError;
use crate::limits::THINGS_MAX;
use crate::state::Admin;

/// A price as it is put; its name stands in the path.
#[derive(Debug, Deserialize)]
pub(crate) struct Given {
    /// If it is given, it must be the model of the path.
    model: Option<String>,
    #[serde(flatten)]
    figures: serde_json::Map<String, Value>,
}

pub(crate) async fn list(State(admin): State<Admin>) -> Json<List<Listed>> {
    let directory = admin.gate().directory();
    let prices = directory.prices();
    Json(List::whole(prices.entries().into_iter().map(Listed::from).collect()))
}

/// What a call that names this model would be charged by.
pub(crate) async fn check(
    State(admin): State<Admin>,
    Path(model): Path<String>,
) -> Result<Json<Checked>, ApiError> {
    let directory = admin.gate().directory();
    let prices = directory.prices();
    Checked::of(prices, &model).map(Json).ok_or_else(|| unknown(prices, &model))
}

pub(crate) async fn put(
    State(admin): State<Admin>,
    Extension(actor): Extension<Actor>,
    Path(model): Path<String>,
    Body(given): Body<Given>,
) -> Result<Json<PriceSpec>, ApiError> {
    let _one = admin.one_change().await;
    let spec = spec(&model, given)?;
    let stored = admin.gate().directory().data().prices.len();
    let is_new = find(&admin, &spec.model).is_none();
    if is_new && stored >= THINGS_MAX {
        return Err(ApiError::invalid("model", format!("there are {THINGS_MAX} already")));
    }
    let change = Change::PutPrice(spec.clone());
    admin.blocking(move |gate| gate.change(&actor, change)).await??;
    Ok(Json(spec))
}

pub(crate) async fn remove(
    State(admin): State<Admin>,
    Extension(actor): Extension<Actor>,
    Path(model): Path<String>,
) -> Result<Json<PriceSpec>, ApiError> {
    let _one = admin.one_change().await;
    let model = model.to_ascii_lowercase();
    let removed = find(&admin, &model).ok_or_else(|| {
        let remedy = "only prices that were set can be removed; \
                      the program's and the file's can be set over";
        ApiError::not_found("stored price", &model).detail("remedy", remedy)
    })?;
    let change = Change::RemovePrice(removed.model.clone());
    admin.blocking(move |gate| gate.change(&actor, change)).await??;
    Ok(Json(removed))
}

fn find(admin: &Admin, model: &str) -> Option<PriceSpec> {
    let directory = admin.gate().directory();
    directory.data().prices.iter().find(|spec| spec.model.eq_ignore_ascii_case(model)).cloned()
}

/// Names are kept in lower case: two spellings are one model.
fn spec(model: &str, given: Given) -> Result<PriceSpec, ApiError> {
    if given.model.is_some_and(|name| !name.eq_ignore_ascii_case(model)) {
        return Err(ApiError::invalid("model", "is not the one of the path"));
    }
    let mut figures = given.figures;
    figures.insert("model".to_owned(), model.to_ascii_lowercase().into());
    let spec: PriceSpec = serde_json::from_value(Value::Object(figures))
        .map_err(|error| ApiError::invalid_text(format!("the body: {error}")))?;
    // Its messages begin with the field.
    spec.price().map_err(|error| ApiError::invalid_text(format!("parameter {error}")))?;
    Ok(spec)
}

fn unknown(prices: &PriceTable, model: &str) -> ApiError {
    let nearest = prices.nearest(model);
    ApiError::not_found("price of model", model)
        .detail("remedy", remedy(model, &nearest))
        .detail("nearest", nearest)
}

fn remedy(model: &str, nearest: &[&str]) -> String {
    let shown: String = model.chars().filter(|c| !c.is_control()).take(80).collect();
    let set = format!("agentguard price set '{shown}' --input … --output …");
    match nearest {
        [] => format!("set one: {set}"),
        near => format!("did you mean {}? Or set one: {set}", near.join(", ")),
    }
}
