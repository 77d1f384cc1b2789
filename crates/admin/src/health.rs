//! Whether it lives and whether it serves. With `metrics` the paths without a token: they tell nothing
//! of agents or secrets.

use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};

use crate::error::ApiError;
use crate::state::Admin;

/// These need no token.
pub(crate) const PATHS: [&str; 3] = ["/healthz", "/readyz", "/metrics"];

pub(crate) async fn healthz() -> Json<Value> {
    Json(json!({"status": "ok"}))
}

pub(crate) async fn readyz(State(admin): State<Admin>) -> Result<Json<Value>, ApiError> {
    if !admin.is_ready() {
        return Err(ApiError::not_ready());
    }
    Ok(Json(json!({"status": "ready"})))
}
