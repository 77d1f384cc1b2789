//! The sockets, all of them bound before anything else is done.

use std::io::ErrorKind;
use std::net::SocketAddr;

use tokio::net::TcpListener;

use crate::config::Config;
use crate::failure::Failure;

/// What listens.
#[derive(Debug)]
pub(super) struct Listeners {
    pub(super) proxy: TcpListener,
    pub(super) admin: TcpListener,
    pub(super) addresses: Addresses,
}

/// Where, as bound: a configured port 0 has become a real one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Addresses {
    pub(super) proxy: SocketAddr,
    pub(super) admin: SocketAddr,
}

impl Listeners {
    pub(super) async fn bind(config: &Config) -> Result<Self, Failure> {
        let admin = config.admin.bind;
        if !admin.ip().is_loopback() {
            // There is no password yet that could keep others out, and tokens would travel in clear.
            return Err(Failure::usage(format!(
                "`admin.bind` is {admin}: the management endpoint only listens on this machine"
            ))
            .hint("set it to a loopback address such as 127.0.0.1:3000"));
        }
        let proxy = bind("proxy.bind", config.proxy.bind).await?;
        let admin = bind("admin.bind", admin).await?;
        let addresses = Addresses { proxy: local(&proxy)?, admin: local(&admin)? };
        Ok(Self { proxy, admin, addresses })
    }
}

impl Addresses {
    pub(super) const fn all(&self) -> [SocketAddr; 2] {
        [self.proxy, self.admin]
    }
}

async fn bind(key: &str, address: SocketAddr) -> Result<TcpListener, Failure> {
    let known = [
        (ErrorKind::AddrInUse, "is taken", "is a gate running already? stop what listens there"),
        (ErrorKind::PermissionDenied, "may not be used by this user", "use a port above 1023"),
        (ErrorKind::AddrNotAvailable, "is no address of this machine", "127.0.0.1 always is one"),
    ];
    TcpListener::bind(address).await.map_err(|error| {
        match known.into_iter().find(|(kind, _, _)| *kind == error.kind()) {
            Some((_, what, todo)) => Failure::usage(format!("`{key}`: {address} {what}"))
                .hint(format!("{todo}, or change `{key}`")),
            None => Failure::usage(format!("`{key}`: listening on {address}: {error}")),
        }
    })
}

fn local(listener: &TcpListener) -> Result<SocketAddr, Failure> {
    listener.local_addr().map_err(|error| Failure::because("asking where we listen", &error))
}
