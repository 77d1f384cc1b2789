//! The measure of all: a pooled forwarder that checks nothing and writes nothing down.

use std::net::SocketAddr;

use http::Uri;
use http::uri::{Authority, PathAndQuery, Scheme};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};

use crate::child::until_parent_ends;

/// Forwards from `listen` to `upstream` until the parent ends.
pub(crate) fn run(listen: SocketAddr, upstream: &str) {
    until_parent_ends();
    let authority: Authority = upstream.parse().expect("the upstream's address");
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async move {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .build::<_, Incoming>(connector);
        let listener = TcpListener::bind(listen).await.expect("a free port");
        loop {
            if let Ok((stream, _)) = listener.accept().await {
                let _ = stream.set_nodelay(true);
                tokio::spawn(serve(stream, client.clone(), authority.clone()));
            }
        }
    });
}

async fn serve(stream: TcpStream, client: Client<HttpConnector, Incoming>, to: Authority) {
    let service = service_fn(|mut request: http::Request<Incoming>| {
        let mut parts = std::mem::take(request.uri_mut()).into_parts();
        parts.scheme = Some(Scheme::HTTP);
        parts.authority = Some(to.clone());
        parts.path_and_query.get_or_insert(PathAndQuery::from_static("/"));
        *request.uri_mut() = Uri::from_parts(parts).expect("all parts are there");
        client.request(request)
    });
    let _ = http1::Builder::new()
        .timer(TokioTimer::new())
        .serve_connection(TokioIo::new(stream), service)
        .await;
}
