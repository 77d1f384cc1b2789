//! The vendors' own clients, and curl, through the gate.
#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "tests start programs and stop loudly"
)]

use agentguard_testkit::{GateConfig, GateProcess, Upstream, process, python_task};
use serde_json::Value;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stripe_sdk_pays_until_the_budget_says_no_and_hears_why() {
    let (gate, upstream) = start("stripe").await;
    gate.cli_json(&["rule", "add", "--type", "daily_budget", "--param", "limit=25.00", "--json"]);
    let output =
        python_task(include_str!("sdk/stripe_flow.py"), vec![gate.proxy_url("stripe")], Vec::new())
            .await;
    assert!(output.status.success(), "{}", process::show(&output));
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(said["paid"], 2);
    assert_eq!(said["refused_status"], 403);
    assert!(said["refused_message"].as_str().unwrap().contains("5.00 USD left today"), "{said}");
    let blocked = gate.cli(&["logs", "export", "--format", "jsonl", "--decision", "block"]);
    let attempts = String::from_utf8(blocked.stdout).unwrap().lines().count();
    assert_eq!(attempts, 1, "a closed gate is not hammered");
    let taken: u64 = upstream.takings().iter().map(|taking| taking.amount_minor).sum();
    assert_eq!(taken, 2_000);
    assert_eq!(gate.cli_json(&["spend", "--json"])["day"]["used"], "20.00");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn openai_sdk_streams_through_and_hears_a_rate_limit() {
    let (gate, _upstream) = start("openai").await;
    gate.cli_json(&["rule", "add", "--type", "rate_limit_per_hour", "--param", "max=3", "--json"]);
    let base = format!("{}/v1", gate.proxy_url("openai"));
    let output = python_task(include_str!("sdk/openai_flow.py"), vec![base], Vec::new()).await;
    assert!(output.status.success(), "{}", process::show(&output));
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(said["models"].as_u64().unwrap() > 0, "{said}");
    assert!(said["text"].as_str().unwrap().len() > 3, "{said}");
    assert!(said["chunks"].as_u64().unwrap() > 2, "{said}");
    assert_eq!(said["limited"], "RATE_LIMITED", "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_sdk_takes_a_guard_token_for_a_key_and_the_upstream_sees_the_real_one() {
    let (gate, upstream) = start("openai").await;
    for alias in ["openai", "anthropic", "stripe"] {
        gate.serve(alias, alias, &upstream);
        let set = ["service", "set", alias, "--credential-env", "REAL_KEY", "--json"];
        let output = gate.cli_with(&set, &[("REAL_KEY", &format!("sk-real-{alias}"))], "");
        assert!(output.status.success(), "{}", process::show(&output));
    }
    let added = gate.cli_json(&["agent", "add", "bot", "--json"]);
    let token = added["token"].as_str().unwrap().to_owned();
    let base = format!("http://{}/proxy", gate.proxy_addr());
    let script = include_str!("sdk/virtual_keys.py");
    let output = python_task(script, vec![base, token], Vec::new()).await;
    assert!(output.status.success(), "{}", process::show(&output));
    let seen: Vec<_> = upstream
        .requests()
        .iter()
        .map(|request| {
            let header = |name: &str| Some(request.headers.get(name)?.to_str().unwrap().to_owned());
            (header("authorization"), header("x-api-key"))
        })
        .collect();
    let bearer = |alias: &str| (Some(format!("Bearer sk-real-{alias}")), None);
    let key = (None, Some("sk-real-anthropic".to_owned()));
    assert_eq!(seen, [bearer("openai"), key, bearer("stripe")]);
    assert_eq!(upstream.stats().guard_tokens_seen, 0);
}

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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_websocket_client_speaks_through_the_gate_where_it_is_allowed() {
    let (gate, upstream) = start("generic").await;
    gate.serve("other", "generic", &upstream);
    gate.cli_json(&["service", "set", "generic", "--allow-websocket", "--json"]);
    let url = |alias: &str| format!("{}/ws/echo", gate.proxy_url(alias)).replace("http:", "ws:");
    let agent = gate.cli_json(&["agent", "add", "socket-user", "--json"]);
    let token = agent["token"].as_str().unwrap().to_owned();
    let args = vec![url("generic"), url("other"), token];
    let output = python_task(include_str!("sdk/websocket_flow.py"), args, Vec::new()).await;
    assert!(output.status.success(), "{}", process::show(&output));
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&said["close_code"], &said["refused"]), (&1000.into(), &400.into()), "{said}");
    assert_eq!(said["said"]["error"]["details"]["why"], "websocket_not_allowed");
    upstream.wait_open_streams(0, std::time::Duration::from_secs(10)).await;
    let stats = upstream.stats();
    assert_eq!((stats.requests, stats.guard_tokens_seen), (1, 0));
    let rows = gate.cli(&["logs", "export", "--format", "jsonl", "--decision", "allow"]);
    let rows = String::from_utf8(rows.stdout).unwrap();
    let row: Value = serde_json::from_str(rows.lines().last().unwrap()).unwrap();
    let facts = row.get("facts").unwrap_or_else(|| panic!("no facts in {row}"));
    assert_eq!(facts["upgraded"], "websocket", "{row}");
    let counted = (facts["bytes_in"].as_u64(), facts["bytes_out"].as_u64());
    assert_eq!(counted, (Some(stats.websocket_bytes_in), Some(stats.websocket_bytes_out)));
}

async fn start(kind: &str) -> (GateProcess, Upstream) {
    let upstream = Upstream::start().await;
    let gate = GateProcess::start(env!("CARGO_BIN_EXE_agentguard"), GateConfig::new());
    gate.serve(kind, kind, &upstream);
    (gate, upstream)
}

fn curl(args: &[&str]) -> String {
    let mut command = std::process::Command::new("curl");
    command.args(["--max-time", "20"]).args(args);
    let output = process::run(command, std::time::Duration::from_secs(30));
    String::from_utf8(output.stdout).unwrap()
}
