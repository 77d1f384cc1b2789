//! Values that the configuration carries without looking inside, and that no message, log or
//! `Debug` output may show: they hold or may hold secrets.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

/// A secret as it is written in the file.
#[derive(Clone, Default, Deserialize)]
pub(super) struct RawSecret(pub(super) String);

/// A section whose keys are checked elsewhere.
#[derive(Clone, Default, PartialEq)]
pub(crate) struct Untyped(Map<String, Value>);

impl Untyped {
    /// The keys and values as they were written. They may hold passwords.
    pub(crate) fn keys(&self) -> &Map<String, Value> {
        &self.0
    }
}

impl fmt::Debug for RawSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RawSecret(…)")
    }
}

impl Serialize for RawSecret {
    /// Serialising serves to print defaults. A secret that is set is never written out.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(if self.0.is_empty() { "" } else { "***" })
    }
}

impl JsonSchema for RawSecret {
    fn schema_name() -> Cow<'static, str> {
        "Secret".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "writeOnly": true })
    }
}

impl fmt::Debug for Untyped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Untyped({} keys)", self.0.len())
    }
}

impl<'de> Deserialize<'de> for Untyped {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Map::deserialize(deserializer).map(Self)
    }
}

impl Serialize for Untyped {
    /// Serialising serves to print defaults, which are empty.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Map::<String, Value>::new().serialize(serializer)
    }
}

impl JsonSchema for Untyped {
    fn schema_name() -> Cow<'static, str> {
        "Section".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "object", "additionalProperties": true })
    }
}
