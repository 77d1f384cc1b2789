//! `agentguard verify-logs`

use std::process::ExitCode;

use agentguard_store::{Log, Progress, Verification, verify};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};

use crate::client::Client;
use crate::failure::Failure;
use crate::output;
use crate::session::Session;

/// 0 if the record is as it was written, 1 if not.
pub(crate) fn run(session: &Session) -> Result<ExitCode, Failure> {
    let config = session.load_keys()?.config;
    let client = Client::new(config.admin.bind, &config.data_dir)?;
    if client.is_ready()
        && let Err(failure) = client.post(&["record", "flush"], &json!({}))
    {
        output::warn(&format!("the latest rows are not checked: {}", failure.message()));
    }
    // Draws on stderr, and only if that is a terminal.
    let bar = ProgressBar::new(0);
    if let Ok(style) = ProgressStyle::with_template("{msg:>15} {wide_bar} {pos}/{len} rows") {
        bar.set_style(style);
    }
    let found =
        verify(&config.data_dir, config.audit.checkpoint_file.as_deref(), &mut |progress| {
            show(&bar, progress)
        });
    bar.finish_and_clear();
    let found = match found {
        Ok(found) => found,
        Err(error) => {
            let failure = Failure::because("checking the record", &error)
                .hint("is `data_dir` right? `agentguard doctor` looks at it");
            if session.json() {
                // Programs read the answer from stdout, whatever it is.
                output::json(&unread(failure.message()))?;
            }
            return Err(failure);
        }
    };
    session.show(&report(&found), |_| words(&found))?;
    Ok(if found.ok { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn show(bar: &ProgressBar, progress: Progress) {
    bar.set_message(match progress.log {
        Log::Transactions => "requests",
        Log::ConfigChanges => "changes",
        Log::SystemEvents => "events",
    });
    bar.set_length(progress.total);
    bar.set_position(progress.done);
}

fn report(found: &Verification) -> Value {
    let mut report = json!({"ok": found.ok, "rows": found.rows, "checkpoints": found.checkpoints});
    if let (Some(map), Some(bad)) = (report.as_object_mut(), &found.first_bad) {
        map.insert("first_bad".to_owned(), json!(bad));
    }
    report
}

/// A record that cannot be read is not known to be good.
fn unread(error: &str) -> Value {
    json!({"ok": false, "rows": 0, "checkpoints": 0, "error": error})
}

fn words(found: &Verification) -> String {
    let checked = format!("{} rows and {} checkpoints", found.rows, found.checkpoints);
    match &found.first_bad {
        None => format!("{checked} are as they were written"),
        Some(bad) => format!(
            "the record is not as it was written\nfirst bad: {} row {}: {}\nchecked: {checked}",
            bad.log, bad.row, bad.why
        ),
    }
}
