//! Virtual keys from end to end: the command line gives the gate a credential, an agent shows its
//! token where the SDK puts the key, and the upstream sees the credential.

use std::path::Path;
use std::process::Output;

use ::http::Method;
use agentguard_testkit::http::{self, Answer};
use agentguard_testkit::process::show;
use agentguard_testkit::{GateConfig, GateProcess, Upstream};
use serde_json::Value;

use crate::support::{PROGRAM, fails, says};

const REAL: &str = "sk-real-Hunter2Hunter2";
const SET: [&str; 4] = ["service", "set", "openai", "--credential-env"];

struct World {
    runtime: tokio::runtime::Runtime,
    upstream: Upstream,
    gate: GateProcess,
    token: String,
}

impl World {
    /// A gate with an upstream behind `openai`, and an agent with a token.
    fn new(config: GateConfig) -> Self {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let upstream = runtime.block_on(Upstream::start());
        let gate = GateProcess::start(PROGRAM, config);
        gate.serve("openai", "openai", &upstream);
        let added = gate.cli_json(&["agent", "add", "bot", "--json"]);
        let token = added.get("token").and_then(Value::as_str).unwrap().to_owned();
        Self { runtime, upstream, gate, token }
    }

    /// As an SDK with `OPENAI_API_KEY=ag_live_…` calls.
    fn call(&self) -> Answer {
        let bearer = format!("Bearer {}", self.token);
        let url = format!("{}/echo", self.gate.proxy_url("openai"));
        let headers = [("authorization", bearer.as_str())];
        self.runtime.block_on(http::request(Method::GET, &url, &headers, ""))
    }

    /// What the upstream saw of a call that passes.
    fn seen(&self) -> String {
        let answer = self.call();
        assert_eq!(answer.status.as_u16(), 200, "{}\n{}", answer.text(), self.gate.output());
        let request = self.upstream.requests().pop().unwrap();
        request.headers.get("authorization").unwrap().to_str().unwrap().to_owned()
    }

    fn check_refused(&self) {
        let before = self.upstream.requests().len();
        let answer = self.call();
        let code = answer.json().pointer("/error/code").cloned();
        assert_eq!(code, Some("CREDENTIAL_MISSING".into()), "{}", answer.text());
        assert_eq!(answer.status.as_u16(), 403);
        assert_eq!(self.upstream.requests().len(), before);
    }

    fn shown(&self) -> Value {
        self.gate.cli_json(&["service", "show", "openai", "--json"])
    }
}

fn ok(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{}", show(output));
    let both = [output.stdout.as_slice(), &output.stderr].concat();
    let said = String::from_utf8(both).unwrap();
    assert!(!said.contains("Hunter2"), "{said}");
    said
}

#[test]
fn an_agent_calls_with_its_token_and_the_upstream_sees_the_credential() {
    let mut world = World::new(GateConfig::new());
    world.check_refused();
    let from_env = [&SET[..], &["OPENAI_KEY"]].concat();
    let said = ok(&world.gate.cli_with(&from_env, &[("OPENAI_KEY", REAL)], ""));
    assert!(said.contains("its credential is stored"), "{said}");
    assert_eq!(world.seen(), format!("Bearer {REAL}"));
    assert_eq!(world.shown()["credential"], "stored");
    assert!(says(&world.gate, &["service", "list"]).contains("credential=stored"));

    // It is there after a restart, and in no file, export, log or list in clear.
    world.gate.restart();
    assert_eq!(world.seen(), format!("Bearer {REAL}"));
    let exported = says(&world.gate, &["policy", "export", "-"]);
    let changes = says(&world.gate, &["logs", "--json", "-n", "50"]);
    assert!(!format!("{exported}{changes}{}", world.gate.output()).contains("Hunter2"));
    world.gate.terminate();
    check_no_file_holds(&world.gate.data_dir(), b"Hunter2");
    world.gate.launch().unwrap();

    let from_file = ["service", "set", "openai", "--credential-file", "-"];
    ok(&world.gate.cli_with(&from_file, &[], "sk-second-Hunter2\n"));
    assert_eq!(world.seen(), "Bearer sk-second-Hunter2");
    std::fs::write(world.gate.folder().join("key.txt"), "sk-third-Hunter2\r\n").unwrap();
    let from_file = ["service", "set", "openai", "--credential-file", "key.txt"];
    ok(&world.gate.cli(&from_file));
    assert_eq!(world.seen(), "Bearer sk-third-Hunter2");
    ok(&world.gate.cli(&["service", "set", "openai", "--remove-credential"]));
    assert_eq!(world.shown()["credential"], Value::Null);
    world.check_refused();
    assert_eq!(world.upstream.stats().guard_tokens_seen, 0);
}

fn check_no_file_holds(dir: &Path, part: &[u8]) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            check_no_file_holds(&path, part);
            continue;
        }
        let bytes = std::fs::read(&path).unwrap();
        let found = bytes.windows(part.len()).any(|window| window == part);
        assert!(!found, "{}", path.display());
    }
}

#[test]
fn a_service_that_moves_loses_its_credential_and_says_so() {
    let world = World::new(GateConfig::new());
    let from_env = [&SET[..], &["OPENAI_KEY"]].concat();
    ok(&world.gate.cli_with(&from_env, &[("OPENAI_KEY", REAL)], ""));
    let there = format!("{}/v1", world.upstream.base_url());
    let moved = ["service", "set", "openai", "--base-url", &there];
    assert!(!ok(&world.gate.cli(&moved)).contains("warning"));
    let elsewhere = ["service", "set", "openai", "--base-url", "http://127.0.0.1:9"];
    let said = ok(&world.gate.cli(&elsewhere));
    assert!(said.contains("warning: its credential was for another origin and is gone"), "{said}");
    assert_eq!(world.shown()["credential"], Value::Null);
}

#[test]
fn a_variable_of_the_gate_itself_is_used_by_name() {
    let world = World::new(GateConfig::new().gate_env("GATE_KEY", REAL));
    let said = ok(&world.gate.cli(&[&SET[..], &["GATE_KEY"]].concat()));
    assert!(said.contains("the variable GATE_KEY of the gate's environment"), "{said}");
    let shown = world.shown();
    assert_eq!(
        (&shown["credential"], &shown["credential_env"]),
        (&"env".into(), &"GATE_KEY".into())
    );
    assert_eq!(world.seen(), format!("Bearer {REAL}"));
    let taken = [&SET[..], &[""]].concat();
    ok(&world.gate.cli(&taken));
    world.check_refused();
}

#[test]
fn wrong_credentials_exit_2_and_are_not_repeated() {
    let world = World::new(GateConfig::new());
    let (code, said) = fails(&world.gate, &[&SET[..], &["NOT_SET_ANYWHERE"]].concat());
    assert_eq!(code, 2, "{said}");
    assert!(said.contains("`NOT_SET_ANYWHERE` is not set in the gate's environment"), "{said}");
    assert!(said.contains("hint: the variable is not set for this command"), "{said}");
    let (code, said) = fails(&world.gate, &[&SET[..], &[REAL]].concat());
    assert!(code == 2 && !said.contains("Hunter2"), "{said}");
    let (code, said) = fails(&world.gate, &["service", "set", "openai", "--credential-file", "no"]);
    assert!(code == 2 && said.contains("parameter `credential_file`: `no` cannot be read"));
    let both = [&SET[..], &["A", "--remove-credential"]].concat();
    assert_eq!(fails(&world.gate, &both).0, 2);
    let from_env = [&SET[..], &["KEY"]].concat();
    for bad in ["Hunter2 with spaces", "Hunter2\nx-evil: 1", &world.token, &"Hunter2".repeat(999)] {
        let output = world.gate.cli_with(&from_env, &[("KEY", bad)], "");
        let said = String::from_utf8(output.stderr.clone()).unwrap();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("parameter `credential_env`: `KEY`") && !said.contains("Hunter2"));
    }
    assert_eq!(world.shown()["credential"], Value::Null);
}

#[test]
fn a_gate_without_its_key_starts_warns_and_refuses() {
    let mut world = World::new(GateConfig::new());
    let from_env = [&SET[..], &["OPENAI_KEY"]].concat();
    ok(&world.gate.cli_with(&from_env, &[("OPENAI_KEY", REAL)], ""));
    world.gate.terminate();
    std::fs::remove_file(world.gate.data_dir().join("keys/credentials.key")).unwrap();
    world.gate.launch().unwrap();
    assert!(world.gate.stderr().contains("the credential of service `openai` cannot be used"));
    world.check_refused();
    let shown = world.shown();
    assert_eq!(shown["credential"], "unusable");
    assert!(shown["credential_problem"].as_str().unwrap().contains("key file"), "{shown}");
    // Stored again, it works again.
    ok(&world.gate.cli_with(&from_env, &[("OPENAI_KEY", REAL)], ""));
    assert_eq!(world.seen(), format!("Bearer {REAL}"));
}
