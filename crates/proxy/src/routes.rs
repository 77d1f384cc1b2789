//! Where each alias leads: one pooled client per service, made anew when the service or the settings
//! that matter to it change.
//!
//! Never here: whether a call may be made.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use agentguard_core::extractor::Extractor;
use agentguard_core::service::Service;
use agentguard_core::{Reason, Refusal};
use agentguard_egress::{
    ClientTls, Destination, Exceptions, ExtraRoots, Guard, PlatformRoots, PrivateAddresses,
    Upstream, UpstreamConfig,
};
use agentguard_gate::{CredentialState, Directory};
use arc_swap::ArcSwap;
use http::HeaderMap;
use parking_lot::Mutex;

use crate::body::RequestBody;
use crate::credential::RouteCredential;
use crate::identity::Place;
use crate::options::ProxyOptions;

/// The services, each with its client.
#[derive(Debug)]
pub(crate) struct Routes {
    guard: Arc<Guard>,
    roots: PlatformRoots,
    /// Shared by every service that trusts the platform and nothing else.
    platform_tls: Mutex<Option<ClientTls>>,
    now: ArcSwap<Table>,
    /// One table is built at a time, so that no client is made twice.
    building: Mutex<()>,
}

#[derive(Debug)]
struct Table {
    version: Option<u64>,
    options: Arc<ProxyOptions>,
    by_alias: HashMap<String, Arc<Route>>,
}

/// One service, ready to be called.
#[derive(Debug)]
pub(crate) struct Route {
    pub(crate) service: Arc<Service>,
    pub(crate) alias: Arc<str>,
    pub(crate) host: Arc<str>,
    /// Scheme, host and port, for the record.
    pub(crate) origin: String,
    /// Without a slash at its end.
    pub(crate) base_path: String,
    /// Where the operator says that money is.
    pub(crate) extractors: Vec<Arc<Extractor>>,
    pub(crate) exceptions: Exceptions,
    /// To the head, and between chunks.
    pub(crate) timeout: Duration,
    /// What the gate authenticates with there.
    credential: RouteCredential,
    upstream: Result<Upstream<RequestBody>, Fault>,
}

/// Why a service cannot be called, as it stands.
#[derive(Clone, Debug)]
struct Fault {
    reason: Reason,
    cause: String,
}

impl Routes {
    pub(crate) fn new(guard: Arc<Guard>, roots: PlatformRoots, options: Arc<ProxyOptions>) -> Self {
        let empty = Table { version: None, options, by_alias: HashMap::new() };
        Self {
            guard,
            roots,
            platform_tls: Mutex::new(None),
            now: ArcSwap::from_pointee(empty),
            building: Mutex::new(()),
        }
    }

    /// The route of an alias under this policy and these settings.
    pub(crate) fn find(
        &self,
        alias: &str,
        directory: &Directory,
        options: &Arc<ProxyOptions>,
    ) -> Option<Arc<Route>> {
        let table = self.now.load();
        if table.is_of(directory, options) {
            return table.by_alias.get(alias).cloned();
        }
        drop(table);
        let _one = self.building.lock();
        let old = self.now.load_full();
        if old.is_of(directory, options) {
            return old.by_alias.get(alias).cloned();
        }
        let table = self.build(&old, directory, options);
        let found = table.by_alias.get(alias).cloned();
        self.now.store(Arc::new(table));
        found
    }

    fn build(&self, old: &Table, directory: &Directory, options: &Arc<ProxyOptions>) -> Table {
        let mut by_alias = HashMap::new();
        for stored in &directory.data().services {
            let Some(service) = directory.service(&stored.alias) else { continue };
            let exceptions = exceptions(service, options);
            let timeout = timeout(service, options);
            let credential = directory.credential(&stored.alias);
            let kept = old.by_alias.get(&stored.alias).filter(|route| {
                *route.service == **service
                    && route.exceptions == exceptions
                    && route.timeout == timeout
                    && route.credential.is_of(credential)
                    && route.upstream.is_ok()
            });
            let route = match kept {
                Some(route) => Arc::clone(route),
                None => Arc::new(self.route(service, exceptions, timeout, credential)),
            };
            by_alias.insert(stored.alias.clone(), route);
        }
        Table { version: Some(directory.version()), options: Arc::clone(options), by_alias }
    }

    fn route(
        &self,
        service: &Arc<Service>,
        exceptions: Exceptions,
        timeout: Duration,
        credential: &CredentialState,
    ) -> Route {
        let url = &service.base_url;
        // Checked when the service was stored: what does not compile is never here.
        let extractors = service.compiled_extractors().unwrap_or_default();
        let upstream = self.upstream(service, &exceptions, timeout);
        if let Err(fault) = &upstream {
            let (alias, cause) = (&service.alias, &fault.cause);
            tracing::error!(service = %alias, %cause, "a service cannot be called");
        }
        Route {
            service: Arc::clone(service),
            alias: service.alias.as_str().into(),
            host: service.host().into(),
            origin: url.origin().ascii_serialization(),
            base_path: url.path().trim_end_matches('/').to_owned(),
            // The directory took the service, so they compile.
            extractors: extractors.into_iter().map(Arc::new).collect(),
            exceptions,
            timeout,
            credential: RouteCredential::of(service, credential),
            upstream,
        }
    }

    fn upstream(
        &self,
        service: &Service,
        exceptions: &Exceptions,
        timeout: Duration,
    ) -> Result<Upstream<RequestBody>, Fault> {
        let blocked = |cause: String| Fault { reason: Reason::DestinationBlocked, cause };
        let destination =
            Destination::from_url(&service.base_url).map_err(|error| blocked(error.to_string()))?;
        let mut config = UpstreamConfig::new(destination, self.tls(service)?);
        config.exceptions = exceptions.clone();
        config.connect_timeout = config.connect_timeout.min(timeout);
        config.head_timeout = timeout;
        Upstream::new(Arc::clone(&self.guard), config).map_err(|error| blocked(error.to_string()))
    }

    fn tls(&self, service: &Service) -> Result<ClientTls, Fault> {
        let fault = |cause: String| Fault { reason: Reason::UpstreamTlsError, cause };
        if service.insecure_skip_tls_verify {
            tracing::warn!(service = %service.alias, "certificates of this service are NOT checked (insecure_skip_tls_verify)");
            return ClientTls::insecure_skip_tls_verify().map_err(|error| fault(error.to_string()));
        }
        if let Some(file) = &service.ca_file {
            let extra =
                ExtraRoots::read(Path::new(file)).map_err(|error| fault(error.to_string()))?;
            return ClientTls::verified(&self.roots, &extra)
                .map_err(|error| fault(error.to_string()));
        }
        let mut shared = self.platform_tls.lock();
        if let Some(tls) = &*shared {
            return Ok(tls.clone());
        }
        let tls = ClientTls::verified(&self.roots, &ExtraRoots::default())
            .map_err(|error| fault(error.to_string()))?;
        Ok(shared.insert(tls).clone())
    }
}

impl Table {
    fn is_of(&self, directory: &Directory, options: &Arc<ProxyOptions>) -> bool {
        self.version == Some(directory.version()) && Arc::ptr_eq(&self.options, options)
    }
}

impl Route {
    /// The way to the service for a request, into which the service's credential was put if the guard
    /// token stood for it there.
    pub(crate) fn upstream_with(
        &self,
        headers: &mut HeaderMap,
        token_place: &Place,
    ) -> Result<&Upstream<RequestBody>, Refusal> {
        self.credential.put_into(headers, token_place, &self.service)?;
        self.upstream()
    }

    /// The way to the service, or what is wrong with how it is set up.
    pub(crate) fn upstream(&self) -> Result<&Upstream<RequestBody>, Refusal> {
        self.upstream.as_ref().map_err(|fault| {
            let message = format!("service `{}` cannot be called: {}", self.alias, fault.cause);
            Refusal::with(fault.reason, message)
        })
    }
}

fn exceptions(service: &Service, options: &ProxyOptions) -> Exceptions {
    let private = if service.allow_private {
        PrivateAddresses::AllowedForService
    } else {
        PrivateAddresses::Refused
    };
    Exceptions::new(private, options.danger_allow.clone())
}

fn timeout(service: &Service, options: &ProxyOptions) -> Duration {
    service
        .timeout_sec
        .map_or(options.upstream_timeout, |seconds| Duration::from_secs(seconds.into()))
}
