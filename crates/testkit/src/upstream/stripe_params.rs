//! Stripe's parameters, form-encoded or JSON, and the refusals that follow from them.
//!
//! Never here: taking money (`stripe`).

use std::sync::atomic::Ordering::Relaxed;

use http::StatusCode;
use serde_json::{Value, json};

use super::call::Call;
use super::ledger::Ledger;
use super::stripe::{AMOUNT_DECLINED, AMOUNT_FAULT, AMOUNT_RATE_LIMITED};

/// As Stripe's own: eight digits.
const AMOUNT_MAX: u64 = 99_999_999;

/// An error in Stripe's shape.
pub(crate) struct Fault {
    pub(crate) status: StatusCode,
    pub(crate) error: Value,
}

impl Fault {
    pub(crate) fn invalid(code: &str, param: &str, message: &str) -> Self {
        Self {
            status: StatusCode::BAD_REQUEST,
            error: json!({"type": "invalid_request_error", "code": code, "param": param, "message": message}),
        }
    }

    pub(crate) fn wanted(status: StatusCode) -> Self {
        Self { status, error: json!({"type": "api_error", "message": "an error, as asked"}) }
    }

    pub(crate) fn missing(id: &str) -> Self {
        let mut fault = Self::invalid("resource_missing", "id", &format!("No such object: '{id}'"));
        fault.status = StatusCode::NOT_FOUND;
        fault
    }
}

/// An amount in minor units of its currency.
pub(crate) struct Sum {
    pub(crate) amount_minor: u64,
    pub(crate) currency: String,
}

/// The request's parameters, flat, as the form encoding has them (`metadata[order]`).
pub(crate) struct Params(Vec<(String, String)>);

impl Params {
    pub(crate) fn read(call: &Call) -> Result<Self, Fault> {
        let kind = call.header("content-type").unwrap_or_default();
        if !kind.starts_with("application/json") {
            let pairs = form_urlencoded::parse(&call.body).into_owned().collect();
            return Ok(Self(pairs));
        }
        let text = "Invalid JSON in the request body.";
        let Ok(Value::Object(members)) = call.json() else {
            return Err(Fault::invalid("invalid_json", "", text));
        };
        let mut pairs = Vec::new();
        for (name, value) in members {
            flatten(&mut pairs, name, value);
        }
        Ok(Self(pairs))
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str())
    }

    /// `metadata[order]=7` as `{"order": "7"}`.
    pub(crate) fn metadata(&self) -> Value {
        let member = |key: &str| Some(key.strip_prefix("metadata[")?.strip_suffix(']')?.to_owned());
        self.0
            .iter()
            .filter_map(|(key, value)| Some((member(key)?, Value::from(value.as_str()))))
            .collect::<serde_json::Map<_, _>>()
            .into()
    }

    pub(crate) fn needed(&self, name: &str) -> Result<&str, Fault> {
        let text = format!("Missing required param: {name}.");
        self.get(name).ok_or_else(|| Fault::invalid("parameter_missing", name, &text))
    }

    /// An amount about to be taken: the magic ones end here.
    pub(crate) fn sum(&self, ledger: &Ledger) -> Result<Sum, Fault> {
        let sum = self.sum_unpaid()?;
        refuse_magic(&sum, ledger)?;
        Ok(sum)
    }

    pub(crate) fn sum_unpaid(&self) -> Result<Sum, Fault> {
        self.sum_in(&self.needed("currency")?.to_ascii_lowercase())
    }

    pub(crate) fn sum_in(&self, currency: &str) -> Result<Sum, Fault> {
        let amount = self.needed("amount")?;
        let text = format!("Invalid integer: {amount}");
        let amount_minor =
            amount
                .parse()
                .ok()
                .filter(|amount| (1..=AMOUNT_MAX).contains(amount))
                .ok_or_else(|| Fault::invalid("parameter_invalid_integer", "amount", &text))?;
        let currency = currency.to_owned();
        Ok(Sum { amount_minor, currency })
    }
}

fn flatten(pairs: &mut Vec<(String, String)>, name: String, value: Value) {
    match value {
        Value::Null => {}
        Value::String(text) => pairs.push((name, text)),
        Value::Bool(_) | Value::Number(_) => pairs.push((name, value.to_string())),
        Value::Array(items) => {
            for (index, item) in items.into_iter().enumerate() {
                flatten(pairs, format!("{name}[{index}]"), item);
            }
        }
        Value::Object(members) => {
            for (member, item) in members {
                flatten(pairs, format!("{name}[{member}]"), item);
            }
        }
    }
}

pub(crate) fn refuse_magic(sum: &Sum, ledger: &Ledger) -> Result<(), Fault> {
    let (status, error) = match sum.amount_minor {
        AMOUNT_DECLINED => {
            ledger.declined.fetch_add(1, Relaxed);
            let error = json!({
                "type": "card_error",
                "code": "card_declined",
                "decline_code": "generic_decline",
                "message": "Your card was declined.",
                "param": "",
            });
            (StatusCode::PAYMENT_REQUIRED, error)
        }
        AMOUNT_RATE_LIMITED => {
            let error = json!({"type": "invalid_request_error", "code": "rate_limit", "message": "Too many requests."});
            (StatusCode::TOO_MANY_REQUESTS, error)
        }
        AMOUNT_FAULT => {
            let error = json!({"type": "api_error", "message": "Something went wrong."});
            (StatusCode::INTERNAL_SERVER_ERROR, error)
        }
        _ => return Ok(()),
    };
    Err(Fault { status, error })
}
