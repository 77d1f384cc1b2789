//! Without any client.

use agentguard_testkit::process;
use serde_json::Value;

use crate::start;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn curl_sees_a_refusal_with_its_rule_and_remedy() {
    let (gate, upstream) = start("stripe").await;
    let rule = gate.cli_json(&[
        "rule",
        "add",
        "--type",
        "per_call_limit",
        "--param",
        "limit=1.00",
        "--json",
    ]);
    let url = format!("{}/v1/charges", gate.proxy_url("stripe"));
    let output = curl(&["-si", &url, "-d", "amount=101", "-d", "currency=usd"]);
    let (head, body) = output.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 403"), "{head}");
    let head = head.to_lowercase();
    assert!(
        head.contains("x-agentguard-request-id:") && head.contains("x-should-retry: false"),
        "{head}"
    );
    let error = &serde_json::from_str::<Value>(body).unwrap()["error"];
    assert_eq!(error["code"], "PER_CALL_LIMIT_EXCEEDED");
    assert_eq!(error["details"]["rule_id"], rule["id"]);
    assert!(error["details"]["remedy"].as_str().unwrap().contains("raise the rule's limit"));
    assert_eq!(upstream.stats().requests, 0, "nothing left");
    let paid = curl(&["-s", &url, "-d", "amount=100", "-d", "currency=usd"]);
    assert_eq!(serde_json::from_str::<Value>(&paid).unwrap()["amount"], 100);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn curl_sends_a_large_body_when_it_hears_continue() {
    let (gate, upstream) = start("generic").await;
    let body = std::env::temp_dir().join(format!("agentguard-large-{}", std::process::id()));
    std::fs::write(&body, vec![b'x'; 5_000_000]).unwrap();
    let data = format!("@{}", body.display());
    let url = format!("{}/echo", gate.proxy_url("generic"));
    // Without a 100 it waits longer than the call may take.
    let wait = ["--expect100-timeout", "30", "-H", "Expect: 100-continue"];
    let said = curl(&[&["-s", &url, "--data-binary", &data][..], &wait].concat());
    std::fs::remove_file(&body).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&said).unwrap()["body_len"], 5_000_000);
    assert!(upstream.requests()[0].headers.get("expect").is_none());
}

fn curl(args: &[&str]) -> String {
    let mut command = std::process::Command::new("curl");
    command.args(["--max-time", "20"]).args(args);
    let output = process::run(command, std::time::Duration::from_secs(30));
    String::from_utf8(output.stdout).unwrap()
}
