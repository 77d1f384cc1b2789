//! What can go wrong on the way out. Closed enums: each door maps them to its own words.
//!
//! Never here: query strings, headers or bodies. An error names hosts and addresses only.

use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use agentguard_core::net::{Blocked, Host};

/// Why a destination was not approved.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ApproveError {
    #[error(transparent)]
    Blocked(#[from] Blocked),
    #[error(transparent)]
    Dns(#[from] DnsError),
}

/// A name that could not be resolved.
#[derive(Debug, Clone, thiserror::Error)]
#[error("resolving `{host}`: {cause}")]
pub struct DnsError {
    pub host: Host,
    pub cause: DnsCause,
}

/// Why it could not be resolved.
#[derive(Debug, Clone, thiserror::Error)]
pub enum DnsCause {
    #[error("the resolver did not answer in time")]
    TimedOut,
    #[error("the name has no address")]
    NoAddress,
    #[error("{0}")]
    Failed(Arc<io::Error>),
}

/// Why no connection came about.
#[derive(Debug, Clone, thiserror::Error)]
pub enum DialError {
    /// Known only once connected: the gate itself, or another peer than was meant.
    #[error(transparent)]
    Blocked(#[from] Blocked),
    #[error("connecting to `{destination}`: no answer within {} ms", after.as_millis())]
    Timeout { destination: Arc<str>, after: Duration },
    /// `address` is the last one that failed.
    #[error("connecting to `{destination}` at {address}: {error}")]
    Failed { destination: Arc<str>, address: SocketAddr, error: Arc<io::Error> },
}

/// Why TLS with the destination failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TlsError {
    #[error(
        "this machine has no root certificates: install them (Debian: ca-certificates) or name a CA \
         file for the service"
    )]
    NoRoots,
    #[error(
        "the certificate of `{host}` is signed by no known authority: if it is your own, name its CA \
         file for the service"
    )]
    UnknownIssuer { host: Host },
    #[error("the certificate is not for `{host}`")]
    WrongName { host: Host },
    #[error(
        "the certificate of `{host}` has expired or is not valid yet: check this machine's clock"
    )]
    NotValidNow { host: Host },
    #[error("the certificate of `{host}` is not acceptable: {detail}")]
    BadCertificate { host: Host, detail: String },
    #[error("the TLS handshake with `{host}` failed: {detail}")]
    Handshake { host: Host, detail: String },
}

/// Why a request got no response.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    #[error(transparent)]
    Blocked(Blocked),
    #[error(transparent)]
    Dns(DnsError),
    #[error("connecting to `{destination}`: no answer within {} ms", after.as_millis())]
    ConnectTimeout { destination: Arc<str>, after: Duration },
    #[error("connecting to `{destination}` at {address}: {error}")]
    ConnectFailed { destination: Arc<str>, address: SocketAddr, error: Arc<io::Error> },
    #[error(transparent)]
    Tls(TlsError),
    /// The connection stood, but no response head came.
    #[error("waiting for the response of `{destination}`: none within {} ms", after.as_millis())]
    Timeout { destination: Arc<str>, after: Duration },
    /// The path or query cannot be put into a URI. Nothing was sent.
    #[error("building the request to `{destination}`: its path cannot be sent")]
    Malformed { destination: Arc<str> },
    /// It said that it changes the protocol, and the connection was gone.
    #[error("speaking to `{destination}`: the connection broke when its protocol was changed")]
    NotSwitched { destination: Arc<str> },
    #[error("speaking to `{destination}`: the connection broke before the response")]
    Broken { destination: Arc<str>, source: hyper_util::client::legacy::Error },
}

impl SendError {
    /// False only when it is certain that the destination saw no byte of the request.
    pub fn may_have_been_sent(&self) -> bool {
        match self {
            Self::Blocked(_)
            | Self::Dns(_)
            | Self::ConnectTimeout { .. }
            | Self::ConnectFailed { .. }
            | Self::Tls(_)
            | Self::Malformed { .. } => false,
            Self::Timeout { .. } | Self::NotSwitched { .. } | Self::Broken { .. } => true,
        }
    }

    /// The client boxes what the connector said; it is found again in the chain of sources.
    pub(crate) fn from_client(
        error: hyper_util::client::legacy::Error,
        destination: &Arc<str>,
    ) -> Self {
        let mut source = error.source();
        while let Some(cause) = source {
            if let Some(connect) = cause.downcast_ref::<ConnectError>() {
                return connect.clone().into();
            }
            source = cause.source();
        }
        Self::Broken { destination: Arc::clone(destination), source: error }
    }
}

/// What the connector says; `Clone`, since it only comes back behind a reference.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum ConnectError {
    #[error(transparent)]
    Approve(#[from] ApproveError),
    #[error(transparent)]
    Dial(#[from] DialError),
    #[error(transparent)]
    Tls(#[from] TlsError),
}

impl From<ConnectError> for SendError {
    fn from(error: ConnectError) -> Self {
        match error {
            ConnectError::Approve(ApproveError::Blocked(blocked))
            | ConnectError::Dial(DialError::Blocked(blocked)) => Self::Blocked(blocked),
            ConnectError::Approve(ApproveError::Dns(dns)) => Self::Dns(dns),
            ConnectError::Dial(DialError::Timeout { destination, after }) => {
                Self::ConnectTimeout { destination, after }
            }
            ConnectError::Dial(DialError::Failed { destination, address, error }) => {
                Self::ConnectFailed { destination, address, error }
            }
            ConnectError::Tls(tls) => Self::Tls(tls),
        }
    }
}
