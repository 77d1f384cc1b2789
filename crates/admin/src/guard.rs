//! What stands before every handler: the name it was called by, the page it may come from, the
//! token. Never here: what the caller wants.

use agentguard_core::RequestId;
use agentguard_core::token::Token;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

use crate::error::ApiError;
use crate::state::Admin;
use crate::{health, proof};

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Checks the request, runs it, and finishes the answer.
pub(crate) async fn guard(
    State(admin): State<Admin>,
    mut request: Request,
    next: Next,
) -> Response {
    let id = admin.gate().request_id(admin.gate().now());
    let response = match admitted(&admin, &mut request) {
        Ok(()) => next.run(request).await,
        Err(error) => error.into_response(),
    };
    finished(response, id)
}

fn admitted(admin: &Admin, request: &mut Request) -> Result<(), ApiError> {
    let headers = request.headers();
    host(admin, headers)?;
    origin(admin, headers)?;
    let path = request.uri().path();
    if health::PATHS.contains(&path) || path == proof::PATH {
        return Ok(());
    }
    let token = bearer(headers).ok_or_else(ApiError::unauthenticated)?;
    let actor = admin.operator(&token).ok_or_else(ApiError::unauthenticated)?;
    request.extensions_mut().insert(actor);
    Ok(())
}

/// A page that was pointed at loopback by its own name (DNS rebinding) is told by that name.
fn host(admin: &Admin, headers: &HeaderMap) -> Result<(), ApiError> {
    let refused = || {
        let names = admin.hosts().join(", ");
        ApiError::forbidden(format!("`Host` must be one of {names}"))
    };
    let given = only(headers, &header::HOST).ok_or_else(refused)?;
    let given = given.to_ascii_lowercase();
    if admin.hosts().contains(&given) { Ok(()) } else { Err(refused()) }
}

/// A page of another origin can send requests here, though it cannot read the answers.
fn origin(admin: &Admin, headers: &HeaderMap) -> Result<(), ApiError> {
    let refused = || ApiError::forbidden("requests from web pages of other origins are refused");
    if headers.contains_key(header::ORIGIN) {
        let given = only(headers, &header::ORIGIN).ok_or_else(refused)?;
        let host = given.strip_prefix("http://").ok_or_else(refused)?;
        if !admin.hosts().iter().any(|known| known == host) {
            return Err(refused());
        }
    }
    match headers.get(SEC_FETCH_SITE).map(HeaderValue::as_bytes) {
        None | Some(b"same-origin" | b"none") => Ok(()),
        Some(_) => Err(refused()),
    }
}

/// Only a management token is even looked up: an agent's opens nothing here.
fn bearer(headers: &HeaderMap) -> Option<Token> {
    let given = only(headers, &header::AUTHORIZATION)?;
    let (scheme, token) = given.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| Token::parse_admin(token.trim()))?
}

/// The header, if it is there once: of two, a reader behind us may take the other.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(value)
}

fn finished(mut response: Response, id: RequestId) -> Response {
    if let Some(error) = response.extensions_mut().remove::<ApiError>() {
        if error.is_fault() {
            tracing::error!(request_id = %id, ?error, "a management request failed");
        }
        response = error.respond(id);
    }
    let headers = response.headers_mut();
    if let Ok(value) = HeaderValue::try_from(id.to_string()) {
        headers.insert(REQUEST_ID, value);
    }
    // Answers hold tokens and policy: nothing on the way may keep them.
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}
