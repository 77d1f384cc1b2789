//! Policy: what changes do, what they refuse, and what the record says of them.

use agentguard_core::price::PriceSpec;
use agentguard_core::token::TokenHash;
use agentguard_core::{AgentId, AgentStatus, RuleId, RuleSetId};
use agentguard_gate::ports::{Registry, RegistryError};
use agentguard_gate::{Actor, Change, ImportPlan, PausedBy, PolicyData, Scope, Stop};
use agentguard_store::Store;
use serde_json::json;
use uuid::Uuid;

use crate::folder::{AGENT, Folder, SET, act, agent, apply, first_plan, noon_plus, rule_set};

fn set_up() -> (Folder, std::sync::Arc<Store>) {
    let folder = Folder::new();
    let store = folder.store();
    apply(&store, Change::Import(Box::new(first_plan()))).unwrap();
    (folder, store)
}

fn second(name: &str) -> Change {
    let agent = agent(AgentId(Uuid::from_u128(0xb)), name);
    Change::AddAgent { agent, token_hash: TokenHash([8; 32]) }
}

fn stop(scope: Scope) -> Change {
    let reason = "enough".to_owned();
    Change::Stop(Stop { scope, paused_by: PausedBy::User, reason, paused_at: noon_plus(5) })
}

fn status(data: &PolicyData) -> AgentStatus {
    data.agents.iter().find(|record| record.agent.id == AGENT).unwrap().agent.status
}

#[test]
fn policy_is_the_same_after_a_restart() {
    let (folder, store) = set_up();
    apply(&store, second("ads-bot")).unwrap();
    let after = apply(&store, stop(Scope::Global)).unwrap();
    store.close().unwrap();
    let loaded = folder.store().load().unwrap();
    assert_eq!(format!("{after:?}"), format!("{loaded:?}"));
    assert_eq!((loaded.agents.len(), loaded.services.len(), loaded.stops.len()), (2, 4, 1));
    assert_eq!(loaded.rule_sets[0].rules, rule_set(SET, "default", 1).rules);
    assert!(loaded.agents[0].token_hash.same_as(&TokenHash([7; 32])));
}

#[test]
fn a_result_that_is_not_accepted_leaves_nothing_behind() {
    let (folder, store) = set_up();
    let refuse = Box::new(|data: &PolicyData| {
        assert_eq!(data.agents.len(), 2, "it sees the result");
        Err("too many agents".to_owned())
    });
    let refused = store.apply(&Actor::Cli, second("ads-bot"), noon_plus(1), refuse);
    assert!(matches!(refused, Err(RegistryError::Invalid(text)) if text == "too many agents"));
    assert_eq!(store.load().unwrap().agents.len(), 1);
    assert_eq!(folder.count("config_changes"), 1);
    store.close().unwrap();
    assert!(folder.verify().ok);
}

#[test]
fn names_belong_to_the_living() {
    let (_folder, store) = set_up();
    let taken = apply(&store, second("default"));
    assert!(matches!(taken, Err(RegistryError::Exists { kind: "agent", .. })));
    apply(&store, Change::RevokeAgent(AGENT)).unwrap();
    let data = apply(&store, second("default")).unwrap();
    assert_eq!(data.agents.len(), 2);
    assert_eq!(status(&data), AgentStatus::Revoked);
    let again = Change::RotateToken { agent_id: AGENT, token_hash: TokenHash([9; 32]) };
    assert!(matches!(apply(&store, again), Err(RegistryError::Invalid(_))));
}

#[test]
fn what_does_not_exist_is_named() {
    let (_folder, store) = set_up();
    let nobody = AgentId(Uuid::from_u128(0xff));
    let mut rule = rule_set(RuleSetId(Uuid::from_u128(0xee)), "x", 50).rules.remove(0);
    let changes = [
        (Change::RevokeAgent(nobody), "agent"),
        (Change::RotateToken { agent_id: nobody, token_hash: TokenHash([1; 32]) }, "agent"),
        (Change::RemoveRule(RuleId(Uuid::from_u128(0xff))), "rule"),
        (Change::AddRule(rule.clone()), "rule set"),
        (Change::ClearRules(RuleSetId(Uuid::from_u128(0xff))), "rule set"),
        (Change::RemoveService("nothing".to_owned()), "service"),
        (stop(Scope::Agent(nobody)), "agent"),
        (Change::Resume(Scope::Agent(nobody)), "agent"),
    ];
    for (change, expected) in changes {
        match apply(&store, change) {
            Err(RegistryError::NotFound { kind, .. }) => assert_eq!(kind, expected),
            other => panic!("{expected}: {other:?}"),
        }
    }
    rule.rule_set_id = SET;
    apply(&store, Change::AddRule(rule.clone())).unwrap();
    let twice = apply(&store, Change::AddRule(rule));
    assert!(matches!(twice, Err(RegistryError::Exists { kind: "rule", .. })));
}

#[test]
fn rules_come_and_go() {
    let (_folder, store) = set_up();
    let data = apply(&store, Change::RemoveRule(RuleId(Uuid::from_u128(1)))).unwrap();
    assert_eq!(data.rule_sets[0].rules.len(), 1);
    let data = apply(&store, Change::ClearRules(SET)).unwrap();
    assert!(data.rule_sets[0].rules.is_empty());
    let data = apply(&store, Change::RemoveService("stripe".to_owned())).unwrap();
    assert_eq!(data.services.len(), 3);
}

#[test]
fn stopping_an_agent_pauses_it_and_resuming_makes_it_active() {
    let (folder, store) = set_up();
    let data = apply(&store, stop(Scope::Agent(AGENT))).unwrap();
    assert_eq!((status(&data), data.stops.len()), (AgentStatus::Paused, 1));
    let data = apply(&store, Change::Resume(Scope::Agent(AGENT))).unwrap();
    assert_eq!((status(&data), data.stops.len()), (AgentStatus::Active, 0));
    // A switch that is on in memory only can be switched off.
    apply(&store, Change::Resume(Scope::Global)).unwrap();
    apply(&store, Change::RevokeAgent(AGENT)).unwrap();
    for change in [stop(Scope::Agent(AGENT)), Change::Resume(Scope::Agent(AGENT))] {
        assert_eq!(status(&apply(&store, change).unwrap()), AgentStatus::Revoked);
    }
    let Change::Stop(automatic) = stop(Scope::Global) else { panic!() };
    store.apply_soon(&Actor::System, Change::Stop(automatic), noon_plus(9));
    store.close().unwrap();
    let data = folder.store().load().unwrap();
    assert_eq!(data.stops[0].scope, Scope::Global);
    assert_eq!(folder.count("config_changes WHERE actor = 'system'"), 1);
}

#[test]
fn changes_are_recorded_with_before_and_after_and_without_secrets() {
    let (folder, store) = set_up();
    apply(&store, Change::RotateToken { agent_id: AGENT, token_hash: TokenHash([9; 32]) }).unwrap();
    apply(&store, Change::RevokeAgent(AGENT)).unwrap();
    let rows = store.reader().unwrap().config_changes(0, 100).unwrap();
    let actions: Vec<_> = rows.iter().map(|row| row.action.as_str()).collect();
    assert_eq!(actions, ["policy.import", "agent.rotate_token", "agent.revoke"]);
    let text = |place: usize| {
        let get =
            |raw: &Option<Box<serde_json::value::RawValue>>| raw.as_ref().unwrap().get().to_owned();
        (get(&rows[place].before), get(&rows[place].after))
    };
    assert!(text(2).0.contains("\"active\"") && text(2).1.contains("\"revoked\""));
    assert!(text(0).1.contains("daily_budget"));
    for place in 0..3 {
        let (before, after) = text(place);
        let both = format!("{before}{after}");
        // The hash in hexadecimal, in base64 and as a list.
        for secret in ["07070707", "09090909", "BwcHBw", "7,7,7", "9,9,9"] {
            assert!(!both.contains(secret), "{both}");
        }
        assert!(after.contains("\"token_hash\":\"***\""), "{after}");
    }
    store.close().unwrap();
    assert!(folder.verify().ok);
}

#[test]
fn an_import_makes_sets_and_services_exactly_those_of_the_plan() {
    let (_folder, store) = set_up();
    let other = RuleSetId(Uuid::from_u128(0x6));
    let plan = ImportPlan {
        rule_sets: vec![rule_set(other, "strict", 10)],
        services: Vec::new(),
        new_agents: Vec::new(),
        moved_agents: Vec::new(),
        prices: None,
    };
    let refused = apply(&store, Change::Import(Box::new(plan.clone())));
    let text = refused.unwrap_err().to_string();
    assert!(text.contains("agent `default` still uses rule set `default`"), "{text}");
    assert_eq!(store.load().unwrap().rule_sets[0].name, "default", "nothing was changed");

    let moved = ImportPlan { moved_agents: vec![(AGENT, other)], ..plan.clone() };
    let data = apply(&store, Change::Import(Box::new(moved))).unwrap();
    assert_eq!((data.rule_sets.len(), data.services.len()), (1, 0));
    assert_eq!(data.agents[0].agent.rule_set_id, other);

    let lost = ImportPlan { moved_agents: vec![(AGENT, SET)], ..plan };
    let refused = apply(&store, Change::Import(Box::new(lost)));
    assert!(matches!(refused, Err(RegistryError::NotFound { kind: "rule set", .. })));
}

fn price(model: &str, input: &str) -> PriceSpec {
    serde_json::from_value(json!({"model": model, "input": input, "output": "2"})).unwrap()
}

#[test]
fn prices_are_put_replaced_removed_and_on_the_record() {
    let (folder, store) = set_up();
    apply(&store, Change::PutPrice(price("m", "1"))).unwrap();
    apply(&store, Change::PutPrice(price("m", "3"))).unwrap();
    let data = apply(&store, Change::PutPrice(price("a", "1"))).unwrap();
    assert_eq!(data.prices, [price("a", "1"), price("m", "3")]);
    let data = apply(&store, Change::RemovePrice("a".to_owned())).unwrap();
    assert_eq!(data.prices, [price("m", "3")]);
    let gone = apply(&store, Change::RemovePrice("a".to_owned()));
    assert!(matches!(gone, Err(RegistryError::NotFound { kind: "price", .. })));
    store.close().unwrap();
    let replaced = r#"action = 'price.put' AND resource_id = 'm'
        AND before LIKE '%"input":"1"%' AND after LIKE '%"input":"3"%'"#;
    assert_eq!(folder.count_where("config_changes", replaced), 1);
    let removed = "action = 'price.remove' AND resource_id = 'a' AND after = 'null'";
    assert_eq!(folder.count_where("config_changes", removed), 1);
    assert_eq!(folder.store().load().unwrap().prices, [price("m", "3")]);
    assert!(folder.verify().ok);
}

#[test]
fn an_import_leaves_prices_that_its_file_does_not_speak_of() {
    let (_folder, store) = set_up();
    apply(&store, Change::PutPrice(price("m", "1"))).unwrap();
    let plan = ImportPlan { new_agents: Vec::new(), ..first_plan() };
    let data = apply(&store, Change::Import(Box::new(plan.clone()))).unwrap();
    assert_eq!(data.prices, [price("m", "1")]);
    let others = ImportPlan { prices: Some(vec![price("x", "1")]), ..plan.clone() };
    let data = apply(&store, Change::Import(Box::new(others))).unwrap();
    assert_eq!(data.prices, [price("x", "1")]);
    let twice = ImportPlan { prices: Some(vec![price("x", "1"), price("x", "2")]), ..plan };
    let refused = apply(&store, Change::Import(Box::new(twice)));
    assert!(matches!(refused, Err(RegistryError::Invalid(text)) if text.contains("twice")));
}

#[test]
fn a_revoked_agent_does_not_hold_a_rule_set() {
    let (_folder, store) = set_up();
    apply(&store, Change::RevokeAgent(AGENT)).unwrap();
    let other = RuleSetId(Uuid::from_u128(0x6));
    let plan = ImportPlan {
        rule_sets: vec![rule_set(other, "default", 10)],
        services: Vec::new(),
        new_agents: Vec::new(),
        moved_agents: Vec::new(),
        prices: None,
    };
    let data = apply(&store, Change::Import(Box::new(plan))).unwrap();
    assert_eq!(data.agents[0].agent.rule_set_id, other);
}

#[test]
fn an_agent_was_last_seen_with_its_latest_request() {
    let (_folder, store) = set_up();
    act(&store, 1, noon_plus(100), 10);
    act(&store, 2, noon_plus(50), 10);
    store.flush().unwrap();
    assert_eq!(store.load().unwrap().agents[0].agent.last_seen_at, Some(noon_plus(100)));
}
