//! A data folder to try things on, and rows to put in it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use agentguard_core::action::ApiFacts;
use agentguard_core::rule::RuleType;
use agentguard_core::time::Zone;
use agentguard_core::token::TokenHash;
use agentguard_core::{
    Action, Agent, AgentId, AgentStatus, Amount, Currency, Door, Facts, MicroUsd, Money, RequestId,
    RuleId, RuleSetId, Timestamp,
};
use agentguard_gate::ports::{Record, Registry, RegistryError};
use agentguard_gate::{
    Actor, Change, Decision, ImportPlan, Intent, PolicyData, Row, RuleDraft, RuleSet,
};
use agentguard_store::{Opened, Retention, Store, StoreOptions, Verification, verify};
use rusqlite::Connection;
use serde_json::json;
use uuid::Uuid;

pub(crate) const AGENT: AgentId = AgentId(Uuid::from_u128(0xa));
pub(crate) const SET: RuleSetId = RuleSetId(Uuid::from_u128(0x5));

pub(crate) fn at(text: &str) -> Timestamp {
    Timestamp::parse_rfc3339(text).unwrap()
}

/// Noon of a day long gone, and so many seconds.
pub(crate) fn noon_plus(seconds: i64) -> Timestamp {
    at("2026-03-01T12:00:00Z").plus_micros(seconds * 1_000_000)
}

pub(crate) struct Folder {
    dir: tempfile::TempDir,
}

impl Folder {
    pub(crate) fn new() -> Self {
        let private = fs::Permissions::from_mode(0o700);
        Self { dir: tempfile::Builder::new().permissions(private).tempdir().unwrap() }
    }

    /// A copy of all files as they are now: what a kill -9 at this moment leaves.
    pub(crate) fn snapshot(&self) -> Self {
        let copy = Self::new();
        copy_all(self.path(), copy.path());
        copy
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    pub(crate) fn options(&self) -> StoreOptions {
        StoreOptions {
            data_dir: self.path().to_owned(),
            zone: Zone::UTC,
            checkpoint_file: None,
            retention: Retention {
                requests_days: Some(7),
                config_changes_days: None,
                system_events_days: Some(30),
            },
        }
    }

    pub(crate) fn open(&self) -> Opened {
        Store::open(self.options()).unwrap()
    }

    pub(crate) fn store(&self) -> Arc<Store> {
        self.open().store
    }

    pub(crate) fn verify(&self) -> Verification {
        verify(self.path(), None, &mut |_| {}).unwrap()
    }

    /// Somebody with a shell.
    pub(crate) fn sql(&self, sql: &str) {
        let db = Connection::open(self.file("agentguard.db")).unwrap();
        db.execute_batch(sql).unwrap();
        db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    }

    /// How many rows of a table are such.
    pub(crate) fn count_where(&self, table: &str, such: &str) -> i64 {
        self.count(&format!("{table} WHERE {such}"))
    }

    pub(crate) fn count(&self, table: &str) -> i64 {
        let db = Connection::open(self.file("agentguard.db")).unwrap();
        db.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap()
    }

    pub(crate) fn segments(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.file("journal")).unwrap();
        let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        paths
    }
}

pub(crate) fn copy_all(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_all(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

pub(crate) fn usd(micros: i64) -> Money {
    Money::new(micros, Currency::USD).unwrap()
}

pub(crate) fn action(when: Timestamp, micros: i64) -> Action {
    Action {
        at: when,
        facts: Facts::Api(ApiFacts {
            method: "POST".into(),
            masked_url: "https://api.stripe.com/v1/charges".into(),
            host: "api.stripe.com".into(),
            service: Some("stripe".into()),
        }),
        amount: Amount::Exact(usd(micros)),
    }
}

pub(crate) fn request(number: u128) -> RequestId {
    RequestId(Uuid::from_u128(number))
}

pub(crate) fn row(number: u128, when: Timestamp, micros: i64) -> Row {
    Row {
        id: request(number),
        agent_id: Some(AGENT),
        at: when,
        door: Door::Api,
        verb: "POST".into(),
        target: "https://api.stripe.com/v1/charges".into(),
        service: Some("stripe".into()),
        amount: Some(usd(micros)),
        cost: MicroUsd::from_micros(micros),
        decision: Decision::Allow,
        block_reason: None,
        rule_id: None,
        response_status: Some(200),
        latency_us: 12_345,
        is_streaming: false,
        estimated: false,
        risk: None,
        facts: None,
        first_in_minute: number.is_multiple_of(10),
        is_metered: false,
    }
}

/// An action from its intent to its row.
pub(crate) fn act(store: &Store, number: u128, when: Timestamp, micros: i64) {
    let action = action(when, micros);
    let cost = MicroUsd::from_micros(micros);
    let intent = Intent { id: request(number), agent_id: AGENT, action: &action, cost };
    let ticket = store.begin(&intent).unwrap();
    store.finish(ticket, row(number, when, micros));
}

pub(crate) fn refuse(store: &Store, number: u128, when: Timestamp) {
    store.refused(Row {
        decision: Decision::Block,
        block_reason: Some("DAILY_BUDGET_EXCEEDED"),
        rule_id: Some(RuleId(Uuid::from_u128(1))),
        cost: MicroUsd::ZERO,
        response_status: Some(403),
        first_in_minute: false,
        ..row(number, when, 5_000_000)
    });
}

pub(crate) fn agent(id: AgentId, name: &str) -> Agent {
    Agent {
        id,
        name: name.to_owned(),
        status: AgentStatus::Active,
        rule_set_id: SET,
        created_at: noon_plus(0),
        last_seen_at: None,
        description: Some("for tests".to_owned()),
    }
}

pub(crate) fn rule_set(id: RuleSetId, name: &str, first_rule: u128) -> RuleSet {
    let draft = |kind, params| RuleDraft {
        id: None,
        kind,
        enabled: true,
        action: None,
        priority: 100,
        doors: Some(vec![Door::Api]),
        params: serde_json::from_value(params).unwrap(),
    };
    let rules = [
        draft(RuleType::DailyBudget, json!({"limit": "10.00"})),
        draft(RuleType::PerCallLimit, json!({"limit": "5.00"})),
    ];
    let rules = (first_rule..)
        .zip(rules)
        .map(|(number, draft)| draft.into_spec(RuleId(Uuid::from_u128(number)), id));
    RuleSet { id, name: name.to_owned(), rules: rules.collect() }
}

pub(crate) fn first_plan() -> ImportPlan {
    ImportPlan {
        rule_sets: vec![rule_set(SET, "default", 1)],
        services: agentguard_gate::defaults::built_in_services(),
        new_agents: vec![(agent(AGENT, "default"), TokenHash([7; 32]))],
        moved_agents: Vec::new(),
        prices: None,
    }
}

pub(crate) fn apply(store: &Store, change: Change) -> Result<PolicyData, RegistryError> {
    store.apply(&Actor::Cli, change, noon_plus(0), Box::new(|_| Ok(())))
}

/// A folder with an agent, some changes, and so many requests.
pub(crate) fn filled(rows: u128) -> Folder {
    let folder = Folder::new();
    let store = folder.store();
    apply(&store, Change::Import(Box::new(first_plan()))).unwrap();
    for number in 1..=rows {
        if number.is_multiple_of(7) {
            refuse(&store, number, noon_plus(i64::try_from(number).unwrap()));
        } else {
            act(&store, number, noon_plus(i64::try_from(number).unwrap()), 10_000);
        }
        // The queue keeps half its places from refusals; nothing is dropped here.
        if number.is_multiple_of(10_000) {
            store.flush().unwrap();
        }
    }
    store.event(agentguard_gate::SystemEvent {
        at: noon_plus(1),
        event: "start",
        severity: agentguard_gate::Severity::Info,
        message: "the gate is up".to_owned(),
        details: json!({"version": "0.1.0"}),
    });
    store.close().unwrap();
    folder
}
