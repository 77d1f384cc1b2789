//! TLS for an upstream: an authority of its own, and one certificate.
//!
//! Never here: what is spoken inside.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls_pki_types::PrivateKeyDer;
use tempfile::TempDir;
use tokio_rustls::TlsAcceptor;

/// What the upstream agrees to speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Alpn {
    Http1,
    Http2,
    Both,
}

/// An authority and the certificate it gave.
#[derive(Debug)]
pub(crate) struct Identity {
    _folder: TempDir,
    ca_file: PathBuf,
    config: Arc<ServerConfig>,
}

impl Identity {
    pub(crate) fn new(alpn: Alpn) -> Self {
        let mut authority = CertificateParams::new(Vec::new()).expect("parameters");
        authority.distinguished_name.push(DnType::CommonName, "testkit");
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority_key = KeyPair::generate().expect("a key");
        let ca_pem = authority.self_signed(&authority_key).expect("a certificate").pem();
        let issuer = Issuer::new(authority, authority_key);

        let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
        let key = KeyPair::generate().expect("a key");
        let leaf = CertificateParams::new(names).expect("parameters");
        let leaf = leaf.signed_by(&key, &issuer).expect("a certificate");
        let key = PrivateKeyDer::try_from(key.serialize_der()).expect("a key");
        let provider = Arc::new(aws_lc_rs::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(vec![leaf.der().clone()], key)
            .expect("a server's configuration");
        let names: &[&[u8]] = match alpn {
            Alpn::Http1 => &[b"http/1.1"],
            Alpn::Http2 => &[b"h2"],
            Alpn::Both => &[b"h2", b"http/1.1"],
        };
        config.alpn_protocols = names.iter().map(|name| name.to_vec()).collect();

        let folder = tempfile::tempdir().expect("a folder");
        let ca_file = folder.path().join("ca.pem");
        std::fs::write(&ca_file, ca_pem).expect("write the authority's certificate");
        Self { _folder: folder, ca_file, config: Arc::new(config) }
    }

    pub(crate) fn ca_file(&self) -> &Path {
        &self.ca_file
    }

    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(Arc::clone(&self.config))
    }
}
