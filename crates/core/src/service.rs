//! Services: the APIs that agents reach by an alias.

use std::fmt;

use serde::{Deserialize, Serialize};
use thiserror::Error;
use url::Url;

use crate::extractor::{Extractor, ExtractorError, ExtractorSpec, Source};
use crate::limits::EXTRACTORS_PER_SERVICE_MAX;

/// Which extractors a service brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ServiceKind {
    /// OpenAI, or a server that speaks like it.
    Openai,
    /// Anthropic.
    Anthropic,
    /// Stripe.
    Stripe,
    /// Google Ads.
    GoogleAds,
    /// Anything else: no money is read from it.
    Generic,
}

impl ServiceKind {
    /// Every kind.
    pub const ALL: [Self; 5] =
        [Self::Openai, Self::Anthropic, Self::Stripe, Self::GoogleAds, Self::Generic];

    /// Its name on the wire and in the store.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Openai => "openai",
            Self::Anthropic => "anthropic",
            Self::Stripe => "stripe",
            Self::GoogleAds => "google-ads",
            Self::Generic => "generic",
        }
    }

    /// The kind of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Whether calls of this kind move money by the call itself, so that their intents must be on
    /// disk before they leave (80-audit.md, durability `power`).
    pub const fn pays_by_request(self) -> bool {
        match self {
            Self::Stripe | Self::GoogleAds => true,
            Self::Openai | Self::Anthropic | Self::Generic => false,
        }
    }
}

impl fmt::Display for ServiceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A service as it is stored and shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Service {
    /// The name in `/proxy/<alias>/…`.
    pub alias: String,
    /// Where the alias leads.
    pub base_url: Url,
    /// Which extractors it brings.
    pub kind: ServiceKind,
    /// The operator allows a private address here.
    #[serde(default)]
    pub allow_private: bool,
    /// The operator switched certificate checks off: for tests only.
    #[serde(default)]
    pub insecure_skip_tls_verify: bool,
    /// The operator lets WebSockets be opened here, whose bytes are counted and not read.
    #[serde(default)]
    pub allow_websocket: bool,
    /// A PEM file with further roots.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<String>,
    /// The variable of the gate's own environment that holds the upstream credential.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credential_env: Option<String>,
    /// Seconds to wait for a response head; none means the configured default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_sec: Option<u32>,
    /// Where the operator says its calls name money. They go before those of its kind; the first that
    /// fits a call counts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub extractors: Vec<ExtractorSpec>,
}

/// Why a service cannot be used.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ServiceError {
    /// The alias is part of a path.
    #[error("alias: `{0}` must be 1 to 64 characters of a-z, 0-9, `-` and `_`")]
    Alias(String),
    /// Only HTTP can be spoken.
    #[error("base_url: the scheme must be http or https, not `{0}`")]
    Scheme(String),
    /// A credential in a URL would end up in logs.
    #[error("base_url: must not carry a user name or password; store the credential instead")]
    Userinfo,
    /// The path of a call is appended to it.
    #[error("base_url: must not carry a query or fragment")]
    QueryOrFragment,
    /// There is nowhere to go.
    #[error("base_url: has no host")]
    NoHost,
    /// Out of bounds.
    #[error("timeout_sec: must be from 1 to 3600, not {0}")]
    Timeout(u32),
    /// An extractor cannot be used.
    #[error("extractors[{place}].{error}")]
    Extractor {
        /// Counted from 0.
        place: usize,
        /// Why.
        error: ExtractorError,
    },
    /// Each call looks at all of them.
    #[error("extractors: there are more than {EXTRACTORS_PER_SERVICE_MAX}")]
    TooManyExtractors,
}

impl Service {
    /// Checks what the types cannot.
    pub fn check(&self) -> Result<(), ServiceError> {
        let alias_ok = !self.alias.is_empty()
            && self.alias.len() <= crate::limits::NAME_BYTES_MAX
            && self
                .alias
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'_');
        if !alias_ok {
            return Err(ServiceError::Alias(self.alias.clone()));
        }
        if !matches!(self.base_url.scheme(), "http" | "https") {
            return Err(ServiceError::Scheme(self.base_url.scheme().to_owned()));
        }
        if self.base_url.host().is_none() {
            return Err(ServiceError::NoHost);
        }
        if !self.base_url.username().is_empty() || self.base_url.password().is_some() {
            return Err(ServiceError::Userinfo);
        }
        if self.base_url.query().is_some() || self.base_url.fragment().is_some() {
            return Err(ServiceError::QueryOrFragment);
        }
        self.compiled_extractors()?;
        match self.timeout_sec {
            Some(seconds) if !(1..=3_600).contains(&seconds) => Err(ServiceError::Timeout(seconds)),
            Some(_) | None => Ok(()),
        }
    }

    /// Scheme, host and port: what a credential is good for, and nothing else.
    pub fn origin(&self) -> String {
        self.base_url.origin().ascii_serialization()
    }

    /// Its own extractors, ready to be used.
    pub fn compiled_extractors(&self) -> Result<Vec<Extractor>, ServiceError> {
        if self.extractors.len() > EXTRACTORS_PER_SERVICE_MAX {
            return Err(ServiceError::TooManyExtractors);
        }
        let compile = |(place, spec): (usize, &ExtractorSpec)| {
            spec.compile().map_err(|error| ServiceError::Extractor { place, error })
        };
        self.extractors.iter().enumerate().map(compile).collect()
    }

    /// Whether its calls move money by the call itself: by its kind, or because the operator says so.
    pub fn pays_by_request(&self) -> bool {
        let by_request = |spec: &ExtractorSpec| spec.source == Source::Request;
        self.kind.pays_by_request() || self.extractors.iter().any(by_request)
    }

    /// The host in lower case, as domain rules compare it.
    pub fn host(&self) -> String {
        self.base_url.host_str().unwrap_or_default().to_ascii_lowercase()
    }
}

/// The services that exist from the first start.
pub const BUILT_IN: [(&str, &str, ServiceKind); 4] = [
    ("stripe", "https://api.stripe.com", ServiceKind::Stripe),
    ("openai", "https://api.openai.com", ServiceKind::Openai),
    ("anthropic", "https://api.anthropic.com", ServiceKind::Anthropic),
    ("google-ads", "https://googleads.googleapis.com", ServiceKind::GoogleAds),
];
