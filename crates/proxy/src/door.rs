//! The way of one request through the checks, in the order of 10-gate.md.
//!
//! Never here: a check's meaning. Each is a call to what knows it.

use std::sync::Arc;

use agentguard_core::{Action, AgentId, Amount, Door as GateDoor, MicroUsd, Reason, Refusal};
use agentguard_egress::{ApproveError, Guard, Passage, PlatformRoots};
use agentguard_gate::{Caller, Gate, Knock, Presented};
use arc_swap::ArcSwap;
use bytes::Bytes;
use http::header::{ACCEPT_ENCODING, ALLOW, VIA};
use http::request::Parts;
use http::uri::PathAndQuery;
use http::{HeaderValue, Request, StatusCode, Uri};
use hyper::body::Incoming;

use crate::body::RequestBody;
use crate::connection::ConnectionState;
use crate::forward::{Admitted, Readers, destination_refusal};
use crate::head_scan::Malformed;
use crate::inspect::{Inspection, Prepared, With, noticing_waits};
use crate::intents::{Birth, Intents, Standing};
use crate::meter::Drains;
use crate::options::ProxyOptions;
use crate::request::{self, NoTarget, Note, Placed, Target, Visit};
use crate::respond::{self, Answer};
use crate::routes::{Route, Routes};
use crate::upgrade::Handshake;
use crate::{headers, identity, path};

/// The door: the gate, the services, and its settings.
#[derive(Debug)]
pub(crate) struct Door {
    gate: Gate,
    routes: Routes,
    intents: Arc<Intents>,
    inspection: Inspection,
    drains: Arc<Drains>,
    options: ArcSwap<ProxyOptions>,
    /// How this gate signs in `Via`.
    mark: String,
    via: HeaderValue,
}

/// A request that was turned away.
type Refused = Box<TurnedAway>;

#[derive(Debug)]
struct TurnedAway {
    agent: Option<AgentId>,
    refusal: Refusal,
    record: Recording,
}

/// How a refusal gets on the record.
#[derive(Debug)]
enum Recording {
    /// The gate has done it.
    ByGate,
    /// By the action.
    Action(Action),
    /// By what was asked for: it is not known where that leads.
    Asked,
}

impl Door {
    pub(crate) fn new(
        gate: Gate,
        guard: Arc<Guard>,
        roots: PlatformRoots,
        options: ProxyOptions,
    ) -> Self {
        let mark = format!("agentguard-{:08x}", options.instance);
        let via = HeaderValue::try_from(format!("1.1 {mark}"));
        let options = Arc::new(options);
        Self {
            gate,
            routes: Routes::new(guard, roots, Arc::clone(&options)),
            intents: Arc::default(),
            inspection: Inspection::default(),
            drains: Arc::default(),
            options: ArcSwap::new(options),
            mark,
            via: via.unwrap_or(HeaderValue::from_static("1.1 agentguard")),
        }
    }

    pub(crate) fn configure(&self, options: ProxyOptions) {
        self.options.store(Arc::new(options));
    }

    pub(crate) fn options(&self) -> Arc<ProxyOptions> {
        self.options.load_full()
    }

    /// Waits for what goes on after clients are gone.
    pub(crate) async fn finish(&self) {
        self.drains.finish().await;
    }

    /// Answers one request.
    pub(crate) async fn answer(
        &self,
        connection: &Arc<ConnectionState>,
        request: Request<Incoming>,
    ) -> Answer {
        let mut visit = self.visit();
        let (mut parts, body) = request.into_parts();
        let uri = std::mem::take(&mut parts.uri);
        let turned_away = match self.call(connection, &mut visit, &mut parts, &uri, body).await {
            Ok(answer) => return answer,
            Err(turned_away) => *turned_away,
        };
        let TurnedAway { agent, refusal, record } = turned_away;
        let action = match record {
            Recording::ByGate => None,
            Recording::Action(action) => Some(action),
            Recording::Asked => Some(visit.unplaced(&parts.method, &uri)),
        };
        if let Some(action) = action {
            self.gate.refuse(agent, visit.id, &action, &refusal);
        }
        respond::refusal(&refusal, visit.id)
    }

    /// What goes out in place of hyper's own answer to a head that it could not read.
    pub(crate) fn unread(&self, connection: &ConnectionState, date: Option<&[u8]>) -> Bytes {
        let visit = self.visit();
        let text = connection.malformed().map_or(
            "the request's head is malformed, or has too many headers or too long a URL",
            Malformed::text,
        );
        let refusal = Refusal::with(Reason::BadRequest, text.to_owned());
        self.gate.refuse(None, visit.id, &visit.unread(), &refusal);
        respond::closing_bytes(&refusal, visit.id, date)
    }

    /// A call that is made now.
    fn visit(&self) -> Visit {
        let at = self.gate.now();
        Visit { at, id: self.gate.request_id(at) }
    }

    async fn call(
        &self,
        connection: &Arc<ConnectionState>,
        visit: &mut Visit,
        parts: &mut Parts,
        uri: &Uri,
        body: Incoming,
    ) -> Result<Answer, Refused> {
        self.check_shape(connection, parts).map_err(|refusal| asked(None, refusal))?;
        let method = request::method_name(&parts.method);
        let (target, method) = match (request::target(&parts.method, uri), method) {
            (Ok(target), Some(method)) => (target, method),
            (Err(nowhere), _) => return Ok(no_target(nowhere, *visit)),
            (Ok(_), None) => return Ok(no_method(*visit)),
        };
        let handshake = Handshake::asked(parts, &body);
        let knock = knock(connection, parts);
        let token_place = identity::place(&parts.headers);
        let mut caller = self.identify(&knock)?;
        let place = self.place(&target).map_err(|refusal| asked(Some(caller.agent.id), refusal))?;
        let (mut placed, options) = place;
        let room =
            options.clamp_max_tokens.then(|| self.gate.room(&caller, GateDoor::Api)).flatten();
        let with = self.reading(&options, room);
        let received = self.receive(&target, uri, &placed, parts, body, with);
        let (received, waited) = noticing_waits(received).await;
        if waited {
            // Its head may have come long ago. What counts is the moment at which it leaves, and
            // nobody has heard its first name yet.
            *visit = self.visit();
        }
        let refused = |caller: &Caller, visit: &Visit, placed: &Placed, refusal| {
            let agent = Some(caller.agent.id);
            let record = Recording::Action(visit.action(&method, placed, Amount::Free));
            Box::new(TurnedAway { agent, refusal, record })
        };
        let (prepared, mut exception) =
            received.map_err(|refusal| refused(&caller, visit, &placed, refusal))?;
        if waited {
            caller = self.identify(&knock)?;
            let moved = self
                .moved(&target, &placed)
                .map_err(|refusal| asked(Some(caller.agent.id), refusal))?;
            if let Some(moved) = moved {
                placed = moved;
                let approved = approve(&placed.route).await;
                *visit = self.visit();
                exception =
                    approved.map_err(|refusal| refused(&caller, visit, &placed, refusal))?;
                caller = self.identify(&knock)?;
            }
        }
        let upstream = Handshake::check(handshake.as_ref(), &placed.route)
            .and_then(|()| placed.route.upstream_with(&mut parts.headers, &token_place))
            .map_err(|refusal| refused(&caller, visit, &placed, refusal))?;
        let Prepared { amount, body, sent, standing, settling } = prepared;
        let action = visit.action(&method, &placed, amount);
        let permit = self.gate.admit(&caller, visit.id, action).await;
        let permit = permit.map_err(|refusal| by_gate(&caller, standing.explain(refusal)))?;
        let note = Note { sent, exception };
        let birth = self.birth(standing, parts, &placed.route);
        let route = &placed.route;
        let readers = Readers { birth, settling, drains: Arc::clone(&self.drains) };
        let admitted = Admitted { visit: *visit, route, upstream, permit, note, readers };
        let request = self.outgoing(parts, placed.path.clone(), body);
        Ok(admitted.make_or_shake_hands(request, handshake, connection).await)
    }

    /// What is no well-formed request, or has been here before.
    fn check_shape(&self, connection: &ConnectionState, parts: &Parts) -> Result<(), Refusal> {
        let bad = |text: &str| Refusal::with(Reason::BadRequest, text.to_owned());
        if let Some(malformed) = connection.malformed() {
            return Err(bad(malformed.text()));
        }
        if !headers::is_plainly_framed(&parts.headers) {
            connection.set_last();
            return Err(bad("Transfer-Encoding is not plainly `chunked`"));
        }
        if !headers::names_one_host(parts.version, &parts.headers) {
            return Err(bad("the request must name its host once, with one `Host` header"));
        }
        if headers::came_by(&parts.headers, &self.mark) {
            return Err(Refusal::plain(Reason::LoopDetected));
        }
        Ok(())
    }

    /// Checks 1 to 3.
    fn identify(&self, knock: &Knock) -> Result<Caller, Refused> {
        self.gate.identify(knock).map_err(|rebuff| {
            let mut refusal = rebuff.refusal;
            if knock.from_web_page && matches!(knock.presented, Presented::Nothing) {
                "a request from a web page, or to a `Host` that is neither an address nor `localhost`, needs an agent token"
                    .clone_into(&mut refusal.message);
            }
            asked(rebuff.agent_id, refusal)
        })
    }

    /// Check 4, first part: the service, as it is now.
    fn place(&self, target: &Target<'_>) -> Result<(Placed, Arc<ProxyOptions>), Refusal> {
        let options = self.options.load_full();
        let route = self.routes.find(target.alias, &self.gate.directory(), &options);
        let route = route.ok_or_else(|| Refusal::plain(Reason::ServiceUnknown))?;
        let path = target.upstream_path(&route);
        let path = path.ok_or_else(|| Refusal::plain(Reason::BadRequest))?;
        Ok((Placed { route, path }, options))
    }

    /// The service's new place, if it was changed while the call waited.
    fn moved(&self, target: &Target<'_>, before: &Placed) -> Result<Option<Placed>, Refusal> {
        let (now, _) = self.place(target)?;
        if Arc::ptr_eq(&now.route, &before.route) {
            return Ok(None);
        }
        // Its amount was read as a call of that kind to that path.
        let is_alike = now.route.service.kind == before.route.service.kind
            && now.route.extractors == before.route.extractors;
        if !is_alike || now.path != before.path {
            let message = "the service was changed while the request was on its way: send it again";
            return Err(Refusal::with(Reason::ServiceUnknown, message.to_owned()));
        }
        Ok(Some(now))
    }

    /// What bodies are read with.
    fn reading(&self, options: &ProxyOptions, room: Option<MicroUsd>) -> With<'_> {
        With {
            bytes_max: options.max_body_inspect_bytes,
            intents: &self.intents,
            prices: Arc::clone(self.gate.directory().prices()),
            room,
        }
    }

    /// Checks 4, second part, and 5: everything that may wait.
    async fn receive(
        &self,
        target: &Target<'_>,
        uri: &Uri,
        placed: &Placed,
        parts: &mut Parts,
        body: Incoming,
        with: With<'_>,
    ) -> Result<(Prepared, Option<&'static str>), Refusal> {
        check_path(target, uri)?;
        let exception = approve(&placed.route).await?;
        // Before amounts are read: they must be read from what the upstream will see.
        headers::clean_request(&mut parts.headers);
        let prepared = self.inspection.prepare(parts, placed, body, with).await?;
        Ok((prepared, exception))
    }

    /// The reader of a new intent's id. Its answer is asked for as it is: in a compressed one the id
    /// could not be read, and the intent could not be confirmed.
    fn birth(&self, standing: Standing, parts: &mut Parts, route: &Route) -> Option<Birth> {
        match standing {
            Standing::Plain | Standing::Uncounted => None,
            Standing::Makes => {
                parts.headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
                Some(Birth::new(&self.intents, &route.alias))
            }
        }
    }

    /// The request as it leaves. Its headers are moved, not copied.
    fn outgoing(
        &self,
        parts: &mut Parts,
        path: PathAndQuery,
        body: RequestBody,
    ) -> Request<RequestBody> {
        let mut request = Request::new(body);
        *request.method_mut() = parts.method.clone();
        *request.uri_mut() = Uri::from(path);
        *request.headers_mut() = std::mem::take(&mut parts.headers);
        request.headers_mut().append(VIA, self.via.clone());
        request
    }
}

/// What the caller shows.
fn knock(connection: &ConnectionState, parts: &Parts) -> Knock {
    Knock {
        presented: identity::presented(&parts.headers),
        client_ip: connection.client_ip,
        from_web_page: identity::is_from_web_page(&parts.headers),
    }
}

/// The path stays below its service, and no token stands in it.
fn check_path(target: &Target<'_>, uri: &Uri) -> Result<(), Refusal> {
    if let Err(escape) = path::check(target.path) {
        let message = format!("the path may leave its service: {escape}");
        return Err(Refusal::with(Reason::DestinationBlocked, message)
            .detail("why", "path_escapes_base")
            .detail("remedy", "send the path plainly, below the service's base URL"));
    }
    let whole = uri.path_and_query().map_or("", PathAndQuery::as_str);
    if identity::holds_token_text(whole.as_bytes()) {
        let message = "an agent token stands in the URL, where it would go upstream".to_owned();
        return Err(Refusal::with(Reason::BadRequest, message)
            .detail("remedy", "send the token as `X-AgentGuard-Token`"));
    }
    Ok(())
}

/// The destination guard's word on a service, with the opening that was used.
async fn approve(route: &Route) -> Result<Option<&'static str>, Refusal> {
    match route.upstream()?.approve().await {
        Ok(approved) => Ok(exception(approved.passage())),
        Err(ApproveError::Blocked(blocked)) => Err(destination_refusal(&blocked)),
        Err(ApproveError::Dns(error)) => {
            tracing::warn!(service = %route.alias, %error, "a service's name is not resolved");
            Err(Refusal::plain(Reason::UpstreamUnreachable))
        }
    }
}

/// By what opening a destination was let through, for the record.
const fn exception(passage: &Passage) -> Option<&'static str> {
    match passage {
        Passage::Ordinary => None,
        Passage::PrivateService => Some("allow_private"),
        Passage::DangerAllow(_) => Some("danger_allow"),
    }
}

fn asked(agent: Option<AgentId>, refusal: Refusal) -> Refused {
    Box::new(TurnedAway { agent, refusal, record: Recording::Asked })
}

fn by_gate(caller: &Caller, refusal: Refusal) -> Refused {
    let agent = Some(caller.agent.id);
    Box::new(TurnedAway { agent, refusal, record: Recording::ByGate })
}

fn no_target(nowhere: NoTarget, visit: Visit) -> Answer {
    match nowhere {
        NoTarget::ProxyForm => respond::no_call(
            StatusCode::NOT_IMPLEMENTED,
            "NOT_IMPLEMENTED",
            "this version is no ordinary proxy: set the base URL to http://HOST:PORT/proxy/ALIAS instead of HTTP_PROXY or HTTPS_PROXY",
            visit.id,
        ),
        NoTarget::Elsewhere => respond::no_call(
            StatusCode::NOT_FOUND,
            "NOT_FOUND",
            "nothing is here: calls go to /proxy/ALIAS/PATH, for example /proxy/openai/v1/models",
            visit.id,
        ),
    }
}

fn no_method(visit: Visit) -> Answer {
    let message = "this method does not pass";
    let code = "METHOD_NOT_ALLOWED";
    let mut answer = respond::no_call(StatusCode::METHOD_NOT_ALLOWED, code, message, visit.id);
    answer.headers_mut().insert(ALLOW, HeaderValue::from_static(request::ALLOWED));
    answer
}
