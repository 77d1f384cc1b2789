//! Reading: filters, following, events and alerts.

use std::ops::ControlFlow;

use agentguard_core::{AgentId, Door};
use agentguard_gate::ports::Record;
use agentguard_gate::{AlertEvent, Decision, EventKind, IdSource, Row, Severity};
use agentguard_store::{ExportRow, Filter, Reader};
use serde_json::json;
use uuid::Uuid;

use crate::folder::{AGENT, Folder, act, filled, noon_plus, row};

fn exported(reader: &Reader, filter: &Filter) -> Vec<ExportRow> {
    let mut rows = Vec::new();
    reader
        .export(filter, &mut |row| {
            rows.push(row);
            ControlFlow::Continue(())
        })
        .unwrap();
    rows
}

#[test]
fn filters_choose_rows() {
    let folder = filled(10_000);
    let reader = agentguard_store::open_reader(folder.path()).unwrap();
    let any = Filter::default;
    let nobody = AgentId(Uuid::from_u128(0xff));
    for (filter, expected) in [
        (any(), 10_000),
        (Filter { from: Some(noon_plus(9_901)), ..any() }, 100),
        (Filter { to: Some(noon_plus(101)), ..any() }, 100),
        (Filter { from: Some(noon_plus(11)), to: Some(noon_plus(21)), ..any() }, 10),
        (Filter { from: Some(noon_plus(99_999)), ..any() }, 0),
        (Filter { decision: Some(Decision::Block), ..any() }, 1_428),
        (Filter { decision: Some(Decision::Error), ..any() }, 0),
        (Filter { agent: Some(AGENT), ..any() }, 10_000),
        (Filter { agent: Some(nobody), ..any() }, 0),
        (Filter { door: Some(Door::Web), ..any() }, 0),
        (Filter { service: Some("stripe".into()), ..any() }, 10_000),
        (Filter { text: Some("DAILY_BUDGET".into()), ..any() }, 1_428),
        (Filter { text: Some("' OR 1=1 --".into()), ..any() }, 0),
        (Filter { after_seq: Some(9_990), ..any() }, 10),
    ] {
        let rows = exported(&reader, &filter);
        assert_eq!(rows.len(), expected, "{filter:?}");
        assert!(rows.is_sorted_by_key(|row| row.seq));
    }
}

#[test]
fn an_action_that_ran_for_long_is_found_by_when_it_was_asked() {
    let folder = Folder::new();
    let store = folder.store();
    for number in 0..1_000_u32 {
        act(&store, u128::from(number) + 1, noon_plus(i64::from(number) * 60), 1);
    }
    // Asked for with the first and ended with the last: its row is the last one.
    let long = Row { latency_us: 60_000_000_000, ..row(5_000, noon_plus(1), 1) };
    store.refused(long);
    store.flush().unwrap();
    let reader = store.reader().unwrap();
    let early = Filter { from: Some(noon_plus(1)), to: Some(noon_plus(60)), ..Filter::default() };
    assert_eq!(exported(&reader, &early).len(), 1);
    let late = Filter { from: Some(noon_plus(900 * 60)), ..Filter::default() };
    assert_eq!(exported(&reader, &late).len(), 100, "and it is none of those asked for late");
}

#[test]
fn an_export_stops_when_told() {
    let folder = filled(100);
    let reader = agentguard_store::open_reader(folder.path()).unwrap();
    let mut seen = 0;
    let stop = &mut |_| {
        seen += 1;
        if seen == 7 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    reader.export(&Filter::default(), stop).unwrap();
    assert_eq!(seen, 7);
}

#[test]
fn rows_are_shown_with_exact_decimals_and_rfc_3339() {
    let folder = filled(3);
    let reader = agentguard_store::open_reader(folder.path()).unwrap();
    let row = reader.latest(&Filter::default(), 1).unwrap().remove(0);
    let json = serde_json::to_value(&row).unwrap();
    assert_eq!(json["amount"], "0.01");
    assert_eq!(json["amount_micros"], 10_000);
    assert_eq!(json["timestamp"], "2026-03-01T12:00:03.000000Z");
    assert_eq!(json["latency_ms"], json!(12.345));
    assert_eq!(json["currency"], "USD");
    assert_eq!(json["seq"], 3);
}

#[test]
fn a_running_gate_can_be_followed() {
    let folder = Folder::new();
    let store = folder.store();
    let reader = store.reader().unwrap();
    act(&store, 1, noon_plus(1), 10);
    store.flush().unwrap();
    let last = reader.latest(&Filter::default(), 5).unwrap().last().unwrap().seq;
    act(&store, 2, noon_plus(2), 10);
    store.flush().unwrap();
    let new = exported(&reader, &Filter { after_seq: Some(last), ..Filter::default() });
    assert_eq!(new.iter().map(|row| row.seq).collect::<Vec<_>>(), [2]);
}

#[test]
fn alerts_are_kept_and_stand_on_the_system_log() {
    let folder = Folder::new();
    let store = folder.store();
    store.alert(&AlertEvent {
        event: EventKind::BudgetExceeded,
        severity: Severity::Critical,
        agent_id: Some(AGENT),
        agent_name: Some("default".into()),
        message: "over".into(),
        timestamp: noon_plus(1),
        details: json!({"limit": "10.00"}),
    });
    store.flush().unwrap();
    let reader = store.reader().unwrap();
    let alerts = reader.alerts(10).unwrap();
    assert_eq!((alerts.len(), alerts[0].event.as_str()), (1, "budget.exceeded"));
    let events = reader.system_events(0, 10).unwrap();
    assert_eq!((events.len(), events[0].event.as_str()), (1, "alert"));
}

#[test]
fn a_request_is_found_by_its_id() {
    let folder = Folder::new();
    let store = folder.store();
    let ids = IdSource::new().unwrap();
    let wanted: Vec<_> = (0..5)
        .map(|number| {
            let at = noon_plus(number).plus_micros(999 * number);
            let id = ids.request(at);
            store.refused(Row { id, ..row(0, at, 1) });
            id
        })
        .collect();
    store.flush().unwrap();
    let reader = store.reader().unwrap();
    for id in wanted {
        assert_eq!(reader.request(id).unwrap().unwrap().id, id.to_string());
    }
    assert!(reader.request(ids.request(noon_plus(1))).unwrap().is_none());
}
