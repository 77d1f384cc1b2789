//! Who is turned away, at every route.

use agentguard_admin::{Nonce, Proof};
use agentguard_core::token::Token;
use axum::body::Body;
use axum::http::StatusCode;

use crate::fakes::{Endpoint, HOST};

const ROUTES: [(&str, &str); 23] = [
    ("GET", "/api/v1/agents"),
    ("POST", "/api/v1/agents"),
    ("GET", "/api/v1/agents/default"),
    ("POST", "/api/v1/agents/default/rotate-token"),
    ("POST", "/api/v1/agents/default/pause"),
    ("POST", "/api/v1/agents/default/resume"),
    ("POST", "/api/v1/agents/default/revoke"),
    ("GET", "/api/v1/rule-sets"),
    ("POST", "/api/v1/rule-sets"),
    ("GET", "/api/v1/rule-sets/default/rules"),
    ("POST", "/api/v1/rule-sets/default/rules"),
    ("DELETE", "/api/v1/rule-sets/default/rules"),
    ("DELETE", "/api/v1/rules/0190d3a2-0000-7000-8000-000000000000"),
    ("GET", "/api/v1/services"),
    ("PUT", "/api/v1/services/openai"),
    ("DELETE", "/api/v1/services/openai"),
    ("GET", "/api/v1/kill-switch"),
    ("POST", "/api/v1/kill-switch"),
    ("POST", "/api/v1/explain"),
    ("GET", "/api/v1/spend"),
    ("GET", "/api/v1/policy"),
    ("POST", "/api/v1/policy"),
    ("POST", "/api/v1/record/flush"),
];

async fn check(endpoint: &Endpoint, headers: &[(&str, &str)], expected: StatusCode, code: &str) {
    for (method, path) in ROUTES.into_iter().chain([("GET", "/nowhere"), ("PUT", "/api/v1/x")]) {
        let (status, body) = endpoint.raw(method, path, headers, Body::empty()).await;
        assert_eq!((status, &body["error"]["code"]), (expected, &code.into()), "{method} {path}");
        assert!(body["error"]["request_id"].is_string(), "{body}");
    }
}

#[tokio::test]
async fn nobody_comes_in_without_the_management_token() {
    let endpoint = Endpoint::new();
    let wrong = format!("Bearer ag_admin_{}", "A".repeat(32));
    let agent = format!("Bearer {}", endpoint.agent_token);
    let basic = format!("Basic {}", endpoint.token);
    let cut = format!("Bearer {}", endpoint.token.trim_end_matches(|c: char| c.is_alphanumeric()));
    let tokens = ["", "Bearer", "Bearer ", "Bearer x", &wrong, &agent, &basic, &cut];
    check(&endpoint, &[("host", HOST)], StatusCode::UNAUTHORIZED, "UNAUTHENTICATED").await;
    for token in tokens {
        let headers = [("host", HOST), ("authorization", token)];
        check(&endpoint, &headers, StatusCode::UNAUTHORIZED, "UNAUTHENTICATED").await;
    }
    let bearer = format!("Bearer {}", endpoint.token);
    let twice = [("host", HOST), ("authorization", bearer.as_str()), ("authorization", &wrong)];
    check(&endpoint, &twice, StatusCode::UNAUTHORIZED, "UNAUTHENTICATED").await;
    let other = [("host", HOST), ("x-agentguard-token", endpoint.token.as_str())];
    check(&endpoint, &other, StatusCode::UNAUTHORIZED, "UNAUTHENTICATED").await;
    assert!(!endpoint.gate.is_stopped());
    assert!(!endpoint.gate.directory().data().rule_sets[0].rules.is_empty());
}

#[tokio::test]
async fn a_name_pointed_at_loopback_is_refused() {
    let endpoint = Endpoint::new();
    let bearer = format!("Bearer {}", endpoint.token);
    let foreign = [
        "rebound.example",
        "rebound.example:3000",
        "127.0.0.1",
        "127.0.0.1:3001",
        "127.0.0.1:3000.rebound.example",
        "localhost",
        "[::1]",
        "",
        "127.0.0.1:3000, rebound.example",
    ];
    for host in foreign {
        let headers = [("host", host), ("authorization", bearer.as_str())];
        check(&endpoint, &headers, StatusCode::FORBIDDEN, "FORBIDDEN").await;
    }
    let none = [("authorization", bearer.as_str())];
    check(&endpoint, &none, StatusCode::FORBIDDEN, "FORBIDDEN").await;
    let two = [("host", HOST), ("host", "x"), ("authorization", bearer.as_str())];
    check(&endpoint, &two, StatusCode::FORBIDDEN, "FORBIDDEN").await;
}

#[tokio::test]
async fn a_page_of_another_origin_is_refused_even_with_the_token() {
    let endpoint = Endpoint::new();
    let bearer = format!("Bearer {}", endpoint.token);
    let base = [("host", HOST), ("authorization", bearer.as_str())];
    let origins = [
        "https://evil.example",
        "null",
        "http://127.0.0.1:3001",
        "https://127.0.0.1:3000",
        "http://127.0.0.1:3000.evil.example",
        "",
    ];
    for origin in origins {
        let headers = [base[0], base[1], ("origin", origin)];
        check(&endpoint, &headers, StatusCode::FORBIDDEN, "FORBIDDEN").await;
    }
    for site in ["cross-site", "same-site", "odd"] {
        let headers = [base[0], base[1], ("sec-fetch-site", site)];
        check(&endpoint, &headers, StatusCode::FORBIDDEN, "FORBIDDEN").await;
    }
}

#[tokio::test]
async fn the_own_names_and_the_own_origin_pass() {
    let endpoint = Endpoint::new();
    let bearer = format!("Bearer {}", endpoint.token);
    for host in ["127.0.0.1:3000", "localhost:3000", "[::1]:3000", "LOCALHOST:3000"] {
        let origin = "http://localhost:3000";
        let headers = [("host", host), ("authorization", &bearer), ("origin", origin)];
        let (status, _) = endpoint.raw("GET", "/api/v1/agents", &headers, Body::empty()).await;
        assert_eq!(status, StatusCode::OK, "{host}");
    }
}

#[tokio::test]
async fn health_needs_no_token_but_the_right_name() {
    let endpoint = Endpoint::new();
    let get = async |path: &str, host: &str| {
        endpoint.raw("GET", path, &[("host", host)], Body::empty()).await.0.as_u16()
    };
    assert_eq!((get("/healthz", HOST).await, get("/readyz", HOST).await), (200, 503));
    endpoint.admin.set_ready(true);
    assert_eq!((get("/readyz", HOST).await, get("/readyz", "evil.example").await), (200, 403));
    endpoint.admin.set_ready(false);
    assert_eq!(get("/readyz", HOST).await, 503);
}

#[tokio::test]
async fn a_body_that_is_too_large_or_no_json_is_refused() {
    let endpoint = Endpoint::new();
    let bearer = format!("Bearer {}", endpoint.token);
    let headers = [("host", HOST), ("authorization", bearer.as_str())];
    let large = format!("{{\"name\":\"{}\"}}", "a".repeat(1 << 20));
    let (status, body) = endpoint.raw("POST", "/api/v1/agents", &headers, large).await;
    assert_eq!((status.as_u16(), &body["error"]["code"]), (413, &"REQUEST_TOO_LARGE".into()));
    for bad in ["{", "[]", "{\"name\":1}", "{\"name\":\"a\",\"extra\":1}", "\u{0}"] {
        let (status, body) = endpoint.raw("POST", "/api/v1/agents", &headers, bad).await;
        assert_eq!((status.as_u16(), &body["error"]["code"]), (400, &"INVALID_ARGUMENT".into()));
    }
    let (status, body) = endpoint.raw("PATCH", "/api/v1/agents", &headers, "").await;
    assert_eq!((status.as_u16(), &body["error"]["code"]), (405, &"METHOD_NOT_ALLOWED".into()));
}

#[tokio::test]
async fn the_gate_proves_that_it_knows_the_token_to_who_has_none() {
    let endpoint = Endpoint::new();
    let ask = async |query: &str, host: &str| {
        let path = format!("/api/v1/proof{query}");
        endpoint.raw("GET", &path, &[("host", host)], Body::empty()).await
    };
    let nonce = Nonce::new([7; 32]);
    let (status, body) = ask(&format!("?nonce={nonce}"), HOST).await;
    assert_eq!(status, StatusCode::OK, "{body}");
    let hash = Token::parse_admin(&endpoint.token).unwrap().hash();
    let expected = Proof::of(&hash, &nonce, HOST.parse().unwrap());
    assert!(expected.is(body["proof"].as_str().unwrap()), "{body}");
    assert_eq!(body.as_object().unwrap().len(), 1);
    for bad in
        ["", "?nonce=", "?nonce=00", &format!("?nonce={nonce}0"), &format!("?nonce={nonce}&x=1")]
    {
        let (status, body) = ask(bad, HOST).await;
        assert_eq!((status.as_u16(), &body["error"]["code"]), (400, &"INVALID_ARGUMENT".into()));
    }
    assert_eq!(ask(&format!("?nonce={nonce}"), "evil.example").await.0, StatusCode::FORBIDDEN);
}
