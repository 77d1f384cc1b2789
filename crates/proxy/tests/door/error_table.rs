//! Every row of the specification's table of errors, through the real door: the status, the code, the
//! hint to retry, the id, the row on the record; nothing leaves, and nothing is charged.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use ::http::Method;
use agentguard_core::baseline::Past;
use agentguard_core::policy::Surroundings;
use agentguard_core::rule::RuleType;
use agentguard_core::service::ServiceKind;
use agentguard_core::time::{DAY_MICROS, HOUR_MICROS, Span, Zone};
use agentguard_core::{Amount, Door, Facts, MicroUsd, Policy, Rates, Reason, Timestamp};
use agentguard_gate::ports::HourOfAgent;
use agentguard_gate::{Change, Decision, Scope};
use agentguard_proxy::ProxyOptions;
use agentguard_testkit::http::{self, Answer};
use serde_json::json;
use tokio::net::TcpListener;

use crate::world::{World, check_answer, scripted, service, settings};

/// As 10-gate.md and 20-proxy.md have it: code, status, whether trying again helps.
const SPECIFIED: [(&str, u16, &str); 32] = [
    ("UNAUTHENTICATED", 401, "false"),
    ("AGENT_REVOKED", 401, "false"),
    ("CLIENT_IP_DENIED", 403, "false"),
    ("KILL_SWITCH_GLOBAL", 503, "false"),
    ("KILL_SWITCH_AGENT", 503, "false"),
    ("SERVICE_UNKNOWN", 403, "false"),
    ("DESTINATION_BLOCKED", 403, "false"),
    ("CREDENTIAL_MISSING", 403, "false"),
    ("AMOUNT_UNREADABLE", 403, "false"),
    ("PRICE_UNKNOWN", 403, "false"),
    ("CURRENCY_UNKNOWN", 403, "false"),
    ("DOMAIN_BLACKLISTED", 403, "false"),
    ("METHOD_RESTRICTED", 403, "false"),
    ("TIME_WINDOW_BLOCKED", 403, "false"),
    ("PER_CALL_LIMIT_EXCEEDED", 403, "false"),
    ("DAILY_BUDGET_EXCEEDED", 403, "false"),
    ("MONTHLY_BUDGET_EXCEEDED", 403, "false"),
    ("RATE_LIMITED", 429, "true"),
    ("DOMAIN_NOT_WHITELISTED", 403, "false"),
    ("RISK_AMOUNT_SPIKE", 403, "false"),
    ("RISK_FREQUENCY_SPIKE", 403, "false"),
    ("RISK_UNKNOWN_DOMAIN", 403, "false"),
    ("RISK_NIGHT_AMOUNT", 403, "false"),
    ("BAD_REQUEST", 400, "false"),
    ("REQUEST_TOO_LARGE", 413, "false"),
    ("RESERVATION_EXCEEDED", 403, "false"),
    ("LOOP_DETECTED", 508, "false"),
    ("AUDIT_UNAVAILABLE", 503, "true"),
    ("UPSTREAM_TIMEOUT", 504, "true"),
    ("UPSTREAM_UNREACHABLE", 502, "true"),
    ("UPSTREAM_TLS_ERROR", 502, "false"),
    ("INTERNAL", 502, "false"),
];

/// A world in which a call of five dollars has just met its end, how it went, and what is to be seen.
struct Met {
    world: World,
    answer: Answer,
    expected: Expected,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Expected {
    /// Refused before anything left.
    Refused,
    /// Refused after this many calls went through, each paid.
    After(u64),
    /// Allowed, and failed on the far side.
    Failed,
    /// Refused because it could not be put on the record.
    Unrecorded,
}

/// How each reason comes about at this door, or why it cannot.
async fn meet(reason: Reason) -> Result<Met, &'static str> {
    let refused = match reason {
        Reason::Unauthenticated => with(|_| {}, &[("x-agentguard-token", "ag_live_nobody")]).await,
        Reason::AgentRevoked => revoked().await,
        Reason::ClientIpDenied => {
            with(|world| world.gate.configure(settings(&["10.0.0.0/8"])).unwrap(), &[]).await
        }
        Reason::KillSwitchGlobal => with(|world| world.kill(Scope::Global), &[]).await,
        Reason::KillSwitchAgent => with(|world| world.kill(Scope::Agent(world.agent)), &[]).await,
        Reason::ServiceUnknown => {
            with(|world| world.change(Change::RemoveService("stripe".to_owned())), &[]).await
        }
        Reason::DestinationBlocked => with(close_the_service, &[]).await,
        Reason::AmountUnreadable => asking(|_| {}, &[], "amount=5e2&currency=usd").await,
        Reason::PriceUnknown => unpriced().await,
        Reason::CredentialMissing => token_for_key().await,
        Reason::ReservationExceeded => {
            return Err("its answer has begun by then: `model_streams` has it");
        }
        Reason::CurrencyUnknown => {
            let limit = |world: &World| world.rule(RuleType::PerCallLimit, json!({"limit": "9"}));
            asking(limit, &[], "amount=500&currency=chf&source=tok_visa").await
        }
        Reason::DomainBlacklisted => {
            ruled(RuleType::DomainBlacklist, json!({"domains": ["127.0.0.1"]})).await
        }
        Reason::MethodRestricted => {
            ruled(RuleType::MethodRestriction, json!({"allow": ["GET"]})).await
        }
        Reason::TimeWindowBlocked => {
            ruled(RuleType::TimeWindowBlock, json!({"start": "00:00", "end": "24:00"})).await
        }
        Reason::PerCallLimitExceeded => {
            ruled(RuleType::PerCallLimit, json!({"limit": "4.999999"})).await
        }
        Reason::DailyBudgetExceeded => {
            ruled(RuleType::DailyBudget, json!({"limit": "4.999999"})).await
        }
        Reason::MonthlyBudgetExceeded => {
            ruled(RuleType::MonthlyBudget, json!({"limit": "4.999999"})).await
        }
        Reason::RateLimited => {
            return Ok(after(
                World::new().await,
                RuleType::RateLimitPerMinute,
                json!({"max": 1}),
                1,
            )
            .await);
        }
        Reason::DomainNotWhitelisted => {
            ruled(RuleType::DomainWhitelist, json!({"domains": ["api.example.com"]})).await
        }
        Reason::RiskAmountSpike => {
            let usual = usual(MicroUsd::from_micros(990_000)).await;
            let spike = json!({"min_samples": 1, "factor": 5});
            return Ok(after(usual, RuleType::AmountSpike, spike, 0).await);
        }
        Reason::RiskFrequencySpike => {
            let spike = json!({"min_per_minute": 2, "factor": 2});
            return Ok(after(usual(MicroUsd::ZERO).await, RuleType::FrequencySpike, spike, 2).await);
        }
        Reason::RiskUnknownDomain => {
            return Err("a service's host is known, and every call of this door goes to one");
        }
        Reason::RiskNightAmount => {
            let always = json!({"threshold": "4.999999", "start": "00:00", "end": "24:00"});
            ruled(RuleType::NightAmount, always).await
        }
        Reason::BadRequest => two_hosts().await,
        Reason::RequestTooLarge => {
            return Err("bodies stream; one too long to be read for its amount is unreadable");
        }
        Reason::LoopDetected => {
            with(|_| {}, &[("via", "1.1 other, 1.1 agentguard-00000000")]).await
        }
        Reason::AuditUnavailable => {
            let met = with(|world| world.record.is_full.store(true, Ordering::SeqCst), &[]).await;
            return Ok(Met { expected: Expected::Unrecorded, ..met });
        }
        Reason::UpstreamTimeout => return Ok(too_slow().await),
        Reason::UpstreamUnreachable => return Ok(elsewhere(&gone().await).await),
        Reason::UpstreamTlsError => return Ok(elsewhere(&no_tls().await).await),
        Reason::Internal => with(lose_the_policy, &[]).await,
    };
    Ok(refused)
}

#[tokio::test]
async fn every_reason_is_met_through_the_door_or_cannot_be() {
    for (reason, (code, status, retry)) in Reason::ALL.into_iter().zip(SPECIFIED) {
        assert_eq!(json!(reason), code, "the table is in the order of the reasons");
        match meet(reason).await {
            Ok(met) => check(met, code, status, retry).await,
            Err(why) => assert!(!why.is_empty()),
        }
    }
}

async fn check(met: Met, code: &str, status: u16, retry: &str) {
    let Met { world, answer, expected } = met;
    check_answer(&answer, status, code);
    assert_eq!(answer.header("x-should-retry"), Some(retry), "{code}");
    let before = match expected {
        Expected::After(calls) => calls,
        Expected::Refused | Expected::Failed | Expected::Unrecorded => 0,
    };
    let (used, reserved) = world.spent();
    let paid = i64::try_from(before).unwrap() * 5_000_000;
    assert_eq!((used.micros(), reserved.micros()), (paid, 0), "{code} charges nothing");
    if expected == Expected::Unrecorded {
        assert_eq!(world.record.intents.load(Ordering::SeqCst), 0, "{code}");
        assert_eq!(world.upstream.stats().requests, 0, "{code}");
        return;
    }
    let rows = world.rows(usize::try_from(before).unwrap() + 1).await;
    let row = rows.last().unwrap();
    assert_eq!(
        answer.header("x-agentguard-request-id"),
        Some(row.id.to_string().as_str()),
        "{code}"
    );
    assert_eq!((row.block_reason, row.response_status), (Some(code), Some(status)));
    assert_eq!(row.cost, MicroUsd::ZERO, "{code}");
    let decision = if expected == Expected::Failed { Decision::Error } else { Decision::Block };
    assert_eq!(row.decision, decision, "{code}");
    if expected != Expected::Failed {
        assert_eq!(world.upstream.stats().requests, before, "{code} let something out");
        assert_eq!(world.record.intents.load(Ordering::SeqCst), before, "{code}");
    }
    let is_fault = code == "INTERNAL" || expected == Expected::Failed;
    let told = world.record.alerts.lock().iter().any(|alert| {
        alert.event.name() == "proxy.error" && alert.details["request_id"] == json!(row.id)
    });
    assert_eq!(told, is_fault, "{code}: {:?}", world.record.alerts.lock());
}

#[tokio::test]
async fn an_upstreams_no_passes_to_the_byte_and_is_not_charged() {
    let bodies = ["{\"error\": {\"message\":\"caf\u{e9}\\u00e9 \"}}\n", "", "\0\u{1}not json"];
    for (status, body) in [400, 401, 402, 403, 404, 409, 422, 429, 500, 502, 503, 529]
        .into_iter()
        .zip(bodies.into_iter().cycle())
    {
        let wire = format!(
            "HTTP/1.1 {status} As It Is\r\ncontent-type: application/problem+json\r\nx-theirs: kept\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        let pieces: &'static [&'static str] = vec![&*wire.leak()].leak();
        let world = World::new().await;
        world.put(service("stripe", &scripted(pieces).await, ServiceKind::Stripe));
        let answer = pay(&world, &[], CHARGE).await;
        assert_eq!(answer.status.as_u16(), status);
        assert_eq!(answer.body, body.as_bytes(), "{status}");
        assert_eq!(answer.header("content-type"), Some("application/problem+json"));
        assert_eq!(answer.header("x-theirs"), Some("kept"));
        assert_eq!(answer.header("x-should-retry"), None, "that is theirs to say");
        let row = world.last_row().await;
        assert_eq!(answer.header("x-agentguard-request-id"), Some(row.id.to_string().as_str()));
        assert_eq!((row.decision, row.block_reason), (Decision::Allow, None));
        assert_eq!((row.response_status, row.cost), (Some(status), MicroUsd::ZERO));
        assert_eq!(world.spent(), Default::default(), "{status}");
    }
}

#[tokio::test]
async fn shapes_that_smuggle_are_on_the_record_under_the_id_they_were_answered_with() {
    let world = World::new().await;
    let head = "POST /proxy/stripe/v1/charges HTTP/1.1\r\nHost: localhost\r\n";
    for (place, rest) in [
        "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "Transfer-Encoding: chunked\r\n\r\nzz\r\nhello\r\n0\r\n\r\n",
        "X: a\rb\r\n\r\n",
        "X: a\r\n folded\r\n\r\n",
    ]
    .into_iter()
    .enumerate()
    {
        let wire = format!("{head}{rest}");
        let got = http::raw_for(world.addr, wire.as_bytes(), Duration::from_secs(2)).await;
        assert_eq!(http::raw_statuses(&got), [400], "{wire:?}");
        let rows = world.rows(place + 1).await;
        assert_eq!(rows.len(), place + 1, "{wire:?}");
        let (row, text) = (rows.last().unwrap(), String::from_utf8_lossy(&got));
        assert_eq!(row.block_reason, Some("BAD_REQUEST"), "{wire:?}");
        assert_eq!((row.decision, row.response_status), (Decision::Block, Some(400)));
        assert!(text.contains(&format!("x-agentguard-request-id: {}", row.id)), "{text}");
    }
    assert_eq!(world.upstream.stats().connections, 0);
}

/// Five dollars.
const CHARGE: &str = "amount=500&currency=usd&source=tok_visa";

async fn pay(world: &World, headers: &[(&str, &str)], body: &str) -> Answer {
    let url = world.url("/proxy/stripe/v1/charges");
    let kind = ("content-type", "application/x-www-form-urlencoded");
    let headers = [&[kind][..], headers].concat();
    http::request(Method::POST, &url, &headers, body.to_owned()).await
}

async fn asking(prepare: impl FnOnce(&World), headers: &[(&str, &str)], body: &str) -> Met {
    let world = World::new().await;
    prepare(&world);
    let answer = pay(&world, headers, body).await;
    Met { world, answer, expected: Expected::Refused }
}

async fn with(prepare: impl FnOnce(&World), headers: &[(&str, &str)]) -> Met {
    asking(prepare, headers, CHARGE).await
}

async fn ruled(kind: RuleType, params: serde_json::Value) -> Met {
    with(|world| world.rule(kind, params), &[]).await
}

/// The call that comes after so many that go through.
async fn after(world: World, kind: RuleType, params: serde_json::Value, calls: u64) -> Met {
    world.rule(kind, params);
    for _ in 0..calls {
        assert_eq!(pay(&world, &[], CHARGE).await.status.as_u16(), 200);
    }
    let answer = pay(&world, &[], CHARGE).await;
    Met { world, answer, expected: Expected::After(calls) }
}

async fn unpriced() -> Met {
    let world = World::new().await;
    world.rule(RuleType::DailyBudget, json!({"limit": "9"}));
    let body = r#"{"model":"gpt-99","messages":[],"max_tokens":1}"#;
    let answer = world.json("/proxy/openai/v1/chat/completions", body).await;
    Met { world, answer, expected: Expected::Refused }
}

async fn token_for_key() -> Met {
    let world = World::new().await;
    let key = format!("Bearer {}", world.token);
    let answer = pay(&world, &[("authorization", &key)], CHARGE).await;
    Met { world, answer, expected: Expected::Refused }
}

async fn revoked() -> Met {
    let world = World::new().await;
    world.change(Change::RevokeAgent(world.agent));
    let token = world.token.clone();
    let answer = pay(&world, &[("x-agentguard-token", &token)], CHARGE).await;
    Met { world, answer, expected: Expected::Refused }
}

fn close_the_service(world: &World) {
    let mut closed = service("stripe", &world.upstream.base_url(), ServiceKind::Stripe);
    closed.allow_private = false;
    world.put(closed);
}

/// A record that saw one such call a minute for two hours, the day before yesterday.
async fn usual(amount: MicroUsd) -> World {
    let past = |agent_id| {
        let days_ago = |now: Timestamp| now.plus_micros(-2 * DAY_MICROS);
        let start = days_ago(agentguard_gate::Clock::starting_after(None).0.now());
        let samples = u64::from(amount > MicroUsd::ZERO);
        let past = Past {
            at: start,
            sum: amount,
            samples,
            metered_sum: MicroUsd::ZERO,
            metered_samples: 0,
            calls: 120,
            active_minutes: 120,
        };
        let hour = Span { start, end: start.plus_micros(HOUR_MICROS) };
        vec![HourOfAgent { agent_id, hour, door: Door::Api, past }]
    };
    World::with_past(ProxyOptions::default(), past).await
}

async fn two_hosts() -> Met {
    let world = World::new().await;
    let answer = pay(&world, &[("host", "localhost"), ("host", "localhost")], CHARGE).await;
    Met { world, answer, expected: Expected::Refused }
}

async fn too_slow() -> Met {
    let options =
        ProxyOptions { upstream_timeout: Duration::from_millis(200), ..ProxyOptions::default() };
    let world = World::with(options).await;
    let answer = pay(&world, &[("x-test-delay-ms", "60000")], CHARGE).await;
    Met { world, answer, expected: Expected::Failed }
}

/// A charge whose service is at this address.
async fn elsewhere(base_url: &str) -> Met {
    let world = World::new().await;
    world.put(service("stripe", base_url, ServiceKind::Stripe));
    let answer = pay(&world, &[], CHARGE).await;
    Met { world, answer, expected: Expected::Failed }
}

/// Where nobody listens any more.
async fn gone() -> String {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    format!("http://{}", listener.local_addr().unwrap())
}

/// Something that does not speak TLS where TLS is expected.
async fn no_tls() -> String {
    scripted(&["HTTP/1.1 400 Bad Request\r\n\r\n"]).await.replace("http:", "https:")
}

/// The agent's counters follow a policy that is newer than any the gate has: a fault of the gate's own.
fn lose_the_policy(world: &World) {
    let rates = Arc::new(Rates::default());
    let around = Surroundings { zone: &Zone::UTC, rates, services: &[], version: u64::MAX };
    let policy = Policy::compile(&[], &around).unwrap();
    let action = agentguard_core::Action {
        at: world.gate.now(),
        facts: Facts::Exec(agentguard_core::action::ExecFacts {
            host_id: "x".into(),
            command: String::new(),
            args: Vec::new(),
        }),
        amount: Amount::Free,
    };
    let directory = world.gate.directory();
    let turnstile = &directory.by_id(world.agent).unwrap().turnstile;
    let (pass, _, _) = turnstile.enter(turnstile.switch(), &action, &policy).unwrap();
    pass.settle(MicroUsd::ZERO, &policy);
}
