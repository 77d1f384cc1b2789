//! `service extractor`: added, tried, and charged by.

use agentguard_testkit::Upstream;
use agentguard_testkit::http::Client;
use http::Method;
use serde_json::json;

use crate::support::{fails, gate, prepared, says};

#[test]
fn an_extractor_is_tried_without_a_gate() {
    let gate = prepared();
    let file = gate.folder().join("sample");
    let sample = file.to_str().unwrap();
    let tried = |text: &str, args: &[&str]| {
        std::fs::write(&file, text).unwrap();
        let base = ["service", "extractor", "try", "--json"];
        gate.cli_json(&[&base[..], args, &[sample]].concat())
    };
    let read = tried(r#"{"total": 12.5}"#, &["--amount", "$.total"]);
    assert_eq!(read, json!({"amount": "12.50", "currency": "USD", "cost_usd": "12.50"}));
    let euro = ["--amount", "form:total", "--scale", "minor", "--currency", "form:cur"];
    let read = tried("total=1999&cur=eur", &euro);
    assert_eq!(read, json!({"amount": "19.99", "currency": "EUR", "cost_usd": "21.5892"}));
    let answer = ["--source", "response", "--amount", "$.usage.cost"];
    assert_eq!(tried(r#"{"usage":{"cost":0.000125}}"#, &answer)["cost_usd"], "0.000125");
    let yen = tried("{\"a\":5}", &["--amount", "$.a", "--currency", "JPY"]);
    assert_eq!((&yen["amount"], &yen["cost_usd"]), (&"5.00".into(), &json!(null)));

    let refused = |text: &str, args: &[&str], code: i32, expected: &str| {
        std::fs::write(&file, text).unwrap();
        let (found, said) =
            fails(&gate, &[&["service", "extractor", "try"], args, &[sample]].concat());
        assert!(found == code && said.contains(expected), "{args:?}: {found} {said}");
    };
    refused(r#"{"total":1,"total":2}"#, &["--amount", "$.total"], 1, "not well-formed");
    refused("{}", &["--amount", "$.total"], 1, "the amount is missing");
    refused("{}", &["--amount", "total"], 2, "parameter amount: must be a path");
    refused("{}", &[], 2, "parameter `amount`");
    let other = ["--amount", "$.a", "--content-type", "text/plain"];
    refused("{}", &other, 1, "content type");
    let none = ["service", "extractor", "try", "--amount", "$.a", "none"];
    assert_eq!(fails(&gate, &none).0, 2);
}

#[test]
fn calls_are_charged_by_an_operators_extractor() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let upstream = runtime.block_on(Upstream::start());
    let gate = gate();
    let base = format!("{}/echo", upstream.base_url());
    gate.cli_json(&["service", "set", "shop", "--base-url", &base, "--allow-private", "--json"]);
    let add =
        ["service", "extractor", "add", "shop", "--method", "POST", "--path", "/orders/*/pay"];
    let figures = ["--amount", "$.total", "--scale", "minor", "--currency", "$.cur", "--json"];
    assert_eq!(gate.cli_json(&[&add[..], &figures].concat())["number"], 1);
    assert!(says(&gate, &["service", "extractor", "list", "shop"]).contains("/orders/*/pay"));
    assert!(says(&gate, &["service", "list"]).contains("extractors=1"));

    let sample = gate.folder().join("sample.json");
    std::fs::write(&sample, r#"{"total": 250, "cur": "usd"}"#).unwrap();
    let sample = sample.to_str().unwrap();
    let try_shop = ["service", "extractor", "try", "shop", "--path"];
    let tried = gate.cli_json(&[&try_shop[..], &["/Orders/7/pay?x=1", sample, "--json"]].concat());
    assert_eq!((&tried["amount"], &tried["number"]), (&"2.50".into(), &1.into()));
    let (code, said) = fails(&gate, &[&try_shop[..], &["/orders", sample]].concat());
    assert!(code == 1 && said.contains("no extractor of `shop` fits POST /orders"), "{said}");

    let url = format!("{}/orders/7/pay", gate.proxy_url("shop"));
    let json = [("content-type", "application/json")];
    let body = r#"{"total": 250, "cur": "usd"}"#;
    let client = Client::new();
    let call = client.request(Method::POST, &url, &json, body);
    assert_eq!(runtime.block_on(call).unwrap().status.as_u16(), 200);
    let spent = gate.cli_json(&["spend", "--json"]);
    assert_eq!(spent["day"]["used"], "2.50", "{spent}");
    let removed = gate.cli_json(&["service", "extractor", "remove", "shop", "1", "--json"]);
    assert_eq!(removed["path"], "/orders/*/pay");
    assert_eq!(fails(&gate, &["service", "extractor", "remove", "shop", "1"]).0, 1);
    let wrong = ["service", "extractor", "add", "shop", "--path", "/x", "--amount", "$..x"];
    let (code, said) = fails(&gate, &wrong);
    assert!(code == 2 && said.contains("parameter amount"), "{said}");
}
