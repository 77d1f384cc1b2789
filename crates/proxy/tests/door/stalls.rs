//! Uploads that outlive their answer, and clients that do not read.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use agentguard_core::service::ServiceKind;
use agentguard_gate::Scope;
use agentguard_proxy::ProxyOptions;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::world::{World, connect, service};

const LIMIT: Duration = Duration::from_secs(5);

/// An upstream that answers before the body has come, and then counts what still comes until its
/// connection ends.
async fn hasty(answer: &'static str) -> (String, JoinHandle<usize>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    let counting = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut buffer = vec![0; 64 * 1024];
        assert!(stream.read(&mut buffer).await.unwrap() > 0);
        stream.write_all(answer.as_bytes()).await.unwrap();
        let mut bytes = 0;
        loop {
            match stream.read(&mut buffer).await {
                Ok(0) | Err(_) => return bytes,
                Ok(more) => bytes += more,
            }
        }
    });
    (base, counting)
}

/// Sends pieces until the connection ends or it is told to go.
async fn upload(addr: SocketAddr, framing: &'static str) -> JoinHandle<()> {
    let mut stream = connect(addr).await;
    let head = format!("POST /proxy/hasty/up HTTP/1.1\r\nHost: localhost\r\n{framing}\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    tokio::spawn(async move {
        for _ in 0..1_000 {
            if stream.write_all(b"5\r\nhello\r\n").await.is_err() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
}

#[tokio::test]
async fn an_upload_ends_with_the_answer() {
    for framing in ["Transfer-Encoding: chunked", "Content-Length: 1000000"] {
        let world = World::new().await;
        let (base, counting) = hasty("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").await;
        world.put(service("hasty", &base, ServiceKind::Generic));
        let upload = upload(world.addr, framing).await;
        let row = world.last_row().await;
        assert_eq!(row.response_status, Some(200));
        let bytes = tokio::time::timeout(LIMIT, counting).await.unwrap().unwrap();
        assert!(bytes < 1_000, "{bytes} bytes came after the answer ({framing})");
        upload.abort();
    }
}

#[tokio::test]
async fn a_stop_ends_the_upload_as_well() {
    let world = World::new().await;
    let (base, counting) = hasty("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok").await;
    world.put(service("hasty", &base, ServiceKind::Generic));
    let upload = upload(world.addr, "Transfer-Encoding: chunked").await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(!counting.is_finished(), "both are under way");
    world.kill(Scope::Global);
    tokio::time::timeout(LIMIT, counting).await.unwrap().unwrap();
    assert_eq!(world.last_row().await.block_reason, Some("KILL_SWITCH_GLOBAL"));
    upload.abort();
}

#[tokio::test]
async fn a_stop_ends_an_upload_that_was_not_answered_yet() {
    let world = World::new().await;
    let (base, counting) = hasty("").await;
    world.put(service("hasty", &base, ServiceKind::Generic));
    let upload = upload(world.addr, "Transfer-Encoding: chunked").await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(!counting.is_finished(), "it is under way");
    world.kill(Scope::Global);
    tokio::time::timeout(LIMIT, counting).await.unwrap().unwrap();
    assert_eq!(world.last_row().await.block_reason, Some("KILL_SWITCH_GLOBAL"));
    upload.abort();
}

#[tokio::test]
async fn a_client_that_goes_takes_its_upload_along() {
    let world = World::new().await;
    let (base, counting) = hasty("").await;
    world.put(service("hasty", &base, ServiceKind::Generic));
    let upload = upload(world.addr, "Content-Length: 1000000").await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    upload.abort();
    tokio::time::timeout(LIMIT, counting).await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_that_do_not_read_are_not_held_for_ever() {
    let options =
        ProxyOptions { upstream_timeout: Duration::from_millis(2_000), ..ProxyOptions::default() };
    let world = World::with(options).await;
    let mut clients = Vec::new();
    for _ in 0..20 {
        let mut client = connect(world.addr).await;
        let wire = b"GET /proxy/plain/bytes/12000000 HTTP/1.1\r\nHost: localhost\r\n\r\n";
        client.write_all(wire).await.unwrap();
        clients.push(client);
    }
    // First all that lies in between fills up.
    tokio::time::sleep(Duration::from_secs(5)).await;
    let rows = world.rows(20).await;
    for row in rows {
        assert_eq!((row.response_status, row.block_reason), (Some(200), None));
        assert_eq!(row.facts.unwrap()["ended"], "client_gone");
    }
    for mut client in clients {
        let mut rest = Vec::new();
        let read = tokio::time::timeout(LIMIT, client.read_to_end(&mut rest)).await;
        assert!(read.is_ok_and(|read| read.is_err()), "the connection was reset");
    }
}

#[tokio::test]
async fn a_slow_reader_is_no_stalled_one() {
    let options =
        ProxyOptions { upstream_timeout: Duration::from_millis(500), ..ProxyOptions::default() };
    let world = World::with(options).await;
    let mut client = connect(world.addr).await;
    let wire =
        b"GET /proxy/plain/bytes/8000000 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    client.write_all(wire).await.unwrap();
    let mut bytes = 0;
    let mut buffer = vec![0; 512 * 1024];
    let started = std::time::Instant::now();
    loop {
        let more = client.read(&mut buffer).await.unwrap();
        if more == 0 {
            break;
        }
        bytes += more;
        // Slow for longer than the limit in all, never silent for as long.
        if started.elapsed() < Duration::from_millis(1_500) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    assert!(bytes > 8_000_000, "{bytes}");
}

#[tokio::test]
async fn a_head_that_does_not_come_is_not_waited_for_for_ever() {
    let head_timeout = Duration::from_millis(200);
    let world = World::with(ProxyOptions { head_timeout, ..ProxyOptions::default() }).await;
    for begun in ["", "GET /proxy/plain/echo HTTP/1.1\r\nHost: loc"] {
        let mut client = connect(world.addr).await;
        client.write_all(begun.as_bytes()).await.unwrap();
        let mut rest = Vec::new();
        let read = tokio::time::timeout(Duration::from_secs(10), client.read_to_end(&mut rest));
        assert!(read.await.is_ok(), "after {begun:?} the connection is still open");
    }
    assert_eq!(world.upstream.stats().connections, 0);
}
