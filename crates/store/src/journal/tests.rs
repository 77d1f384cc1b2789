//! The journal and its syncs, over a medium that fails on demand.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use agentguard_gate::ports::{RecordError, Ticket};

use super::fake::{Memory, Mood};
use super::*;
use crate::sync::SyncBoard;

fn journal(bytes_max: u64) -> (Memory, Arc<Journal>) {
    let memory = Memory::default();
    (memory.clone(), Arc::new(Journal::new(Box::new(memory), 1, bytes_max)))
}

fn append(journal: &Journal, line: &str) -> io::Result<Ticket> {
    journal.append(line.as_bytes()).map(|(ticket, _)| ticket)
}

#[test]
fn a_short_write_is_taken_back_and_the_next_line_is_whole() {
    let (memory, journal) = journal(1_000);
    let _one = append(&journal, "one\n").unwrap();
    memory.set(Mood::Short(2));
    assert!(append(&journal, "two\n").is_err());
    memory.set(Mood::Good);
    let ticket = append(&journal, "three\n").unwrap();
    assert_eq!(ticket.sequence, 2);
    assert_eq!(memory.contents(), [(1, "one\nthree\n".to_owned())]);
}

#[test]
fn a_short_write_that_cannot_be_taken_back_ends_the_segment() {
    let (memory, journal) = journal(1_000);
    let _one = append(&journal, "one\n").unwrap();
    memory.set(Mood::Stuck(2));
    assert!(append(&journal, "two\n").is_err());
    memory.set(Mood::Good);
    assert_eq!(append(&journal, "three\n").unwrap().segment, 2);
    assert_eq!(memory.contents(), [(1, "one\ntw".to_owned()), (2, "three\n".to_owned())]);
}

#[test]
fn a_segment_goes_when_it_is_full_and_all_its_rows_are_committed() {
    let (memory, journal) = journal(8);
    let tickets: Vec<_> = (0..5).map(|n| append(&journal, &format!("n {n}\n")).unwrap()).collect();
    assert_eq!(tickets.iter().map(|t| t.segment).collect::<Vec<_>>(), [1, 1, 2, 2, 3]);
    journal.committed(3, 1);
    journal.committed(1, 1);
    assert_eq!(memory.contents().len(), 3, "one still takes lines, one has an open intent");
    journal.committed(1, 1);
    assert_eq!(memory.contents().iter().map(|(n, _)| *n).collect::<Vec<_>>(), [2, 3]);
    journal.close();
    assert_eq!(memory.contents().iter().map(|(n, _)| *n).collect::<Vec<_>>(), [2]);
}

#[test]
fn a_spare_is_used_before_a_file_is_made() {
    let (memory, journal) = journal(4);
    let (_, wants) = journal.append(b"one\n").unwrap();
    assert!(wants);
    journal.make_spare();
    journal.make_spare();
    assert_eq!(memory.contents().len(), 2);
    assert_eq!(append(&journal, "two\n").unwrap().segment, 2);
    journal.close();
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

/// Runs the board's thread around a test.
fn with_board(journal: &Arc<Journal>, test: impl FnOnce(&Arc<SyncBoard>)) {
    let board = Arc::new(SyncBoard::new());
    let thread = {
        let (board, journal) = (Arc::clone(&board), Arc::clone(journal));
        std::thread::spawn(move || board.run(&journal))
    };
    test(&board);
    board.close();
    thread.join().unwrap();
}

#[test]
fn many_who_wait_share_a_sync() {
    let (memory, journal) = journal(1_000_000);
    memory.0.sync_ms.store(5, Ordering::SeqCst);
    with_board(&journal, |board| {
        let waits: Vec<_> = (0..320)
            .map(|n| {
                let ticket = append(&journal, &format!("{n}\n")).unwrap();
                let board = Arc::clone(board);
                async move { board.synced(ticket.sequence).await.unwrap() }
            })
            .collect();
        let runtime = runtime();
        runtime.block_on(async {
            let tasks: Vec<_> = waits.into_iter().map(|wait| runtime.spawn(wait)).collect();
            for task in tasks {
                task.await.unwrap();
            }
        });
        let syncs = memory.0.syncs.load(Ordering::SeqCst);
        assert!(syncs <= 10, "{syncs} syncs for 320 intents");
    });
}

#[test]
fn a_failed_sync_refuses_what_it_covered_and_is_never_made_good() {
    let (memory, journal) = journal(1_000);
    with_board(&journal, |board| {
        let runtime = runtime();
        let early = append(&journal, "early\n").unwrap();
        let lost = append(&journal, "lost\n").unwrap();
        runtime.block_on(board.synced(early.sequence)).unwrap();
        let late = append(&journal, "late\n").unwrap();
        memory.set(Mood::NoSync);
        let refused = runtime.block_on(board.synced(late.sequence));
        assert!(matches!(refused, Err(RecordError::Io(_))));
        memory.set(Mood::Good);
        let next = append(&journal, "next\n").unwrap();
        assert_ne!(next.segment, late.segment, "the poisoned segment takes no more");
        runtime.block_on(board.synced(next.sequence)).unwrap();
        // A later success does not speak for what failed before it.
        assert!(runtime.block_on(board.synced(late.sequence)).is_err());
        // What the good sync had covered stays good.
        runtime.block_on(board.synced(lost.sequence)).unwrap();
    });
}

#[test]
fn full_segments_are_synced_too() {
    let (memory, journal) = journal(4);
    with_board(&journal, |board| {
        for n in 0..5 {
            let _ticket = append(&journal, &format!("n{n}\n")).unwrap();
        }
        runtime().block_on(board.synced(5)).unwrap();
        assert_eq!(memory.0.syncs.load(Ordering::SeqCst), 5);
    });
}
