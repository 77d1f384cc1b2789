//! The gate's promises, with ports in memory.
#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod fake;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use agentguard_core::price::{Origin, PriceSpec};
use agentguard_core::rule::RuleType;
use agentguard_core::token::{PREFIX, Token};
use agentguard_core::{Amount, PriceTable, Reason, RequestId};
use agentguard_gate::{
    Actor, Change, Decision, Gate, Knock, Outcome, PausedBy, Presented, Scope, Spent, StopReport,
};
use fake::{dollars, sole};
use serde_json::json;

#[tokio::test]
async fn an_unrecordable_action_is_refused_and_reserves_nothing() {
    let (gate, memory) = fake::gate(&[(RuleType::DailyBudget, json!({"limit": "1.00"}))]);
    memory.full.store(true, Ordering::SeqCst);
    assert_eq!(admit(&gate, "1.00").await.unwrap_err(), Reason::AuditUnavailable);
    memory.full.store(false, Ordering::SeqCst);
    drop(permit(&gate, "1.00").await);
}

#[tokio::test]
async fn a_failed_sync_refuses_releases_and_leaves_a_row() {
    let (gate, memory) = fake::gate(&[(RuleType::DailyBudget, json!({"limit": "1.00"}))]);
    with_stripe(&memory);
    let gate_with_service = fake::open(&memory);
    drop(gate);
    memory.sync_fails.store(true, Ordering::SeqCst);
    assert_eq!(admit(&gate_with_service, "1.00").await.unwrap_err(), Reason::AuditUnavailable);
    assert_eq!(memory.syncs.load(Ordering::SeqCst), 1, "a payment asks for power durability");
    let rows = memory.rows.lock().clone();
    assert_eq!((rows.len(), rows[0].decision, rows[0].cost.micros()), (1, Decision::Error, 0));
    memory.sync_fails.store(false, Ordering::SeqCst);
    drop(permit(&gate_with_service, "1.00").await);
}

#[tokio::test]
async fn a_dropped_permit_stays_charged_and_is_recorded_as_interrupted() {
    let (gate, memory) = fake::gate(&[(RuleType::DailyBudget, json!({"limit": "1.00"}))]);
    drop(permit(&gate, "0.60").await);
    assert_eq!(admit(&gate, "0.60").await.unwrap_err(), Reason::DailyBudgetExceeded);
    let rows = memory.rows.lock();
    assert_eq!(
        (rows[0].block_reason, rows[0].estimated, rows[0].cost.micros()),
        (Some("interrupted"), true, 600_000)
    );
}

#[tokio::test]
async fn a_stop_ends_permits_under_way_refuses_new_ones_and_survives_a_restart() {
    let (gate, memory) = fake::gate(&[]);
    let agent = sole(&gate).agent.id;
    for (scope, reason) in
        [(Scope::Global, Reason::KillSwitchGlobal), (Scope::Agent(agent), Reason::KillSwitchAgent)]
    {
        let under_way = permit(&gate, "1.00").await;
        let watch = tokio::spawn(under_way.watch());
        let report = gate.stop(&Actor::Cli, scope, PausedBy::User, "enough".into());
        assert!(matches!(report, StopReport::Kept));
        assert_eq!(watch.await.unwrap(), reason);
        assert_eq!(under_way.stopped(), Some(reason));
        assert_eq!(admit(&gate, "1.00").await.unwrap_err(), reason);

        let again = fake::open(&memory);
        assert_eq!(admit(&again, "1.00").await.unwrap_err(), reason, "after a restart");
        gate.resume(&Actor::Cli, scope).unwrap();
        assert_eq!(under_way.stopped(), Some(reason), "what was stopped stays stopped");
        drop(permit(&gate, "1.00").await);
    }
}

#[tokio::test]
async fn five_risk_refusals_stop_the_agent_and_forgiving_it_starts_the_count_anew() {
    let (gate, memory) = fake::gate(&[]);
    let block = agentguard_core::rule::RuleAction::Block;
    let rule = fake::spec(7, RuleType::UnknownDomain, &json!({}));
    gate.change(
        &Actor::Cli,
        Change::AddRule(agentguard_core::rule::RuleSpec { action: block, ..rule }),
    )
    .unwrap();
    for _ in 0..5 {
        assert_eq!(admit(&gate, "1.00").await.unwrap_err(), Reason::RiskUnknownDomain);
    }
    assert_eq!(admit(&gate, "1.00").await.unwrap_err(), Reason::KillSwitchAgent);
    let stop = memory.data.lock().stops[0].clone();
    assert_eq!(stop.paused_by, PausedBy::AutoRisk);
    let events: Vec<_> = memory.alerts.lock().iter().map(|alert| alert.event.name()).collect();
    assert!(
        events.contains(&"agent.auto_paused") && events.contains(&"system.kill_switch.on"),
        "{events:?}"
    );
    gate.resume(&Actor::Cli, stop.scope).unwrap();
    for _ in 0..4 {
        assert_eq!(admit(&gate, "1.00").await.unwrap_err(), Reason::RiskUnknownDomain);
    }
}

#[tokio::test]
async fn a_host_that_nobody_named_is_told_with_its_request_and_let_through() {
    let (gate, memory) = fake::gate(&[(RuleType::UnknownDomain, json!({}))]);
    let permit = permit(&gate, "1.00").await;
    let id = permit.request_id().unwrap();
    permit.settle(done(Spent::AsReserved));
    let alerts = memory.alerts.lock();
    assert_eq!((alerts.len(), alerts[0].event.name()), (1, "risk.unknown.domain"));
    assert_eq!(alerts[0].details["request_id"], json!(id));
    let row = memory.rows.lock()[0].clone();
    assert_eq!((row.id, row.decision), (id, Decision::Allow));
    assert_eq!(row.risk.unwrap().factors[0].kind, RuleType::UnknownDomain);
}

#[tokio::test]
async fn a_bound_is_judged_by_what_it_came_to_and_the_row_shows_it() {
    let spike = json!({"min_samples": 2, "factor": 2});
    let (gate, memory) = fake::gate(&[(RuleType::AmountSpike, spike)]);
    let call = async |spent: &str| {
        let mut action = dollars("100.00", &gate);
        let Amount::Exact(bound) = action.amount else { panic!("{action:?}") };
        action.amount = Amount::UpTo(bound);
        let id = gate.request_id(action.at);
        let permit = gate.admit(&fake::caller(&gate).unwrap(), id, action).await.unwrap();
        let micros = agentguard_core::money::parse_micros(spent).unwrap();
        let money = agentguard_core::Money::new(micros, agentguard_core::Currency::USD).unwrap();
        permit.settle(done(Spent::Exactly(money)));
        id
    };
    for _ in 0..4 {
        call("1.00").await;
    }
    assert!(memory.alerts.lock().is_empty(), "{:?}", memory.alerts.lock());
    let id = call("2.000001").await;
    let alerts = memory.alerts.lock();
    assert_eq!((alerts.len(), alerts[0].event.name()), (1, "risk.amount.spike"));
    assert_eq!(alerts[0].details["request_id"], json!(id));
    let row = memory.rows.lock().last().unwrap().clone();
    let risk = row.risk.unwrap();
    assert_eq!((row.id, row.cost.micros()), (id, 2_000_001));
    assert_eq!((risk.factors.len(), risk.factors[0].kind), (1, RuleType::AmountSpike));
}

#[tokio::test]
async fn a_month_past_its_last_line_stops_everything() {
    let (gate, memory) = fake::gate(&[(RuleType::MonthlyBudget, json!({"limit": "10.00"}))]);
    permit(&gate, "9.50").await.settle(done(Spent::AsReserved));
    assert!(gate.is_stopped());
    assert_eq!(memory.data.lock().stops[0].paused_by, PausedBy::BudgetExceeded);
    assert_eq!(admit(&gate, "0.01").await.unwrap_err(), Reason::KillSwitchGlobal);
}

#[tokio::test]
async fn a_last_line_that_was_passed_unseen_stops_everything_at_the_next_spending() {
    let (gate, _) = fake::gate(&[]);
    permit(&gate, "9.70").await.settle(done(Spent::AsReserved));
    let rule = fake::spec(3, RuleType::MonthlyBudget, &json!({"limit": "10.00"}));
    gate.change(&Actor::Cli, Change::AddRule(rule)).unwrap();
    permit(&gate, "0.01").await.settle(done(Spent::AsReserved));
    assert!(gate.is_stopped());
    // A person who resumes beyond the line has decided: it does not stop again this month.
    gate.resume(&Actor::Cli, Scope::Global).unwrap();
    permit(&gate, "0.01").await.settle(done(Spent::AsReserved));
    assert!(!gate.is_stopped());
}

#[tokio::test]
async fn an_admission_is_judged_by_the_rules_of_now_not_of_the_knock() {
    let (gate, _) = fake::gate(&[]);
    let early = fake::caller(&gate).unwrap();
    let rule = fake::spec(3, RuleType::RateLimitPerHour, &json!({"max": 1}));
    gate.change(&Actor::Cli, Change::AddRule(rule)).unwrap();
    let rule = fake::spec(4, RuleType::PerCallLimit, &json!({"limit": "1.00"}));
    gate.change(&Actor::Cli, Change::AddRule(rule)).unwrap();
    let ask = async |amount| {
        let action = dollars(amount, &gate);
        gate.admit(&early, gate.request_id(action.at), action)
            .await
            .map_err(|refusal| refusal.reason)
    };
    assert_eq!(ask("2.00").await.unwrap_err(), Reason::PerCallLimitExceeded);
    drop(permit(&gate, "1.00").await);
    assert_eq!(
        ask("1.00").await.unwrap_err(),
        Reason::RateLimited,
        "the new window was not forgotten"
    );
}

#[tokio::test]
async fn a_rule_about_failures_counts_those_before_it() {
    let (gate, _) = fake::gate(&[(RuleType::MethodRestriction, json!({"allow": ["GET"]}))]);
    for _ in 0..4 {
        assert_eq!(admit(&gate, "1.00").await.unwrap_err(), Reason::MethodRestricted);
    }
    let rule = fake::spec(3, RuleType::ConsecutiveFailure, &json!({"count": 3}));
    gate.change(&Actor::Cli, Change::AddRule(rule)).unwrap();
    assert_eq!(admit(&gate, "1.00").await.unwrap_err(), Reason::MethodRestricted);
    assert_eq!(admit(&gate, "1.00").await.unwrap_err(), Reason::KillSwitchAgent);
}

#[tokio::test]
async fn trouble_upstream_and_stops_are_told_with_whose_they_are() {
    let (gate, memory) = fake::gate(&[]);
    let agent = sole(&gate).agent.id;
    let failed = Outcome { failure: Some(Reason::UpstreamTimeout), ..done(Spent::Nothing) };
    permit(&gate, "1.00").await.settle(failed);
    gate.stop(&Actor::Cli, Scope::Agent(agent), PausedBy::User, "enough".into());
    let told: Vec<_> = memory.alerts.lock().iter().map(|a| (a.event.name(), a.agent_id)).collect();
    assert_eq!(told, [("proxy.error", Some(agent)), ("system.kill_switch.on", Some(agent))]);
}

#[tokio::test]
async fn a_rule_that_does_not_compile_changes_nothing() {
    let (gate, memory) = fake::gate(&[]);
    let bad = fake::spec(3, RuleType::DailyBudget, &json!({"limit": "lots"}));
    let error = gate.change(&Actor::Cli, Change::AddRule(bad)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "rule `daily_budget`: parameter `limit`: `lots` is not a decimal number such as `50.00`"
    );
    assert!(memory.changes.lock().is_empty());
    drop(permit(&gate, "1.00").await);
}

#[tokio::test]
async fn a_new_rule_counts_what_was_spent_before_it_came() {
    let (gate, _) = fake::gate(&[]);
    permit(&gate, "3.00").await.settle(done(Spent::AsReserved));
    let rule = fake::spec(3, RuleType::DailyBudget, &json!({"limit": "3.50"}));
    gate.change(&Actor::Cli, Change::AddRule(rule)).unwrap();
    assert_eq!(admit(&gate, "0.51").await.unwrap_err(), Reason::DailyBudgetExceeded);
    drop(permit(&gate, "0.50").await);
}

#[test]
fn identity_is_checked_before_everything() {
    let (gate, memory) = fake::gate(&[]);
    let knock = |presented: Presented, ip: &str, from_web_page: bool| {
        let knock = Knock { presented, client_ip: ip.parse().unwrap(), from_web_page };
        gate.identify(&knock).map(|_| ()).map_err(|rebuff| rebuff.refusal.reason)
    };
    let stranger = Token::parse(&format!("{PREFIX}{}", "z".repeat(32))).unwrap();
    assert_eq!(knock(Presented::Nothing, "127.0.0.1", false), Ok(()), "one agent needs no token");
    assert_eq!(knock(Presented::Nothing, "::ffff:127.0.0.1", false), Ok(()), "the same address");
    assert_eq!(knock(Presented::Nothing, "127.0.0.1", true), Err(Reason::Unauthenticated));
    assert_eq!(knock(Presented::Garbage, "127.0.0.1", false), Err(Reason::Unauthenticated));
    assert_eq!(
        knock(Presented::Token(stranger.clone()), "127.0.0.1", false),
        Err(Reason::Unauthenticated)
    );
    assert_eq!(knock(Presented::Nothing, "10.0.0.1", false), Err(Reason::ClientIpDenied));

    fake::add_agent(&memory, "second", stranger.hash());
    let two = fake::open(&memory);
    let knock = |presented| {
        two.identify(&Knock { presented, client_ip: [127, 0, 0, 1].into(), from_web_page: false })
    };
    assert_eq!(knock(Presented::Nothing).unwrap_err().refusal.reason, Reason::Unauthenticated);
    assert_eq!(knock(Presented::Token(stranger)).unwrap().agent.name, "second");
}

#[tokio::test]
async fn repeated_alerts_are_thinned() {
    let (gate, memory) =
        fake::gate(&[(RuleType::NightAmount, json!({"threshold": "0.01", "end": "24:00"}))]);
    for _ in 0..5 {
        drop(permit(&gate, "1.00").await);
    }
    assert_eq!(memory.alerts.lock().len(), 1);
    assert_eq!(
        memory.rows.lock()[4].risk.as_ref().unwrap().factors.len(),
        1,
        "the record has each one"
    );
}

async fn permit(gate: &Gate, amount: &str) -> agentguard_gate::Permit {
    admit(gate, amount).await.unwrap()
}

async fn admit(gate: &Gate, amount: &str) -> Result<agentguard_gate::Permit, Reason> {
    let action = dollars(amount, gate);
    let id: RequestId = gate.request_id(action.at);
    gate.admit(&fake::caller(gate)?, id, action).await.map_err(|refusal| refusal.reason)
}

fn done(spent: Spent) -> Outcome {
    Outcome { status: Some(200), spent, is_streaming: false, failure: None, facts: None }
}

fn with_stripe(memory: &fake::Memory) {
    memory.data.lock().services = agentguard_gate::defaults::built_in_services();
}

fn price(model: &str, input: &str) -> PriceSpec {
    serde_json::from_value(json!({"model": model, "input": input, "output": "2"})).unwrap()
}

fn input_of(gate: &Gate, model: &str) -> Option<(i64, Origin)> {
    let directory = gate.directory();
    let found = directory.prices().look_up(model)?;
    Some((found.price.usual.input.micros(), found.origin))
}

#[test]
fn a_stored_price_goes_over_the_files_which_goes_over_the_programs() {
    let (gate, _memory) = fake::gate(&[]);
    let mut configured = PriceTable::default();
    configured.put_from(&price("a", "1"), Origin::BuiltIn).unwrap();
    configured.put_from(&price("b", "1"), Origin::BuiltIn).unwrap();
    configured.put_from(&price("b", "2"), Origin::File).unwrap();
    let configure = |table: PriceTable| {
        let mut settings = fake::settings();
        settings.prices = Arc::new(table);
        gate.configure(settings).unwrap();
    };
    configure(configured.clone());
    assert_eq!(input_of(&gate, "a"), Some((1_000_000, Origin::BuiltIn)));
    assert_eq!(input_of(&gate, "b"), Some((2_000_000, Origin::File)));

    gate.change(&Actor::Cli, Change::PutPrice(price("b", "3"))).unwrap();
    assert_eq!(input_of(&gate, "b"), Some((3_000_000, Origin::Stored)), "the next call has it");
    configured.put_from(&price("b", "5"), Origin::File).unwrap();
    configure(configured);
    assert_eq!(input_of(&gate, "b"), Some((3_000_000, Origin::Stored)), "a reload leaves it");
    gate.change(&Actor::Cli, Change::RemovePrice("b".to_owned())).unwrap();
    assert_eq!(input_of(&gate, "b"), Some((5_000_000, Origin::File)));
}

#[test]
fn a_price_that_is_none_is_not_stored() {
    let (gate, memory) = fake::gate(&[]);
    let refused = gate.change(&Actor::Cli, Change::PutPrice(price("m", "-1")));
    let said = refused.unwrap_err().to_string();
    assert!(said.contains("price of `m`: input: `-1`"), "{said}");
    assert!(memory.data.lock().prices.is_empty());
}
