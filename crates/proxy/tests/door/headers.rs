//! What passes of a request and an answer, to the byte.

use ::http::Method;
use agentguard_testkit::http;
use serde_json::Value;

use crate::world::World;

fn header<'a>(echo: &'a Value, name: &str) -> Vec<&'a str> {
    let pairs = echo["headers"].as_array().unwrap();
    let named = pairs.iter().filter(|pair| pair[0] == name);
    named.map(|pair| pair[1].as_str().unwrap()).collect()
}

#[tokio::test]
async fn end_to_end_headers_pass_and_the_others_do_not() {
    let world = World::new().await;
    let answer = world
        .get_with(
            "/proxy/plain/echo",
            &[
                ("authorization", "Bearer sk_live_real"),
                ("x-custom", "a"),
                ("x-custom", "b"),
                ("connection", "x-hop"),
                ("x-hop", "1"),
                ("keep-alive", "timeout=5"),
                ("proxy-authorization", "Basic eDp5"),
                ("te", "trailers"),
                ("upgrade", "websocket"),
                ("x-agentguard-token", &world.token),
                ("x-agentguard-other", "1"),
                ("host", "elsewhere.example"),
                ("via", "1.0 before"),
            ],
        )
        .await;
    let echo = answer.json();
    assert_eq!(header(&echo, "authorization"), ["Bearer sk_live_real"]);
    assert_eq!(header(&echo, "x-custom"), ["a", "b"]);
    assert_eq!(header(&echo, "te"), ["trailers"]);
    assert_eq!(header(&echo, "host"), [world.upstream.addr().to_string()]);
    assert_eq!(header(&echo, "via"), ["1.0 before", "1.1 agentguard-00000000"]);
    for gone in [
        "connection",
        "x-hop",
        "keep-alive",
        "proxy-authorization",
        "upgrade",
        "x-agentguard-token",
        "x-agentguard-other",
    ] {
        assert_eq!(header(&echo, gone), [""; 0], "{gone}");
    }
}

#[tokio::test]
async fn a_guard_token_never_goes_upstream() {
    let world = World::new().await;
    world.hold("plain", Some("sk-real"));
    let token = world.token.clone();
    let bearer = format!("Bearer {token}");
    let basic = format!("Basic {}", base64(&format!("user:{token}")));
    let cookie = format!("session=1; token={token}");
    let encoded = format!("token=%61g_live_{}", token.trim_start_matches("ag_live_"));
    let twice = format!("http://x/?t=ag%255flive_{}", token.trim_start_matches("ag_live_"));
    let inner = format!("Basic {}", base64(&format!("x{token}:y")));
    for headers in [
        vec![("x-agentguard-token", token.as_str())],
        vec![("authorization", bearer.as_str())],
        vec![("authorization", basic.as_str())],
        vec![("x-api-key", token.as_str())],
        vec![("x-agentguard-token", token.as_str()), ("cookie", cookie.as_str())],
        vec![("cookie", encoded.as_str()), ("referer", twice.as_str())],
        vec![("authorization", inner.as_str())],
        vec![("x-api-key", basic.as_str())],
        vec![(token.as_str(), "1")],
    ] {
        let answer = world.get_with("/proxy/plain/echo", &headers).await;
        assert_eq!(answer.status.as_u16(), 200, "{}", answer.text());
        assert_eq!(world.last_row().await.agent_id, Some(world.agent));
    }
    assert_eq!(world.upstream.stats().guard_tokens_seen, 0);
    for request in world.upstream.requests() {
        for name in ["cookie", "referer"] {
            assert!(!request.headers.contains_key(name), "{request:?}");
        }
        // What stands in the place of a token is the credential, or nothing.
        let basic = format!("Basic {}", base64("user:sk-real"));
        for name in ["authorization", "x-api-key"] {
            let value = request.headers.get(name).map(|value| value.to_str().unwrap());
            let expected = ["sk-real", "Bearer sk-real", basic.as_str()];
            assert!(value.is_none_or(|value| expected.contains(&value)), "{request:?}");
        }
        assert!(!request.headers.contains_key(token.to_ascii_lowercase()), "{request:?}");
    }
}

#[tokio::test]
async fn every_answer_carries_the_gates_request_id() {
    let world = World::new().await;
    let answer = world.get("/proxy/plain/echo").await;
    let row = world.last_row().await;
    assert_eq!(answer.header("x-agentguard-request-id"), Some(row.id.to_string().as_str()));
    let facts = row.facts.unwrap();
    assert_eq!((&facts["bytes_in"], &facts["exception"]), (&0.into(), &"allow_private".into()));
    // The upstream's own id is another header, and stays.
    assert!(answer.header("x-request-id").unwrap().starts_with("req_"));
}

#[tokio::test]
async fn methods_paths_queries_and_bodies_pass_unchanged() {
    let world = World::new().await;
    let query = "a=1&b=%20%2F..%2f&c=ü".replace('ü', "%C3%BC");
    for method in ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"] {
        let path = format!("/proxy/plain/echo/a%20b/caf%C3%A9/x:y/@z/a..b/?{query}");
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        let body = if method == Method::GET { "" } else { "\u{0}binary\r\n\u{1}é" };
        let echo = http::request(method.clone(), &world.url(&path), &[], body).await.json();
        assert_eq!(echo["method"], method.as_str());
        assert_eq!(echo["path"], "/echo/a%20b/caf%C3%A9/x:y/@z/a..b/");
        assert_eq!(echo["query"], query);
        assert_eq!(echo["body_len"], body.len());
    }
    let row = world.last_row().await;
    assert!(row.target.ends_with("?a=***&b=***&c=***"), "{}", row.target);
}

#[tokio::test]
async fn a_base_path_is_put_before_the_path() {
    let world = World::new().await;
    for (path, expected) in [
        ("/proxy/based/v1/x", "/echo/base/v1/x"),
        ("/proxy/based/", "/echo/base/"),
        ("/proxy/based", "/echo/base"),
    ] {
        assert_eq!(world.get(path).await.json()["path"], expected, "{path}");
    }
}

#[tokio::test]
async fn a_head_request_has_the_length_and_no_body() {
    let world = World::new().await;
    let answer = http::request(Method::HEAD, &world.url("/proxy/plain/bytes/1000"), &[], "").await;
    assert_eq!(answer.header("content-length"), Some("1000"));
    assert_eq!(answer.body.len(), 0);
    let row = world.last_row().await;
    assert_eq!((row.response_status, row.block_reason), (Some(200), None));
    assert!(row.facts.unwrap().get("ended").is_none());
}

#[tokio::test]
async fn header_bytes_that_are_no_utf8_pass() {
    let world = World::new().await;
    let wire = b"GET /proxy/plain/echo HTTP/1.1\r\nHost: localhost\r\nX-Raw: caf\xe9\xff\r\nConnection: close\r\n\r\n";
    let got = http::raw(world.addr, wire).await;
    assert_eq!(http::raw_statuses(&got), [200]);
    let seen = world.upstream.requests().pop().unwrap();
    assert_eq!(seen.headers["x-raw"].as_bytes(), b"caf\xe9\xff");
}

#[tokio::test]
async fn expect_100_continue_works() {
    let world = World::new().await;
    let wire = b"POST /proxy/plain/echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nExpect: 100-continue\r\nConnection: close\r\n\r\nhello";
    let got = http::raw(world.addr, wire).await;
    assert_eq!(http::raw_statuses(&got).last(), Some(&200), "{}", String::from_utf8_lossy(&got));
    let seen = world.upstream.requests().pop().unwrap();
    assert_eq!((seen.body_len, seen.headers.get("expect")), (5, None));
}

#[tokio::test]
async fn redirects_and_compressed_bodies_pass_as_they_are() {
    let world = World::new().await;
    let answer = world.get("/proxy/plain/redirect?to=http://169.254.169.254/").await;
    assert_eq!(answer.status.as_u16(), 302);
    assert_eq!(answer.header("location"), Some("http://169.254.169.254/"));
    let answer = world.get("/proxy/plain/gzip").await;
    assert_eq!(answer.header("content-encoding"), Some("gzip"));
    assert!(answer.body.starts_with(&[0x1f, 0x8b]));
}

fn base64(text: &str) -> String {
    use ::base64::Engine as _;
    ::base64::engine::general_purpose::STANDARD.encode(text)
}
