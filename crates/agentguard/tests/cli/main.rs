//! The command line end to end: the real binary against a real gate on a throw-away folder.
#![expect(clippy::unwrap_used, clippy::panic, clippy::disallowed_methods, reason = "test")]

mod call;
mod credentials;
mod extractors;
mod manage;
mod operate;
mod prices;
mod record;
mod start;
mod stranger;
mod support;
