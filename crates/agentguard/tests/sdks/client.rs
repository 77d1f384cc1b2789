//! The six clients: how they are started and where they are pointed.

use agentguard_testkit::{GateProcess, node_task, process, python_task};
use serde_json::Value;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Vendor {
    OpenAi,
    Anthropic,
    Stripe,
}

impl Vendor {
    /// Kind and alias of the service.
    pub(crate) fn kind(self) -> &'static str {
        match self {
            Self::OpenAi => "openai",
            Self::Anthropic => "anthropic",
            Self::Stripe => "stripe",
        }
    }

    /// What the user of the client writes as its base URL.
    pub(crate) fn base_url(self, gate: &GateProcess, alias: &str) -> String {
        let url = gate.proxy_url(alias);
        match self {
            Self::OpenAi => format!("{url}/v1"),
            Self::Anthropic | Self::Stripe => url,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Language {
    Python,
    Node,
}

/// One client, run with scripts of its own language.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Client {
    pub(crate) vendor: Vendor,
    pub(crate) language: Language,
}

impl Client {
    pub(crate) const fn python(vendor: Vendor) -> Self {
        Self { vendor, language: Language::Python }
    }

    pub(crate) const fn node(vendor: Vendor) -> Self {
        Self { vendor, language: Language::Node }
    }

    /// Runs a script to its end and reads the JSON that it prints. A word on stderr is a failure:
    /// clients warn there of answers that do not fit their types.
    pub(crate) async fn run(self, script: &str, args: &[&str]) -> Value {
        let args = args.iter().map(ToString::to_string).collect();
        let output = match self.language {
            Language::Python => python_task(script, args, Vec::new()).await,
            Language::Node => node_task(script, args).await,
        };
        let clean = output.status.success() && output.stderr.is_empty();
        assert!(clean, "{self:?}: {}", process::show(&output));
        serde_json::from_slice(&output.stdout).unwrap()
    }
}
