//! Credentials of services: taken in, never given out.

use agentguard_gate::CredentialState;
use serde_json::{Value, json};

use crate::fakes::Endpoint;

/// A variable that every test of this workspace has.
const VARIABLE: &str = "CARGO_PKG_VERSION";

fn held(endpoint: &Endpoint, alias: &str) -> Option<String> {
    match endpoint.gate.directory().credential(alias) {
        CredentialState::None | CredentialState::Unusable(_) => None,
        CredentialState::Held { credential, .. } => Some(credential.expose().to_owned()),
    }
}

#[tokio::test]
async fn a_credential_is_taken_in_and_never_given_out() {
    let endpoint = Endpoint::new();
    let put = async |body: Value| endpoint.ok("PUT", "/services/openai", body).await;
    let made = put(json!({"credential": "sk-hunter2"})).await;
    assert_eq!((&made["credential"], made.get("credential_dropped")), (&"stored".into(), None));
    assert_eq!(held(&endpoint, "openai").as_deref(), Some("sk-hunter2"));
    // What is not given stays.
    put(json!({"timeout_sec": 5})).await;
    assert_eq!(held(&endpoint, "openai").as_deref(), Some("sk-hunter2"));
    for path in ["/services", "/services/openai", "/policy", "/agents"] {
        let shown = endpoint.ok("GET", path, Value::Null).await.to_string();
        assert!(!shown.contains("hunter2"), "{path}: {shown}");
    }
    assert!(!format!("{:?}", endpoint.gate.directory().data()).contains("hunter2"));
    let shown = endpoint.ok("GET", "/services/openai", Value::Null).await;
    assert_eq!((&shown["credential"], &shown["timeout_sec"]), (&"stored".into(), &5.into()));
    assert_eq!(put(json!({"credential": ""})).await["credential"], Value::Null);
    assert_eq!(held(&endpoint, "openai"), None);
    put(json!({"credential": "sk-hunter2"})).await;
    let gone = endpoint.ok("DELETE", "/services/openai", Value::Null).await;
    assert_eq!(gone["credential"], "stored");
    put(json!({"base_url": "https://api.openai.com"})).await;
    assert_eq!(held(&endpoint, "openai"), None);
}

#[tokio::test]
async fn a_credential_does_not_follow_its_service_to_another_origin() {
    let endpoint = Endpoint::new();
    let put = async |body: Value| endpoint.ok("PUT", "/services/openai", body).await;
    put(json!({"credential": "sk-hunter2"})).await;
    let near = put(json!({"base_url": "https://api.openai.com/v2"})).await;
    assert_eq!((&near["credential"], near.get("credential_dropped")), (&"stored".into(), None));
    let far = put(json!({"base_url": "https://evil.example"})).await;
    assert_eq!((&far["credential"], &far["credential_dropped"]), (&Value::Null, &true.into()));
    assert_eq!(held(&endpoint, "openai"), None);
    let back = put(json!({"base_url": "https://api.openai.com"})).await;
    assert_eq!((&back["credential"], back.get("credential_dropped")), (&Value::Null, None));
    let given = put(json!({"base_url": "https://b.example", "credential": "sk-b"})).await;
    assert_eq!((&given["credential"], given.get("credential_dropped")), (&"stored".into(), None));
    assert_eq!(held(&endpoint, "openai").as_deref(), Some("sk-b"));
    put(json!({"credential_env": VARIABLE})).await;
    let far = put(json!({"base_url": "https://c.example"})).await;
    assert_eq!((&far["credential"], &far["credential_dropped"]), (&Value::Null, &true.into()));
    assert_eq!(far.get("credential_env"), None);
}

#[tokio::test]
async fn a_credential_has_one_source() {
    let endpoint = Endpoint::new();
    let put = async |body: Value| endpoint.ok("PUT", "/services/openai", body).await;
    put(json!({"credential": "sk-stored"})).await;
    let named = put(json!({"credential_env": VARIABLE})).await;
    assert_eq!((&named["credential"], &named["credential_env"]), (&"env".into(), &VARIABLE.into()));
    assert_eq!(held(&endpoint, "openai").as_deref(), Some(env!("CARGO_PKG_VERSION")));
    let stored = put(json!({"credential": "sk-stored"})).await;
    assert_eq!((&stored["credential"], stored.get("credential_env")), (&"stored".into(), None));
    put(json!({"credential_env": VARIABLE})).await;
    assert_eq!(put(json!({"credential_env": ""})).await["credential"], Value::Null);
    put(json!({"credential_env": VARIABLE})).await;
    let none = put(json!({"credential": ""})).await;
    assert_eq!((&none["credential"], none.get("credential_env")), (&Value::Null, None));
}

#[tokio::test]
async fn a_variable_that_is_gone_makes_the_service_unusable() {
    let endpoint = Endpoint::new();
    let mut file = endpoint.ok("GET", "/policy", Value::Null).await;
    endpoint.ok("PUT", "/services/stripe", json!({"credential": "sk-stripe"})).await;
    endpoint.ok("PUT", "/services/openai", json!({"credential": "sk-openai"})).await;
    let services = file["services"].as_array_mut().unwrap();
    let openai = services.iter_mut().find(|service| service["alias"] == "openai").unwrap();
    openai["credential_env"] = "NO_SUCH_VARIABLE_HERE".into();
    let report = endpoint.ok("POST", "/policy", file).await;
    assert_eq!(report["credentials_dropped"], json!(["openai"]));
    let shown = endpoint.ok("GET", "/services/openai", Value::Null).await;
    assert_eq!(shown["credential"], "unusable");
    let problem = shown["credential_problem"].as_str().unwrap();
    assert!(problem.contains("`NO_SUCH_VARIABLE_HERE` is not set"), "{problem}");
}

#[tokio::test]
async fn wrong_credentials_are_refused_without_being_repeated() {
    let endpoint = Endpoint::new();
    let token = format!("ag_live_{}", "A".repeat(32));
    for (body, expected) in [
        (json!({"credential": "hunter 2"}), "parameter `credential`: must be visible ASCII"),
        (json!({"credential": "hunter2\r\nx: y"}), "parameter `credential`: must be visible ASCII"),
        (json!({"credential": "hunter2".repeat(1_000)}), "parameter `credential`: is longer"),
        (json!({"credential": token}), "parameter `credential`: holds a token of this gate"),
        (json!({"credential": "hunter2", "credential_env": VARIABLE}), "not both"),
        (
            json!({"credential_env": "NO_SUCH_VARIABLE_HERE"}),
            "is not set in the gate's environment",
        ),
        (json!({"credential_env": "AGENTGUARD_CONFIG"}), "is a setting of the gate itself"),
        (json!({"credential_env": "sk-hunter2"}), "must be the name of an environment variable"),
    ] {
        let (status, said) = endpoint.refused("PUT", "/services/openai", body).await;
        assert_eq!(status, 400, "{said}");
        assert!(said.contains(expected) && !said.contains("hunter2"), "{said}");
    }
    assert_eq!(held(&endpoint, "openai"), None);
}
