//! TLS with an authority made for the test.

use std::io::Write;

use bytes::Bytes;
use http::{Request, Version};
use http_body_util::{BodyExt, Empty};
use rcgen::date_time_ymd;
use tempfile::NamedTempFile;

use super::fakes::{FakeResolver, allow_private, destination};
use super::serve::{Server, Speaks, TestCa};
use crate::error::{SendError, TlsError};
use crate::switched::Switch;
use crate::tls::{CaFileError, ClientTls, ExtraRoots, PlatformRoots};
use crate::upstream::{Upstream, UpstreamConfig};

const BOTH: [&[u8]; 2] = [b"h2", b"http/1.1"];

fn file(content: &str) -> NamedTempFile {
    let mut file = NamedTempFile::new().expect("a file");
    file.write_all(content.as_bytes()).expect("its content");
    file
}

fn trusting(ca: &TestCa) -> ClientTls {
    let extra = ExtraRoots::read(file(&ca.pem).path()).expect("a CA file");
    ClientTls::verified(&PlatformRoots::none(), &extra).expect("TLS")
}

/// Sends one request to `api.example` at the server; its version and text, or the error.
async fn call(speaks: Speaks, tls: ClientTls) -> Result<(Version, String), SendError> {
    let server = Server::start(speaks).await;
    let fake = FakeResolver::answering("api.example", &[&["127.0.0.1"]]);
    let url = format!("https://api.example:{}", server.address.port());
    let mut config = UpstreamConfig::new(destination(&url), tls);
    config.exceptions = allow_private();
    let client: Upstream<Empty<Bytes>> = Upstream::new(fake.guard(), config).expect("an upstream");
    let mut seen = None;
    for _ in 0..3 {
        let response = client.forward(Request::new(Empty::new())).await?;
        let version = response.version();
        let body = response.into_body().collect().await.expect("a body").to_bytes();
        let text =
            String::from_utf8_lossy(&body).replace(&server.address.port().to_string(), "PORT");
        seen = Some((version, text));
    }
    assert_eq!(server.connections(), 1, "the connection was not reused");
    Ok(seen.expect("three responses"))
}

async fn tls_error(speaks: Speaks, tls: ClientTls) -> TlsError {
    match call(speaks, tls).await {
        Err(SendError::Tls(error)) => error,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn http2_is_spoken_where_the_service_agrees() {
    let ca = TestCa::new("ours");
    let speaks = ca.server(&["api.example"], &BOTH, |_| {});
    let (version, text) = call(speaks, trusting(&ca)).await.expect("a response");
    assert_eq!(version, Version::HTTP_2);
    assert_eq!(text, "GET https://api.example:PORT/ HTTP/2.0 host=-");
}

#[tokio::test]
async fn http1_is_spoken_where_it_does_not() {
    let ca = TestCa::new("ours");
    for alpn in [&[b"http/1.1".as_slice()][..], &[]] {
        let speaks = ca.server(&["api.example"], alpn, |_| {});
        let (version, text) = call(speaks, trusting(&ca)).await.expect("a response");
        assert_eq!(version, Version::HTTP_11);
        assert_eq!(text, "GET / HTTP/1.1 host=api.example:PORT");
    }
}

#[tokio::test]
async fn another_protocol_is_asked_for_over_http1_whatever_is_preferred() {
    let ca = TestCa::new("ours");
    let server = Server::start(ca.server(&["127.0.0.1"], &BOTH, |_| {})).await;
    let url = format!("https://{}", server.address);
    let mut config = UpstreamConfig::new(destination(&url), trusting(&ca));
    config.exceptions = allow_private();
    let guard = FakeResolver::default().guard();
    let client: Upstream<Empty<Bytes>> = Upstream::new(guard, config).expect("an upstream");
    for _ in 0..2 {
        let ordinary = client.forward(Request::new(Empty::new())).await.expect("a response");
        assert_eq!(ordinary.version(), Version::HTTP_2);
        match client.switch_over(Request::new(Empty::new())).await.expect("a response") {
            Switch::Answered(response) => {
                assert_eq!(response.version(), Version::HTTP_11);
                response.into_body().collect().await.expect("a body");
            }
            switched @ Switch::Switched(..) => panic!("{switched:?}"),
        }
    }
    assert_eq!(server.connections(), 2, "one of each kind");
}

#[tokio::test]
async fn a_certificate_of_another_authority_is_refused() {
    let (ours, theirs) = (TestCa::new("ours"), TestCa::new("theirs"));
    let error = tls_error(theirs.server(&["api.example"], &BOTH, |_| {}), trusting(&ours)).await;
    assert!(matches!(error, TlsError::UnknownIssuer { .. }), "{error:?}");
}

#[tokio::test]
async fn a_certificate_for_another_name_is_refused() {
    let ca = TestCa::new("ours");
    let error = tls_error(ca.server(&["other.example"], &BOTH, |_| {}), trusting(&ca)).await;
    assert!(matches!(error, TlsError::WrongName { .. }), "{error:?}");
}

#[tokio::test]
async fn an_expired_certificate_is_refused() {
    let ca = TestCa::new("ours");
    let speaks = ca.server(&["api.example"], &BOTH, |params| {
        params.not_after = date_time_ymd(2020, 1, 1);
    });
    let error = tls_error(speaks, trusting(&ca)).await;
    assert!(matches!(error, TlsError::NotValidNow { .. }), "{error:?}");
}

#[tokio::test]
async fn without_roots_the_error_says_so() {
    let ca = TestCa::new("ours");
    let tls = ClientTls::verified(&PlatformRoots::none(), &ExtraRoots::default()).expect("TLS");
    let error = tls_error(ca.server(&["api.example"], &BOTH, |_| {}), tls).await;
    assert_eq!(error, TlsError::NoRoots);
}

#[tokio::test]
async fn a_peer_that_speaks_no_tls_is_a_handshake_error() {
    for speaks in [Speaks::Http, Speaks::HangUp] {
        let error = tls_error(speaks, trusting(&TestCa::new("ours"))).await;
        assert!(matches!(error, TlsError::Handshake { .. }), "{error:?}");
    }
}

#[tokio::test]
async fn the_insecure_variant_takes_any_certificate() {
    let ca = TestCa::new("theirs");
    let tls = ClientTls::insecure_skip_tls_verify().expect("TLS");
    let speaks = ca.server(&["other.example"], &BOTH, |_| {});
    let (version, _) = call(speaks, tls).await.expect("a response");
    assert_eq!(version, Version::HTTP_2);
}

#[test]
fn a_ca_file_that_cannot_serve_is_an_error_at_start() {
    let read = |content: &str| ExtraRoots::read(file(content).path()).expect_err("no CA file");
    assert!(matches!(read(""), CaFileError::NoCertificate { .. }));
    assert!(matches!(read("not a certificate"), CaFileError::NoCertificate { .. }));
    let garbage = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    assert!(matches!(read(garbage), CaFileError::BadCertificate { .. }));
    let missing = file("").path().with_extension("missing");
    assert!(matches!(ExtraRoots::read(&missing), Err(CaFileError::Read { .. })));
}
