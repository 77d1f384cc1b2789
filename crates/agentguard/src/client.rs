//! The command line's own small client of the management endpoint: loopback only, one request at a
//! time, with the token of the data folder, which goes only to a gate that has proved to know it.
//! Never here: any other destination.
#![expect(
    clippy::disallowed_methods,
    reason = "the operator's own command speaks to the gate on this machine; no agent's action leaves here"
)]

use std::future::Future;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use agentguard_admin::{Nonce, Proof};
use agentguard_core::token::Token;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::{Method, Request, StatusCode, header};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use url::Url;

use crate::failure::{Failure, causes};

/// The gate is on this machine: what takes longer is stuck.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);
/// A change waits for the disk; more than this is no waiting any more.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);
/// The largest answer is a whole policy.
const ANSWER_BYTES_MAX: usize = 64 << 20;
/// A token has 41 bytes; the rest of a longer file is not looked at.
const TOKEN_FILE_BYTES_MAX: usize = 1_024;

/// Where the management token lies in the data folder.
pub(crate) const TOKEN_FILE: &str = "admin.token";

/// A running gate.
#[derive(Debug)]
pub(crate) struct Client {
    admin: SocketAddr,
    token_file: PathBuf,
    runtime: tokio::runtime::Runtime,
}

/// A request as it is sent.
type Ready = Request<Full<Bytes>>;

/// What came back.
type Answer = (StatusCode, Bytes);

/// Why there was no answer.
enum Broken {
    /// Nobody listens.
    NoGate(std::io::Error),
    /// Somebody does, who does not know the token; it was not sent.
    Stranger,
    /// Somebody does, but it went wrong.
    Talk(String),
}

impl Client {
    /// The gate whose management endpoint has this address.
    pub(crate) fn new(admin: SocketAddr, data_dir: &Path) -> Result<Self, Failure> {
        if !admin.ip().is_loopback() {
            // The token would cross a network in clear.
            return Err(Failure::usage(format!("`admin.bind` is {admin}, not on this machine"))
                .hint("set it to a loopback address such as 127.0.0.1:3000"));
        }
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| Failure::because("starting the client", &error))?;
        Ok(Self { admin, token_file: data_dir.join(TOKEN_FILE), runtime })
    }

    pub(crate) fn get(&self, path: &[&str]) -> Result<Value, Failure> {
        self.call(&Method::GET, path, &[], None)
    }

    pub(crate) fn query(&self, path: &[&str], query: &[(&str, &str)]) -> Result<Value, Failure> {
        self.call(&Method::GET, path, query, None)
    }

    pub(crate) fn post(&self, path: &[&str], body: &Value) -> Result<Value, Failure> {
        self.call(&Method::POST, path, &[], Some(body))
    }

    pub(crate) fn post_with(
        &self,
        path: &[&str],
        query: &[(&str, &str)],
        body: &Value,
    ) -> Result<Value, Failure> {
        self.call(&Method::POST, path, query, Some(body))
    }

    pub(crate) fn put(&self, path: &[&str], body: &Value) -> Result<Value, Failure> {
        self.call(&Method::PUT, path, &[], Some(body))
    }

    pub(crate) fn delete(&self, path: &[&str]) -> Result<Value, Failure> {
        self.call(&Method::DELETE, path, &[], None)
    }

    /// Whether a gate serves there. Needs no token.
    pub(crate) fn is_ready(&self) -> bool {
        let asked = self.request(&Method::GET, "/readyz", None, Bytes::new());
        let answer = asked.map(|request| self.runtime.block_on(exchange(self.admin, request)));
        matches!(answer, Ok(Ok((StatusCode::OK, _))))
    }

    fn call(
        &self,
        method: &Method,
        path: &[&str],
        query: &[(&str, &str)],
        body: Option<&Value>,
    ) -> Result<Value, Failure> {
        let target = self.target(path, query)?;
        let body = body.map(|body| Bytes::from(body.to_string())).unwrap_or_default();
        let token = match self.token() {
            Ok(token) => token,
            // Without a gate there is often no token either: then that is what to say.
            Err(_) if !self.is_ready() => return Err(self.no_gate(None)),
            Err(failure) => return Err(failure),
        };
        let nonce = nonce()?;
        let proof = Proof::of(&token.hash(), &nonce, self.admin);
        let question = self.target(&["proof"], &[("nonce", &nonce.to_string())])?;
        let question = self.request(&Method::GET, &question, None, Bytes::new())?;
        let request = self.request(method, &target, Some(&token), body)?;
        let asked = confide(self.admin, question, &proof, request);
        let (status, bytes) = self.runtime.block_on(asked).map_err(|broken| match broken {
            Broken::NoGate(error) => self.no_gate(Some(&error)),
            Broken::Stranger => self.stranger(),
            Broken::Talk(why) => Failure::failed(format!("asking the gate: {why}"))
                .hint("`agentguard doctor` looks at what is wrong"),
        })?;
        answer(status, &bytes)
    }

    fn target(&self, path: &[&str], query: &[(&str, &str)]) -> Result<String, Failure> {
        let wrong = || Failure::failed("making the request");
        let mut url = Url::parse("http://localhost/api/v1").map_err(|_| wrong())?;
        // `push` escapes, so a name can be no other path.
        url.path_segments_mut().map_err(|()| wrong())?.extend(path);
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        let query = url.query().map(|query| format!("?{query}")).unwrap_or_default();
        Ok(format!("{}{query}", url.path()))
    }

    fn request(
        &self,
        method: &Method,
        target: &str,
        token: Option<&Token>,
        body: Bytes,
    ) -> Result<Ready, Failure> {
        let mut request = Request::builder()
            .method(method)
            .uri(target)
            .header(header::HOST, self.admin.to_string())
            .header(header::CONTENT_TYPE, "application/json");
        if let Some(token) = token {
            request = request.header(header::AUTHORIZATION, format!("Bearer {}", token.expose()));
        }
        request
            .body(Full::new(body))
            .map_err(|error| Failure::because("making the request", &error))
    }

    fn token(&self) -> Result<Token, Failure> {
        let shown = self.token_file.display();
        let text = std::fs::read_to_string(&self.token_file).map_err(|error| {
            Failure::failed(format!("reading the management token `{shown}`: {error}"))
                .hint("run this as the user who runs the gate, with the same configuration")
        })?;
        let line: String = text.chars().take(TOKEN_FILE_BYTES_MAX).collect();
        Token::parse_admin(line.trim()).ok_or_else(|| {
            Failure::failed(format!("`{shown}` holds no management token"))
                .hint("delete it and restart the gate: it makes a new one")
        })
    }

    fn stranger(&self) -> Failure {
        Failure::failed(format!(
            "something else answers at {}: it does not know this gate's management token, \
             which was not sent to it; nothing was done",
            self.admin
        ))
        .hint("stop what listens there, or name the configuration of the gate that runs there")
    }

    fn no_gate(&self, error: Option<&std::io::Error>) -> Failure {
        let why = match error {
            Some(error) if error.kind() != std::io::ErrorKind::ConnectionRefused => {
                format!(" ({error})")
            }
            Some(_) | None => String::new(),
        };
        Failure::failed(format!("no gate is running at {}{why}", self.admin))
            .hint("start it with `agentguard up`, or name its configuration with --config")
    }
}

/// One request that anybody may hear.
async fn exchange(admin: SocketAddr, request: Ready) -> Result<Answer, Broken> {
    let mut line = Line::open(admin).await?;
    within(line.ask(request)).await
}

/// One request with a token, after what answers has proved that it knows that token. Both on one
/// connection: who answered the question is who hears the token.
async fn confide(
    admin: SocketAddr,
    question: Ready,
    proof: &Proof,
    request: Ready,
) -> Result<Answer, Broken> {
    let mut line = Line::open(admin).await?;
    let (status, bytes) = within(line.ask(question)).await?;
    let said: Option<Value> = serde_json::from_slice(&bytes).ok();
    let said = said.as_ref().and_then(|said| said.get("proof")).and_then(Value::as_str);
    if status != StatusCode::OK || !said.is_some_and(|said| proof.is(said)) {
        return Err(Broken::Stranger);
    }
    within(line.ask(request)).await
}

/// A connection to whatever listens there.
struct Line {
    sender: http1::SendRequest<Full<Bytes>>,
    driver: JoinHandle<hyper::Result<()>>,
}

impl Line {
    async fn open(admin: SocketAddr) -> Result<Self, Broken> {
        let connecting = tokio::time::timeout(CONNECT_LIMIT, TcpStream::connect(admin));
        let stream = match connecting.await {
            Ok(connected) => connected.map_err(Broken::NoGate)?,
            Err(elapsed) => return Err(talk(&elapsed)),
        };
        let (sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(|error| talk(&error))?;
        Ok(Self { sender, driver: tokio::spawn(connection) })
    }

    async fn ask(&mut self, request: Ready) -> Result<Answer, Broken> {
        self.sender.ready().await.map_err(|error| talk(&error))?;
        let response = self.sender.send_request(request).await.map_err(|error| talk(&error))?;
        let status = response.status();
        let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
        Ok((status, body.map_err(|error| talk(&*error))?.to_bytes()))
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

async fn within(asking: impl Future<Output = Result<Answer, Broken>>) -> Result<Answer, Broken> {
    let answered = tokio::time::timeout(ANSWER_LIMIT, asking).await;
    answered.unwrap_or_else(|elapsed| Err(talk(&elapsed)))
}

fn talk(error: &dyn std::error::Error) -> Broken {
    Broken::Talk(causes(error))
}

/// New for each command, so that no answer heard before can be used again.
fn nonce() -> Result<Nonce, Failure> {
    let mut random = [0; 32];
    getrandom::fill(&mut random)
        .map_err(|error| Failure::because("reading the system's random source", &error))?;
    Ok(Nonce::new(random))
}

fn answer(status: StatusCode, bytes: &[u8]) -> Result<Value, Failure> {
    let body: Value = serde_json::from_slice(bytes).map_err(|_| {
        Failure::failed(format!("the answer ({status}) is not the gate's"))
            .hint("does something else listen on `admin.bind`?")
    })?;
    if status.is_success() {
        return Ok(body);
    }
    let part = |field: &str| body.pointer(&format!("/error/{field}")).and_then(Value::as_str);
    let message = part("message").unwrap_or("the gate gave no reason");
    let failure = Failure::failed(crate::table::printable(message));
    Err(match part("code") {
        Some("INVALID_ARGUMENT") => failure.into_usage(),
        Some("UNAUTHENTICATED") => {
            failure.hint("the token file is not of this gate; is --config the same as the gate's?")
        }
        Some("NOT_FOUND") => {
            let remedy = part("details/remedy").map(crate::table::printable);
            failure.hint(remedy.unwrap_or_else(|| "the `list` commands show what there is".into()))
        }
        Some(_) | None => failure,
    })
}
