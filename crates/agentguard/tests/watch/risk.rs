//! Each risk rule on real calls: once where it only tells, once where it refuses or stops the agent.

use std::path::Path;
use std::time::Duration;

use agentguard_testkit::{GateConfig, GateProcess, Upstream, process};
use serde_json::{Value, json};

use crate::support::{Scene, code, request_id};

/// The call went through, and was told about: as this event, by its id.
fn check_told(scene: &Scene, id: &str, event: &str, words: &str) -> Value {
    let alerts = scene.alerts();
    let told =
        alerts.iter().find(|(row, details)| row.event == event && details["request_id"] == id);
    let Some((row, details)) = told else { panic!("no {event} for {id}: {alerts:?}") };
    assert!(row.message.contains(words), "{}", row.message);
    assert_eq!(row.agent_name.as_deref(), Some("default"));
    details.clone()
}

fn row_of(scene: &Scene, id: &str) -> Value {
    let rows = scene.rows();
    rows.iter().find(|row| row["id"] == id).unwrap_or_else(|| panic!("{id}: {rows:?}")).clone()
}

/// The one agent, stopped by this.
fn check_paused(scene: &Scene, by: &str) {
    let agents = scene.gate.cli_json(&["agent", "list", "--json"]);
    assert_eq!(agents[0]["status"], "paused", "{agents}");
    let alerts = scene.alerts();
    let paused = alerts.iter().find(|(row, _)| row.event == "agent.auto_paused");
    assert_eq!(paused.map(|(_, details)| &details["paused_by"]), Some(&json!(by)), "{alerts:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_amount_far_above_the_usual_is_told_or_refused() {
    let scene = Scene::new(GateConfig::new()).await;
    for _ in 0..3 {
        assert_eq!(scene.pay(200).await.status.as_u16(), 200);
    }
    scene.rule("amount_spike", "alert", &["min_samples=3", "factor=5"]);
    let at_the_line = scene.pay(1_000).await;
    assert_eq!(at_the_line.status.as_u16(), 200);
    assert_eq!(scene.alerts().len(), 0, "five times the usual is not above it");
    // The average is 4.00 by now.
    let above = scene.pay(2_001).await;
    assert_eq!(above.status.as_u16(), 200);
    let id = request_id(&above);
    check_told(&scene, &id, "risk.amount.spike", "20.01 USD is far above the usual 4.00 USD");
    let risk = &row_of(&scene, &id)["risk"];
    assert_eq!(
        (&risk["recommendation"], &risk["factors"][0]["type"]),
        (&json!("alert"), &json!("amount_spike"))
    );

    scene.gate.cli_json(&["rule", "clear", "--json"]);
    scene.rule("amount_spike", "block", &["min_samples=3", "factor=5"]);
    let taken = scene.upstream.takings().len();
    for _ in 0..5 {
        let refused = scene.pay(20_000).await;
        assert_eq!(code(&refused), "RISK_AMOUNT_SPIKE");
        let row = row_of(&scene, &request_id(&refused));
        assert_eq!(row["block_reason"], "RISK_AMOUNT_SPIKE");
        assert_eq!(row["risk"]["recommendation"], "block");
    }
    assert_eq!(scene.upstream.takings().len(), taken, "nothing left");
    check_paused(&scene, "auto_risk");
    assert_eq!(code(&scene.pay(1).await), "KILL_SWITCH_AGENT");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn payments_and_model_calls_are_each_compared_with_their_own() {
    let mut scene = Scene::new(GateConfig::new()).await;
    scene.gate.serve("openai", "openai", &scene.upstream);
    scene.rule("amount_spike", "alert_and_block", &[]);
    for _ in 0..25 {
        assert_eq!(scene.ask(10).await.status.as_u16(), 200);
    }
    for _ in 0..10 {
        let paid = scene.pay(100).await;
        assert_eq!(paid.status.as_u16(), 200, "{}", paid.text());
    }
    assert_eq!(scene.alerts().len(), 0);
    let check_payments = async |scene: &Scene| {
        let refused = scene.pay(10_000).await;
        assert_eq!(code(&refused), "RISK_AMOUNT_SPIKE");
        assert!(refused.text().contains("the usual 1.00 USD"), "{}", refused.text());
        assert_eq!(scene.pay(100).await.status.as_u16(), 200);
    };
    check_payments(&scene).await;

    // The record knows both apart.
    assert!(scene.gate.terminate().success());
    scene.gate.launch().unwrap();
    let dear = scene.ask(5_000).await;
    assert_eq!(dear.status.as_u16(), 200, "beside the payments it is nothing: {}", dear.text());
    let words = "0.003002 USD is far above the usual 0.000008 USD";
    check_told(&scene, &request_id(&dear), "risk.amount.spike", words);
    check_payments(&scene).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_far_faster_than_usual_are_told_or_refused() {
    for (action, expected) in [("alert", 200), ("block", 403)] {
        let mut scene = Scene::new(GateConfig::new()).await;
        scene.get("plain", "/echo").await;
        scene.rule("frequency_spike", action, &["min_per_minute=3", "factor=2"]);
        // Two hours of one call a minute, yesterday: thirty minutes must have been seen.
        assert!(scene.gate.terminate().success());
        sqlite(
            &scene.gate.data_dir(),
            "INSERT INTO budget_snapshots SELECT hour_start - 86400000000, agent_id, door, 60, 60, 0, 0, 0, 60, 0, 0 FROM budget_snapshots LIMIT 1",
        );
        scene.gate.launch().unwrap();
        for _ in 0..3 {
            assert_eq!(scene.get("plain", "/echo").await.status.as_u16(), 200, "up to the minimum");
        }
        let fourth = scene.get("plain", "/echo").await;
        assert_eq!(fourth.status.as_u16(), expected);
        let id = request_id(&fourth);
        let row = row_of(&scene, &id);
        assert_eq!(row["risk"]["factors"][0]["type"], "frequency_spike", "{row}");
        if expected == 200 {
            check_told(&scene, &id, "risk.anomaly.detected", "4 calls");
        } else {
            assert_eq!(code(&fourth), "RISK_FREQUENCY_SPIKE");
            assert_eq!(row["block_reason"], "RISK_FREQUENCY_SPIKE");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_that_nobody_named_is_told_or_refused() {
    // At this door every call goes to a service, and its host is known by that: no call can show it.
    // What the running gate would say to one is asked instead; `gate` tests what comes of it.
    let scene = Scene::new(GateConfig::new()).await;
    scene.rule("unknown_domain", "alert", &[]);
    assert_eq!(scene.get("plain", "/echo").await.status.as_u16(), 200);
    assert_eq!(scene.alerts().len(), 0, "a service's host is known");
    let asked = || {
        let url = "https://elsewhere.example/";
        let output = scene.gate.cli(&["explain", "--door", "web", "--url", url, "--json"]);
        serde_json::from_slice::<Value>(&output.stdout).unwrap()
    };
    let told = asked();
    assert_eq!(told["verdict"], "allow", "{told}");
    assert_eq!(told["risk"]["recommendation"], "alert", "{told}");
    assert_eq!(told["risk"]["factors"][0]["type"], "unknown_domain", "{told}");

    scene.rule("unknown_domain", "block", &[]);
    let told = asked();
    assert_eq!(told["code"], "RISK_UNKNOWN_DOMAIN", "{told}");
    assert_eq!(scene.get("plain", "/echo").await.status.as_u16(), 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn much_money_at_night_is_told_or_refused() {
    let scene = Scene::new(GateConfig::new()).await;
    // All day, so that the test does not depend on when it runs.
    let night = ["threshold=2.00", "start=00:00", "end=24:00"];
    scene.rule("night_amount", "alert", &night);
    assert_eq!(scene.pay(200).await.status.as_u16(), 200);
    assert_eq!(scene.alerts().len(), 0);
    let above = scene.pay(201).await;
    assert_eq!(above.status.as_u16(), 200);
    check_told(&scene, &request_id(&above), "risk.anomaly.detected", "2.01 USD at night");

    scene.rule("night_amount", "block", &night);
    let refused = scene.pay(201).await;
    assert_eq!(code(&refused), "RISK_NIGHT_AMOUNT");
    assert_eq!(row_of(&scene, &request_id(&refused))["block_reason"], "RISK_NIGHT_AMOUNT");
    assert_eq!(scene.upstream.takings().len(), 2);
    assert_eq!(scene.pay(200).await.status.as_u16(), 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn night_is_where_the_operator_is() {
    let folder = tempfile::tempdir().unwrap();
    let wrapper = at_time(folder.path(), "2026-11-16 23:30:00");
    let config = GateConfig::new().env("GATE", crate::support::PROGRAM).env("TZ", "UTC");
    let upstream = Upstream::start().await;
    let gate = GateProcess::start(wrapper, config);
    gate.serve("stripe", "stripe", &upstream);
    let scene = Scene { gate, upstream };
    scene.rule("night_amount", "block", &["threshold=1.00", "timezone=UTC"]);
    assert_eq!(scene.pay(500).await.status.as_u16(), 200, "half past eleven in London");
    scene.rule("night_amount", "block", &["threshold=1.00", "timezone=Europe/Berlin"]);
    assert_eq!(code(&scene.pay(500).await), "RISK_NIGHT_AMOUNT", "half past midnight in Berlin");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refusals_in_a_row_are_told_or_stop_the_agent() {
    let scene = Scene::new(GateConfig::new()).await;
    scene.rule("method_restriction", "block", &["allow=GET"]);
    scene.rule("consecutive_failure", "alert", &["count=2"]);
    assert_eq!(code(&scene.pay(1).await), "METHOD_RESTRICTED");
    assert_eq!(scene.get("plain", "/echo").await.status.as_u16(), 200, "which breaks the row");
    assert_eq!(code(&scene.pay(1).await), "METHOD_RESTRICTED");
    assert_eq!(scene.alerts().len(), 0);
    let second = scene.pay(1).await;
    check_told(&scene, &request_id(&second), "risk.anomaly.detected", "2 ");
    assert_eq!(scene.get("plain", "/echo").await.status.as_u16(), 200, "it goes on");

    scene.rule("consecutive_failure", "alert_and_block", &["count=3"]);
    for _ in 0..3 {
        assert_eq!(code(&scene.pay(1).await), "METHOD_RESTRICTED");
    }
    check_paused(&scene, "consecutive_failure");
    let stopped = scene.get("plain", "/echo").await;
    assert_eq!(code(&stopped), "KILL_SWITCH_AGENT");
    assert_eq!(stopped.json()["error"]["details"]["paused_by"], "consecutive_failure");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upstream_that_turns_the_agent_away_is_told_or_stops_it() {
    let mut scene = Scene::new(GateConfig::new()).await;
    scene.rule("upstream_denials", "alert", &["count=2", "window_sec=60"]);
    for status in [402, 404, 500] {
        assert_eq!(scene.get("plain", &format!("/status/{status}")).await.status.as_u16(), status);
    }
    assert_eq!(scene.alerts().len(), 0, "only 402 and 403 count");
    let second = scene.get("plain", "/status/403").await;
    let words = "the upstream turned 2 calls away within 60 s";
    check_told(&scene, &request_id(&second), "risk.anomaly.detected", words);
    assert_eq!(scene.get("plain", "/echo").await.status.as_u16(), 200, "it goes on");

    scene.rule("upstream_denials", "block", &["count=3", "window_sec=60"]);
    assert_eq!(scene.get("plain", "/status/402").await.status.as_u16(), 402);
    check_paused(&scene, "auto_risk");
    assert_eq!(code(&scene.get("plain", "/echo").await), "KILL_SWITCH_AGENT");
    // Nothing resumes by itself.
    scene.gate.restart();
    assert_eq!(code(&scene.get("plain", "/echo").await), "KILL_SWITCH_AGENT");
    scene.gate.cli_json(&["resume", "--agent", "default", "--yes", "--json"]);
    assert_eq!(scene.get("plain", "/echo").await.status.as_u16(), 200);
}

fn sqlite(data_dir: &Path, sql: &str) {
    let mut command = command("sqlite3");
    command.arg(data_dir.join("agentguard.db")).arg(sql);
    let output = process::run(command, Duration::from_secs(30));
    assert!(output.status.success(), "{}", process::show(&output));
}

/// The gate, on a machine whose clock starts at this time.
fn at_time(folder: &Path, time: &str) -> std::path::PathBuf {
    use std::os::unix::fs::PermissionsExt as _;
    let path = folder.join("gate");
    let text = format!(
        "#!/bin/sh\nif [ \"$1\" = up ]; then\n  lib=$(ls /usr/lib/*/faketime/libfaketime.so.1 | head -n 1)\n  export LD_PRELOAD=\"$lib\" FAKETIME='@{time}' FAKETIME_DONT_FAKE_MONOTONIC=1\nfi\nexec \"$GATE\" \"$@\"\n"
    );
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

#[expect(clippy::disallowed_methods, reason = "a test looks into a database by its own tool")]
fn command(name: &str) -> std::process::Command {
    std::process::Command::new(name)
}
