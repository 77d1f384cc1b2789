//! Streams of models: usage is read as it passes, the gate's own question stays hidden, and no stream
//! can spend more than was reserved for it, however it ends.

use std::time::Duration;

use ::http::Method;
use agentguard_core::rule::RuleType;
use agentguard_core::service::ServiceKind;
use agentguard_gate::Scope;
use agentguard_testkit::http;
use serde_json::{Value, json};

use crate::models::post;
use crate::world::{World, scripted, service};

const JSON: (&str, &str) = ("content-type", "application/json");
const LIMIT: Duration = Duration::from_secs(20);

fn chat(max_tokens: u64) -> Value {
    json!({
        "model": "gpt-4o",
        "messages": [{"role": "user", "content": "hello there"}],
        "max_tokens": max_tokens,
        "stream": true,
    })
}

fn message(max_tokens: u64) -> Value {
    json!({
        "model": "claude-haiku-4-5",
        "messages": [{"role": "user", "content": "hello there"}],
        "max_tokens": max_tokens,
        "stream": true,
    })
}

#[tokio::test]
async fn the_gates_own_question_for_usage_stays_hidden() {
    let world = World::new().await;
    world.rule(RuleType::DailyBudget, json!({"limit": "10.00"}));
    for (path, mut body) in [
        ("/v1/chat/completions", chat(20)),
        (
            "/v1/completions",
            json!({"model": "davinci-002", "prompt": "x", "max_tokens": 20, "stream": true}),
        ),
    ] {
        let gate = format!("/proxy/openai{path}");
        // As the upstream answers somebody who asks for usage.
        body["stream_options"] = json!({"include_usage": true});
        let asked = post(&world, &gate, &[], &body).await.text();
        assert!(asked.contains(r#""choices":[]"#), "{asked}");
        let options = [None, Some(json!({"include_usage": false})), Some(Value::Null)];
        for option in options {
            body.as_object_mut().unwrap().remove("stream_options");
            if let Some(option) = option {
                body["stream_options"] = option;
            }
            let hidden = post(&world, &gate, &[("accept-encoding", "gzip")], &body).await;
            let hidden = hidden.text();
            let events = |text: &str| -> Vec<String> {
                let usage_only = |event: &&str| !event.contains(r#""choices":[]"#);
                let named = |event: &str| match event.split_once(r#""id":""#) {
                    Some((_, rest)) => rest.split_once('"').unwrap().1.to_owned(),
                    None => event.to_owned(),
                };
                text.split("\n\n").filter(usage_only).map(named).collect()
            };
            assert_eq!(events(&hidden), events(&asked), "{path}: all but one event, unchanged");
            assert!(!hidden.contains(r#""choices":[]"#), "{hidden}");
            assert!(hidden.ends_with("data: [DONE]\n\n"));
        }
    }
    let rows = world.rows(8).await;
    assert!(rows.iter().all(|row| !row.estimated && row.is_streaming), "{rows:?}");
}

#[tokio::test]
async fn events_are_not_held_back() {
    let world = World::new().await;
    let headers = [JSON, ("x-test-events", "5"), ("x-test-interval-ms", "40")];
    let url = world.url("/proxy/openai/v1/chat/completions");
    let mut stream =
        http::stream(Method::POST, &url, &headers, chat(20).to_string()).await.unwrap();
    let mut times = Vec::new();
    while let Some(chunk) = stream.next().await {
        times.push(chunk.unwrap().at);
    }
    let spread = times.last().unwrap().duration_since(times[0]);
    assert!(times.len() >= 5 && spread >= Duration::from_millis(120), "{spread:?}");
}

/// Calls a service with this kind's streaming call, and takes the answer as text.
async fn whole(world: &World, path: &str, headers: &[(&str, &str)], body: &Value) -> String {
    let headers: Vec<_> = std::iter::once(JSON).chain(headers.iter().copied()).collect();
    let url = world.url(path);
    let mut stream = http::stream(Method::POST, &url, &headers, body.to_string()).await.unwrap();
    let mut text = Vec::new();
    while let Some(Ok(chunk)) = stream.next().await {
        text.extend_from_slice(&chunk.bytes);
    }
    String::from_utf8(text).unwrap()
}

#[tokio::test]
async fn a_stream_past_its_reservation_is_cut_with_an_error_in_the_providers_shape() {
    let world = World::new().await;
    world.rule(RuleType::DailyBudget, json!({"limit": "10.00"}));
    let responses =
        json!({"model": "gpt-4o", "input": "hi", "max_output_tokens": 20, "stream": true});
    for (path, body, error) in [
        ("openai/v1/chat/completions", chat(20), r#"data: {"error":{"#),
        ("openai/v1/responses", responses, "event: error\ndata: {"),
        ("anthropic/v1/messages", message(20), "event: error\ndata: {"),
    ] {
        let seen = world.record.count();
        let headers = [("x-test-events", "endless")];
        let text = whole(&world, &format!("/proxy/{path}"), &headers, &body).await;
        let last = text.trim_end().rsplit("\n\n").next().unwrap();
        assert!(last.starts_with(error), "{path}: {last}");
        assert!(last.contains("RESERVATION_EXCEEDED"), "{path}: {last}");
        let words = (0..40).filter(|n| text.contains(&format!("\" w{n}\""))).count();
        assert!((10..=20).contains(&words), "{path}: {words} words passed");
        let row = world.rows(seen + 1).await.pop().unwrap();
        assert_eq!(row.block_reason, Some("RESERVATION_EXCEEDED"), "{path}");
        assert!(row.estimated && row.cost.micros() > 0);
        world.upstream.wait_open_streams(0, LIMIT).await;
    }
    assert_eq!(world.spent().1.micros(), 0);
}

#[tokio::test]
async fn a_broken_stream_is_estimated_and_never_free() {
    const HEAD: &str =
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
    const EVENT: &str =
        "3c\r\ndata: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hello\"}}]}\n\n\r\n";
    const NOT_CHUNKED: &str = "zz\r\n";
    for pieces in [
        &[HEAD][..],
        &[HEAD, EVENT],
        &[HEAD, EVENT, NOT_CHUNKED],
        &[HEAD, "5\r\ndata:"],
        // It ends well, but says nothing of usage.
        &[HEAD, EVENT, "0\r\n\r\n"],
    ] {
        let world = World::new().await;
        world.rule(RuleType::DailyBudget, json!({"limit": "10.00"}));
        world.put(service("once", &scripted(pieces).await, ServiceKind::Openai));
        let text = whole(&world, "/proxy/once/v1/chat/completions", &[], &chat(5_000)).await;
        assert!(pieces.len() < 2 || text.contains("hello") || text.is_empty(), "{text}");
        let row = world.last_row().await;
        assert!(row.estimated, "{pieces:?}");
        // At least what passed, at the most what was reserved.
        assert!(row.cost.micros() > 250, "{pieces:?}: {}", row.cost);
        assert!(row.cost.micros() <= 50_000 + 1_000, "{pieces:?}: {}", row.cost);
        assert_eq!(world.spent(), (row.cost, Default::default()), "{pieces:?}");
    }
}

#[tokio::test]
async fn a_client_that_goes_is_charged_by_the_usage_that_still_comes() {
    let world = World::new().await;
    world.rule(RuleType::DailyBudget, json!({"limit": "10.00"}));
    for (path, body) in
        [("openai/v1/chat/completions", chat(40)), ("anthropic/v1/messages", message(40))]
    {
        let seen = world.record.count();
        let headers = [JSON, ("x-test-events", "40"), ("x-test-interval-ms", "10")];
        let url = world.url(&format!("/proxy/{path}"));
        let mut stream =
            http::stream(Method::POST, &url, &headers, body.to_string()).await.unwrap();
        stream.next().await.unwrap().unwrap();
        drop(stream);
        let row = world.rows(seen + 1).await.pop().unwrap();
        let facts = row.facts.unwrap();
        assert_eq!(facts["ended"], "client_gone", "{path}");
        assert_eq!(facts["tokens"]["output"], 40, "{path}: all that was written is paid");
        assert!(!row.estimated, "{path}");
    }
    assert_eq!(world.spent().1.micros(), 0);
}

#[tokio::test]
async fn a_client_that_goes_ends_an_endless_stream_after_a_while() {
    let world = World::new().await;
    world.rule(RuleType::DailyBudget, json!({"limit": "10.00"}));
    let headers = [JSON, ("x-test-events", "endless"), ("x-test-interval-ms", "20")];
    let url = world.url("/proxy/openai/v1/chat/completions");
    let mut stream =
        http::stream(Method::POST, &url, &headers, chat(5_000).to_string()).await.unwrap();
    stream.next().await.unwrap().unwrap();
    drop(stream);
    world.upstream.wait_open_streams(0, LIMIT).await;
    let row = world.last_row().await;
    assert!(row.estimated);
    let delivered = i64::try_from(world.upstream.stats().output_tokens).unwrap();
    assert!(row.cost.micros() >= delivered * 10, "{} for {delivered} tokens", row.cost);
    assert_eq!(world.spent(), (row.cost, Default::default()));
}

#[tokio::test]
async fn a_stop_also_ends_what_is_drained() {
    let world = World::new().await;
    world.rule(RuleType::DailyBudget, json!({"limit": "10.00"}));
    let headers = [JSON, ("x-test-events", "endless"), ("x-test-interval-ms", "5")];
    let url = world.url("/proxy/openai/v1/chat/completions");
    let mut stream =
        http::stream(Method::POST, &url, &headers, chat(100_000).to_string()).await.unwrap();
    stream.next().await.unwrap().unwrap();
    drop(stream);
    tokio::time::sleep(Duration::from_millis(50)).await;
    world.kill(Scope::Global);
    let row = world.last_row().await;
    assert_eq!(row.block_reason, Some("KILL_SWITCH_GLOBAL"));
    world.upstream.wait_open_streams(0, Duration::from_secs(1)).await;
    assert_eq!(world.spent().1.micros(), 0);
}

/// Clients in parallel against a budget that covers a few of them.
async fn crowd(path: &'static str, body: Value, micros_per_output: i64, hang_up: bool) {
    const CLIENTS: usize = 256;
    const TOKENS: u64 = 200;
    let world = World::new().await;
    // Ten reservations of this call: 200 tokens of output and under 300 of input.
    let budget = 10 * (200 * micros_per_output + 300 * micros_per_output / 4);
    let limit = format!("0.{budget:06}");
    world.rule(RuleType::DailyBudget, json!({"limit": limit}));
    let tokens = TOKENS.to_string();
    let mut clients = tokio::task::JoinSet::new();
    let url = world.url(&format!("/proxy/{path}"));
    for client in 0..CLIENTS {
        let (url, body, tokens) = (url.clone(), body.to_string(), tokens.clone());
        clients.spawn(async move {
            let headers = [JSON, ("x-test-events", tokens.as_str()), ("x-test-interval-ms", "1")];
            let stream = http::stream(Method::POST, &url, &headers, body).await;
            let Ok(mut stream) = stream else { return false };
            if stream.status != 200 {
                return false;
            }
            let wanted = if hang_up { client % 23 } else { usize::MAX };
            for _ in 0..wanted {
                if !matches!(stream.next().await, Some(Ok(_))) {
                    break;
                }
            }
            true
        });
    }
    let mut let_in = 0;
    while let Some(done) = clients.join_next().await {
        let_in += usize::from(done.unwrap());
    }
    world.rows(CLIENTS).await;
    world.upstream.wait_open_streams(0, LIMIT).await;
    let stats = world.upstream.stats();
    let input = i64::try_from(stats.input_tokens).unwrap() * micros_per_output;
    let output = i64::try_from(stats.output_tokens).unwrap() * micros_per_output;
    // The input costs a quarter or a fifth of the output.
    let delivered = input / 4 + output;
    let (used, reserved) = world.spent();
    assert_eq!(reserved.micros(), 0, "{path}: nothing stays reserved");
    assert!(let_in >= 5, "{path}: {let_in} were let in");
    assert!(used.micros() <= budget, "{path}: {used} of {limit}");
    assert!(delivered <= budget, "{path}: {delivered} delivered, {budget} allowed");
    assert!(
        used.micros() + 500 >= delivered * 9 / 10,
        "{path}: {used} counted, {delivered} delivered"
    );
}

#[tokio::test]
async fn a_crowd_of_chats_stays_within_the_budget() {
    crowd("openai/v1/chat/completions", chat(200), 10, false).await;
}

#[tokio::test]
async fn a_crowd_of_chats_that_hang_up_stays_within_the_budget() {
    crowd("openai/v1/chat/completions", chat(200), 10, true).await;
}

#[tokio::test]
async fn a_crowd_of_messages_stays_within_the_budget() {
    crowd("anthropic/v1/messages", message(200), 5, false).await;
}

#[tokio::test]
async fn a_crowd_of_messages_that_hang_up_stays_within_the_budget() {
    crowd("anthropic/v1/messages", message(200), 5, true).await;
}

#[tokio::test]
async fn a_thousand_idle_streams_are_held_and_all_settled() {
    const STREAMS: usize = 1_000;
    let world = World::new().await;
    world.rule(RuleType::DailyBudget, json!({"limit": "10.00"}));
    let url = world.url("/proxy/openai/v1/chat/completions");
    // A word, and then nothing for a long time.
    let headers = [JSON, ("x-test-events", "2"), ("x-test-interval-ms", "600000")];
    let mut open = Vec::new();
    for _ in 0..STREAMS {
        let mut stream =
            http::stream(Method::POST, &url, &headers, chat(2).to_string()).await.unwrap();
        assert_eq!(stream.status, 200);
        stream.next().await.unwrap().unwrap();
        open.push(stream);
    }
    world.upstream.wait_open_streams(STREAMS as u64, LIMIT).await;
    assert!(world.spent().1.micros() > 0, "each holds its reservation");
    // Another call still comes through.
    assert_eq!(world.get("/proxy/plain/echo").await.status, 200);
    drop(open);
    let rows = world.rows(STREAMS + 1).await;
    assert!(rows.iter().filter(|row| row.is_streaming).all(|row| row.cost.micros() > 0));
    world.upstream.wait_open_streams(0, LIMIT).await;
    assert_eq!(world.spent().1.micros(), 0, "nothing stays reserved");
}
