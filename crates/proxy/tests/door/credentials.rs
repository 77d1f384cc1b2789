//! Virtual keys: whose credential the upstream gets to see, by where the guard token stood.

use agentguard_testkit::http::Answer;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::world::{World, check_refused};

const REAL: &str = "sk-real-1";

/// Where an agent shows its token, and what of its own it sends beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shows {
    Bearer,
    ApiKey,
    BasicUser,
    BasicPassword,
    OwnHeader,
    /// The same token in its own header and in the key's place.
    OwnHeaderAndBearer,
    OwnHeaderAndOwnBearer,
    OwnHeaderAndOwnApiKey,
    OwnHeaderAndOwnBasic,
    NoTokenAndOwnBearer,
    NoTokenAndNothing,
}

impl Shows {
    fn headers(self, token: &str) -> Vec<(&'static str, String)> {
        let bearer = ("authorization", format!("Bearer {token}"));
        let own = ("x-agentguard-token", token.to_owned());
        match self {
            Self::Bearer => vec![bearer],
            Self::ApiKey => vec![("x-api-key", token.to_owned())],
            Self::BasicUser => vec![("authorization", basic(&format!("{token}:pw")))],
            Self::BasicPassword => vec![("authorization", basic(&format!("me:{token}")))],
            Self::OwnHeader => vec![own],
            Self::OwnHeaderAndBearer => vec![own, bearer],
            Self::OwnHeaderAndOwnBearer => vec![own, ("authorization", "Bearer sk-own".to_owned())],
            Self::OwnHeaderAndOwnApiKey => vec![own, ("x-api-key", "sk-own".to_owned())],
            Self::OwnHeaderAndOwnBasic => vec![own, ("authorization", basic("sk-own:"))],
            Self::NoTokenAndOwnBearer => vec![("authorization", "Bearer sk-own".to_owned())],
            Self::NoTokenAndNothing => vec![],
        }
    }
}

fn basic(pair: &str) -> String {
    format!("Basic {}", STANDARD.encode(pair))
}

async fn call(world: &World, alias: &str, shows: Shows) -> Answer {
    let headers = shows.headers(&world.token);
    let headers: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
    world.get_with(&format!("/proxy/{alias}/echo"), &headers).await
}

/// What the upstream saw of the last call: `Authorization`, `x-api-key`.
fn seen(world: &World) -> (Option<String>, Option<String>) {
    let request = world.upstream.requests().pop().unwrap();
    assert!(!request.headers.contains_key("x-agentguard-token"));
    let value = |name: &str| {
        let mut values = request.headers.get_all(name).iter();
        let value = values.next().map(|value| value.to_str().unwrap().to_owned());
        assert!(values.next().is_none(), "{name} twice");
        value
    };
    (value("authorization"), value("x-api-key"))
}

#[tokio::test]
async fn the_credential_takes_the_place_of_the_token() {
    let world = World::new().await;
    let bearer = || (Some(format!("Bearer {REAL}")), None);
    let key = || (None, Some(REAL.to_owned()));
    let own_bearer = || (Some("Bearer sk-own".to_owned()), None);
    let own_key = || (None, Some("sk-own".to_owned()));
    let own_basic = || (Some(basic("sk-own:")), None);
    for alias in ["openai", "stripe", "google-ads", "anthropic", "plain"] {
        world.hold(alias, Some(REAL));
        // Known services have one place for their key; elsewhere it is where the token came in.
        let known = match alias {
            "anthropic" => Some(key()),
            "plain" => None,
            _ => Some(bearer()),
        };
        let or = |otherwise| known.clone().unwrap_or(otherwise);
        for (shows, expected) in [
            (Shows::Bearer, or(bearer())),
            (Shows::ApiKey, or(key())),
            (Shows::BasicUser, or((Some(basic(&format!("{REAL}:pw"))), None))),
            (Shows::BasicPassword, or((Some(basic(&format!("me:{REAL}"))), None))),
            (Shows::OwnHeader, or(bearer())),
            (Shows::OwnHeaderAndBearer, or(bearer())),
            (Shows::OwnHeaderAndOwnBearer, own_bearer()),
            (Shows::OwnHeaderAndOwnApiKey, own_key()),
            (Shows::OwnHeaderAndOwnBasic, own_basic()),
            (Shows::NoTokenAndOwnBearer, own_bearer()),
            (Shows::NoTokenAndNothing, (None, None)),
        ] {
            let answer = call(&world, alias, shows).await;
            assert_eq!(answer.status.as_u16(), 200, "{alias} {shows:?}: {}", answer.text());
            assert_eq!(seen(&world), expected, "{alias} {shows:?}");
        }
    }
    assert_eq!(world.upstream.stats().guard_tokens_seen, 0);
    let rows = format!("{:?}", world.rows(55).await);
    assert!(!rows.contains(REAL) && !rows.contains(&world.token), "{rows}");
}

#[tokio::test]
async fn a_second_key_beside_the_token_leaves_no_doubt_which_is_meant() {
    let world = World::new().await;
    world.hold("anthropic", Some(REAL));
    let headers = [("x-api-key", world.token.as_str()), ("authorization", "Bearer sk-own")];
    assert_eq!(world.get_with("/proxy/anthropic/echo", &headers).await.status.as_u16(), 200);
    assert_eq!(seen(&world), (None, Some(REAL.to_owned())));
    // Taken away by name, put in all the same: the credential is not the agent's to drop.
    let bearer = format!("Bearer {}", world.token);
    let headers = [("connection", "authorization"), ("authorization", bearer.as_str())];
    world.hold("openai", Some(REAL));
    assert_eq!(world.get_with("/proxy/openai/echo", &headers).await.status.as_u16(), 200);
    assert_eq!(seen(&world), (Some(format!("Bearer {REAL}")), None));
}

#[tokio::test]
async fn without_a_credential_a_token_in_the_keys_place_is_refused() {
    let world = World::new().await;
    for alias in ["openai", "stripe", "google-ads", "anthropic", "plain"] {
        let stands_in = [Shows::Bearer, Shows::ApiKey, Shows::BasicUser, Shows::BasicPassword];
        for shows in stands_in.into_iter().chain([Shows::OwnHeaderAndBearer]) {
            let answer = call(&world, alias, shows).await;
            let row = check_refused(&world, &answer, 403, "CREDENTIAL_MISSING").await;
            assert_eq!((row.agent_id, row.service.as_deref()), (Some(world.agent), Some(alias)));
            let message = answer.json()["error"]["message"].as_str().unwrap().to_owned();
            let command = format!("agentguard service set {alias} --credential-env NAME");
            assert!(message.contains(&command) && message.contains("X-AgentGuard-Token"));
            assert_eq!(answer.header("x-should-retry"), Some("false"));
        }
        for shows in [
            Shows::OwnHeader,
            Shows::OwnHeaderAndOwnBearer,
            Shows::OwnHeaderAndOwnApiKey,
            Shows::NoTokenAndOwnBearer,
        ] {
            assert_eq!(call(&world, alias, shows).await.status.as_u16(), 200, "{alias} {shows:?}");
        }
    }
    assert_eq!(world.upstream.stats().guard_tokens_seen, 0);
    assert_eq!(world.upstream.requests().len(), 20);
}

#[tokio::test]
async fn a_changed_credential_is_used_at_once_and_a_removed_one_no_more() {
    let world = World::new().await;
    for real in ["sk-first", "sk-second"] {
        world.hold("openai", Some(real));
        assert_eq!(call(&world, "openai", Shows::Bearer).await.status.as_u16(), 200);
        assert_eq!(seen(&world), (Some(format!("Bearer {real}")), None));
    }
    world.hold("openai", None);
    let answer = call(&world, "openai", Shows::Bearer).await;
    check_refused(&world, &answer, 403, "CREDENTIAL_MISSING").await;
    assert_eq!(world.upstream.requests().len(), 2);
}

#[tokio::test]
async fn an_unusable_credential_refuses_and_sends_nothing() {
    let world = World::new().await;
    let mut service = (**world.gate.directory().service("openai").unwrap()).clone();
    service.credential_env = Some("NO_SUCH_VARIABLE_HERE".to_owned());
    world.put(service);
    for shows in [Shows::Bearer, Shows::ApiKey, Shows::OwnHeader] {
        let answer = call(&world, "openai", shows).await;
        check_refused(&world, &answer, 403, "CREDENTIAL_MISSING").await;
        // What is wrong with it is the operator's to know.
        assert!(!answer.text().contains("NO_SUCH_VARIABLE_HERE"), "{}", answer.text());
    }
    assert_eq!(world.upstream.requests().len(), 0);
    assert_eq!(call(&world, "openai", Shows::OwnHeaderAndOwnBearer).await.status.as_u16(), 200);
}
