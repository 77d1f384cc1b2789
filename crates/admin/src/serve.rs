//! The routes, and the loop that serves them.

use std::future::Future;
use std::sync::Arc;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware::from_fn_with_state;
use axum::routing::{delete, get, post};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use crate::error::ApiError;
use crate::limits::{ACCEPT_PAUSE, BODY_BYTES_MAX, CONNECTIONS_MAX, DRAIN_LIMIT, READ_LIMIT};
use crate::state::Admin;
use crate::{
    agents, explain, extractors, guard, health, metrics, policy, prices, proof, record, rules,
    services, spend, stops,
};

/// Everything under `/api/v1`, and the paths that need no token. Nothing is reached but through the guard,
/// unknown paths included.
pub fn router(admin: Admin) -> Router {
    let api = Router::new()
        .route("/agents", get(agents::list).post(agents::add))
        .route("/agents/{agent}", get(agents::show))
        .route("/agents/{agent}/rotate-token", post(agents::rotate))
        .route("/agents/{agent}/pause", post(agents::pause))
        .route("/agents/{agent}/resume", post(agents::resume))
        .route("/agents/{agent}/revoke", post(agents::revoke))
        .route("/rule-sets", get(rules::sets).post(rules::add_set))
        .route("/rule-sets/{set}/rules", get(rules::list).post(rules::add).delete(rules::clear))
        .route("/rules/{rule}", delete(rules::remove))
        .route("/services", get(services::list))
        .route("/services/{alias}", get(services::show).put(services::put).delete(services::remove))
        .route("/services/{alias}/extractors", get(extractors::list).post(extractors::add))
        .route("/services/{alias}/extractors/{number}", delete(extractors::remove))
        .route("/prices", get(prices::list))
        .route("/prices/{model}", get(prices::check).put(prices::put).delete(prices::remove))
        .route("/kill-switch", get(stops::show).post(stops::switch))
        .route("/explain", post(explain::explain))
        .route("/spend", get(spend::show))
        .route("/policy", get(policy::export).post(policy::import))
        .route("/record/flush", post(record::flush));
    Router::new()
        .nest("/api/v1", api)
        .route("/healthz", get(health::healthz))
        .route("/readyz", get(health::readyz))
        .route("/metrics", get(metrics::page))
        .route(proof::PATH, get(proof::prove))
        .fallback(async || ApiError::no_route())
        .method_not_allowed_fallback(async || ApiError::wrong_method())
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .layer(from_fn_with_state(admin.clone(), guard::guard))
        .with_state(admin)
}

/// Serves until `shutdown` completes, then lets requests under way end within a short time.
pub async fn serve(listener: TcpListener, admin: Admin, shutdown: impl Future<Output = ()>) {
    let service = router(admin);
    let graceful = GracefulShutdown::new();
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut shutdown = std::pin::pin!(shutdown);
    loop {
        let accepted = tokio::select! {
            () = &mut shutdown => break,
            accepted = listener.accept() => accepted,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "accepting a management connection failed");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        // Full: hanging up at once is an answer; a queue would make `agentguard kill` wait.
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else { continue };
        let connection = graceful.watch(connection(stream, service.clone()));
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a management connection ended early");
            }
            drop(place);
        });
    }
    drop(listener);
    if tokio::time::timeout(DRAIN_LIMIT, graceful.shutdown()).await.is_err() {
        tracing::warn!("management requests were still under way at the end");
    }
}

fn connection(
    stream: TcpStream,
    service: Router,
) -> http1::Connection<TokioIo<TcpStream>, TowerToHyperService<Router>> {
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(READ_LIMIT)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(service))
}
