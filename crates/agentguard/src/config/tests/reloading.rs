//! Which changes reach a running gate.

use agentguard_core::price::PriceSpec;

use super::super::describe::{self, Shape};
use super::super::reload::RELOADABLE;
use super::super::{Config, ReloadPlan, diff, note_written, sides};
use super::{from_env, load_text};

/// A file that sets this key to something other than its default.
fn changed(key: &str) -> Config {
    let value = match key {
        "data_dir" | "proxy.prices_file" | "browser.policy" | "audit.checkpoint_file" => {
            "/srv/other"
        }
        "timezone" => "Europe/Berlin",
        "server.bind_addr" | "proxy.bind" | "admin.bind" | "dashboard.bind"
        | "browser.listener" => "'127.0.0.1:9999'",
        "server.log_level" => "debug",
        "server.auth_token" => "token",
        "proxy.allow_client_ips" => "[10.0.0.0/8]",
        "proxy.connect.intercept" => "[example.com]",
        "proxy.connect.allow_ports" => "[443]",
        "proxy.connect.enabled" | "retrieval.detect_secrets" => "false",
        "retrieval.allow_https_downgrade" | "proxy.clamp_max_tokens" => "true",
        "proxy.fallback_price" => "{ input: 1.5, output: '2' }",
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
fn both_sides_of_every_key_can_be_shown_and_differ_unless_they_are_hidden() {
    let old = from_env(&[]);
    for key in describe::keys() {
        if key.shape == Shape::Section || ["store", "counters"].contains(&key.path.as_str()) {
            continue;
        }
        let new = changed(&key.path);
        let plan = diff(&old, &new);
        let (before, after) = sides(&old, &new, &plan);
        let name = plan.applied.first().or(plan.needs_restart.first()).unwrap();
        let (was, is) = (&before[name], &after[name]);
        let hidden = ["server.auth_token", "ssh_hosts", "security"].contains(name);
        assert_eq!((was == "***", is == "***"), (hidden, hidden), "{before} {after}");
        assert!(hidden || was != is, "{before} {after}");
        assert_eq!(before.as_object().unwrap().len(), 1, "{before}");
        assert_eq!(after.get("needs_restart").is_some(), plan.applied.is_empty(), "{after}");

        let mut running = old.clone();
        note_written(&mut running, &new, &plan.applied);
        let expected = if plan.applied.is_empty() { &old } else { &new };
        assert_eq!(running.written, expected.written, "{name}");
    }
}

#[test]
fn reloadable_keys_exist() {
    let known = describe::keys();
    for key in RELOADABLE {
        assert!(known.iter().any(|known| known.path == key), "{key}");
    }
}

#[test]
fn prices_that_changed_in_their_file_are_shown_as_they_were_and_are() {
    let mut old = from_env(&[]);
    let (a, b) = (PriceSpec::plain("a", "1", "1"), PriceSpec::plain("b", "1", "1"));
    old.proxy.file_prices = vec![a.clone(), b];
    let mut new = old.clone();
    new.proxy.file_prices = vec![a, PriceSpec::plain("b", "2", "1")];
    let plan = diff(&old, &new);
    assert_eq!(plan.applied, ["proxy.prices_file"]);
    let (before, after) = sides(&old, &new, &plan);
    let only = |side: &serde_json::Value| {
        let prices = side["proxy.prices_file"]["prices"].as_array().unwrap();
        assert_eq!(prices.len(), 1, "{side}");
        (prices[0]["model"].clone(), prices[0]["input"].clone())
    };
    assert_eq!(only(&before), ("b".into(), "1".into()));
    assert_eq!(only(&after), ("b".into(), "2".into()));
}
