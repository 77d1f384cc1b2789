//! What is refused, and the message.

use super::load_text;

/// The whole message must be this, but for `…` at its end.
#[track_caller]
fn check(text: &str, message: &str) {
    check_env(text, &[], message);
}

#[track_caller]
fn check_env(text: &str, env: &[(&str, &str)], message: &str) {
    let found = match load_text(text, env) {
        Ok(_) => "no error".to_owned(),
        Err(found) => found,
    };
    match message.strip_suffix('…') {
        Some(start) => assert!(found.starts_with(start), "{text:?} {env:?}\n{found}"),
        None => assert_eq!(found, message, "{text:?} {env:?}"),
    }
}

#[test]
fn unknown_keys_name_the_line_and_the_nearest_key() {
    for (text, message) in [
        ("prxy: {}", "line 1, column 1: unknown key `prxy`; did you mean `proxy`?"),
        ("Proxy: {}", "line 1, column 1: unknown key `Proxy`; did you mean `proxy`?"),
        (
            "# first\nproxy:\n  bnd: x\n",
            "line 3, column 3: unknown key `proxy.bnd`; did you mean `proxy.bind`?",
        ),
        (
            "proxy: { connect: { alow_port: [] } }",
            "line 1, column 21: unknown key `proxy.connect.alow_port`; did you mean \
             `proxy.connect.allow_ports`?",
        ),
        (
            "max_connections: 5",
            "line 1, column 1: unknown key `max_connections`; did you mean \
             `proxy.max_connections`?",
        ),
        ("quux: 1", "line 1, column 1: unknown key `quux`; known here: data_dir, timezone, …"),
        ("\"a\\u001bb\": 1", "line 1, column 1: unknown key `a\\u{1b}b`; known here: …"),
    ] {
        check(text, &format!("a.yaml {message}"));
    }
    let endless = format!("? {}\n: 1\n", "k".repeat(500_000));
    check(&endless, &format!("a.yaml line 1, column 3: unknown key `{}…", "k".repeat(80)));
}

#[test]
fn wrong_types_name_key_value_and_what_is_expected() {
    let section = "a section of `key: value` lines";
    let number = "a whole number, 0 or more, without quotes";
    let flag = "`true` or `false`, without quotes";
    for (text, key, found, expected) in [
        ("just text", "the file", "just text", section),
        ("[a, b]", "the file", "[…]", section),
        ("proxy: 5", "`proxy`", "5", section),
        ("proxy: [a]", "`proxy`", "[…]", section),
        ("proxy: { bind: [a] }", "`proxy.bind`", "[…]", "text"),
        ("data_dir: null", "`data_dir`", "null", "text"),
        ("server: { max_concurrent: many }", "`server.max_concurrent`", "many", number),
        ("server: { max_concurrent: 1.5 }", "`server.max_concurrent`", "1.5", number),
        ("server: { max_concurrent: '5' }", "`server.max_concurrent`", "5", number),
        ("server: { max_concurrent: -1 }", "`server.max_concurrent`", "-1", number),
        ("browser: { cdp: 99999999999999999999 }", "`browser.cdp`", "99999999999999999999", number),
        ("proxy: { connect: { enabled: yes } }", "`proxy.connect.enabled`", "yes", flag),
        (
            "proxy: { allow_client_ips: }",
            "`proxy.allow_client_ips`",
            "null",
            "a list, like `[a, b]`",
        ),
        (
            "proxy: { connect: { allow_ports: [80, a] } }",
            "`proxy.connect.allow_ports[1]`",
            "a",
            number,
        ),
        ("security: []", "`security`", "[…]", section),
        (
            "server: { log_level: wran }",
            "`server.log_level`",
            "wran",
            "one of `trace`, `debug`, `info`, `warn`, `error`; did you mean `warn`?",
        ),
        (
            "server: { log_level: off }",
            "`server.log_level`",
            "off",
            "one of `trace`, `debug`, `info`, `warn`, `error`",
        ),
        (
            "audit: { durability: { exec: pwer } }",
            "`audit.durability.exec`",
            "pwer",
            "one of `process`, `power`; did you mean `power`?",
        ),
    ] {
        let message = load_text(text, &[]).unwrap_err();
        let end = format!(": {key} is `{found}`; expected {expected}");
        assert!(message.ends_with(&end), "{text:?}\n{message}");
    }
}

#[test]
fn wrong_values_name_key_value_and_what_is_expected() {
    let address = "an IP address and a port from 0 to 65535, like `127.0.0.1:8080` or `[::1]:8080`";
    let network = "a network in CIDR notation, like `127.0.0.0/8` or `::1/128`";
    let port = "a host and a port from 1 to 65535, like `example.com:8443`";
    let zone = "an IANA time zone, like `Europe/Berlin` or `UTC`";
    let wildcard = "a host name, or `*.` and a suffix, like `api.example.com` or `*.example.com`";
    let long = format!("{}.example", "a".repeat(64));
    for (name, found, expected) in [
        ("proxy.bind", "127.0.0.1:99999", address),
        ("proxy.bind", "localhost:8080", address),
        ("admin.bind", "127.0.0.1", address),
        ("admin.bind", "127.0.0.1:8080", "another address than that of `proxy.bind`"),
        ("proxy.allow_client_ips[0]", "10.0.0.0/40", network),
        ("proxy.allow_client_ips[0]", "everybody", network),
        (
            "proxy.allow_client_ips[0]",
            "10.1.2.3/8",
            "the network `10.0.0.0/8`, or the one address `10.1.2.3`",
        ),
        ("proxy.connect.intercept[0]", "a*.example.com", wildcard),
        ("proxy.connect.intercept[0]", "a..example.com", wildcard),
        ("proxy.connect.intercept[0]", "10.0.0.1", wildcard),
        ("proxy.connect.intercept[0]", long.as_str(), wildcard),
        ("retrieval.allow_ports[0]", "example.com", port),
        ("retrieval.allow_ports[0]", "example.com:0", port),
        ("retrieval.allow_ports[0]", "example.com:+80", port),
        ("destinations.blocked_suffixes[0]", "corp", "a dot and the end of names, like `.corp`"),
        (
            "destinations.danger_allow[0]",
            "db.corp",
            "`host:port`, or a network in CIDR notation like `10.1.0.0/16`",
        ),
        ("timezone", "Mars/Base", zone),
        ("timezone", "Etc/Unknown", zone),
        ("data_dir", "", "a path"),
        ("data_dir", "~bob/x", "`~/` and a path; other users' home folders are not known"),
    ] {
        let text = nested(name, &format!("'{found}'"));
        let message = load_text(&text, &[]).unwrap_err();
        let end = format!(": `{name}` is `{found}`; expected {expected}");
        assert!(message.ends_with(&end), "{text:?}\n{message}");
    }
}

#[test]
fn numbers_outside_their_bounds_are_refused() {
    for (name, found, expected) in [
        ("server.max_concurrent", 0, "1 to 4096"),
        ("server.request_timeout_sec", 0, "1 to 3600"),
        ("proxy.upstream_timeout_sec", 3_601, "1 to 3600"),
        ("proxy.max_body_inspect_bytes", 1_023, "1024 to 67108864"),
        ("proxy.max_connections", 0, "1 to 65536"),
        ("proxy.connect.allow_ports[0]", 0, "1 to 65535"),
        ("proxy.connect.allow_ports[0]", 70_000, "1 to 65535"),
        ("browser.cdp", 65_536, "1 to 65535"),
        ("retrieval.max_redirects", 21, "0 to 20"),
        ("retrieval.read_timeout_ms", 0, "1 to 120000"),
        // Not more than all users together.
        ("retrieval.per_user_concurrency", 33, "1 to 32"),
        ("logs.retention_days.requests", 0, "1 to 36500"),
        ("logs.retention_days.system_events", 36_501, "1 to 36500"),
    ] {
        let text = nested(name, &found.to_string());
        let message = load_text(&text, &[]).unwrap_err();
        let end = format!(": `{name}` is `{found}`; expected a number from {expected}");
        assert!(message.ends_with(&end), "{text:?}\n{message}");
    }
    let many = format!("proxy: {{ connect: {{ allow_ports: [{}] }} }}", "80, ".repeat(1_025));
    let end = "`proxy.connect.allow_ports` is `1025 entries`; expected at most 1024";
    assert!(load_text(&many, &[]).unwrap_err().ends_with(end));
}

#[test]
fn rates_are_exact_positive_decimals_of_known_shape() {
    let decimal = "`currency_rates.EUR` is `{}`; expected US dollars for one unit as a decimal…";
    let code = "`currency_rates` names `{}`; expected a currency code other than USD, of three \
                capitals, like `EUR`";
    for (rates, shown, message) in [
        ("EUR: '1.08x'", "1.08x", decimal),
        ("EUR: '-1.08'", "-1.08", decimal),
        ("EUR: -1.08", "-1.08", decimal),
        ("EUR: '1e3'", "1e3", decimal),
        ("EUR: '1,08'", "1,08", decimal),
        ("EUR: ''", "", decimal),
        (
            "EUR: '1.0812345'",
            "1.0812345",
            "`currency_rates.EUR` is `{}`; expected at most six digits after the point…",
        ),
        ("EUR: '0'", "0", "`currency_rates.EUR` is `{}`; expected more than nothing…"),
        ("EUR: '1000000001'", "1000000001", "`currency_rates.EUR` is `{}`; expected at most…"),
        ("eur: '1'", "eur", code),
        ("EURO: '1'", "EURO", code),
        ("USD: '1'", "USD", code),
    ] {
        let text = format!("currency_rates:\n  {rates}\n");
        let found = load_text(&text, &[]).unwrap_err();
        let message = message.replace("{}", shown);
        let (_, found) = found.split_once(": ").unwrap();
        let start = message.strip_suffix('…').unwrap_or(&message);
        assert!(found.starts_with(start), "{text:?}\n{found}");
    }
}

#[test]
fn broken_yaml_names_line_and_column() {
    for (text, message) in [
        ("a: [1\nb: 2", "line 2, column 2: not valid YAML: …"),
        ("a: b: c", "line 1, column 5: not valid YAML: …"),
        ("proxy:\n\tbind: x\n", "line 2, column 2: not valid YAML: tabs …"),
        ("a: *nope", "line 1, column 4: not valid YAML: …"),
        ("data_dir: !path x", "line 1, column 17: not valid YAML: unsupported tag `!path`"),
        ("timezone: UTC\n---\ntimezone: UTC\n", "line 3, column 1: a second document …"),
        ("admin: {}\n\nadmin: {}\n", "line 3, column 1: `admin` is written twice; keep one"),
        ("proxy:\n  bind: a\n  bind: b\n", "line 3, column 3: `bind` is written twice; keep one"),
        ("currency_rates: { EUR: '1', EUR: '2' }", "line 1, column 29: `EUR` is written twice; …"),
        ("ssh_hosts: [{ id: a, id: b }]", "line 1, column 22: `id` is written twice; keep one"),
    ] {
        check(text, &format!("a.yaml {message}"));
    }
}

#[test]
fn small_files_that_grow_large_are_refused() {
    let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x]\n");
    for level in 1..12 {
        let below = format!("*a{}, ", level - 1).repeat(9);
        bomb.push_str(&format!("a{level}: &a{level} [{below}]\n"));
    }
    let deep = format!("a: {}{}", "[".repeat(200), "]".repeat(200));
    let wide = format!("a: [{}]", "1, ".repeat(200_000));
    let cycle = "a: &a [*a]".to_owned();
    for text in [bomb, deep, wide, cycle] {
        let message = load_text(&text, &[]).unwrap_err();
        let end = "too many values, levels or anchors; write it plainly";
        assert!(message.ends_with(end), "{message}");
    }
    check(&"#".repeat((1 << 20) + 1), "a.yaml: larger than 1048576 bytes; is this the right file?");
}

#[test]
fn engines_of_a_later_version_are_refused_with_what_to_use() {
    check(
        "store: postgres://agent@host/db",
        "a.yaml line 1, column 8: `store`: postgres is not available in this version; use sqlite",
    );
    check(
        "counters: redis://host:6379",
        "a.yaml line 1, column 11: `counters`: redis is not available in this version; use memory",
    );
    check(
        "store: sqlite:x",
        "a.yaml line 1, column 8: `store` has a wrong value; expected `sqlite`",
    );
}

#[test]
fn no_message_and_no_debug_output_shows_a_secret() {
    for text in [
        "server: { auth_token: [hunter2] }",
        "server: { auth_token: 'hunter2 with spaces' }",
        "server: { auth_token: { hunter2: hunter2 } }",
        "store: mysql://user:hunter2@host/db",
        "store: postgres://user:hunter2@host/db",
        "counters: redis://:hunter2@host",
        "ssh_hosts: hunter2",
        "ssh_hosts: [hunter2]",
        "server: { auth_token: \"hunter2\\q\" }",
    ] {
        let message = load_text(text, &[]).unwrap_err();
        assert!(!message.contains("hunter2"), "{message}");
    }
    let text = "server: { auth_token: hunter2 }\nssh_hosts: [{ id: a, password: hunter2 }]\n";
    let shown = format!("{:?}", load_text(text, &[]).unwrap());
    assert!(!shown.contains("hunter2"), "{shown}");
}

#[test]
fn every_section_reports_its_problem_in_one_run() {
    let text = "proxy: { bind: x }\nadmin: { bind: y }\ntimezone: z\n";
    let message = load_text(text, &[]).unwrap_err();
    let keys: Vec<_> = message.lines().map(|line| line.split('`').nth(1).unwrap()).collect();
    assert_eq!(keys, ["timezone", "proxy.bind", "admin.bind"]);
}

#[test]
fn variables_are_refused_by_name() {
    for (name, value, message) in [
        ("PROXY__BND", "x", "unknown key `proxy.bnd`; did you mean AGENTGUARD__PROXY__BIND?"),
        (
            "PROXY__BIND__X",
            "x",
            "unknown key `proxy.bind.x`; did you mean AGENTGUARD__PROXY__BIND?",
        ),
        ("QUUX", "x", "unknown key `quux`; see the reference of all keys"),
        ("PROXY", "x", "`proxy` is a section; set one of its keys, like AGENTGUARD__PROXY__…"),
        ("", "x", "no key; write it like AGENTGUARD__PROXY__BIND"),
        ("PROXY____BIND", "x", "no key; write it like AGENTGUARD__PROXY__BIND"),
        ("PROXY__BIND", "{ a: 1 }", "holds a section; a variable sets one value or one list"),
        ("PROXY__BIND", "[a", "not valid YAML: …"),
        ("PROXY__BIND", "nope", "`proxy.bind` is `nope`; expected an IP address …"),
        ("PROXY__MAX_CONNECTIONS", "few", "`proxy.max_connections` is `few`; expected a whole …"),
        ("PROXY__ALLOW_CLIENT_IPS", "", "`proxy.allow_client_ips` is ``; expected a list…"),
        ("CURRENCY_RATES__GBP", "1.27x", "`currency_rates.GBP` is `1.27x`; expected US …"),
    ] {
        let name = format!("AGENTGUARD__{name}");
        check_env("", &[(&name, value)], &format!("variable {name}: {message}"));
    }
    check_env(
        "proxy: 5",
        &[("AGENTGUARD__PROXY__BIND", "127.0.0.1:9000")],
        "a.yaml line 1, column 8: `proxy` is `5`; expected a section, as AGENTGUARD__PROXY__BIND \
         sets a key in it",
    );
}

#[test]
fn pipe_domains_and_actions_are_checked() {
    for (actions, message) in [
        ("{ .example.com: [navgate] }", "`pipe.actions[\".example.com\"][0]` is `navgate`; …"),
        ("{ 1.2.3.4: [click] }", "`pipe.actions` names `1.2.3.4`; expected a host name, …"),
        ("{ A.example: [], a.example: [] }", "`pipe.actions` names `a.example`; expected each …"),
    ] {
        let found = load_text(&format!("pipe: {{ actions: {actions} }}"), &[]).unwrap_err();
        let (_, found) = found.split_once(": ").unwrap();
        assert!(found.starts_with(message.trim_end_matches('…')), "{found}");
    }
}

/// A file that sets this one key; `[0]` makes a list.
fn nested(name: &str, value: &str) -> String {
    let (name, value) = match name.strip_suffix("[0]") {
        Some(name) => (name, format!("[{value}]")),
        None => (name, value.to_owned()),
    };
    let open = name.replace('.', ": { ");
    format!("{open}: {value} {}", "}".repeat(name.matches('.').count()))
}
