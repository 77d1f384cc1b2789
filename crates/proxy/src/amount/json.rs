//! JSON that means one thing: no key twice in an object, no depth beyond the bound, numbers that are
//! whole or marked as not.
//!
//! Usual parsers keep the last of two equal keys, others the first: what an amount is must not depend
//! on which one the upstream has.

use std::collections::HashMap;
use std::fmt;

use agentguard_core::action::Unreadable;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use crate::limits::JSON_DEPTH_MAX;

/// A value, as far as amounts need it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Json {
    Null,
    Whole(u64),
    Text(String),
    List(Vec<Json>),
    Object(HashMap<String, Json>),
    /// Booleans, and numbers that are negative, fractional or too large.
    Other,
}

/// Reads a whole body.
pub(super) fn parse(body: &[u8]) -> Result<Json, Unreadable> {
    let mut source = serde_json::Deserializer::from_slice(body);
    let value =
        Level(JSON_DEPTH_MAX).deserialize(&mut source).map_err(|_| Unreadable::Malformed)?;
    source.end().map_err(|_| Unreadable::Malformed)?;
    Ok(value)
}

impl Json {
    /// The member of this name, by any of its spellings; two spellings at once are no answer. `null`
    /// is as good as absent.
    pub(super) fn member(&self, spellings: &[&str]) -> Result<Option<&Self>, Unreadable> {
        let Self::Object(members) = self else { return Err(Unreadable::Malformed) };
        let mut found = spellings.iter().filter_map(|name| members.get(*name));
        let first = found.next();
        if found.next().is_some() {
            return Err(Unreadable::NotAnAmount);
        }
        Ok(first.filter(|value| **value != Self::Null))
    }

    /// A number, or a text of digits, as both are taken by the upstreams.
    pub(super) fn whole(&self) -> Result<u64, Unreadable> {
        match self {
            Self::Whole(number) => Ok(*number),
            Self::Text(text) => super::digits(text),
            Self::Null | Self::List(_) | Self::Object(_) | Self::Other => {
                Err(Unreadable::NotAnAmount)
            }
        }
    }
}

/// Levels that may still be opened.
#[derive(Clone, Copy)]
struct Level(usize);

impl<'de> DeserializeSeed<'de> for Level {
    type Value = Json;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Json, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl Level {
    fn deeper<E: Error>(self) -> Result<Self, E> {
        self.0.checked_sub(1).map(Self).ok_or_else(|| E::custom("too deep"))
    }
}

impl<'de> Visitor<'de> for Level {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E: Error>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<Json, E> {
        Ok(Json::Other)
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Json, E> {
        Ok(Json::Whole(number))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Json, E> {
        Ok(u64::try_from(number).map_or(Json::Other, Json::Whole))
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<Json, E> {
        Ok(Json::Other)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Json, E> {
        Ok(Json::Text(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Json, A::Error> {
        let level = self.deeper()?;
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(level)? {
            list.push(item);
        }
        Ok(Json::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Json, A::Error> {
        let level = self.deeper()?;
        let mut object = HashMap::new();
        while let Some(name) = members.next_key::<String>()? {
            let value = members.next_value_seed(level)?;
            if object.insert(name, value).is_some() {
                return Err(A::Error::custom("a key is there twice"));
            }
        }
        Ok(Json::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_whole_or_nothing() {
        for (text, expected) in [
            ("5", Json::Whole(5)),
            ("18446744073709551615", Json::Whole(u64::MAX)),
            ("18446744073709551616", Json::Other),
            ("-1", Json::Other),
            ("-0", Json::Other),
            ("1.0", Json::Other),
            ("1e3", Json::Other),
            ("true", Json::Other),
            ("null", Json::Null),
            ("\"\\u0035\"", Json::Text("5".to_owned())),
        ] {
            assert_eq!(parse(text.as_bytes()), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_parsers_disagree_on_is_malformed() {
        let deep = format!("{}{}", "[".repeat(33), "]".repeat(33));
        for text in [
            "",
            "{",
            "{\"a\":1}x",
            "{\"a\":1}{\"a\":2}",
            "{\"a\":1,\"a\":1}",
            "{\"x\":{\"a\":1,\"\\u0061\":2}}",
            "{'a':1}",
            "{a:1}",
            "[1,]",
            "01",
            "+1",
            "\u{feff}{}",
            "NaN",
            &deep,
        ] {
            assert_eq!(parse(text.as_bytes()), Err(Unreadable::Malformed), "{text}");
        }
        assert_eq!(parse(b"{\"a\":\"\xff\"}"), Err(Unreadable::Malformed));
        assert!(parse(format!("{}{}", "[".repeat(32), "]".repeat(32)).as_bytes()).is_ok());
    }
}
