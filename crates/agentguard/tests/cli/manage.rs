//! `agent`, `rule`, `rule-set`, `service`, `policy`.

use crate::support::{fails, gate, prepared, says};

#[test]
fn an_agent_lives_its_life() {
    let gate = gate();
    let added = gate.cli_json(&["agent", "add", "ads-bot", "--description", "ads", "--json"]);
    let token = added["token"].as_str().unwrap();
    assert!(token.starts_with("ag_live_") && token.len() == 40);
    assert_eq!((&added["name"], added["id"].as_str().unwrap().len()), (&"ads-bot".into(), 36));
    assert!(!says(&gate, &["agent", "list"]).contains(token));
    let shown = gate.cli_json(&["agent", "show", "ads-bot", "--json"]);
    assert_eq!((&shown["description"], &shown["status"]), (&"ads".into(), &"active".into()));

    let rotated = gate.cli_json(&["agent", "rotate", "ads-bot", "--json"]);
    assert_ne!(rotated["token"], added["token"]);
    let paused = gate.cli_json(&["agent", "pause", "ads-bot", "--reason", "odd", "--json"]);
    assert_eq!(paused["status"], "paused");
    let (code, said) = fails(&gate, &["agent", "resume", "ads-bot"]);
    assert!(code == 2 && said.contains("hint: add --yes"), "{said}");
    let resumed = gate.cli_json(&["agent", "resume", "ads-bot", "--yes", "--json"]);
    assert_eq!(resumed["status"], "active");
    assert_eq!(fails(&gate, &["agent", "revoke", "ads-bot"]).0, 2);
    assert_eq!(
        gate.cli_json(&["agent", "revoke", "ads-bot", "--yes", "--json"])["status"],
        "revoked"
    );

    let human = says(&gate, &["agent", "add", "second"]);
    assert!(human.contains("ag_live_") && human.contains("not shown again"), "{human}");
    let (code, said) = fails(&gate, &["agent", "add", "second"]);
    assert_eq!((code, said.trim()), (1, "error: agent `second` exists already"));
    let (code, said) = fails(&gate, &["agent", "add", "no spaces"]);
    assert!(code == 2 && said.contains("parameter `name`"), "{said}");
    let (code, said) = fails(&gate, &["agent", "add", "third", "--rule-set", "none"]);
    assert!(code == 1 && said.contains("no rule set `none`"), "{said}");
    let (code, said) = fails(&gate, &["agent", "show", "nobody"]);
    assert!(code == 1 && said.contains("error: no agent `nobody`") && said.contains("hint: "));
}

#[test]
fn rules_are_added_listed_removed_and_cleared() {
    let gate = gate();
    let args =
        ["rule", "add", "--type", "daily_budget", "--param", "limit=1.00", "--action", "block"];
    let mut json = args.to_vec();
    json.extend(["--door", "api", "--rule-set", "default", "--priority", "-5", "--json"]);
    let rule = gate.cli_json(&json);
    assert_eq!((&rule["type"], &rule["params"]["limit"]), (&"daily_budget".into(), &"1.00".into()));
    assert_eq!((&rule["doors"][0], &rule["priority"]), (&"api".into(), &(-5).into()));
    assert!(says(&gate, &["rule", "list"]).contains("limit=1.00"));
    let all = gate.cli_json(&["rule", "list", "--json"]);
    assert!(all.as_array().unwrap().iter().any(|found| found["id"] == rule["id"]));
    let removed = gate.cli_json(&["rule", "remove", rule["id"].as_str().unwrap(), "--json"]);
    assert_eq!(removed["id"], rule["id"]);
    assert_eq!(fails(&gate, &["rule", "remove", rule["id"].as_str().unwrap()]).0, 1);

    let off = gate.cli_json(&["rule", "add", "--type", "unknown_domain", "--disabled", "--json"]);
    assert_eq!((&off["enabled"], &off["action"]), (&false.into(), &"alert".into()));
    let list =
        ["rule", "add", "--type", "domain_whitelist", "--param", "domains=a.example,*.b.example"];
    let listed = gate.cli_json(&[&list[..], &["--json"]].concat());
    assert_eq!(listed["params"]["domains"], "a.example,*.b.example");
    let cleared = gate.cli_json(&["rule", "clear", "--json"]);
    assert!(cleared["removed"].as_u64().unwrap() >= 9, "{cleared}");
    assert_eq!(gate.cli_json(&["rule", "list", "--json"]), serde_json::json!([]));
}

#[test]
fn a_new_limit_above_one_that_holds_names_the_lower_one() {
    let gate = gate();
    let rules = gate.cli_json(&["rule", "list", "--json"]);
    let id_of = |kind: &str| {
        let found = rules.as_array().unwrap().iter().find(|rule| rule["type"] == kind).unwrap();
        found["id"].as_str().unwrap().to_owned()
    };
    let add = |kind: &str, more: &[&str]| {
        let output =
            gate.cli(&[&["rule", "add", "--type", kind, "--json", "--param"], more].concat());
        assert!(output.status.success(), "{}", agentguard_testkit::process::show(&output));
        String::from_utf8(output.stderr).unwrap()
    };
    let said = add("daily_budget", &["limit=50.00"]);
    assert!(said.contains("hint: ") && said.contains("10.00"), "{said}");
    assert!(said.contains(&format!("agentguard rule remove {}", id_of("daily_budget"))), "{said}");
    let said = add("per_call_limit", &["limit=7.00"]);
    assert!(said.contains(&id_of("per_call_limit")), "{said}");
    assert_eq!(add("daily_budget", &["limit=2.00"]), "");
    assert_eq!(add("daily_budget", &["limit=60.00", "--disabled"]), "");
    assert_eq!(add("monthly_budget", &["limit=900.00"]), "", "there was none");
    assert!(add("monthly_budget", &["limit=901.00"]).contains("900.00"));
}

#[test]
fn wrong_parameters_name_the_field_and_exit_2() {
    let gate = gate();
    let cases = [
        (&["--type", "daily_budget"][..], "parameter `limit`: is missing"),
        (&["--type", "daily_budget", "--param", "limit=-1"], "parameter `limit`"),
        (
            &["--type", "daily_budget", "--param", "limit=1", "--param", "limt=2"],
            "parameter `limt`",
        ),
        (
            &["--type", "daily_budget", "--param", "limit=1", "--param", "limit=2"],
            "parameter `limit`",
        ),
        (&["--type", "rate_limit_per_minute", "--param", "max=0"], "parameter `max`"),
        (&["--type", "time_window_block", "--param", "start=25:00"], "parameter `start`"),
        (&["--type", "daily_budget", "--param", "limit"], "KEY=VALUE"),
        (&["--type", "daily_bugdet", "--param", "limit=1"], "daily_bugdet"),
        (&["--type", "daily_budget", "--param", "limit=1", "--action", "allow"], "--action"),
        (&["--type", "daily_budget", "--param", "limit=1", "--door", "window"], "--door"),
        (&["--type", "domain_blacklist", "--param", "domains=[1"], "parameter `domains`"),
    ];
    for (args, expected) in cases {
        let (code, said) = fails(&gate, &[&["rule", "add"], args].concat());
        assert_eq!(code, 2, "{args:?}: {said}");
        assert!(said.contains("error: ") && said.contains(expected), "{args:?}: {said}");
    }
}

#[test]
fn services_are_set_changed_listed_and_removed() {
    let gate = gate();
    let set = ["service", "set", "local", "--base-url", "http://127.0.0.1:9", "--allow-private"];
    let made = gate.cli_json(&[&set[..], &["--kind", "openai", "--json"]].concat());
    assert_eq!((&made["kind"], &made["allow_private"]), (&"openai".into(), &true.into()));
    let changed = gate.cli_json(&["service", "set", "local", "--timeout-sec", "7", "--json"]);
    assert_eq!(
        (&changed["timeout_sec"], &changed["base_url"]),
        (&7.into(), &"http://127.0.0.1:9/".into())
    );
    let closed = gate.cli_json(&["service", "set", "local", "--allow-private=false", "--json"]);
    assert_eq!(closed["allow_private"], false);
    let sockets = gate.cli_json(&["service", "set", "local", "--allow-websocket", "--json"]);
    assert_eq!(sockets["allow_websocket"], true);
    assert!(says(&gate, &["service", "list"]).contains("allow_websocket"));
    let insecure = gate.cli(&["service", "set", "local", "--insecure-skip-tls-verify", "--json"]);
    assert!(String::from_utf8_lossy(&insecure.stderr).contains("warning: "));
    let moved =
        gate.cli_json(&["service", "set", "stripe", "--base-url", "http://127.0.0.1:8", "--json"]);
    assert_eq!(moved["kind"], "stripe", "a built-in keeps its kind");
    assert!(says(&gate, &["service", "list"]).contains("http://127.0.0.1:8/"));
    assert_eq!(gate.cli_json(&["service", "list", "--json"]).as_array().unwrap().len(), 5);
    assert_eq!(gate.cli_json(&["service", "remove", "local", "--json"])["alias"], "local");

    let (code, said) = fails(&gate, &["service", "set", "fresh"]);
    assert!(code == 2 && said.contains("parameter `base_url`"), "{said}");
    let (code, said) = fails(&gate, &["service", "set", "fresh", "--base-url", "nonsense"]);
    assert!(code == 2 && said.contains("parameter `base_url`"), "{said}");
    let (code, said) = fails(&gate, &["service", "set", "stripe", "--ca-file", "none.pem"]);
    assert!(code == 2 && said.contains("parameter `ca_file`"), "{said}");
    assert_eq!(fails(&gate, &["service", "set", "x", "--kind", "odd"]).0, 2);
    assert_eq!(fails(&gate, &["service", "remove", "local"]).0, 1);
}

#[test]
fn a_policy_goes_out_and_comes_back_in() {
    let gate = gate();
    let file = gate.folder().join("policy.yaml");
    let shown = file.to_str().unwrap();
    says(&gate, &["policy", "export", shown]);
    let yaml = std::fs::read_to_string(&file).unwrap();
    assert!(yaml.contains("daily_budget") && !yaml.contains("ag_live_"), "{yaml}");
    assert_eq!(says(&gate, &["policy", "export"]).trim_end(), yaml.trim_end());
    let before = gate.cli_json(&["policy", "export", "--json"]);
    gate.cli_json(&["policy", "import", shown, "--json"]);
    assert_eq!(gate.cli_json(&["policy", "export", "--json"]), before);

    let wider = "version: 1\nrule_sets:\n- name: default\n  rules:\n  - type: per_call_limit\n    params: {limit: 2.5}\nservices: []\nagents:\n- {name: default, rule_set: default}\n- {name: new, rule_set: default}\n";
    std::fs::write(&file, wider).unwrap();
    let dry = gate.cli_json(&["policy", "import", shown, "--dry-run", "--json"]);
    assert_eq!((&dry["dry_run"], &dry["agents_added"][0]["name"]), (&true.into(), &"new".into()));
    assert_eq!(gate.cli_json(&["policy", "export", "--json"]), before);
    let done = gate.cli_json(&["policy", "import", shown, "--json"]);
    assert!(done["agents_added"][0]["token"].as_str().unwrap().starts_with("ag_live_"));
    assert_eq!(
        gate.cli_json(&["rule", "list", "--json"])[0]["params"]["limit"],
        serde_json::json!(2.5)
    );

    for (text, expected) in [
        ("version: 1\nrule_sts: []\n", "rule_sts"),
        ("version: 7\n", "version: 7"),
        ("version: 1\nrule_sets: []\n", "`default` is missing"),
        ("{", "policy.yaml"),
    ] {
        std::fs::write(&file, text).unwrap();
        let (code, said) = fails(&gate, &["policy", "import", shown]);
        assert!(code == 2 && said.contains(expected), "{text}: {said}");
    }
}

#[test]
fn rule_sets_are_copied_and_used() {
    let gate = gate();
    let set = gate.cli_json(&["rule-set", "add", "strict", "--copy-from", "default", "--json"]);
    assert_eq!((&set["name"], &set["rules"]), (&"strict".into(), &9.into()));
    gate.cli_json(&["agent", "add", "careful", "--rule-set", "strict", "--json"]);
    assert!(says(&gate, &["rule-set", "list"]).contains("careful"));
    let rules = gate.cli_json(&["rule", "list", "--rule-set", "strict", "--json"]);
    assert_eq!(rules.as_array().unwrap().len(), 9);
}

#[test]
fn without_a_gate_commands_say_so_in_one_line_and_exit_1() {
    let gate = prepared();
    for args in [
        &["agent", "list"][..],
        &["agent", "add", "a"],
        &["rule", "list"],
        &["service", "list"],
        &["kill"],
        &["resume", "--yes"],
        &["spend", "--json"],
        &["policy", "export"],
        &["explain", "--url", "/proxy/openai/"],
    ] {
        let (code, said) = fails(&gate, args);
        assert_eq!(code, 1, "{args:?}: {said}");
        let expected = format!("error: no gate is running at {}\nhint: ", gate.admin_addr());
        assert!(said.starts_with(&expected) && said.contains("agentguard up"), "{args:?}: {said}");
        assert_eq!(said.lines().count(), 2, "{said}");
    }
}
