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

fn curl(args: &[&str]) -> String {
    let mut command = std::process::Command::new("curl");
    command.args(["--max-time", "20"]).args(args);
    let output = process::run(command, std::time::Duration::from_secs(30));
    String::from_utf8(output.stdout).unwrap()
}
