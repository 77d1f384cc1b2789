//! Writing: batches, places, and what happens when the database takes nothing.

use std::sync::Arc;

use agentguard_core::MicroUsd;
use agentguard_gate::Intent;
use agentguard_gate::ports::{Record, RecordError, Ticket};
use agentguard_store::Store;
use rusqlite::Connection;

use crate::folder::{AGENT, Folder, act, action, noon_plus, refuse, request, row};

fn begin(store: &Store, number: u128) -> Result<Ticket, RecordError> {
    let action = action(noon_plus(0), 10);
    let cost = MicroUsd::from_micros(10);
    store.begin(&Intent { id: request(number), agent_id: AGENT, action: &action, cost })
}

#[test]
fn rows_are_in_the_database_after_a_flush_and_numbered_without_gaps() {
    let folder = Folder::new();
    let store = folder.store();
    for number in 1..=1_203 {
        act(&store, number, noon_plus(1), 10);
    }
    store.flush().unwrap();
    assert_eq!(folder.count("transactions"), 1_203);
    assert_eq!(folder.count("transactions WHERE seq > 1203 OR seq < 1"), 0);
    assert_eq!(store.stats().free_places, store.stats().places);
}

#[test]
fn rows_are_written_within_two_seconds_without_being_asked() {
    let folder = Folder::new();
    let store = folder.store();
    act(&store, 1, noon_plus(1), 10);
    let started = std::time::Instant::now();
    while folder.count("transactions") == 0 {
        assert!(started.elapsed().as_millis() < 4_000, "the batch never came");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}

#[test]
fn a_full_queue_refuses_intents_and_forgets_nothing() {
    let folder = Folder::new();
    let store = folder.store();
    let places = store.stats().places;
    let mut tickets = Vec::new();
    for number in 1..=places {
        tickets.push((number, begin(&store, u128::try_from(number).unwrap()).unwrap()));
    }
    assert!(matches!(begin(&store, 0), Err(RecordError::Full)));
    let (number, ticket) = tickets.pop().unwrap();
    store.finish(ticket, row(u128::try_from(number).unwrap(), noon_plus(0), 10));
    store.flush().unwrap();
    let again = begin(&store, 0).unwrap();
    store.finish(again, row(0, noon_plus(0), 10));
    for (number, ticket) in tickets {
        store.finish(ticket, row(u128::try_from(number).unwrap(), noon_plus(0), 10));
    }
    store.close().unwrap();
    assert_eq!(folder.count("transactions"), i64::try_from(places + 1).unwrap());
    assert!(folder.segments().is_empty(), "every intent has its row");
}

#[test]
fn a_flood_of_refusals_leaves_half_the_places_and_is_counted() {
    let folder = Folder::new();
    let store = folder.store();
    // Somebody holds the database, so nothing can be written.
    let holder = Connection::open(folder.file("agentguard.db")).unwrap();
    holder.execute_batch("BEGIN IMMEDIATE").unwrap();
    let places = store.stats().places;
    for number in 0..places {
        refuse(&store, u128::try_from(number).unwrap(), noon_plus(0));
    }
    assert_eq!(store.stats().free_places, places / 2);
    assert_eq!(store.stats().rows_dropped, u64::try_from(places / 2).unwrap());
    let ticket = begin(&store, u128::MAX).unwrap();
    store.finish(ticket, row(u128::MAX, noon_plus(0), 10));
    holder.execute_batch("COMMIT").unwrap();
    store.close().unwrap();
    assert_eq!(folder.count("transactions"), i64::try_from(places / 2 + 1).unwrap());
    let dropped = format!(
        "system_events WHERE event = 'record.dropped' AND json_extract(details, '$.refusals') = {}",
        places / 2
    );
    assert_eq!(folder.count(&dropped), 1);
}

#[test]
fn rows_wait_while_the_database_is_locked_and_are_written_after() {
    let folder = Folder::new();
    let store = folder.store();
    let holder = Connection::open(folder.file("agentguard.db")).unwrap();
    holder.execute_batch("BEGIN IMMEDIATE").unwrap();
    for number in 1..=10 {
        act(&store, number, noon_plus(1), 10);
    }
    let error = store.flush().unwrap_err();
    assert!(error.to_string().contains("10 rows"), "{error}");
    holder.execute_batch("COMMIT").unwrap();
    assert_eq!((store.stats().rows_written, store.stats().since_commit), (0, None));
    store.flush().unwrap();
    assert_eq!(folder.count("transactions"), 10);
    assert_eq!(store.stats().rows_written, 10);
    assert!(store.stats().since_commit.is_some());
    store.close().unwrap();
    assert!(folder.verify().ok);
}

#[test]
fn waiting_for_the_disk_is_shared() {
    let folder = Folder::new();
    let store = folder.store();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    let tasks: Vec<_> = (1..=256)
        .map(|number| {
            let store = Arc::clone(&store);
            runtime.spawn(async move {
                let ticket = begin(&store, number).unwrap();
                store.synced(&ticket).await.unwrap();
                store.finish(ticket, row(number, noon_plus(1), 10));
            })
        })
        .collect();
    runtime.block_on(async {
        for task in tasks {
            task.await.unwrap();
        }
    });
    let syncs = store.stats().journal_syncs;
    assert!((1..=128).contains(&syncs), "{syncs} syncs for 256 intents");
    store.close().unwrap();
    assert_eq!(folder.count("transactions"), 256);
}
