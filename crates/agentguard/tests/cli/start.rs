//! `up`, `init`, `config check`, `doctor`, and starts that must fail.

use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;

use agentguard_store::open_reader;
use agentguard_testkit::{GateConfig, GateProcess, process};
use rustix::process::Signal;

use crate::support::{PROGRAM, fails, gate, lines, prepared, says};

fn mode(path: &std::path::Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn a_first_start_says_its_token_once_and_where_it_listens() {
    let mut gate = gate();
    let said = lines(&gate.stdout());
    assert_eq!((&said[0]["event"], &said[0]["agent"]), (&"first_start".into(), &"default".into()));
    assert!(said[0]["token"].as_str().unwrap().starts_with("ag_live_"));
    assert_eq!(said[1]["event"], "ready");
    assert_eq!(said[1]["proxy"], gate.proxy_addr().to_string());
    assert_eq!(said[1]["admin"], gate.admin_addr().to_string());
    assert_eq!(said.len(), 2);
    assert_eq!(mode(&gate.data_dir()), 0o700);
    assert_eq!(mode(&gate.data_dir().join("admin.token")), 0o600);
    assert!(gate.data_dir().join("agentguard.db").exists());
    let token = std::fs::read_to_string(gate.data_dir().join("admin.token")).unwrap();

    assert_eq!(gate.terminate().code(), Some(0));
    gate.launch().unwrap();
    let said = lines(&gate.stdout());
    assert_eq!(said.len(), 3, "a second start is no first start: {said:?}");
    let agents = gate.cli_json(&["agent", "list", "--json"]);
    assert_eq!(agents.as_array().unwrap().len(), 1);
    assert_eq!(std::fs::read_to_string(gate.data_dir().join("admin.token")).unwrap(), token);
    let secret = said[0]["token"].as_str().unwrap().to_owned();
    assert!(!gate.stderr().contains(&secret) && !gate.stderr().contains(token.trim()));
}

#[test]
fn sigint_ends_it_in_order_and_events_are_recorded() {
    let mut gate = gate();
    gate.signal(Signal::INT);
    let ended = process::poll(std::time::Duration::from_secs(20), || gate.exit_status());
    assert_eq!(ended.and_then(|status| status.code()), Some(0), "{}", gate.output());
}

#[test]
fn a_taken_port_names_its_key_and_exits_2() {
    let held = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = held.local_addr().unwrap();
    let configs = [
        ("proxy.bind", GateConfig::new().proxy_bind(addr)),
        ("admin.bind", GateConfig::new().admin_bind(addr)),
    ];
    for (key, config) in configs {
        let failure = GateProcess::try_start(PROGRAM, config).unwrap_err();
        assert_eq!(failure.status.unwrap().code(), Some(2), "{failure}");
        let expected = format!("error: `{key}`: {addr} is taken");
        assert!(failure.stderr.contains(&expected), "{failure}");
        assert!(failure.stderr.contains("hint: "), "{failure}");
        assert!(!failure.stdout.contains("token"), "a token was shown and lost: {failure}");
    }
}

#[test]
fn a_data_folder_that_is_a_file_exits_2_and_names_the_key() {
    let mut gate = prepared();
    std::fs::write(gate.data_dir(), "in the way").unwrap();
    let failure = gate.launch().unwrap_err();
    assert_eq!(failure.status.unwrap().code(), Some(2), "{failure}");
    assert!(failure.stderr.contains("error: `data_dir`"), "{failure}");
}

#[test]
fn a_second_gate_on_the_same_folder_is_refused() {
    let first = gate();
    let line = format!("data_dir: {:?}", first.data_dir().display().to_string());
    let other = prepared();
    let text = std::fs::read_to_string(other.config_path()).unwrap();
    let own = text.lines().next().unwrap().to_owned();
    std::fs::write(other.config_path(), text.replace(&own, &line)).unwrap();
    let (code, said) = fails(&other, &["up"]);
    assert_eq!(code, 2, "{said}");
    assert!(said.contains("in use by another gate"), "{said}");
}

#[test]
fn a_management_endpoint_off_loopback_is_refused() {
    let config = GateConfig::new().admin_bind("0.0.0.0:0".parse().unwrap());
    let failure = GateProcess::try_start(PROGRAM, config).unwrap_err();
    assert_eq!(failure.status.unwrap().code(), Some(2));
    assert!(failure.stderr.contains("`admin.bind` is 0.0.0.0:0"), "{failure}");
}

#[test]
fn a_broken_configuration_exits_2_for_every_command() {
    let gate = GateProcess::prepare(PROGRAM, GateConfig::new().extra("proxi: {}"));
    for args in [&["up"][..], &["config", "check"], &["agent", "list"], &["kill"], &["logs"]] {
        let (code, said) = fails(&gate, args);
        assert_eq!(code, 2, "{args:?}: {said}");
        assert!(said.contains("error: ") && said.contains("proxi"), "{args:?}: {said}");
    }
}

#[test]
fn a_changed_file_is_taken_over_and_a_broken_one_is_not() {
    let mut gate = gate();
    let path = gate.config_path();
    let good = std::fs::read_to_string(&path).unwrap();
    let wait = |gate: &GateProcess, expected: &str| {
        let limit = std::time::Duration::from_secs(10);
        let seen = process::poll(limit, || gate.stderr().contains(expected).then_some(()));
        assert!(seen.is_some(), "no `{expected}`: {}", gate.output());
    };
    let pounds =
        ["explain", "--url", "/proxy/stripe/v1/charges", "--amount", "1", "--currency", "GBP"];
    assert_eq!(gate.cli(&pounds).status.code(), Some(1), "there is no rate yet");
    let rates = "currency_rates: { GBP: \"1.27\" }\ntimezone: Europe/Berlin\n";
    std::fs::write(&path, format!("{good}{rates}")).unwrap();
    wait(&gate, "the configuration was taken over");
    wait(&gate, "hold after a restart");
    assert_eq!(gate.cli(&pounds).status.code(), Some(0), "{}", gate.output());
    std::fs::write(&path, format!("{good}nonsense: 1\n")).unwrap();
    wait(&gate, "the running one stays");
    let verdict = gate.cli(&["explain", "--url", "/proxy/stripe/v1/charges"]);
    assert_eq!(verdict.status.code(), Some(2), "the command line reads the broken file too");
    std::fs::write(&path, &good).unwrap();
    gate.signal(Signal::HUP);
    let ready = gate.cli_json(&["spend", "--json"]);
    assert!(ready["day"].is_object());
    assert_eq!(gate.terminate().code(), Some(0));
}

#[test]
fn a_reload_is_on_the_record_with_before_and_after_and_without_secrets() {
    let mut gate = gate();
    let path = gate.config_path();
    let good = std::fs::read_to_string(&path).unwrap();
    let more = "currency_rates: { GBP: \"1.27\" }\ntimezone: Europe/Berlin\n";
    let secret = "  auth_token: ag_live_0123456789abcdef0123456789abcdef\n";
    // `server` is the last section of the file.
    std::fs::write(&path, format!("{good}{secret}  log_level: debug\n{more}")).unwrap();
    gate.signal(Signal::HUP);
    let limit = std::time::Duration::from_secs(10);
    let taken = || gate.stderr().contains("hold after a restart").then_some(());
    assert!(process::poll(limit, taken).is_some(), "{}", gate.output());
    assert_eq!(gate.terminate().code(), Some(0));

    let rows = open_reader(&gate.data_dir()).unwrap().config_changes(0, 100).unwrap();
    let rows: Vec<_> = rows.iter().filter(|row| row.action == "config.reload").collect();
    assert_eq!(rows.len(), 1, "{rows:?}");
    let read = |side: &Option<Box<serde_json::value::RawValue>>| -> serde_json::Value {
        serde_json::from_str(side.as_ref().unwrap().get()).unwrap()
    };
    let (before, after) = (read(&rows[0].before), read(&rows[0].after));
    assert_eq!((rows[0].actor.as_str(), &after["server.log_level"]), ("file", &"debug".into()));
    assert_eq!(before["server.log_level"], "info");
    assert_eq!(after["currency_rates"]["GBP"], "1.27");
    assert!(before["currency_rates"].get("GBP").is_none(), "{before}");
    assert_eq!((&before["timezone"], &after["timezone"]), (&"UTC".into(), &"Europe/Berlin".into()));
    assert_eq!(after["server.auth_token"], "***");
    assert_eq!(after["needs_restart"], serde_json::json!(["timezone", "server.auth_token"]));
    assert_eq!(before.as_object().unwrap().len(), 4, "only what changed: {before}");
    assert!(!format!("{rows:?}").contains("0123456789abcdef"), "{rows:?}");
    assert_eq!(gate.cli(&["verify-logs"]).status.code(), Some(0));
}

#[test]
fn every_file_that_a_gate_makes_is_private() {
    let outside = tempfile::tempdir().unwrap();
    let file = outside.path().join("checkpoints.jsonl");
    let config = format!("audit: {{ checkpoint_file: {:?} }}", file.display().to_string());
    let gate = GateProcess::start(PROGRAM, GateConfig::new().extra(&config));
    gate.cli_json(&["agent", "add", "second", "--json"]);
    let mut folders = vec![gate.data_dir()];
    let mut seen = vec![file];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap().flatten() {
            seen.push(entry.path());
            if entry.path().is_dir() {
                folders.push(entry.path());
            }
        }
    }
    assert!(seen.len() > 5, "{seen:?}");
    for path in seen {
        assert_eq!(mode(&path) & 0o077, 0, "{}", path.display());
    }
}

#[test]
fn init_writes_a_valid_file_and_does_not_overwrite() {
    let gate = prepared();
    let path = gate.folder().join("new.yaml");
    let shown = path.to_str().unwrap();
    assert!(says(&gate, &["init", shown]).contains("wrote"));
    assert_eq!(mode(&path), 0o600);
    let (code, said) = fails(&gate, &["init", shown]);
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("is there already") && said.contains("hint: --force"), "{said}");
    assert_eq!(gate.cli_json(&["init", "--force", shown, "--json"])["path"], shown);
    let mut check = std::process::Command::new(PROGRAM);
    check.args(["config", "check", "--json", "--config", shown]).env("HOME", gate.folder());
    let output = process::run(check, std::time::Duration::from_secs(20));
    assert!(output.status.success(), "{}", process::show(&output));
}

#[test]
fn config_check_reports_where_it_looked() {
    let gate = prepared();
    assert!(says(&gate, &["config", "check"]).contains("is valid"));
    let checked = gate.cli_json(&["config", "check", "--json"]);
    assert_eq!(
        (&checked["ok"], &checked["file"]),
        (&true.into(), &gate.config_path().to_str().into())
    );
    assert!(says(&gate, &["config", "schema"]).contains("\"$schema\""));
    assert!(says(&gate, &["config", "reference"]).contains("# Configuration"));
}

#[test]
fn doctor_tells_a_healthy_gate_from_a_sick_one() {
    let mut gate = gate();
    let said = says(&gate, &["doctor"]);
    for line in ["config", "data folder", "store", "clock", "disk", "gate"] {
        assert!(said.lines().any(|found| found.contains(line)), "no `{line}` in:\n{said}");
    }
    assert!(!said.contains("fail"), "{said}");
    let checks = gate.cli_json(&["doctor", "--json"]);
    assert_eq!(checks["ok"], true, "{checks}");
    assert_eq!(gate.terminate().code(), Some(0));
    assert_eq!(gate.cli(&["doctor"]).status.code(), Some(0), "{}", gate.output());

    std::fs::write(
        gate.data_dir().join("agentguard.db"),
        "this is no database at all, but long enough",
    )
    .unwrap();
    let output = gate.cli(&["doctor", "--json"]);
    assert_eq!(output.status.code(), Some(1), "{}", process::show(&output));
    let checks: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let failed =
        checks["checks"].as_array().unwrap().iter().find(|c| c["result"] == "fail").unwrap();
    assert!(failed["what"].as_str().unwrap().contains("store"), "{checks}");
    assert!(!failed["todo"].as_str().unwrap().is_empty(), "{checks}");
}
