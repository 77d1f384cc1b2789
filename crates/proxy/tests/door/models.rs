//! What model calls cost: bounded before, settled after by what the provider says.

use std::io::Write as _;
use std::net::Ipv4Addr;

use ::http::Method;
use agentguard_core::rule::RuleType;
use agentguard_core::service::ServiceKind;
use agentguard_gate::Row;
use agentguard_proxy::ProxyOptions;
use agentguard_testkit::http::{self, Answer};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::world::{World, check_refused, scripted, service};

const JSON: (&str, &str) = ("content-type", "application/json");

pub(crate) async fn post(
    world: &World,
    path: &str,
    headers: &[(&str, &str)],
    body: &Value,
) -> Answer {
    let headers: Vec<_> = std::iter::once(JSON).chain(headers.iter().copied()).collect();
    http::request(Method::POST, &world.url(path), &headers, body.to_string()).await
}

fn chat(max_tokens: u64) -> Value {
    json!({
        "model": "gpt-4o",
        "messages": [{"role": "user", "content": "hello there"}],
        "max_tokens": max_tokens,
    })
}

fn cost(row: &Row) -> i64 {
    row.cost.micros()
}

#[tokio::test]
async fn a_call_costs_what_its_usage_says() {
    let world = World::new().await;
    world.rule(RuleType::DailyBudget, json!({"limit": "10.00"}));
    let input = ("x-test-input-tokens", "1000");
    let responses = json!({"model": "gpt-5", "input": "hello", "max_output_tokens": 4000});
    let message =
        json!({"model": "claude-sonnet-4-5", "messages": [], "max_tokens": 4000, "system": "x"});
    // In dollars for a million tokens: gpt-4o 2.50, 1.25 and 10; gpt-5 1.25, 0.125 and 10; sonnet 3,
    // 0.30, 3.75 and 15; davinci-002 2 and 2; embedding 0.02.
    for (path, headers, body, expected) in [
        ("openai/v1/chat/completions", vec![input, ("x-test-events", "100")], chat(4000), 3_500),
        (
            "openai/v1/chat/completions",
            vec![input, ("x-test-events", "100"), ("x-test-cached-tokens", "400")],
            chat(4000),
            1_500 + 500 + 1_000,
        ),
        (
            "openai/v1/responses",
            vec![input, ("x-test-events", "100"), ("x-test-reasoning-tokens", "900")],
            responses,
            1_250 + 10_000,
        ),
        (
            "openai/v1/completions",
            vec![input, ("x-test-events", "100")],
            json!({"model": "davinci-002", "prompt": "hello", "max_tokens": 4000}),
            2_200,
        ),
        (
            "openai/v1/embeddings",
            vec![input],
            json!({"model": "text-embedding-3-small", "input": ["a", "b"]}),
            20,
        ),
        (
            "anthropic/v1/messages",
            vec![
                input,
                ("x-test-events", "100"),
                ("x-test-cached-tokens", "300"),
                ("x-test-cache-write-tokens", "200"),
            ],
            message,
            1_500 + 90 + 750 + 1_500,
        ),
    ] {
        for streamed in [false, true] {
            if streamed && path.ends_with("embeddings") {
                continue;
            }
            let mut body = body.clone();
            body["stream"] = streamed.into();
            let before = world.spent().0;
            let seen = world.record.count();
            let answer = post(&world, &format!("/proxy/{path}"), &headers, &body).await;
            assert_eq!(answer.status, 200, "{path}: {}", answer.text());
            let row = world.rows(seen + 1).await.pop().unwrap();
            assert_eq!(cost(&row), expected, "{path}, streamed {streamed}: {:?}", row.facts);
            assert!(!row.estimated && row.block_reason.is_none(), "{path}");
            assert_eq!(row.amount.unwrap().micros(), expected);
            let facts = row.facts.unwrap();
            assert_eq!(facts["model"], body["model"], "{path}");
            assert!(facts["tokens"]["output"].as_u64().is_some(), "{path}");
            let (used, reserved) = world.spent();
            assert_eq!(used.minus(before).micros(), expected, "{path}");
            assert_eq!(reserved.micros(), 0, "{path}");
        }
    }
}

#[tokio::test]
async fn several_answers_are_all_reserved_and_paid() {
    let world = World::new().await;
    // 3 × 100,000 tokens of output are 3.00; the input is under a cent.
    world.rule(RuleType::DailyBudget, json!({"limit": "3.10"}));
    let mut body = chat(100_000);
    body["n"] = 4.into();
    let answer = post(&world, "/proxy/openai/v1/chat/completions", &[], &body).await;
    check_refused(&world, &answer, 403, "DAILY_BUDGET_EXCEEDED").await;
    assert!(answer.text().contains("needs up to 4.0"), "{}", answer.text());
    body["n"] = 3.into();
    let answer = post(&world, "/proxy/openai/v1/chat/completions", &[], &body).await;
    assert_eq!(answer.status, 200);
    let facts = world.rows(2).await.pop().unwrap().facts.unwrap();
    assert_eq!(facts["tokens"]["output"], 24);
    assert_eq!(world.upstream.stats().requests, 1);
}

#[tokio::test]
async fn without_a_maximum_the_models_own_is_reserved() {
    let world = World::new().await;
    world.rule(RuleType::PerCallLimit, json!({"limit": "0.17"}));
    let mut body = chat(1);
    body.as_object_mut().unwrap().remove("max_tokens");
    // 16,384 tokens of output are 0.16384.
    let answer = post(&world, "/proxy/openai/v1/chat/completions", &[], &body).await;
    assert_eq!(answer.status, 200);
    body["n"] = 2.into();
    let answer = post(&world, "/proxy/openai/v1/chat/completions", &[], &body).await;
    check_refused(&world, &answer, 403, "PER_CALL_LIMIT_EXCEEDED").await;
}

#[tokio::test]
async fn an_upstreams_no_costs_nothing_and_passes_as_it_is() {
    let world = World::new().await;
    world.rule(RuleType::DailyBudget, json!({"limit": "10.00"}));
    for (path, body) in [
        ("openai/v1/chat/completions", chat(100)),
        (
            "anthropic/v1/messages",
            json!({"model": "claude-opus-4-1", "messages": [], "max_tokens": 9}),
        ),
    ] {
        for status in ["400", "401", "429", "500", "529"] {
            let url = format!("{}/{}", world.upstream.base_url(), path.split_once('/').unwrap().1);
            let headers = [JSON, ("x-test-status", status)];
            let straight = http::request(Method::POST, &url, &headers, body.to_string()).await;
            let seen = world.record.count();
            let headers = [("x-test-status", status)];
            let answer = post(&world, &format!("/proxy/{path}"), &headers, &body).await;
            assert_eq!(answer.status.as_str(), status);
            assert_eq!(answer.json()["error"]["type"], straight.json()["error"]["type"]);
            let row = world.rows(seen + 1).await.pop().unwrap();
            assert_eq!((cost(&row), row.response_status), (0, Some(status.parse().unwrap())));
        }
    }
    assert_eq!(world.spent(), Default::default());
}

#[tokio::test]
async fn what_has_no_price_is_refused_where_money_is_limited() {
    let world = World::new().await;
    let with = |mut body: Value, name: &str, value: Value| {
        body[name] = value;
        body
    };
    let cases = [
        ("openai/v1/chat/completions", with(chat(1), "model", "gpt-99".into())),
        ("openai/v1/chat/completions", with(chat(1), "model", "gpt-4o ".into())),
        ("openai/v1/chat/completions", with(chat(1), "model", "openai/gpt-4o".into())),
        ("openai/v1/chat/completions", with(chat(1), "model", Value::Null)),
        ("openai/v1/chat/completions", with(chat(1), "modalities", json!(["audio"]))),
        ("openai/v1/chat/completions", with(chat(1), "web_search_options", json!({}))),
        ("openai/v1/images/generations", json!({"model": "dall-e-3", "prompt": "x"})),
        ("openai/v1/audio/speech", json!({"model": "tts-1", "input": "x"})),
        ("openai/v1/batches", json!({"input_file_id": "f"})),
        ("anthropic/v1/messages/batches", json!({"requests": []})),
        ("anthropic/v1/complete", json!({"model": "claude-2"})),
    ];
    for (path, body) in &cases {
        // Where no money is limited, nothing is in the way.
        let answer = post(&world, &format!("/proxy/{path}"), &[], body).await;
        assert_ne!(answer.status, 403, "{path} {body}: {}", answer.text());
    }
    world.rule(RuleType::DailyBudget, json!({"limit": "10.00"}));
    let before = world.upstream.stats().requests;
    for (path, body) in &cases {
        let answer = post(&world, &format!("/proxy/{path}"), &[], body).await;
        assert_eq!(answer.status, 403, "{path} {body}: {}", answer.text());
        assert_eq!(answer.json()["error"]["code"], "PRICE_UNKNOWN", "{path} {body}");
        assert_eq!(answer.header("x-should-retry"), Some("false"));
    }
    assert_eq!(world.upstream.stats().requests, before, "nothing left");
}

#[tokio::test]
async fn free_calls_pass_a_spent_budget() {
    let world = World::new().await;
    world.rule(RuleType::DailyBudget, json!({"limit": "0.000001"}));
    assert_eq!(world.get("/proxy/openai/v1/models").await.status, 200);
    let answer = post(&world, "/proxy/openai/v1/moderations", &[], &json!({"input": "x"})).await;
    assert_ne!(answer.status, 403);
    let body = json!({"model": "m", "messages": []});
    let answer = post(&world, "/proxy/anthropic/v1/messages/count_tokens", &[], &body).await;
    assert_ne!(answer.status, 403);
}

#[tokio::test]
async fn doubtful_bodies_are_refused_before_anything_leaves() {
    let world = World::new().await;
    let huge = format!(r#"{{"model":"gpt-4o","messages":"{}"}}"#, "x".repeat(1_100_000));
    for (kind, body) in [
        ("application/json", "{"),
        ("application/json", ""),
        ("application/json", "[]"),
        ("application/json", r#"{"model":"gpt-4o","max_tokens":-5}"#),
        ("application/json", r#"{"model":"gpt-4o","max_tokens":1e9}"#),
        ("application/json", r#"{"model":"gpt-4o","max_tokens":99999999999999999999}"#),
        ("application/json", r#"{"model":"gpt-4o","max_tokens":9999999999999999999}"#),
        ("application/json", r#"{"model":"gpt-4o","max_tokens":1,"max_tokens":2}"#),
        ("application/json", r#"{"model":"gpt-4o-mini","model":"gpt-4o"}"#),
        ("application/x-www-form-urlencoded", "model=gpt-4o"),
        ("text/plain", r#"{"model":"gpt-4o"}"#),
        ("multipart/form-data; boundary=x", "--x--"),
        ("application/json; charset=utf-16", r#"{"model":"gpt-4o"}"#),
        ("application/json", &huge),
    ] {
        let headers = [("content-type", kind)];
        let url = world.url("/proxy/openai/v1/chat/completions");
        let answer = http::request(Method::POST, &url, &headers, body.to_owned()).await;
        assert_eq!(answer.status, 403, "{kind} {body:.60}: {}", answer.text());
        assert_eq!(answer.json()["error"]["code"], "AMOUNT_UNREADABLE", "{body:.60}");
    }
    assert_eq!(world.upstream.stats().requests, 0);
}

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

#[tokio::test]
async fn compressed_requests_are_read_and_pass_unchanged() {
    let world = World::new().await;
    world.rule(RuleType::PerCallLimit, json!({"limit": "0.10"}));
    let url = world.url("/proxy/openai/v1/chat/completions");
    let headers = [JSON, ("content-encoding", "gzip")];
    let packed = gzip(chat(100).to_string().as_bytes());
    let sum: String = Sha256::digest(&packed).iter().map(|byte| format!("{byte:02x}")).collect();
    http::request(Method::POST, &url, &headers, packed).await;
    let seen = world.upstream.requests().pop().unwrap();
    assert_eq!(seen.body_sha256, sum, "the same bytes");
    assert_eq!(seen.headers["content-encoding"], "gzip");
    // Too dear inside.
    let packed = gzip(chat(20_000).to_string().as_bytes());
    let answer = http::request(Method::POST, &url, &headers, packed).await;
    assert_eq!(answer.json()["error"]["code"], "PER_CALL_LIMIT_EXCEEDED", "{}", answer.text());
    // A bomb, garbage, and what nobody can read.
    let bomb = gzip(&vec![b' '; 50_000_000]);
    assert!(bomb.len() < 100_000);
    for (coding, body) in [
        ("gzip", bomb),
        ("gzip", b"nonsense".to_vec()),
        ("br", b"nonsense".to_vec()),
        ("compress", b"x".to_vec()),
        ("gzip, gzip", gzip(&gzip(chat(1).to_string().as_bytes()))),
    ] {
        let headers = [JSON, ("content-encoding", coding)];
        let answer = http::request(Method::POST, &url, &headers, body).await;
        assert_eq!(answer.json()["error"]["code"], "AMOUNT_UNREADABLE", "{coding}");
    }
    assert_eq!(world.upstream.stats().requests, 1);
}

/// An upstream that says these bytes to whoever asks first. Its base URL.
async fn saying(bytes: Vec<u8>) -> String {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.read_buf(&mut Vec::with_capacity(16 * 1024)).await.unwrap();
        stream.write_all(&bytes).await.unwrap();
    });
    base
}

/// An upstream that answers a chat call with this body once.
async fn answered(pieces: &'static [&'static str]) -> (World, Row) {
    let world = World::new().await;
    world.rule(RuleType::DailyBudget, json!({"limit": "10.00"}));
    let base = scripted(pieces).await;
    world.put(service("once", &base, ServiceKind::Openai));
    let url = world.url("/proxy/once/v1/chat/completions");
    drop(http::try_request(Method::POST, &url, &[JSON], chat(100).to_string()).await);
    let row = world.last_row().await;
    assert_eq!(world.spent().1.micros(), 0, "nothing stays reserved");
    (world, row)
}

#[tokio::test]
async fn an_answer_without_usage_is_estimated_and_never_free() {
    for pieces in [
        &["HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"][..],
        &["HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"],
        &["HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{\"usage\""],
        &["HTTP/1.1 200 OK\r\nContent-Length: 16\r\n\r\n{\"usage\":\"much\"}"],
        &[
            "HTTP/1.1 200 OK\r\nContent-Length: 47\r\n\r\n{\"usage\":{\"prompt_tokens\":-1,\"completion_tokens\":1}}",
        ],
        &["HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc"],
        &["HTTP/1.1 200 OK\r\nContent-Encoding: what\r\nContent-Length: 3\r\n\r\nabc"],
        &[
            "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\ndata: [DONE]\n\n",
        ],
    ] {
        let (_, row) = answered(pieces).await;
        assert!(row.estimated, "{pieces:?}");
        // The input alone, at the least, and never more than was reserved.
        let reserved = 100 * 10 + 200 * 3;
        assert!(cost(&row) > 100 && cost(&row) <= reserved, "{pieces:?}: {}", row.cost);
    }
}

#[tokio::test]
async fn compressed_answers_are_read_and_pass_unchanged() {
    let world = World::new().await;
    world.rule(RuleType::DailyBudget, json!({"limit": "10.00"}));
    let body = r#"{"choices":[],"usage":{"prompt_tokens":1000,"completion_tokens":100}}"#;
    let packed = gzip(body.as_bytes());
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {}\r\n\r\n",
        packed.len()
    );
    let base = saying([head.as_bytes(), &packed].concat()).await;
    world.put(service("packed", &base, ServiceKind::Openai));
    let headers = [("accept-encoding", "gzip")];
    let answer = post(&world, "/proxy/packed/v1/chat/completions", &headers, &chat(100)).await;
    assert_eq!(answer.body, packed);
    let row = world.last_row().await;
    assert_eq!((cost(&row), row.estimated), (3_500, false));
}

#[tokio::test]
async fn a_maximum_is_lowered_where_the_operator_lets_it() {
    let options = ProxyOptions { clamp_max_tokens: true, ..ProxyOptions::default() };
    let world = World::with(options).await;
    world.rule(RuleType::DailyBudget, json!({"limit": "0.01"}));
    let path = "/proxy/openai/v1/chat/completions";
    let answer = post(&world, path, &[("x-test-events", "5000")], &chat(5_000)).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let lowered: u64 = answer.header("x-agentguard-max-tokens").unwrap().parse().unwrap();
    assert!((900..1_000).contains(&lowered), "{lowered}");
    assert_eq!(answer.json()["usage"]["completion_tokens"], lowered);
    assert!(world.spent().0.micros() <= 10_000);
    // What fits is left alone; what cannot be made to fit is refused.
    let answer = post(&world, path, &[], &chat(5_000)).await;
    check_refused(&world, &answer, 403, "DAILY_BUDGET_EXCEEDED").await;
    assert_eq!(world.upstream.stats().requests, 1);
}

#[tokio::test]
async fn a_bomb_as_an_answer_passes_as_it_is_and_is_settled_by_estimate() {
    let world = World::new().await;
    world.rule(RuleType::DailyBudget, json!({"limit": "10.00"}));
    let bomb = gzip(&vec![b' '; 100 * 1024 * 1024]);
    assert!(bomb.len() < 200_000);
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {}\r\n\r\n",
        bomb.len()
    );
    let base = saying([head.as_bytes(), &bomb].concat()).await;
    world.put(service("bomb", &base, ServiceKind::Openai));
    let answer = post(&world, "/proxy/bomb/v1/chat/completions", &[], &chat(100)).await;
    assert_eq!(answer.body, bomb);
    let row = world.last_row().await;
    assert!(row.estimated && cost(&row) > 0);
    assert_eq!(world.spent(), (row.cost, Default::default()));
}

#[tokio::test]
async fn a_maximum_of_another_call_bounds_nothing() {
    let world = World::new().await;
    world.rule(RuleType::PerCallLimit, json!({"limit": "0.10"}));
    let mut body = chat(1);
    body.as_object_mut().unwrap().remove("max_tokens");
    body["max_output_tokens"] = 1.into();
    let answer = post(&world, "/proxy/openai/v1/chat/completions", &[], &body).await;
    check_refused(&world, &answer, 403, "PER_CALL_LIMIT_EXCEEDED").await;
    assert_eq!(world.upstream.stats().requests, 0);
}

#[tokio::test]
async fn a_document_whose_client_left_is_charged_all_that_was_reserved() {
    let world = World::new().await;
    world.rule(RuleType::DailyBudget, json!({"limit": "10.00"}));
    // A head and some of the answer; the rest never comes.
    let base = scripted(&["HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n{\"id\":\"x\""]).await;
    world.put(service("slow", &base, ServiceKind::Openai));
    let url = world.url("/proxy/slow/v1/chat/completions");
    drop(http::try_request(Method::POST, &url, &[JSON], chat(5_000).to_string()).await);
    let row = world.last_row().await;
    assert!(row.estimated && cost(&row) >= 50_000, "{}", row.cost);
}

#[tokio::test]
async fn answers_of_odd_statuses_are_never_free() {
    for pieces in [
        &["HTTP/1.1 204 No Content\r\n\r\n"][..],
        &[
            "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-1/9\r\nContent-Length: 2\r\n\r\n{}",
        ],
        &["HTTP/1.1 302 Found\r\nLocation: http://example.com/\r\nContent-Length: 0\r\n\r\n"],
        &["HTTP/1.1 304 Not Modified\r\n\r\n"],
        &["HTTP/1.1 600 What\r\nContent-Length: 0\r\n\r\n"],
        &["HTTP/1.1 100 Continue\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"],
    ] {
        let (_, row) = answered(pieces).await;
        assert!(cost(&row) > 100, "{pieces:?}: {}", row.cost);
    }
}

#[tokio::test]
async fn every_coding_of_a_request_is_seen_through() {
    let world = World::new().await;
    world.rule(RuleType::PerCallLimit, json!({"limit": "0.10"}));
    let url = world.url("/proxy/openai/v1/chat/completions");
    let dear = chat(20_000).to_string();
    let zlib = |text: &[u8]| {
        let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    };
    let zeros = vec![b' '; 30_000_000];
    for (coding, body, code) in [
        ("zstd", zstd::encode_all(dear.as_bytes(), 3).unwrap(), "PER_CALL_LIMIT_EXCEEDED"),
        ("deflate", zlib(dear.as_bytes()), "PER_CALL_LIMIT_EXCEEDED"),
        ("zstd", zstd::encode_all(zeros.as_slice(), 3).unwrap(), "AMOUNT_UNREADABLE"),
        ("deflate", zlib(&zeros), "AMOUNT_UNREADABLE"),
        ("br", b"\x8b\x01\x80abcd\x03".to_vec(), "AMOUNT_UNREADABLE"),
    ] {
        let headers = [JSON, ("content-encoding", coding)];
        let answer = http::request(Method::POST, &url, &headers, body).await;
        assert_eq!(answer.json()["error"]["code"], code, "{coding}");
    }
    assert_eq!(world.upstream.stats().requests, 0);
}
