//! Opening: new, again, in use, newer, damaged, not ours.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use agentguard_core::MicroUsd;
use agentguard_gate::ports::{Record, RecordError, Registry};
use agentguard_gate::{Change, Intent};
use agentguard_store::{Store, StoreError, open_reader};

use crate::folder::{AGENT, Folder, act, action, apply, first_plan, noon_plus, request};

fn mode(folder: &Folder, name: &str) -> u32 {
    fs::metadata(folder.file(name)).unwrap().permissions().mode() & 0o777
}

#[test]
fn a_first_start_makes_a_private_folder_with_private_keys() {
    let outer = Folder::new();
    let mut options = outer.options();
    options.data_dir = outer.file("deep/data");
    let opened = Store::open(options).unwrap();
    assert!(opened.first_start && opened.last_seen.is_none() && opened.warnings.is_empty());
    for (name, expected) in [
        ("deep/data", 0o700),
        ("deep/data/keys", 0o700),
        ("deep/data/journal", 0o700),
        ("deep/data/keys/record.key", 0o600),
        ("deep/data/keys/record.mark", 0o600),
        ("deep/data/agentguard.db", 0o600),
        ("deep/data/checkpoints.jsonl", 0o600),
    ] {
        assert_eq!(mode(&outer, name), expected, "{name}");
    }
}

#[test]
fn a_start_that_died_before_the_first_policy_is_still_the_first() {
    let folder = Folder::new();
    folder.store().close().unwrap();
    let opened = folder.open();
    assert!(opened.first_start);
    apply(&opened.store, Change::Import(Box::new(first_plan()))).unwrap();
    drop(opened);
    assert!(!folder.open().first_start);
}

#[test]
fn a_folder_has_one_gate_at_a_time() {
    let folder = Folder::new();
    let first = folder.store();
    let second = Store::open(folder.options()).unwrap_err();
    assert!(matches!(second, StoreError::InUse { .. }));
    let holder = format!("(process {})", std::process::id());
    assert!(second.to_string().contains(&holder), "{second}");
    first.close().unwrap();
    folder.store();
}

#[test]
fn a_newer_database_is_named_with_both_versions_and_left_alone() {
    let folder = Folder::new();
    folder.store().close().unwrap();
    folder.sql("PRAGMA user_version = 99");
    let before = fs::read(folder.file("agentguard.db")).unwrap();
    let error = Store::open(folder.options()).unwrap_err();
    assert!(matches!(error, StoreError::Newer { found: 99, known: 3, .. }), "{error}");
    assert!(error.to_string().contains("99") && error.to_string().contains("agentguard.db"));
    assert_eq!(fs::read(folder.file("agentguard.db")).unwrap(), before);
}

#[test]
fn a_damaged_database_is_named_and_left_alone() {
    for garbage in [&b"this is no database, and it is longer than a header\n".repeat(40)[..], b"x"]
    {
        let folder = Folder::new();
        fs::write(folder.file("agentguard.db"), garbage).unwrap();
        let error = Store::open(folder.options()).unwrap_err();
        assert!(matches!(error, StoreError::Corrupt { .. }), "{error:?}");
        assert!(error.to_string().contains("agentguard.db"), "{error}");
        assert!(error.to_string().contains("not touched"), "{error}");
        assert_eq!(fs::read(folder.file("agentguard.db")).unwrap(), garbage);
    }
}

#[test]
fn a_database_of_another_program_is_left_alone() {
    let folder = Folder::new();
    folder.sql("CREATE TABLE photos (id INTEGER)");
    let error = Store::open(folder.options()).unwrap_err();
    assert!(matches!(error, StoreError::Foreign { .. }), "{error}");
}

#[test]
fn a_lost_key_is_an_error_once_something_was_signed() {
    let folder = Folder::new();
    folder.store().close().unwrap();
    fs::remove_file(folder.file("keys/record.key")).unwrap();
    let error = Store::open(folder.options()).unwrap_err();
    assert!(matches!(error, StoreError::Key { .. }), "{error}");
}

#[test]
fn a_folder_that_others_can_write_is_warned_about() {
    let folder = Folder::new();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let opened = folder.open();
    assert!(opened.warnings.iter().any(|text| text.contains("mode 777")), "{:?}", opened.warnings);
}

#[test]
fn a_folder_that_others_can_look_into_is_warned_about() {
    let folder = Folder::new();
    for mode in [0o755, 0o750, 0o711] {
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(mode)).unwrap();
        let opened = folder.open();
        let told = |text: &String| text.contains("chmod 700");
        assert!(opened.warnings.iter().any(told), "{mode:o}: {:?}", opened.warnings);
    }
}

#[test]
fn the_files_that_sqlite_makes_are_private_too() {
    let all = ["agentguard.db", "agentguard.db-wal", "agentguard.db-shm"];
    let folder = Folder::new();
    let store = folder.store();
    act(&store, 1, noon_plus(1), 1);
    store.flush().unwrap();
    for name in all {
        assert_eq!(mode(&folder, name), 0o600, "{name} at a first start");
    }
    // What an earlier version left open to others, with the files of a crash beside it.
    let crashed = folder.snapshot();
    for name in all {
        fs::set_permissions(crashed.file(name), fs::Permissions::from_mode(0o644)).unwrap();
    }
    let store = crashed.store();
    for name in all {
        assert_eq!(mode(&crashed, name), 0o600, "{name} at a later start");
    }
    store.close().unwrap();
}

#[test]
fn a_key_that_others_can_read_is_warned_about() {
    let folder = Folder::new();
    folder.store().close().unwrap();
    let file = folder.file("keys/record.key");
    fs::set_permissions(file, fs::Permissions::from_mode(0o644)).unwrap();
    let opened = folder.open();
    assert!(opened.warnings.iter().any(|text| text.contains("mode 644")), "{:?}", opened.warnings);
}

#[test]
fn the_latest_time_on_the_record_is_known_at_the_next_start() {
    let folder = Folder::new();
    let store = folder.store();
    act(&store, 1, noon_plus(500), 1);
    act(&store, 2, noon_plus(100), 1);
    store.close().unwrap();
    // When the last action ended: nothing on the record was asked for after it.
    let last_seen = folder.open().last_seen.unwrap();
    assert!(last_seen >= noon_plus(500) && last_seen < noon_plus(501), "{last_seen}");
}

#[test]
fn a_closed_store_takes_nothing_more() {
    let folder = Folder::new();
    let store = folder.store();
    act(&store, 1, noon_plus(0), 1);
    store.close().unwrap();
    store.close().unwrap();
    let action = action(noon_plus(0), 1);
    let intent = Intent { id: request(2), agent_id: AGENT, action: &action, cost: MicroUsd::ZERO };
    assert!(matches!(store.begin(&intent), Err(RecordError::Closed)));
    assert!(matches!(store.flush(), Err(StoreError::Closed)));
    assert!(store.load().is_err());
    assert!(apply(&store, Change::RevokeAgent(AGENT)).is_err());
}

#[test]
fn a_folder_without_a_record_cannot_be_read() {
    let folder = Folder::new();
    assert!(matches!(open_reader(folder.path()), Err(StoreError::Missing { .. })));
}
