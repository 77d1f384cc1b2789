//! A stop that stops, through the whole program.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test floods a port and stops loudly"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ::http::Method;
use agentguard_testkit::{GateConfig, GateProcess, Upstream, http};

const STREAMS: u64 = 200;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_ends_200_open_streams_and_survives_a_crash() {
    let upstream = Upstream::start().await;
    let mut gate = GateProcess::start(env!("CARGO_BIN_EXE_agentguard"), GateConfig::new());
    gate.serve("test", "generic", &upstream);
    let url = format!("{}/stream?events=endless&interval_ms=50", gate.proxy_url("test"));
    let mut readers = Vec::new();
    for _ in 0..STREAMS {
        let mut stream = http::stream(Method::GET, &url, &[], "").await.unwrap();
        readers.push(tokio::spawn(async move { while let Some(Ok(_)) = stream.next().await {} }));
    }
    upstream.wait_open_streams(STREAMS, Duration::from_secs(30)).await;

    let state = gate.cli_json(&["kill", "--reason", "a test", "--json"]);
    assert_eq!(state["paused"], true, "{state}");
    // No time is asserted here (`make bench` prints it); that every one ends is.
    for reader in readers {
        tokio::time::timeout(Duration::from_secs(20), reader).await.unwrap().unwrap();
    }
    upstream.wait_open_streams(0, Duration::from_secs(20)).await;
    assert_eq!(refused(&url).await, "KILL_SWITCH_GLOBAL");

    gate.kill9();
    gate.launch().unwrap();
    let url = format!("{}/stream?events=3&interval_ms=1", gate.proxy_url("test"));
    assert_eq!(refused(&url).await, "KILL_SWITCH_GLOBAL", "after a crash");
    let asked = gate.cli(&["resume"]);
    assert_eq!(asked.status.code(), Some(2), "without a terminal and --yes nothing is resumed");
    assert_eq!(refused(&url).await, "KILL_SWITCH_GLOBAL");
    gate.cli_json(&["resume", "--yes", "--json"]);
    assert_eq!(http::request(Method::GET, &url, &[], "").await.status.as_u16(), 200);
}

/// An agent can connect to the management port too. It must not be able to hold off a stop that way.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flooded_management_endpoint_does_not_hold_off_a_stop() {
    let upstream = Upstream::start().await;
    let gate = GateProcess::start(env!("CARGO_BIN_EXE_agentguard"), GateConfig::new());
    let base_url = upstream.base_url();
    gate.cli_json(&[
        "service",
        "set",
        "test",
        "--base-url",
        &base_url,
        "--allow-private",
        "--json",
    ]);
    let url = format!("{}/stream?events=1&interval_ms=1", gate.proxy_url("test"));
    assert_eq!(http::request(Method::GET, &url, &[], "").await.status.as_u16(), 200);
    let (admin, flooding) = (gate.admin_addr(), Arc::new(AtomicBool::new(true)));
    let flood = {
        let flooding = Arc::clone(&flooding);
        tokio::spawn(async move {
            // Silent connections, and new ones as soon as old ones are dropped; bounded in count.
            let mut held = Vec::new();
            for _ in 0..3_000 {
                if !flooding.load(Ordering::SeqCst) {
                    break;
                }
                let connected = tokio::net::TcpStream::connect(admin);
                let connected = tokio::time::timeout(Duration::from_millis(20), connected).await;
                held.extend(connected.ok().and_then(Result::ok));
            }
        })
    };
    tokio::time::sleep(Duration::from_millis(500)).await;
    let killed = tokio::task::spawn_blocking(move || (gate.cli(&["kill", "--json"]), gate)).await;
    let (output, _gate) = killed.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    flooding.store(false, Ordering::SeqCst);
    flood.await.unwrap();
    assert_eq!(refused(&url).await, "KILL_SWITCH_GLOBAL");
}

async fn refused(url: &str) -> String {
    let answer = http::request(Method::GET, url, &[], "").await;
    assert_eq!(answer.status.as_u16(), 503);
    answer.json()["error"]["code"].as_str().unwrap().to_owned()
}
