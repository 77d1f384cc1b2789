//! A small HTTP client for tests: exact bytes, whole answers, and streams with the instants at
//! which their chunks came.
//!
//! Never here: retries, redirects, decoding. A test must see what was on the wire.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Longer than the gate's own upstream timeout, so that a test sees the gate's answer.
const REQUEST_LIMIT: Duration = Duration::from_secs(60);
/// For [`raw`]: a server that keeps the connection open is read this long.
const RAW_LIMIT: Duration = Duration::from_secs(5);
/// No test needs more of a raw answer.
const RAW_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// A whole answer.
#[derive(Debug, Clone)]
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Answer {
    /// The body as JSON; panics with the body when it is none.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|e| {
            panic!("{} with a body that is not JSON ({e}): {}", self.status, self.text())
        })
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The first value of a header, if it is there and plain text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

/// What went wrong on the way to an answer.
#[derive(Debug)]
pub struct RequestError(pub String);

impl std::fmt::Display for RequestError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for RequestError {}

/// Writes exactly these bytes and reads until the server closes or five seconds pass.
///
/// For smuggling shapes. Send `Connection: close` where the answer is expected to be an answer,
/// or the test waits out the time.
pub async fn raw(addr: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    raw_for(addr, bytes, RAW_LIMIT).await
}

/// As [`raw`], with another limit.
pub async fn raw_for(addr: SocketAddr, bytes: &[u8], limit: Duration) -> Vec<u8> {
    let stream =
        TcpStream::connect(addr).await.unwrap_or_else(|e| panic!("connecting to {addr}: {e}"));
    let (reader, mut writer) = stream.into_split();
    let mut got = Vec::new();
    // A server may refuse, answer and reset while we still write: what came before counts.
    let talk = async {
        let mut reader = reader.take(RAW_BYTES_MAX);
        tokio::join!(
            async {
                let _ = writer.write_all(bytes).await;
            },
            async { while reader.read_buf(&mut got).await.is_ok_and(|n| n > 0) {} }
        );
    };
    let _ = tokio::time::timeout(limit, talk).await;
    got
}

/// The status codes of all answers in raw bytes, by their status lines.
pub fn raw_statuses(bytes: &[u8]) -> Vec<u16> {
    let text = String::from_utf8_lossy(bytes);
    text.match_indices("HTTP/1.")
        .filter_map(|(at, _)| text.get(at + 9..at + 12)?.parse().ok())
        .collect()
}

/// One request on a connection of its own; panics when there is no whole answer.
pub async fn request(
    method: Method,
    url: &str,
    headers: &[(&str, &str)],
    body: impl Into<Bytes>,
) -> Answer {
    try_request(method, url, headers, body).await.unwrap_or_else(|e| panic!("{url}: {e}"))
}

/// As [`request`], for answers that may break.
pub async fn try_request(
    method: Method,
    url: &str,
    headers: &[(&str, &str)],
    body: impl Into<Bytes>,
) -> Result<Answer, RequestError> {
    stream(method, url, headers, body).await?.whole().await
}

/// One request whose answer is read chunk by chunk. Dropping it closes the connection.
pub async fn stream(
    method: Method,
    url: &str,
    headers: &[(&str, &str)],
    body: impl Into<Bytes>,
) -> Result<Streaming, RequestError> {
    let mut request = build(method, url, headers, body.into());
    let uri = request.uri().clone();
    let authority = uri.authority().expect("a URL with a host").to_string();
    let target = uri.path_and_query().map_or("/", |target| target.as_str());
    *request.uri_mut() = Uri::try_from(target).expect("a path is a URI");
    if !request.headers().contains_key("host") {
        let host = HeaderValue::try_from(&authority).expect("a plain host");
        request.headers_mut().insert("host", host);
    }
    let host_port = match uri.port() {
        Some(_) => authority,
        None => format!("{authority}:80"),
    };
    let send = async {
        let socket = TcpStream::connect(&host_port).await.map_err(failed)?;
        let _ = socket.set_nodelay(true);
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(socket)).await.map_err(failed)?;
        let driver = tokio::spawn(async move {
            let _ = connection.await;
        });
        let sent_at = Instant::now();
        let answer = sender.send_request(request).await;
        let answer = answer.inspect_err(|_| driver.abort()).map_err(failed)?;
        Ok(Streaming::new(answer, sent_at, Some(driver)))
    };
    limited(send).await
}

/// Keeps connections open between requests: for load.
#[derive(Debug, Clone)]
pub struct Client(legacy::Client<HttpConnector, Full<Bytes>>);

impl Default for Client {
    fn default() -> Self {
        Self::new()
    }
}

impl Client {
    pub fn new() -> Self {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        Self(legacy::Client::builder(TokioExecutor::new()).build(connector))
    }

    pub async fn request(
        &self,
        method: Method,
        url: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Result<Answer, RequestError> {
        self.stream(method, url, headers, body).await?.whole().await
    }

    pub async fn stream(
        &self,
        method: Method,
        url: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Result<Streaming, RequestError> {
        let request = build(method, url, headers, body.into());
        let sent_at = Instant::now();
        let answer = limited(async { self.0.request(request).await.map_err(failed) }).await?;
        Ok(Streaming::new(answer, sent_at, None))
    }
}

/// A piece of a body and when it came.
#[derive(Debug, Clone)]
pub struct Chunk {
    pub at: Instant,
    pub bytes: Bytes,
}

/// An answer whose body is still coming.
#[derive(Debug)]
pub struct Streaming {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub sent_at: Instant,
    pub head_at: Instant,
    /// Filled when the body had them.
    pub trailers: Option<HeaderMap>,
    body: Incoming,
    driver: Option<tokio::task::JoinHandle<()>>,
}

impl Streaming {
    fn new(
        answer: http::Response<Incoming>,
        sent_at: Instant,
        driver: Option<tokio::task::JoinHandle<()>>,
    ) -> Self {
        let (head, body) = answer.into_parts();
        Self {
            status: head.status,
            headers: head.headers,
            sent_at,
            head_at: Instant::now(),
            trailers: None,
            body,
            driver,
        }
    }

    /// The next chunk; none at the orderly end; an error when the body broke off.
    pub async fn next(&mut self) -> Option<Result<Chunk, RequestError>> {
        loop {
            let frame = match limited(async { Ok(self.body.frame().await) }).await {
                Ok(frame) => frame?,
                Err(e) => return Some(Err(e)),
            };
            let at = Instant::now();
            let frame = match frame {
                Ok(frame) => frame,
                Err(e) => return Some(Err(failed(e))),
            };
            match frame.into_data() {
                Ok(bytes) => return Some(Ok(Chunk { at, bytes })),
                Err(frame) => self.trailers = frame.into_trailers().ok(),
            }
        }
    }

    /// Reads to the orderly end.
    pub async fn whole(mut self) -> Result<Answer, RequestError> {
        let mut body = bytes::BytesMut::new();
        while let Some(chunk) = self.next().await {
            body.extend_from_slice(&chunk?.bytes);
        }
        Ok(Answer {
            status: self.status,
            headers: std::mem::take(&mut self.headers),
            body: body.freeze(),
        })
    }
}

impl Drop for Streaming {
    fn drop(&mut self) {
        if let Some(driver) = &self.driver {
            driver.abort();
        }
    }
}

fn build(method: Method, url: &str, headers: &[(&str, &str)], body: Bytes) -> Request<Full<Bytes>> {
    let mut request = Request::new(Full::new(body));
    *request.method_mut() = method;
    *request.uri_mut() = url.parse().unwrap_or_else(|e| panic!("`{url}` is no URL: {e}"));
    for (name, value) in headers {
        let name = HeaderName::try_from(*name).unwrap_or_else(|e| panic!("header `{name}`: {e}"));
        let value = HeaderValue::try_from(*value).unwrap_or_else(|e| panic!("`{name}`: {e}"));
        request.headers_mut().append(name, value);
    }
    request
}

async fn limited<T>(
    work: impl Future<Output = Result<T, RequestError>>,
) -> Result<T, RequestError> {
    tokio::time::timeout(REQUEST_LIMIT, work)
        .await
        .unwrap_or_else(|_| Err(RequestError(format!("nothing came for {REQUEST_LIMIT:?}"))))
}

/// Keeps the whole chain of causes: the outermost text alone says next to nothing.
fn failed(error: impl std::error::Error) -> RequestError {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text.push_str(": ");
        text.push_str(&inner.to_string());
        cause = inner.source();
    }
    RequestError(text)
}
