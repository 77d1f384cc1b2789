//! The data folder, the journal in it, and the disk below it.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::Check;
use crate::client::TOKEN_FILE;

/// Below this the record may stop taking rows, and then the gate refuses: a day of heavy use.
const FREE_BYTES_MIN: u64 = 256 << 20;
/// Below this it is about to.
const FREE_BYTES_FAIL: u64 = 16 << 20;
/// More segments than a gate at work ever has, or a stopped one leaves behind after a crash.
const SEGMENTS_MAX: usize = 64;

const WHAT: &str = "data folder";

/// The folder and who may look into it.
pub(super) fn folder(dir: &Path) -> Vec<Check> {
    let shown = dir.display();
    let about = match fs::metadata(dir) {
        Ok(about) if about.is_dir() => about,
        Ok(_) => {
            let found = format!("{shown} is no folder");
            return vec![Check::fail(WHAT, found, "move it away, or change `data_dir`")];
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return vec![not_there(dir)];
        }
        Err(error) => {
            let todo = "make it readable for this user, or change `data_dir`";
            return vec![Check::fail(WHAT, format!("{shown}: {error}"), todo)];
        }
    };
    let us = rustix::process::geteuid().as_raw();
    let mut found = Vec::new();
    if about.uid() != us {
        let said = format!("{shown} belongs to user {}, and you are user {us}", about.uid());
        found.push(Check::warn(WHAT, said, "run the gate and this command as the same user"));
    }
    if about.mode() & 0o077 != 0 {
        let said = format!("{shown} has mode {:o}: others may look in", about.mode() & 0o777);
        found.push(Check::warn(WHAT, said, format!("chmod 700 {shown}")));
    }
    if rustix::fs::access(dir, rustix::fs::Access::WRITE_OK).is_err() {
        let said = format!("{shown} cannot be written by this user");
        found.push(Check::fail(WHAT, said, "change its owner, or change `data_dir`"));
    }
    let token = dir.join(TOKEN_FILE);
    if fs::metadata(&token).is_ok_and(|about| about.mode() & 0o077 != 0) {
        let said = format!("others may read {}", token.display());
        found.push(Check::fail(WHAT, said, format!("chmod 600 {}", token.display())));
    }
    if found.is_empty() {
        found.push(Check::ok(WHAT, shown.to_string()));
    }
    found
}

/// Segments hold intents until their rows are on disk; many of them mean that rows are not.
pub(super) fn journal(dir: &Path, running: bool) -> Check {
    const WHAT: &str = "journal";
    let entries = fs::read_dir(dir.join("journal")).into_iter().flatten().flatten();
    let waiting = entries.filter(|entry| entry.metadata().is_ok_and(|about| about.len() > 0));
    let count = waiting.count();
    match (running, count) {
        (true, count) if count > SEGMENTS_MAX => Check::warn(
            WHAT,
            format!("{count} segments wait for the database"),
            "look at the gate's log and at the disk",
        ),
        (false, count) if count > 0 => Check::warn(
            WHAT,
            format!("{count} segments are left: the gate did not end in order"),
            "`agentguard up` brings them in",
        ),
        (_, 0) => Check::ok(WHAT, "nothing is left over"),
        (_, count) => Check::ok(WHAT, format!("{count} in use")),
    }
}

/// Whether the record has room.
pub(super) fn disk(dir: &Path) -> Check {
    const WHAT: &str = "disk space";
    let Some(place) = existing(dir) else {
        return Check::warn(WHAT, "cannot be looked at", "check `data_dir`");
    };
    match rustix::fs::statvfs(&place) {
        Ok(about) => {
            let free = about.f_bavail.saturating_mul(about.f_frsize);
            let said = format!("{} MiB free", free >> 20);
            if free < FREE_BYTES_FAIL {
                return Check::fail(WHAT, said, "make room: without it every action is refused");
            }
            if free < FREE_BYTES_MIN {
                return Check::warn(WHAT, said, "make room before the record needs it");
            }
            Check::ok(WHAT, said)
        }
        Err(error) => {
            Check::warn(WHAT, format!("{}: {error}", place.display()), "check it by hand")
        }
    }
}

fn not_there(dir: &Path) -> Check {
    let shown = dir.display();
    let parent = existing(dir);
    let writable = parent
        .as_ref()
        .is_some_and(|parent| rustix::fs::access(parent, rustix::fs::Access::WRITE_OK).is_ok());
    if writable {
        return Check::ok(WHAT, format!("{shown} is not there yet; `agentguard up` makes it"));
    }
    Check::fail(WHAT, format!("{shown} is not there and cannot be made"), "change `data_dir`")
}

/// The nearest folder above that exists.
fn existing(dir: &Path) -> Option<PathBuf> {
    dir.ancestors().find(|place| place.is_dir()).map(ToOwned::to_owned)
}
