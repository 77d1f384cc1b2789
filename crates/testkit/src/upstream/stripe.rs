//! Stripe: what is asked, what it costs, and that one `Idempotency-Key` takes money once.
//!
//! Money moves when: a charge, transfer or payout is made; an intent is made with `confirm=true`
//! or confirmed later. `capture=false` counts as taken: the money is held either way.
//! Never here: the look of objects (`stripe_objects`).

use std::collections::{HashMap, VecDeque};
use std::sync::Mutex;
use std::sync::atomic::Ordering::Relaxed;

use bytes::Bytes;
use http::{HeaderValue, StatusCode};
use serde_json::{Value, json};

use super::call::{Answer, Call, full, json as json_answer, latin1};
use super::ledger::{Ledger, Taking, TakingKind};
use super::stripe_objects as objects;
use super::stripe_params::{Fault, Params, Sum, refuse_magic};

/// This amount is answered 402 `card_declined`; nothing is taken.
pub const AMOUNT_DECLINED: u64 = 40_200;
/// This amount is answered 429; nothing is taken.
pub const AMOUNT_RATE_LIMITED: u64 = 42_900;
/// This amount is answered 500; nothing is taken.
pub const AMOUNT_FAULT: u64 = 50_000;

/// Objects that can still be read; the oldest go first.
const OBJECTS_MAX: usize = 10_000;
/// Keys that still replay: more than a client retries in a test, bounded for load runs.
const KEYS_MAX: usize = 100_000;
/// A page of a list, as Stripe's own.
const PAGE_DEFAULT: usize = 10;
const PAGE_MAX: usize = 100;

#[derive(Debug, Clone, Copy)]
pub(crate) enum Act<'a> {
    Charge,
    CreateIntent,
    ConfirmIntent(&'a str),
    Transfer,
    Payout,
    Refund,
    Balance,
    Read(&'a str),
    /// All objects of this name, the latest first.
    List(&'static str),
}

impl Act<'_> {
    fn changes(self) -> bool {
        match self {
            Self::Balance | Self::Read(_) | Self::List(_) => false,
            Self::Charge
            | Self::CreateIntent
            | Self::ConfirmIntent(_)
            | Self::Transfer
            | Self::Payout
            | Self::Refund => true,
        }
    }
}

/// One account.
pub(crate) struct Stripe {
    /// One lock over look-up, taking and saving: two requests with one key cannot both take.
    book: Mutex<Book>,
}

#[derive(Default)]
struct Book {
    objects: HashMap<String, Value>,
    objects_order: VecDeque<String>,
    keys: HashMap<String, Saved>,
    keys_order: VecDeque<String>,
}

#[derive(Clone)]
struct Saved {
    request: String,
    status: StatusCode,
    body: Bytes,
}

impl Stripe {
    pub(crate) fn new() -> Self {
        Self { book: Mutex::default() }
    }

    pub(crate) fn answer(&self, call: &Call, ledger: &Ledger, act: Act<'_>) -> Answer {
        let mut book = self.book.lock().unwrap();
        let key = call.header("idempotency-key").filter(|_| act.changes());
        let key = key.map(|key| (key, format!("{}\n{}", call.path(), latin1(&call.body))));
        if let Some((key, request)) = &key
            && let Some(saved) = book.keys.get(key)
        {
            return replay(saved, request, ledger);
        }
        let (status, body) = match book.act(call, ledger, act) {
            Ok(object) => (StatusCode::OK, object),
            Err(fault) => (fault.status, json!({"error": fault.error})),
        };
        // As the real one: a request that failed its checks may be mended under the same key.
        let kept = status.is_success() || status.as_u16() == 402 || status.is_server_error();
        let body = Bytes::from(serde_json::to_vec(&body).expect("a JSON value encodes"));
        if let Some((key, request)) = key.filter(|_| kept) {
            let body = body.clone();
            book.save_key(key, Saved { request, status, body });
        }
        full(status, "application/json", body)
    }
}

fn replay(saved: &Saved, request: &str, ledger: &Ledger) -> Answer {
    if saved.request != request {
        let error = json!({
            "type": "idempotency_error",
            "message": "Keys for idempotent requests can only be used with the same parameters they were first used with.",
        });
        return json_answer(StatusCode::BAD_REQUEST, &json!({"error": error}));
    }
    ledger.replays.fetch_add(1, Relaxed);
    let mut answer = full(saved.status, "application/json", saved.body.clone());
    answer.headers_mut().insert("idempotent-replayed", HeaderValue::from_static("true"));
    answer
}

impl Book {
    fn act(&mut self, call: &Call, ledger: &Ledger, act: Act<'_>) -> Result<Value, Fault> {
        if let Some(status) = call.wanted_status() {
            return Err(Fault::wanted(status));
        }
        match act {
            Act::Balance => return Ok(objects::balance(&ledger.stats())),
            Act::Read(id) => return self.find(id).cloned(),
            Act::List(object) => return self.list(call, object),
            Act::Charge
            | Act::CreateIntent
            | Act::ConfirmIntent(_)
            | Act::Transfer
            | Act::Payout
            | Act::Refund => {}
        }
        if !call.complete {
            return Err(Fault::invalid("body_incomplete", "", "the body broke off"));
        }
        let params = Params::read(call)?;
        let cash = Cash { call, ledger };
        match act {
            Act::Charge => {
                let sum = params.sum(ledger)?;
                let id = format!("ch_{:010}", call.no);
                let charge = objects::charge(&id, &sum, &params, None);
                cash.take(TakingKind::Charge, &id, &sum);
                Ok(self.keep(id, charge))
            }
            Act::CreateIntent => self.create_intent(&params, cash),
            Act::ConfirmIntent(id) => self.confirm_intent(id, &params, cash),
            Act::Transfer => {
                let sum = params.sum(ledger)?;
                let to = params.needed("destination")?;
                let id = format!("tr_{:010}", call.no);
                let transfer = objects::transfer(&id, &sum, &params, to);
                cash.take(TakingKind::Transfer, &id, &sum);
                Ok(self.keep(id, transfer))
            }
            Act::Payout => {
                let sum = params.sum(ledger)?;
                let id = format!("po_{:010}", call.no);
                let payout = objects::payout(&id, &sum, &params);
                cash.take(TakingKind::Payout, &id, &sum);
                Ok(self.keep(id, payout))
            }
            Act::Refund => self.refund(&params, cash),
            Act::Balance | Act::Read(_) | Act::List(_) => unreachable!("answered above"),
        }
    }

    fn create_intent(&mut self, params: &Params, cash: Cash<'_>) -> Result<Value, Fault> {
        let confirm = params.get("confirm") == Some("true");
        let sum = if confirm { params.sum(cash.ledger)? } else { params.sum_unpaid()? };
        let id = format!("pi_{:010}", cash.call.no);
        let mut intent = objects::intent(&id, &sum, params);
        if confirm {
            self.pay(&id, &mut intent, &sum, params, cash);
        }
        Ok(self.keep(id, intent))
    }

    fn confirm_intent(
        &mut self,
        id: &str,
        params: &Params,
        cash: Cash<'_>,
    ) -> Result<Value, Fault> {
        let mut intent = self.find(id)?.clone();
        if intent["object"] != "payment_intent" {
            return Err(Fault::missing(id));
        }
        if intent["status"] == "succeeded" {
            let text = "This PaymentIntent has already succeeded.";
            return Err(Fault::invalid("payment_intent_unexpected_state", "", text));
        }
        let sum = objects::sum_of(&intent);
        refuse_magic(&sum, cash.ledger)?;
        self.pay(id, &mut intent, &sum, params, cash);
        Ok(self.keep(id.to_owned(), intent))
    }

    /// The intent's money moves by a charge of its own.
    fn pay(&mut self, id: &str, intent: &mut Value, sum: &Sum, params: &Params, cash: Cash<'_>) {
        let charge_id = format!("ch_{:010}", cash.call.no);
        let charge = objects::charge(&charge_id, sum, params, Some(id));
        self.keep(charge_id.clone(), charge);
        objects::settle_intent(intent, sum, &charge_id);
        cash.take(TakingKind::PaymentIntent, id, sum);
    }

    fn refund(&mut self, params: &Params, cash: Cash<'_>) -> Result<Value, Fault> {
        let charge_id = match (params.get("charge"), params.get("payment_intent")) {
            (Some(id), _) => id.to_owned(),
            (None, Some(id)) => self.find(id)?["latest_charge"]
                .as_str()
                .ok_or_else(|| Fault::missing(id))?
                .to_owned(),
            (None, None) => {
                let text = "One of the following params should be provided for this request: payment_intent or charge.";
                return Err(Fault::invalid("parameter_missing", "charge", text));
            }
        };
        let mut charge = self.find(&charge_id)?.clone();
        if charge["object"] != "charge" {
            return Err(Fault::missing(&charge_id));
        }
        let whole = objects::sum_of(&charge);
        let back = charge["amount_refunded"].as_u64().unwrap_or(0);
        let left = whole.amount_minor - back;
        let amount_minor = match params.get("amount") {
            Some(_) => params.sum_in(&whole.currency)?.amount_minor,
            None => left,
        };
        if amount_minor > left || left == 0 {
            let text = format!("Charge {charge_id} has only {left} left to refund.");
            return Err(Fault::invalid("charge_already_refunded", "amount", &text));
        }
        let currency = whole.currency.clone();
        let sum = Sum { amount_minor, currency };
        charge["amount_refunded"] = (back + amount_minor).into();
        charge["refunded"] = (back + amount_minor == whole.amount_minor).into();
        let id = format!("re_{:010}", cash.call.no);
        let refund = objects::refund(&id, &sum, params, &charge);
        self.keep(charge_id, charge);
        cash.take(TakingKind::Refund, &id, &sum);
        Ok(self.keep(id, refund))
    }

    /// One page: `limit` objects after `starting_after`.
    fn list(&self, call: &Call, object: &str) -> Result<Value, Fault> {
        let limit = call.query("limit").map_or(Some(PAGE_DEFAULT), |text| text.parse().ok());
        let limit = limit
            .filter(|limit| (1..=PAGE_MAX).contains(limit))
            .ok_or_else(|| Fault::invalid("parameter_invalid_integer", "limit", "Invalid limit"))?;
        let mut ids: Vec<&String> = self.objects_order.iter().rev().collect();
        ids.retain(|id| self.objects[*id]["object"] == object);
        if let Some(after) = call.query("starting_after") {
            let at = ids.iter().position(|id| **id == after);
            ids.drain(..=at.ok_or_else(|| Fault::missing(&after))?);
        }
        let data: Vec<&Value> = ids.iter().take(limit).map(|id| &self.objects[*id]).collect();
        let has_more = ids.len() > limit;
        Ok(json!({"object": "list", "url": call.path(), "has_more": has_more, "data": data}))
    }

    fn find(&self, id: &str) -> Result<&Value, Fault> {
        self.objects.get(id).ok_or_else(|| Fault::missing(id))
    }

    fn keep(&mut self, id: String, object: Value) -> Value {
        if self.objects.insert(id.clone(), object.clone()).is_none() {
            self.objects_order.push_back(id);
        }
        if self.objects_order.len() > OBJECTS_MAX
            && let Some(oldest) = self.objects_order.pop_front()
        {
            self.objects.remove(&oldest);
        }
        object
    }

    fn save_key(&mut self, key: String, saved: Saved) {
        self.keys.insert(key.clone(), saved);
        self.keys_order.push_back(key);
        if self.keys_order.len() > KEYS_MAX
            && let Some(oldest) = self.keys_order.pop_front()
        {
            self.keys.remove(&oldest);
        }
    }
}

#[derive(Clone, Copy)]
struct Cash<'a> {
    call: &'a Call,
    ledger: &'a Ledger,
}

impl Cash<'_> {
    fn take(self, kind: TakingKind, object_id: &str, sum: &Sum) {
        let headers = &self.call.headers;
        let text = |value: &HeaderValue| latin1(value.as_bytes());
        self.ledger.take(Taking {
            request_no: self.call.no,
            kind,
            object_id: object_id.to_owned(),
            amount_minor: sum.amount_minor,
            currency: sum.currency.clone(),
            idempotency_key: self.call.header("idempotency-key"),
            test_ids: headers.get_all("x-test-id").iter().map(text).collect(),
            marks: headers
                .iter()
                .filter(|(name, _)| name.as_str().starts_with("x-"))
                .map(|(name, value)| (name.to_string(), text(value)))
                .collect(),
        });
    }
}
