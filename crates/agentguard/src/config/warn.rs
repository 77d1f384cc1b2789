//! Dangerous settings in words, for every start. A switch that is dangerous says so in its name.

use std::net::SocketAddr;

use serde_json::{Map, Value};

use super::key::Key;
use super::model::Config;

/// One line for each dangerous setting.
pub(super) fn warnings(config: &Config) -> Vec<String> {
    let mut found: Vec<String> = listeners(config)
        .into_iter()
        .filter(|(_, address)| !address.ip().to_canonical().is_loopback())
        .map(|(key, address)| {
            format!("`{key}` is {address}: other machines can reach it; 127.0.0.1 keeps them out")
        })
        .collect();
    let opened = &config.destinations.danger_allow;
    if !opened.is_empty() {
        let opened: Vec<String> = opened.iter().map(ToString::to_string).collect();
        let opened = opened.join(", ");
        found.push(format!("`destinations.danger_allow` lets agents reach {opened}"));
    }
    for (place, host) in config.ssh_hosts.iter().enumerate() {
        switches(host.keys(), &Key::of("ssh_hosts").index(place), &mut found);
    }
    switches(config.security.keys(), &Key::of("security"), &mut found);
    found
}

/// Every listener with its key.
pub(super) fn listeners(config: &Config) -> [(&'static str, SocketAddr); 5] {
    [
        ("server.bind_addr", config.server.bind_addr),
        ("proxy.bind", config.proxy.bind),
        ("admin.bind", config.admin.bind),
        ("dashboard.bind", config.dashboard.bind),
        ("browser.listener", config.browser.listener),
    ]
}

/// Dangerous switches in sections whose keys are checked elsewhere. The depth is bounded by the
/// parser.
fn switches(section: &Map<String, Value>, parent: &Key, found: &mut Vec<String>) {
    for (name, value) in section {
        let key = parent.entry(name);
        if (name.starts_with("danger_") || name.starts_with("insecure_")) && is_set(value) {
            found.push(format!("`{key}` is set: it switches a protection off"));
        }
        match value {
            Value::Object(inner) => switches(inner, &key, found),
            Value::Array(items) => {
                for (place, item) in items.iter().enumerate() {
                    if let Value::Object(inner) = item {
                        switches(inner, &key.index(place), found);
                    }
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
}

fn is_set(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(flag) => *flag,
        Value::Array(items) => !items.is_empty(),
        Value::Object(entries) => !entries.is_empty(),
        Value::String(text) => !text.is_empty(),
        Value::Number(_) => true,
    }
}
