//! Retention: old rows go, the rest still proves itself.

use std::fs;

use agentguard_core::time::DAY_MICROS;
use agentguard_gate::ports::Record;
use agentguard_gate::{Change, Severity, SystemEvent};
use agentguard_store::{Retention, Store, StoreError, StoreOptions};
use serde_json::json;

use crate::folder::{Folder, act, apply, first_plan, noon_plus};

fn days(count: i64) -> i64 {
    count * DAY_MICROS / 1_000_000
}

/// Twenty days of a hundred requests each, the last ten of which were kept.
fn retained() -> Folder {
    let folder = Folder::new();
    let store = folder.store();
    apply(&store, Change::Import(Box::new(first_plan()))).unwrap();
    for day in 0..20 {
        for number in 0..100 {
            let id = u128::try_from(day * 1_000 + number + 1).unwrap();
            act(&store, id, noon_plus(days(day) + number), 10);
        }
    }
    let removed = store.retain(noon_plus(days(17))).unwrap();
    assert_eq!((removed.requests, removed.config_changes), (1_000, 0));
    store.close().unwrap();
    folder
}

#[test]
fn old_rows_go_and_the_rest_is_verified() {
    let folder = retained();
    assert_eq!(folder.count("transactions"), 1_000);
    assert_eq!(folder.count("transactions WHERE seq <= 1000"), 0);
    let found = folder.verify();
    assert!(found.ok, "{:?}", found.first_bad);
    let store = folder.store();
    act(&store, 99_999, noon_plus(days(20)), 10);
    assert_eq!(store.retain(noon_plus(days(20))).unwrap().requests, 300);
    store.close().unwrap();
    assert!(folder.verify().ok);
    assert_eq!(folder.count("budget_snapshots"), 21, "sums stay when rows go");
}

#[test]
fn tampering_after_retention_is_found() {
    for (sql, row) in [
        ("UPDATE transactions SET cost_micros = 0 WHERE seq = 1500", 1_500),
        ("DELETE FROM transactions WHERE seq = 1001", 1_001),
        ("DELETE FROM transactions WHERE seq <= 1100", 1_001),
        ("DELETE FROM transactions WHERE seq > 1900", 1_901),
        ("DELETE FROM transactions", 1_001),
    ] {
        let folder = retained();
        folder.sql(sql);
        let bad = folder.verify().first_bad.unwrap();
        assert_eq!((bad.log, bad.row), ("transactions", row), "{sql}: {}", bad.why);
    }
}

#[test]
fn rows_that_were_allowed_to_go_may_still_be_there() {
    let folder = Folder::new();
    let store = folder.store();
    for number in 0..100_i64 {
        act(&store, u128::try_from(number + 1).unwrap(), noon_plus(number), 10);
    }
    store.flush().unwrap();
    let before = folder.snapshot();
    store.retain(noon_plus(days(30))).unwrap();
    store.close().unwrap();
    assert_eq!(folder.count("transactions"), 1, "the last row stays");
    // As if the gate had died between signing and removing: the old rows, the new signatures.
    for name in ["agentguard.db", "agentguard.db-wal"] {
        let _ = fs::remove_file(folder.file(name));
        if before.file(name).exists() {
            fs::copy(before.file(name), folder.file(name)).unwrap();
        }
    }
    let _ = fs::remove_file(folder.file("agentguard.db-shm"));
    assert_eq!(folder.count("transactions"), 100);
    let found = folder.verify();
    assert!(found.ok, "{:?}", found.first_bad);
    let store = folder.store();
    assert_eq!(store.retain(noon_plus(days(30))).unwrap().requests, 99, "they go the next time");
    store.close().unwrap();
    assert!(folder.verify().ok);
}

#[test]
fn many_rows_go_in_stretches_while_others_are_written() {
    let folder = Folder::new();
    let store = folder.store();
    for number in 1..=45_000_u128 {
        act(&store, number, noon_plus(0), 10);
        if number.is_multiple_of(5_000) {
            store.flush().unwrap();
        }
    }
    let writing = std::thread::spawn({
        let store = std::sync::Arc::clone(&store);
        move || {
            for number in 100_001..=100_500 {
                act(&store, number, noon_plus(days(20)), 10);
            }
        }
    });
    let removed = store.retain(noon_plus(days(20))).unwrap();
    writing.join().unwrap();
    store.close().unwrap();
    // The last of the old rows may be the last row of all at that moment, which stays.
    assert!((44_999..=45_000).contains(&removed.requests), "{removed:?}");
    let found = folder.verify();
    assert!(found.ok, "{:?}", found.first_bad);
}

/// Two hundred rows of each log, all of one hour.
fn full() -> Folder {
    let folder = Folder::new();
    let store = folder.store();
    apply(&store, Change::Import(Box::new(first_plan()))).unwrap();
    for number in 0..200_i64 {
        act(&store, u128::try_from(number + 1).unwrap(), noon_plus(number), 10);
        store.event(SystemEvent {
            at: noon_plus(number),
            event: "start",
            severity: Severity::Info,
            message: "the gate is up".to_owned(),
            details: json!({}),
        });
        let reload = Change::Reload { before: json!({}), after: json!({ "number": number }) };
        apply(&store, reload).unwrap();
        // Several checkpoints, as in a longer life.
        if number % 50 == 49 {
            store.flush().unwrap();
        }
    }
    store.close().unwrap();
    folder
}

fn everything_is_old(folder: &Folder) -> StoreOptions {
    let week = Some(7);
    let retention =
        Retention { requests_days: week, config_changes_days: week, system_events_days: week };
    StoreOptions { retention, ..folder.options() }
}

/// Tampers, retains, and says which row stands in the way: nothing may go from that log.
fn refuses(sql: &str, log: &'static str, row: i64) {
    let folder = full();
    folder.sql(sql);
    let before = folder.count(&format!("{log} WHERE seq <= 150"));
    let store = Store::open(everything_is_old(&folder)).unwrap().store;
    for _ in 0..2 {
        let error = store.retain(noon_plus(days(20))).unwrap_err();
        let StoreError::Altered { log: named, row: at, .. } = &error else {
            panic!("{sql}: {error:?}");
        };
        assert_eq!((*named, *at), (log, row), "{sql}: {error}");
        assert!(error.to_string().contains(log) && error.to_string().contains("verify-logs"));
    }
    store.flush().unwrap();
    assert_eq!(folder.count(&format!("{log} WHERE seq <= 150")), before, "{sql}");
    let told = format!(
        "system_events WHERE event = 'integrity.failed' AND severity = 'critical' \
         AND message LIKE '%{log}%removed%'"
    );
    assert_eq!(folder.count(&told), 1, "{sql}: told once");
    store.close().unwrap();
    let bad = folder.verify().first_bad.unwrap();
    assert_eq!((bad.log, bad.row), (log, row), "{sql}: {}", bad.why);
}

#[test]
fn rows_that_were_changed_do_not_go() {
    refuses(
        "UPDATE transactions SET timestamp = timestamp - 20 * 86400000000, target_url = 'x' \
         WHERE seq <= 150",
        "transactions",
        1,
    );
    refuses("UPDATE transactions SET cost_micros = 0 WHERE seq = 120", "transactions", 120);
    refuses("DELETE FROM transactions WHERE seq <= 10", "transactions", 1);
    refuses("DELETE FROM transactions WHERE seq = 60", "transactions", 60);
    refuses("UPDATE config_changes SET actor = 'x' WHERE seq = 30", "config_changes", 30);
    refuses("UPDATE system_events SET message = 'x' WHERE seq = 30", "system_events", 30);
}

#[test]
fn what_was_changed_in_one_log_does_not_keep_the_rows_of_another() {
    let folder = full();
    folder.sql("UPDATE config_changes SET actor = 'x' WHERE seq = 30");
    let store = Store::open(everything_is_old(&folder)).unwrap().store;
    store.retain(noon_plus(days(20))).unwrap_err();
    store.close().unwrap();
    assert_eq!(folder.count("transactions"), 1);
    assert!(folder.count("config_changes") > 200);
}

#[test]
fn a_chain_that_was_worked_out_anew_does_not_go() {
    // A perfect chain, and another one than was signed.
    let folder = full();
    let other = Folder::new();
    let store = other.store();
    for number in 0..300_i64 {
        act(&store, u128::try_from(number + 1).unwrap(), noon_plus(number), 99);
    }
    store.close().unwrap();
    fs::copy(other.file("agentguard.db"), folder.file("agentguard.db")).unwrap();
    let store = folder.store();
    let error = store.retain(noon_plus(days(20))).unwrap_err();
    assert!(matches!(error, StoreError::Altered { log: "transactions", row: 1, .. }), "{error:?}");
    store.close().unwrap();
    assert_eq!(folder.count("transactions"), 300);
}

#[test]
fn nothing_goes_while_the_checkpoints_are_not_whole() {
    let folder = full();
    fs::remove_file(folder.file("checkpoints.jsonl")).unwrap();
    fs::remove_file(folder.file("keys/record.mark")).unwrap();
    let store = folder.store();
    let error = store.retain(noon_plus(days(20))).unwrap_err();
    assert!(matches!(error, StoreError::Altered { log: "checkpoints", row: 1, .. }), "{error:?}");
    store.close().unwrap();
    assert_eq!(folder.count("transactions"), 200);
}
