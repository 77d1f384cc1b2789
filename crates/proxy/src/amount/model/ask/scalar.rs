//! Values of which only the plain ones matter, and names.

use std::borrow::Cow;
use std::fmt;

use agentguard_core::action::Unreadable;
use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// A value that is no list and no object, or marked as such.
#[derive(Debug)]
pub(super) enum Scalar<'a> {
    Null,
    Bool(bool),
    Whole(u64),
    Text(Cow<'a, str>),
    /// A list, an object, or a number that is negative, fractional or too large.
    Other,
}

impl Scalar<'_> {
    pub(super) fn is(&self, word: &str) -> bool {
        matches!(self, Self::Text(text) if text == word)
    }
}

impl<'de> Deserialize<'de> for Scalar<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ScalarVisitor)
    }
}

struct ScalarVisitor;

impl<'de> Visitor<'de> for ScalarVisitor {
    type Value = Scalar<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E: Error>(self) -> Result<Scalar<'de>, E> {
        Ok(Scalar::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Scalar<'de>, E> {
        Ok(Scalar::Bool(value))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Scalar<'de>, E> {
        Ok(Scalar::Whole(number))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Scalar<'de>, E> {
        Ok(u64::try_from(number).map_or(Scalar::Other, Scalar::Whole))
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<Scalar<'de>, E> {
        Ok(Scalar::Other)
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Scalar<'de>, E> {
        Ok(Scalar::Text(Cow::Borrowed(text)))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Scalar<'de>, E> {
        Ok(Scalar::Text(Cow::Owned(text.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Scalar<'de>, A::Error> {
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Scalar::Other)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Scalar<'de>, A::Error> {
        while members.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Scalar::Other)
    }
}

/// The name of a member, borrowed where it can be.
pub(super) struct Name<'a>(pub(super) Cow<'a, str>);

impl<'de> Deserialize<'de> for Name<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Scalar::deserialize(deserializer)? {
            Scalar::Text(name) => Ok(Self(name)),
            Scalar::Null | Scalar::Bool(_) | Scalar::Whole(_) | Scalar::Other => {
                Err(D::Error::custom("no name"))
            }
        }
    }
}

/// A number, or a text of digits, which some servers take for one.
pub(super) fn whole(value: &Option<Scalar<'_>>) -> Result<Option<u64>, Unreadable> {
    match value {
        None | Some(Scalar::Null) => Ok(None),
        Some(Scalar::Whole(number)) => Ok(Some(*number)),
        Some(Scalar::Text(text)) => crate::amount::digits(text).map(Some),
        Some(Scalar::Bool(_) | Scalar::Other) => Err(Unreadable::NotAnAmount),
    }
}
