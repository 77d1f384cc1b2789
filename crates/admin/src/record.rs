//! The record, as far as it is managed here.

use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};

use crate::error::ApiError;
use crate::state::Admin;

/// Returns when every row that was made before can be read in the database.
pub(crate) async fn flush(State(admin): State<Admin>) -> Result<Json<Value>, ApiError> {
    let upkeep = admin.upkeep();
    let flushed = admin.blocking(move |_| upkeep.flush()).await?;
    match flushed {
        Ok(()) => Ok(Json(json!({"flushed": true}))),
        Err(error) => {
            tracing::error!(%error, "the record could not be flushed");
            Err(ApiError::internal())
        }
    }
}
