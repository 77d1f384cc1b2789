//! What each area does, and what it says to wrong input.

use serde_json::{Value, json};

use crate::fakes::Endpoint;

#[tokio::test]
async fn an_agent_is_added_shown_rotated_and_revoked() {
    let endpoint = Endpoint::new();
    let added = endpoint.ok("POST", "/agents", json!({"name": "ads-bot"})).await;
    let token = added["token"].as_str().unwrap();
    assert!(token.starts_with("ag_live_") && added["rule_set"] == "default");
    let shown = endpoint.ok("GET", "/agents/ads-bot", Value::Null).await;
    assert_eq!((&shown["id"], shown.get("token")), (&added["id"], None));
    let by_id = format!("/agents/{}", added["id"].as_str().unwrap());
    assert_eq!(endpoint.ok("GET", &by_id, Value::Null).await, shown);

    let rotated = endpoint.ok("POST", "/agents/ads-bot/rotate-token", Value::Null).await;
    assert_ne!(rotated["token"], added["token"]);
    let again = endpoint.refused("POST", "/agents", json!({"name": "ads-bot"})).await;
    assert_eq!(again, (409, "ALREADY_EXISTS: agent `ads-bot` exists already".to_owned()));

    let gone = endpoint.ok("POST", "/agents/ads-bot/revoke", Value::Null).await;
    assert_eq!(gone["status"], "revoked");
    assert!(endpoint.is_agent_stopped("ads-bot"));
    let (status, _) = endpoint.refused("POST", "/agents/ads-bot/rotate-token", Value::Null).await;
    assert_eq!(status, 409);
    let resume = json!({"agent": "ads-bot", "paused": false, "confirm": "RESUME"});
    let (status, said) = endpoint.refused("POST", "/kill-switch", resume).await;
    assert_eq!((status, said.contains("was revoked")), (409, true), "{said}");
    assert!(endpoint.is_agent_stopped("ads-bot"));
    // The name is free again.
    let second = endpoint.ok("POST", "/agents", json!({"name": "ads-bot"})).await;
    assert_ne!(second["id"], added["id"]);
    let list = endpoint.ok("GET", "/agents", Value::Null).await;
    assert_eq!(list["items"].as_array().unwrap().len(), 3);
}

#[tokio::test]
async fn wrong_agents_and_rules_name_the_field() {
    let rules = "/rule-sets/default/rules";
    let long = "x".repeat(1_025);
    let cases = vec![
        ("POST", "/agents", json!({"name": "a b"}), "parameter `name`"),
        ("POST", "/agents", json!({"name": ""}), "parameter `name`"),
        ("POST", "/agents", json!({"name": "a", "description": long}), "parameter `description`"),
        ("POST", "/agents", json!({}), "missing field `name`"),
        ("POST", rules, json!({"type": "daily_budget"}), "parameter `limit`: is missing"),
        (
            "POST",
            rules,
            json!({"type": "daily_budget", "params": {"limit": "abc"}}),
            "parameter `limit`: `abc`",
        ),
        (
            "POST",
            rules,
            json!({"type": "daily_budget", "params": {"limit": "1", "limt": 1}}),
            "parameter `limt`: is unknown",
        ),
        (
            "POST",
            rules,
            json!({"type": "daily_budget", "enabled": false, "params": {}}),
            "parameter `limit`",
        ),
        ("POST", rules, json!({"type": "no_such"}), "no_such"),
        (
            "POST",
            rules,
            json!({"type": "upstream_denials", "doors": ["exec"]}),
            "doors: it has no meaning",
        ),
    ];
    check_wrong_input(cases).await;
}

#[tokio::test]
async fn wrong_services_switches_and_questions_name_the_field() {
    let cases = vec![
        ("PUT", "/services/x", json!({}), "parameter `base_url`: is missing"),
        ("PUT", "/services/x", json!({"base_url": "nonsense"}), "parameter `base_url`"),
        ("PUT", "/services/x", json!({"base_url": "ftp://a"}), "base_url: the scheme"),
        ("PUT", "/services/x", json!({"base_url": "http://u:p@a"}), "base_url: must not carry"),
        ("PUT", "/services/X", json!({"base_url": "http://a"}), "alias"),
        ("PUT", "/services/openai", json!({"kind": "odd"}), "parameter `kind`"),
        ("PUT", "/services/openai", json!({"timeout_sec": 0}), "timeout_sec"),
        ("PUT", "/services/openai", json!({"ca_file": "a.pem"}), "parameter `ca_file`"),
        (
            "PUT",
            "/services/openai",
            json!({"credential_env": "sk-1"}),
            "parameter `credential_env`",
        ),
        ("POST", "/kill-switch", json!({"scope": "agent", "paused": true}), "parameter `agent`"),
        (
            "POST",
            "/kill-switch",
            json!({"scope": "global", "paused": false}),
            "parameter `confirm`",
        ),
        ("POST", "/explain", json!({}), "parameter `url`"),
        (
            "POST",
            "/explain",
            json!({"url": "/proxy/openai/", "amount": "1,0"}),
            "parameter `amount`",
        ),
        ("POST", "/explain", json!({"url": "/proxy/openai/", "door": "exec"}), "parameter `door`"),
        ("POST", "/explain", json!({"url": "file:///x"}), "parameter `url`"),
        ("GET", "/spend?agnt=x", Value::Null, "agnt"),
        ("POST", "/policy", json!({"version": 2}), "version: 2"),
    ];
    check_wrong_input(cases).await;
}

type Case<'a> = (&'a str, &'a str, Value, &'a str);

async fn check_wrong_input(cases: Vec<Case<'_>>) {
    let endpoint = Endpoint::new();
    for (method, path, body, expected) in cases {
        let (status, said) = endpoint.refused(method, path, body.clone()).await;
        assert_eq!(status, 400, "{method} {path} {body}: {said}");
        assert!(said.starts_with("INVALID_ARGUMENT: "), "{said}");
        assert!(said.contains(expected), "{method} {path} {body}: {said}");
    }
}

#[tokio::test]
async fn what_is_not_there_is_not_found() {
    let endpoint = Endpoint::new();
    let rule = "/rules/0190d3a2-0000-7000-8000-000000000000";
    let cases = [
        ("GET", "/agents/nobody", "no agent `nobody`"),
        ("POST", "/agents/nobody/pause", "no agent"),
        ("GET", "/rule-sets/none/rules", "no rule set `none`"),
        ("DELETE", "/rule-sets/none/rules", "no rule set"),
        ("DELETE", rule, "no rule"),
        ("DELETE", "/rules/garbage", "no rule `garbage`"),
        ("DELETE", "/services/none", "no service `none`"),
        ("GET", "/spend?agent=nobody", "no agent"),
        ("GET", "/nowhere", "no such path"),
    ];
    for (method, path, expected) in cases {
        let (status, said) = endpoint.refused(method, path, Value::Null).await;
        assert_eq!(status, 404, "{method} {path}: {said}");
        assert!(said.starts_with("NOT_FOUND: ") && said.contains(expected), "{said}");
    }
}

#[tokio::test]
async fn rules_come_into_force_and_go() {
    let endpoint = Endpoint::new();
    let path = "/rule-sets/default/rules";
    let cleared = endpoint.ok("DELETE", path, Value::Null).await;
    assert_eq!(cleared, json!({"rule_set": "default", "removed": 9}));
    let question =
        json!({"url": "https://api.stripe.com/v1/charges", "method": "POST", "amount": "3.00"});
    let before = endpoint.ok("POST", "/explain", question.clone()).await;
    assert_eq!((&before["verdict"], &before["service"]), (&"allow".into(), &"stripe".into()));

    let draft = json!({"type": "per_call_limit", "params": {"limit": "2.00"}, "doors": ["api"]});
    let rule = endpoint.ok("POST", path, draft).await;
    assert_eq!((&rule["action"], &rule["rule_set"]), (&"block".into(), &"default".into()));
    let after = endpoint.ok("POST", "/explain", question.clone()).await;
    assert_eq!(after["code"], "PER_CALL_LIMIT_EXCEEDED");
    assert_eq!(
        (&after["rules"][0]["rule_id"], after["rules"].as_array().unwrap().len()),
        (&rule["id"], 1)
    );

    let removed = endpoint
        .ok("DELETE", &format!("/rules/{}", rule["id"].as_str().unwrap()), Value::Null)
        .await;
    assert_eq!(removed, rule);
    assert_eq!(endpoint.ok("POST", "/explain", question).await["verdict"], "allow");
    let copy =
        endpoint.ok("POST", "/rule-sets", json!({"name": "b", "copy_from": "default"})).await;
    assert_eq!((&copy["name"], &copy["rules"]), (&"b".into(), &0.into()));
    assert_eq!(endpoint.refused("POST", "/rule-sets", json!({"name": "b"})).await.0, 409);
}

#[tokio::test]
async fn a_service_is_changed_only_in_what_is_given() {
    let endpoint = Endpoint::new();
    let changed = endpoint.ok("PUT", "/services/openai", json!({"allow_private": true})).await;
    assert_eq!(changed["kind"], "openai");
    assert_eq!(changed["base_url"], "https://api.openai.com/");
    let moved = json!({"base_url": "http://127.0.0.1:9", "timeout_sec": 5});
    let moved = endpoint.ok("PUT", "/services/openai", moved).await;
    assert_eq!((&moved["allow_private"], &moved["timeout_sec"]), (&true.into(), &5.into()));
    let new = endpoint.ok("PUT", "/services/mine", json!({"base_url": "https://a.example"})).await;
    assert_eq!(new["kind"], "generic");
    assert_eq!(endpoint.ok("DELETE", "/services/openai", Value::Null).await, moved);
    let back =
        endpoint.ok("PUT", "/services/openai", json!({"base_url": "https://b.example"})).await;
    assert_eq!((&back["kind"], &back["allow_private"]), (&"openai".into(), &false.into()));
}

#[tokio::test]
async fn the_kill_switch_stops_and_only_a_confirmed_person_resumes() {
    let endpoint = Endpoint::new();
    let on = json!({"scope": "global", "paused": true, "reason": "test\u{7}"});
    let state = endpoint.ok("POST", "/kill-switch", on).await;
    assert_eq!((&state["paused"], &state["reason"]), (&true.into(), &"test".into()));
    assert!(endpoint.gate.is_stopped());
    let verdict = endpoint.ok("POST", "/explain", json!({"url": "/proxy/openai/v1/models"})).await;
    assert_eq!(verdict["code"], "KILL_SWITCH_GLOBAL");
    for confirm in [Value::Null, "resume".into(), "".into()] {
        let off = json!({"scope": "global", "paused": false, "confirm": confirm});
        assert_eq!(endpoint.refused("POST", "/kill-switch", off).await.0, 400);
    }
    assert!(endpoint.gate.is_stopped());
    let off = json!({"scope": "global", "paused": false, "confirm": "RESUME"});
    let state = endpoint.ok("POST", "/kill-switch", off.clone()).await;
    assert_eq!((&state["paused"], &state["reason"]), (&false.into(), &Value::Null));
    assert!(!endpoint.gate.is_stopped());
    assert_eq!(endpoint.ok("POST", "/kill-switch", off).await["paused"], false);

    let one = json!({"agent": "default", "paused": true});
    let state = endpoint.ok("POST", "/kill-switch", one).await;
    assert_eq!((&state["scope"], &state["agent"]), (&"agent".into(), &"default".into()));
    assert!(endpoint.is_agent_stopped("default") && !endpoint.gate.is_stopped());
    assert_eq!(endpoint.ok("GET", "/agents/default", Value::Null).await["status"], "paused");
    let all = endpoint.ok("GET", "/kill-switch", Value::Null).await;
    assert_eq!(
        (&all["global"]["paused"], &all["agents"][0]["agent"]),
        (&false.into(), &"default".into())
    );
    assert_eq!(endpoint.refused("POST", "/agents/default/resume", json!({})).await.0, 400);
    let resumed = endpoint.ok("POST", "/agents/default/resume", json!({"confirm": "RESUME"})).await;
    assert_eq!(resumed["status"], "active");
}

#[tokio::test]
async fn an_exported_policy_imports_as_the_same() {
    let endpoint = Endpoint::new();
    let file = endpoint.ok("GET", "/policy", Value::Null).await;
    let dry = endpoint.ok("POST", "/policy?dry_run=true", file.clone()).await;
    assert_eq!((&dry["agents_added"], &dry["dry_run"]), (&json!([]), &true.into()));
    endpoint.ok("POST", "/policy", file.clone()).await;
    assert_eq!(endpoint.ok("GET", "/policy", Value::Null).await, file);

    let mut wider = file.clone();
    wider["rule_sets"].as_array_mut().unwrap().push(json!({"name": "open"}));
    let agents =
        json!([{"name": "default", "rule_set": "open"}, {"name": "b", "rule_set": "open"}]);
    wider["agents"] = agents;
    let report = endpoint.ok("POST", "/policy?dry_run=true", wider.clone()).await;
    assert_eq!(
        (&report["agents_added"][0], &report["agents_moved"]),
        (&json!({"name": "b"}), &1.into())
    );
    assert_eq!(endpoint.ok("GET", "/policy", Value::Null).await, file);
    let report = endpoint.ok("POST", "/policy", wider).await;
    assert!(report["agents_added"][0]["token"].as_str().unwrap().starts_with("ag_live_"));

    let mut without = file.clone();
    without["rule_sets"] = json!([{"name": "other"}]);
    without["agents"] = json!([]);
    let (status, said) = endpoint.refused("POST", "/policy", without).await;
    assert_eq!(status, 400);
    assert!(said.contains("`open` is missing, and agent `default` is under it"), "{said}");
}

#[tokio::test]
async fn spending_is_shown_by_agent_and_for_all() {
    let endpoint = Endpoint::new();
    let spent = endpoint.ok("GET", "/spend", Value::Null).await;
    assert_eq!(spent["day"], json!({"used": "0.00", "reserved": "0.00", "limit": "10.00"}));
    assert_eq!(spent["month"]["limit"], Value::Null);
    endpoint.ok("POST", "/agents", json!({"name": "b"})).await;
    let both = endpoint.ok("GET", "/spend", Value::Null).await;
    assert_eq!(
        (&both["day"]["limit"], both["agents"].as_array().unwrap().len()),
        (&Value::Null, 2)
    );
    assert_eq!(endpoint.ok("GET", "/spend?agent=b", Value::Null).await["day"], spent["day"]);
    assert_eq!(endpoint.ok("POST", "/record/flush", Value::Null).await, json!({"flushed": true}));
}

#[tokio::test]
async fn an_explanation_finds_the_service_by_path_host_or_name() {
    let endpoint = Endpoint::new();
    let ask = async |question: Value| endpoint.ok("POST", "/explain", question).await;
    let mapped = ask(json!({"url": "http://127.0.0.1:8080/proxy/openai/v1/models?key=1"})).await;
    assert_eq!((&mapped["service"], &mapped["verdict"]), (&"openai".into(), &"allow".into()));
    assert_eq!(mapped["target"], "https://api.openai.com/v1/models?key=***");
    let unknown = ask(json!({"url": "/proxy/nothing/v1"})).await;
    assert_eq!(
        (&unknown["code"], &unknown["verdict"]),
        (&"SERVICE_UNKNOWN".into(), &"block".into())
    );
    let foreign = ask(json!({"url": "https://elsewhere.example/x"})).await;
    assert_eq!((&foreign["service"], &foreign["verdict"]), (&Value::Null, &"allow".into()));
    assert!(foreign["note"].as_str().unwrap().contains("SERVICE_UNKNOWN"), "{foreign}");
    let named = ask(json!({"url": "https://elsewhere.example/x", "service": "stripe"})).await;
    assert_eq!((&named["service"], named.get("note")), (&"stripe".into(), None));
    let page = ask(json!({"url": "https://elsewhere.example/x", "door": "web"})).await;
    assert_eq!(page.get("note"), None, "the web door needs no service");
    let private = ask(json!({"url": "http://10.0.0.1/x"})).await;
    assert_eq!(private["code"], "DESTINATION_BLOCKED");
    assert!(private["destination"].is_string(), "{private}");
    let open = json!({"base_url": "http://10.0.0.1", "allow_private": true});
    endpoint.ok("PUT", "/services/inner", open).await;
    let opened = ask(json!({"url": "http://10.0.0.1/x"})).await;
    assert_eq!((&opened["verdict"], &opened["service"]), (&"allow".into(), &"inner".into()));
    endpoint.ok("POST", "/agents", json!({"name": "b"})).await;
    let (status, said) =
        endpoint.refused("POST", "/explain", json!({"url": "/proxy/openai/"})).await;
    assert!(status == 400 && said.contains("parameter `agent`"), "{said}");
}

#[tokio::test]
async fn an_address_that_would_be_rewritten_is_not_explained() {
    let endpoint = Endpoint::new();
    for url in [
        "/proxy/openai/../x",
        "/proxy/openai/a/./b",
        "/proxy/openai/..",
        "/proxy/openai/%2e%2E/x",
        "/proxy/openai/.%2e/x",
        "/proxy/openai/..;a=1/x",
        "/proxy/openai/.\t./x",
        "/proxy/openai/a%2fb",
        "/proxy/openai/a%5Cb",
        "/proxy/openai/a%252fb",
        "/proxy/openai/a\\..\\b",
        "/proxy/openai//host/x",
        "/proxy/../proxy/openai/x",
        "http://127.0.0.1:8080/proxy/openai/../stripe/x",
        "https://api.openai.com/v1/../x",
        "https://api.openai.com/v1/..?a=b",
    ] {
        let (status, said) = endpoint.refused("POST", "/explain", json!({"url": url})).await;
        assert_eq!(status, 400, "{url}: {said}");
        assert!(said.starts_with("INVALID_ARGUMENT: parameter `url`"), "{url}: {said}");
    }
    for url in [
        "/proxy/openai/v1/models?q=../x",
        "/proxy/openai/v1/...",
        "/proxy/openai/a..b/.hidden",
        "https://api.openai.com/v1/a%20b#../x",
        "/proxy/openai",
        "/proxy/openai/",
    ] {
        let answer = endpoint.ok("POST", "/explain", json!({"url": url})).await;
        assert_eq!(answer["verdict"], "allow", "{url}: {answer}");
    }
}

#[tokio::test]
async fn prices_are_listed_checked_set_and_removed() {
    let endpoint = Endpoint::new();
    let all = endpoint.ok("GET", "/prices", Value::Null).await;
    let all = all["items"].as_array().unwrap();
    assert!(all.len() > 100 && all.iter().all(|price| price["origin"] == "built_in"));
    let dated = endpoint.ok("GET", "/prices/gpt-4o-2031-01-31", Value::Null).await;
    assert_eq!(
        (&dated["how"], &dated["price"]["model"]),
        (&json!("dated_version"), &json!("gpt-4o"))
    );

    let (status, answer) = endpoint.call("GET", "/prices/gpt-4p", Value::Null).await;
    assert_eq!((status, &answer["error"]["code"]), (404, &json!("NOT_FOUND")));
    let details = &answer["error"]["details"];
    assert!(details["nearest"].as_array().unwrap().contains(&json!("gpt-4o")), "{details}");
    assert!(details["remedy"].as_str().unwrap().contains("agentguard price set 'gpt-4p'"));

    let figures = json!({"input": "3", "output": "12.5"});
    let put = endpoint.ok("PUT", "/prices/Local%2FModel-7b", figures.clone()).await;
    assert_eq!((&put["model"], &put["reasons"]), (&json!("local/model-7b"), &json!(true)));
    let checked = endpoint.ok("GET", "/prices/local%2Fmodel-7b", Value::Null).await;
    assert_eq!(
        (&checked["how"], &checked["price"]["origin"], &checked["example_usd"]),
        (&json!("exact"), &json!("stored"), &json!("0.0155"))
    );
    endpoint.ok("PUT", "/prices/gpt-4o", figures).await;
    let over = endpoint.ok("GET", "/prices/gpt-4o", Value::Null).await;
    assert_eq!(
        (&over["price"]["input"], &over["price"]["origin"]),
        (&json!("3.00"), &json!("stored"))
    );
    let exported = endpoint.ok("GET", "/policy", Value::Null).await;
    assert_eq!(exported["prices"].as_array().unwrap().len(), 2);
    endpoint.ok("DELETE", "/prices/GPT-4O", Value::Null).await;
    let back = endpoint.ok("GET", "/prices/gpt-4o", Value::Null).await;
    assert_eq!(
        (&back["price"]["input"], &back["price"]["origin"]),
        (&json!("2.50"), &json!("built_in"))
    );
    let (status, said) = endpoint.refused("DELETE", "/prices/gpt-4o", Value::Null).await;
    assert_eq!((status, said.as_str()), (404, "NOT_FOUND: no stored price `gpt-4o`"));
    endpoint.ok("POST", "/policy", exported).await;
    let again = endpoint.ok("GET", "/prices/gpt-4o", Value::Null).await;
    assert_eq!(again["price"]["origin"], "stored");
}

#[tokio::test]
async fn wrong_prices_name_the_field() {
    let price = json!({"model": "m", "input": "1", "output": "1"});
    let policy =
        |prices: Value| json!({"version": 1, "rule_sets": [{"name": "default"}], "prices": prices});
    let cases = vec![
        ("PUT", "/prices/m", json!({"output": "1"}), "missing field `input`"),
        ("PUT", "/prices/m", json!({"input": 2.5, "output": "1"}), "expected a string"),
        ("PUT", "/prices/m", json!({"input": "-1", "output": "1"}), "parameter input: `-1`"),
        ("PUT", "/prices/m", json!({"input": "1", "output": "1", "inptu": "1"}), "`inptu`"),
        ("PUT", "/prices/m", json!({"input": "1", "output": "1", "model": "n"}), "`model`"),
        ("PUT", "/prices/a*b", json!({"input": "1", "output": "1"}), "parameter model"),
        (
            "PUT",
            "/prices/m",
            json!({"input": "1", "output": "1", "max_output_tokens": 0}),
            "max_output_tokens",
        ),
        ("POST", "/policy", policy(json!([price, price])), "price of `m`: is there twice"),
        ("POST", "/policy", policy(json!([{"model": "m", "input": "x", "output": "1"}])), "input"),
    ];
    check_wrong_input(cases).await;
}

#[tokio::test]
async fn extractors_are_added_listed_and_removed() {
    let endpoint = Endpoint::new();
    let path = "/services/stripe/extractors";
    let fixed = json!({"path": "/v1/search", "amount": "fixed:0.04"});
    assert_eq!(endpoint.ok("POST", path, fixed).await["number"], 1);
    let read = json!({"method": "post", "path": "/v1/x/*", "amount": "$.a", "scale": "minor"});
    let added = endpoint.ok("POST", path, read).await;
    assert_eq!((&added["number"], &added["source"]), (&json!(2), &json!("request")));
    let list = endpoint.ok("GET", path, Value::Null).await;
    assert_eq!(list["items"].as_array().unwrap().len(), 2);
    let service = endpoint.ok("PUT", "/services/stripe", json!({"timeout_sec": 9})).await;
    assert_eq!(service["extractors"].as_array().unwrap().len(), 2, "a patch leaves them");
    let policy = endpoint.ok("GET", "/policy", Value::Null).await;
    endpoint.ok("POST", "/policy", policy).await;
    let gone = endpoint.ok("DELETE", &format!("{path}/1"), Value::Null).await;
    assert_eq!(gone["amount"], "fixed:0.04");
    let left = endpoint.ok("GET", path, Value::Null).await;
    assert_eq!(
        (&left["items"][0]["path"], &left["items"][0]["number"]),
        (&json!("/v1/x/*"), &json!(1))
    );
    for number in ["0", "2", "x", "-1"] {
        let (status, _) =
            endpoint.refused("DELETE", &format!("{path}/{number}"), Value::Null).await;
        assert_eq!(status, 404, "{number}");
    }
    endpoint.ok("PUT", "/services/stripe", json!({"extractors": []})).await;
    assert_eq!(endpoint.ok("GET", path, Value::Null).await["items"], json!([]));
}

#[tokio::test]
async fn wrong_extractors_name_the_field() {
    let path = "/services/stripe/extractors";
    let one = json!({"path": "/v1/x", "amount": "$.a"});
    let bad = json!({"path": "/v1/x", "amount": "a"});
    let cases = vec![
        ("POST", path, json!({"amount": "$.a"}), "missing field `path`"),
        ("POST", path, json!({"path": "x", "amount": "$.a"}), "parameter path: must begin"),
        ("POST", path, json!({"path": "/x", "amount": "$..a"}), "parameter amount: "),
        (
            "POST",
            path,
            json!({"path": "/x", "amount": "$.a", "source": "response"}),
            "parameter max",
        ),
        ("POST", path, json!({"path": "/x", "amount": "$.a", "factor": "1"}), "`factor`"),
        ("PUT", "/services/stripe", json!({"extractors": [one, bad]}), "extractors[1].amount: "),
        (
            "PUT",
            "/services/stripe",
            json!({"extractors": vec![one.clone(); 65]}),
            "there are more than 64",
        ),
    ];
    check_wrong_input(cases).await;
}
