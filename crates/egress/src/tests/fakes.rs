//! A resolver that answers by script, and a connect step that counts.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use agentguard_core::net::{BlockedNames, Destination, Exceptions, PrivateAddresses};
use parking_lot::Mutex;
use tokio::net::TcpStream;

use crate::dial::{Connect, Connecting, TcpConnect};
use crate::guard::Guard;
use crate::resolver::{Resolver, Resolving};

/// Each look-up takes the next answer of its name; the last one stays.
#[derive(Debug, Clone, Default)]
pub(super) struct FakeResolver(Arc<Script>);

type Answer = Result<Vec<IpAddr>, io::ErrorKind>;

#[derive(Debug, Default)]
struct Script {
    answers: Mutex<HashMap<String, VecDeque<Answer>>>,
    look_ups: AtomicUsize,
}

impl FakeResolver {
    pub(super) fn answering(name: &str, answers: &[&[&str]]) -> Self {
        let fake = Self::default();
        for answer in answers {
            fake.then(name, Ok(answer.iter().map(|ip| ip.parse().expect("an address")).collect()));
        }
        fake
    }

    pub(super) fn then(&self, name: &str, answer: Answer) {
        self.0.answers.lock().entry(name.to_owned()).or_default().push_back(answer);
    }

    pub(super) fn look_ups(&self) -> usize {
        self.0.look_ups.load(Ordering::SeqCst)
    }

    pub(super) fn guard(&self) -> Arc<Guard> {
        Arc::new(Guard::new(self.clone(), BlockedNames::default()))
    }
}

impl Resolver for FakeResolver {
    fn resolve<'a>(&'a self, host: &'a str) -> Resolving<'a> {
        self.0.look_ups.fetch_add(1, Ordering::SeqCst);
        let mut scripts = self.0.answers.lock();
        let script = scripts.entry(host.to_owned()).or_default();
        let next = if script.len() > 1 { script.pop_front() } else { script.front().cloned() };
        let answer = next.unwrap_or(Err(io::ErrorKind::NotFound)).map_err(io::Error::from);
        Box::pin(std::future::ready(answer))
    }
}

/// What happens when an address is dialled.
#[derive(Debug, Clone, Copy)]
pub(super) enum Then {
    Refuse,
    Hang,
    /// Connects to this loopback address instead, as a redirecting firewall would.
    Reach(SocketAddr),
    Really,
}

/// Writes down every address that was dialled, and dials none but loopback.
#[derive(Debug, Clone)]
pub(super) struct CountingConnect(Arc<Dialled>);

#[derive(Debug)]
struct Dialled {
    addresses: Mutex<Vec<SocketAddr>>,
    then: Mutex<VecDeque<Then>>,
}

impl CountingConnect {
    /// Each dial takes the next of `then`; the last one stays.
    pub(super) fn new(then: &[Then]) -> Self {
        let then = Mutex::new(then.iter().copied().collect());
        Self(Arc::new(Dialled { addresses: Mutex::default(), then }))
    }

    pub(super) fn dialled(&self) -> Vec<SocketAddr> {
        self.0.addresses.lock().clone()
    }

    pub(super) fn step(&self) -> Arc<dyn Connect> {
        Arc::new(self.clone())
    }
}

impl Connect for CountingConnect {
    fn connect(&self, to: SocketAddr) -> Connecting {
        self.0.addresses.lock().push(to);
        let mut script = self.0.then.lock();
        let next = if script.len() > 1 { script.pop_front() } else { script.front().copied() };
        match next.unwrap_or(Then::Refuse) {
            Then::Refuse => {
                Box::pin(async { Err::<TcpStream, _>(io::ErrorKind::ConnectionRefused.into()) })
            }
            Then::Hang => Box::pin(std::future::pending()),
            Then::Reach(instead) => TcpConnect.connect(instead),
            Then::Really => {
                assert!(to.ip().is_loopback(), "a test would have dialled {to}");
                TcpConnect.connect(to)
            }
        }
    }
}

pub(super) fn destination(url: &str) -> Destination {
    Destination::parse(url).expect("a test URL").1
}

pub(super) fn allow_private() -> Exceptions {
    Exceptions::new(PrivateAddresses::AllowedForService, Vec::new())
}

pub(super) fn opening(text: &str) -> Exceptions {
    let allow = text.parse().expect("a test exception");
    Exceptions::new(PrivateAddresses::Refused, vec![allow])
}
