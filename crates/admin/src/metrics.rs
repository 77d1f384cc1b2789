//! `GET /metrics`: the gate's numbers and the process's, in the text format of Prometheus.

use std::time::Duration;

use agentguard_gate::{Exposition, MetricKind, Millionths};
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};

use crate::error::ApiError;
use crate::state::{Admin, ProcessVitals, RecordVitals, Vitals};

pub(crate) async fn page(State(admin): State<Admin>) -> Result<Response, ApiError> {
    let (upkeep, started) = (admin.upkeep(), admin.started());
    let text = admin.blocking(move |gate| {
        let mut page = Exposition::default();
        gate.write_metrics(&mut page);
        let Vitals { record, process } = upkeep.vitals();
        write_record(&mut page, &record);
        let started = u64::try_from(started.as_micros()).unwrap_or(0);
        write_process(&mut page, &process, Millionths(started));
        page.into_text()
    });
    Ok(([(CONTENT_TYPE, Exposition::CONTENT_TYPE)], text.await?).into_response())
}

fn write_record(page: &mut Exposition, record: &RecordVitals) {
    let counters = [
        (
            "agentguard_record_rows_written_total",
            record.rows_written,
            "Rows of the request log that were committed.",
        ),
        (
            "agentguard_record_rows_dropped_total",
            record.rows_dropped,
            "Rows of refused calls that were dropped because the queue was crowded.",
        ),
        (
            "agentguard_record_journal_syncs_total",
            record.journal_syncs,
            "Syncs of the journal to disk.",
        ),
    ];
    for (name, value, help) in counters {
        page.family(name, MetricKind::Counter, help).sample(&[], value);
    }
    page.family(
        "agentguard_record_queue_depth",
        MetricKind::Gauge,
        "Rows on their way to the database, those of actions under way included.",
    )
    .sample(&[], record.queue_depth);
    page.family(
        "agentguard_record_queue_places",
        MetricKind::Gauge,
        "Rows that may be on their way at once; then the gate refuses.",
    )
    .sample(&[], record.queue_places);
    if let Some(age) = record.since_commit {
        page.family(
            "agentguard_record_last_commit_age_seconds",
            MetricKind::Gauge,
            "How long ago rows were last committed; grows while there is nothing to write.",
        )
        .sample(&[], Millionths(micros(age)));
    }
}

fn write_process(page: &mut Exposition, process: &ProcessVitals, started: Millionths) {
    let name = "process_start_time_seconds";
    page.family(name, MetricKind::Gauge, "When the process started, since 1970.")
        .sample(&[], started);
    let told = [
        ("process_resident_memory_bytes", process.resident_bytes, "Memory that is really there."),
        ("process_open_fds", process.open_fds, "Open files and sockets."),
    ];
    for (name, value, help) in told {
        if let Some(value) = value {
            page.family(name, MetricKind::Gauge, help).sample(&[], value);
        }
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
