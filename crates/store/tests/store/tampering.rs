//! What `verify` finds, and that it finds nothing where nothing is.

use std::fs;

use agentguard_store::{Verification, verify};

use crate::folder::{Folder, act, copy_all, filled, noon_plus};

/// Tampers with a good record, and says what `verify` must name.
fn check(name: &str, tamper: impl FnOnce(&Folder), log: &str, row: i64) {
    let folder = filled(1_200);
    assert!(folder.verify().ok, "{name}: before");
    tamper(&folder);
    let found = folder.verify();
    let bad = found.first_bad.unwrap_or_else(|| panic!("{name}: not found"));
    assert_eq!((bad.log, bad.row), (log, row), "{name}: {}", bad.why);
    assert!(!found.ok);
}

fn check_sql(sql: &str, log: &str, row: i64) {
    check(sql, |folder| folder.sql(sql), log, row);
}

#[test]
fn a_changed_field_is_found() {
    for column in [
        "id = 'x'",
        "agent_id = NULL",
        "timestamp = timestamp + 1",
        "door = 'web'",
        "method = 'GET'",
        "target_url = 'https://evil.com/'",
        "target_service = NULL",
        "amount = 1",
        "currency = 'EUR'",
        "cost_micros = 0",
        "decision = 'block'",
        "block_reason = 'x'",
        "rule_id = 'x'",
        "response_status = 500",
        "latency_us = 1",
        "is_streaming = 1",
        "estimated = 1",
        "risk = '{}'",
        "facts = '{}'",
        "first_in_minute = 1",
        "hash = zeroblob(32)",
        "hash = x'00'",
    ] {
        let sql = format!("UPDATE transactions SET {column} WHERE seq = 601");
        check_sql(&sql, "transactions", 601);
    }
    check_sql("UPDATE config_changes SET actor = 'nobody'", "config_changes", 1);
    check_sql("UPDATE config_changes SET after = '{}'", "config_changes", 1);
    check_sql("UPDATE system_events SET message = 'all is well'", "system_events", 1);
}

#[test]
fn a_deleted_row_is_found() {
    check_sql("DELETE FROM transactions WHERE seq = 1", "transactions", 1);
    check_sql("DELETE FROM transactions WHERE seq = 700", "transactions", 700);
    check_sql(
        "DELETE FROM transactions WHERE seq = 700; \
         UPDATE transactions SET seq = -seq WHERE seq > 700; \
         UPDATE transactions SET seq = -seq - 1 WHERE seq < 0",
        "transactions",
        700,
    );
    check_sql("DELETE FROM config_changes", "config_changes", 1);
}

const COPY: &str = "id, agent_id, timestamp, door, method, target_url, target_service, amount, \
                    currency, cost_micros, decision, block_reason, rule_id, response_status, \
                    latency_us, is_streaming, estimated, risk, facts, first_in_minute, hash";

#[test]
fn an_inserted_row_is_found() {
    let at_the_end = format!(
        "INSERT INTO transactions (seq, {COPY}) SELECT 1201, {COPY} FROM transactions WHERE seq = 5"
    );
    check_sql(&at_the_end, "transactions", 1_201);
    let in_the_middle = format!(
        "UPDATE transactions SET seq = -seq - 1 WHERE seq >= 300; \
         UPDATE transactions SET seq = -seq WHERE seq < 0; \
         INSERT INTO transactions (seq, {COPY}) SELECT 300, {COPY} FROM transactions WHERE seq = 5"
    );
    check_sql(&in_the_middle, "transactions", 300);
    let before_the_first = format!(
        "INSERT INTO transactions (seq, {COPY}) SELECT 0, {COPY} FROM transactions WHERE seq = 5"
    );
    check_sql(&before_the_first, "transactions", 0);
}

#[test]
fn two_swapped_rows_are_found() {
    check_sql(
        "UPDATE transactions SET seq = -1 WHERE seq = 40; \
         UPDATE transactions SET seq = 40 WHERE seq = 41; \
         UPDATE transactions SET seq = 41 WHERE seq = -1",
        "transactions",
        40,
    );
    check_sql(
        "CREATE TEMP TABLE two AS SELECT * FROM transactions WHERE seq IN (40, 90); \
         UPDATE transactions SET (target_url, cost_micros, id) = \
           (SELECT target_url, cost_micros, id FROM two WHERE two.seq = 130 - transactions.seq) \
         WHERE seq IN (40, 90)",
        "transactions",
        40,
    );
}

#[test]
fn a_cut_tail_is_found() {
    check_sql("DELETE FROM transactions WHERE seq > 1190", "transactions", 1_191);
    check_sql("DELETE FROM transactions", "transactions", 1);
    check_sql("DELETE FROM system_events", "system_events", 1);
}

#[test]
fn an_older_database_put_back_is_found_and_told_at_the_next_start() {
    let older = |folder: &Folder| {
        let copy = folder.snapshot();
        let store = folder.store();
        for number in 2_000..2_010 {
            act(&store, number, noon_plus(3_000), 10);
        }
        store.close().unwrap();
        fs::copy(copy.file("agentguard.db"), folder.file("agentguard.db")).unwrap();
    };
    check("older database", older, "transactions", 1_201);
    let restarted = |folder: &Folder| {
        older(folder);
        let opened = folder.open();
        assert!(opened.warnings[0].contains("older database"), "{:?}", opened.warnings);
        for number in 3_000..3_100 {
            act(&opened.store, number, noon_plus(4_000), 10);
        }
        opened.store.close().unwrap();
    };
    // Other rows stand now where those stood that were signed.
    check("older database, used again", restarted, "transactions", 1_201);
}

#[test]
fn a_chain_that_was_worked_out_anew_does_not_pass_the_checkpoints() {
    // The rows of another record are a perfect chain, and nobody signed them here.
    let other = |folder: &Folder| {
        let forged = filled(1_300);
        fs::copy(forged.file("agentguard.db"), folder.file("agentguard.db")).unwrap();
    };
    let folder = filled(1_200);
    other(&folder);
    assert!(folder.verify().first_bad.is_some());
}

#[test]
fn rows_added_after_a_stop_are_found_even_with_a_right_chain() {
    // A second gate on a copy makes a right chain; its checkpoints are not ours.
    let longer = |folder: &Folder| {
        let copy = folder.snapshot();
        let store = copy.store();
        act(&store, 5_000, noon_plus(5_000), 10);
        store.close().unwrap();
        fs::copy(copy.file("agentguard.db"), folder.file("agentguard.db")).unwrap();
    };
    check("longer", longer, "transactions", 1_201);
}

#[test]
fn a_changed_missing_or_cut_checkpoint_file_is_found() {
    let edit = |edit: fn(Vec<String>) -> Vec<String>| {
        move |folder: &Folder| {
            let file = folder.file("checkpoints.jsonl");
            let text = fs::read_to_string(&file).unwrap();
            let lines = edit(text.lines().map(str::to_owned).collect());
            let text: String = lines.into_iter().map(|line| line + "\n").collect();
            fs::write(&file, text).unwrap();
        }
    };
    check(
        "one digit",
        edit(|mut lines| {
            lines[1] = lines[1].replacen("\"rows\":", "\"rows\":1", 1);
            lines
        }),
        "checkpoints",
        2,
    );
    check(
        "first line gone",
        edit(|mut lines| {
            lines.remove(0);
            lines
        }),
        "checkpoints",
        1,
    );
    check(
        "middle line gone",
        edit(|mut lines| {
            lines.remove(1);
            lines
        }),
        "checkpoints",
        2,
    );
    check(
        "garbage",
        edit(|mut lines| {
            lines[0] = "{}".to_owned();
            lines
        }),
        "checkpoints",
        1,
    );
    let missing = |folder: &Folder| fs::remove_file(folder.file("checkpoints.jsonl")).unwrap();
    check("missing", missing, "checkpoints", 1);
    let last = filled(1_200);
    edit(|mut lines| {
        lines.pop();
        lines
    })(&last);
    assert_eq!(last.verify().first_bad.unwrap().log, "checkpoints");
}

#[test]
fn database_and_checkpoints_put_back_together_are_found_by_the_mark() {
    let folder = filled(100);
    let copy = folder.snapshot();
    let store = folder.store();
    act(&store, 2_000, noon_plus(3_000), 10);
    store.close().unwrap();
    for name in ["agentguard.db", "checkpoints.jsonl"] {
        fs::copy(copy.file(name), folder.file(name)).unwrap();
    }
    let bad = folder.verify().first_bad.unwrap();
    assert_eq!(bad.log, "checkpoints");
    assert!(bad.why.contains("older copy"), "{}", bad.why);
}

#[test]
fn checkpoints_signed_with_another_key_are_found() {
    let folder = filled(50);
    let other = filled(50);
    for name in ["keys/record.key", "keys/record.pub"] {
        fs::copy(other.file(name), folder.file(name)).unwrap();
    }
    let bad = folder.verify().first_bad.unwrap();
    assert_eq!((bad.log, bad.row), ("checkpoints", 1));
}

#[test]
fn the_public_key_is_enough_to_verify() {
    let folder = filled(50);
    fs::remove_file(folder.file("keys/record.key")).unwrap();
    assert!(folder.verify().ok);
}

#[test]
fn a_live_record_passes_again_and_again() {
    let folder = filled(10);
    let store = folder.store();
    for round in 0..30_u128 {
        for number in 0..200 {
            act(&store, 10_000 + round * 1_000 + number, noon_plus(100), 10);
        }
        let found = folder.verify();
        assert!(found.ok, "{:?}", found.first_bad);
    }
    store.close().unwrap();
    let found = folder.verify();
    assert!(found.ok && found.rows > 6_000, "{found:?}");
}

#[test]
fn a_crashed_record_passes_before_and_after_its_recovery() {
    let folder = filled(10);
    let store = folder.store();
    for number in 0..700 {
        act(&store, 10_000 + number, noon_plus(100), 10);
    }
    store.flush().unwrap();
    let crashed = folder.snapshot();
    assert!(crashed.verify().ok);
    crashed.store().close().unwrap();
    assert!(crashed.verify().ok);
}

#[test]
fn a_long_record_is_verified_with_progress() {
    let folder = filled(50_000);
    let mut seen = Vec::new();
    let started = std::time::Instant::now();
    let Verification { ok, rows, .. } =
        verify(folder.path(), None, &mut |progress| seen.push((progress.done, progress.total)))
            .unwrap();
    assert!(ok && rows > 50_000);
    assert!(seen.contains(&(10_000, 50_000)) && seen.contains(&(50_000, 50_000)), "{seen:?}");
    assert!(started.elapsed().as_secs() < 30);
}

#[test]
fn verify_works_where_nothing_can_be_written() {
    use std::os::unix::fs::PermissionsExt;
    let folder = filled(20);
    let evidence = Folder::new();
    let inside = evidence.file("copy");
    copy_all(folder.path(), &inside);
    fs::set_permissions(&inside, fs::Permissions::from_mode(0o500)).unwrap();
    let found = verify(&inside, None, &mut |_| {});
    fs::set_permissions(&inside, fs::Permissions::from_mode(0o700)).unwrap();
    assert!(found.unwrap().ok);
}
