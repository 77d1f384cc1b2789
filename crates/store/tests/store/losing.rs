//! What was lost or taken away as a whole: the database, its tables, the checkpoints, the mark.

use std::fs;

use agentguard_gate::Change;
use agentguard_store::{Store, StoreError, verify};

use crate::folder::{Folder, act, apply, filled, first_plan, noon_plus};

fn remove(folder: &Folder, names: &[&str]) {
    for name in names {
        fs::remove_file(folder.file(name)).unwrap();
    }
}

fn remove_database(folder: &Folder) {
    for name in ["agentguard.db", "agentguard.db-wal", "agentguard.db-shm"] {
        let _ = fs::remove_file(folder.file(name));
    }
}

/// Opening refuses, names what is there and the database, and leaves everything as it is.
fn refused(folder: &Folder, names: &[&str]) {
    let before = fs::read(folder.file("agentguard.db")).ok();
    let error = Store::open(folder.options()).unwrap_err();
    assert!(matches!(error, StoreError::Lost { .. }), "{error:?}");
    let said = error.to_string();
    for name in [&["agentguard.db", "Restore", "begin anew"], names].concat() {
        assert!(said.contains(name), "`{name}` in: {said}");
    }
    assert_eq!(fs::read(folder.file("agentguard.db")).ok(), before, "nothing was made");
}

#[test]
fn a_lost_database_is_no_first_start() {
    let folder = filled(20);
    remove_database(&folder);
    refused(&folder, &["checkpoints.jsonl", "record.mark"]);
}

#[test]
fn an_emptied_database_is_no_first_start() {
    let folder = filled(20);
    fs::write(folder.file("agentguard.db"), "").unwrap();
    refused(&folder, &["checkpoints.jsonl", "record.mark"]);

    // A database, and nothing in it.
    remove_database(&folder);
    folder.sql("PRAGMA journal_mode = delete; CREATE TABLE a (b); DROP TABLE a");
    refused(&folder, &["checkpoints.jsonl", "record.mark"]);
}

#[test]
fn any_one_trace_of_a_record_is_enough_to_refuse() {
    let folder = filled(20);
    remove_database(&folder);
    let mark = fs::read(folder.file("keys/record.mark")).unwrap();
    remove(&folder, &["keys/record.mark"]);
    refused(&folder, &["checkpoints.jsonl"]);
    fs::write(folder.file("keys/record.mark"), mark).unwrap();
    remove(&folder, &["checkpoints.jsonl"]);
    refused(&folder, &["record.mark"]);
    remove(&folder, &["keys/record.mark"]);
    fs::write(folder.file("journal/00000007.log"), "an intent\n").unwrap();
    refused(&folder, &["journal"]);
}

#[test]
fn a_record_is_begun_anew_once_its_traces_are_moved_away() {
    let folder = filled(20);
    remove_database(&folder);
    remove(&folder, &["checkpoints.jsonl", "keys/record.mark"]);
    fs::remove_dir_all(folder.file("journal")).unwrap();
    let opened = folder.open();
    assert!(opened.first_start && opened.warnings.is_empty(), "{:?}", opened.warnings);
    opened.store.close().unwrap();
    assert!(folder.verify().ok);
}

#[test]
fn a_record_begins_with_a_signed_line_of_no_rows() {
    let folder = Folder::new();
    let store = folder.store();
    let text = fs::read_to_string(folder.file("checkpoints.jsonl")).unwrap();
    let first = text.lines().next().unwrap();
    assert_eq!(first.matches("\"rows\":0").count(), 3, "{first}");
    store.close().unwrap();
    assert!(folder.verify().ok);
}

/// Tampers, and says in which words the next start warns, and that no start hides it.
fn found_for_ever(name: &str, tamper: impl FnOnce(&Folder), warned: &str) {
    let folder = filled(200);
    tamper(&folder);
    assert!(!folder.verify().ok, "{name}: before the start");
    for start in 0..3_u128 {
        let opened = folder.open();
        if start == 0 {
            let warnings = &opened.warnings;
            assert!(warnings.iter().any(|text| text.contains(warned)), "{name}: {warnings:?}");
        }
        act(&opened.store, 5_000 + start, noon_plus(5_000), 10);
        opened.store.close().unwrap();
        assert!(!folder.verify().ok, "{name}: after start {start}");
    }
    assert!(folder.count("system_events WHERE event = 'integrity.failed'") > 0, "{name}");
}

const CUT: &str = "DELETE FROM transactions WHERE seq > 100";

#[test]
fn no_start_hides_that_checkpoints_were_removed() {
    let both = ["checkpoints.jsonl", "keys/record.mark"];
    found_for_ever(
        "tail, checkpoints and mark",
        |folder| {
            folder.sql(CUT);
            remove(folder, &both);
        },
        "there are rows and no checkpoints",
    );
    found_for_ever(
        "checkpoints only",
        |folder| remove(folder, &["checkpoints.jsonl"]),
        "lines are missing",
    );
    found_for_ever(
        "every row of every log, checkpoints and mark",
        |folder| {
            folder.sql(
                "DELETE FROM transactions; DELETE FROM config_changes; DELETE FROM system_events",
            );
            remove(folder, &both);
        },
        "not one change",
    );
}

#[test]
fn no_start_hides_that_the_last_checkpoints_were_cut_off() {
    let cut = |folder: &Folder| {
        folder
            .sql("DELETE FROM transactions; DELETE FROM config_changes; DELETE FROM system_events");
        let file = folder.file("checkpoints.jsonl");
        let text = fs::read_to_string(&file).unwrap();
        fs::write(file, text.lines().next().unwrap().to_owned() + "\n").unwrap();
    };
    let without = |folder: &Folder| {
        cut(folder);
        remove(folder, &["keys/record.mark"]);
    };
    found_for_ever("without the mark", without, "mark");
    let damaged = |folder: &Folder| {
        cut(folder);
        fs::write(folder.file("keys/record.mark"), "x").unwrap();
    };
    found_for_ever("with a damaged mark", damaged, "mark");
}

#[test]
fn a_checkpoint_file_that_begins_late_is_named_at_every_start() {
    let folder = filled(50);
    remove(&folder, &["checkpoints.jsonl", "keys/record.mark"]);
    folder.store().close().unwrap();
    let bad = folder.verify().first_bad.unwrap();
    assert_eq!((bad.log, bad.row), ("checkpoints", 1));
    assert!(bad.why.contains("begins in the middle of the record"), "{}", bad.why);
    let opened = folder.open();
    let told = |text: &String| text.contains("begins in the middle of the record");
    assert!(opened.warnings.iter().any(told), "{:?}", opened.warnings);
}

#[test]
fn a_start_that_died_before_its_first_line_is_no_finding() {
    let folder = Folder::new();
    folder.store().close().unwrap();
    remove(&folder, &["checkpoints.jsonl", "keys/record.mark"]);
    let opened = folder.open();
    assert!(opened.warnings.is_empty(), "{:?}", opened.warnings);
    opened.store.close().unwrap();
    drop(opened);
    // Nor one that died between that line and the mark.
    let file = folder.file("checkpoints.jsonl");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(file, text.lines().next().unwrap().to_owned() + "\n").unwrap();
    remove(&folder, &["keys/record.mark"]);
    let opened = folder.open();
    assert!(opened.warnings.is_empty(), "{:?}", opened.warnings);
    apply(&opened.store, Change::Import(Box::new(first_plan()))).unwrap();
    opened.store.close().unwrap();
    assert!(folder.verify().ok);
}

/// What `verify` names instead of giving up.
fn named(folder: &Folder, log: &str, why: &str) {
    let found = folder.verify();
    let bad = found.first_bad.unwrap();
    assert!(!found.ok && bad.log == log && bad.row == 1, "{bad:?}");
    assert!(bad.why.contains(why), "{}", bad.why);
}

#[test]
fn a_database_that_is_gone_is_a_finding_of_verify() {
    let folder = filled(20);
    fs::write(folder.file("agentguard.db"), "").unwrap();
    named(&folder, "transactions", "is missing");
    remove_database(&folder);
    named(&folder, "transactions", "is missing");
    remove(&folder, &["checkpoints.jsonl"]);
    named(&folder, "transactions", "is missing");
    remove(&folder, &["keys/record.mark"]);
    let nothing = verify(folder.path(), None, &mut |_| {});
    assert!(matches!(nothing, Err(StoreError::Missing { .. })), "there never was a record");
}

#[test]
fn a_table_that_is_gone_is_a_finding_of_verify() {
    for table in ["transactions", "config_changes", "system_events"] {
        let folder = filled(20);
        folder.sql(&format!("DROP TABLE {table}"));
        named(&folder, table, "is missing");
        let folder = filled(20);
        folder.sql(&format!("ALTER TABLE {table} DROP COLUMN hash"));
        named(&folder, table, "`hash`");
    }
}

#[test]
fn a_checkpoint_file_of_anything_is_a_finding_of_verify() {
    for garbage in [&b"\n"[..], b"no json\n", b"\xff\xfe\x00\n", &[b'x'; 100_000]] {
        let folder = filled(20);
        fs::write(folder.file("checkpoints.jsonl"), garbage).unwrap();
        named(&folder, "checkpoints", "is no checkpoint");
    }
}

#[test]
fn a_newer_schema_is_still_an_error_of_verify() {
    let folder = filled(20);
    folder.sql("PRAGMA user_version = 99");
    let found = verify(folder.path(), None, &mut |_| {});
    assert!(matches!(found, Err(StoreError::Newer { .. })));
}
