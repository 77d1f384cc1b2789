//! The configuration as the rest of the program sees it: every value is valid. Made by `compile`
//! only.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use agentguard_core::price::PriceSpec;
use agentguard_core::time::Zone;
use agentguard_core::{Price, Rates, Secret};
use ipnet::IpNet;
use serde_json::Value;

pub(crate) use super::opaque::Untyped;
pub(crate) use super::raw::{Durability, LogLevel};

/// A valid configuration.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    /// Folder of database, keys and journal.
    pub(crate) data_dir: PathBuf,
    /// Where days and months turn over.
    pub(crate) timezone: Zone,
    pub(crate) store: Store,
    pub(crate) counters: Counters,
    pub(crate) server: Server,
    pub(crate) proxy: Proxy,
    pub(crate) admin: Admin,
    pub(crate) dashboard: Dashboard,
    pub(crate) retrieval: Retrieval,
    pub(crate) destinations: Destinations,
    pub(crate) browser: Browser,
    pub(crate) pipe: Pipe,
    pub(crate) audit: Audit,
    pub(crate) logs: Logs,
    pub(crate) currency_rates: Rates,
    pub(crate) ssh_hosts: Vec<Untyped>,
    pub(crate) security: Untyped,
    /// Every key as it is written or by default, for the record of changes. Secrets are masked.
    pub(crate) written: Value,
    /// Dangerous settings, to be printed at each start.
    pub(crate) warnings: Vec<String>,
}

/// Where agents, rules and the record are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Store {
    Sqlite,
}

/// Where money and rate counters are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counters {
    Memory,
}

/// The MCP listener, and the log.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    pub(crate) bind_addr: SocketAddr,
    pub(crate) log_level: LogLevel,
    pub(crate) max_concurrent: usize,
    pub(crate) request_timeout: Duration,
    /// Token of the agent `default`, if one is set.
    pub(crate) auth_token: Option<Secret<String>>,
}

/// The API proxy.
#[derive(Clone, Debug)]
pub(crate) struct Proxy {
    pub(crate) bind: SocketAddr,
    /// To the response head, and then between two chunks.
    pub(crate) upstream_timeout: Duration,
    pub(crate) allow_client_ips: Vec<IpNet>,
    pub(crate) max_body_inspect_bytes: usize,
    pub(crate) max_connections: usize,
    /// Whole once it was read.
    pub(crate) prices_file: Option<PathBuf>,
    /// What it says, each a valid price.
    pub(crate) file_prices: Vec<PriceSpec>,
    pub(crate) fallback_price: Option<Price>,
    pub(crate) clamp_max_tokens: bool,
    pub(crate) connect: Connect,
}

/// Use as an ordinary proxy.
#[derive(Clone, Debug)]
pub(crate) struct Connect {
    pub(crate) enabled: bool,
    /// Hosts whose TLS ends at the gate, beside those of known services.
    pub(crate) intercept: Vec<Pattern>,
    pub(crate) allow_ports: Vec<u16>,
}

/// The management API.
#[derive(Clone, Debug)]
pub(crate) struct Admin {
    pub(crate) bind: SocketAddr,
}

/// The dashboard.
#[derive(Clone, Debug)]
pub(crate) struct Dashboard {
    pub(crate) bind: SocketAddr,
}

/// Reading web pages.
#[derive(Clone, Debug)]
pub(crate) struct Retrieval {
    pub(crate) max_redirects: usize,
    pub(crate) max_wire_bytes: usize,
    pub(crate) max_body_bytes: usize,
    pub(crate) connect_timeout: Duration,
    pub(crate) read_timeout: Duration,
    pub(crate) concurrency: usize,
    /// Not more than `concurrency`.
    pub(crate) per_user_concurrency: usize,
    /// Beside 80 and 443.
    pub(crate) allow_ports: Vec<HostPort>,
    pub(crate) allow_https_downgrade: bool,
    pub(crate) detect_secrets: bool,
}

/// What no door may reach, and exceptions.
#[derive(Clone, Debug)]
pub(crate) struct Destinations {
    /// In lower case, without their first dot.
    pub(crate) blocked_suffixes: Vec<String>,
    pub(crate) danger_allow: Vec<Exception>,
}

/// The guarded browser.
#[derive(Clone, Debug)]
pub(crate) struct Browser {
    pub(crate) policy: PathBuf,
    /// Port of Chromium's debugging protocol.
    pub(crate) cdp: u16,
    pub(crate) listener: SocketAddr,
}

/// The pipe to a browser that starts its agent.
#[derive(Clone, Debug)]
pub(crate) struct Pipe {
    pub(crate) allow_domains: Vec<Pattern>,
    /// What may be done on a domain, where that is narrowed.
    pub(crate) actions: BTreeMap<Pattern, Vec<String>>,
}

/// The record of actions.
#[derive(Clone, Debug)]
pub(crate) struct Audit {
    pub(crate) durability: DurabilityByDoor,
    /// `None`: in the data folder.
    pub(crate) checkpoint_file: Option<PathBuf>,
}

/// What an intent survives, by door.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DurabilityByDoor {
    /// `None`: payments and ads `Power`, model calls as `default`.
    pub(crate) api: Option<Durability>,
    pub(crate) default: Durability,
    pub(crate) web: Durability,
    pub(crate) exec: Durability,
    pub(crate) browser: Durability,
    pub(crate) pipe: Durability,
}

/// The logs in the store.
#[derive(Clone, Debug)]
pub(crate) struct Logs {
    pub(crate) retention_days: RetentionDays,
}

/// Days after which rows are removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RetentionDays {
    pub(crate) requests: u32,
    pub(crate) config_changes: u32,
    pub(crate) system_events: u32,
}

/// One port of one host. An IPv6 address stands without brackets.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct HostPort {
    pub(crate) host: String,
    pub(crate) port: u16,
}

/// A name, or all names below one; in lower case, without a first dot.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Pattern {
    Exactly(String),
    Below(String),
}

/// A private destination that is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Exception {
    HostPort(HostPort),
    Network(IpNet),
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            return write!(f, "[{}]:{}", self.host, self.port);
        }
        write!(f, "{}:{}", self.host, self.port)
    }
}

impl fmt::Display for Exception {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::HostPort(place) => place.fmt(f),
            Self::Network(network) => network.fmt(f),
        }
    }
}
