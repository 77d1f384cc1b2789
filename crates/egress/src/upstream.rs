//! One service's HTTP client: pooled, kept alive, HTTP/1.1 or HTTP/2 as the service prefers.
//!
//! Never here: a request to anywhere else. Scheme and authority are the service's, whatever the
//! request said.
#![expect(
    clippy::disallowed_methods,
    reason = "the one HTTP client; its connector dials judged addresses only"
)]

use std::error::Error;
use std::fmt;
use std::mem;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use agentguard_core::net::{Blocked, Destination, Exceptions, Scheme};
use agentguard_gate::Permit;
use arc_swap::ArcSwapOption;
use http::header::HOST;
use http::uri::{Authority, PathAndQuery, Uri};
use http::{HeaderValue, Request, Response, StatusCode, Version};
use http_body::Body;
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tokio::time::Instant;

use crate::approved::Approved;
use crate::connector::{Connector, Route};
use crate::dial::{Connect, TcpConnect};
use crate::error::{ApproveError, SendError};
use crate::guard::Guard;
use crate::limits;
use crate::switched::{Switch, Switched};
use crate::tls::ClientTls;

/// The client of one service. The body type is a parameter so that no request has to box its body.
pub struct Upstream<B> {
    client: Client<Connector, B>,
    /// For calls that ask for another protocol. Made with the first such call: few services have one.
    switching: OnceLock<Client<Connector, B>>,
    route: Arc<Route>,
    /// What `approve` said last.
    approval: ArcSwapOption<KeptApproval>,
    /// The guard's changes up to which this destination's name is known to be open.
    judged_changes: AtomicU64,
    scheme: http::uri::Scheme,
    authority: Authority,
    /// Known in advance for HTTP/1 without TLS. With TLS the client adds it where HTTP/1 was agreed;
    /// HTTP/2 has `:authority` instead.
    host_header: Option<HeaderValue>,
    name: Arc<str>,
    head_timeout: Duration,
}

/// An approval that is not asked for again with every request. New connections do not use it: they are
/// judged by the guard itself.
#[derive(Debug)]
struct KeptApproval {
    approved: Approved,
    changes: u64,
    until: Instant,
}

/// How one service is reached. Another configuration needs another `Upstream`: pooled connections
/// were approved under this one.
#[derive(Debug, Clone)]
pub struct UpstreamConfig {
    pub destination: Destination,
    pub exceptions: Exceptions,
    pub tls: ClientTls,
    /// For TCP and TLS together.
    pub connect_timeout: Duration,
    /// From the call to the response head, connecting included.
    pub head_timeout: Duration,
}

/// The destination's name cannot stand in a URI. Not seen for a host that was parsed.
#[derive(Debug, thiserror::Error)]
#[error("`{destination}` cannot be addressed over HTTP")]
pub struct UpstreamError {
    destination: Destination,
}

impl UpstreamConfig {
    /// No exceptions and the usual timeouts.
    pub fn new(destination: Destination, tls: ClientTls) -> Self {
        Self {
            destination,
            exceptions: Exceptions::none(),
            tls,
            connect_timeout: limits::CONNECT_TIMEOUT,
            head_timeout: limits::HEAD_TIMEOUT,
        }
    }
}

impl<B> Upstream<B>
where
    B: Body + Send + Unpin + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    /// # Errors
    /// When the destination cannot stand in a URI.
    pub fn new(guard: Arc<Guard>, config: UpstreamConfig) -> Result<Self, UpstreamError> {
        Self::with_connect(guard, config, Arc::new(TcpConnect))
    }

    pub(crate) fn with_connect(
        guard: Arc<Guard>,
        config: UpstreamConfig,
        connect: Arc<dyn Connect>,
    ) -> Result<Self, UpstreamError> {
        let UpstreamConfig { destination, exceptions, tls, connect_timeout, head_timeout } = config;
        let text = destination.authority();
        let authority: Option<Authority> = text.parse().ok();
        let host: Option<HeaderValue> = text.parse().ok();
        let (Some(authority), Some(host)) = (authority, host) else {
            return Err(UpstreamError { destination });
        };
        let (scheme, host_header) = match destination.scheme() {
            Scheme::Http => (http::uri::Scheme::HTTP, Some(host)),
            Scheme::Https => (http::uri::Scheme::HTTPS, None),
        };
        let name = destination.to_string().into();
        let route = Route { guard, destination, exceptions, tls, connect, connect_timeout };
        let route = Arc::new(route);
        let client = pooled_client(Connector(Arc::clone(&route)));
        // No change has this number, so that the first request is judged too.
        let judged_changes = AtomicU64::new(u64::MAX);
        Ok(Self {
            client,
            switching: OnceLock::new(),
            route,
            approval: ArcSwapOption::empty(),
            judged_changes,
            scheme,
            authority,
            host_header,
            name,
            head_timeout,
        })
    }

    /// Judges the destination without connecting, for a door's own order of checks and for the record
    /// of exceptions used. New connections are judged again, mostly by the guard's kept approval.
    ///
    /// # Errors
    /// When the destination is refused, or its name cannot be resolved.
    pub async fn approve(&self) -> Result<Approved, ApproveError> {
        let Route { guard, destination, exceptions, .. } = &*self.route;
        let (changes, now) = (guard.changes(), Instant::now());
        if let Some(kept) = &*self.approval.load()
            && kept.changes == changes
            && now < kept.until
        {
            return Ok(kept.approved.clone());
        }
        let approved = guard.approve(destination, exceptions).await?;
        let until = now.checked_add(limits::APPROVAL_TTL).unwrap_or(now);
        let kept = KeptApproval { approved: approved.clone(), changes, until };
        self.approval.store(Some(Arc::new(kept)));
        Ok(approved)
    }

    /// Sends a request to the service and waits for the response head. Of the request's URI only path
    /// and query count; its `Host` header is replaced. The permit is the proof that the gate admitted
    /// the action.
    ///
    /// A request is sent a second time only if the first pooled connection had closed before a byte
    /// of it was written.
    ///
    /// # Errors
    /// When the destination is refused or not reached, or no response head comes in time.
    pub async fn send(
        &self,
        _permit: &Permit,
        request: Request<B>,
    ) -> Result<Response<Incoming>, SendError> {
        self.forward(request).await
    }

    /// `send` without its proof, for this crate's own tests.
    pub(crate) async fn forward(
        &self,
        request: Request<B>,
    ) -> Result<Response<Incoming>, SendError> {
        self.bounded(self.exchange(&self.client, request)).await
    }

    /// Sends a request that asks for another protocol (`Upgrade`), over HTTP/1.1 whatever the service
    /// prefers, and waits for the response head. The permit is the proof that the gate admitted the
    /// action.
    ///
    /// # Errors
    /// As `send`.
    pub async fn switch(&self, _permit: &Permit, request: Request<B>) -> Result<Switch, SendError> {
        self.switch_over(request).await
    }

    /// `switch` without its proof, for this crate's own tests.
    pub(crate) async fn switch_over(&self, request: Request<B>) -> Result<Switch, SendError> {
        let client = self.switching.get_or_init(|| {
            let route = Route { tls: self.route.tls.http1_only(), ..Route::clone(&self.route) };
            pooled_client(Connector(Arc::new(route)))
        });
        self.bounded(async {
            let mut response = self.exchange(client, request).await?;
            if response.status() != StatusCode::SWITCHING_PROTOCOLS {
                return Ok(Switch::Answered(response));
            }
            let switched = Switched::take(&mut response).await;
            let switched = switched
                .ok_or_else(|| SendError::NotSwitched { destination: Arc::clone(&self.name) })?;
            Ok(Switch::Switched(response.map(drop), switched))
        })
        .await
    }

    async fn exchange(
        &self,
        client: &Client<Connector, B>,
        mut request: Request<B>,
    ) -> Result<Response<Incoming>, SendError> {
        self.judge_changes().map_err(SendError::Blocked)?;
        self.address(&mut request)
            .map_err(|()| SendError::Malformed { destination: Arc::clone(&self.name) })?;
        let response = client.request(request).await;
        response.map_err(|error| SendError::from_client(error, &self.name))
    }

    async fn bounded<T>(
        &self,
        work: impl Future<Output = Result<T, SendError>>,
    ) -> Result<T, SendError> {
        let after = self.head_timeout;
        tokio::time::timeout(after, work).await.unwrap_or_else(|_| {
            Err(SendError::Timeout { destination: Arc::clone(&self.name), after })
        })
    }

    /// A name that is blocked from now on must not go on over connections from before. One atomic
    /// load as long as nothing has changed.
    fn judge_changes(&self) -> Result<(), Blocked> {
        let Route { guard, destination, exceptions, .. } = &*self.route;
        let changes = guard.changes();
        if self.judged_changes.load(Ordering::Relaxed) != changes {
            guard.judge_name(destination, exceptions)?;
            self.judged_changes.store(changes, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Points the request at the service, by reference counts and without allocating.
    fn address(&self, request: &mut Request<B>) -> Result<(), ()> {
        let mut parts = mem::take(request.uri_mut()).into_parts();
        parts.scheme = Some(self.scheme.clone());
        parts.authority = Some(self.authority.clone());
        parts.path_and_query.get_or_insert_with(|| PathAndQuery::from_static("/"));
        *request.uri_mut() = Uri::from_parts(parts).map_err(|_| ())?;
        // What was agreed with the service decides, not what the agent spoke to the gate.
        *request.version_mut() = Version::HTTP_11;
        match &self.host_header {
            Some(host) => request.headers_mut().insert(HOST, host.clone()),
            None => request.headers_mut().remove(HOST),
        };
        Ok(())
    }
}

impl<B> fmt::Debug for Upstream<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upstream").field("name", &self.name).finish_non_exhaustive()
    }
}

fn pooled_client<B>(connector: Connector) -> Client<Connector, B>
where
    B: Body + Send,
    B::Data: Send,
{
    Client::builder(TokioExecutor::new())
        .timer(TokioTimer::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(limits::IDLE_TIMEOUT)
        .pool_max_idle_per_host(limits::IDLE_PER_HOST_MAX)
        .http1_max_buf_size(limits::HTTP1_BUFFER_BYTES_MAX)
        .http2_max_header_list_size(limits::HTTP2_HEAD_BYTES_MAX)
        .http2_initial_stream_window_size(limits::HTTP2_STREAM_WINDOW_BYTES)
        .http2_initial_connection_window_size(limits::HTTP2_CONNECTION_WINDOW_BYTES)
        .http2_max_pending_accept_reset_streams(limits::HTTP2_RESETS_MAX)
        .http2_max_local_error_reset_streams(limits::HTTP2_RESETS_MAX)
        .http2_max_concurrent_reset_streams(limits::HTTP2_RESETS_MAX)
        .http2_keep_alive_interval(limits::HTTP2_PING_INTERVAL)
        .http2_keep_alive_timeout(limits::HTTP2_PING_TIMEOUT)
        .build(connector)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Doors run it in spawned tasks: compiles only while the future may move between threads.
    #[test]
    fn sending_may_move_between_threads() {
        fn demand(_: impl Send) {}
        type Body = http_body_util::Empty<bytes::Bytes>;
        let _compiles = |upstream: &Upstream<Body>, permit: &Permit, request: Request<Body>| {
            demand(upstream.send(permit, request));
        };
    }
}
