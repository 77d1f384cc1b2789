//! WebSockets, by a client that people use.

use agentguard_testkit::{process, python_task};
use serde_json::Value;

use crate::start;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_websocket_client_speaks_through_the_gate_where_it_is_allowed() {
    let (gate, upstream) = start("generic").await;
    gate.serve("other", "generic", &upstream);
    gate.cli_json(&["service", "set", "generic", "--allow-websocket", "--json"]);
    let url = |alias: &str| format!("{}/ws/echo", gate.proxy_url(alias)).replace("http:", "ws:");
    let agent = gate.cli_json(&["agent", "add", "socket-user", "--json"]);
    let token = agent["token"].as_str().unwrap().to_owned();
    let args = vec![url("generic"), url("other"), token];
    let output = python_task(include_str!("python/websocket_flow.py"), args, Vec::new()).await;
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
