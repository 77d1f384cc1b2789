//! The opening handshake of a WebSocket: who asks for one, where it may pass, and what becomes of it.
//!
//! Never here: the bytes after it (`tunnel`), or any other protocol: `Upgrade` to those is removed.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use agentguard_core::{Reason, Refusal};
use agentguard_egress::{Switch, Switched};
use agentguard_gate::Permit;
use http::header::{CONNECTION, UPGRADE};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Version};
use http_body::Body as _;
use hyper::body::Incoming;
use hyper::upgrade::OnUpgrade;

use crate::body::{AnswerBody, RequestBody};
use crate::connection::ConnectionState;
use crate::forward::{Admitted, stopped_early, unknown};
use crate::headers;
use crate::respond::{self, Answer};
use crate::routes::Route;
use crate::tunnel::{Ledger, Tunnel};

/// The one protocol that passes.
pub(crate) const WEBSOCKET: &[u8] = b"websocket";

/// Marks a request (in its extensions) that asks for a WebSocket: `headers` has taken `Upgrade` out
/// by the time its amount is read, and a socket's money cannot be counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AsksForWebSocket;

/// A request for a WebSocket.
#[derive(Debug)]
pub(crate) struct Handshake {
    /// The client's socket, once the answer is written.
    client: OnUpgrade,
    has_body: bool,
}

impl Handshake {
    /// Takes the request for a WebSocket out of a request, if it is one.
    pub(crate) fn asked(parts: &mut Parts, body: &Incoming) -> Option<Self> {
        if !asks(parts) {
            return None;
        }
        let client = parts.extensions.remove::<OnUpgrade>()?;
        parts.extensions.insert(AsksForWebSocket);
        Some(Self { client, has_body: !body.is_end_stream() })
    }

    /// Whether it may pass to this service, if there is one.
    pub(crate) fn check(asked: Option<&Self>, route: &Route) -> Result<(), Refusal> {
        let Some(asked) = asked else { return Ok(()) };
        let bad = |text: String| Refusal::with(Reason::BadRequest, text);
        if asked.has_body {
            return Err(bad("a request for a WebSocket has no body".to_owned()));
        }
        if route.service.allow_websocket {
            return Ok(());
        }
        let alias = &route.alias;
        let text = format!("service `{alias}` is not allowed to open WebSockets");
        let remedy = format!(
            "the operator allows it with `agentguard service set {alias} --allow-websocket`"
        );
        Err(bad(text).detail("why", "websocket_not_allowed").detail("remedy", remedy))
    }
}

/// What asks for another protocol, or for another version of this one, is left as it is.
fn asks(parts: &Parts) -> bool {
    let asks_for = |name: &HeaderValue| name.as_bytes().eq_ignore_ascii_case(WEBSOCKET);
    parts.method == Method::GET
        && parts.version == Version::HTTP_11
        && parts.headers.get(UPGRADE).is_some_and(asks_for)
        && parts.headers.get_all(UPGRADE).iter().count() == 1
        && names_upgrade(&parts.headers)
}

fn names_upgrade(headers: &HeaderMap) -> bool {
    let lines = headers.get_all(CONNECTION).iter();
    let mut words = lines.flat_map(|line| line.as_bytes().split(|byte| *byte == b','));
    words.any(|word| word.trim_ascii().eq_ignore_ascii_case(b"upgrade"))
}

/// What `headers` took out as belonging to one connection: here it is asked of both.
fn put_back(headers: &mut HeaderMap) {
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
}

impl Admitted<'_> {
    /// Makes the call, as what it is.
    pub(crate) async fn make_or_shake_hands(
        self,
        request: Request<RequestBody>,
        handshake: Option<Handshake>,
        connection: &Arc<ConnectionState>,
    ) -> Answer {
        match handshake {
            None => self.make(request, connection).await,
            // In a box: few calls are, and the others should not carry its size.
            Some(handshake) => Box::pin(self.shake_hands(request, handshake, connection)).await,
        }
    }

    /// Makes the call. If the service agrees, the connection becomes a tunnel once the answer is
    /// written; whatever else it says is passed on as any answer.
    async fn shake_hands(
        self,
        mut request: Request<RequestBody>,
        handshake: Handshake,
        connection: &Arc<ConnectionState>,
    ) -> Answer {
        put_back(request.headers_mut());
        let reply = {
            let stopped = pin!(self.permit.watch());
            tokio::select! {
                biased;
                reason = stopped => Err(stopped_early(reason)),
                reply = self.upstream.switch(&self.permit, request) => {
                    reply.map_err(|error| self.failure(&error))
                }
            }
        };
        match reply {
            Ok(Switch::Switched(head, upstream)) if is_websocket(head.headers()) => {
                self.agree(head, upstream, handshake, connection).await
            }
            // Not what was asked for: nobody here knows what it would speak.
            Ok(Switch::Switched(..)) => self.fail(&unknown(Reason::UpstreamUnreachable)),
            Ok(Switch::Answered(reply)) => self.pass_on(reply, connection),
            Err(failure) => self.fail(&failure),
        }
    }

    async fn agree(
        self,
        head: Response<()>,
        upstream: Switched,
        handshake: Handshake,
        connection: &Arc<ConnectionState>,
    ) -> Answer {
        if watch(connection, &self.permit).await {
            connection.end_with_nothing();
            upstream.reset_at_end();
            let reason = self.permit.stopped().unwrap_or(Reason::KillSwitchGlobal);
            return self.fail(&stopped_early(reason));
        }
        let (mut parts, ()) = head.into_parts();
        headers::clean_response(&mut parts.headers);
        put_back(&mut parts.headers);
        respond::name(&mut parts.headers, self.visit.id);
        parts.version = Version::HTTP_11;
        let ledger = Ledger::new(self.permit, self.note);
        connection.set_answering(true);
        connection.set_stall_limit(self.route.timeout);
        let idle_limit = self.route.timeout;
        connection.set_tunnel(Tunnel { client: handshake.client, upstream, ledger, idle_limit });
        let mut answer = Response::new(AnswerBody::whole(bytes::Bytes::new()));
        *answer.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        *answer.headers_mut() = parts.headers;
        answer
    }
}

/// From now on a stop ends the whole connection, also while the answer is being written. True if it
/// has.
async fn watch(connection: &ConnectionState, permit: &Permit) -> bool {
    poll_fn(|context| Poll::Ready(connection.end_with(permit.watch(), context))).await
}

fn is_websocket(headers: &HeaderMap) -> bool {
    headers.get(UPGRADE).is_some_and(|name| name.as_bytes().eq_ignore_ascii_case(WEBSOCKET))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(method: Method, version: Version, headers: &[(&str, &str)], expected: bool) {
        let mut request = Request::builder().method(method).version(version);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (parts, ()) = request.body(()).unwrap().into_parts();
        assert_eq!(asks(&parts), expected, "{parts:?}");
    }

    #[test]
    fn only_a_plain_request_for_a_websocket_is_one() {
        let ask = [("connection", "keep-alive, Upgrade"), ("upgrade", "WebSocket")];
        check(Method::GET, Version::HTTP_11, &ask, true);
        check(Method::POST, Version::HTTP_11, &ask, false);
        check(Method::GET, Version::HTTP_10, &ask, false);
        let get = |headers: &[(&str, &str)]| check(Method::GET, Version::HTTP_11, headers, false);
        get(&[("upgrade", "websocket")]);
        get(&[("connection", "upgrade")]);
        get(&[("connection", "upgrade"), ("upgrade", "h2c")]);
        get(&[("connection", "upgrade"), ("upgrade", "websocket, h2c")]);
        get(&[("connection", "upgrade"), ("upgrade", "websocket"), ("upgrade", "websocket")]);
        get(&[("connection", "upgraded"), ("upgrade", "websocket")]);
    }
}
