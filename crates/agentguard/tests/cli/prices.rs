//! `price`, with and without a gate.

use std::time::{Duration, Instant};

use agentguard_testkit::{GateConfig, GateProcess};

use crate::support::{PROGRAM, fails, gate, prepared, says};

#[test]
fn prices_are_listed_checked_set_and_removed() {
    let gate = gate();
    let all = gate.cli_json(&["price", "list", "--json"]);
    assert!(all.as_array().unwrap().len() > 100);
    assert!(says(&gate, &["price", "list"]).contains("built_in"));
    let set = ["price", "set", "gpt-4o", "--input", "3", "--output", "12", "--json"];
    let spec = gate.cli_json(&[&set[..], &["--max-output-tokens", "9", "--no-reasoning"]].concat());
    assert_eq!((&spec["max_output_tokens"], &spec["reasons"]), (&9.into(), &false.into()));
    let checked = gate.cli_json(&["price", "check", "gpt-4o-2031-01-31", "--json"]);
    assert_eq!(
        (&checked["how"], &checked["price"]["origin"], &checked["asked_of"]),
        (&"dated_version".into(), &"stored".into(), &"gate".into())
    );
    assert_eq!(checked["example_usd"], "0.015");
    let human = says(&gate, &["price", "check", "gpt-4o"]);
    assert!(human.contains("set by an operator") && human.contains("cost 0.015 USD"), "{human}");
    assert!(!human.contains("No gate is running"), "{human}");
    gate.cli_json(&["price", "set", "acme/*", "--input", "1", "--output", "1", "--json"]);
    let begins = gate.cli_json(&["price", "check", "acme/any", "--json"]);
    assert_eq!(
        (&begins["how"], &begins["price"]["model"]),
        (&"beginning".into(), &"acme/*".into())
    );
    assert_eq!(gate.cli_json(&["price", "remove", "gpt-4o", "--json"])["input"], "3");
    let back = gate.cli_json(&["price", "check", "gpt-4o", "--json"]);
    assert_eq!(back["price"]["origin"], "built_in");
    let (code, said) = fails(&gate, &["price", "remove", "gpt-4o"]);
    assert!(code == 1 && said.contains("can be set over"), "{said}");
    let (code, said) = fails(&gate, &["price", "check", "gpt-4p"]);
    assert!(code == 1 && said.contains("gpt-4o") && said.contains("price set 'gpt-4p'"), "{said}");
    for wrong in ["--input=-1", "--input=1e3", "--input=2,5"] {
        let (code, said) = fails(&gate, &["price", "set", "m", "--output", "1", wrong]);
        assert!(code == 2 && said.contains("input"), "{said}");
    }
}

#[test]
fn a_check_without_a_gate_uses_the_configuration_and_says_so() {
    let gate = prepared();
    let human = says(&gate, &["price", "check", "claude-sonnet-4-5"]);
    assert!(human.contains("No gate is running") && human.contains("22.50"), "{human}");
    assert!(human.contains("the program's own figures of 20"), "{human}");
    let (code, said) = fails(&gate, &["price", "check", "gpt4o"]);
    assert!(code == 1 && said.contains("did you mean gpt-4o"), "{said}");
    assert_eq!(fails(&gate, &["price", "list"]).0, 1);

    let config = GateConfig::new()
        .in_section("proxy", "prices_file: prices.yaml")
        .in_section("proxy", "fallback_price: { input: 50, output: 100 }");
    let gate = GateProcess::prepare(PROGRAM, config);
    let (code, said) = fails(&gate, &["price", "check", "m"]);
    assert!(code == 2 && said.contains("proxy.prices_file"), "{said}");
    std::fs::write(gate.folder().join("prices.yaml"), "- { model: m, input: 1, output: 2 }")
        .unwrap();
    let checked = gate.cli_json(&["price", "check", "m", "--json"]);
    assert_eq!(
        (&checked["price"]["origin"], &checked["asked_of"]),
        (&"file".into(), &"configuration".into())
    );
    let fallback = gate.cli_json(&["price", "check", "unheard-of", "--json"]);
    assert_eq!(
        (&fallback["how"], &fallback["price"]["input"]),
        (&"fallback".into(), &"50.00".into())
    );
}

#[test]
fn a_changed_file_of_prices_is_taken_over_and_a_broken_one_is_not() {
    let config = GateConfig::new().in_section("proxy", "prices_file: prices.yaml");
    let mut gate = GateProcess::prepare(PROGRAM, config);
    let file = gate.folder().join("prices.yaml");
    std::fs::write(&file, "- { model: m, input: 1, output: 2 }").unwrap();
    gate.launch().unwrap();
    let input = || gate.cli_json(&["price", "check", "m", "--json"])["price"]["input"].clone();
    assert_eq!(input(), "1.00");
    std::fs::write(&file, "- { model: m, input: 3, output: 2 }").unwrap();
    let since = Instant::now();
    while input() != "3.00" {
        assert!(since.elapsed() < Duration::from_secs(20), "{}", gate.output());
    }
    std::fs::write(&file, "- { model: m, input: nothing }").unwrap();
    while !gate.output().contains("the configuration is broken") {
        assert!(since.elapsed() < Duration::from_secs(40), "{}", gate.output());
        std::thread::yield_now();
    }
    assert_eq!(input(), "3.00");
    gate.cli_json(&["price", "set", "m", "--input", "9", "--output", "9", "--json"]);
    assert_eq!(input(), "9.00");
    gate.terminate();
    let start = gate.launch().unwrap_err();
    assert!(start.stderr.contains("prices.yaml line 1"), "{start}");
    std::fs::write(&file, "[]").unwrap();
    gate.launch().unwrap();
    assert_eq!(gate.cli_json(&["price", "check", "m", "--json"])["price"]["input"], "9.00");
}
