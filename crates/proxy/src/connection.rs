//! One client's connection: what the reader, the door and the stream on it know of each other, and
//! how a stop or the gate's end reaches it.
//!
//! Never here: accepting (`listen`), or what a request means.

use std::future::{Future as _, poll_fn};
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use agentguard_gate::StopWatch;
use http::header::CONNECTION;
use http::{HeaderValue, StatusCode};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use parking_lot::Mutex;
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::sync::futures::OwnedNotified;

use crate::door::Door;
use crate::head_scan::Malformed;
use crate::limits;
use crate::socket::Socket;
use crate::tunnel::Tunnel;

/// What is shared along one connection. All of it runs in one task: nothing here is contended.
#[derive(Debug)]
pub(crate) struct ConnectionState {
    pub(crate) client_ip: IpAddr,
    /// 0, or one more than the place in `Malformed::ALL`.
    malformed: AtomicU8,
    last: AtomicBool,
    cut: AtomicBool,
    /// An upstream's answer is on its way to the client.
    answering: AtomicBool,
    /// How long the client may leave what is written to it unread, in milliseconds.
    stall_limit_ms: AtomicU64,
    /// What the connection becomes when the answer under way is written.
    tunnel: Mutex<Option<Box<Tunnel>>>,
    /// The kill switch of the stream under way. Held here and not in its body, because a body is not
    /// polled while a client does not read, and such a stream must end too.
    watch: Mutex<Pin<Box<Option<StopWatch>>>>,
}

impl ConnectionState {
    pub(crate) fn new(client_ip: IpAddr, stall_limit: Duration) -> Arc<Self> {
        Arc::new(Self {
            client_ip,
            malformed: AtomicU8::new(0),
            last: AtomicBool::new(false),
            cut: AtomicBool::new(false),
            answering: AtomicBool::new(false),
            stall_limit_ms: AtomicU64::new(millis(stall_limit)),
            tunnel: Mutex::new(None),
            watch: Mutex::new(Box::pin(None)),
        })
    }

    /// Nothing more is taken from this connection.
    pub(crate) fn set_malformed(&self, malformed: Malformed) {
        let place = Malformed::ALL.iter().position(|one| *one == malformed);
        let code = place.and_then(|place| u8::try_from(place.saturating_add(1)).ok()).unwrap_or(1);
        self.malformed.store(code, Ordering::Relaxed);
        self.set_last();
    }

    pub(crate) fn malformed(&self) -> Option<Malformed> {
        let code = usize::from(self.malformed.load(Ordering::Relaxed));
        Malformed::ALL.get(code.checked_sub(1)?).copied()
    }

    /// The request under way is the last one.
    pub(crate) fn set_last(&self) {
        self.last.store(true, Ordering::Relaxed);
    }

    /// A switch or a stalled client ended it: what the system still holds for the client is thrown away, too.
    pub(crate) fn cut(&self) {
        self.cut.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_cut(&self) -> bool {
        self.cut.load(Ordering::Relaxed)
    }

    pub(crate) fn set_answering(&self, answering: bool) {
        self.answering.store(answering, Ordering::Relaxed);
    }

    pub(crate) fn is_answering(&self) -> bool {
        self.answering.load(Ordering::Relaxed)
    }

    /// What holds for the answer under way: its service's timeout.
    pub(crate) fn set_stall_limit(&self, limit: Duration) {
        self.stall_limit_ms.store(millis(limit), Ordering::Relaxed);
    }

    pub(crate) fn stall_limit(&self) -> Duration {
        Duration::from_millis(self.stall_limit_ms.load(Ordering::Relaxed))
    }

    /// From now on the whole connection ends when the switch does. True if it has.
    pub(crate) fn end_with(&self, watch: StopWatch, context: &mut Context<'_>) -> bool {
        self.watch.lock().as_mut().set(Some(watch));
        self.poll_stopped(context).is_ready()
    }

    pub(crate) fn end_with_nothing(&self) {
        self.watch.lock().as_mut().set(None);
    }

    pub(crate) fn set_tunnel(&self, tunnel: Tunnel) {
        *self.tunnel.lock() = Some(Box::new(tunnel));
    }

    pub(crate) fn poll_stopped(&self, context: &mut Context<'_>) -> Poll<()> {
        match self.watch.lock().as_mut().as_pin_mut() {
            Some(watch) => watch.poll(context).map(drop),
            None => Poll::Pending,
        }
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Tells every connection that the gate ends.
#[derive(Debug, Default)]
pub(crate) struct Closing {
    told: AtomicBool,
    bell: Arc<Notify>,
}

impl Closing {
    pub(crate) fn ring(&self) {
        self.told.store(true, Ordering::SeqCst);
        self.bell.notify_waiters();
    }

    pub(crate) fn is_told(&self) -> bool {
        self.told.load(Ordering::SeqCst)
    }
}

/// Serves a connection to its end: the client's, a stop's, or the gate's once its request is done.
pub(crate) async fn serve(
    stream: TcpStream,
    client_ip: IpAddr,
    door: Arc<Door>,
    closing: Arc<Closing>,
) {
    let state = ConnectionState::new(client_ip, door.options().upstream_timeout);
    let socket = Socket::new(stream, Arc::clone(&state), Arc::clone(&door));
    let mut bell = pin!(Arc::clone(&closing.bell).notified_owned());
    if let Err(error) = speak_http(socket, &state, &door, &closing, bell.as_mut()).await {
        tracing::debug!(%error, %client_ip, "a client's connection ended early");
    }
    // Here and not in a task of its own: a tunnel has its connection's slot, and ends with it.
    let tunnel = state.tunnel.lock().take();
    if let Some(tunnel) = tunnel
        && !state.is_cut()
    {
        tunnel.run(&state, &closing, bell).await;
    }
}

/// Serves requests. When this returns, hyper has let go of the socket: closed it, or handed it to the
/// tunnel that the connection becomes. (A tunnel waits for that, and would wait for ever otherwise.)
async fn speak_http(
    socket: Socket,
    state: &Arc<ConnectionState>,
    door: &Arc<Door>,
    closing: &Closing,
    mut bell: Pin<&mut OwnedNotified>,
) -> hyper::Result<()> {
    let service = service_fn(|request| {
        let (door, state) = (Arc::clone(door), Arc::clone(state));
        // On its own: a connection would hold its six kilobytes while an answer streams, and after.
        Box::pin(async move {
            let mut answer = door.answer(&state, request).await;
            let switches = answer.status() == StatusCode::SWITCHING_PROTOCOLS;
            if state.last.load(Ordering::Relaxed) && !switches {
                answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            }
            Ok::<_, std::convert::Infallible>(answer)
        })
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(door.options().head_timeout)
        .max_header_size(limits::HEAD_BYTES_MAX)
        .max_buf_size(limits::READ_BUFFER_BYTES_MAX)
        .serve_connection(TokioIo::new(socket), service)
        .with_upgrades();
    let mut connection = pin!(connection);
    let (mut listening, mut told) = (false, false);
    poll_fn(|context| {
        // Registered once: the task stays the same, so the bell wakes it whenever it rings, and the
        // flag is cheaper to look at than the bell.
        if !listening {
            listening = bell.as_mut().poll(context).is_pending() || closing.is_told();
        }
        if !told && closing.is_told() {
            told = true;
            connection.as_mut().graceful_shutdown();
        }
        if state.poll_stopped(context).is_ready() {
            state.cut();
            return Poll::Ready(Ok(()));
        }
        connection.as_mut().poll(context)
    })
    .await
}
