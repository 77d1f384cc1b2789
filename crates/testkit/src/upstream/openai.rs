//! OpenAI: chat completions, completions, embeddings and the list of models.
//!
//! With `n` choices the words go round: event `i` belongs to choice `i % n`.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use base64::Engine as _;
use bytes::Bytes;
use http::StatusCode;
use serde_json::{Value, json};

use super::call::{Answer, Call, json as json_answer};
use super::ledger::Ledger;
use super::model::{Ask, CREATED_AT, input_tokens, text, word};
use super::sse::{self, Count, Events};

const CHOICES_MAX: u64 = 128;
const DIMENSIONS_DEFAULT: u64 = 8;
const DIMENSIONS_MAX: u64 = 4096;

/// Chat and the older completions differ in names and in where the words stand.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Chat,
    Plain,
}

pub(crate) fn chat(call: &Call, ledger: &Arc<Ledger>) -> Answer {
    generate(call, ledger, Form::Chat)
}

pub(crate) fn completion(call: &Call, ledger: &Arc<Ledger>) -> Answer {
    generate(call, ledger, Form::Plain)
}

pub(crate) fn models() -> Answer {
    let models = ["gpt-4o", "gpt-4o-mini", "text-embedding-3-small"].map(
        |id| json!({"id": id, "object": "model", "created": CREATED_AT, "owned_by": "openai"}),
    );
    json_answer(StatusCode::OK, &json!({"object": "list", "data": models}))
}

pub(crate) fn embeddings(call: &Call, ledger: &Arc<Ledger>) -> Answer {
    let body = match accept(call) {
        Ok(body) => body,
        Err(refused) => return *refused,
    };
    // A list of numbers is one input that was made into tokens already.
    let inputs = body["input"]
        .as_array()
        .filter(|items| !items.iter().all(Value::is_number))
        .map_or(1, Vec::len);
    let size = body["dimensions"].as_u64().unwrap_or(DIMENSIONS_DEFAULT).min(DIMENSIONS_MAX);
    let encoded = body["encoding_format"] == "base64";
    let data: Vec<Value> = (0..inputs)
        .map(|index| json!({"object": "embedding", "index": index, "embedding": vector(size, encoded)}))
        .collect();
    let tokens =
        call.knob_number("x-test-input-tokens").unwrap_or_else(|| input_tokens(&body["input"]));
    ledger.input_tokens.fetch_add(tokens, Relaxed);
    json_answer(
        StatusCode::OK,
        &json!({
            "object": "list",
            "data": data,
            "model": body["model"],
            "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
        }),
    )
}

/// The refusals that all OpenAI calls share: a wanted error, broken JSON, no model.
pub(crate) fn accept(call: &Call) -> Result<Value, Box<Answer>> {
    if let Some(status) = call.wanted_status() {
        return Err(Box::new(error(status, "an error, as asked", None)));
    }
    let body = call.json().map_err(|_| {
        let text = "We could not parse the JSON body of your request.";
        Box::new(error(StatusCode::BAD_REQUEST, text, None))
    })?;
    if !body["model"].is_string() {
        let text = "you must provide a model parameter";
        return Err(Box::new(error(StatusCode::BAD_REQUEST, text, Some("model"))));
    }
    Ok(body)
}

fn error(status: StatusCode, message: &str, param: Option<&str>) -> Answer {
    let kind = match status.as_u16() {
        429 => "rate_limit_error",
        500.. => "server_error",
        _ => "invalid_request_error",
    };
    json_answer(
        status,
        &json!({"error": {"message": message, "type": kind, "param": param, "code": null}}),
    )
}

fn generate(call: &Call, ledger: &Arc<Ledger>, form: Form) -> Answer {
    let body = match accept(call) {
        Ok(body) => body,
        Err(refused) => return *refused,
    };
    let maxima = ["max_completion_tokens", "max_tokens"];
    let Some(ask) = Ask::read(call, &body, &["messages", "prompt", "tools"], &maxima) else {
        return error(StatusCode::BAD_REQUEST, "`model` is not a text", Some("model"));
    };
    let choices = body["n"].as_u64().unwrap_or(1).clamp(1, CHOICES_MAX);
    ledger.input_tokens.fetch_add(ask.input_tokens, Relaxed);
    if ask.stream {
        let with_usage = body["stream_options"]["include_usage"] == true;
        return stream(call, ledger, form, &ask, choices, with_usage);
    }
    let words = ask.output_tokens();
    let usage = usage(&ask, words * choices);
    ledger.output_tokens.fetch_add(words * choices + ask.reasoning_tokens, Relaxed);
    let list: Vec<Value> =
        (0..choices).map(|index| whole_choice(form, index, &text(words), finish(&ask))).collect();
    let mut answer = envelope(call, form, &ask, Part::Whole);
    answer["choices"] = list.into();
    answer["usage"] = usage;
    json_answer(StatusCode::OK, &answer)
}

fn stream(
    call: &Call,
    ledger: &Arc<Ledger>,
    form: Form,
    ask: &Ask,
    choices: u64,
    with_usage: bool,
) -> Answer {
    let mut base = envelope(call, form, ask, Part::Chunk);
    if with_usage {
        // With usage asked for, every chunk but the last carries it as null.
        base["usage"] = Value::Null;
    }
    let chunk = move |list: Value| {
        let mut chunk = base.clone();
        chunk["choices"] = list;
        chunk
    };
    let mut head = Vec::new();
    if form == Form::Chat {
        for index in 0..choices {
            let delta = json!({"role": "assistant", "content": "", "refusal": null});
            head.push(sse::event(None, &chunk(json!([chat_delta(index, &delta, None)]))));
        }
    }
    let words = ask.output_tokens();
    let mut tail: Vec<Bytes> = (0..choices)
        .map(|index| sse::event(None, &chunk(json!([last_piece(form, index, finish(ask))]))))
        .collect();
    if with_usage {
        let mut last = chunk(json!([]));
        last["usage"] = usage(ask, words * choices);
        tail.push(sse::event(None, &last));
    }
    tail.push(Bytes::from_static(b"data: [DONE]\n\n"));
    let count = match ask.count {
        Count::Events(words) => Count::Events(words * choices),
        Count::Endless => Count::Endless,
    };
    ledger.output_tokens.fetch_add(ask.reasoning_tokens, Relaxed);
    let counted = Arc::clone(ledger);
    let each = move |n: u64| {
        counted.output_tokens.fetch_add(1, Relaxed);
        let piece = piece(form, n % choices, &word(n / choices));
        sse::event(None, &chunk(json!([piece])))
    };
    let each = Box::new(each);
    sse::answer(call, ledger, Events { head, each, count, tail })
}

#[derive(Clone, Copy)]
enum Part {
    Whole,
    Chunk,
}

fn envelope(call: &Call, form: Form, ask: &Ask, part: Part) -> Value {
    let (prefix, object) = match (form, part) {
        (Form::Chat, Part::Whole) => ("chatcmpl", "chat.completion"),
        (Form::Chat, Part::Chunk) => ("chatcmpl", "chat.completion.chunk"),
        (Form::Plain, Part::Whole | Part::Chunk) => ("cmpl", "text_completion"),
    };
    json!({
        "id": format!("{prefix}-{:010}", call.no),
        "object": object,
        "created": CREATED_AT,
        "model": ask.model,
        "system_fingerprint": "fp_testkit",
    })
}

fn finish(ask: &Ask) -> &'static str {
    if ask.cut { "length" } else { "stop" }
}

fn whole_choice(form: Form, index: u64, text: &str, finish: &str) -> Value {
    match form {
        Form::Chat => json!({
            "index": index,
            "message": {"role": "assistant", "content": text, "refusal": null, "annotations": []},
            "logprobs": null,
            "finish_reason": finish,
        }),
        Form::Plain => {
            json!({"index": index, "text": text, "logprobs": null, "finish_reason": finish})
        }
    }
}

fn piece(form: Form, index: u64, word: &str) -> Value {
    match form {
        Form::Chat => chat_delta(index, &json!({"content": word}), None),
        Form::Plain => {
            json!({"index": index, "text": word, "logprobs": null, "finish_reason": null})
        }
    }
}

fn last_piece(form: Form, index: u64, finish: &str) -> Value {
    match form {
        Form::Chat => chat_delta(index, &json!({}), Some(finish)),
        Form::Plain => {
            json!({"index": index, "text": "", "logprobs": null, "finish_reason": finish})
        }
    }
}

fn chat_delta(index: u64, delta: &Value, finish: Option<&str>) -> Value {
    json!({"index": index, "delta": delta, "logprobs": null, "finish_reason": finish})
}

/// Reasoning is part of the completion's tokens, cached input part of the prompt's.
fn usage(ask: &Ask, words: u64) -> Value {
    let output = words + ask.reasoning_tokens;
    json!({
        "prompt_tokens": ask.input_tokens,
        "completion_tokens": output,
        "total_tokens": ask.input_tokens + output,
        "prompt_tokens_details": {
            "cached_tokens": ask.cached_tokens.min(ask.input_tokens),
            "audio_tokens": 0,
        },
        "completion_tokens_details": {
            "reasoning_tokens": ask.reasoning_tokens,
            "audio_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    })
}

fn vector(size: u64, encoded: bool) -> Value {
    // The official client asks for base64 of little-endian floats unless told otherwise.
    if encoded {
        let bytes: Vec<u8> = (0..size).flat_map(|_| 0.25_f32.to_le_bytes()).collect();
        base64::engine::general_purpose::STANDARD.encode(bytes).into()
    } else {
        (0..size).map(|_| json!(0.25)).collect()
    }
}
