//! The configuration as it is written: one struct for each section, with its defaults. The doc
//! comments here are the descriptions of the JSON schema, of the reference and of the example
//! file. No checks live here but names and shapes; `compile` makes valid types out of these.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::limits::{
    CONCURRENT, CONNECTIONS, INSPECT_BYTES, PAGE_BYTES, PORT, REDIRECTS, RETENTION_DAYS,
    STEP_TIMEOUT_MS, TIMEOUT_SEC,
};
use super::opaque::{RawSecret, Untyped};

/// The configuration of AgentGuard. No key is needed: what is left out has its default.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawConfig {
    /// Folder for the database, the keys and the journal. `~` is your home folder.
    pub(super) data_dir: String,
    /// IANA time zone in which budget days and months turn over, like `Europe/Berlin`.
    pub(super) timezone: String,
    /// Where agents, rules and the record are kept. This version has `sqlite`.
    pub(super) store: String,
    /// Where money and rate counters are kept. This version has `memory`.
    pub(super) counters: String,
    /// The MCP listener, and the log.
    pub(super) server: RawServer,
    /// The API proxy.
    pub(super) proxy: RawProxy,
    /// The management API.
    pub(super) admin: RawAdmin,
    /// The dashboard.
    pub(super) dashboard: RawDashboard,
    /// Reading web pages for agents.
    pub(super) retrieval: RawRetrieval,
    /// What no door may reach, and exceptions.
    pub(super) destinations: RawDestinations,
    /// The guarded browser.
    pub(super) browser: RawBrowser,
    /// The pipe to a browser that starts its agent.
    pub(super) pipe: RawPipe,
    /// The record of actions.
    pub(super) audit: RawAudit,
    /// The logs in the store.
    pub(super) logs: RawLogs,
    /// US dollars for one unit of a currency, as a decimal in quotes with up to six digits after
    /// the point. An amount in a currency that is not listed is refused where a budget applies.
    /// What you write here replaces the whole table.
    pub(super) currency_rates: BTreeMap<String, String>,
    /// Hosts on which agents may run commands.
    pub(super) ssh_hosts: Vec<Untyped>,
    /// Which commands agents may run.
    pub(super) security: Untyped,
}

/// The MCP listener, and the log.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawServer {
    /// Address and port of the MCP listener.
    pub(super) bind_addr: String,
    /// Least important level that is logged.
    pub(super) log_level: LogLevel,
    /// Tool calls under way at once.
    #[schemars(range(min = CONCURRENT.min, max = CONCURRENT.max))]
    pub(super) max_concurrent: u64,
    /// Seconds that a tool call may take when it names no limit itself.
    #[schemars(range(min = TIMEOUT_SEC.min, max = TIMEOUT_SEC.max))]
    pub(super) request_timeout_sec: u64,
    /// If set, this token stands for the agent `default`.
    pub(super) auth_token: RawSecret,
}

/// The API proxy.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawProxy {
    /// Address and port of the proxy.
    pub(super) bind: String,
    /// Seconds to wait for an upstream's response head, and then between two chunks.
    #[schemars(range(min = TIMEOUT_SEC.min, max = TIMEOUT_SEC.max))]
    pub(super) upstream_timeout_sec: u64,
    /// Networks from which the proxy takes requests, in CIDR notation.
    pub(super) allow_client_ips: Vec<String>,
    /// Bytes of a body that are read to find its amount. A longer one is refused where an amount
    /// must be known.
    #[schemars(range(min = INSPECT_BYTES.min, max = INSPECT_BYTES.max))]
    pub(super) max_body_inspect_bytes: u64,
    /// Client connections held open at once.
    #[schemars(range(min = CONNECTIONS.min, max = CONNECTIONS.max))]
    pub(super) max_connections: u64,
    /// YAML file with prices of models, a list of `{ model, input, output, … }`, which go over the
    /// program's own. Relative to this file; `null` is none.
    pub(super) prices_file: Option<String>,
    /// What a model costs that has no price: `{ input: "5", output: "25" }`, in US dollars for a
    /// million tokens. `null` refuses such a model where a budget applies.
    pub(super) fallback_price: Option<RawFallbackPrice>,
    /// Whether the gate lowers the longest answer that a model call asks for to what the budget
    /// still holds, instead of refusing the call.
    pub(super) clamp_max_tokens: bool,
    /// Use as an ordinary proxy (`HTTPS_PROXY`).
    pub(super) connect: RawConnect,
}

/// The price of models that have none of their own.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RawFallbackPrice {
    /// Input tokens.
    pub(super) input: String,
    /// Input tokens from a cache; as input where it is missing.
    #[serde(default)]
    pub(super) cached_input: Option<String>,
    /// Input tokens into a cache; as input where it is missing.
    #[serde(default)]
    pub(super) cache_write: Option<String>,
    /// Output tokens.
    pub(super) output: String,
    /// The longest input.
    #[serde(default)]
    pub(super) max_input_tokens: Option<u64>,
    /// The longest output.
    #[serde(default)]
    pub(super) max_output_tokens: Option<u64>,
}

/// Use as an ordinary proxy (`HTTPS_PROXY`).
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawConnect {
    /// Whether `CONNECT` and absolute URLs are served.
    pub(super) enabled: bool,
    /// Hosts whose TLS ends at the gate beside those of known services: `host` or `*.suffix`.
    pub(super) intercept: Vec<String>,
    /// Ports that may be asked for.
    #[schemars(inner(range(min = PORT.min, max = PORT.max)))]
    pub(super) allow_ports: Vec<u64>,
}

/// The management API.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawAdmin {
    /// Address and port of the management API.
    pub(super) bind: String,
}

/// The dashboard.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawDashboard {
    /// Address and port of the dashboard.
    pub(super) bind: String,
}

/// Reading web pages for agents.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawRetrieval {
    /// Redirects that are followed, each checked like a new URL.
    #[schemars(range(min = REDIRECTS.min, max = REDIRECTS.max))]
    pub(super) max_redirects: u64,
    /// Bytes that are read from the network for one page.
    #[schemars(range(min = PAGE_BYTES.min, max = PAGE_BYTES.max))]
    pub(super) max_wire_bytes: u64,
    /// Bytes of one page after decompression.
    #[schemars(range(min = PAGE_BYTES.min, max = PAGE_BYTES.max))]
    pub(super) max_body_bytes: u64,
    /// Milliseconds to connect.
    #[schemars(range(min = STEP_TIMEOUT_MS.min, max = STEP_TIMEOUT_MS.max))]
    pub(super) connect_timeout_ms: u64,
    /// Milliseconds to wait for the next bytes.
    #[schemars(range(min = STEP_TIMEOUT_MS.min, max = STEP_TIMEOUT_MS.max))]
    pub(super) read_timeout_ms: u64,
    /// Fetches under way at once.
    #[schemars(range(min = CONCURRENT.min, max = CONCURRENT.max))]
    pub(super) concurrency: u64,
    /// Fetches under way at once for one user. Not more than `retrieval.concurrency`.
    #[schemars(range(min = CONCURRENT.min, max = CONCURRENT.max))]
    pub(super) per_user_concurrency: u64,
    /// Ports beside 80 and 443, each for one host: `host:port`.
    pub(super) allow_ports: Vec<String>,
    /// Whether a redirect may lead from https to http.
    pub(super) allow_https_downgrade: bool,
    /// Whether URLs that seem to carry a secret are refused.
    pub(super) detect_secrets: bool,
}

/// What no door may reach, and exceptions.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawDestinations {
    /// Names that end like this are never reached, on top of the built-in list.
    pub(super) blocked_suffixes: Vec<String>,
    /// DANGEROUS: private destinations that agents may reach: `host:port`, or a network in CIDR
    /// notation.
    pub(super) danger_allow: Vec<String>,
}

/// The guarded browser.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawBrowser {
    /// File with the URL policy of `open`. If it is absent, the safe defaults hold.
    pub(super) policy: String,
    /// Port of Chromium's debugging protocol on this machine.
    #[schemars(range(min = PORT.min, max = PORT.max))]
    pub(super) cdp: u64,
    /// Address and port of the browser's own listener.
    pub(super) listener: String,
}

/// The pipe to a browser that starts its agent.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawPipe {
    /// Domains that the agent may work on: `host`, or `.suffix` for all below it.
    pub(super) allow_domains: Vec<String>,
    /// Narrows what may be done on a domain, like `example.com: [navigate, getText]`.
    pub(super) actions: BTreeMap<String, Vec<String>>,
}

/// The record of actions.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawAudit {
    /// What an intent survives before its action leaves the gate: `process` the death of the
    /// gate, `power` the loss of power too.
    pub(super) durability: RawDurability,
    /// File for signed checkpoints, better on another disk. `null` is a file in `data_dir`.
    pub(super) checkpoint_file: Option<String>,
}

/// What an intent survives before its action leaves the gate.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawDurability {
    /// For doors that are set to `null`.
    pub(super) default: Durability,
    /// Paid APIs. `null`: payments and ads `power`, model calls as `default` says.
    pub(super) api: Option<Durability>,
    /// Reading web pages. `null` is as `default` says.
    pub(super) web: Option<Durability>,
    /// Commands over SSH. `null` is as `default` says.
    pub(super) exec: Option<Durability>,
    /// The guarded browser. `null` is as `default` says.
    pub(super) browser: Option<Durability>,
    /// The pipe. `null` is as `default` says.
    pub(super) pipe: Option<Durability>,
}

/// The logs in the store.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawLogs {
    /// Days after which rows are removed.
    pub(super) retention_days: RawRetentionDays,
}

/// Days after which rows are removed.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawRetentionDays {
    /// Days to keep the record of requests.
    #[schemars(range(min = RETENTION_DAYS.min, max = RETENTION_DAYS.max))]
    pub(super) requests: u64,
    /// Days to keep the record of configuration changes.
    #[schemars(range(min = RETENTION_DAYS.min, max = RETENTION_DAYS.max))]
    pub(super) config_changes: u64,
    /// Days to keep the record of system events.
    #[schemars(range(min = RETENTION_DAYS.min, max = RETENTION_DAYS.max))]
    pub(super) system_events: u64,
}

/// How important a log line must be to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LogLevel {
    Trace,
    Debug,
    Info,
    Warn,
    Error,
}

/// What a written intent survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Durability {
    Process,
    Power,
}
