//! `kill`, `resume`, `explain`, `spend`, help, completions, man pages.

use std::time::Duration;

use agentguard_testkit::process;

use crate::support::{PROGRAM, fails, gate, prepared, says, stdout};

#[test]
fn kill_stops_survives_a_restart_and_resume_needs_a_yes() {
    let mut gate = gate();
    let state = gate.cli_json(&["kill", "--reason", "test", "--json"]);
    assert_eq!((&state["paused"], &state["scope"]), (&true.into(), &"global".into()));
    assert_eq!((&state["reason"], &state["paused_by"]), (&"test".into(), &"user".into()));
    let verdict = gate.cli(&["explain", "--url", "/proxy/openai/v1/models", "--json"]);
    assert_eq!(verdict.status.code(), Some(1));
    assert!(stdout(&verdict).contains("KILL_SWITCH_GLOBAL"));

    gate.restart();
    let verdict = gate.cli(&["explain", "--url", "/proxy/openai/v1/models", "--json"]);
    assert!(stdout(&verdict).contains("KILL_SWITCH_GLOBAL"), "{}", process::show(&verdict));
    let (code, said) = fails(&gate, &["resume"]);
    assert!(code == 2 && said.contains("hint: add --yes"), "{said}");
    assert_eq!(gate.cli_json(&["resume", "--yes", "--json"])["paused"], false);
    assert_eq!(gate.cli(&["explain", "--url", "/proxy/openai/v1/models"]).status.code(), Some(0));

    let one = gate.cli_json(&["kill", "--agent", "default", "--json"]);
    assert_eq!((&one["scope"], &one["agent"]), (&"agent".into(), &"default".into()));
    assert!(says(&gate, &["agent", "list"]).contains("paused"));
    assert!(says(&gate, &["resume", "--agent", "default", "--yes"]).contains("may act again"));
    assert!(says(&gate, &["kill"]).contains("agentguard resume"));
    assert_eq!(fails(&gate, &["kill", "--agent", "nobody"]).0, 1);
}

#[test]
fn resuming_one_agent_says_that_everything_is_still_stopped() {
    let gate = gate();
    gate.cli_json(&["kill", "--json"]);
    gate.cli_json(&["kill", "--agent", "default", "--json"]);
    for args in
        [&["resume", "--agent", "default", "--yes"][..], &["agent", "resume", "default", "--yes"]]
    {
        let output = gate.cli(args);
        assert!(output.status.success(), "{}", process::show(&output));
        assert!(!stdout(&output).contains("may act again"), "{}", process::show(&output));
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("warning: the global switch is still on"), "{said}");
    }
    let state = gate.cli_json(&["resume", "--agent", "default", "--yes", "--json"]);
    assert_eq!(state["paused"], false);
    gate.cli_json(&["resume", "--yes", "--json"]);
    assert!(says(&gate, &["resume", "--agent", "default", "--yes"]).contains("may act again"));
}

#[test]
fn a_revoked_agent_is_not_resumed() {
    let gate = gate();
    gate.cli_json(&["agent", "add", "gone", "--json"]);
    gate.cli_json(&["agent", "revoke", "gone", "--yes", "--json"]);
    for args in [&["resume", "--agent", "gone", "--yes"][..], &["agent", "resume", "gone", "--yes"]]
    {
        let (code, said) = fails(&gate, args);
        assert!(code == 1 && said.contains("error: agent `gone` was revoked"), "{code} {said}");
    }
}

#[test]
fn explain_gives_the_verdict_and_every_rule() {
    let gate = gate();
    let base = ["explain", "--door", "api", "--agent", "default", "--method", "POST"];
    let stripe = ["--url", "https://api.stripe.com/v1/charges", "--json"];
    let asked = |amount: &str| {
        let output = gate.cli(&[&base[..], &stripe, &["--amount", amount]].concat());
        let verdict: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        (output.status.code().unwrap(), verdict)
    };
    let (code, verdict) = asked("3.00");
    assert_eq!(
        (code, &verdict["verdict"], &verdict["service"]),
        (0, &"allow".into(), &"stripe".into())
    );
    assert_eq!(verdict["rules"].as_array().unwrap().len(), 9);
    let (code, verdict) = asked("6.00");
    assert_eq!((code, &verdict["code"]), (1, &"PER_CALL_LIMIT_EXCEEDED".into()));
    let human =
        gate.cli(&[&base[..], &["--url", "/proxy/stripe/v1/charges", "--amount", "6"]].concat());
    assert!(stdout(&human).starts_with("block: PER_CALL_LIMIT_EXCEEDED"), "{}", stdout(&human));
    let euros = [&base[..], &stripe, &["--amount", "1", "--currency", "XYZ"]].concat();
    assert!(stdout(&gate.cli(&euros)).contains("CURRENCY_UNKNOWN"));
    let metadata = gate.cli(&["explain", "--url", "http://169.254.169.254/latest", "--json"]);
    assert!(stdout(&metadata).contains("DESTINATION_BLOCKED"), "{}", stdout(&metadata));
    let (code, said) = fails(&gate, &["explain", "--url", "/proxy/openai/", "--amount", "1,5"]);
    assert!(code == 2 && said.contains("parameter `amount`"), "{said}");
    let (code, said) = fails(&gate, &["explain", "--url", "/proxy/openai/../x"]);
    assert!(code == 2 && said.contains("without `.` or `..` segments"), "{said}");
    let foreign = gate.cli(&["explain", "--url", "https://elsewhere.example/x"]);
    assert!(stdout(&foreign).contains("SERVICE_UNKNOWN"), "{}", stdout(&foreign));
}

#[test]
fn spend_has_the_form_that_others_rely_on() {
    let gate = gate();
    let expected = serde_json::json!({"used": "0.00", "reserved": "0.00", "limit": "10.00"});
    let spent = gate.cli_json(&["spend", "--json"]);
    assert_eq!(spent["day"], expected);
    assert_eq!(spent["month"]["used"], "0.00");
    assert_eq!(gate.cli_json(&["spend", "--agent", "default", "--json"])["day"], expected);
    assert!(says(&gate, &["spend"]).contains("10.00"));
    assert_eq!(fails(&gate, &["spend", "--agent", "nobody"]).0, 1);
}

#[test]
fn the_configuration_is_taken_before_and_after_the_command() {
    let gate = gate();
    let config = gate.config_path();
    let config = config.to_str().unwrap();
    for args in [
        ["--config", config, "agent", "list", "--json"],
        ["--json", "agent", "--config", config, "list"],
    ] {
        let mut command = std::process::Command::new(PROGRAM);
        command.args(args);
        let output = process::run(command, Duration::from_secs(20));
        assert!(output.status.success(), "{args:?}: {}", process::show(&output));
        assert!(stdout(&output).starts_with('['));
    }
}

#[test]
fn every_command_has_help_with_an_example() {
    let gate = prepared();
    let commands = [
        &["up"][..],
        &["init"],
        &["config", "check"],
        &["doctor"],
        &["agent", "add"],
        &["agent", "list"],
        &["agent", "show"],
        &["agent", "pause"],
        &["agent", "resume"],
        &["agent", "revoke"],
        &["agent", "rotate"],
        &["rule", "add"],
        &["rule", "list"],
        &["rule", "remove"],
        &["rule", "clear"],
        &["rule-set", "add"],
        &["service", "set"],
        &["service", "list"],
        &["service", "remove"],
        &["kill"],
        &["resume"],
        &["explain"],
        &["spend"],
        &["logs"],
        &["logs", "export"],
        &["verify-logs"],
        &["policy", "export"],
        &["policy", "import"],
        &["completions"],
        &["man"],
    ];
    for command in commands {
        let help = says(&gate, &[command, &["--help"]].concat());
        assert!(help.contains("Example") && help.contains("--config"), "{command:?}: {help}");
        assert!(!help.contains('\u{1b}'), "colour without a terminal: {command:?}");
    }
}

#[test]
fn wrong_usage_exits_2_and_says_why_on_stderr() {
    let gate = prepared();
    for args in [&["nonsense"][..], &["agent"], &["agent", "add"], &["kill", "--nonsense"], &[]] {
        let output = gate.cli(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", process::show(&output));
        assert!(output.stdout.is_empty() && !output.stderr.is_empty(), "{args:?}");
    }
}

#[test]
fn completions_and_manual_pages_are_made() {
    let gate = prepared();
    for shell in ["bash", "zsh", "fish"] {
        assert!(says(&gate, &["completions", shell]).contains("verify-logs"), "{shell}");
    }
    assert!(says(&gate, &["man"]).contains(".TH agentguard"));
    let dir = gate.folder().join("man1");
    says(&gate, &["man", "--dir", dir.to_str().unwrap()]);
    assert!(dir.join("agentguard-rule-add.1").exists());
}
