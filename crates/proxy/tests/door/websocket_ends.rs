//! How WebSockets end: by a switch, silence, a side that does not read, and the gate's end.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use agentguard_gate::Scope;
use agentguard_proxy::ProxyOptions;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::websocket::{allowing, ask, both_ends, expect, open, patient, tunnel_row};
use crate::world::World;

const LIMIT: Duration = Duration::from_secs(5);

fn impatient(millis: u64) -> ProxyOptions {
    ProxyOptions { upstream_timeout: Duration::from_millis(millis), ..ProxyOptions::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kill_cuts_open_sockets_on_both_sides() {
    let world = patient().await;
    let mut streams = Vec::new();
    for way in ["raw", "silent", "flood"] {
        for _ in 0..5 {
            let mut stream = open(&world, &format!("/proxy/ws/ws/{way}")).await;
            stream.write_all(b"x").await.unwrap();
            streams.push(stream);
        }
    }
    assert_eq!(world.upstream.open_streams(), 15);
    let killed_at = Instant::now();
    world.kill(Scope::Agent(world.agent));
    let ends = streams.into_iter().map(|mut stream| {
        tokio::spawn(async move {
            let mut some = vec![0; 64 * 1024];
            loop {
                match stream.read(&mut some).await {
                    Ok(0) => panic!("a socket that was cut must not look closed"),
                    Ok(_) => {}
                    Err(_) => return Instant::now(),
                }
            }
        })
    });
    let mut slowest = Duration::ZERO;
    for end in ends.collect::<Vec<_>>() {
        slowest = slowest.max(end.await.unwrap().duration_since(killed_at));
    }
    // The promise of 50 ms is for the bench; a shared test machine may stumble.
    assert!(slowest < Duration::from_millis(500), "the last socket ended after {slowest:?}");
    world.upstream.wait_open_streams(0, LIMIT).await;
    let rows = world.rows(15).await;
    assert_eq!(rows.len(), 15);
    assert!(rows.iter().all(|row| row.block_reason == Some("KILL_SWITCH_AGENT")));
}

#[tokio::test]
async fn a_kill_cuts_a_socket_whose_client_does_not_read() {
    let world = patient().await;
    let client = open(&world, "/proxy/ws/ws/flood").await;
    settled_bytes(&world).await;
    world.kill(Scope::Global);
    let (row, _) = tunnel_row(&world).await;
    assert_eq!(row.block_reason, Some("KILL_SWITCH_GLOBAL"));
    world.upstream.wait_open_streams(0, LIMIT).await;
    drop(client);
}

#[tokio::test]
async fn a_kill_takes_back_what_the_service_has_not_got_yet() {
    let (world, mut client, mut upstream) = both_ends().await;
    // More than the system holds for a service that does not read.
    let pushing = tokio::spawn(async move {
        let zeroes = vec![0; 1024 * 1024];
        let mut pushed = 0;
        while client.write_all(&zeroes).await.is_ok() {
            pushed += zeroes.len();
        }
        pushed
    });
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(!pushing.is_finished());
    world.kill(Scope::Global);
    let (row, facts) = tunnel_row(&world).await;
    assert_eq!(row.block_reason, Some("KILL_SWITCH_GLOBAL"));
    pushing.await.unwrap();
    let mut got = Vec::new();
    let read = tokio::time::timeout(LIMIT, upstream.read_to_end(&mut got)).await.unwrap();
    assert!(read.is_err(), "a socket that was cut must not look closed");
    let passed = usize::try_from(facts["bytes_in"].as_u64().unwrap()).unwrap();
    assert!(got.len() < passed, "all {passed} bytes were still delivered");
}

#[tokio::test]
async fn a_client_that_vanishes_takes_its_socket_along() {
    let (world, client, mut upstream) = both_ends().await;
    client.set_zero_linger().unwrap();
    drop(client);
    let mut got = Vec::new();
    let _ = tokio::time::timeout(LIMIT, upstream.read_to_end(&mut got)).await.unwrap();
    let (row, facts) = tunnel_row(&world).await;
    assert_eq!((&facts["ended"], row.block_reason), (&json!("client_gone"), None));
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_that_go_at_any_moment_leave_nothing_open() {
    let mut world = patient().await;
    for n in 0..200 {
        let client = ask(&world, "/proxy/ws/ws/raw", "", b"early").await;
        // From before the call is admitted to after the tunnel stands.
        let started = Instant::now();
        while started.elapsed() < Duration::from_micros(n * 10) {
            tokio::task::yield_now().await;
        }
        client.set_zero_linger().unwrap();
    }
    let ended = world.shut_down();
    tokio::time::timeout(LIMIT, ended).await.unwrap().unwrap();
    world.upstream.wait_open_streams(0, LIMIT).await;
    let admitted = usize::try_from(world.record.intents.load(Ordering::SeqCst)).unwrap();
    assert_eq!(world.rows(admitted).await.len(), admitted, "each is settled once");
    assert_eq!(world.spent().1.micros(), 0);
}

/// What the upstream could send until nothing moved any more: buffers are full all the way.
async fn settled_bytes(world: &World) -> u64 {
    let (mut last, mut still) = (0, 0);
    let until = Instant::now() + Duration::from_secs(60);
    while still < 5 {
        assert!(Instant::now() < until, "after {last} bytes the upstream still sends");
        tokio::time::sleep(Duration::from_millis(100)).await;
        let now = world.upstream.stats().websocket_bytes_out;
        still = if now == last && now > 0 { still + 1 } else { 0 };
        last = now;
    }
    last
}

#[tokio::test]
async fn a_slow_reader_holds_the_other_side_back() {
    let world = patient().await;
    let mut client = open(&world, "/proxy/ws/ws/flood").await;
    let held = settled_bytes(&world).await;
    // What lies between is the system's: two sockets with buffers of a few megabytes at the most.
    assert!(held < 32 * 1024 * 1024, "{held} bytes were taken in");
    let mut some = vec![0; 1024 * 1024];
    client.read_exact(&mut some).await.unwrap();
    drop(client);
    world.upstream.wait_open_streams(0, LIMIT).await;
    let (_, facts) = tunnel_row(&world).await;
    assert!(facts["bytes_out"].as_u64().unwrap() <= world.upstream.stats().websocket_bytes_out);
}

#[tokio::test]
async fn silence_ends_a_socket_and_traffic_in_one_direction_is_none() {
    let world = allowing("", impatient(400)).await;
    let mut stream = open(&world, "/proxy/ws/ws/silent").await;
    for _ in 0..8 {
        stream.write_all(b"x").await.unwrap();
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let quiet_since = Instant::now();
    let mut rest = Vec::new();
    tokio::time::timeout(LIMIT, stream.read_to_end(&mut rest)).await.unwrap().unwrap();
    assert!((200..3_000).contains(&quiet_since.elapsed().as_millis()));
    let (row, facts) = tunnel_row(&world).await;
    assert_eq!((&facts["ended"], &facts["bytes_in"]), (&json!("idle"), &json!(8)));
    assert_eq!(row.block_reason, None);
    world.upstream.wait_open_streams(0, LIMIT).await;
}

#[tokio::test]
async fn a_side_that_does_not_read_is_not_held_for_ever() {
    let world = allowing("", impatient(500)).await;
    let client = open(&world, "/proxy/ws/ws/flood").await;
    tokio::time::timeout(LIMIT * 4, world.upstream.wait_open_streams(0, LIMIT * 4)).await.unwrap();
    let (_, facts) = tunnel_row(&world).await;
    assert_eq!(facts["ended"], "client_gone");
    drop(client);

    let world = allowing("", impatient(500)).await;
    let mut client = open(&world, "/proxy/ws/ws/deaf").await;
    let zeroes = vec![0; 1024 * 1024];
    let pushed =
        tokio::time::timeout(LIMIT * 4, async { while client.write_all(&zeroes).await.is_ok() {} });
    assert!(pushed.await.is_ok(), "the upstream reads nothing, and the client is still there");
    let (_, facts) = tunnel_row(&world).await;
    assert_eq!(facts["ended"], "idle");
}

#[tokio::test]
async fn a_slow_client_is_no_stalled_one() {
    let world = allowing("", impatient(600)).await;
    let mut client = open(&world, "/proxy/ws/ws/flood").await;
    let mut some = vec![0; 256 * 1024];
    let until = Instant::now() + Duration::from_millis(2_500);
    while Instant::now() < until {
        client.read_exact(&mut some).await.unwrap();
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(world.upstream.open_streams(), 1);
}

#[tokio::test]
async fn the_gates_end_ends_sockets_at_once() {
    let mut world = patient().await;
    let mut stream = open(&world, "/proxy/ws/ws/raw").await;
    stream.write_all(b"x").await.unwrap();
    expect(&mut stream, b"x").await;
    let ended = world.shut_down();
    tokio::time::timeout(Duration::from_secs(2), ended).await.unwrap().unwrap();
    let (_, facts) = tunnel_row(&world).await;
    assert_eq!(facts["ended"], "gate_ended");
    assert_eq!(stream.read(&mut [0]).await.unwrap(), 0);
}
