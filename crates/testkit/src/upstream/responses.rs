//! OpenAI's Responses API, whole and as events.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use http::StatusCode;
use serde_json::{Value, json};

use super::call::{Answer, Call, json as json_answer};
use super::ledger::Ledger;
use super::model::{Ask, CREATED_AT, text, word};
use super::openai::accept;
use super::sse::{self, Events};

/// Events before the first word: created, in progress, item added, part added.
const HEAD_EVENTS: u64 = 4;

pub(crate) fn answer(call: &Call, ledger: &Arc<Ledger>) -> Answer {
    let body = match accept(call) {
        Ok(body) => body,
        Err(refused) => return *refused,
    };
    let input = ["input", "instructions", "tools"];
    let ask = Ask::read(call, &body, &input, &["max_output_tokens"]).expect("`accept` saw a model");
    ledger.input_tokens.fetch_add(ask.input_tokens, Relaxed);
    ledger.output_tokens.fetch_add(ask.reasoning_tokens, Relaxed);
    if ask.stream {
        return stream(call, ledger, &ask, &body);
    }
    ledger.output_tokens.fetch_add(ask.output_tokens(), Relaxed);
    json_answer(StatusCode::OK, &ended(call, &ask, &body))
}

fn stream(call: &Call, ledger: &Arc<Ledger>, ask: &Ask, body: &Value) -> Answer {
    let item = item_id(call);
    let started = response(call, ask, body, "in_progress");
    let named = |name: &str, sequence: u64, mut data: Value| {
        data["type"] = name.into();
        data["sequence_number"] = sequence.into();
        sse::event(Some(name), &data)
    };
    let empty = message(call, "in_progress", None);
    let place = json!({"item_id": item, "output_index": 0, "content_index": 0});
    let placed = move |member: &str, value: Value| {
        let mut data = place.clone();
        data[member] = value;
        data
    };
    let head = vec![
        named("response.created", 0, json!({"response": started})),
        named("response.in_progress", 1, json!({"response": started})),
        named("response.output_item.added", 2, json!({"output_index": 0, "item": empty})),
        named("response.content_part.added", 3, placed("part", part(""))),
    ];
    let words = ask.output_tokens();
    let whole = text(words);
    let last = HEAD_EVENTS + words;
    let done = message(call, "completed", Some(&whole));
    let mut text_done = placed("text", whole.clone().into());
    text_done["logprobs"] = json!([]);
    let finale = if ask.cut { "response.incomplete" } else { "response.completed" };
    let tail = vec![
        named("response.output_text.done", last, text_done),
        named("response.content_part.done", last + 1, placed("part", part(&whole))),
        named("response.output_item.done", last + 2, json!({"output_index": 0, "item": done})),
        named(finale, last + 3, json!({"response": ended(call, ask, body)})),
    ];
    let counted = Arc::clone(ledger);
    let each = move |n: u64| {
        counted.output_tokens.fetch_add(1, Relaxed);
        let mut data = placed("delta", word(n).into());
        data["logprobs"] = json!([]);
        named("response.output_text.delta", HEAD_EVENTS + n, data)
    };
    let count = ask.count;
    let each = Box::new(each);
    sse::answer(call, ledger, Events { head, each, count, tail })
}

/// The response at its end, with its usage.
fn ended(call: &Call, ask: &Ask, body: &Value) -> Value {
    let status = if ask.cut { "incomplete" } else { "completed" };
    let mut whole = response(call, ask, body, status);
    if ask.cut {
        whole["incomplete_details"] = json!({"reason": "max_output_tokens"});
    }
    whole["output"] = json!([message(call, status, Some(&text(ask.output_tokens())))]);
    let output = ask.output_tokens() + ask.reasoning_tokens;
    whole["usage"] = json!({
        "input_tokens": ask.input_tokens,
        "input_tokens_details": {
            "cached_tokens": ask.cached_tokens.min(ask.input_tokens),
            "cache_write_tokens": ask.cache_write_tokens,
        },
        "output_tokens": output,
        "output_tokens_details": {"reasoning_tokens": ask.reasoning_tokens},
        "total_tokens": ask.input_tokens + output,
    });
    whole
}

fn response(call: &Call, ask: &Ask, body: &Value, status: &str) -> Value {
    json!({
        "id": format!("resp_{:010}", call.no),
        "object": "response",
        "created_at": CREATED_AT,
        "status": status,
        "error": null,
        "incomplete_details": null,
        "instructions": body["instructions"],
        "max_output_tokens": body["max_output_tokens"],
        "metadata": {},
        "model": ask.model,
        "output": [],
        "parallel_tool_calls": true,
        "previous_response_id": null,
        "reasoning": {"effort": null, "summary": null},
        "store": false,
        "temperature": 1.0,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "truncation": "disabled",
        "usage": null,
    })
}

fn message(call: &Call, status: &str, text: Option<&str>) -> Value {
    let content: Vec<Value> = text.map(part).into_iter().collect();
    json!({
        "id": item_id(call),
        "type": "message",
        "status": status,
        "role": "assistant",
        "content": content,
    })
}

fn part(text: &str) -> Value {
    json!({"type": "output_text", "text": text, "annotations": [], "logprobs": []})
}

fn item_id(call: &Call) -> String {
    format!("msg_{:010}", call.no)
}
