//! Reading what a caller sends: bounded, in time, and with errors that name the field.

use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::ApiError;
use crate::limits::READ_LIMIT;

/// A JSON body. Unlike axum's own it does not ask for a content type: a page of another origin was
/// turned away before, whatever it says it sends.
#[derive(Debug)]
pub(crate) struct Body<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Body<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        let bytes = tokio::time::timeout(READ_LIMIT, Bytes::from_request(request, state))
            .await
            .map_err(|_| ApiError::too_slow())?
            .map_err(|_| ApiError::too_large())?;
        // No body at all is an empty object: not every call has something to say.
        let bytes: &[u8] = if bytes.is_empty() { b"{}" } else { &bytes };
        serde_json::from_slice(bytes)
            .map(Self)
            .map_err(|error| ApiError::invalid_text(format!("the body: {error}")))
    }
}

/// The query, with the same errors.
#[derive(Debug)]
pub(crate) struct Query<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Query<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        axum::extract::Query::try_from_uri(&parts.uri)
            .map(|axum::extract::Query(query)| Self(query))
            .map_err(|error| ApiError::invalid_text(format!("the query: {}", error.body_text())))
    }
}

/// A list, in the shape that leaves room for pages.
#[derive(Debug, Serialize)]
pub(crate) struct List<T> {
    pub(crate) items: Vec<T>,
    pub(crate) next_cursor: Option<String>,
}

impl<T> List<T> {
    /// All of it in one page.
    pub(crate) const fn whole(items: Vec<T>) -> Self {
        Self { items, next_cursor: None }
    }
}

/// A free text within its bound, without characters that would break a line or a terminal.
pub(crate) fn text(field: &str, given: Option<String>) -> Result<Option<String>, ApiError> {
    use agentguard_core::limits::TEXT_BYTES_MAX;
    match given {
        Some(text) if text.len() > TEXT_BYTES_MAX => {
            Err(ApiError::invalid(field, format!("is longer than {TEXT_BYTES_MAX} bytes")))
        }
        Some(text) if text.chars().any(char::is_control) => {
            Err(ApiError::invalid(field, "must be one line without control characters"))
        }
        given => Ok(given.filter(|text| !text.is_empty())),
    }
}

/// A name that a person gives.
pub(crate) fn name(field: &str, given: &str) -> Result<(), ApiError> {
    if agentguard_core::agent::is_name(given) {
        return Ok(());
    }
    let why = "must be 1 to 64 bytes of letters, digits, `-`, `_` and `.`";
    Err(ApiError::invalid(field, why))
}
