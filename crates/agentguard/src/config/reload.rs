//! What a changed file changes in a running gate, and what waits for the next start.

use serde_json::{Map, Value, json};

use super::key::Key;
use super::model::{
    Admin, Audit, Browser, Config, Connect, Dashboard, Destinations, Logs, Pipe, Proxy, Retrieval,
    Server,
};

/// The keys that differ.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReloadPlan {
    /// These hold from now on.
    pub(crate) applied: Vec<&'static str>,
    /// These hold after a restart.
    pub(crate) needs_restart: Vec<&'static str>,
}

/// What a running gate takes over. The rest is read once, at start: sockets are bound, folders
/// and keys are open, and a day that moved with its time zone would count money twice.
pub(super) const RELOADABLE: [&str; 10] = [
    "server.log_level",
    "proxy.upstream_timeout_sec",
    "proxy.allow_client_ips",
    "proxy.max_body_inspect_bytes",
    "proxy.prices_file",
    "proxy.fallback_price",
    "proxy.clamp_max_tokens",
    "destinations.blocked_suffixes",
    "destinations.danger_allow",
    "currency_rates",
];

impl ReloadPlan {
    /// Whether nothing differs.
    pub(crate) fn is_empty(&self) -> bool {
        self.applied.is_empty() && self.needs_restart.is_empty()
    }

    fn note(&mut self, key: &'static str, differs: bool) {
        if differs {
            let keys =
                if RELOADABLE.contains(&key) { &mut self.applied } else { &mut self.needs_restart };
            keys.push(key);
        }
    }
}

/// Compares two configurations. The structs are taken apart by name, so that a new key which is
/// not compared does not compile.
pub(crate) fn diff(old: &Config, new: &Config) -> ReloadPlan {
    let mut plan = ReloadPlan::default();
    let Config {
        data_dir,
        timezone,
        store,
        counters,
        server,
        proxy,
        admin: Admin { bind: admin },
        dashboard: Dashboard { bind: dashboard },
        retrieval,
        destinations: Destinations { blocked_suffixes, danger_allow },
        browser,
        pipe: Pipe { allow_domains, actions },
        audit,
        logs,
        currency_rates,
        ssh_hosts,
        security,
        written: _,
        warnings: _,
    } = old;
    plan.note("data_dir", *data_dir != new.data_dir);
    plan.note("timezone", *timezone != new.timezone);
    plan.note("store", *store != new.store);
    plan.note("counters", *counters != new.counters);
    diff_server(server, &new.server, &mut plan);
    diff_proxy(proxy, &new.proxy, &mut plan);
    plan.note("admin.bind", *admin != new.admin.bind);
    plan.note("dashboard.bind", *dashboard != new.dashboard.bind);
    diff_retrieval(retrieval, &new.retrieval, &mut plan);
    let destinations = &new.destinations;
    plan.note("destinations.blocked_suffixes", *blocked_suffixes != destinations.blocked_suffixes);
    plan.note("destinations.danger_allow", *danger_allow != destinations.danger_allow);
    diff_browser(browser, &new.browser, &mut plan);
    plan.note("pipe.allow_domains", *allow_domains != new.pipe.allow_domains);
    plan.note("pipe.actions", *actions != new.pipe.actions);
    diff_audit(audit, &new.audit, &mut plan);
    diff_logs(logs, &new.logs, &mut plan);
    plan.note("currency_rates", *currency_rates != new.currency_rates);
    plan.note("ssh_hosts", *ssh_hosts != new.ssh_hosts);
    plan.note("security", *security != new.security);
    plan
}

/// The keys that differ as they were and as they are, for the record: their values by their paths,
/// no secrets. What waits for a restart is named in the second one.
pub(crate) fn sides(old: &Config, new: &Config, plan: &ReloadPlan) -> (Value, Value) {
    let (mut before, mut after) = (Map::new(), Map::new());
    for key in plan.applied.iter().chain(&plan.needs_restart) {
        let (mut was, mut is) = match *key {
            "proxy.prices_file" => (prices(&old.proxy, &new.proxy), prices(&new.proxy, &old.proxy)),
            key => (written(old, key), written(new, key)),
        };
        // What differs and looks the same hides what it holds.
        if Key::of(key).is_secret() || was == is {
            (was, is) = (MASKED.into(), MASKED.into());
        }
        before.insert((*key).to_owned(), was);
        after.insert((*key).to_owned(), is);
    }
    if !plan.needs_restart.is_empty() {
        after.insert("needs_restart".to_owned(), json!(plan.needs_restart));
    }
    (before.into(), after.into())
}

/// Brings `running.written` up to what was taken over from `new`.
pub(crate) fn note_written(running: &mut Config, new: &Config, applied: &[&'static str]) {
    for key in applied {
        if let Some(place) = running.written.pointer_mut(&pointer(key)) {
            *place = written(new, key);
        }
    }
}

/// The file, and those of its prices that the other side has not.
fn prices(of: &Proxy, other: &Proxy) -> Value {
    let changed: Vec<_> =
        of.file_prices.iter().filter(|price| !other.file_prices.contains(price)).collect();
    json!({"file": of.prices_file, "prices": changed})
}

const MASKED: &str = "***";

fn written(config: &Config, key: &str) -> Value {
    config.written.pointer(&pointer(key)).cloned().unwrap_or_default()
}

fn pointer(key: &str) -> String {
    format!("/{}", key.replace('.', "/"))
}

fn diff_server(old: &Server, new: &Server, plan: &mut ReloadPlan) {
    let Server { bind_addr, log_level, max_concurrent, request_timeout, auth_token } = old;
    let old_token = auth_token.as_ref().map(|token| token.expose());
    let new_token = new.auth_token.as_ref().map(|token| token.expose());
    plan.note("server.bind_addr", *bind_addr != new.bind_addr);
    plan.note("server.log_level", *log_level != new.log_level);
    plan.note("server.max_concurrent", *max_concurrent != new.max_concurrent);
    plan.note("server.request_timeout_sec", *request_timeout != new.request_timeout);
    plan.note("server.auth_token", old_token != new_token);
}

fn diff_proxy(old: &Proxy, new: &Proxy, plan: &mut ReloadPlan) {
    let Proxy {
        bind,
        upstream_timeout,
        allow_client_ips,
        max_body_inspect_bytes,
        max_connections,
        prices_file,
        file_prices,
        fallback_price,
        clamp_max_tokens,
        connect: Connect { enabled, intercept, allow_ports },
    } = old;
    let connect = &new.connect;
    let inspect_differs = *max_body_inspect_bytes != new.max_body_inspect_bytes;
    plan.note("proxy.bind", *bind != new.bind);
    plan.note("proxy.upstream_timeout_sec", *upstream_timeout != new.upstream_timeout);
    plan.note("proxy.allow_client_ips", *allow_client_ips != new.allow_client_ips);
    plan.note("proxy.max_body_inspect_bytes", inspect_differs);
    plan.note("proxy.max_connections", *max_connections != new.max_connections);
    let prices_differ = *prices_file != new.prices_file || *file_prices != new.file_prices;
    plan.note("proxy.prices_file", prices_differ);
    plan.note("proxy.fallback_price", *fallback_price != new.fallback_price);
    plan.note("proxy.clamp_max_tokens", *clamp_max_tokens != new.clamp_max_tokens);
    plan.note("proxy.connect.enabled", *enabled != connect.enabled);
    plan.note("proxy.connect.intercept", *intercept != connect.intercept);
    plan.note("proxy.connect.allow_ports", *allow_ports != connect.allow_ports);
}

fn diff_retrieval(old: &Retrieval, new: &Retrieval, plan: &mut ReloadPlan) {
    let Retrieval {
        max_redirects,
        max_wire_bytes,
        max_body_bytes,
        connect_timeout,
        read_timeout,
        concurrency,
        per_user_concurrency,
        allow_ports,
        allow_https_downgrade,
        detect_secrets,
    } = old;
    let per_user_differs = *per_user_concurrency != new.per_user_concurrency;
    let downgrade_differs = *allow_https_downgrade != new.allow_https_downgrade;
    plan.note("retrieval.max_redirects", *max_redirects != new.max_redirects);
    plan.note("retrieval.max_wire_bytes", *max_wire_bytes != new.max_wire_bytes);
    plan.note("retrieval.max_body_bytes", *max_body_bytes != new.max_body_bytes);
    plan.note("retrieval.connect_timeout_ms", *connect_timeout != new.connect_timeout);
    plan.note("retrieval.read_timeout_ms", *read_timeout != new.read_timeout);
    plan.note("retrieval.concurrency", *concurrency != new.concurrency);
    plan.note("retrieval.per_user_concurrency", per_user_differs);
    plan.note("retrieval.allow_ports", *allow_ports != new.allow_ports);
    plan.note("retrieval.allow_https_downgrade", downgrade_differs);
    plan.note("retrieval.detect_secrets", *detect_secrets != new.detect_secrets);
}

fn diff_browser(old: &Browser, new: &Browser, plan: &mut ReloadPlan) {
    let Browser { policy, cdp, listener } = old;
    plan.note("browser.policy", *policy != new.policy);
    plan.note("browser.cdp", *cdp != new.cdp);
    plan.note("browser.listener", *listener != new.listener);
}

fn diff_audit(old: &Audit, new: &Audit, plan: &mut ReloadPlan) {
    let Audit { durability, checkpoint_file } = old;
    plan.note("audit.durability", *durability != new.durability);
    plan.note("audit.checkpoint_file", *checkpoint_file != new.checkpoint_file);
}

fn diff_logs(old: &Logs, new: &Logs, plan: &mut ReloadPlan) {
    let Logs { retention_days } = old;
    plan.note("logs.retention_days", *retention_days != new.retention_days);
}
