//! `logs`, `logs export`, `verify-logs`.

use agentguard_store::open_reader;
use agentguard_testkit::http::Client;
use agentguard_testkit::{GateProcess, process};
use http::Method;

use crate::support::{fails, gate, lines, prepared, says, stdout};

/// Calls that are refused, so that nothing has to be reached.
fn knock(gate: &GateProcess, paths: &[&str]) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let client = Client::new();
        for path in paths {
            let url = format!("http://{}{path}", gate.proxy_addr());
            let answer = client.request(Method::GET, &url, &[], "").await.unwrap();
            assert_eq!(answer.status.as_u16(), 403, "{}", answer.text());
        }
    });
}

#[test]
fn what_agents_did_is_shown_filtered_and_taken_out() {
    let gate = gate();
    assert!(says(&gate, &["logs"]).contains("no rows"));
    knock(&gate, &["/proxy/nothing/a", "/proxy/nothing/b?key=secret"]);

    let shown = says(&gate, &["logs"]);
    assert!(shown.contains("SERVICE_UNKNOWN") && shown.contains("default"), "{shown}");
    assert!(!shown.contains("secret"), "{shown}");
    let rows = gate.cli_json(&["logs", "-n", "1", "--json"]);
    assert_eq!((rows.as_array().unwrap().len(), &rows[0]["decision"]), (1, &"block".into()));
    let none = gate.cli_json(&["logs", "--decision", "allow", "--json"]);
    assert_eq!(none, serde_json::json!([]));
    let own = gate.cli_json(&["logs", "--agent", "default", "--door", "api", "--json"]);
    assert_eq!(own.as_array().unwrap().len(), 2);
    assert_eq!(fails(&gate, &["logs", "--agent", "nobody"]).0, 1);
    assert_eq!(fails(&gate, &["logs", "--decision", "maybe"]).0, 2);

    let exported = lines(&says(&gate, &["logs", "export", "--format", "jsonl"]));
    assert_eq!(exported.len(), 2);
    for column in [
        "id",
        "agent_id",
        "timestamp",
        "door",
        "method",
        "target_url",
        "decision",
        "block_reason",
        "latency_ms",
    ] {
        assert!(exported[0].get(column).is_some(), "{column}");
    }
    let csv = says(&gate, &["logs", "export", "--format", "csv"]);
    assert!(csv.starts_with("seq,id,agent_id,timestamp,"), "{csv}");
    assert_eq!(csv.lines().count(), 3);
    let later = says(&gate, &["logs", "export", "--format", "jsonl", "--from", "2999-01-01"]);
    assert_eq!(later, "");
    let file = gate.folder().join("out.csv");
    let written =
        gate.cli(&["logs", "export", "--format", "csv", "--output", file.to_str().unwrap()]);
    assert!(written.status.success() && stdout(&written).is_empty());
    assert_eq!(std::fs::read_to_string(&file).unwrap(), csv);
    assert_eq!(fails(&gate, &["logs", "export", "--from", "yesterday"]).0, 2);
}

#[test]
fn a_record_is_verified_while_the_gate_runs_and_after() {
    let mut gate = gate();
    knock(&gate, &["/proxy/nothing/a"]);
    let found = gate.cli_json(&["verify-logs", "--json"]);
    assert_eq!((&found["ok"], found.get("first_bad")), (&true.into(), None), "{found}");
    assert!(found["rows"].as_u64().unwrap() >= 2, "{found}");
    assert!(says(&gate, &["verify-logs"]).contains("as they were written"));
    assert_eq!(gate.terminate().code(), Some(0));
    assert_eq!(gate.cli_json(&["verify-logs", "--json"])["ok"], true);
    assert!(says(&gate, &["logs"]).contains("SERVICE_UNKNOWN"), "without a gate too");

    std::fs::write(gate.data_dir().join("checkpoints.jsonl"), "").unwrap();
    let output = gate.cli(&["verify-logs", "--json"]);
    assert_eq!(output.status.code(), Some(1), "{}", process::show(&output));
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(found["ok"], false);
    assert!(found["first_bad"]["why"].is_string() && found["first_bad"]["log"].is_string());
}

#[test]
fn without_a_record_there_is_nothing_to_show_or_verify() {
    let gate = prepared();
    for args in [&["logs"][..], &["logs", "export", "--format", "jsonl"], &["verify-logs"]] {
        let (code, said) = fails(&gate, args);
        assert!(code == 1 && said.contains("error: ") && said.contains("hint: "), "{said}");
    }
    let output = gate.cli(&["verify-logs", "--json"]);
    assert_eq!(output.status.code(), Some(1), "{}", process::show(&output));
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&found["ok"], &found["rows"]), (&false.into(), &0.into()), "{found}");
    assert!(found["error"].as_str().unwrap().contains("agentguard.db"), "{found}");
}

#[test]
fn a_record_that_was_tampered_with_raises_an_alert_at_the_next_start() {
    let mut gate = gate();
    knock(&gate, &["/proxy/nothing/a"]);
    assert_eq!(gate.terminate().code(), Some(0));
    std::fs::write(gate.data_dir().join("checkpoints.jsonl"), "").unwrap();
    gate.launch().unwrap();
    assert_eq!(gate.terminate().code(), Some(0));
    let alerts = open_reader(&gate.data_dir()).unwrap().alerts(10).unwrap();
    let about: Vec<_> = alerts.iter().filter(|a| a.event == "audit.integrity_failed").collect();
    assert!(!about.is_empty(), "{alerts:?}\n{}", gate.output());
    assert!(about.iter().all(|alert| alert.severity == "critical"), "{about:?}");
}

#[test]
fn an_honest_restart_raises_no_alert() {
    let mut gate = gate();
    gate.restart();
    assert_eq!(gate.terminate().code(), Some(0));
    assert_eq!(open_reader(&gate.data_dir()).unwrap().alerts(10).unwrap().len(), 0);
}
