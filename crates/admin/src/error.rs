//! The one error of the endpoint, in the shape of every refusal of the gate.

use agentguard_core::RequestId;
use agentguard_gate::ChangeError;
use agentguard_gate::ports::RegistryError;
use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};

/// An error as callers receive it. The middleware adds the request id and writes the body.
#[derive(Clone, Debug)]
pub struct ApiError {
    status: StatusCode,
    code: &'static str,
    message: String,
    details: Map<String, Value>,
}

impl ApiError {
    /// A field that cannot be: the message names it.
    pub(crate) fn invalid(field: &str, why: impl std::fmt::Display) -> Self {
        Self::new(
            StatusCode::BAD_REQUEST,
            "INVALID_ARGUMENT",
            format!("parameter `{field}`: {why}"),
        )
        .detail("field", field)
    }

    /// A request that cannot be, with a message that names the place itself.
    pub(crate) fn invalid_text(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "INVALID_ARGUMENT", message)
    }

    pub(crate) fn not_found(kind: &str, name: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, "NOT_FOUND", format!("no {kind} `{}`", shown(name)))
    }

    pub(crate) fn exists(kind: &str, name: &str) -> Self {
        let message = format!("{kind} `{}` exists already", shown(name));
        Self::new(StatusCode::CONFLICT, "ALREADY_EXISTS", message)
    }

    /// What was asked is well formed, but there is no way back for this agent.
    pub(crate) fn revoked(name: &str) -> Self {
        let message = format!("agent `{}` was revoked, which is for ever", shown(name));
        Self::new(StatusCode::CONFLICT, "AGENT_REVOKED", message)
    }

    pub(crate) fn unauthenticated() -> Self {
        let message = "a management token is needed, as `Authorization: Bearer ag_admin_…`";
        Self::new(StatusCode::UNAUTHORIZED, "UNAUTHENTICATED", message)
    }

    pub(crate) fn forbidden(message: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "FORBIDDEN", message)
    }

    pub(crate) fn no_route() -> Self {
        Self::new(StatusCode::NOT_FOUND, "NOT_FOUND", "no such path")
    }

    pub(crate) fn wrong_method() -> Self {
        let status = StatusCode::METHOD_NOT_ALLOWED;
        Self::new(status, "METHOD_NOT_ALLOWED", "this path does not take this method")
    }

    pub(crate) fn too_large() -> Self {
        let message = format!("the body is larger than {} bytes", crate::limits::BODY_BYTES_MAX);
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "REQUEST_TOO_LARGE", message)
    }

    pub(crate) fn too_slow() -> Self {
        Self::new(StatusCode::REQUEST_TIMEOUT, "REQUEST_TIMEOUT", "the body did not come in time")
    }

    pub(crate) fn not_ready() -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "NOT_READY", "the gate is not serving")
    }

    pub(crate) fn internal() -> Self {
        let message = "the gate failed; its log says why, by this request id";
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "INTERNAL", message)
    }

    /// Adds a detail.
    #[must_use]
    pub(crate) fn detail(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.details.insert(name.to_owned(), value.into());
        self
    }

    /// The finished answer.
    pub(crate) fn respond(&self, request_id: RequestId) -> Response {
        let body = json!({"error": {
            "code": self.code,
            "message": self.message,
            "details": self.details,
            "request_id": request_id,
        }});
        (self.status, Json(body)).into_response()
    }

    pub(crate) const fn is_fault(&self) -> bool {
        matches!(self.status, StatusCode::INTERNAL_SERVER_ERROR)
    }

    fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into(), details: Map::new() }
    }
}

impl From<RegistryError> for ApiError {
    fn from(error: RegistryError) -> Self {
        match error {
            RegistryError::NotFound { kind, name } => Self::not_found(kind, &name),
            RegistryError::Exists { kind, name } => Self::exists(kind, &name),
            RegistryError::Invalid(why) => Self::invalid_text(why),
            RegistryError::Store(source) => {
                tracing::error!(error = %source, "the store did not take a change");
                Self::internal()
            }
        }
    }
}

impl From<ChangeError> for ApiError {
    fn from(error: ChangeError) -> Self {
        match error {
            ChangeError::Registry(error) => error.into(),
        }
    }
}

impl IntoResponse for ApiError {
    /// Leaves the error in the extensions; the middleware takes it out and writes the body.
    fn into_response(self) -> Response {
        let mut response = self.status.into_response();
        response.extensions_mut().insert(self);
        response
    }
}

/// What is shown of a name that somebody sent: short, and on one line.
fn shown(name: &str) -> String {
    const SHOWN_CHARS_MAX: usize = 80;
    name.chars().take(SHOWN_CHARS_MAX).flat_map(char::escape_debug).collect()
}
