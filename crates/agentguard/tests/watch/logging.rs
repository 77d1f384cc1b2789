//! The log: JSON lines that name their request, one for each that ends, and nothing secret.

use agentguard_testkit::{GateConfig, http};
use serde_json::Value;

use crate::support::{Scene, request_id};

const SECRETS: [&str; 3] = ["sk_live_secret", "secret-of-a-query", "secret-of-a-body"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_request_has_a_line_that_agrees_with_its_row_and_tells_no_secret() {
    let config = GateConfig::new().in_section("server", "log_level: debug");
    let scene = Scene::new(config).await;
    scene.gate.cli_json(&[
        "service",
        "set",
        "gone",
        "--base-url",
        "http://127.0.0.1:9",
        "--allow-private",
        "--json",
    ]);
    let mut ids = Vec::new();
    let headers = [
        ("authorization", "Bearer sk_live_secret"),
        ("content-type", "application/x-www-form-urlencoded"),
    ];
    let body = "amount=150&currency=usd&source=tok_visa&description=secret-of-a-body";
    for path in ["stripe/v1/charges", "nowhere/x", "gone/x", "plain/status/500"] {
        let url = format!("http://{}/proxy/{path}?key=secret-of-a-query", scene.gate.proxy_addr());
        let answer = http::request(::http::Method::POST, &url, &headers, body).await;
        ids.push(request_id(&answer));
    }
    let rows = scene.rows();
    assert_eq!(rows.len(), ids.len());
    let log = scene.gate.stderr();
    let lines: Vec<Value> = log
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}")))
        .collect();
    for (id, row) in ids.iter().zip(&rows) {
        assert_eq!(row["id"], id.as_str(), "the answer, the row and the log have one id");
        let about: Vec<_> = lines.iter().filter(|line| line["request_id"] == id.as_str()).collect();
        let ends: Vec<_> = about.iter().filter(|line| !line["decision"].is_null()).collect();
        let [end] = ends.as_slice() else { panic!("{id}: {about:?}") };
        assert_eq!(end["level"], "DEBUG", "{end}");
        for (field, column) in [
            ("agent", "agent_id"),
            ("door", "door"),
            ("decision", "decision"),
            ("status", "response_status"),
            ("service", "target_service"),
            ("code", "block_reason"),
        ] {
            assert_eq!(end[field], row[column], "{field} of {end}");
        }
        assert!(end["latency_us"].is_u64(), "{end}");
        for line in &about {
            assert!(line["agent"].is_string() && line["door"] == "api", "{line}");
        }
    }
    let paid = lines.iter().find(|line| line["request_id"] == ids[0].as_str()).unwrap();
    assert_eq!(paid["cost_usd"], "1.50");
    let warned = |line: &&Value| line["request_id"] == ids[2].as_str() && line["level"] == "WARN";
    assert_eq!(lines.iter().find(warned).unwrap()["service"], "gone");
    for secret in SECRETS {
        assert!(!log.contains(secret), "`{secret}` in\n{log}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn at_the_usual_level_requests_that_go_well_say_nothing() {
    let scene = Scene::new(GateConfig::new()).await;
    let answer = scene.pay(100).await;
    assert_eq!(answer.status.as_u16(), 200);
    scene.rows();
    assert!(!scene.gate.stderr().contains(&request_id(&answer)), "{}", scene.gate.stderr());
}
