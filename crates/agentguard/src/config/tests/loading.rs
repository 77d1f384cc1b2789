//! What loads, from where, and which source wins.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use agentguard_core::{Currency, Money};

use super::super::find::{self, Candidate, Named};
use super::super::model::{Durability, Exception, HostPort, LogLevel, Pattern};
use super::super::{Config, load, resolve};
use super::{from_env, load_text, pairs};

#[track_caller]
fn loaded(text: &str) -> Config {
    load_text(text, &[]).unwrap()
}

#[test]
fn nothing_at_all_is_the_safe_defaults() {
    let config = from_env(&[]);
    assert_eq!(config.data_dir, Path::new("/people/op/.local/share/agentguard"));
    assert_eq!(config.timezone.name(), "UTC");
    assert_eq!(config.server.request_timeout, Duration::from_secs(30));
    assert!(config.server.auth_token.is_none());
    assert_eq!(config.proxy.max_connections, 1_024);
    assert_eq!(config.proxy.connect.allow_ports, [443, 80]);
    assert_eq!(config.retrieval.read_timeout, Duration::from_millis(15_000));
    assert_eq!(config.destinations.blocked_suffixes, ["internal", "corp"]);
    assert_eq!(config.logs.retention_days.requests, 7);
    assert_eq!(dollars(&config, "EUR"), Some(1_080_000));
    assert_eq!(config.warnings, Vec::<String>::new());
}

#[test]
fn files_without_a_key_are_the_defaults() {
    let defaults = format!("{:?}", from_env(&[]));
    for text in ["", "# nothing\n", "---\n", "{}", "proxy:\naudit:\n  durability:\n", "\u{feff}"] {
        assert_eq!(format!("{:?}", loaded(text)), defaults, "{text:?}");
    }
}

#[test]
fn the_file_of_the_specification_is_the_defaults() {
    let text = r#"
data_dir: ~/.local/share/agentguard
timezone: UTC
store: sqlite                       # or another
counters: memory
server:        { bind_addr: "127.0.0.1:7458", log_level: info, max_concurrent: 32, request_timeout_sec: 30, auth_token: "" }
proxy:         { bind: "127.0.0.1:8080", upstream_timeout_sec: 30, allow_client_ips: ["127.0.0.0/8","::1/128"], max_body_inspect_bytes: 1048576, connect: { enabled: true, intercept: [], allow_ports: [443, 80] } }
admin:         { bind: "127.0.0.1:3000" }
dashboard:     { bind: "127.0.0.1:3001" }
retrieval:     { max_redirects: 5, max_wire_bytes: 4194304, max_body_bytes: 8388608, connect_timeout_ms: 5000, read_timeout_ms: 15000, concurrency: 32, per_user_concurrency: 4, allow_ports: [], allow_https_downgrade: false, detect_secrets: true }
destinations:  { blocked_suffixes: [".internal", ".corp"], danger_allow: [] }
browser:       { policy: /etc/agent-browser/browser-shell.policy.json, cdp: 9222, listener: "127.0.0.1:8090" }
pipe:          { allow_domains: [], actions: {} }
audit:         { durability: { default: process, exec: power }, checkpoint_file: null }
currency_rates: { EUR: "1.08" }
ssh_hosts: []
security: {}
"#;
    assert_eq!(format!("{:?}", loaded(text)), format!("{:?}", from_env(&[])));
}

#[test]
fn hosts_and_command_policy_are_kept_as_written() {
    let text = r#"
server: { bind_addr: "127.0.0.1:7458", log_level: "info", auth_token: "" }
ssh_hosts:
  - id: "prod-1"
    addr: "10.0.0.11:22"
    auth_method: "private_key"
    private_key_path: "~/.ssh/id_rsa"
    known_hosts: "~/.ssh/known_hosts"
    connect_timeout_sec: 5
    labels: [prod, web]
  - id: "staging-1"
    auth_method: "password"
    password: "*****"
    insecure_ignore: true
security:
  default_shell: false
  allow_shell_for: ["bash","sh"]
  denylist_regex:
    - "^rm\\..*"
    - ".*;.*"
  arg_deny_regex: ["-{1,2}force", "/dev/sd[a-z].*"]
  max_output_bytes: 1048576
"#;
    let config = loaded(text);
    let host = config.ssh_hosts[0].keys();
    assert_eq!(host["id"], "prod-1");
    assert_eq!(host["connect_timeout_sec"], 5);
    assert_eq!(config.security.keys()["denylist_regex"][0], "^rm\\..*");
    assert_eq!(config.security.keys()["default_shell"], false);
    assert_eq!(
        config.warnings,
        ["`ssh_hosts[1].insecure_ignore` is set: it switches a protection off"]
    );
}

#[test]
fn values_become_what_they_mean() {
    assert_eq!(loaded("data_dir: '~'").data_dir, Path::new("/people/op"));

    let config = loaded(
        r#"
timezone: Europe/Berlin
server: { log_level: warn, auth_token: 0123 }
proxy:
  allow_client_ips: [10.0.0.0/8, 192.168.1.7]
  connect: { intercept: [API.Example.com, "*.bücher.example"] }
retrieval: { allow_ports: ["example.com:8443", "[2001:db8::1]:99"] }
destinations: { blocked_suffixes: [.LAN], danger_allow: ["db.corp:5432", 10.1.0.0/16] }
pipe: { allow_domains: [.example.com], actions: { erp.example.com: [navigate, getText] } }
audit: { checkpoint_file: ~/checkpoints }
currency_rates: { GBP: 1.270, JPY: "0.0067" }
"#,
    );
    assert_eq!(config.timezone.name(), "Europe/Berlin");
    assert_eq!(config.server.log_level, LogLevel::Warn);
    // An unquoted number where text belongs keeps its spelling.
    assert_eq!(config.server.auth_token.as_ref().unwrap().expose(), "0123");
    assert_eq!(config.proxy.allow_client_ips[1].to_string(), "192.168.1.7/32");
    let below = |name: &str| Pattern::Below(name.into());
    let intercept = [Pattern::Exactly("api.example.com".into()), below("xn--bcher-kva.example")];
    assert_eq!(config.proxy.connect.intercept, intercept);
    assert_eq!(
        config.retrieval.allow_ports[0],
        HostPort { host: "example.com".into(), port: 8443 }
    );
    assert_eq!(config.retrieval.allow_ports[1].to_string(), "[2001:db8::1]:99");
    assert_eq!(config.destinations.blocked_suffixes, ["lan"]);
    let network = Exception::Network("10.1.0.0/16".parse().unwrap());
    assert_eq!(config.destinations.danger_allow[1], network);
    assert_eq!(config.pipe.allow_domains, [below("example.com")]);
    assert_eq!(config.pipe.actions.values().next().unwrap(), &["navigate", "getText"]);
    assert_eq!(config.audit.checkpoint_file.as_deref(), Some(Path::new("/people/op/checkpoints")));
    assert_eq!(dollars(&config, "GBP"), Some(1_270_000));
    assert_eq!(dollars(&config, "JPY"), Some(6_700));
    // The table replaces the default one.
    assert_eq!(dollars(&config, "EUR"), None);
}

/// Micro-dollars for one unit.
fn dollars(config: &Config, code: &str) -> Option<i64> {
    let one = Money::new(1_000_000, Currency::parse(code)?)?;
    Some(config.currency_rates.to_usd(one)?.micros())
}

#[test]
fn doors_that_change_the_world_are_on_disk_unless_named_otherwise() {
    use Durability::{Power, Process};
    for (text, api, web, exec, browser) in [
        ("", None, Process, Power, Power),
        ("{ default: process }", None, Process, Power, Power),
        ("{ default: power }", None, Power, Power, Power),
        ("{ exec: process, api: process }", Some(Process), Process, Process, Power),
        ("{ default: power, exec: null, web: process }", None, Process, Power, Power),
    ] {
        let found = loaded(&format!("audit: {{ durability: {text} }}")).audit.durability;
        assert_eq!((found.api, found.web, found.exec, found.browser), (api, web, exec, browser));
        assert_eq!(found.pipe, Power);
    }
}

#[test]
fn dangerous_settings_are_announced() {
    for (text, warning) in [
        ("proxy: { bind: '0.0.0.0:8080' }", "`proxy.bind` is 0.0.0.0:8080: other machines can…"),
        ("browser: { listener: '[::]:8090' }", "`browser.listener` is [::]:8090: other machines…"),
        (
            "destinations: { danger_allow: [10.0.0.0/8, 'db.corp:5432'] }",
            "`destinations.danger_allow` lets agents reach 10.0.0.0/8, db.corp:5432",
        ),
        ("security: { hosts: [{ danger_any: [ls] }] }", "`security.hosts[0].danger_any` is set…"),
    ] {
        let found = loaded(text).warnings;
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with(warning.trim_end_matches('…')), "{found:?}");
    }
    for text in [
        "proxy: { bind: '127.8.8.8:8080' }",
        "admin: { bind: '[::1]:3000' }",
        "ssh_hosts: [{ insecure_ignore: false }]",
    ] {
        assert_eq!(loaded(text).warnings, Vec::<String>::new(), "{text}");
    }
}

#[test]
fn variables_override_the_file() {
    let text = "proxy: { bind: '127.0.0.1:1', max_connections: 7 }\ncurrency_rates: { EUR: '1' }\n";
    let config = load_text(
        text,
        &[
            ("AGENTGUARD__PROXY__BIND", "127.0.0.1:2"),
            ("AGENTGUARD__PROXY__ALLOW_CLIENT_IPS", "[10.0.0.0/8]"),
            ("AGENTGUARD__CURRENCY_RATES__GBP", "1.27"),
            ("AGENTGUARD__AUDIT__DURABILITY__WEB", "power"),
            ("AGENTGUARD__PROXY__CONNECT__ENABLED", "false"),
            ("AGENTGUARD__SECURITY__MAX_OUTPUT_BYTES", "5"),
            ("AGENTGUARD__SSH_HOSTS", "[{ id: a }]"),
            // Neither of these is an override.
            ("AGENTGUARD_CONFIG", "elsewhere.yaml"),
            ("AGENTGUARD_PROXY_BIND", "nonsense"),
        ],
    )
    .unwrap();
    assert_eq!(config.proxy.bind.port(), 2);
    assert_eq!(config.proxy.max_connections, 7);
    assert_eq!(config.proxy.allow_client_ips.len(), 1);
    assert!(!config.proxy.connect.enabled);
    assert_eq!(
        (dollars(&config, "EUR"), dollars(&config, "GBP")),
        (Some(1_000_000), Some(1_270_000))
    );
    assert_eq!(config.audit.durability.web, Durability::Power);
    assert_eq!(config.security.keys()["max_output_bytes"], 5);
    assert_eq!(config.ssh_hosts[0].keys()["id"], "a");

    let config =
        load_text("server: { auth_token: x }", &[("AGENTGUARD__SERVER__AUTH_TOKEN", "")]).unwrap();
    assert!(config.server.auth_token.is_none());
}

#[test]
fn home_is_needed_only_for_a_tilde() {
    let message = resolve(None, &[], None).unwrap_err().to_string();
    let expected = "configuration: `data_dir` is `~/.local/share/agentguard`; expected a path \
                    without `~`, as $HOME is not set";
    assert_eq!(message, expected);
    assert!(resolve(Some(("a.yaml", "data_dir: /srv/ag")), &[], None).is_ok());
}

#[test]
fn a_named_file_is_the_only_candidate() {
    let searched = |path: &str| Candidate { path: path.into(), named: Named::No };
    let named = |path: &str, named| Candidate { path: path.into(), named };
    let here = "agentguard.yaml";
    for (flag, env, home, expected) in [
        (Some("f"), vec![("AGENTGUARD_CONFIG", "e")], Some("/h"), vec![named("f", Named::ByFlag)]),
        (None, vec![("AGENTGUARD_CONFIG", "e")], Some("/h"), vec![named("e", Named::ByVariable)]),
        (
            None,
            vec![("AGENTGUARD_CONFIG", ""), ("XDG_CONFIG_HOME", "/x")],
            Some("/h"),
            vec![searched(here), searched("/x/agentguard/agentguard.yaml")],
        ),
        (
            None,
            vec![("XDG_CONFIG_HOME", "relative")],
            Some("/h"),
            vec![searched(here), searched("/h/.config/agentguard/agentguard.yaml")],
        ),
        (None, vec![], None, vec![searched(here)]),
    ] {
        let found = find::candidates(flag.map(Path::new), &pairs(&env), home.map(Path::new));
        assert_eq!(found, expected);
    }
}

#[test]
fn loading_names_the_file_that_was_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.yaml");
    fs::write(&path, "data_dir: /srv/ag\n").unwrap();
    let loaded = load(Some(&path)).unwrap();
    assert_eq!(loaded.config.data_dir, Path::new("/srv/ag"));
    assert_eq!(loaded.file, Some(path));
}

#[test]
fn an_absent_file_is_an_error_only_if_it_was_named() {
    let folder = tempfile::tempdir().unwrap();
    let place = |name: &str| folder.path().join(name);
    fs::write(place("good.yaml"), "timezone: UTC\n").unwrap();
    fs::write(place("binary.yaml"), b"\xff\xfe").unwrap();
    fs::write(place("large.yaml"), vec![b'#'; (1 << 20) + 5]).unwrap();
    let read = |path: PathBuf, named| find::read(vec![Candidate { path, named }]);

    assert!(read(place("none.yaml"), Named::No).unwrap().is_none());
    assert!(read(place("good.yaml/none.yaml"), Named::No).unwrap().is_none());
    assert_eq!(read(place("good.yaml"), Named::No).unwrap().unwrap().text, "timezone: UTC\n");
    for (name, named, message) in [
        ("none.yaml", Named::ByFlag, "(named by --config): No such file"),
        ("none.yaml", Named::ByVariable, "(named by $AGENTGUARD_CONFIG): No such file"),
        (".", Named::No, "(found by itself; --config names another): Is a directory"),
        ("binary.yaml", Named::No, "binary.yaml: not UTF-8 text"),
        ("large.yaml", Named::No, "large.yaml: larger than 1048576 bytes"),
    ] {
        let found = read(place(name), named).unwrap_err().to_string();
        assert!(found.contains(message), "{found}");
    }
}

#[test]
fn prices_are_read_from_the_file_beside_the_configuration() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.yaml");
    fs::write(&file, "proxy: { prices_file: prices.yaml }\n").unwrap();
    let said = load(Some(&file)).unwrap_err().to_string();
    assert!(said.contains("prices.yaml` (named by `proxy.prices_file`)"), "{said}");
    fs::write(folder.path().join("prices.yaml"), "- { model: m, input: 1.5, output: 2 }\n")
        .unwrap();
    let proxy = load(Some(&file)).unwrap().config.proxy;
    assert_eq!(proxy.prices_file, Some(folder.path().join("prices.yaml")));
    assert_eq!((proxy.file_prices.len(), proxy.file_prices[0].input.as_str()), (1, "1.5"));
    fs::write(folder.path().join("prices.yaml"), "- { model: m, input: 1.5 }\n").unwrap();
    let said = load(Some(&file)).unwrap_err().to_string();
    assert!(said.contains("prices.yaml line 1"), "{said}");
}

#[test]
fn a_fallback_price_is_a_price() {
    assert!(from_env(&[]).proxy.fallback_price.is_none());
    let price =
        loaded("proxy: { fallback_price: { input: 5, output: '25', max_output_tokens: 9 } }");
    let price = price.proxy.fallback_price.unwrap();
    assert_eq!((price.usual.output.micros(), price.max_output_tokens), (25_000_000, 9));
    assert!(price.reasons, "nobody knows whether it thinks");
    for (text, expected) in [
        ("{ input: 5 }", "output"),
        ("{ input: 5, output: x }", "`proxy.fallback_price.output` is `x`"),
        ("{ input: 5, output: 1, model: m }", "unknown key `proxy.fallback_price.model`"),
        ("{ input: 5, output: 1, max_input_tokens: 0 }", "`proxy.fallback_price.max_input_tokens`"),
        ("5", "proxy.fallback_price"),
    ] {
        let said = load_text(&format!("proxy: {{ fallback_price: {text} }}"), &[]).unwrap_err();
        assert!(said.contains(expected), "{text}: {said}");
    }
}
