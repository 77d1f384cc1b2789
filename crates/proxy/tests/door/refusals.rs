//! What is refused before anything leaves: each with its code, on the record, and nothing upstream.

use std::sync::atomic::Ordering;

use ::http::Method;
use agentguard_core::rule::RuleType;
use agentguard_core::service::ServiceKind;
use agentguard_gate::{Change, Scope};
use agentguard_testkit::http;
use serde_json::json;

use crate::world::{World, check_answer, check_refused, service, settings};

#[tokio::test]
async fn who_is_not_known_gets_401() {
    let world = World::new().await;
    let unknown = format!("ag_live_{}", "x".repeat(32));
    for token in ["", "hello", "ag_live_short", unknown.as_str()] {
        let answer = world.get_with("/proxy/plain/echo", &[("x-agentguard-token", token)]).await;
        let row = check_refused(&world, &answer, 401, "UNAUTHENTICATED").await;
        assert_eq!(row.agent_id, None);
        assert_eq!(row.target, "/proxy/plain/echo");
        assert_eq!(answer.header("www-authenticate"), Some("Bearer"));
        assert_eq!(answer.header("x-should-retry"), Some("false"));
    }
    assert_eq!(world.upstream.stats().requests, 0);
}

#[tokio::test]
async fn without_a_token_there_must_be_exactly_one_agent() {
    let world = World::new().await;
    assert_eq!(world.get("/proxy/plain/echo").await.status.as_u16(), 200);
    let other = world.add_agent("other");
    let answer = world.get("/proxy/plain/echo").await;
    check_refused(&world, &answer, 401, "UNAUTHENTICATED").await;
    for token in [&world.token, &other] {
        let answer = world.get_with("/proxy/plain/echo", &[("x-agentguard-token", token)]).await;
        assert_eq!(answer.status.as_u16(), 200);
    }
}

#[tokio::test]
async fn a_web_page_cannot_spend() {
    let world = World::new().await;
    for header in [("origin", "https://evil.example"), ("sec-fetch-site", "cross-site")] {
        let answer = world.get_with("/proxy/plain/echo", &[header]).await;
        check_refused(&world, &answer, 401, "UNAUTHENTICATED").await;
        let token = ("x-agentguard-token", world.token.as_str());
        let answer = world.get_with("/proxy/plain/echo", &[header, token]).await;
        assert_eq!(answer.status.as_u16(), 200);
    }
}

#[tokio::test]
async fn a_name_that_a_page_could_point_here_needs_a_token() {
    let world = World::new().await;
    for host in ["evil.example", "evil.example:8080", "localhost.evil.example", "x", "[::1", ""] {
        let answer = world.get_with("/proxy/plain/echo", &[("host", host)]).await;
        check_refused(&world, &answer, 401, "UNAUTHENTICATED").await;
        let token = ("x-agentguard-token", world.token.as_str());
        let answer = world.get_with("/proxy/plain/echo", &[("host", host), token]).await;
        assert_eq!(answer.status.as_u16(), 200, "{host}");
    }
    for host in
        ["localhost", "LocalHost.:8080", "127.0.0.1:1", "192.168.1.7", "[::1]:8080", "[::1]"]
    {
        let answer = world.get_with("/proxy/plain/echo", &[("host", host)]).await;
        assert_eq!(answer.status.as_u16(), 200, "{host}");
    }
}

#[tokio::test]
async fn a_revoked_agent_stays_out() {
    let world = World::new().await;
    world.change(Change::RevokeAgent(world.agent));
    let token = ("x-agentguard-token", world.token.as_str());
    let answer = world.get_with("/proxy/plain/echo", &[token]).await;
    let row = check_refused(&world, &answer, 401, "AGENT_REVOKED").await;
    assert_eq!(row.agent_id, Some(world.agent));
}

#[tokio::test]
async fn an_address_that_is_not_listed_is_denied() {
    let world = World::new().await;
    world.gate.configure(settings(&["10.0.0.0/8"])).unwrap();
    let answer = world.get("/proxy/plain/echo").await;
    check_refused(&world, &answer, 403, "CLIENT_IP_DENIED").await;
}

#[tokio::test]
async fn a_switch_that_is_on_comes_before_everything_but_identity() {
    let world = World::new().await;
    world.kill(Scope::Agent(world.agent));
    let answer = world.get("/proxy/nothing/../x").await;
    check_refused(&world, &answer, 503, "KILL_SWITCH_AGENT").await;
    world.kill(Scope::Global);
    let answer = world.get("/proxy/plain/echo").await;
    check_refused(&world, &answer, 503, "KILL_SWITCH_GLOBAL").await;
    let answer = world.get_with("/proxy/plain/echo", &[("x-agentguard-token", "x")]).await;
    check_refused(&world, &answer, 401, "UNAUTHENTICATED").await;
    assert_eq!(world.upstream.stats().requests, 0);
}

#[tokio::test]
async fn an_alias_must_be_a_service() {
    let world = World::new().await;
    for path in ["/proxy/nothing/v1", "/proxy//v1", "/proxy/Plain/echo", "/proxy/plain@evil/x"] {
        let answer = world.get(path).await;
        check_refused(&world, &answer, 403, "SERVICE_UNKNOWN").await;
    }
}

#[tokio::test]
async fn paths_that_leave_their_base_are_refused_and_not_normalised() {
    let world = World::new().await;
    for path in [
        "/proxy/based/../status/500",
        "/proxy/plain/%2e%2e/x",
        "/proxy/plain/a%2fb",
        "/proxy/plain/a%5Cb",
        "/proxy/plain/%252e%252e/x",
        "/proxy/plain//evil.example/x",
        "/proxy/plain/https://evil.example/",
        "/proxy/plain/a%00b",
    ] {
        let answer = world.get(path).await;
        let row = check_refused(&world, &answer, 403, "DESTINATION_BLOCKED").await;
        assert_eq!(answer.json()["error"]["details"]["why"], "path_escapes_base");
        assert_eq!(row.agent_id, Some(world.agent));
    }
    assert_eq!(world.upstream.stats().requests, 0);
}

#[tokio::test]
async fn private_places_need_the_operators_word() {
    let world = World::new().await;
    let mut closed = service("closed", &world.upstream.base_url(), ServiceKind::Generic);
    closed.allow_private = false;
    world.put(closed.clone());
    let answer = world.get("/proxy/closed/echo").await;
    check_refused(&world, &answer, 403, "DESTINATION_BLOCKED").await;
    let error = &answer.json()["error"];
    assert_eq!(error["details"]["why"], "destination_address");
    assert!(error["details"]["remedy"].as_str().unwrap().contains("allow_private"), "{error}");

    closed.base_url = "http://inside.example".parse().unwrap();
    world.put(closed.clone());
    let answer = world.get("/proxy/closed/echo").await;
    check_refused(&world, &answer, 403, "DESTINATION_BLOCKED").await;

    closed.base_url = world.upstream.base_url().parse().unwrap();
    closed.allow_private = true;
    world.put(closed);
    assert_eq!(world.get("/proxy/closed/echo").await.status.as_u16(), 200);
}

#[tokio::test]
async fn the_gate_does_not_call_itself() {
    let world = World::new().await;
    world.put(service("self", &format!("http://{}", world.addr), ServiceKind::Generic));
    let answer = world.get("/proxy/self/proxy/plain/echo").await;
    // The listener is not declared to the guard here: the mark in `Via` is the second line.
    assert_eq!(answer.status.as_u16(), 508);
    assert_eq!(answer.json()["error"]["code"], "LOOP_DETECTED");
    world.guard.set_own_listeners(&[world.addr]);
    let answer = world.get("/proxy/self/proxy/plain/echo").await;
    check_refused(&world, &answer, 403, "DESTINATION_BLOCKED").await;
    assert_eq!(world.upstream.stats().requests, 0);
}

#[tokio::test]
async fn rules_refuse_with_their_own_codes() {
    let world = World::new().await;
    world.rule(RuleType::MethodRestriction, json!({"allow": ["GET"]}));
    let answer = world.form("/proxy/stripe/v1/customers", "name=x").await;
    let row = check_refused(&world, &answer, 403, "METHOD_RESTRICTED").await;
    assert!(row.rule_id.is_some());
    assert_eq!(answer.json()["error"]["details"]["rule_id"], row.rule_id.unwrap().to_string());
}

#[tokio::test]
async fn a_full_rate_says_when_to_come_back() {
    let world = World::new().await;
    world.rule(RuleType::RateLimitPerMinute, json!({"max": 2}));
    for _ in 0..2 {
        assert_eq!(world.get("/proxy/plain/echo").await.status.as_u16(), 200);
    }
    let answer = world.get("/proxy/plain/echo").await;
    assert_eq!(answer.header("x-ratelimit-limit"), Some("2"));
    assert_eq!(answer.header("x-ratelimit-remaining"), Some("0"));
    let now = world.gate.now().as_micros() / 1_000_000;
    let reset: i64 = answer.header("x-ratelimit-reset").unwrap().parse().unwrap();
    assert!((now..=now + 63).contains(&reset), "{reset} at {now}");
    let after: i64 = answer.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=62).contains(&after), "{after}");
    assert_eq!(answer.header("x-should-retry"), Some("true"));
    check_answer(&answer, 429, "RATE_LIMITED");
}

#[tokio::test]
async fn what_cannot_be_recorded_is_not_done() {
    let world = World::new().await;
    world.record.is_full.store(true, Ordering::SeqCst);
    let answer = world.get("/proxy/plain/echo").await;
    check_answer(&answer, 503, "AUDIT_UNAVAILABLE");
    assert_eq!(world.upstream.stats().requests, 0);
}

#[tokio::test]
async fn a_token_in_the_url_does_not_leave() {
    let world = World::new().await;
    let path = format!("/proxy/plain/echo?key={}", world.token);
    let answer = world.get(&path).await;
    let row = check_refused(&world, &answer, 400, "BAD_REQUEST").await;
    assert!(!row.target.contains(&world.token), "{}", row.target);
    let encoded = world.token.replacen("ag_", "%61g%5F", 1);
    let twice = world.token.replacen("ag_", "%2561g_", 1);
    for path in
        [format!("echo?key={encoded}"), format!("echo/{encoded}"), format!("echo?k={twice}")]
    {
        let answer = world.get(&format!("/proxy/plain/{path}")).await;
        let row = check_refused(&world, &answer, 400, "BAD_REQUEST").await;
        let body = world.token.trim_start_matches("ag_live_");
        assert!(!row.target.contains(body), "{}", row.target);
    }
    assert_eq!(world.upstream.stats().requests, 0);
}

#[tokio::test]
async fn what_is_no_call_is_answered_and_not_recorded() {
    let world = World::new().await;
    check_answer(&world.get("/").await, 404, "NOT_FOUND");
    check_answer(&world.get("/healthz").await, 404, "NOT_FOUND");
    let trace = http::request(Method::TRACE, &world.url("/proxy/plain/echo"), &[], "").await;
    check_answer(&trace, 405, "METHOD_NOT_ALLOWED");
    assert!(trace.header("allow").unwrap().contains("PATCH"));
    for line in ["CONNECT example.com:443 HTTP/1.1", "GET http://example.com/ HTTP/1.1"] {
        let wire = format!("{line}\r\nHost: example.com\r\nConnection: close\r\n\r\n");
        let got = http::raw(world.addr, wire.as_bytes()).await;
        assert_eq!(http::raw_statuses(&got), [501], "{line}");
    }
    assert!(world.get("/proxy/nothing/x").await.status.as_u16() == 403);
    assert_eq!(world.rows(1).await.len(), 1);
}
