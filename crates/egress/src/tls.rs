//! TLS towards the outside: whom it trusts, and what its failures mean.
//!
//! Never here: a process-wide provider or default. Every configuration says what it uses.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use agentguard_core::net::Host;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::error::TlsError;
use crate::limits::CA_FILE_BYTES_MAX;

/// How TLS towards one service is checked.
#[derive(Debug, Clone)]
pub enum ClientTls {
    Verified(VerifiedTls),
    InsecureSkipTlsVerify(InsecureSkipTlsVerify),
}

/// Checks the certificate: platform roots, and what a CA file adds.
#[derive(Debug, Clone)]
pub struct VerifiedTls {
    config: Arc<ClientConfig>,
    roots: usize,
}

/// Takes any certificate. For tests against a local server; whoever sits between reads everything.
#[derive(Debug, Clone)]
pub struct InsecureSkipTlsVerify {
    config: Arc<ClientConfig>,
}

/// The machine's own root certificates, read once and shared.
#[derive(Debug, Clone)]
pub struct PlatformRoots {
    store: RootCertStore,
}

/// Certificates of authorities that the operator named for a service.
#[derive(Debug, Clone, Default)]
pub struct ExtraRoots(Vec<CertificateDer<'static>>);

/// The cryptography this gate was built with cannot do TLS. Never seen in a sound build.
#[derive(Debug, thiserror::Error)]
#[error("preparing TLS: {0}")]
pub struct TlsSetupError(rustls::Error);

/// Why a CA file was not taken.
#[derive(Debug, thiserror::Error)]
pub enum CaFileError {
    #[error("reading the CA file `{}`", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("the CA file `{}` is larger than {CA_FILE_BYTES_MAX} bytes", path.display())]
    TooLarge { path: PathBuf },
    #[error("the CA file `{}` holds no certificate in PEM form (BEGIN CERTIFICATE)", path.display())]
    NoCertificate { path: PathBuf },
    #[error("the CA file `{}` holds a certificate that cannot be used: {detail}", path.display())]
    BadCertificate { path: PathBuf, detail: String },
}

impl PlatformRoots {
    /// Reads the platform's store. Missing or broken entries are no error here: a gate whose services
    /// all speak plain HTTP needs none, and a TLS call without any says so (`TlsError::NoRoots`).
    pub fn load() -> Self {
        let found = rustls_native_certs::load_native_certs();
        let mut store = RootCertStore::empty();
        let (taken, unusable) = store.add_parsable_certificates(found.certs);
        if taken == 0 || !found.errors.is_empty() {
            let errors = found.errors.len();
            tracing::warn!(taken, unusable, errors, "reading the platform's root certificates");
        }
        Self { store }
    }

    /// No roots at all: only a CA file counts.
    pub fn none() -> Self {
        Self { store: RootCertStore::empty() }
    }

    pub fn len(&self) -> usize {
        self.store.len()
    }

    pub fn is_empty(&self) -> bool {
        self.store.is_empty()
    }
}

impl ExtraRoots {
    /// Reads a PEM file.
    ///
    /// # Errors
    /// When it cannot be read, is too large, or holds no usable certificate.
    pub fn read(path: &Path) -> Result<Self, CaFileError> {
        let owned = || path.to_path_buf();
        let mut pem = Vec::new();
        let file = File::open(path);
        file.and_then(|file| file.take(CA_FILE_BYTES_MAX.saturating_add(1)).read_to_end(&mut pem))
            .map_err(|source| CaFileError::Read { path: owned(), source })?;
        if u64::try_from(pem.len()).is_ok_and(|bytes| bytes > CA_FILE_BYTES_MAX) {
            return Err(CaFileError::TooLarge { path: owned() });
        }
        let bad = |detail: String| CaFileError::BadCertificate { path: owned(), detail };
        let certificates = CertificateDer::pem_slice_iter(&pem)
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| bad(error.to_string()))?;
        if certificates.is_empty() {
            return Err(CaFileError::NoCertificate { path: owned() });
        }
        // Tried here, so that a bad file is an error at start and not at the first call.
        let mut trial = RootCertStore::empty();
        for certificate in &certificates {
            trial.add(certificate.clone()).map_err(|error| bad(error.to_string()))?;
        }
        Ok(Self(certificates))
    }
}

impl ClientTls {
    /// The platform's roots, and the operator's. Clone it for services that trust the same: clones
    /// share one configuration and its session cache.
    ///
    /// # Errors
    /// Only in a build without usable cryptography.
    pub fn verified(platform: &PlatformRoots, extra: &ExtraRoots) -> Result<Self, TlsSetupError> {
        let mut store = platform.store.clone();
        store.add_parsable_certificates(extra.0.iter().cloned());
        let roots = store.len();
        let config = client_config(|builder| builder.with_root_certificates(store))?;
        Ok(Self::Verified(VerifiedTls { config, roots }))
    }

    /// No check at all. The name is long on purpose; the caller warns at each start.
    ///
    /// # Errors
    /// Only in a build without usable cryptography.
    pub fn insecure_skip_tls_verify() -> Result<Self, TlsSetupError> {
        let verifier = Arc::new(AcceptAnyCertificate(Arc::new(aws_lc_rs::default_provider())));
        let config = client_config(|builder| {
            builder.dangerous().with_custom_certificate_verifier(verifier)
        })?;
        Ok(Self::InsecureSkipTlsVerify(InsecureSkipTlsVerify { config }))
    }

    /// The same trust, but HTTP/1.1 is all that is offered: a connection that is to change its protocol
    /// cannot be one of HTTP/2.
    pub(crate) fn http1_only(&self) -> Self {
        let limited = |config: &ClientConfig| {
            let mut config = config.clone();
            config.alpn_protocols = vec![HTTP1.to_vec()];
            Arc::new(config)
        };
        match self {
            Self::Verified(VerifiedTls { config, roots }) => {
                Self::Verified(VerifiedTls { config: limited(config), roots: *roots })
            }
            Self::InsecureSkipTlsVerify(InsecureSkipTlsVerify { config }) => {
                Self::InsecureSkipTlsVerify(InsecureSkipTlsVerify { config: limited(config) })
            }
        }
    }

    /// What stands in the way before anything is dialled.
    pub(crate) fn check_usable(&self) -> Result<(), TlsError> {
        match self {
            Self::Verified(VerifiedTls { roots: 0, .. }) => Err(TlsError::NoRoots),
            Self::Verified(_) | Self::InsecureSkipTlsVerify(_) => Ok(()),
        }
    }

    /// The handshake. The server is named as the destination names it, never as DNS did.
    pub(crate) async fn handshake(
        &self,
        host: &Host,
        stream: TcpStream,
    ) -> Result<TlsStream<TcpStream>, TlsError> {
        let config = match self {
            Self::Verified(verified) => &verified.config,
            Self::InsecureSkipTlsVerify(insecure) => &insecure.config,
        };
        let name = server_name(host)?;
        let connector = TlsConnector::from(Arc::clone(config));
        connector.connect(name, stream).await.map_err(|error| failure(host, &error))
    }
}

/// HTTP/2 first, since one connection then carries all requests to a service.
const ALPN: [&[u8]; 2] = [b"h2", HTTP1];
const HTTP1: &[u8] = b"http/1.1";

type Versions = rustls::ConfigBuilder<ClientConfig, rustls::WantsVerifier>;
type Verified = rustls::ConfigBuilder<ClientConfig, rustls::client::WantsClientCert>;

fn client_config(
    verify: impl FnOnce(Versions) -> Verified,
) -> Result<Arc<ClientConfig>, TlsSetupError> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let versions = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(TlsSetupError)?;
    let mut config = verify(versions).with_no_client_auth();
    config.alpn_protocols = ALPN.iter().map(|name| name.to_vec()).collect();
    Ok(Arc::new(config))
}

fn server_name(host: &Host) -> Result<ServerName<'static>, TlsError> {
    match host {
        Host::Ip(ip) => Ok(ServerName::IpAddress((*ip).into())),
        Host::Name(name) => ServerName::try_from(name.as_str().to_owned())
            .map_err(|error| TlsError::Handshake { host: host.clone(), detail: error.to_string() }),
    }
}

fn failure(host: &Host, error: &io::Error) -> TlsError {
    let host = host.clone();
    let cause = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    let Some(rustls::Error::InvalidCertificate(certificate)) = cause else {
        return TlsError::Handshake { host, detail: error.to_string() };
    };
    use CertificateError as E;
    if matches!(certificate, E::UnknownIssuer) {
        TlsError::UnknownIssuer { host }
    } else if matches!(certificate, E::NotValidForName | E::NotValidForNameContext { .. }) {
        TlsError::WrongName { host }
    } else if matches!(
        certificate,
        E::Expired | E::ExpiredContext { .. } | E::NotValidYet | E::NotValidYetContext { .. }
    ) {
        TlsError::NotValidNow { host }
    } else {
        TlsError::BadCertificate { host, detail: certificate.to_string() }
    }
}

/// Any certificate will do, but the handshake must still be signed by its key: a broken server is
/// found out even in tests.
#[derive(Debug)]
struct AcceptAnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AcceptAnyCertificate {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
