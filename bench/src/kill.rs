//! A kill during 200 open streams: how long until the last one has ended.

use std::time::{Duration, Instant};

use agentguard_testkit::{GateConfig, GateProcess, Upstream, http};
use http::Streaming;

use crate::child::gate_binary;
use crate::measure::{Figure, quantile};

const STREAMS: u64 = 200;
const ROUNDS: usize = 10;

pub(crate) fn run() -> Vec<Figure> {
    let Some(executable) = gate_binary() else {
        println!("kill: no release binary of `agentguard`; run `make bench`");
        return Vec::new();
    };
    let gate = GateProcess::start(executable, GateConfig::new());
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    let upstream = runtime.block_on(Upstream::start());
    gate.serve("test", "generic", &upstream);

    let (mut clients, mut upstreams) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let (ended, dropped) = runtime.block_on(round(&gate, &upstream));
        clients.extend(ended);
        upstreams.extend(dropped);
        gate.cli_json(&["resume", "--yes", "--json"]);
    }
    let both = format!("{STREAMS} streams × {ROUNDS} kills");
    vec![
        Figure::new(
            format!("kill → agent's stream ended, p50 ({both})"),
            quantile(clients.clone(), 0.5),
            "ms",
            "",
        ),
        Figure::new(
            "kill → agent's stream ended, p99",
            quantile(clients.clone(), 0.99),
            "ms",
            "≤ 50 ms",
        ),
        Figure::new("kill → agent's stream ended, worst", quantile(clients, 1.0), "ms", ""),
        Figure::new("kill → upstream saw it end, p99", quantile(upstreams, 0.99), "ms", "≤ 50 ms"),
    ]
}

/// Opens the streams, kills, and returns milliseconds from the call to each end.
async fn round(gate: &GateProcess, upstream: &Upstream) -> (Vec<f64>, Vec<f64>) {
    let url = format!("{}/stream?events=endless&interval_ms=20", gate.proxy_url("test"));
    let before = upstream.streams().len();
    let mut readers = Vec::new();
    for _ in 0..STREAMS {
        let stream =
            http::stream(::http::Method::GET, &url, &[], "").await.expect("a stream opens");
        readers.push(tokio::spawn(until_end(stream)));
    }
    upstream.wait_open_streams(STREAMS, Duration::from_secs(20)).await;

    let token =
        std::fs::read_to_string(gate.data_dir().join("admin.token")).expect("the token file");
    let authorization = format!("Bearer {}", token.trim());
    let kill = format!("http://{}/api/v1/kill-switch", gate.admin_addr());
    let headers = [("authorization", authorization.as_str()), ("content-type", "application/json")];
    let called = Instant::now();
    let body = r#"{"scope":"global","paused":true,"reason":"bench"}"#;
    let answer = http::request(::http::Method::POST, &kill, &headers, body).await;
    assert!(answer.status.is_success(), "{}", answer.text());

    let mut ended = Vec::new();
    for reader in readers {
        ended.push(millis(called, reader.await.expect("a reader ends")));
    }
    upstream.wait_open_streams(0, Duration::from_secs(20)).await;
    let rows = upstream.streams();
    let dropped = rows[before..]
        .iter()
        .filter_map(|row| row.closed())
        .map(|(at, _)| millis(called, at))
        .collect();
    (ended, dropped)
}

async fn until_end(mut stream: Streaming) -> Instant {
    while let Some(Ok(_)) = stream.next().await {}
    Instant::now()
}

fn millis(from: Instant, to: Instant) -> f64 {
    to.saturating_duration_since(from).as_secs_f64() * 1e3
}
