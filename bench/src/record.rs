//! The record: what a row costs in CPU, and how long a log of a million rows takes to verify.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use agentguard_core::time::Zone;
use agentguard_gate::ports::Record;
use agentguard_store::{Retention, Store, StoreOptions, verify};

use crate::admit::{admit, outcome};
use crate::measure::{Figure, cpu_nanos, median, quantile, thread_cpu_nanos};
use crate::world::{Nowhere, caller, gate, thirty_rules};

const ROWS_A_ROUND: u32 = 20_000;
const ROUNDS: usize = 9;
const LONG_LOG_ROWS: u64 = 1_000_000;

pub(crate) fn run() -> Vec<Figure> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let Cost { bare, recorded, own_thread, least } = cost(folder.path());
    let long = tempfile::tempdir().expect("a temporary folder");
    let (rows, seconds) = verify_long(long.path());
    vec![
        Figure::new("admit + settle, forgotten: CPU", bare, "µs", ""),
        Figure::new("admit + settle, recorded (journal, batch, chain): CPU", recorded, "µs", ""),
        Figure::new("… of it on the request's own thread", own_thread - bare, "µs", ""),
        Figure::new("the record adds to a request: CPU", recorded - bare, "µs", "≤ 5 µs"),
        Figure::new("… in the round that was disturbed least", least, "µs", ""),
        Figure::new(format!("verify-logs over {rows} rows"), seconds, "s", "≪ 60 s"),
    ]
}

/// Microseconds of CPU for one request.
struct Cost {
    bare: f64,
    recorded: f64,
    own_thread: f64,
    least: f64,
}

/// CPU of the whole process, writer thread included, for one request: without the record and with it,
/// in turns.
fn cost(folder: &Path) -> Cost {
    let store = open(folder);
    let forgetting = gate(thirty_rules(), Arc::new(Nowhere));
    let keeping = gate(thirty_rules(), Arc::clone(&store) as Arc<dyn Record>);
    let (mut bare, mut recorded, mut own_thread) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        for (gate, costs) in [(&forgetting, &mut bare), (&keeping, &mut recorded)] {
            let caller = caller(gate);
            let (before, own_before) = (cpu_nanos(), thread_cpu_nanos());
            for _ in 0..ROWS_A_ROUND {
                admit(gate, &caller).settle(outcome());
            }
            store.flush().expect("the rows are written");
            own_thread.push((thread_cpu_nanos() - own_before) / f64::from(ROWS_A_ROUND) / 1_000.0);
            costs.push((cpu_nanos() - before) / f64::from(ROWS_A_ROUND) / 1_000.0);
        }
    }
    store.close().expect("the store closes");
    // The recorded rounds are every second one.
    let own_thread = median(own_thread.into_iter().skip(1).step_by(2));
    let adds = bare.iter().zip(&recorded).map(|(bare, recorded)| recorded - bare);
    let least = quantile(adds, 0.0);
    Cost { bare: median(bare), recorded: median(recorded), own_thread, least }
}

/// Makes a record with so many rows in `data` below the folder.
pub(crate) fn fill(folder: &Path, rows: u64) {
    let store = open(folder);
    let gate = gate(thirty_rules(), Arc::clone(&store) as Arc<dyn Record>);
    let caller = caller(&gate);
    for row in 0..rows {
        admit(&gate, &caller).settle(outcome());
        if row % u64::from(ROWS_A_ROUND) == 0 {
            store.flush().expect("the rows are written");
        }
    }
    store.close().expect("the store closes");
}

fn verify_long(folder: &Path) -> (u64, f64) {
    fill(folder, LONG_LOG_ROWS);
    let start = Instant::now();
    let found = verify(&folder.join("data"), None, &mut |_| {}).expect("the log can be read");
    assert!(found.ok, "{:?}", found.first_bad);
    (found.rows, start.elapsed().as_secs_f64())
}

fn open(folder: &Path) -> Arc<Store> {
    let options = StoreOptions {
        data_dir: folder.join("data"),
        zone: Zone::UTC,
        checkpoint_file: None,
        retention: Retention::default(),
    };
    Store::open(options).expect("a store opens").store
}
