//! Traffic moves the numbers, and they agree with the record.

use std::collections::BTreeMap;

use agentguard_testkit::http;
use agentguard_testkit::upstream::AMOUNT_DECLINED;
use agentguard_testkit::{GateConfig, Scrape};
use serde_json::Value;

use crate::support::Scene;

const OPEN: [(&str, &str); 1] = [("door", "api")];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_numbers_agree_with_the_record() {
    let scene = Scene::new(GateConfig::new()).await;
    scene.rule("per_call_limit", "alert_and_block", &["limit=500.00"]);
    scene.gate.cli_json(&[
        "service",
        "set",
        "gone",
        "--base-url",
        "http://127.0.0.1:9",
        "--allow-private",
        "--json",
    ]);
    for cents in [100, 250, 1, AMOUNT_DECLINED, 60_000] {
        scene.pay(cents).await;
    }
    for (alias, path) in [
        ("plain", "/echo"),
        ("gone", "/x"),
        ("nowhere", "/x"),
        ("plain", "/stream?events=3&interval_ms=1"),
    ] {
        scene.get(alias, path).await;
    }
    let scrape = scene.scrape_until(|s| s.count("agentguard_permits_open", &OPEN) == 0).await;
    check_against_the_record(&scene, &scrape);
    assert_eq!(scrape.micros("agentguard_spent_usd_total", &[("service", "stripe")]), 3_510_000);
    assert_eq!(
        scrape.count("agentguard_refusals_total", &[("code", "PER_CALL_LIMIT_EXCEEDED")]),
        1
    );
    assert_eq!(scrape.count("agentguard_refusals_total", &[("code", "UPSTREAM_UNREACHABLE")]), 1);
    assert_eq!(scrape.count("agentguard_alerts_total", &[("event", "budget.exceeded")]), 1);
    assert!(scrape.count("process_resident_memory_bytes", &[]) > 1_000_000);
    assert!(scrape.count("process_open_fds", &[]) > 3);
    assert!(scrape.count("process_start_time_seconds", &[]) > 1_700_000_000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_under_way_is_shown_and_gone_when_it_ends() {
    let scene = Scene::new(GateConfig::new()).await;
    let url = format!("{}/v1/charges?x-test-delay-ms=600000", scene.gate.proxy_url("stripe"));
    let slow = tokio::spawn(async move {
        let kind = [("content-type", "application/x-www-form-urlencoded")];
        let body = "amount=725&currency=usd&source=tok_visa";
        http::try_request(::http::Method::POST, &url, &kind, body).await.map(drop)
    });
    let url = format!("{}/stream?events=endless&interval_ms=20", scene.gate.proxy_url("plain"));
    let stream = http::stream(::http::Method::GET, &url, &[], "").await.unwrap();
    let both = |s: &Scrape| s.count("agentguard_permits_open", &OPEN) == 2;
    let scrape = scene.scrape_until(both).await;
    assert_eq!(scrape.count("agentguard_streams_open", &[]), 1);
    assert_eq!(scrape.micros("agentguard_reserved_usd", &[]), 7_250_000);
    drop(stream);
    scene.scrape_until(|s| s.count("agentguard_streams_open", &[]) == 0).await;

    scene.gate.cli_json(&["kill", "--reason", "a test", "--json"]);
    let nothing = |s: &Scrape| s.count("agentguard_permits_open", &OPEN) == 0;
    let scrape = scene.scrape_until(nothing).await;
    assert_eq!(scrape.micros("agentguard_reserved_usd", &[]), 0);
    assert_eq!(scrape.count("agentguard_kill_switch", &[("scope", "global")]), 1);
    slow.await.unwrap().unwrap();
    check_against_the_record(&scene, &scrape);
}

/// By service and decision, by code, by money, and by how many there are.
fn check_against_the_record(scene: &Scene, scrape: &Scrape) {
    let rows = scene.rows();
    let text = |row: &Value, column: &str| row[column].as_str().unwrap_or_default().to_owned();
    let mut actions = BTreeMap::<(String, String), i128>::new();
    let mut codes = BTreeMap::<String, i128>::new();
    let mut spent = BTreeMap::<String, i128>::new();
    for row in &rows {
        let service = text(row, "target_service");
        *actions.entry((service.clone(), text(row, "decision"))).or_default() += 1;
        *spent.entry(service).or_default() += i128::from(row["cost_micros"].as_i64().unwrap());
        if row["block_reason"].is_string() {
            *codes.entry(text(row, "block_reason")).or_default() += 1;
        }
    }
    for ((service, decision), count) in &actions {
        let labels = [("door", "api"), ("service", service), ("decision", decision.as_str())];
        assert_eq!(scrape.count("agentguard_actions_total", &labels), *count, "{labels:?}");
    }
    let all = i128::try_from(rows.len()).unwrap();
    assert_eq!(scrape.count("agentguard_actions_total", &[]), all);
    for (code, count) in &codes {
        assert_eq!(scrape.count("agentguard_refusals_total", &[("code", code)]), *count, "{code}");
    }
    assert_eq!(scrape.count("agentguard_refusals_total", &[]), codes.values().sum::<i128>());
    for (service, micros) in &spent {
        let labels = [("service", service.as_str())];
        assert_eq!(scrape.micros("agentguard_spent_usd_total", &labels), *micros, "{service}");
    }
    let admitted = rows.iter().filter(|row| row["decision"] != "block").count();
    let timed = scrape.count("agentguard_action_duration_seconds_count", &OPEN);
    assert_eq!(timed, i128::try_from(admitted).unwrap());
    let alerts = scene.alerts().len();
    let told = scrape.count("agentguard_alerts_total", &[]);
    assert_eq!(told, i128::try_from(alerts).unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_record_tells_how_far_it_is() {
    let scene = Scene::new(GateConfig::new()).await;
    for _ in 0..5 {
        scene.get("plain", "/echo").await;
    }
    assert_eq!(scene.rows().len(), 5, "which flushes");
    let scrape = scene.scrape().await;
    assert_eq!(scrape.count("agentguard_record_rows_written_total", &[]), 5);
    assert_eq!(scrape.count("agentguard_record_queue_depth", &[]), 0);
    assert!(scrape.count("agentguard_record_queue_places", &[]) > 1_000);
    assert!(scrape.has("agentguard_record_last_commit_age_seconds", &[]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_page_needs_no_token_and_names_nobody() {
    let scene = Scene::new(GateConfig::new()).await;
    let made = scene.gate.cli_json(&["agent", "add", "agent-of-somebody", "--json"]);
    scene.get("plain", "/echo?key=of-a-caller").await;
    let page = scene.metrics().await;
    let token = made["token"].as_str().unwrap();
    let address = scene.upstream.addr().to_string();
    for secret in ["agent-of-somebody", token, address.as_str(), "of-a-caller", "http"] {
        assert!(!page.contains(secret), "`{secret}` in\n{page}");
    }
    let url = format!("http://{}/metrics", scene.gate.admin_addr());
    let named = [("host", "evil.example")];
    let answer = http::request(::http::Method::GET, &url, &named, "").await;
    assert_eq!(answer.status.as_u16(), 403);
}
