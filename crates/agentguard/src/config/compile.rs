//! From what was written to what is valid. Each section is read on its own, so that one start
//! shows what is wrong in all of them.

use std::collections::BTreeMap;
use std::path::Path;

use agentguard_core::price::PriceSpec;
use agentguard_core::{Price, Rates, Secret};

use super::error::{ConfigError, Origin, Problem};
use super::key::Key;
use super::limits::{
    Bounds, CONCURRENT, CONNECTIONS, INSPECT_BYTES, PAGE_BYTES, PORT, REDIRECTS, RETENTION_DAYS,
};
use super::model::{
    Admin, Audit, Browser, Config, Connect, Counters, Dashboard, Destinations, DurabilityByDoor,
    Logs, Pipe, Proxy, RetentionDays, Retrieval, Server, Store, Untyped,
};
use super::raw::{
    RawAudit, RawBrowser, RawConfig, RawConnect, RawDestinations, RawFallbackPrice, RawLogs,
    RawPipe, RawProxy, RawRetrieval, RawServer,
};
use super::reader::Reader;
use super::tree::Node;
use super::values;
use super::warn;

/// Checks every value. `tree` is what `raw` was read from: it knows the places.
pub(super) fn compile(
    raw: &RawConfig,
    tree: &Node,
    home: Option<&Path>,
) -> Result<Config, ConfigError> {
    let reader = Reader { tree, home };
    let mut problems = Vec::new();
    let config = reader.config(raw, &mut problems);
    match (config, ConfigError::of(problems)) {
        (Some(config), None) => Ok(config),
        (_, Some(error)) => Err(error),
        // Every section that is missing has left a problem.
        (None, None) => Err(Problem::Syntax {
            origin: Origin::Default,
            why: "a section was not read and nothing says why; please report this".into(),
        }
        .into()),
    }
}

impl Reader<'_> {
    fn config(&self, raw: &RawConfig, problems: &mut Vec<Problem>) -> Option<Config> {
        let mut take = Take(problems);
        let data_dir = take.ok(self.path("data_dir", &raw.data_dir));
        let timezone = take.ok(self.text("timezone", &raw.timezone, values::zone));
        let store = take.ok(self.store(&raw.store));
        let counters = take.ok(self.counters(&raw.counters));
        let server = take.ok(self.server(&raw.server));
        let proxy = take.ok(self.proxy(&raw.proxy));
        let admin = take.ok(self.text("admin.bind", &raw.admin.bind, values::address));
        let dashboard = take.ok(self.text("dashboard.bind", &raw.dashboard.bind, values::address));
        let retrieval = take.ok(self.retrieval(&raw.retrieval));
        let destinations = take.ok(self.destinations(&raw.destinations));
        let browser = take.ok(self.browser(&raw.browser));
        let pipe = take.ok(self.pipe(&raw.pipe));
        let audit = take.ok(self.audit(&raw.audit));
        let logs = take.ok(self.logs(&raw.logs));
        let currency_rates = take.ok(self.rates(&raw.currency_rates));
        let ssh_hosts = take.ok(self.ssh_hosts(&raw.ssh_hosts));
        let mut config = Config {
            data_dir: data_dir?,
            timezone: timezone?,
            store: store?,
            counters: counters?,
            server: server?,
            proxy: proxy?,
            admin: Admin { bind: admin? },
            dashboard: Dashboard { bind: dashboard? },
            retrieval: retrieval?,
            destinations: destinations?,
            browser: browser?,
            pipe: pipe?,
            audit: audit?,
            logs: logs?,
            currency_rates: currency_rates?,
            ssh_hosts: ssh_hosts?,
            security: raw.security.clone(),
            // Raw secrets and sections that may hold some mask themselves.
            written: serde_json::to_value(raw).unwrap_or_default(),
            warnings: Vec::new(),
        };
        take.ok(self.listeners_differ(&config))?;
        config.warnings = warn::warnings(&config);
        Some(config)
    }

    fn store(&self, text: &str) -> Result<Store, Problem> {
        let key = Key::of("store");
        match scheme(text) {
            "sqlite" if text == "sqlite" => Ok(Store::Sqlite),
            "postgres" | "postgresql" => Err(self.not_available(&key, "postgres", "sqlite")),
            _ => Err(self.bad(&key, text, "`sqlite`".into())),
        }
    }

    fn counters(&self, text: &str) -> Result<Counters, Problem> {
        let key = Key::of("counters");
        match scheme(text) {
            "memory" if text == "memory" => Ok(Counters::Memory),
            "redis" | "rediss" => Err(self.not_available(&key, "redis", "memory")),
            _ => Err(self.bad(&key, text, "`memory`".into())),
        }
    }

    fn server(&self, raw: &RawServer) -> Result<Server, Problem> {
        let token = &raw.auth_token.0;
        self.text("server.auth_token", token, values::token)?;
        Ok(Server {
            bind_addr: self.text("server.bind_addr", &raw.bind_addr, values::address)?,
            log_level: raw.log_level,
            max_concurrent: self.number("server.max_concurrent", raw.max_concurrent, CONCURRENT)?,
            request_timeout: self.seconds("server.request_timeout_sec", raw.request_timeout_sec)?,
            auth_token: (!token.is_empty()).then(|| Secret::new(token.clone())),
        })
    }

    fn proxy(&self, raw: &RawProxy) -> Result<Proxy, Problem> {
        let inspect = raw.max_body_inspect_bytes;
        Ok(Proxy {
            bind: self.text("proxy.bind", &raw.bind, values::address)?,
            upstream_timeout: self
                .seconds("proxy.upstream_timeout_sec", raw.upstream_timeout_sec)?,
            allow_client_ips: self.list(
                &Key::of("proxy.allow_client_ips"),
                &raw.allow_client_ips,
                values::network,
            )?,
            max_body_inspect_bytes: self.number(
                "proxy.max_body_inspect_bytes",
                inspect,
                INSPECT_BYTES,
            )?,
            max_connections: self.number(
                "proxy.max_connections",
                raw.max_connections,
                CONNECTIONS,
            )?,
            prices_file: raw
                .prices_file
                .as_deref()
                .map(|file| self.path("proxy.prices_file", file))
                .transpose()?,
            file_prices: Vec::new(),
            fallback_price: raw
                .fallback_price
                .as_ref()
                .map(|raw| self.fallback_price(raw))
                .transpose()?,
            clamp_max_tokens: raw.clamp_max_tokens,
            connect: self.connect(&raw.connect)?,
        })
    }

    fn fallback_price(&self, raw: &RawFallbackPrice) -> Result<Price, Problem> {
        let mut spec = PriceSpec::plain("*", &raw.input, &raw.output);
        spec.cached_input.clone_from(&raw.cached_input);
        spec.cache_write.clone_from(&raw.cache_write);
        spec.max_input_tokens = raw.max_input_tokens.unwrap_or(spec.max_input_tokens);
        spec.max_output_tokens = raw.max_output_tokens.unwrap_or(spec.max_output_tokens);
        let key = Key::of("proxy.fallback_price");
        spec.price().map_err(|error| self.bad_price(&key, &error))
    }

    fn connect(&self, raw: &RawConnect) -> Result<Connect, Problem> {
        let intercept = Key::of("proxy.connect.intercept");
        let ports = Key::of("proxy.connect.allow_ports");
        self.bounded_entries(&ports, raw.allow_ports.len())?;
        let allow_ports = raw
            .allow_ports
            .iter()
            .enumerate()
            .map(|(place, port)| self.bounded(&ports.index(place), *port, PORT));
        Ok(Connect {
            enabled: raw.enabled,
            intercept: self.list(&intercept, &raw.intercept, values::wildcard)?,
            allow_ports: allow_ports.collect::<Result<_, _>>()?,
        })
    }

    fn retrieval(&self, raw: &RawRetrieval) -> Result<Retrieval, Problem> {
        let pages = |key, bytes| self.number(key, bytes, PAGE_BYTES);
        let concurrency = self.number("retrieval.concurrency", raw.concurrency, CONCURRENT)?;
        let per_user = Bounds { min: CONCURRENT.min, max: raw.concurrency.min(CONCURRENT.max) };
        Ok(Retrieval {
            max_redirects: self.number("retrieval.max_redirects", raw.max_redirects, REDIRECTS)?,
            max_wire_bytes: pages("retrieval.max_wire_bytes", raw.max_wire_bytes)?,
            max_body_bytes: pages("retrieval.max_body_bytes", raw.max_body_bytes)?,
            connect_timeout: self
                .milliseconds("retrieval.connect_timeout_ms", raw.connect_timeout_ms)?,
            read_timeout: self.milliseconds("retrieval.read_timeout_ms", raw.read_timeout_ms)?,
            concurrency,
            per_user_concurrency: self.number(
                "retrieval.per_user_concurrency",
                raw.per_user_concurrency,
                per_user,
            )?,
            allow_ports: self.list(
                &Key::of("retrieval.allow_ports"),
                &raw.allow_ports,
                values::host_port,
            )?,
            allow_https_downgrade: raw.allow_https_downgrade,
            detect_secrets: raw.detect_secrets,
        })
    }

    fn destinations(&self, raw: &RawDestinations) -> Result<Destinations, Problem> {
        let suffixes = Key::of("destinations.blocked_suffixes");
        let allowed = Key::of("destinations.danger_allow");
        Ok(Destinations {
            blocked_suffixes: self.list(&suffixes, &raw.blocked_suffixes, values::suffix)?,
            danger_allow: self.list(&allowed, &raw.danger_allow, values::exception)?,
        })
    }

    fn browser(&self, raw: &RawBrowser) -> Result<Browser, Problem> {
        Ok(Browser {
            policy: self.path("browser.policy", &raw.policy)?,
            cdp: self.number("browser.cdp", raw.cdp, PORT)?,
            listener: self.text("browser.listener", &raw.listener, values::address)?,
        })
    }

    fn pipe(&self, raw: &RawPipe) -> Result<Pipe, Problem> {
        let table = Key::of("pipe.actions");
        self.bounded_entries(&table, raw.actions.len())?;
        let mut actions = BTreeMap::new();
        for (domain, allowed) in &raw.actions {
            let key = table.entry(domain);
            let pattern = values::domain(domain)
                .map_err(|expected| self.bad_name(&table, domain, expected))?;
            // `A.example` and `a.example` are one domain; which of the two holds is a guess.
            let allowed = self.list(&key, allowed, values::pipe_action)?;
            if actions.insert(pattern, allowed).is_some() {
                return Err(self.bad_name(&table, domain, "each domain once".into()));
            }
        }
        Ok(Pipe {
            allow_domains: self.list(
                &Key::of("pipe.allow_domains"),
                &raw.allow_domains,
                values::domain,
            )?,
            actions,
        })
    }

    fn audit(&self, raw: &RawAudit) -> Result<Audit, Problem> {
        let doors = &raw.durability;
        let or_default = |door: Option<_>| door.unwrap_or(doors.default);
        let file = raw.checkpoint_file.as_deref();
        Ok(Audit {
            durability: DurabilityByDoor {
                api: doors.api,
                default: doors.default,
                web: or_default(doors.web),
                exec: or_default(doors.exec),
                browser: or_default(doors.browser),
                pipe: or_default(doors.pipe),
            },
            checkpoint_file: file
                .map(|file| self.path("audit.checkpoint_file", file))
                .transpose()?,
        })
    }

    fn logs(&self, raw: &RawLogs) -> Result<Logs, Problem> {
        let days = |key, days| self.number(key, days, RETENTION_DAYS);
        let raw = &raw.retention_days;
        Ok(Logs {
            retention_days: RetentionDays {
                requests: days("logs.retention_days.requests", raw.requests)?,
                config_changes: days("logs.retention_days.config_changes", raw.config_changes)?,
                system_events: days("logs.retention_days.system_events", raw.system_events)?,
            },
        })
    }

    fn rates(&self, raw: &BTreeMap<String, String>) -> Result<Rates, Problem> {
        let table = Key::of("currency_rates");
        self.bounded_entries(&table, raw.len())?;
        let mut rates = Vec::new();
        for (code, rate) in raw {
            let key = table.entry(code);
            let currency =
                values::currency(code).map_err(|expected| self.bad_name(&table, code, expected))?;
            let micros = values::rate(rate).map_err(|expected| self.bad(&key, rate, expected))?;
            rates.push((currency, micros));
        }
        Rates::new(rates).ok_or_else(|| self.bad(&table, "", "rates above 0".into()))
    }

    fn ssh_hosts(&self, raw: &[Untyped]) -> Result<Vec<Untyped>, Problem> {
        self.bounded_entries(&Key::of("ssh_hosts"), raw.len())?;
        Ok(raw.to_vec())
    }

    /// Two listeners on one address: the second would fail to start, and not say whose port it is.
    fn listeners_differ(&self, config: &Config) -> Result<(), Problem> {
        let mut seen: Vec<(&str, _)> = Vec::new();
        for (key, address) in warn::listeners(config) {
            let taken = seen.iter().find(|(_, other)| *other == address && address.port() != 0);
            if let Some((other, _)) = taken {
                let expected = format!("another address than that of `{other}`");
                return Err(self.bad(&Key::of(key), &address.to_string(), expected));
            }
            seen.push((key, address));
        }
        Ok(())
    }
}

/// Keeps what is right and notes what is wrong.
struct Take<'a>(&'a mut Vec<Problem>);

impl Take<'_> {
    fn ok<T>(&mut self, read: Result<T, Problem>) -> Option<T> {
        read.map_err(|problem| self.0.push(problem)).ok()
    }
}

fn scheme(address: &str) -> &str {
    address.split_once(':').map_or(address, |(scheme, _)| scheme)
}
