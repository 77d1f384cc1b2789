//! The upstream seen from a plain client and from curl: counts, misbehaviour, streams.
#![expect(clippy::disallowed_methods, reason = "starts curl")]

use std::process::Command;
use std::time::Duration;

use agentguard_testkit::http::{Client, raw, raw_for, raw_statuses, request, stream, try_request};
use agentguard_testkit::upstream::{AMOUNT_DECLINED, AMOUNT_FAULT, StreamEnd, TakingKind};
use agentguard_testkit::{Recording, Upstream, UpstreamOptions, process};
use http::Method;
use serde_json::{Value, json};

const FORM: (&str, &str) = ("content-type", "application/x-www-form-urlencoded");
const JSON: (&str, &str) = ("content-type", "application/json");
const LIMIT: Duration = Duration::from_secs(20);

async fn post(
    upstream: &Upstream,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> (u16, Value) {
    let url = upstream.base_url() + path;
    let answer = request(Method::POST, &url, headers, body.to_owned()).await;
    (answer.status.as_u16(), answer.json())
}

#[tokio::test]
async fn form_and_json_charges_are_counted_per_currency() {
    let up = Upstream::start().await;
    let marks = [FORM, ("x-test-id", "a"), ("x-test-id", "b"), ("idempotency-key", "k1")];
    let (status, charge) =
        post(&up, "/v1/charges", &marks, "amount=1999&currency=USD&metadata%5Border%5D=7").await;
    assert_eq!(
        (status, &charge["amount"], &charge["currency"]),
        (200, &json!(1999), &json!("usd"))
    );
    assert_eq!(charge["metadata"], json!({"order": "7"}));
    let (status, _) = post(&up, "/v1/charges", &[JSON], r#"{"amount":500,"currency":"jpy"}"#).await;
    assert_eq!(status, 200);
    let stats = up.stats();
    assert_eq!(stats.charges, 2);
    assert_eq!(stats.taken_minor, [("jpy".to_owned(), 500), ("usd".to_owned(), 1999)].into());
    let takings = up.takings();
    assert_eq!(takings[0].test_ids, ["a", "b"]);
    assert_eq!(takings[0].idempotency_key.as_deref(), Some("k1"));
    assert_eq!((takings[0].request_no, takings[0].amount_minor), (1, 1999));
    let read = request(
        Method::GET,
        &format!("{}/v1/charges/{}", up.base_url(), charge["id"].as_str().unwrap()),
        &[],
        "",
    )
    .await;
    assert_eq!(read.json(), charge);
}

#[tokio::test]
async fn one_idempotency_key_takes_money_once() {
    let up = Upstream::start().await;
    let headers = [FORM, ("idempotency-key", "once")];
    let (_, first) = post(&up, "/v1/charges", &headers, "amount=10&currency=usd").await;
    let (_, again) = post(&up, "/v1/charges", &headers, "amount=10&currency=usd").await;
    let (status, other) = post(&up, "/v1/charges", &headers, "amount=11&currency=usd").await;
    assert_eq!(first, again);
    assert_eq!((status, &other["error"]["type"]), (400, &json!("idempotency_error")));
    assert_eq!((up.stats().charges, up.stats().replays), (1, 1));
}

#[tokio::test]
async fn refused_amounts_take_nothing() {
    let up = Upstream::start().await;
    let declined = format!("amount={AMOUNT_DECLINED}&currency=usd");
    let fault = format!("amount={AMOUNT_FAULT}&currency=usd");
    for (body, status, code) in [
        (declined.as_str(), 402, json!("card_declined")),
        (fault.as_str(), 500, Value::Null),
        ("currency=usd", 400, json!("parameter_missing")),
        ("amount=1.5&currency=usd", 400, json!("parameter_invalid_integer")),
        ("amount=-5&currency=usd", 400, json!("parameter_invalid_integer")),
        ("amount=5", 400, json!("parameter_missing")),
    ] {
        let (got, answer) = post(&up, "/v1/charges", &[FORM], body).await;
        assert_eq!((got, &answer["error"]["code"]), (status, &code), "{body}");
    }
    assert_eq!(up.stats().charges, 0);
    assert!(up.takings().is_empty());
}

#[tokio::test]
async fn an_intent_takes_money_when_it_is_confirmed_and_a_refund_gives_it_back() {
    let up = Upstream::start().await;
    let (_, intent) = post(&up, "/v1/payment_intents", &[FORM], "amount=700&currency=usd").await;
    assert_eq!(
        (intent["status"].as_str(), up.stats().charges),
        (Some("requires_payment_method"), 0)
    );
    let confirm = format!("/v1/payment_intents/{}/confirm", intent["id"].as_str().unwrap());
    let (_, paid) = post(&up, &confirm, &[FORM], "").await;
    assert_eq!(paid["status"], "succeeded");
    let (status, _) = post(&up, &confirm, &[FORM], "").await;
    assert_eq!((status, up.stats().charges), (400, 1));
    let refund = format!("payment_intent={}&amount=200", intent["id"].as_str().unwrap());
    let (status, _) = post(&up, "/v1/refunds", &[FORM], &refund).await;
    assert_eq!((status, up.stats().refunded_minor["usd"]), (200, 200));
    let refund = format!("charge={}&amount=501", paid["latest_charge"].as_str().unwrap());
    let (status, _) = post(&up, "/v1/refunds", &[FORM], &refund).await;
    assert_eq!((status, up.stats().taken_minor["usd"]), (400, 700));
    assert_eq!(up.takings()[1].kind, TakingKind::Refund);
}

#[tokio::test]
async fn ads_budgets_are_all_or_none() {
    let up = Upstream::start().await;
    let path = "/v19/customers/123/campaignBudgets:mutate";
    let good = json!({"operations": [{"create": {"amountMicros": "5000000"}}, {"update": {"resourceName": "customers/123/campaignBudgets/9", "amountMicros": 7}}, {"remove": "customers/123/campaignBudgets/8"}]});
    let (status, answer) = post(&up, path, &[JSON], &good.to_string()).await;
    assert_eq!((status, answer["results"].as_array().unwrap().len()), (200, 3));
    let bad = json!({"operations": [{"create": {"amountMicros": "5"}}, {"change": {}}]});
    let (status, _) = post(&up, path, &[JSON], &bad.to_string()).await;
    assert_eq!((status, up.stats().ads_micros), (400, 5_000_007));
}

#[tokio::test]
async fn requests_are_shown_as_they_came() {
    let up = Upstream::start().await;
    let url = up.base_url() + "/echo/a%2Fb?x=%20&y";
    let echo = request(Method::PUT, &url, &[("x-one", "1"), ("x-one", "2")], "hello").await.json();
    assert_eq!(
        (&echo["method"], &echo["path"], &echo["query"]),
        (&json!("PUT"), &json!("/echo/a%2Fb"), &json!("x=%20&y"))
    );
    let hash = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";
    assert_eq!((&echo["body_len"], &echo["body_sha256"]), (&json!(5), &json!(hash)));
    let seen = up.requests();
    assert_eq!((seen.len(), seen[0].path_and_query.as_str()), (1, "/echo/a%2Fb?x=%20&y"));
    assert_eq!(seen[0].headers.get_all("x-one").iter().count(), 2);
    assert_eq!((seen[0].body_sha256.as_str(), seen[0].body_len), (hash, 5));
}

#[tokio::test]
async fn a_guard_token_is_noticed_wherever_it_hides() {
    let up = Upstream::start().await;
    let url = up.base_url() + "/echo";
    let basic = "Basic YWdfbGl2ZV94eDo="; // ag_live_xx:
    for headers in [
        [("authorization", "Bearer ag_live_xx")],
        [("x-api-key", "ag_live_xx")],
        [("authorization", basic)],
    ] {
        request(Method::GET, &url, &headers, "").await;
    }
    request(Method::GET, &(url.clone() + "?key=ag_live_xx"), &[], "").await;
    assert_eq!(up.stats().guard_tokens_seen, 4);
    request(Method::GET, &url, &[("authorization", "Bearer sk_test")], "").await;
    assert_eq!(up.stats().guard_tokens_seen, 4);
}

#[tokio::test]
async fn a_body_that_breaks_off_takes_nothing_and_is_seen_as_incomplete() {
    let up = Upstream::start().await;
    let head =
        "POST /v1/charges HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\namount=5&currency=usd";
    raw_for(up.addr(), head.as_bytes(), Duration::from_millis(100)).await;
    process::poll(LIMIT, || (up.stats().requests_incomplete == 1).then_some(())).unwrap();
    assert_eq!((up.stats().charges, up.requests()[0].complete), (0, false));
}

#[tokio::test]
async fn an_endless_stream_ends_when_the_client_goes() {
    let up = Upstream::start().await;
    let url = up.base_url() + "/stream?interval_ms=1";
    let mut one = stream(Method::GET, &url, &[], "").await.unwrap();
    let two = stream(Method::GET, &url, &[], "").await.unwrap();
    let chunk = one.next().await.unwrap().unwrap();
    assert!(chunk.at >= one.sent_at);
    up.wait_open_streams(2, LIMIT).await;
    drop(one);
    up.wait_open_streams(1, LIMIT).await;
    drop(two);
    up.wait_open_streams(0, LIMIT).await;
    for row in up.streams() {
        let (at, end) = row.closed().unwrap();
        assert_eq!(end, StreamEnd::Dropped);
        assert!(at >= row.opened_at);
    }
}

#[tokio::test]
async fn events_come_one_by_one_at_their_pace() {
    let up = Upstream::start().await;
    let url = up.base_url() + "/stream?events=5&interval_ms=30";
    let mut events = stream(Method::GET, &url, &[], "").await.unwrap();
    let mut instants = Vec::new();
    while let Some(chunk) = events.next().await {
        instants.push(chunk.unwrap().at);
    }
    assert_eq!(instants.len(), 5);
    assert!(instants[4] - instants[0] >= Duration::from_millis(100));
    let rows = up.streams();
    assert_eq!((rows[0].events_sent(), rows[0].closed().unwrap().1), (5, StreamEnd::Finished));
    assert_eq!(up.open_streams(), 0);
}

#[tokio::test]
async fn chat_streams_tell_usage_only_when_asked() {
    let up = Upstream::start().await;
    let plain =
        r#"{"model":"gpt-4o","stream":true,"messages":[{"role":"user","content":"12345678"}]}"#;
    let asked = plain
        .replace("\"stream\":true", "\"stream\":true,\"stream_options\":{\"include_usage\":true}");
    let url = up.base_url() + "/v1/chat/completions";
    let headers = [JSON, ("x-test-events", "3")];
    let without = request(Method::POST, &url, &headers, plain).await.text();
    let with = request(Method::POST, &url, &headers, asked).await.text();
    assert!(!without.contains("usage"), "{without}");
    assert!(without.ends_with("data: [DONE]\n\n"));
    let usage = with.rsplit("\n\n").nth(2).unwrap();
    // "user" and "12345678": twelve bytes are three tokens.
    assert!(
        usage.contains(r#""prompt_tokens":3"#) && usage.contains(r#""completion_tokens":3"#),
        "{usage}"
    );
    assert_eq!((up.stats().input_tokens, up.stats().output_tokens), (6, 6));
}

#[tokio::test]
async fn misbehaviour_is_really_on_the_wire() {
    let up = Upstream::start().await;
    let reset = try_request(Method::GET, &(up.base_url() + "/reset"), &[], "").await;
    let text = reset.unwrap_err().to_string();
    assert!(text.contains("reset"), "{text}");
    assert!(try_request(Method::GET, &(up.base_url() + "/short"), &[], "").await.is_err());
    let short = raw(up.addr(), b"GET /short HTTP/1.1\r\nhost: x\r\n\r\n").await;
    let short = String::from_utf8(short).unwrap();
    assert!(
        short.contains("content-length: 1000") && short.ends_with("\r\n\r\n0123456789"),
        "{short}"
    );
    let mut trailers =
        stream(Method::GET, &(up.base_url() + "/trailers"), &[("te", "trailers")], "")
            .await
            .unwrap();
    while let Some(chunk) = trailers.next().await {
        chunk.unwrap();
    }
    assert_eq!(trailers.trailers.as_ref().unwrap()["x-checksum"], "0123456789");
    let moved =
        request(Method::GET, &(up.base_url() + "/redirect?to=http%3A%2F%2Fx%2F&code=307"), &[], "")
            .await;
    assert_eq!((moved.status.as_u16(), moved.header("location")), (307, Some("http://x/")));
    assert_eq!(request(Method::GET, &(up.base_url() + "/status/503"), &[], "").await.status, 503);
    assert_eq!(
        request(Method::GET, &(up.base_url() + "/bytes/100000"), &[], "").await.body.len(),
        100_000
    );
}

#[tokio::test]
async fn two_answers_on_one_connection_are_told_apart() {
    let up = Upstream::start().await;
    let two = b"GET /status/201 HTTP/1.1\r\nhost: x\r\n\r\nGET /status/404 HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    assert_eq!(raw_statuses(&raw(up.addr(), two).await), [201, 404]);
}

#[tokio::test]
async fn counts_only_keeps_money_and_forgets_requests() {
    let options = UpstreamOptions {
        recording: Recording::CountsOnly,
        workers: 2,
        ..UpstreamOptions::default()
    };
    let up = Upstream::start_with(options);
    let client = Client::new();
    let url = up.base_url() + "/v1/charges";
    for _ in 0..3 {
        client.request(Method::POST, &url, &[FORM], "amount=5&currency=usd").await.unwrap();
    }
    assert_eq!((up.stats().requests, up.stats().connections), (3, 1));
    assert_eq!(up.stats().taken_minor["usd"], 15);
    assert!(up.requests().is_empty());
}

#[test]
fn curl_understands_both_versions_gzip_and_streams() {
    let up = Upstream::start_with(UpstreamOptions::default());
    let curl = |args: &[&str]| {
        let mut command = Command::new("curl");
        command.args(["-sS", "--noproxy", "*"]).args(args);
        let output = process::run(command, LIMIT);
        assert!(output.status.success(), "{}", process::show(&output));
        String::from_utf8(output.stdout).unwrap()
    };
    let url = |path: &str| up.base_url() + path;
    assert_eq!(curl(&["--compressed", &url("/gzip")]), "a".repeat(1024));
    assert_eq!(
        curl(&["--http2-prior-knowledge", "-w", "%{http_version}", &url("/bytes/2")]),
        "002"
    );
    let charge: Value = serde_json::from_str(&curl(&[
        "-u",
        "sk_test:",
        "-d",
        "amount=900",
        "-d",
        "currency=usd",
        &url("/v1/charges"),
    ]))
    .unwrap();
    assert_eq!(charge["amount"], 900);
    assert!(curl(&["-N", &url("/stream?events=3")]).ends_with("data: {\"n\":2}\n\n"));
    assert_eq!(curl(&["-I", "-o", "/dev/null", "-w", "%{http_code}", &url("/bytes/10")]), "200");
    let stats: Value = serde_json::from_str(&curl(&[&url("/__testkit/stats")])).unwrap();
    assert_eq!((&stats["requests"], &stats["taken_minor"]), (&json!(5), &json!({"usd": 900})));
}
