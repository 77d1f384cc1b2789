//! What every command has: the flags that all share, the configuration, and the running gate.

use std::path::PathBuf;

use serde_json::Value;

use crate::client::Client;
use crate::config::{self, Loaded};
use crate::failure::Failure;
use crate::output;

/// One run of the command line.
#[derive(Debug)]
pub(crate) struct Session {
    config: Option<PathBuf>,
    json: bool,
}

impl Session {
    pub(crate) const fn new(config: Option<PathBuf>, json: bool) -> Self {
        Self { config, json }
    }

    /// Whether JSON was asked for.
    pub(crate) const fn json(&self) -> bool {
        self.json
    }

    /// The file that `--config` names.
    pub(crate) fn config_flag(&self) -> Option<&std::path::Path> {
        self.config.as_deref()
    }

    /// Finds and reads the configuration, without the files that it names.
    pub(crate) fn load_keys(&self) -> Result<Loaded, Failure> {
        Ok(config::load_keys(self.config.as_deref())?)
    }

    /// Finds and reads the configuration.
    pub(crate) fn load(&self) -> Result<Loaded, Failure> {
        Ok(config::load(self.config.as_deref())?)
    }

    /// The running gate of this configuration.
    pub(crate) fn gate(&self) -> Result<Client, Failure> {
        let config = self.load_keys()?.config;
        Client::new(config.admin.bind, &config.data_dir)
    }

    /// Prints a result: as JSON if that was asked for, else in words.
    pub(crate) fn show(
        &self,
        value: &Value,
        words: impl FnOnce(&Value) -> String,
    ) -> Result<(), Failure> {
        if self.json {
            return output::json(value);
        }
        output::line(&words(value))
    }
}

/// A field as people read it; nothing for what is not there.
pub(crate) fn text(value: &Value, field: &str) -> String {
    match value.get(field) {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => crate::table::printable(text),
        Some(other @ (Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_))) => {
            other.to_string()
        }
    }
}

/// The items of a list, as the endpoint gives them.
pub(crate) fn items(value: Value) -> Vec<Value> {
    match value {
        Value::Object(mut map) => match map.remove("items") {
            Some(Value::Array(items)) => items,
            Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_))
            | Some(Value::Object(_))
            | None => Vec::new(),
        },
        Value::Array(items) => items,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
    }
}
