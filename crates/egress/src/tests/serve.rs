//! Small HTTP servers on loopback, with and without TLS, that count connections.

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

/// Ends with the test that holds it.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) address: SocketAddr,
    connections: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

/// What the server does with a connection.
#[derive(Clone)]
pub(super) enum Speaks {
    /// Answers each request with what it saw: method, URI, version and `Host`.
    Http,
    Tls(Arc<ServerConfig>),
    /// Answers after this time.
    SlowHttp(Duration),
    /// Accepts, and says nothing.
    Nothing,
    /// Accepts, and hangs up.
    HangUp,
}

impl Server {
    pub(super) async fn start(speaks: Speaks) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a listener");
        let address = listener.local_addr().expect("an address");
        let connections = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&connections);
        let task = tokio::spawn(async move {
            let mut open = tokio::task::JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                count.fetch_add(1, Ordering::SeqCst);
                open.spawn(serve(stream, speaks.clone()));
            }
        });
        Self { address, connections, task }
    }

    pub(super) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(stream: TcpStream, speaks: Speaks) {
    match speaks {
        Speaks::Http => http1(TokioIo::new(stream), Duration::ZERO).await,
        Speaks::SlowHttp(delay) => http1(TokioIo::new(stream), delay).await,
        Speaks::Nothing => {
            std::future::pending::<()>().await;
            drop(stream);
        }
        Speaks::HangUp => drop(stream),
        Speaks::Tls(config) => {
            let Ok(stream) = TlsAcceptor::from(config).accept(stream).await else { return };
            if stream.get_ref().1.alpn_protocol() == Some(b"h2") {
                let connection = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
                let service = service_fn(|request| answer(request, Duration::ZERO));
                let _ended = connection.serve_connection(TokioIo::new(stream), service).await;
            } else {
                http1(TokioIo::new(stream), Duration::ZERO).await;
            }
        }
    }
}

async fn http1<I: hyper::rt::Read + hyper::rt::Write + Unpin>(io: I, delay: Duration) {
    let service = service_fn(move |request| answer(request, delay));
    let _ended = hyper::server::conn::http1::Builder::new().serve_connection(io, service).await;
}

async fn answer(
    request: Request<Incoming>,
    delay: Duration,
) -> Result<Response<Full<Bytes>>, Infallible> {
    tokio::time::sleep(delay).await;
    let host = request.headers().get("host").and_then(|host| host.to_str().ok()).unwrap_or("-");
    let (method, uri, version) = (request.method(), request.uri(), request.version());
    Ok(Response::new(Full::from(format!("{method} {uri} {version:?} host={host}"))))
}

/// An authority made for one test.
pub(super) struct TestCa {
    issuer: Issuer<'static, KeyPair>,
    pub(super) pem: String,
}

impl TestCa {
    pub(super) fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("parameters");
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let pem = params.self_signed(&key).expect("a certificate").pem();
        Self { issuer: Issuer::new(params, key), pem }
    }

    /// A server's configuration with a certificate for `names`, changed as the test wants.
    pub(super) fn server(
        &self,
        names: &[&str],
        alpn: &[&[u8]],
        change: impl FnOnce(&mut CertificateParams),
    ) -> Speaks {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let mut params = CertificateParams::new(names).expect("parameters");
        change(&mut params);
        let key = KeyPair::generate().expect("a key");
        let leaf = params.signed_by(&key, &self.issuer).expect("a certificate");
        let chain: Vec<CertificateDer<'static>> = vec![leaf.der().clone()];
        let key = PrivateKeyDer::try_from(key.serialize_der()).expect("a key");
        let mut config =
            ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
                .with_safe_default_protocol_versions()
                .expect("versions")
                .with_no_client_auth()
                .with_single_cert(chain, key)
                .expect("a server configuration");
        config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
        Speaks::Tls(Arc::new(config))
    }
}
