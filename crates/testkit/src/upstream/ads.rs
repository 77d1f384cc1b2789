//! Google Ads: `campaignBudgets:mutate`. All operations happen, or none.

use std::sync::atomic::Ordering::Relaxed;

use http::StatusCode;
use serde_json::{Value, json};

use super::call::{Answer, Call, json as json_answer};
use super::ledger::Ledger;

pub(crate) fn mutate(call: &Call, ledger: &Ledger, customer: &str) -> Answer {
    if let Some(status) = call.wanted_status() {
        return error(status, "an error, as asked");
    }
    let Ok(body) = call.json() else {
        return error(StatusCode::BAD_REQUEST, "Invalid JSON payload received.");
    };
    let Some(operations) = body["operations"].as_array().filter(|list| !list.is_empty()) else {
        return error(StatusCode::BAD_REQUEST, "`operations` is required.");
    };
    let mut micros = 0_u64;
    let mut results = Vec::new();
    for (index, operation) in operations.iter().enumerate() {
        let Some((name, amount)) = apply(call, customer, index, operation) else {
            let message = format!("operation {index} is none of create, update, remove");
            return error(StatusCode::BAD_REQUEST, &message);
        };
        micros += amount;
        results.push(json!({"resourceName": name}));
    }
    ledger.ads_micros.fetch_add(micros, Relaxed);
    ledger.ads_budgets.fetch_add(results.len() as u64, Relaxed);
    json_answer(StatusCode::OK, &json!({"results": results}))
}

/// Resource name and micro-units of one operation.
fn apply(call: &Call, customer: &str, index: usize, operation: &Value) -> Option<(String, u64)> {
    if let Some(name) = operation["remove"].as_str() {
        return Some((name.to_owned(), 0));
    }
    let (budget, made) = match (&operation["create"], &operation["update"]) {
        (Value::Object(budget), _) => (budget, true),
        (_, Value::Object(budget)) => (budget, false),
        _ => return None,
    };
    let amount = match budget.get("amountMicros") {
        // The JSON mapping writes int64 as text; numbers are taken too.
        Some(Value::String(text)) => text.parse().ok()?,
        Some(number) => number.as_u64()?,
        None => 0,
    };
    let name = if made {
        format!("customers/{customer}/campaignBudgets/{}{index:03}", call.no)
    } else {
        budget.get("resourceName")?.as_str()?.to_owned()
    };
    Some((name, amount))
}

fn error(status: StatusCode, message: &str) -> Answer {
    let name = match status.as_u16() {
        401 => "UNAUTHENTICATED",
        403 => "PERMISSION_DENIED",
        429 => "RESOURCE_EXHAUSTED",
        500.. => "INTERNAL",
        _ => "INVALID_ARGUMENT",
    };
    json_answer(
        status,
        &json!({"error": {"code": status.as_u16(), "message": message, "status": name}}),
    )
}
