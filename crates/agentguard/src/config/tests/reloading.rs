//! Which changes reach a running gate.

use super::super::describe::{self, Shape};
use super::super::reload::RELOADABLE;
use super::super::{Config, ReloadPlan, diff};
use super::{from_env, load_text};

/// A file that sets this key to something other than its default.
fn changed(key: &str) -> Config {
    let value = match key {
        "data_dir" | "browser.policy" | "audit.checkpoint_file" => "/srv/other",
        "timezone" => "Europe/Berlin",
        "server.bind_addr" | "proxy.bind" | "admin.bind" | "dashboard.bind"
        | "browser.listener" => "'127.0.0.1:9999'",
        "server.log_level" => "debug",
        "server.auth_token" => "token",
        "proxy.allow_client_ips" => "[10.0.0.0/8]",
        "proxy.connect.intercept" => "[example.com]",
        "proxy.connect.allow_ports" => "[443]",
        "proxy.connect.enabled" | "retrieval.detect_secrets" => "false",
        "retrieval.allow_https_downgrade" => "true",
        "retrieval.allow_ports" | "destinations.danger_allow" => "['example.com:8443']",
        "retrieval.max_redirects" | "retrieval.per_user_concurrency" => "3",
        "destinations.blocked_suffixes" => "[.lan]",
        "pipe.allow_domains" => "[example.com]",
        "pipe.actions" => "{ example.com: [click] }",
        "audit.durability.default" | "audit.durability.api" | "audit.durability.web" => "power",
        "audit.durability.exec" | "audit.durability.browser" | "audit.durability.pipe" => "process",
        "currency_rates" => "{ GBP: '1.27' }",
        "ssh_hosts" => "[{ id: a }]",
        "security" => "{ enable_pty: true }",
        _ => "2048",
    };
    let text =
        format!("{}: {value} {}", key.replace('.', ": { "), "}".repeat(key.matches('.').count()));
    load_text(&text, &[]).unwrap()
}

#[test]
fn every_changed_key_is_noticed_and_put_on_the_right_side() {
    let old = from_env(&[]);
    assert!(diff(&old, &old).is_empty());
    for key in describe::keys() {
        // These two have one value each in this version.
        if key.shape == Shape::Section || ["store", "counters"].contains(&key.path.as_str()) {
            continue;
        }
        let plan = diff(&old, &changed(&key.path));
        let ReloadPlan { applied, needs_restart } = &plan;
        let (noticed, other) = if RELOADABLE.contains(&key.path.as_str()) {
            (applied, needs_restart)
        } else {
            (needs_restart, applied)
        };
        assert_eq!((noticed.len(), other.len()), (1, 0), "{} {plan:?}", key.path);
        assert!(key.path.starts_with(noticed[0]), "{} {plan:?}", key.path);
    }
}

#[test]
fn reloadable_keys_exist() {
    let known = describe::keys();
    for key in RELOADABLE {
        assert!(known.iter().any(|known| known.path == key), "{key}");
    }
}
