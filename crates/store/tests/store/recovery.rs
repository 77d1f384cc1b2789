//! After a crash: intents without an outcome become rows, and money stays charged.

use std::fs;
use std::io::Write;

use agentguard_core::{Action, Amount, MicroUsd};
use agentguard_gate::ports::{Record, Registry, Ticket};
use agentguard_gate::{Intent, Row};
use agentguard_store::{Filter, Store, open_reader};

use crate::folder::{AGENT, Folder, act, action, noon_plus, request, row, usd};

fn begin(store: &Store, number: u128, micros: i64) -> Ticket {
    let action = action(noon_plus(1), micros);
    let cost = MicroUsd::from_micros(micros);
    store.begin(&Intent { id: request(number), agent_id: AGENT, action: &action, cost }).unwrap()
}

#[test]
fn an_intent_without_an_outcome_becomes_an_interrupted_row_that_stays_charged() {
    let folder = Folder::new();
    let store = folder.store();
    act(&store, 1, noon_plus(1), 1_000);
    store.flush().unwrap();
    let open = begin(&store, 2, 70_000);
    let crashed = folder.snapshot();
    store.finish(open, row(2, noon_plus(1), 70_000));

    let opened = crashed.open();
    assert_eq!((opened.recovered, opened.warnings.len()), (1, 0));
    let rows = open_reader(crashed.path()).unwrap().latest(&Filter::default(), 10).unwrap();
    let last = rows.last().unwrap();
    assert_eq!(last.id, request(2).to_string());
    assert_eq!(
        (last.decision.as_str(), last.block_reason.as_deref()),
        ("error", Some("interrupted"))
    );
    assert!(last.estimated);
    assert_eq!((last.cost_micros, last.amount.as_deref()), (70_000, Some("0.07")));
    let hours = opened.store.history(noon_plus(-7_200)).unwrap();
    assert_eq!(hours.iter().map(|hour| hour.past.sum.micros()).sum::<i64>(), 71_000);
    opened.store.close().unwrap();
    assert!(crashed.segments().is_empty());
    assert!(crashed.verify().ok);
    assert_eq!(crashed.open().recovered, 0);
}

#[test]
fn an_interrupted_call_counts_among_its_kind() {
    let folder = Folder::new();
    let store = folder.store();
    let _paid = begin(&store, 1, 500);
    let bounded = Action { amount: Amount::UpTo(usd(70_000)), ..action(noon_plus(1), 0) };
    let cost = MicroUsd::from_micros(70_000);
    let intent = Intent { id: request(2), agent_id: AGENT, action: &bounded, cost };
    let _metered = store.begin(&intent).unwrap();
    let crashed = folder.snapshot();
    let opened = crashed.open();
    assert_eq!(opened.recovered, 2);
    let past = opened.store.history(noon_plus(-3_600)).unwrap().remove(0).past;
    assert_eq!((past.sum.micros(), past.samples), (70_500, 2));
    assert_eq!((past.metered_sum.micros(), past.metered_samples), (70_000, 1));
}

#[test]
fn a_death_in_the_middle_of_recovery_doubles_nothing() {
    let folder = Folder::new();
    let store = folder.store();
    let _open = begin(&store, 1, 500);
    let crashed = folder.snapshot();
    let segments: Vec<_> = crashed
        .segments()
        .into_iter()
        .map(|path| (path.clone(), fs::read(path).unwrap()))
        .collect();
    assert_eq!(crashed.open().recovered, 1);
    // As if the segments had not been removed yet.
    for (path, bytes) in segments {
        fs::write(path, bytes).unwrap();
    }
    assert_eq!(crashed.open().recovered, 0);
    assert_eq!(crashed.count("transactions"), 1);
}

#[test]
fn a_stop_with_actions_under_way_leaves_them_for_the_next_start() {
    let folder = Folder::new();
    let store = folder.store();
    let _open = begin(&store, 1, 500);
    act(&store, 2, noon_plus(2), 10);
    store.close().unwrap();
    assert_eq!(folder.count("transactions"), 1);
    assert_eq!(folder.open().recovered, 1);
    assert_eq!(folder.count("transactions"), 2);
}

#[test]
fn a_torn_last_line_is_no_intent_and_no_fault() {
    let folder = Folder::new();
    let store = folder.store();
    let _one = begin(&store, 1, 500);
    let crashed = folder.snapshot();
    let segment = crashed.segments().remove(0);
    let mut file = fs::OpenOptions::new().append(true).open(&segment).unwrap();
    file.write_all(b"0badf00d {\"id\":\"00000000-0000").unwrap();
    let opened = crashed.open();
    assert_eq!((opened.recovered, opened.warnings.len()), (1, 0));
}

#[test]
fn a_damaged_line_is_told_with_its_place_and_the_rest_is_recovered() {
    let folder = Folder::new();
    let store = folder.store();
    let _open: Vec<_> = (1..=3).map(|number| begin(&store, number, 500)).collect();
    let crashed = folder.snapshot();
    let segment = crashed.segments().remove(0);
    let text = fs::read_to_string(&segment).unwrap();
    let damaged: Vec<_> = text
        .lines()
        .enumerate()
        .map(|(n, line)| if n == 1 { line.replace("500", "5") } else { line.to_owned() })
        .collect();
    fs::write(&segment, format!("{}\n", damaged.join("\n"))).unwrap();
    let opened = crashed.open();
    assert_eq!(opened.recovered, 2);
    let told = "line 2 of journal segment 00000001.log is damaged";
    assert!(opened.warnings[0].starts_with(told), "{:?}", opened.warnings);
    let event = "system_events WHERE event = 'record.damaged' AND message LIKE 'line 2 of%'";
    assert_eq!(crashed.count(event), 1);
}

#[test]
fn history_after_a_restart_is_what_was_spent() {
    let folder = Folder::new();
    let store = folder.store();
    for number in 1..=50 {
        act(&store, number, noon_plus(i64::try_from(number).unwrap() * 600), 1_000);
    }
    crate::folder::refuse(&store, 99, noon_plus(600));
    let before = store.history(noon_plus(-3_600)).unwrap();
    store.close().unwrap();
    let after = folder.store().history(noon_plus(-3_600)).unwrap();
    let sums = |hours: &[agentguard_gate::ports::HourOfAgent]| {
        let past = hours.iter().map(|hour| hour.past);
        past.fold((0, 0, 0, 0), |sum, past| {
            (
                sum.0 + past.sum.micros(),
                sum.1 + past.samples,
                sum.2 + past.calls,
                sum.3 + past.active_minutes,
            )
        })
    };
    assert_eq!(sums(&before), (50_000, 50, 50, 5));
    assert_eq!(sums(&after), sums(&before));
    assert_eq!(after.len(), 9, "one line for each hour");
    assert!(after.iter().all(|hour| hour.agent_id == AGENT));
}

#[test]
fn what_was_metered_is_known_apart_after_a_restart() {
    let folder = Folder::new();
    let store = folder.store();
    act(&store, 1, noon_plus(1), 1_000_000);
    // In batches of their own, so that an hour is added to and not only made.
    for number in 2..=4 {
        let ticket = begin(&store, number, 900);
        store.finish(ticket, Row { is_metered: true, ..row(number, noon_plus(2), 150) });
        store.flush().unwrap();
    }
    let ticket = begin(&store, 5, 900);
    store.finish(ticket, Row { is_metered: true, ..row(5, noon_plus(3), 0) });
    store.close().unwrap();
    let hours = folder.store().history(noon_plus(-3_600)).unwrap();
    let [hour] = hours.as_slice() else { panic!("{hours:?}") };
    assert_eq!((hour.past.sum.micros(), hour.past.samples), (1_000_450, 4));
    assert_eq!((hour.past.metered_sum.micros(), hour.past.metered_samples), (450, 3));
}
