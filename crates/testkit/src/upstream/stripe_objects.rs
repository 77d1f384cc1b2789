//! The look of Stripe's objects, as far as its official clients read them.
//!
//! Never here: when money moves (`stripe`).

use serde_json::{Value, json};

use super::ledger::Stats;
use super::model::CREATED_AT;
use super::stripe_params::{Params, Sum};

pub(crate) fn charge(id: &str, sum: &Sum, params: &Params, intent: Option<&str>) -> Value {
    json!({
        "id": id,
        "object": "charge",
        "amount": sum.amount_minor,
        "amount_captured": sum.amount_minor,
        "amount_refunded": 0,
        "balance_transaction": format!("txn_{id}"),
        "billing_details": {"address": null, "email": null, "name": null, "phone": null},
        "captured": params.get("capture") != Some("false"),
        "created": CREATED_AT,
        "currency": sum.currency,
        "customer": params.get("customer"),
        "description": params.get("description"),
        "disputed": false,
        "failure_code": null,
        "failure_message": null,
        "livemode": false,
        "metadata": params.metadata(),
        "outcome": {"network_status": "approved_by_network", "risk_level": "normal", "type": "authorized"},
        "paid": true,
        "payment_intent": intent,
        "payment_method": params.get("payment_method"),
        "refunded": false,
        "status": "succeeded",
    })
}

pub(crate) fn intent(id: &str, sum: &Sum, params: &Params) -> Value {
    let status = match params.get("payment_method") {
        Some(_) => "requires_confirmation",
        None => "requires_payment_method",
    };
    json!({
        "id": id,
        "object": "payment_intent",
        "amount": sum.amount_minor,
        "amount_capturable": 0,
        "amount_received": 0,
        "canceled_at": null,
        "capture_method": "automatic",
        "client_secret": format!("{id}_secret_testkit"),
        "confirmation_method": "automatic",
        "created": CREATED_AT,
        "currency": sum.currency,
        "customer": params.get("customer"),
        "description": params.get("description"),
        "last_payment_error": null,
        "latest_charge": null,
        "livemode": false,
        "metadata": params.metadata(),
        "next_action": null,
        "payment_method": params.get("payment_method"),
        "payment_method_types": ["card"],
        "status": status,
    })
}

pub(crate) fn settle_intent(intent: &mut Value, sum: &Sum, charge_id: &str) {
    intent["status"] = "succeeded".into();
    intent["amount_received"] = sum.amount_minor.into();
    intent["latest_charge"] = charge_id.into();
}

pub(crate) fn transfer(id: &str, sum: &Sum, params: &Params, destination: &str) -> Value {
    json!({
        "id": id,
        "object": "transfer",
        "amount": sum.amount_minor,
        "amount_reversed": 0,
        "balance_transaction": format!("txn_{id}"),
        "created": CREATED_AT,
        "currency": sum.currency,
        "description": params.get("description"),
        "destination": destination,
        "destination_payment": format!("py_{id}"),
        "livemode": false,
        "metadata": params.metadata(),
        "reversals": {"object": "list", "data": [], "has_more": false, "url": format!("/v1/transfers/{id}/reversals")},
        "reversed": false,
        "source_transaction": null,
        "source_type": "card",
        "transfer_group": params.get("transfer_group"),
    })
}

pub(crate) fn payout(id: &str, sum: &Sum, params: &Params) -> Value {
    json!({
        "id": id,
        "object": "payout",
        "amount": sum.amount_minor,
        "arrival_date": CREATED_AT,
        "automatic": false,
        "balance_transaction": format!("txn_{id}"),
        "created": CREATED_AT,
        "currency": sum.currency,
        "description": params.get("description"),
        "destination": params.get("destination").unwrap_or("ba_testkit"),
        "failure_code": null,
        "failure_message": null,
        "livemode": false,
        "metadata": params.metadata(),
        "method": "standard",
        "reconciliation_status": "not_applicable",
        "source_type": "card",
        "status": "pending",
        "type": "bank_account",
    })
}

pub(crate) fn refund(id: &str, sum: &Sum, params: &Params, charge: &Value) -> Value {
    json!({
        "id": id,
        "object": "refund",
        "amount": sum.amount_minor,
        "balance_transaction": format!("txn_{id}"),
        "charge": charge["id"],
        "created": CREATED_AT,
        "currency": sum.currency,
        "metadata": params.metadata(),
        "payment_intent": charge["payment_intent"],
        "reason": params.get("reason"),
        "receipt_number": null,
        "status": "succeeded",
    })
}

pub(crate) fn balance(stats: &Stats) -> Value {
    let available: Vec<Value> = stats
        .taken_minor
        .iter()
        .map(|(currency, amount)| json!({"amount": amount, "currency": currency, "source_types": {"card": amount}}))
        .collect();
    json!({"object": "balance", "available": available, "pending": [], "livemode": false})
}

/// Amount and currency of an object made here.
pub(crate) fn sum_of(object: &Value) -> Sum {
    Sum {
        amount_minor: object["amount"].as_u64().expect("our objects hold an amount"),
        currency: object["currency"].as_str().expect("our objects hold a currency").to_owned(),
    }
}
