//! What operators' extractors read, and what they do not.

use agentguard_core::extractor::ExtractorSpec;
use http::HeaderValue;
use serde_json::{Value, json};

use super::*;

const FORM: &str = "application/x-www-form-urlencoded";
const JSON: &str = "application/json";

fn extractor(fields: &Value) -> Extractor {
    let mut all = json!({"path": "/**"});
    all.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    let spec: ExtractorSpec = serde_json::from_value(all).unwrap();
    spec.compile().unwrap()
}

fn reading(
    fields: &Value,
    kind: &'static str,
    query: Option<&str>,
    body: &str,
) -> Result<String, Unreadable> {
    let mut headers = HeaderMap::new();
    headers.insert("content-type", HeaderValue::from_static(kind));
    let paper = Paper { headers: &headers, query, body: body.as_bytes() };
    request(&extractor(fields), paper).map(|money| money.unwrap().to_string())
}

fn check(fields: &Value, kind: &'static str, body: &str, expected: Result<&str, Unreadable>) {
    let found = reading(fields, kind, None, body);
    assert_eq!(found.as_deref().map_err(|problem| *problem), expected, "{fields} {body}");
}

#[test]
fn amounts_are_read_exactly_from_json() {
    let plain = json!({"amount": "$.amount"});
    check(&plain, JSON, r#"{"amount": 12.5}"#, Ok("12.50 USD"));
    check(&plain, JSON, r#"{"amount": "12.50"}"#, Ok("12.50 USD"));
    check(&plain, JSON, r#"{"amount": 0.1}"#, Ok("0.10 USD"));
    check(&plain, JSON, r#"{"amount": 0.000123456789}"#, Ok("0.000124 USD"));
    check(&plain, JSON, "{\"amount\":\n 7 }", Ok("7.00 USD"));
    check(&plain, JSON, r#"{"\u0061mount": "\u0031"}"#, Ok("1.00 USD"));
    let minor = json!({"amount": "$.pay.total", "scale": "minor", "currency": "$.pay.currency"});
    check(&minor, JSON, r#"{"pay":{"total":1999,"currency":"usd"}}"#, Ok("19.99 USD"));
    check(&minor, JSON, r#"{"pay":{"total":500,"currency":"JPY"}}"#, Ok("500.00 JPY"));
    let items = json!({"amount": "$.items[*].price", "currency": "$.items[*].currency"});
    let body = r#"{"items":[{"price":1.25,"currency":"EUR"},{"price":"2","currency":"eur"}]}"#;
    check(&items, JSON, body, Ok("3.25 EUR"));
    let second = json!({"amount": "$[1]['a b']"});
    check(&second, JSON, r#"[0, {"a b": 3}]"#, Ok("3.00 USD"));
    check(&json!({"amount": "$.items[*].price"}), JSON, r#"{"items":[]}"#, Ok("0.00 USD"));
    check(&json!({"amount": "fixed:0.04"}), "image/png", "\u{1}", Ok("0.04 USD"));
}

#[test]
fn what_is_not_one_plain_amount_is_unreadable() {
    let plain = json!({"amount": "$.amount"});
    for amount in [
        "-1",
        "-0",
        "-0.5",
        "1e3",
        "1E-2",
        "12.5e0",
        "true",
        "[1]",
        "{}",
        "\"\"",
        "\"-1\"",
        "\"1e3\"",
        "\" 1\"",
        "\"1,5\"",
        "\"NaN\"",
        "1000000001",
        "99999999999999999999999999999999999999",
        "0.0000000000000000000000000000000000001",
    ] {
        check(&plain, JSON, &format!("{{\"amount\":{amount}}}"), Err(Unreadable::NotAnAmount));
    }
    for body in ["{}", r#"{"amount":null}"#, r#"{"Amount":1}"#, "[]", "5", r#""amount""#] {
        check(&plain, JSON, body, Err(Unreadable::Missing));
    }
    check(&plain, JSON, r#"{"amount":1,"Amount":2}"#, Err(Unreadable::NotAnAmount));
    check(&plain, JSON, r#"{"amount":1," amount":2}"#, Err(Unreadable::NotAnAmount));
    let deep = format!("{{\"amount\":1,\"x\":{}{}}}", "[".repeat(33), "]".repeat(33));
    for body in [
        r#"{"amount":1,"amount":2}"#,
        r#"{"amount":1,"\u0061mount":2}"#,
        r#"{"amount":1,"x":{"a":1,"a":1}}"#,
        r#"{"amount":1}{"amount":2}"#,
        r#"{"amount":NaN}"#,
        r#"{"amount":Infinity}"#,
        r#"{"amount":1"#,
        r#"{"amount":01}"#,
        "\u{feff}{\"amount\":1}",
        &deep,
    ] {
        check(&plain, JSON, body, Err(Unreadable::Malformed));
    }
    check(&plain, JSON, "", Err(Unreadable::Missing));
    check(&plain, FORM, "amount=1", Err(Unreadable::Encoding));
    check(&plain, "text/plain", r#"{"amount":1}"#, Err(Unreadable::Encoding));
    let index = json!({"amount": "$.a[2]"});
    check(&index, JSON, r#"{"a":[1,2]}"#, Err(Unreadable::Missing));
    let every = json!({"amount": "$[*].a"});
    check(&every, JSON, r#"[{"a":1},{}]"#, Err(Unreadable::Missing));
    check(&every, JSON, r#"[{"a":900000000},{"a":900000000}]"#, Err(Unreadable::NotAnAmount));
    let many = format!("[{}0]", "0,".repeat(EXTRACTED_VALUES_MAX));
    check(&json!({"amount": "$[*]"}), JSON, &many, Err(Unreadable::TooLong));
}

#[test]
fn a_currency_is_one_and_known() {
    let named = json!({"amount": "$[*].a", "currency": "$[*].c"});
    for body in [
        r#"[{"a":1,"c":"usd"},{"a":1,"c":"eur"}]"#,
        r#"[{"a":1,"c":"dollars"}]"#,
        r#"[{"a":1,"c":7}]"#,
        r#"[{"a":1,"c":null}]"#,
        "[]",
    ] {
        check(&named, JSON, body, Err(Unreadable::NoCurrency));
    }
}

#[test]
fn forms_are_read_with_their_query_and_name_each_field_once() {
    let form = json!({"amount": "form:total", "scale": "0.01", "currency": "form:cur"});
    check(&form, FORM, "total=1999&cur=eur", Ok("19.99 EUR"));
    check(&form, FORM, "%74otal=19.5&cur=eur&x=y;z", Ok("0.195 EUR"));
    let by_query = reading(&form, FORM, Some("total=5"), "cur=usd");
    assert_eq!(by_query.as_deref(), Ok("0.05 USD"));
    let empty = reading(&form, FORM, Some("total=5&cur=usd"), "");
    assert_eq!(empty.as_deref(), Ok("0.05 USD"));
    for body in [
        "total=1&total=2&cur=usd",
        "total=1&total[]=2&cur=usd",
        "total=1&[total]=2&cur=usd",
        "total=1&Total=2&cur=usd",
        "total=1&cur=usd&cur=usd",
        "total=1&cur=usd&x=1;total=2",
        "total=-1&cur=usd",
        "total=1e3&cur=usd",
        "total=&cur=usd",
    ] {
        check(&form, FORM, body, Err(Unreadable::NotAnAmount));
    }
    let twice = reading(&form, FORM, Some("total=1"), "total=1&cur=usd");
    assert_eq!(twice, Err(Unreadable::NotAnAmount));
    check(&form, FORM, "cur=usd", Err(Unreadable::Missing));
    check(&form, FORM, "total=5", Err(Unreadable::NoCurrency));
    check(&form, FORM, r#"{"total":5}&total=5&cur=usd"#, Err(Unreadable::Malformed));
    check(&form, JSON, "{}", Err(Unreadable::Encoding));
    let nested = json!({"amount": "form:data[amount]"});
    check(&nested, FORM, "data[amount]=5&amount=7", Ok("5.00 USD"));
    check(&nested, FORM, "data[amount]=5&data%5Bamount%5D=7", Err(Unreadable::NotAnAmount));
}

#[test]
fn a_query_must_not_name_what_the_json_names() {
    let plain = json!({"amount": "$.amount"});
    for query in ["amount=9", "x=1&amount=9", "AMOUNT=9", "amount[]=9", "x;amount=9", "%61mount=9"]
    {
        let found = reading(&plain, JSON, Some(query), r#"{"amount":1}"#);
        assert_eq!(found, Err(Unreadable::NotAnAmount), "{query}");
    }
    assert!(reading(&plain, JSON, Some("limit=9"), r#"{"amount":1}"#).is_ok());
}

#[test]
fn answers_settle_what_was_reserved() {
    let cost = extractor(&json!({"amount": "$.usage.cost", "source": "response", "max": "2"}));
    assert_eq!(
        without_body(&Arc::new(cost.clone())).map(|planned| planned.amount),
        Some(Amount::UpTo(Money::new(2_000_000, Currency::USD).unwrap()))
    );
    let read = |body: &str| response(&cost, body.as_bytes()).map(|money| money.unwrap().micros());
    assert_eq!(read(r#"{"usage":{"cost":0.0123}}"#), Ok(12_300));
    assert_eq!(read(r#"{"usage":{}}"#), Err(Unreadable::Missing));
    assert_eq!(read("data: {}\n\n"), Err(Unreadable::Malformed));
    assert_eq!(read(""), Err(Unreadable::Malformed));
    let asks = extractor(&json!({"amount": "$.amount"}));
    assert_eq!(response(&asks, b"{\"amount\":1}"), Ok(None));
    assert!(without_body(&Arc::new(asks.clone())).is_none());
}

#[test]
fn calls_are_known_in_every_spelling() {
    let spec = |fields: Value| {
        let spec: ExtractorSpec = serde_json::from_value(fields).unwrap();
        spec.compile().unwrap()
    };
    let extractors = [
        spec(json!({"method": "POST", "path": "/v1/orders/*/pay", "amount": "$.a"})),
        spec(json!({"path": "/v1/orders/**", "amount": "$.b"})),
    ];
    let none = HeaderMap::new();
    let mut overriding = HeaderMap::new();
    overriding.insert("x-http-method-override", HeaderValue::from_static("POST"));
    let place = |method: &Method, headers: &HeaderMap, path: &str| {
        let found = find(&extractors, method, headers, path)?;
        extractors.iter().position(|known| known == found)
    };
    for (path, expected) in [
        ("/v1/orders/7/pay", Some(0)),
        ("/V1/Orders/7/PAY/", Some(0)),
        ("/v1//orders/7/pay", Some(0)),
        ("/v1/orders/7/p%61y", Some(0)),
        ("/v1/orders/7/p%2561y", Some(0)),
        ("/v1/orders/7;x=1/pay;y", Some(0)),
        ("/v1/orders/7/pay%20", Some(0)),
        ("/v1/orders/%37/pay", Some(0)),
        ("/v1/orders/7/refund", Some(1)),
        ("/v1/orders", Some(1)),
        ("/v1/order", None),
        ("/v2/v1/orders", None),
        ("", None),
    ] {
        assert_eq!(place(&Method::POST, &none, path), expected, "{path}");
    }
    assert_eq!(place(&Method::GET, &none, "/v1/orders/7/pay"), Some(1));
    assert_eq!(place(&Method::GET, &overriding, "/v1/orders/7/pay"), Some(0));
}

#[test]
fn an_answer_is_copied_up_to_its_bound() {
    let cost = extractor(&json!({"amount": "$.cost", "source": "response", "max": "2"}));
    let mut copy = AnswerCopy::default();
    for piece in [&b"{\"cost\""[..], b"", b":0.5}"] {
        copy.take(piece);
    }
    assert_eq!(copy.money(&cost).map(|money| money.unwrap().micros()), Ok(500_000));
    copy.take(&vec![b' '; EXTRACTED_ANSWER_BYTES_MAX - 12]);
    assert!(copy.money(&cost).is_ok(), "exactly the bound");
    copy.take(b" ");
    assert_eq!(copy.money(&cost), Err(Unreadable::TooLong));
    copy.take(b"{\"cost\":1}");
    assert_eq!(copy.money(&cost), Err(Unreadable::TooLong), "what follows is not the answer");
    assert!(copy.bytes.is_empty(), "nothing is held for it");
}
