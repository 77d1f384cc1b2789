//! A gate with an upstream behind it, and looks at what it kept.

use std::time::Duration;

use agentguard_store::{AlertRow, open_reader};
use agentguard_testkit::http::{self, Answer};
use agentguard_testkit::{GateConfig, GateProcess, Scrape, Upstream};
use http::Client;
use serde_json::Value;

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_agentguard");

pub(crate) struct Scene {
    pub(crate) gate: GateProcess,
    pub(crate) upstream: Upstream,
}

impl Scene {
    /// A gate without rules, `stripe` and `plain` leading to the upstream.
    pub(crate) async fn new(config: GateConfig) -> Self {
        let upstream = Upstream::start().await;
        let gate = GateProcess::start(PROGRAM, config);
        gate.serve("plain", "generic", &upstream);
        gate.serve("stripe", "stripe", &upstream);
        Self { gate, upstream }
    }

    /// Pays so many cents.
    pub(crate) async fn pay(&self, cents: u64) -> Answer {
        let url = format!("{}/v1/charges", self.gate.proxy_url("stripe"));
        let kind = [("content-type", "application/x-www-form-urlencoded")];
        let body = format!("amount={cents}&currency=usd&source=tok_visa");
        http::request(::http::Method::POST, &url, &kind, body).await
    }

    /// Asks a small model of the service `openai`, of which the upstream will say that it wrote so many
    /// tokens.
    pub(crate) async fn ask(&self, tokens: u64) -> Answer {
        let url = format!("{}/v1/chat/completions", self.gate.proxy_url("openai"));
        let events = tokens.to_string();
        let headers = [
            ("content-type", "application/json"),
            ("x-test-input-tokens", "10"),
            ("x-test-events", events.as_str()),
        ];
        let body = r#"{"model":"gpt-4o-mini","max_tokens":16000,"messages":[]}"#;
        http::request(::http::Method::POST, &url, &headers, body).await
    }

    pub(crate) async fn get(&self, alias: &str, path: &str) -> Answer {
        let url = format!("{}{path}", self.gate.proxy_url(alias));
        http::request(::http::Method::GET, &url, &[], "").await
    }

    pub(crate) fn rule(&self, kind: &str, action: &str, params: &[&str]) {
        let mut args = vec!["rule", "add", "--json", "--type", kind, "--action", action];
        args.extend(params.iter().flat_map(|param| ["--param", *param]));
        self.gate.cli_json(&args);
    }

    /// All rows, brought up to date, the oldest first.
    pub(crate) fn rows(&self) -> Vec<Value> {
        let rows = self.gate.cli_json(&["logs", "-n", "10000", "--json"]);
        let mut rows = rows.as_array().unwrap().clone();
        rows.sort_by_key(|row| row["seq"].as_i64());
        rows
    }

    /// Alerts with their details, the oldest first. Brings the record up to date.
    pub(crate) fn alerts(&self) -> Vec<(AlertRow, Value)> {
        self.rows();
        let mut alerts = open_reader(&self.gate.data_dir()).unwrap().alerts(1_000).unwrap();
        alerts.reverse();
        let details = |row: &AlertRow| serde_json::from_str(row.details.as_ref().unwrap().get());
        alerts.into_iter().map(|row| (row.clone(), details(&row).unwrap())).collect()
    }

    pub(crate) async fn scrape(&self) -> Scrape {
        Scrape::parse(&self.metrics().await)
    }

    pub(crate) async fn metrics(&self) -> String {
        let url = format!("http://{}/metrics", self.gate.admin_addr());
        let answer = Client::new().request(::http::Method::GET, &url, &[], "").await.unwrap();
        assert_eq!(answer.status.as_u16(), 200, "{}", answer.text());
        answer.text()
    }

    /// The first page of metrics of which this holds.
    pub(crate) async fn scrape_until(&self, holds: impl Fn(&Scrape) -> bool) -> Scrape {
        for _ in 0..400 {
            let scrape = self.scrape().await;
            if holds(&scrape) {
                return scrape;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("never so: {}", self.metrics().await);
    }
}

/// The refusal's code; empty if it is none.
pub(crate) fn code(answer: &Answer) -> String {
    answer.json()["error"]["code"].as_str().unwrap_or_default().to_owned()
}

pub(crate) fn request_id(answer: &Answer) -> String {
    answer.header("x-agentguard-request-id").unwrap().to_owned()
}
