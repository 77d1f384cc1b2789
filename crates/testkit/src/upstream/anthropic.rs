//! Anthropic's Messages API, whole and as events, and its count of tokens.
//!
//! `usage.input_tokens` leaves out what was read from or written to the cache, as the real one does.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use http::StatusCode;
use serde_json::{Value, json};

use super::call::{Answer, Call, json as json_answer};
use super::ledger::Ledger;
use super::model::{Ask, text, word};
use super::sse::{self, Events};

const INPUT: [&str; 3] = ["messages", "system", "tools"];

pub(crate) fn messages(call: &Call, ledger: &Arc<Ledger>) -> Answer {
    let ask = match accept(call, &["model", "messages", "max_tokens"]) {
        Ok(ask) => ask,
        Err(refused) => return *refused,
    };
    ledger.input_tokens.fetch_add(ask.input_tokens, Relaxed);
    if ask.stream {
        return stream(call, ledger, &ask);
    }
    let words = ask.output_tokens();
    ledger.output_tokens.fetch_add(words, Relaxed);
    let mut whole = message(call, &ask, words);
    whole["content"] = json!([{"type": "text", "text": text(words)}]);
    whole["stop_reason"] = stop_reason(&ask).into();
    json_answer(StatusCode::OK, &whole)
}

/// Costs nothing at the real one: not on the ledger's tokens.
pub(crate) fn count_tokens(call: &Call) -> Answer {
    match accept(call, &["model", "messages"]) {
        Ok(ask) => json_answer(StatusCode::OK, &json!({"input_tokens": ask.input_tokens})),
        Err(refused) => *refused,
    }
}

fn accept(call: &Call, needed: &[&str]) -> Result<Ask, Box<Answer>> {
    let refuse = |status, message: &str| Err(Box::new(error(call, status, message)));
    if let Some(status) = call.wanted_status() {
        return refuse(status, "an error, as asked");
    }
    let Ok(body) = call.json() else {
        return refuse(StatusCode::BAD_REQUEST, "The request body is not valid JSON");
    };
    if let Some(name) = needed.iter().find(|name| body[**name].is_null()) {
        return refuse(StatusCode::BAD_REQUEST, &format!("{name}: Field required"));
    }
    match Ask::read(call, &body, &INPUT, &["max_tokens"]) {
        Some(ask) => Ok(ask),
        None => refuse(StatusCode::BAD_REQUEST, "model: Input should be a valid string"),
    }
}

fn stream(call: &Call, ledger: &Arc<Ledger>, ask: &Ask) -> Answer {
    let named = |name: &str, mut data: Value| {
        data["type"] = name.into();
        sse::event(Some(name), &data)
    };
    let head = vec![
        // The real one starts its count of output at 1.
        named("message_start", json!({"message": message(call, ask, 1)})),
        named(
            "content_block_start",
            json!({"index": 0, "content_block": {"type": "text", "text": ""}}),
        ),
        named("ping", json!({})),
    ];
    let mut usage = usage(ask, ask.output_tokens());
    if let Some(usage) = usage.as_object_mut() {
        usage.remove("service_tier");
    }
    let delta = json!({"stop_reason": stop_reason(ask), "stop_sequence": null});
    let tail = vec![
        named("content_block_stop", json!({"index": 0})),
        named("message_delta", json!({"delta": delta, "usage": usage})),
        named("message_stop", json!({})),
    ];
    let counted = Arc::clone(ledger);
    let each = move |n: u64| {
        counted.output_tokens.fetch_add(1, Relaxed);
        let delta = json!({"type": "text_delta", "text": word(n)});
        named("content_block_delta", json!({"index": 0, "delta": delta}))
    };
    let count = ask.count;
    let each = Box::new(each);
    sse::answer(call, ledger, Events { head, each, count, tail })
}

fn message(call: &Call, ask: &Ask, output_tokens: u64) -> Value {
    json!({
        "id": format!("msg_{:010}", call.no),
        "type": "message",
        "role": "assistant",
        "model": ask.model,
        "content": [],
        "stop_reason": null,
        "stop_sequence": null,
        "usage": usage(ask, output_tokens),
    })
}

fn usage(ask: &Ask, output_tokens: u64) -> Value {
    let cached = ask.cached_tokens + ask.cache_write_tokens;
    json!({
        "input_tokens": ask.input_tokens.saturating_sub(cached),
        "cache_creation_input_tokens": ask.cache_write_tokens,
        "cache_read_input_tokens": ask.cached_tokens,
        "output_tokens": output_tokens,
        "service_tier": "standard",
    })
}

fn stop_reason(ask: &Ask) -> &'static str {
    if ask.cut { "max_tokens" } else { "end_turn" }
}

fn error(call: &Call, status: StatusCode, message: &str) -> Answer {
    let kind = match status.as_u16() {
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        429 => "rate_limit_error",
        529 => "overloaded_error",
        500.. => "api_error",
        _ => "invalid_request_error",
    };
    json_answer(
        status,
        &json!({
            "type": "error",
            "error": {"type": kind, "message": message},
            "request_id": format!("req_{:010}", call.no),
        }),
    )
}
