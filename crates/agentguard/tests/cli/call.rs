//! One call through the whole assembly, and what the commands then say about it.

use agentguard_testkit::Upstream;
use agentguard_testkit::http::{Answer, Client};
use http::Method;

use crate::support::{gate, says};

async fn charge(url: &str, headers: &[(&str, &str)]) -> Answer {
    let form = ("content-type", "application/x-www-form-urlencoded");
    let headers = [&[form, ("authorization", "Bearer sk_test_1")], headers].concat();
    let url = format!("{url}/v1/charges");
    Client::new().request(Method::POST, &url, &headers, "amount=300&currency=usd").await.unwrap()
}

#[test]
fn a_paid_call_is_charged_recorded_and_stopped() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let upstream = runtime.block_on(Upstream::start());
    let gate = gate();
    let base = upstream.base_url();
    let set = ["service", "set", "stripe", "--base-url", &base, "--allow-private", "--json"];
    gate.cli_json(&set);
    let url = gate.proxy_url("stripe");

    let answer = runtime.block_on(charge(&url, &[]));
    assert_eq!(answer.status.as_u16(), 200, "{}\n{}", answer.text(), gate.output());
    let spent = gate.cli_json(&["spend", "--agent", "default", "--json"]);
    assert_eq!(spent["day"]["used"], "3.00", "{spent}");
    let row = &gate.cli_json(&["logs", "-n", "1", "--json"])[0];
    assert_eq!((&row["decision"], &row["amount"]), (&"allow".into(), &"3.00".into()), "{row}");

    // A second agent: who shows no token is nobody now.
    let token = gate.cli_json(&["agent", "add", "second", "--json"])["token"].clone();
    assert_eq!(runtime.block_on(charge(&url, &[])).status.as_u16(), 401);
    let own = [("x-agentguard-token", token.as_str().unwrap())];
    assert_eq!(runtime.block_on(charge(&url, &own)).status.as_u16(), 200);

    gate.cli_json(&["kill", "--agent", "second", "--reason", "once", "--json"]);
    gate.cli_json(&["kill", "--agent", "second", "--reason", "twice", "--json"]);
    let stopped = runtime.block_on(charge(&url, &own));
    assert_eq!(stopped.json()["error"]["code"], "KILL_SWITCH_AGENT");
    assert!(stopped.text().contains("once"), "the first stop stays: {}", stopped.text());
    gate.cli_json(&["resume", "--agent", "second", "--yes", "--json"]);
    assert_eq!(runtime.block_on(charge(&url, &own)).status.as_u16(), 200);

    gate.cli_json(&["rule", "add", "--type", "daily_budget", "--param", "limit=7.00", "--json"]);
    let refused = runtime.block_on(charge(&url, &own));
    assert_eq!(refused.json()["error"]["code"], "DAILY_BUDGET_EXCEEDED");
    gate.cli_json(&["agent", "revoke", "second", "--yes", "--json"]);
    assert_eq!(runtime.block_on(charge(&url, &own)).json()["error"]["code"], "AGENT_REVOKED");
    assert!(says(&gate, &["logs", "--agent", "second"]).contains("DAILY_BUDGET_EXCEEDED"));
    assert_eq!(upstream.takings().len(), 3);
}
