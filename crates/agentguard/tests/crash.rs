//! kill -9 under load, again and again: nothing that left is missing from the record, and the counted
//! spending is never below what the upstream took.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use agentguard_testkit::http::Client;
use agentguard_testkit::{GateConfig, GateProcess, Upstream};
use http::Method;
use serde_json::Value;

const CALLERS: usize = 16;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_crashes_under_load_lose_no_payment_and_undercount_none() {
    crash_over_and_over(GateConfig::new(), 100).await;
}

/// The weaker durability promises the same against the death of the process.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crashes_lose_nothing_with_process_durability_either() {
    crash_over_and_over(GateConfig::new().extra("audit:\n  durability:\n    api: process"), 40)
        .await;
}

async fn crash_over_and_over(config: GateConfig, rounds: u64) {
    let upstream = Upstream::start().await;
    let mut gate = GateProcess::start(env!("CARGO_BIN_EXE_agentguard"), config);
    gate.serve("stripe", "stripe", &upstream);
    gate.cli_json(&[
        "rule",
        "add",
        "--type",
        "daily_budget",
        "--param",
        "limit=900000000",
        "--json",
    ]);

    // Every charge has an amount of its own, so that it can be found again on the record.
    let next = Arc::new(AtomicU64::new(1));
    for round in 0..rounds {
        let callers: Vec<_> = (0..CALLERS)
            .map(|_| tokio::spawn(charge(gate.proxy_url("stripe"), next.clone())))
            .collect();
        // A different point of the load each time.
        tokio::time::sleep(Duration::from_millis(10 + round * 37 % 180)).await;
        gate.kill9();
        for caller in callers {
            caller.await.unwrap();
        }
        gate.launch().unwrap();
        everything_taken_is_recorded_and_counted(&gate, &upstream, round);
    }
    assert!(
        upstream.takings().len() > usize::try_from(rounds).unwrap(),
        "the load never got through"
    );
    assert!(gate.terminate().success());
    let verified = gate.cli_json(&["verify-logs", "--json"]);
    assert_eq!(verified["ok"], true, "{verified}");
}

/// Charges in a row until the gate is gone.
async fn charge(base: String, next: Arc<AtomicU64>) {
    let client = Client::new();
    for _ in 0..100_000 {
        let amount = next.fetch_add(1, Ordering::Relaxed);
        let body = format!("amount={amount}&currency=usd&source=tok_visa");
        let headers = [("content-type", "application/x-www-form-urlencoded")];
        let url = format!("{base}/v1/charges");
        match client.request(Method::POST, &url, &headers, body).await {
            Ok(answer) => assert_eq!(answer.status.as_u16(), 200, "{}", answer.text()),
            Err(_) => return,
        }
    }
}

fn everything_taken_is_recorded_and_counted(gate: &GateProcess, upstream: &Upstream, round: u64) {
    let export = gate.cli(&["logs", "export", "--format", "jsonl"]);
    assert!(export.status.success(), "{}", String::from_utf8_lossy(&export.stderr));
    let mut recorded: HashMap<u64, Value> = HashMap::new();
    for line in String::from_utf8(export.stdout).unwrap().lines() {
        let row: Value = serde_json::from_str(line).unwrap();
        if let Some(micros) = row["amount_micros"].as_u64() {
            assert!(recorded.insert(micros / 10_000, row).is_none(), "one charge has two rows");
        }
    }
    let mut taken_minor = 0;
    for taking in upstream.takings() {
        let row = recorded.get(&taking.amount_minor);
        let row = row.unwrap_or_else(|| {
            unreachable!("round {round}: charge {} is not on the record", taking.amount_minor)
        });
        assert_ne!(row["decision"], "block", "round {round}: {row}");
        taken_minor += taking.amount_minor;
    }
    let spend = gate.cli_json(&["spend", "--json"]);
    let used = micros(&spend["day"]["used"]);
    assert!(
        used >= taken_minor * 10_000,
        "round {round}: counted {used}, taken {}",
        taken_minor * 10_000
    );
    assert_eq!(spend["day"]["reserved"], "0.00", "round {round}: nothing is under way");
}

fn micros(decimal: &Value) -> u64 {
    let (units, fraction) = decimal.as_str().unwrap().split_once('.').unwrap();
    units.parse::<u64>().unwrap() * 1_000_000 + format!("{fraction:0<6}").parse::<u64>().unwrap()
}
