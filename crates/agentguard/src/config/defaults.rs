//! The value of every key that is left out. Safe by default: loopback listeners, every check on.

use std::collections::BTreeMap;

use super::opaque::{RawSecret, Untyped};
use super::raw::{
    Durability, LogLevel, RawAdmin, RawAudit, RawBrowser, RawConfig, RawConnect, RawDashboard,
    RawDestinations, RawDurability, RawLogs, RawPipe, RawProxy, RawRetentionDays, RawRetrieval,
    RawServer,
};

impl Default for RawConfig {
    fn default() -> Self {
        Self {
            data_dir: "~/.local/share/agentguard".into(),
            timezone: "UTC".into(),
            store: "sqlite".into(),
            counters: "memory".into(),
            server: RawServer::default(),
            proxy: RawProxy::default(),
            admin: RawAdmin::default(),
            dashboard: RawDashboard::default(),
            retrieval: RawRetrieval::default(),
            destinations: RawDestinations::default(),
            browser: RawBrowser::default(),
            pipe: RawPipe::default(),
            audit: RawAudit::default(),
            logs: RawLogs::default(),
            currency_rates: BTreeMap::from([("EUR".into(), "1.08".into())]),
            ssh_hosts: Vec::new(),
            security: Untyped::default(),
        }
    }
}

impl Default for RawServer {
    fn default() -> Self {
        Self {
            bind_addr: "127.0.0.1:7458".into(),
            log_level: LogLevel::Info,
            max_concurrent: 32,
            request_timeout_sec: 30,
            auth_token: RawSecret::default(),
        }
    }
}

impl Default for RawProxy {
    fn default() -> Self {
        Self {
            bind: "127.0.0.1:8080".into(),
            upstream_timeout_sec: 30,
            allow_client_ips: vec!["127.0.0.0/8".into(), "::1/128".into()],
            max_body_inspect_bytes: 1 << 20,
            max_connections: 1_024,
            prices_file: None,
            fallback_price: None,
            clamp_max_tokens: false,
            connect: RawConnect::default(),
        }
    }
}

impl Default for RawConnect {
    fn default() -> Self {
        Self { enabled: true, intercept: Vec::new(), allow_ports: vec![443, 80] }
    }
}

impl Default for RawAdmin {
    fn default() -> Self {
        Self { bind: "127.0.0.1:3000".into() }
    }
}

impl Default for RawDashboard {
    fn default() -> Self {
        Self { bind: "127.0.0.1:3001".into() }
    }
}

impl Default for RawRetrieval {
    fn default() -> Self {
        Self {
            max_redirects: 5,
            max_wire_bytes: 4 << 20,
            max_body_bytes: 8 << 20,
            connect_timeout_ms: 5_000,
            read_timeout_ms: 15_000,
            concurrency: 32,
            per_user_concurrency: 4,
            allow_ports: Vec::new(),
            allow_https_downgrade: false,
            detect_secrets: true,
        }
    }
}

impl Default for RawDestinations {
    fn default() -> Self {
        Self {
            blocked_suffixes: vec![".internal".into(), ".corp".into()],
            danger_allow: Vec::new(),
        }
    }
}

impl Default for RawBrowser {
    fn default() -> Self {
        Self {
            policy: "/etc/agent-browser/browser-shell.policy.json".into(),
            cdp: 9_222,
            listener: "127.0.0.1:8090".into(),
        }
    }
}

impl Default for RawDurability {
    /// Doors that change the world are on disk before they act, reads only outlive the process.
    fn default() -> Self {
        Self {
            default: Durability::Process,
            api: None,
            web: None,
            exec: Some(Durability::Power),
            browser: Some(Durability::Power),
            pipe: Some(Durability::Power),
        }
    }
}

impl Default for RawRetentionDays {
    fn default() -> Self {
        Self { requests: 7, config_changes: 30, system_events: 30 }
    }
}
