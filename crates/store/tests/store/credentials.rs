//! Credentials at rest: what the folder gives away (nothing), and what opens them (only what should).

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;

use agentguard_core::service::Service;
use agentguard_core::{Credential, Secret};
use agentguard_gate::ports::{Registry as _, RegistryError};
use agentguard_gate::{Change, CredentialChange, CredentialState, PolicyData};
use agentguard_store::Store;

use crate::folder::{Folder, apply, first_plan};

const KEY: &str = "keys/credentials.key";
const OPENAI: &str = "sk-openai-Hunter2Hunter2";
const STRIPE: &str = "rk_live_Correct.Horse";

fn credential(text: &str) -> CredentialChange {
    CredentialChange::Set(Credential::parse(Secret::new(text.to_owned())).unwrap())
}

fn service(data: &PolicyData, alias: &str) -> Service {
    data.services.iter().find(|service| service.alias == alias).unwrap().clone()
}

fn put(store: &Store, alias: &str, change: CredentialChange) -> Result<PolicyData, RegistryError> {
    let service = service(&store.load().unwrap(), alias);
    apply(store, Change::PutService { service, credential: change })
}

/// What a service has: `none`, `unusable`, or the credential itself.
fn held(data: &PolicyData, alias: &str) -> String {
    match data.credentials.get(alias) {
        None | Some(CredentialState::None) => "none".to_owned(),
        Some(CredentialState::Unusable(_)) => "unusable".to_owned(),
        Some(CredentialState::Held { credential, .. }) => credential.expose().to_owned(),
    }
}

fn both(data: &PolicyData) -> [String; 2] {
    ["openai", "stripe"].map(|alias| held(data, alias))
}

/// Two services with a credential each.
fn set_up() -> (Folder, Arc<Store>) {
    let folder = Folder::new();
    let store = folder.store();
    apply(&store, Change::Import(Box::new(first_plan()))).unwrap();
    put(&store, "openai", credential(OPENAI)).unwrap();
    put(&store, "stripe", credential(STRIPE)).unwrap();
    (folder, store)
}

/// What a start finds after somebody was at the folder.
fn after(meddle: impl FnOnce(&Folder)) -> [String; 2] {
    let (folder, store) = set_up();
    store.close().unwrap();
    meddle(&folder);
    both(&folder.store().load().unwrap())
}

#[test]
fn a_credential_is_there_again_after_a_restart() {
    assert_eq!(after(|_| {}), [OPENAI, STRIPE]);
}

#[test]
fn no_file_of_the_folder_holds_a_credential_in_clear() {
    let (folder, store) = set_up();
    put(&store, "openai", credential("sk-second-Hunter2Hunter2")).unwrap();
    put(&store, "stripe", CredentialChange::Remove).unwrap();
    store.flush().unwrap();
    // With the write-ahead log still there, and again when it was folded back.
    assert!(fs::metadata(folder.file("agentguard.db-wal")).unwrap().len() > 0);
    check_nothing_in_clear(folder.path());
    store.close().unwrap();
    check_nothing_in_clear(folder.path());
}

fn check_nothing_in_clear(dir: &Path) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            check_nothing_in_clear(&path);
            continue;
        }
        let bytes = fs::read(&path).unwrap();
        for part in ["Hunter2", "Correct.Horse"] {
            let found = bytes.windows(part.len()).any(|window| window == part.as_bytes());
            assert!(!found, "{part} in {}", path.display());
        }
    }
}

#[test]
fn the_key_is_its_owners_only_and_made_with_the_first_credential() {
    let folder = Folder::new();
    let store = folder.store();
    apply(&store, Change::Import(Box::new(first_plan()))).unwrap();
    assert!(!folder.file(KEY).exists());
    put(&store, "openai", credential(OPENAI)).unwrap();
    let mode = |name: &str| fs::metadata(folder.file(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(KEY), mode("keys")), (0o600, 0o700));
    let key = fs::read_to_string(folder.file(KEY)).unwrap();
    put(&store, "stripe", credential(STRIPE)).unwrap();
    assert_eq!(fs::read_to_string(folder.file(KEY)).unwrap(), key, "the key stays");
    store.close().unwrap();
    drop(store);
    fs::set_permissions(folder.file(KEY), fs::Permissions::from_mode(0o644)).unwrap();
    let warnings = folder.open().warnings;
    assert!(warnings.iter().any(|text| text.contains("credentials' key")), "{warnings:?}");
}

#[test]
fn what_was_meddled_with_does_not_open_and_is_not_taken_for_nothing() {
    let sql = |text: &'static str| move |folder: &Folder| folder.sql(text);
    // Rows swapped: OpenAI would get Stripe's key, and the other way round.
    let swapped = "UPDATE credentials SET alias = alias || '-'; \
        UPDATE credentials SET alias = CASE alias WHEN 'openai-' THEN 'stripe' ELSE 'openai' END";
    assert_eq!(after(sql(swapped)), ["unusable", "unusable"]);
    let copied = "UPDATE credentials SET sealed = \
        (SELECT sealed FROM credentials WHERE alias = 'openai') WHERE alias = 'stripe'";
    assert_eq!(after(sql(copied)), [OPENAI, "unusable"]);
    let moved = "UPDATE services SET settings = \
        replace(settings, 'https://api.openai.com', 'https://evil.example') WHERE alias = 'openai'";
    assert_eq!(after(sql(moved)), ["unusable", STRIPE]);
    let cut = "UPDATE credentials SET sealed = x'00' WHERE alias = 'openai'";
    assert_eq!(after(sql(cut)), ["unusable", STRIPE]);
}

#[test]
fn a_lost_wrong_or_broken_key_opens_nothing_and_the_store_starts() {
    let key = |text: Option<String>| {
        move |folder: &Folder| match text {
            Some(text) => fs::write(folder.file(KEY), text).unwrap(),
            None => fs::remove_file(folder.file(KEY)).unwrap(),
        }
    };
    for text in [None, Some("ab".repeat(32)), Some("nonsense".to_owned()), Some(String::new())] {
        assert_eq!(after(key(text)), ["unusable", "unusable"]);
    }
}

#[test]
fn after_a_lost_key_a_credential_can_be_stored_anew_and_a_broken_key_is_not_written_over() {
    let (folder, store) = set_up();
    fs::remove_file(folder.file(KEY)).unwrap();
    let data = put(&store, "openai", credential("sk-new")).unwrap();
    assert_eq!(both(&data), ["sk-new", "unusable"]);
    fs::write(folder.file(KEY), "half a key").unwrap();
    let refused = put(&store, "openai", credential("sk-newer"));
    assert!(
        matches!(&refused, Err(RegistryError::Invalid(why)) if why.contains("credentials.key"))
    );
    assert_eq!(fs::read_to_string(folder.file(KEY)).unwrap(), "half a key");
    // Taking it away needs no key.
    let data = put(&store, "openai", CredentialChange::Remove).unwrap();
    assert_eq!(both(&data), ["none", "unusable"]);
}

#[test]
fn a_service_that_moves_goes_or_is_imported_elsewhere_loses_its_credential() {
    let (folder, store) = set_up();
    let data = store.load().unwrap();
    let mut near = service(&data, "openai");
    near.base_url = "https://api.openai.com/v2".parse().unwrap();
    let mut far = near.clone();
    far.base_url = "https://evil.example/".parse().unwrap();
    let keep =
        |service: Service| Change::PutService { service, credential: CredentialChange::Keep };
    assert_eq!(both(&apply(&store, keep(near)).unwrap()), [OPENAI, STRIPE]);
    assert_eq!(both(&apply(&store, keep(far.clone())).unwrap()), ["none", STRIPE]);
    let given = Change::PutService { service: far.clone(), credential: credential("sk-evil") };
    assert_eq!(both(&apply(&store, given).unwrap()), ["sk-evil", STRIPE]);

    let mut plan = first_plan();
    plan.new_agents.clear();
    let data = apply(&store, Change::Import(Box::new(plan.clone()))).unwrap();
    assert_eq!(both(&data), ["none", STRIPE], "OpenAI leads back to where its key is not for");
    let stripe = plan.services.iter_mut().find(|service| service.alias == "stripe").unwrap();
    stripe.credential_env = Some("STRIPE_KEY".to_owned());
    let data = apply(&store, Change::Import(Box::new(plan))).unwrap();
    assert_eq!(both(&data), ["none", "none"]);

    put(&store, "openai", credential(OPENAI)).unwrap();
    apply(&store, Change::RemoveService("openai".to_owned())).unwrap();
    store.flush().unwrap();
    assert_eq!(folder.count("credentials"), 0);
}

#[test]
fn the_record_says_what_became_of_a_credential_and_not_what_it_was() {
    let (folder, store) = set_up();
    put(&store, "openai", credential("sk-second-Hunter2")).unwrap();
    put(&store, "openai", CredentialChange::Keep).unwrap();
    put(&store, "openai", CredentialChange::Remove).unwrap();
    put(&store, "openai", CredentialChange::Remove).unwrap();
    apply(&store, Change::RemoveService("stripe".to_owned())).unwrap();
    let rows = store.reader().unwrap().config_changes(0, 100).unwrap();
    let said = |raw: &Option<Box<serde_json::value::RawValue>>| {
        let value: serde_json::Value = serde_json::from_str(raw.as_ref()?.get()).unwrap();
        value.get("credential").and_then(|said| said.as_str()).map(str::to_owned)
    };
    let after: Vec<_> = rows.iter().skip(1).map(|row| said(&row.after)).collect();
    let expected = [Some("set"), Some("set"), Some("changed"), None, Some("removed"), None, None];
    assert_eq!(after, expected.map(|said| said.map(str::to_owned)));
    assert_eq!(said(&rows.last().unwrap().before).as_deref(), Some("stored"));
    store.close().unwrap();
    assert!(folder.verify().ok);
}

#[test]
fn a_database_of_the_first_version_is_brought_along() {
    let (folder, store) = set_up();
    store.close().unwrap();
    drop(store);
    folder.sql(
        "DROP TABLE credentials; DROP TABLE prices; \
         ALTER TABLE budget_snapshots DROP COLUMN metered_cost; \
         ALTER TABLE budget_snapshots DROP COLUMN metered_samples; PRAGMA user_version = 1",
    );
    let store = folder.store();
    assert_eq!(both(&store.load().unwrap()), ["none", "none"]);
    let data = put(&store, "openai", credential(OPENAI)).unwrap();
    assert_eq!(held(&data, "openai"), OPENAI);
}
