//! Payment intents: money that was counted may be settled through the gate, and no other.

use ::http::Method;
use agentguard_core::rule::RuleType;
use agentguard_core::service::ServiceKind;
use agentguard_testkit::http::{self, Answer};
use serde_json::json;

use crate::world::{World, check_refused, scripted, service};

const FORM: (&str, &str) = ("content-type", "application/x-www-form-urlencoded");
const DEAR: &str = "amount=9000000&currency=usd&payment_method=pm_card_visa";
const CHEAP: &str = "amount=700&currency=usd&payment_method=pm_card_visa";
const INTENTS: &str = "/proxy/stripe/v1/payment_intents";

/// An intent that the gate has not seen.
async fn made_elsewhere(world: &World, body: &'static str) -> String {
    let url = format!("{}/v1/payment_intents", world.upstream.base_url());
    id(&http::request(Method::POST, &url, &[FORM], body).await)
}

fn id(made: &Answer) -> String {
    assert_eq!(made.status.as_u16(), 200, "{}", made.text());
    made.json()["id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn an_intent_made_elsewhere_is_neither_confirmed_nor_captured() {
    let world = World::new().await;
    world.rule(RuleType::DailyBudget, json!({"limit": "10.00"}));
    let dear = made_elsewhere(&world, DEAR).await;
    let known = id(&world.form(INTENTS, "amount=1&currency=usd").await);
    let before = world.upstream.stats().requests;
    for path in [
        format!("/{dear}/confirm"),
        format!("/{dear}/capture"),
        format!("/{dear}/confirm/"),
        format!("//{dear}//confirm"),
        format!("/{dear}/Confirm"),
        format!("/{dear}/%63onfirm"),
        format!("/%70{}/confirm", dear.strip_prefix('p').unwrap()),
        format!("/{dear};{known}/confirm"),
        format!("/{known};{dear}/confirm"),
        format!("/{dear}/confirm;x={known}"),
        format!("/{dear}/confirm?payment_intent={known}"),
    ] {
        for body in ["", "payment_method=pm_card_visa", "amount=1&currency=usd"] {
            let answer = world.form(&format!("{INTENTS}{path}"), body).await;
            check_refused(&world, &answer, 403, "AMOUNT_UNREADABLE").await;
            let error = &answer.json()["error"];
            assert_eq!(error["details"]["why"], "intent_not_counted", "{path}");
            assert!(error["message"].as_str().unwrap().contains("through this gate"), "{error}");
        }
    }
    assert_eq!(world.upstream.stats().requests, before);
    assert_eq!(world.upstream.stats().taken_minor.get("usd"), None);
}

#[tokio::test]
async fn an_intent_that_one_agent_made_may_be_confirmed_by_another() {
    let world = World::new().await;
    let other = world.add_agent("other");
    let post = |path: String, token: String, body: &'static str| {
        let url = world.url(&path);
        async move {
            let headers = [FORM, ("x-agentguard-token", token.as_str())];
            http::request(Method::POST, &url, &headers, body).await
        }
    };
    let made = id(&post(INTENTS.to_owned(), world.token.clone(), CHEAP).await);
    let answer = post(format!("{INTENTS}/{made}/confirm"), other, "").await;
    assert_eq!(answer.status.as_u16(), 200, "{}", answer.text());
    assert_eq!(world.spent().0.micros(), 7_000_000);
    assert_eq!(world.upstream.stats().taken_minor["usd"], 700);
}

#[tokio::test]
async fn an_intent_made_with_confirm_counts_once() {
    let world = World::new().await;
    let made = world.form(INTENTS, &format!("{CHEAP}&confirm=true")).await;
    assert_eq!(made.status.as_u16(), 200, "{}", made.text());
    assert_eq!(world.spent().0.micros(), 7_000_000);
    assert_eq!(world.upstream.stats().taken_minor["usd"], 700);
}

#[tokio::test]
async fn an_intent_is_known_under_its_own_service_only() {
    let world = World::new().await;
    world.put(service("second", &world.upstream.base_url(), ServiceKind::Stripe));
    let made = id(&world.form(INTENTS, CHEAP).await);
    let answer = world.form(&format!("/proxy/second/v1/payment_intents/{made}/confirm"), "").await;
    check_refused(&world, &answer, 403, "AMOUNT_UNREADABLE").await;
}

#[tokio::test]
async fn an_id_that_comes_in_pieces_is_read() {
    let world = World::new().await;
    let made = scripted(&[
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n8\r\n{\"id\":\"p\r\n",
        "f\r\ni_9\",\"amount\":7\r\n1\r\n}\r\n",
        "0\r\n\r\n",
    ]);
    world.put(service("moving", &made.await, ServiceKind::Stripe));
    let answer = world.form("/proxy/moving/v1/payment_intents", CHEAP).await;
    assert_eq!(answer.text(), r#"{"id":"pi_9","amount":7}"#);
    // The same alias, and behind it an upstream that knows no such intent: the gate let it pass.
    world.put(service("moving", &world.upstream.base_url(), ServiceKind::Stripe));
    let answer = world.form("/proxy/moving/v1/payment_intents/pi_9/confirm", "").await;
    assert_eq!(answer.status.as_u16(), 404, "{}", answer.text());
}

#[tokio::test]
async fn a_creation_that_was_not_charged_makes_nothing_known() {
    let world = World::new().await;
    let made = scripted(&["HTTP/1.1 402 No\r\ncontent-length: 13\r\n\r\n", r#"{"id":"pi_9"}"#]);
    world.put(service("moving", &made.await, ServiceKind::Stripe));
    let answer = world.form("/proxy/moving/v1/payment_intents", CHEAP).await;
    assert_eq!((answer.status.as_u16(), answer.text().as_str()), (402, r#"{"id":"pi_9"}"#));
    let answer = world.form("/proxy/moving/v1/payment_intents/pi_9/confirm", "").await;
    check_refused(&world, &answer, 403, "AMOUNT_UNREADABLE").await;
}

#[tokio::test]
async fn a_creation_is_answered_uncompressed_and_nothing_else_is_asked_to_be() {
    let world = World::new().await;
    let sent = [FORM, ("accept-encoding", "gzip, br")];
    for (path, expected) in
        [("/v1/payment_intents", "identity"), ("/v1/charges", "gzip, br"), ("/echo", "gzip, br")]
    {
        let url = world.url(&format!("/proxy/stripe{path}"));
        http::request(Method::POST, &url, &sent, CHEAP).await;
        let seen = world.upstream.requests().pop().unwrap();
        let codings: Vec<_> = seen.headers.get_all("accept-encoding").iter().collect();
        assert_eq!(codings, [expected], "{path}");
    }
}

#[tokio::test]
async fn a_currency_is_not_changed_without_its_amount() {
    let world = World::new().await;
    let made = id(&world.form(INTENTS, "amount=900000&currency=jpy").await);
    for path in [format!("{INTENTS}/{made}"), format!("{INTENTS}/{made}/confirm")] {
        // 900,000 yen would become 9,000 dollars.
        let answer = world.form(&path, "currency=usd").await;
        check_refused(&world, &answer, 403, "AMOUNT_UNREADABLE").await;
    }
}
