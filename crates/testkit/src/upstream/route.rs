//! From method and path to the part that answers.
//!
//! Never here: what is in an answer.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderValue, StatusCode};
use serde_json::{Value, json};

use super::call::{Answer, Call, json as json_answer, latin1};
use super::ledger::Ledger;
use super::serve::Wishes;
use super::stripe::{Act, Stripe};
use super::{ads, anthropic, generic, openai, responses};

/// A test that waits longer than this for one answer is broken.
const DELAY_MS_MAX: u64 = 600_000;

/// All that the upstream holds.
pub(crate) struct Site {
    pub(crate) ledger: Arc<Ledger>,
    stripe: Stripe,
}

impl Site {
    pub(crate) fn new(ledger: Arc<Ledger>) -> Self {
        Self { ledger, stripe: Stripe::new() }
    }
}

pub(crate) async fn answer(call: &Call, site: &Site, wishes: &Wishes) -> Answer {
    let mut answer = dispatch(call, site, wishes).await;
    if let Some(ms) = call.knob_number("x-test-delay-ms") {
        delay(ms).await;
    }
    let headers = answer.headers_mut();
    headers.insert("x-upstream-request-no", HeaderValue::from(call.no));
    let id = HeaderValue::try_from(format!("req_{:010}", call.no)).expect("a plain id");
    headers.insert("request-id", id.clone());
    headers.insert("x-request-id", id);
    answer
}

pub(crate) async fn delay(ms: u64) {
    tokio::time::sleep(Duration::from_millis(ms.min(DELAY_MS_MAX))).await;
}

/// The ledger, for test programs in another process.
pub(crate) fn own_page(page: &str, site: &Site) -> Answer {
    let body = match page {
        "stats" => site.ledger.stats().to_json(),
        "takings" => site.ledger.takings().iter().map(|t| t.to_json()).collect(),
        "requests" => site.ledger.requests().iter().map(seen_json).collect(),
        _ => return generic::not_found(page),
    };
    json_answer(StatusCode::OK, &body)
}

fn seen_json(seen: &super::Seen) -> Value {
    json!({
        "no": seen.no,
        "method": seen.method.as_str(),
        "path_and_query": seen.path_and_query,
        "headers": header_pairs(&seen.headers),
        "body_len": seen.body_len,
        "body_sha256": seen.body_sha256,
        "complete": seen.complete,
    })
}

pub(crate) fn header_pairs(headers: &http::HeaderMap) -> Vec<(String, String)> {
    headers.iter().map(|(name, value)| (name.to_string(), latin1(value.as_bytes()))).collect()
}

async fn dispatch(call: &Call, site: &Site, wishes: &Wishes) -> Answer {
    let ledger = &site.ledger;
    let method = match call.method.as_str() {
        "HEAD" => "GET",
        method => method,
    };
    let path = call.path().trim_start_matches('/');
    let parts: Vec<&str> = path.split('/').collect();
    let stripe = |act: Act<'_>| site.stripe.answer(call, ledger, act);
    match (method, parts.as_slice()) {
        ("POST", ["v1", "charges"]) => stripe(Act::Charge),
        ("POST", ["v1", "payment_intents"]) => stripe(Act::CreateIntent),
        ("POST", ["v1", "payment_intents", id, "confirm"]) => stripe(Act::ConfirmIntent(id)),
        ("POST", ["v1", "transfers"]) => stripe(Act::Transfer),
        ("POST", ["v1", "payouts"]) => stripe(Act::Payout),
        ("POST", ["v1", "refunds"]) => stripe(Act::Refund),
        ("GET", ["v1", "balance"]) => stripe(Act::Balance),
        (
            "GET",
            ["v1", "charges" | "payment_intents" | "transfers" | "payouts" | "refunds", id],
        ) => stripe(Act::Read(id)),
        ("GET", ["v1", "charges"]) => stripe(Act::List("charge")),
        ("POST", ["v1", "chat", "completions"]) => openai::chat(call, ledger),
        ("POST", ["v1", "completions"]) => openai::completion(call, ledger),
        ("POST", ["v1", "embeddings"]) => openai::embeddings(call, ledger),
        ("POST", ["v1", "responses"]) => responses::answer(call, ledger),
        ("GET", ["v1", "models"]) => openai::models(),
        ("POST", ["v1", "messages"]) => anthropic::messages(call, ledger),
        ("POST", ["v1", "messages", "count_tokens"]) => anthropic::count_tokens(call),
        ("POST", [version, "customers", customer, "campaignBudgets:mutate"])
            if version.starts_with('v') =>
        {
            ads::mutate(call, ledger, customer)
        }
        _ => generic::answer(call, ledger, &parts, wishes).await,
    }
}
