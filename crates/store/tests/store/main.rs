//! The store from outside: through the gate's ports, on a real folder.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod credentials;
mod folder;
mod losing;
mod opening;
mod reading;
mod recovery;
mod registry;
mod retaining;
mod tampering;
mod writing;
