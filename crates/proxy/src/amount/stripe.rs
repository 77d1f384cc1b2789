//! Stripe: `amount` in minor units of `currency`, as JSON or as a form (what its SDKs send).
//!
//! Which calls are counted, and once each:
//! - a charge, transfer or payout counts its amount;
//! - a payment intent counts its amount when it is made, not when it is confirmed or captured: that
//!   money was counted already (`amount_to_confirm` and `amount_to_capture` are part of it), so these
//!   count nothing, and are refused for an intent that was not counted (`intents`);
//! - changing an intent's amount counts the new amount in full, on top of the first: counting the
//!   difference would need the first one's amount, and too much is the safe side. A change that names
//!   an amount must name the currency too, so raising an authorisation, which cannot, is refused;
//!   so is a currency without an amount, since the same number is another sum in it.
//!
//! Stripe takes parameters from the query as well, so a query's are read with the body's.

use agentguard_core::action::Unreadable;
use agentguard_core::{Currency, Money};

use super::form::Pairs;
use super::json::{self, Json};
use super::{Media, Paper, Reading, digits, media};
use crate::intents::{Touch, is_id};

/// What a call does with money.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    /// Makes something that costs: the amount must be there.
    Makes,
    /// The same, and what it makes is an intent.
    MakesIntent,
    /// Changes an intent: it may name an amount.
    Changes,
    /// Confirms or captures an intent: that may have been counted.
    Settles,
}

/// Sent to Stripe without decimals.
const NO_DECIMALS: [&str; 15] = [
    "BIF", "CLP", "DJF", "GNF", "JPY", "KMF", "KRW", "MGA", "PYG", "RWF", "VND", "VUV", "XAF",
    "XOF", "XPF",
];
/// Sent with three. (UGX and ISK have none in life, but are sent with two.)
const THREE_DECIMALS: [&str; 5] = ["BHD", "JOD", "KWD", "OMR", "TND"];

/// The call of a loosely read path, if it is one that may cost.
pub(super) fn call(path: &str) -> Option<Call> {
    // The base URL may have a path of its own, so only the end is looked at.
    let segments: Vec<&str> = path.rsplit('/').take(4).collect();
    match segments.as_slice() {
        ["charges" | "transfers" | "payouts", "v1", ..] => Some(Call::Makes),
        ["payment_intents", "v1", ..] => Some(Call::MakesIntent),
        [_, "payment_intents", "v1", ..]
        | ["increment_authorization", _, "payment_intents", "v1"] => Some(Call::Changes),
        ["confirm" | "capture", _, "payment_intents", "v1"] => Some(Call::Settles),
        _ => None,
    }
}

/// What a call does with an intent. The path is taken as it is sent: ids differ by case, and a
/// spelling that two servers read in two ways must neither teach an id nor pass for one.
pub(super) fn touch(call: Call, path: &str) -> Touch<'_> {
    let mut segments = path.rsplit('/').filter(|segment| !segment.is_empty());
    let last = segments.next().unwrap_or_default();
    let is_plain = |words: &[&str]| words.iter().any(|word| last.eq_ignore_ascii_case(word));
    match call {
        Call::Makes | Call::Changes => Touch::Nothing,
        Call::MakesIntent if is_plain(&["payment_intents"]) => Touch::Makes,
        Call::MakesIntent => Touch::Nothing,
        Call::Settles if is_plain(&["confirm", "capture"]) => {
            Touch::Settles(segments.next().filter(|id| is_id(id)))
        }
        Call::Settles => Touch::Settles(None),
    }
}

pub(super) fn read(call: Call, paper: Paper<'_>) -> Reading {
    let media = media(paper)?;
    let mut pairs = Pairs::default();
    pairs.take(paper.query.unwrap_or_default().as_bytes())?;
    let (amount, currency) = match media {
        Media::Empty => (whole(pairs.amount)?, pairs.currency),
        Media::Form => {
            // A form that is also JSON: a server that sniffs would read another amount.
            if paper.body.trim_ascii_start().starts_with(b"{") {
                return Err(Unreadable::Malformed);
            }
            pairs.take(paper.body)?;
            (whole(pairs.amount)?, pairs.currency)
        }
        Media::Json => {
            // And JSON that is also a form.
            pairs.take(paper.body)?;
            if pairs != Pairs::default() {
                return Err(Unreadable::NotAnAmount);
            }
            members(&json::parse(paper.body)?)?
        }
    };
    match (amount, call) {
        (Some(amount), _) => money(amount, currency.as_deref()).map(Some),
        (None, Call::Makes | Call::MakesIntent) => Err(Unreadable::Missing),
        // 900,000 yen would become 9,000 dollars.
        (None, Call::Changes | Call::Settles) if currency.is_some() => Err(Unreadable::Missing),
        (None, Call::Changes | Call::Settles) => Ok(None),
    }
}

fn members(body: &Json) -> Result<(Option<u64>, Option<String>), Unreadable> {
    let Json::Object(all) = body else { return Err(Unreadable::Malformed) };
    let misspelt = |name: &String| {
        let is = |word: &str| name.trim().eq_ignore_ascii_case(word) && name != word;
        is("amount") || is("currency")
    };
    if all.keys().any(misspelt) {
        return Err(Unreadable::NotAnAmount);
    }
    let amount = body.member(&["amount"])?.map(Json::whole).transpose()?;
    let currency = match body.member(&["currency"])? {
        None => None,
        Some(Json::Text(code)) => Some(code.clone()),
        Some(Json::Null | Json::Whole(_) | Json::List(_) | Json::Object(_) | Json::Other) => {
            return Err(Unreadable::NoCurrency);
        }
    };
    Ok((amount, currency))
}

fn whole(text: Option<String>) -> Result<Option<u64>, Unreadable> {
    text.map(|text| digits(&text)).transpose()
}

fn money(minor: u64, currency: Option<&str>) -> Result<Money, Unreadable> {
    let currency = currency.and_then(Currency::parse).ok_or(Unreadable::NoCurrency)?;
    let code = currency.code();
    let decimals = if NO_DECIMALS.contains(&code) {
        0
    } else if THREE_DECIMALS.contains(&code) {
        3
    } else {
        2
    };
    Money::from_minor(minor, decimals, currency).ok_or(Unreadable::NotAnAmount)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::loosely;
    use http::{HeaderMap, HeaderValue};

    const FORM: &str = "application/x-www-form-urlencoded";
    const JSON: &str = "application/json";

    fn reading(call: Call, kind: &'static str, query: Option<&str>, body: &str) -> Reading {
        let mut headers = HeaderMap::new();
        headers.insert("content-type", HeaderValue::from_static(kind));
        read(call, Paper { headers: &headers, query, body: body.as_bytes() })
    }

    fn check(kind: &'static str, body: &str, expected: Result<&str, Unreadable>) {
        let found = reading(Call::Makes, kind, None, body);
        let found = found.map(|money| money.map(|money| money.to_string()).unwrap_or_default());
        assert_eq!(found.as_deref().map_err(|problem| *problem), expected, "{kind}: {body}");
    }

    #[test]
    fn amounts_are_read_in_the_minor_units_of_their_currency() {
        check(FORM, "amount=1999&currency=usd", Ok("19.99 USD"));
        check(FORM, "amount=1999&currency=USD&description=x+y", Ok("19.99 USD"));
        check(JSON, "{\"amount\":1999,\"currency\":\"eur\"}", Ok("19.99 EUR"));
        check(JSON, "{\"amount\":\"1999\",\"currency\":\"eur\"}", Ok("19.99 EUR"));
        check(FORM, "amount=500&currency=jpy", Ok("500.00 JPY"));
        check(FORM, "amount=1234&currency=kwd", Ok("1.234 KWD"));
        check(FORM, "amount=500&currency=ugx", Ok("5.00 UGX"));
        check(FORM, "amount=500&currency=isk", Ok("5.00 ISK"));
        check(FORM, "amount=0&currency=usd", Ok("0.00 USD"));
        check(FORM, "amount=5&currency=usd&payment_intent_data[amount]=900", Ok("0.05 USD"));
    }

    #[test]
    fn what_is_not_one_plain_amount_is_unreadable() {
        for amount in [
            "-5",
            "%2B5",
            "+5",
            "5.0",
            "5e3",
            "1%2C000",
            "0x10",
            "%D9%A5",
            "",
            "18446744073709551616",
            "99999999999999999",
        ] {
            check(FORM, &format!("amount={amount}&currency=usd"), Err(Unreadable::NotAnAmount));
        }
        for amount in [
            "-5",
            "5.0",
            "5e3",
            "\"+5\"",
            "\" 5\"",
            "[5]",
            "{}",
            "true",
            "\"\"",
            "18446744073709551616",
        ] {
            let body = format!("{{\"amount\":{amount},\"currency\":\"usd\"}}");
            check(JSON, &body, Err(Unreadable::NotAnAmount));
        }
        check(FORM, "amount=1&amount=2&currency=usd", Err(Unreadable::NotAnAmount));
        check(
            JSON,
            "{\"amount\":1,\"Amount\":2,\"currency\":\"usd\"}",
            Err(Unreadable::NotAnAmount),
        );
        check(JSON, "{\"amount\":1,\"amount\":2,\"currency\":\"usd\"}", Err(Unreadable::Malformed));
        check(FORM, "currency=usd", Err(Unreadable::Missing));
        check(JSON, "{\"currency\":\"usd\",\"amount\":null}", Err(Unreadable::Missing));
        check(FORM, "amount=5", Err(Unreadable::NoCurrency));
        check(FORM, "amount=5&currency=dollars", Err(Unreadable::NoCurrency));
        check(JSON, "{\"amount\":5,\"currency\":7}", Err(Unreadable::NoCurrency));
        check(JSON, "[]", Err(Unreadable::Malformed));
        check(JSON, "{\"amount\":5", Err(Unreadable::Malformed));
    }

    #[test]
    fn bodies_that_are_json_and_form_at_once_are_unreadable() {
        let both = "{\"amount\":1,\"currency\":\"usd\",\"x\":\"&amount=99999&currency=usd&y=\"}";
        check(JSON, both, Err(Unreadable::NotAnAmount));
        check(FORM, both, Err(Unreadable::Malformed));
    }

    #[test]
    fn a_query_is_part_of_the_parameters() {
        let by_query = reading(Call::Makes, FORM, Some("amount=700&currency=usd"), "");
        assert_eq!(by_query.map(|m| m.map(|m| m.to_string())), Ok(Some("7.00 USD".to_owned())));
        for (kind, body) in
            [(FORM, "amount=1&currency=usd"), (JSON, "{\"amount\":1,\"currency\":\"usd\"}")]
        {
            let twice = reading(Call::Makes, kind, Some("amount=700"), body);
            assert_eq!(twice, Err(Unreadable::NotAnAmount), "{kind}");
        }
    }

    #[test]
    fn changes_cost_what_they_name() {
        let check = |body: &str, expected: Result<Option<&str>, Unreadable>| {
            let found = reading(Call::Changes, FORM, None, body);
            let found = found.map(|money| money.map(|money| money.to_string()));
            assert_eq!(found.as_ref().map(Option::as_deref).map_err(|p| *p), expected, "{body}");
        };
        check("", Ok(None));
        check("payment_method=pm_card_visa", Ok(None));
        check("amount_to_confirm=500", Ok(None));
        check("amount=90000&currency=usd", Ok(Some("900.00 USD")));
        check("amount=90000", Err(Unreadable::NoCurrency));
        check("currency=usd", Err(Unreadable::Missing));
    }

    #[test]
    fn an_intent_is_named_plainly_or_not_at_all() {
        for (path, expected) in [
            ("/v1/payment_intents", Touch::Makes),
            ("/mirror/v1//payment_intents/", Touch::Makes),
            ("/v1/Payment_Intents", Touch::Makes),
            ("/v1/payment%5fintents", Touch::Nothing),
            ("/v1/payment_intents/;pi_1", Touch::Nothing),
            ("/v1/payment_intents/pi_1", Touch::Nothing),
            ("/v1/charges", Touch::Nothing),
            ("/v1/payment_intents/pi_1aB/confirm", Touch::Settles(Some("pi_1aB"))),
            ("/v1/payment_intents/pi_1/Capture/", Touch::Settles(Some("pi_1"))),
            ("/v1/payment_intents//pi_1//confirm", Touch::Settles(Some("pi_1"))),
            ("/v1/payment_intents/%70i_1/confirm", Touch::Settles(None)),
            ("/v1/payment_intents/pi_1%20/confirm", Touch::Settles(None)),
            ("/v1/payment_intents/pi_1;pi_2/confirm", Touch::Settles(None)),
            ("/v1/payment_intents/pi_1/confir%6d", Touch::Settles(None)),
            ("/v1/payment_intents/pi_1/confirm/%20", Touch::Settles(None)),
            ("/v1/payment_intents/pi_1/confirm/;pi_2", Touch::Settles(None)),
            ("/v1/payment_intents/ch_1/confirm", Touch::Settles(None)),
        ] {
            let call = call(&loosely(path)).unwrap();
            assert_eq!(touch(call, path), expected, "{path}");
        }
    }

    #[test]
    fn paying_paths_are_known_in_every_spelling() {
        for (path, expected) in [
            ("/v1/charges", Some(Call::Makes)),
            ("/v1/charges/", Some(Call::Makes)),
            ("/v1//charges", Some(Call::Makes)),
            ("/V1/CHARGES", Some(Call::Makes)),
            ("/v1/%63harges", Some(Call::Makes)),
            ("/mirror/v1/payouts", Some(Call::Makes)),
            ("/v1/transfers", Some(Call::Makes)),
            ("/v1/payment_intents", Some(Call::MakesIntent)),
            ("/v1/payment_intents/pi_1", Some(Call::Changes)),
            ("/v1/payment_intents/pi_1/confirm", Some(Call::Settles)),
            ("/v1/payment_intents/pi_1/%63apture", Some(Call::Settles)),
            ("/v1/payment_intents/pi_1/increment_authorization", Some(Call::Changes)),
            ("/v1/payment_intents/pi_1/cancel", None),
            ("/v1/refunds", None),
            ("/v1/charges/ch_1", None),
            ("/v1/customers", None),
            ("/charges", None),
        ] {
            assert_eq!(call(&loosely(path)), expected, "{path}");
        }
    }
}
