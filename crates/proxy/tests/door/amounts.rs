//! Money, end to end: what the upstream took is what the gate counted.

use ::http::Method;
use agentguard_core::rule::RuleType;
use agentguard_core::service::ServiceKind;
use agentguard_proxy::ProxyOptions;
use agentguard_testkit::http;
use serde_json::json;

use crate::world::{World, check_refused, scripted, service};

#[tokio::test]
async fn charges_are_counted_as_form_and_as_json() {
    let world = World::new().await;
    let answer =
        world.form("/proxy/stripe/v1/charges", "amount=1999&currency=usd&source=tok_visa").await;
    assert_eq!(answer.status.as_u16(), 200, "{}", answer.text());
    assert_eq!(world.spent().0.micros(), 19_990_000);
    let row = world.last_row().await;
    assert_eq!(row.amount.unwrap().to_string(), "19.99 USD");
    let body = r#"{"amount": 100, "currency": "eur", "source": "tok_visa"}"#;
    assert_eq!(world.json("/proxy/stripe/v1/charges", body).await.status.as_u16(), 200);
    assert_eq!(world.spent().0.micros(), 19_990_000 + 1_080_000);
    let taken = world.upstream.stats().taken_minor;
    assert_eq!((taken["usd"], taken["eur"]), (1999, 100));
    let seen = world.upstream.requests().pop().unwrap();
    assert_eq!(seen.headers["content-length"], body.len().to_string().as_str());
    assert_eq!(seen.body_len, body.len() as u64);
}

#[tokio::test]
async fn a_budget_is_a_ceiling() {
    let world = World::new().await;
    world.rule(RuleType::DailyBudget, json!({"limit": "10.00"}));
    let charge = "amount=400&currency=usd&source=tok_visa";
    for _ in 0..2 {
        assert_eq!(world.form("/proxy/stripe/v1/charges", charge).await.status.as_u16(), 200);
    }
    let answer = world.form("/proxy/stripe/v1/charges", charge).await;
    check_refused(&world, &answer, 403, "DAILY_BUDGET_EXCEEDED").await;
    let details = &answer.json()["error"]["details"];
    assert_eq!((&details["limit"], &details["used"]), (&json!("10.00"), &json!("8.00")));
    assert_eq!(world.upstream.stats().taken_minor["usd"], 800);
    // A call that the upstream declines gives its money back.
    let declined = "amount=200&currency=usd&source=tok_visa";
    let path = "/proxy/stripe/v1/charges?x-test-status=402";
    assert_eq!(world.form(path, declined).await.status.as_u16(), 402);
    assert_eq!(world.form("/proxy/stripe/v1/charges", declined).await.status.as_u16(), 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_at_once_do_not_pass_the_ceiling() {
    let world = World::new().await;
    world.rule(RuleType::DailyBudget, json!({"limit": "10.00"}));
    let calls: Vec<_> = (0..40)
        .map(|_| {
            let url = world.url("/proxy/stripe/v1/charges");
            tokio::spawn(async move {
                let kind = [("content-type", "application/x-www-form-urlencoded")];
                let body = "amount=100&currency=usd&source=tok_visa";
                http::request(Method::POST, &url, &kind, body).await.status.as_u16()
            })
        })
        .collect();
    let mut passed = 0;
    for call in calls {
        passed += usize::from(call.await.unwrap() == 200);
    }
    assert_eq!(passed, 10);
    assert_eq!(world.upstream.stats().taken_minor["usd"], 1000);
    assert_eq!(world.spent().0.micros(), 10_000_000);
}

#[tokio::test]
async fn amounts_that_cannot_be_read_are_refused() {
    let world = World::new().await;
    for body in [
        "currency=usd",
        "amount=5",
        "amount=-5&currency=usd",
        "amount=5&amount=6&currency=usd",
        "amount=5.5&currency=usd",
    ] {
        let answer = world.form("/proxy/stripe/v1/charges", body).await;
        check_refused(&world, &answer, 403, "AMOUNT_UNREADABLE").await;
    }
    let answer = world.json("/proxy/stripe/v1/charges", r#"{"amount":1,"#).await;
    check_refused(&world, &answer, 403, "AMOUNT_UNREADABLE").await;
    let url = world.url("/proxy/stripe/v1/charges");
    for kind in ["text/plain", "multipart/form-data; boundary=x"] {
        let body = "amount=5&currency=usd";
        let answer = http::request(Method::POST, &url, &[("content-type", kind)], body).await;
        check_refused(&world, &answer, 403, "AMOUNT_UNREADABLE").await;
    }
    // A type that is talked away would be read in another way upstream.
    let headers = [("content-type", "application/json"), ("connection", "content-type")];
    let body = r#"{"amount":1,"currency":"usd"}"#;
    let answer = http::request(Method::POST, &url, &headers, body).await;
    check_refused(&world, &answer, 403, "AMOUNT_UNREADABLE").await;
    assert_eq!(world.upstream.stats().requests, 0);
}

#[tokio::test]
async fn no_spelling_of_a_path_slips_past() {
    let world = World::new().await;
    world.rule(RuleType::PerCallLimit, json!({"limit": "1.00"}));
    let dear = "amount=900&currency=usd&source=tok_visa";
    for path in [
        "/v1/charges",
        "/v1/charges/",
        "/v1//charges",
        "/V1/Charges",
        "/v1/%63harges",
        "/v1/charges;a=b",
        "/v1/charges?x=1",
    ] {
        let answer = world.form(&format!("/proxy/stripe{path}"), dear).await;
        check_refused(&world, &answer, 403, "PER_CALL_LIMIT_EXCEEDED").await;
    }
    assert_eq!(world.upstream.stats().charges, 0);
}

#[tokio::test]
async fn an_intent_is_counted_once_when_it_is_made() {
    let world = World::new().await;
    let made = world
        .form(
            "/proxy/stripe/v1/payment_intents",
            "amount=700&currency=usd&payment_method=pm_card_visa",
        )
        .await;
    assert_eq!(made.status.as_u16(), 200, "{}", made.text());
    assert_eq!(world.spent().0.micros(), 7_000_000);
    let id = made.json()["id"].as_str().unwrap().to_owned();
    let path = format!("/proxy/stripe/v1/payment_intents/{id}/confirm");
    let confirmed = world.form(&path, "payment_method=pm_card_visa").await;
    assert_eq!(confirmed.status.as_u16(), 200, "{}", confirmed.text());
    assert_eq!(world.spent().0.micros(), 7_000_000);
    assert_eq!(world.upstream.stats().taken_minor["usd"], 700);
}

#[tokio::test]
async fn a_currency_without_a_rate_is_refused_where_money_is_limited() {
    let world = World::new().await;
    world.rule(RuleType::DailyBudget, json!({"limit": "10.00"}));
    let answer =
        world.form("/proxy/stripe/v1/charges", "amount=5&currency=chf&source=tok_visa").await;
    check_refused(&world, &answer, 403, "CURRENCY_UNKNOWN").await;
}

#[tokio::test]
async fn campaign_budgets_are_counted() {
    let world = World::new().await;
    world.rule(RuleType::DailyBudget, json!({"limit": "10.00"}));
    let path = "/proxy/google-ads/v17/customers/1/campaignBudgets:mutate";
    let body = r#"{"operations":[{"create":{"amountMicros":"3000000"}},{"create":{"amountMicros":"4000000"}}]}"#;
    let answer = world.json(path, body).await;
    assert_eq!(answer.status.as_u16(), 200, "{}", answer.text());
    assert_eq!(world.upstream.stats().ads_micros, 7_000_000);
    assert_eq!(world.spent().0.micros(), 7_000_000);
    let answer = world.json(&path.replace(':', "%3A"), body).await;
    check_refused(&world, &answer, 403, "DAILY_BUDGET_EXCEEDED").await;
}

#[tokio::test]
async fn a_body_over_the_limit_is_refused_only_where_it_must_be_read() {
    let options = ProxyOptions { max_body_inspect_bytes: 100, ..ProxyOptions::default() };
    let world = World::with(options).await;
    let long = format!("amount=5&currency=usd&source=tok_visa&description={}", "x".repeat(100));
    let answer = world.form("/proxy/stripe/v1/charges", &long).await;
    check_refused(&world, &answer, 403, "AMOUNT_UNREADABLE").await;
    assert_eq!(world.form("/proxy/stripe/v1/customers", &long).await.status.as_u16(), 404);
    assert_eq!(world.form("/proxy/plain/echo", &long).await.status.as_u16(), 200);
    // The same without a length up front.
    let wire = format!(
        "POST /proxy/stripe/v1/charges HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nContent-Type: application/x-www-form-urlencoded\r\n\r\n{:x}\r\n{long}\r\n0\r\n\r\n",
        long.len()
    );
    let got = http::raw(world.addr, wire.as_bytes()).await;
    assert_eq!(http::raw_statuses(&got), [403]);
    let short = "amount=5&currency=usd&source=tok_visa";
    let wire = format!(
        "POST /proxy/stripe/v1/charges HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nContent-Type: application/x-www-form-urlencoded\r\n\r\n{:x}\r\n{short}\r\n0\r\n\r\n",
        short.len()
    );
    let got = http::raw(world.addr, wire.as_bytes()).await;
    assert_eq!(http::raw_statuses(&got), [200]);
    assert_eq!(world.upstream.stats().taken_minor["usd"], 5);
}

#[tokio::test]
async fn only_a_status_that_says_no_gives_the_money_back() {
    let world = World::new().await;
    let mut total = 0;
    for (head, cost) in [
        (&["HTTP/1.1 999 Odd\r\ncontent-length: 0\r\n\r\n"], 1_000_000),
        (&["HTTP/1.1 600 Odd\r\ncontent-length: 0\r\n\r\n"], 1_000_000),
        (&["HTTP/1.1 599 No\r\ncontent-length: 0\r\n\r\n"], 0),
        (&["HTTP/1.1 302 Found\r\ncontent-length: 0\r\n\r\n"], 1_000_000),
    ] {
        world.put(service("odd", &scripted(head).await, ServiceKind::Stripe));
        world.form("/proxy/odd/v1/charges", "amount=100&currency=usd&source=tok_visa").await;
        total += cost;
        assert_eq!(world.spent().0.micros(), total, "{head:?}");
    }
}

/// A service without a kind, with these extractors.
fn extracting(base_url: &str, extractors: serde_json::Value) -> agentguard_core::service::Service {
    let mut service = service("shop", base_url, ServiceKind::Generic);
    service.extractors = serde_json::from_value(extractors).unwrap();
    service
}

#[tokio::test]
async fn money_is_where_the_operator_says() {
    let world = World::new().await;
    let base = format!("{}/echo/shop", world.upstream.base_url());
    let extractors = json!([
        {"method": "POST", "path": "/orders/*/pay", "amount": "$.total", "currency": "$.currency"},
        {"path": "/search", "amount": "fixed:0.04"},
        {"path": "/run", "source": "response", "amount": "$.cost", "max": "0.50"},
    ]);
    world.put(extracting(&base, extractors));
    world.rule(RuleType::DailyBudget, json!({"limit": "10.00"}));
    let order = r#"{"total": 2.25, "currency": "usd"}"#;
    assert_eq!(world.json("/proxy/shop/orders/7/pay", order).await.status.as_u16(), 200);
    assert_eq!(world.spent().0.micros(), 2_250_000);
    assert_eq!(world.json("/proxy/shop/orders/7/P%61y", order).await.status.as_u16(), 200);
    assert_eq!(world.spent().0.micros(), 4_500_000, "another spelling pays too");
    let free = world.json("/proxy/shop/orders/7", order).await;
    assert_eq!((free.status.as_u16(), world.spent().0.micros()), (200, 4_500_000));
    assert_eq!(world.json("/proxy/shop/search", "").await.status.as_u16(), 200);
    assert_eq!(world.spent().0.micros(), 4_540_000);
    // A call whose answer names the money holds its maximum.
    assert_eq!(world.json("/proxy/shop/run", "{}").await.status.as_u16(), 200);
    assert!((4_540_000..=5_040_000).contains(&world.spent().0.micros()));
    let twice = r#"{"total": 1, "total": 9, "currency": "usd"}"#;
    let answer = world.json("/proxy/shop/orders/7/pay", twice).await;
    check_refused(&world, &answer, 403, "AMOUNT_UNREADABLE").await;
    let dear = r#"{"total": "9.00", "currency": "usd"}"#;
    let answer = world.json("/proxy/shop/orders/7/pay", dear).await;
    check_refused(&world, &answer, 403, "DAILY_BUDGET_EXCEEDED").await;
}

#[tokio::test]
async fn an_operators_extractor_goes_before_the_one_of_the_kind() {
    let world = World::new().await;
    let mut stripe = service("stripe", &world.upstream.base_url(), ServiceKind::Stripe);
    let fixed = json!([{"path": "/v1/charges", "amount": "fixed:1.50"}]);
    stripe.extractors = serde_json::from_value(fixed).unwrap();
    world.put(stripe);
    let charge = "amount=400&currency=usd&source=tok_visa";
    assert_eq!(world.form("/proxy/stripe/v1/charges", charge).await.status.as_u16(), 200);
    assert_eq!(world.spent().0.micros(), 1_500_000);
}
