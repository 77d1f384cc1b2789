//! Everything but the folder: configuration, store, clock, ports, roots, the running gate.

use std::net::{SocketAddr, TcpListener};

use agentguard_egress::PlatformRoots;
use agentguard_gate::Clock;
use agentguard_store::{Filter, StoreError, open_reader};

use super::Check;
use crate::client::Client;
use crate::config::{Config, Loaded};
use crate::failure::causes;

pub(super) fn configuration(loaded: &Loaded) -> Check {
    match &loaded.file {
        Some(file) => Check::ok("config", format!("{} is valid", file.display())),
        None => Check::ok("config", "no file; the defaults hold"),
    }
}

/// Whether a gate serves at the management address.
pub(super) fn is_running(config: &Config) -> bool {
    Client::new(config.admin.bind, &config.data_dir).is_ok_and(|client| client.is_ready())
}

/// The database opens, is of a version we know, and its last time is not in the future.
pub(super) fn store(config: &Config) -> Vec<Check> {
    let reader = match open_reader(&config.data_dir) {
        Ok(reader) => reader,
        Err(StoreError::Missing { .. }) => {
            return vec![Check::ok("store", "there is none yet; `agentguard up` makes it")];
        }
        Err(error) => {
            let todo = "put a good copy in its place, or move it away to begin anew";
            return vec![Check::fail("store", causes(&error), todo)];
        }
    };
    let last_seen = match reader.latest(&Filter::default(), 1) {
        Ok(rows) => rows.first().map(|row| row.timestamp),
        Err(error) => {
            let todo = "check the disk; `agentguard verify-logs` looks at every row";
            return vec![Check::fail("store", causes(&error), todo)];
        }
    };
    let opened = Check::ok("store", "the database opens and its version is known");
    let (_, behind_sec) = Clock::starting_after(last_seen);
    let clock = match behind_sec {
        None => Check::ok("clock", "not behind the record"),
        Some(seconds) => Check::warn(
            "clock",
            format!("{seconds} s behind the last time on the record"),
            "set the machine's clock; until then the gate goes on from the record's time",
        ),
    };
    vec![opened, clock]
}

pub(super) fn ports(config: &Config, running: bool) -> Vec<Check> {
    [("proxy.bind", config.proxy.bind), ("admin.bind", config.admin.bind)]
        .map(|(key, address)| port(key, address, running))
        .into()
}

fn port(key: &'static str, address: SocketAddr, running: bool) -> Check {
    match TcpListener::bind(address) {
        Ok(_) if running => Check::warn(
            key,
            format!("{address} is free, though a gate runs"),
            "the running gate has another configuration; restart it",
        ),
        Ok(_) => Check::ok(key, format!("{address} is free")),
        Err(_) if running => Check::ok(key, format!("{address} is held by the running gate")),
        Err(error) => Check::fail(
            key,
            format!("{address}: {error}"),
            format!("stop what listens there, or change `{key}`"),
        ),
    }
}

/// Without roots no certificate can be checked, so no HTTPS service can be reached.
pub(super) fn roots() -> Check {
    let count = PlatformRoots::load().len();
    if count == 0 {
        let todo = "install the system's CA certificates (often the package ca-certificates)";
        return Check::fail("TLS roots", "none found", todo);
    }
    Check::ok("TLS roots", format!("{count} found"))
}

/// A running gate must also know our token.
pub(super) fn gate(config: &Config, running: bool) -> Check {
    if !running {
        return Check::ok("gate", format!("not running at {}", config.admin.bind));
    }
    let asked = Client::new(config.admin.bind, &config.data_dir)
        .and_then(|client| client.get(&["kill-switch"]));
    match asked {
        Ok(state) if state.pointer("/global/paused") == Some(&true.into()) => {
            Check::warn("gate", "running, and everything is stopped", "`agentguard resume`")
        }
        Ok(_) => Check::ok("gate", format!("running at {}", config.admin.bind)),
        Err(failure) => Check::fail(
            "gate",
            failure.message(),
            "use the configuration and the user that the gate was started with",
        ),
    }
}
