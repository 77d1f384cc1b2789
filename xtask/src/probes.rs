//! One small function for each call that `clippy.toml` bans. Never here: running them.

/// A banned path and code that calls it.
pub(crate) struct Probe {
    pub(crate) path: &'static str,
    pub(crate) needs: Needs,
    pub(crate) code: &'static str,
}

/// What the probe has to be compiled with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Needs {
    /// The standard library: quick, and independent of any download.
    Std,
    /// The real crates, at the versions of the lock file. A ban whose path is misspelt never
    /// fires and says nothing, so only the real crate proves it.
    Crates,
}

const fn std(path: &'static str, code: &'static str) -> Probe {
    Probe { path, needs: Needs::Std, code }
}

const fn crates(path: &'static str, code: &'static str) -> Probe {
    Probe { path, needs: Needs::Crates, code }
}

/// Dependencies of the probes that need crates; all are in the workspace's table.
pub(crate) const CRATES: &[&str] =
    &["hyper", "hyper-util", "http-body-util", "bytes", "socket2", "tokio"];

pub(crate) const PROBES: &[Probe] = &[
    std(
        "std::net::TcpStream::connect",
        "let _ = std::net::TcpStream::connect(\"127.0.0.1:9\");",
    ),
    std(
        "std::net::TcpStream::connect_timeout",
        "let at = std::net::SocketAddr::from(([127, 0, 0, 1], 9));
         let _ = std::net::TcpStream::connect_timeout(&at, std::time::Duration::from_secs(1));",
    ),
    std(
        "std::net::UdpSocket::connect",
        "if let Ok(s) = std::net::UdpSocket::bind(\"127.0.0.1:0\") { let _ = s.connect(\"127.0.0.1:9\"); }",
    ),
    std(
        "std::net::UdpSocket::send_to",
        "if let Ok(s) = std::net::UdpSocket::bind(\"127.0.0.1:0\") { let _ = s.send_to(b\"x\", \"127.0.0.1:9\"); }",
    ),
    std(
        "std::os::unix::net::UnixStream::connect",
        "let _ = std::os::unix::net::UnixStream::connect(\"socket\");",
    ),
    std(
        "std::net::ToSocketAddrs::to_socket_addrs",
        "use std::net::ToSocketAddrs as _; let _ = \"localhost:9\".to_socket_addrs();",
    ),
    std("std::process::Command::new", "let _ = std::process::Command::new(\"true\").status();"),
    std("std::time::SystemTime::now", "let _ = std::time::SystemTime::now();"),
    crates(
        "tokio::net::TcpStream::connect",
        "let _ = tokio::net::TcpStream::connect(\"127.0.0.1:9\").await;",
    ),
    crates(
        "tokio::net::TcpSocket::connect",
        "if let Ok(s) = tokio::net::TcpSocket::new_v4() { let _ = s.connect(([127, 0, 0, 1], 9).into()).await; }",
    ),
    crates(
        "tokio::net::UdpSocket::connect",
        "if let Ok(s) = tokio::net::UdpSocket::bind(\"127.0.0.1:0\").await { let _ = s.connect(\"127.0.0.1:9\").await; }",
    ),
    crates(
        "tokio::net::UdpSocket::send_to",
        "if let Ok(s) = tokio::net::UdpSocket::bind(\"127.0.0.1:0\").await { let _ = s.send_to(b\"x\", \"127.0.0.1:9\").await; }",
    ),
    crates(
        "tokio::net::UnixStream::connect",
        "let _ = tokio::net::UnixStream::connect(\"socket\").await;",
    ),
    crates("tokio::net::lookup_host", "let _ = tokio::net::lookup_host(\"localhost:9\").await.is_ok();"),
    crates("tokio::process::Command::new", "let _ = tokio::process::Command::new(\"true\").status().await;"),
    crates(
        "socket2::Socket::connect",
        "let at = socket2::SockAddr::from(std::net::SocketAddr::from(([127, 0, 0, 1], 9)));
         if let Ok(s) = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None) { let _ = s.connect(&at); }",
    ),
    crates(
        "socket2::Socket::connect_timeout",
        "let at = socket2::SockAddr::from(std::net::SocketAddr::from(([127, 0, 0, 1], 9)));
         if let Ok(s) = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None) { let _ = s.connect_timeout(&at, std::time::Duration::from_secs(1)); }",
    ),
    crates(
        "hyper::client::conn::http1::handshake",
        "let (a, _b) = tokio::io::duplex(64);
         let _ = hyper::client::conn::http1::handshake::<_, http_body_util::Empty<bytes::Bytes>>(hyper_util::rt::TokioIo::new(a)).await.is_ok();",
    ),
    crates(
        "hyper::client::conn::http2::handshake",
        "let (a, _b) = tokio::io::duplex(64);
         let _ = hyper::client::conn::http2::handshake::<_, _, http_body_util::Empty<bytes::Bytes>>(hyper_util::rt::TokioExecutor::new(), hyper_util::rt::TokioIo::new(a)).await.is_ok();",
    ),
    crates(
        "hyper_util::client::legacy::Client::builder",
        "let _ = hyper_util::client::legacy::Client::<(), ()>::builder(hyper_util::rt::TokioExecutor::new());",
    ),
];
