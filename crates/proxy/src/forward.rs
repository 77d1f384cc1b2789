//! One admitted call, from permit to answer: sent, awaited, and settled where it fails.
//!
//! Never here: admission. What is here has a permit.

use std::pin::pin;
use std::sync::Arc;

use agentguard_core::{Reason, Refusal};
use agentguard_egress::{Blocked, SendError, Upstream};
use agentguard_gate::{Outcome, Permit, Spent};
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderMap, Request, Response, Version};
use http_body::Body as _;
use hyper::body::Incoming;

use crate::amount::Settling;
use crate::body::{AnswerBody, RequestBody};
use crate::connection::ConnectionState;
use crate::headers;
use crate::intents::Birth;
use crate::meter::{Drains, Meter};
use crate::request::{Note, Visit};
use crate::respond::{self, Answer};
use crate::routes::Route;
use crate::stream::{GuardedBody, Ledger};

/// A call that may be made.
#[derive(Debug)]
pub(crate) struct Admitted<'a> {
    pub(crate) visit: Visit,
    pub(crate) route: &'a Route,
    pub(crate) upstream: &'a Upstream<RequestBody>,
    pub(crate) permit: Permit,
    pub(crate) note: Note,
    pub(crate) readers: Readers,
}

/// What looks at the answer as it passes.
#[derive(Debug)]
pub(crate) struct Readers {
    /// Reads the id of the intent that the call makes, if it makes one.
    pub(crate) birth: Option<Birth>,
    /// How the answer says what the call cost, if it does.
    pub(crate) settling: Option<Settling>,
    /// Where the rest of an answer is read when its client is gone.
    pub(crate) drains: Arc<Drains>,
}

/// Why there is no answer of the upstream.
#[derive(Debug)]
pub(crate) struct Failure {
    refusal: Refusal,
    spent: Spent,
}

impl Admitted<'_> {
    /// Makes the call. A stop ends it at once, also while the upstream is awaited.
    pub(crate) async fn make(
        self,
        request: Request<RequestBody>,
        connection: &Arc<ConnectionState>,
    ) -> Answer {
        let reply = {
            let stopped = pin!(self.permit.watch());
            tokio::select! {
                biased;
                reason = stopped => Err(stopped_early(reason)),
                reply = self.upstream.send(&self.permit, request) => {
                    reply.map_err(|error| self.failure(&error))
                }
            }
        };
        match reply {
            // An upgrade was not asked for; what follows would be no HTTP.
            Ok(reply) if reply.status().is_informational() => {
                let refusal = Refusal::plain(Reason::UpstreamUnreachable);
                self.fail(&Failure { refusal, spent: Spent::Unknown })
            }
            Ok(reply) => self.pass_on(reply, connection),
            Err(failure) => self.fail(&failure),
        }
    }

    pub(crate) fn pass_on(
        self,
        reply: Response<Incoming>,
        connection: &Arc<ConnectionState>,
    ) -> Answer {
        let (mut head, body) = reply.into_parts();
        headers::clean_response(&mut head.headers);
        respond::name(&mut head.headers, self.visit.id);
        head.version = Version::HTTP_11;
        let Readers { birth, settling, drains } = self.readers;
        let is_events = is_events(&head.headers);
        if let Some(Settling::Model(plan)) = &settling
            && let Some(tokens) = plan.clamped
        {
            head.headers.insert(respond::CLAMPED, tokens.into());
        }
        let meter = settling
            .filter(|_| head.status.is_success())
            .map(|settling| Meter::new(settling, &head.headers, is_events));
        if meter.as_ref().is_some_and(Meter::changes_length) {
            head.headers.remove(CONTENT_LENGTH);
        }
        let is_streaming =
            is_events || (!head.headers.contains_key(CONTENT_LENGTH) && !body.is_end_stream());
        let ledger = Ledger::new(self.permit, head.status.as_u16(), is_streaming, self.note)
            .read_by(birth, meter);
        let body =
            GuardedBody::new(body, ledger, drains, Arc::clone(connection), self.route.timeout);
        Response::from_parts(head, AnswerBody::Upstream { body })
    }

    pub(crate) fn fail(self, failure: &Failure) -> Answer {
        let reason = failure.refusal.reason;
        self.permit.settle(Outcome {
            status: Some(respond::status(reason)),
            spent: failure.spent,
            is_streaming: false,
            failure: Some(reason),
            facts: Some(self.note.facts(0).into()),
        });
        respond::refusal(&failure.refusal, self.visit.id)
    }

    /// What an agent hears, and what it costs it. Causes are for operators: they name addresses.
    pub(crate) fn failure(&self, error: &SendError) -> Failure {
        let free = |refusal| Failure { refusal, spent: Spent::Nothing };
        let (id, service) = (self.visit.id, &self.route.alias);
        if self.note.sent.broke_off() {
            let message = "the request's body is malformed or broke off".to_owned();
            // Its head may have left, and an upstream may act on that.
            let refusal = Refusal::with(Reason::BadRequest, message);
            return Failure { refusal, spent: Spent::Unknown };
        }
        let agent = self.permit.agent_id().map(tracing::field::display);
        tracing::warn!(request_id = %id, agent, door = "api", %service, %error, "a call got no answer");
        match error {
            SendError::Blocked(blocked) => free(destination_refusal(blocked)),
            SendError::Dns(_) | SendError::ConnectFailed { .. } => {
                free(Refusal::plain(Reason::UpstreamUnreachable))
            }
            SendError::Tls(_) => free(Refusal::plain(Reason::UpstreamTlsError)),
            // 20-proxy.md: an upstream that is too slow is not charged.
            SendError::ConnectTimeout { .. } | SendError::Timeout { .. } => {
                free(Refusal::plain(Reason::UpstreamTimeout))
            }
            SendError::Malformed { .. } => free(Refusal::plain(Reason::Internal)),
            // It was sent, and nobody knows what the upstream made of it.
            SendError::NotSwitched { .. } | SendError::Broken { .. } => {
                let refusal = Refusal::plain(Reason::UpstreamUnreachable);
                Failure { refusal, spent: Spent::Unknown }
            }
        }
    }
}

/// Whether an answer is a stream of events.
fn is_events(headers: &HeaderMap) -> bool {
    headers.get(CONTENT_TYPE).is_some_and(|kind| {
        let name = kind.as_bytes().split(|byte| *byte == b';').next().unwrap_or_default();
        name.trim_ascii().eq_ignore_ascii_case(b"text/event-stream")
    })
}

/// Which check of the destination guard said no, and what would change that.
pub(crate) fn destination_refusal(blocked: &Blocked) -> Refusal {
    let rule = match blocked {
        Blocked::Name { .. } => "destination_name",
        Blocked::Address { .. } => "destination_address",
        Blocked::OwnListener { .. } => "own_listener",
        Blocked::PeerDiffers { .. } => "peer_differs",
    };
    Refusal::with(Reason::DestinationBlocked, blocked.to_string())
        .detail("why", rule)
        .detail("remedy", blocked.what_would_change_it())
}

/// The request may be with the upstream already: it is charged.
pub(crate) fn stopped_early(reason: Reason) -> Failure {
    unknown(reason)
}

/// It was sent, and has no end that anybody could vouch for.
pub(crate) fn unknown(reason: Reason) -> Failure {
    Failure { refusal: Refusal::plain(reason), spent: Spent::Unknown }
}
