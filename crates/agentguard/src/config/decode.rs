//! From the tree to the raw structs by serde, so that shapes are declared once. Every error
//! carries the key's path and the place where it is written. Checks of meaning live in `compile`.

use std::fmt;
use std::slice;

use serde::de::value::StrDeserializer;
use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, Error as _, Expected, IntoDeserializer, MapAccess,
    SeqAccess, Unexpected, Visitor,
};
use serde::forward_to_deserialize_any;

use super::error::{Origin, Problem};
use super::key::{Key, Step};
use super::raw::RawConfig;
use super::suggest;
use super::tree::{Content, Entry, Node};

/// The raw configuration that the tree spells.
pub(super) fn decode(root: &Node) -> Result<RawConfig, Problem> {
    // A file in which everything is commented out is an empty section.
    decode_as(root)
}

/// The same for another shape.
pub(super) fn decode_as<'de, T: Deserialize<'de>>(root: &'de Node) -> Result<T, Problem> {
    T::deserialize(root).map_err(|fault| fault.at(root).into_problem())
}

/// An error on its way up: each level adds its step of the path.
#[derive(Debug)]
pub(super) struct Fault {
    kind: Kind,
    /// From the value up to the top.
    steps: Vec<Step>,
    origin: Option<Origin>,
    found: String,
}

#[derive(Debug)]
enum Kind {
    UnknownKey { known: &'static [&'static str] },
    BadValue { expected: String },
}

impl Fault {
    fn new(kind: Kind) -> Self {
        Self { kind, steps: Vec::new(), origin: None, found: String::new() }
    }

    fn bad_value(expected: String) -> Self {
        Self::new(Kind::BadValue { expected })
    }

    /// The innermost value that could not be taken is the one to name.
    fn at(mut self, node: &Node) -> Self {
        if self.origin.is_none() {
            self.origin = Some(node.origin.clone());
            self.found = node.shown();
        }
        self
    }

    fn under(mut self, step: Step) -> Self {
        self.steps.push(step);
        self
    }

    fn into_problem(self) -> Problem {
        let mut steps = self.steps;
        steps.reverse();
        let key = Key::from_steps(steps);
        let origin = self.origin.unwrap_or(Origin::Default);
        match self.kind {
            Kind::UnknownKey { known } => {
                let hint = suggest::for_unknown_key(&key, known);
                Problem::unknown_key(origin, &key, hint)
            }
            Kind::BadValue { expected } => Problem::bad_value(origin, &key, &self.found, expected),
        }
    }
}

impl std::error::Error for Fault {}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.kind)
    }
}

impl serde::de::Error for Fault {
    fn custom<T: fmt::Display>(expected: T) -> Self {
        Self::bad_value(expected.to_string())
    }

    fn invalid_type(_: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::bad_value(plain(&expected.to_string()))
    }

    fn invalid_value(_: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::bad_value(plain(&expected.to_string()))
    }

    fn unknown_variant(variant: &str, known: &'static [&'static str]) -> Self {
        Self::bad_value(suggest::one_of(variant, known))
    }

    fn missing_field(field: &'static str) -> Self {
        Self::bad_value(format!("a key `{field}` in it"))
    }

    fn unknown_field(field: &str, known: &'static [&'static str]) -> Self {
        Self::new(Kind::UnknownKey { known }).under(Step::Name(field.to_owned()))
    }
}

/// Serde's names of types in words for the operator.
fn plain(expected: &str) -> String {
    match expected {
        "u64" => "a whole number, 0 or more, without quotes".into(),
        "a boolean" => "`true` or `false`, without quotes".into(),
        "a string" => "text".into(),
        "a sequence" => "a list, like `[a, b]`".into(),
        "a map" => "a section of `key: value` lines".into(),
        other if other.starts_with("struct ") => "a section of `key: value` lines".into(),
        other if other.starts_with("enum ") => "text".into(),
        other => other.to_owned(),
    }
}

impl<'de> Deserializer<'de> for &'de Node {
    type Error = Fault;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match &self.content {
            Content::Null => visitor.visit_unit(),
            Content::Flag(flag) => visitor.visit_bool(*flag),
            Content::Whole(number, _) => match (u64::try_from(*number), i64::try_from(*number)) {
                (Ok(number), _) => visitor.visit_u64(number),
                (Err(_), Ok(number)) => visitor.visit_i64(number),
                (Err(_), Err(_)) => {
                    Err(Fault::invalid_value(Unexpected::Other("large number"), &visitor))
                }
            },
            // As text: only the sections that are kept as they are get here with one.
            Content::Fraction(text) | Content::Text(text) => visitor.visit_str(text),
            Content::List(items) => visitor.visit_seq(Items { items: items.iter(), place: 0 }),
            Content::Section(entries) => {
                visitor.visit_map(Entries { entries: entries.iter(), current: None })
            }
        }
    }

    /// An unquoted `1.10` where text belongs means what was typed, not a rounded number.
    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match &self.content {
            Content::Whole(_, text) | Content::Fraction(text) | Content::Text(text) => {
                visitor.visit_str(text)
            }
            Content::Null | Content::Flag(_) | Content::List(_) | Content::Section(_) => {
                Err(Fault::invalid_type(Unexpected::Other("value"), &visitor))
            }
        }
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.deserialize_str(visitor)
    }

    /// A number is never made out of quoted text or a fraction.
    fn deserialize_u64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match &self.content {
            Content::Whole(..) => self.deserialize_any(visitor),
            Content::Null
            | Content::Flag(_)
            | Content::Fraction(_)
            | Content::Text(_)
            | Content::List(_)
            | Content::Section(_) => Err(Fault::invalid_type(Unexpected::Other("value"), &visitor)),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match &self.content {
            Content::Null => visitor.visit_none(),
            Content::Flag(_)
            | Content::Whole(..)
            | Content::Fraction(_)
            | Content::Text(_)
            | Content::List(_)
            | Content::Section(_) => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Fault> {
        visitor.visit_newtype_struct(self)
    }

    /// A section whose keys are all commented out has its defaults.
    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        match &self.content {
            Content::Null => visitor.visit_map(Entries { entries: [].iter(), current: None }),
            // Serde would also read a struct from a list of its fields.
            Content::List(_) => Err(Fault::invalid_type(Unexpected::Seq, &visitor)),
            Content::Flag(_)
            | Content::Whole(..)
            | Content::Fraction(_)
            | Content::Text(_)
            | Content::Section(_) => self.deserialize_any(visitor),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        known: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        let Content::Text(text) = &self.content else {
            return Err(Fault::bad_value(suggest::one_of("", known)));
        };
        let variant: StrDeserializer<'_, Fault> = text.as_str().into_deserializer();
        visitor.visit_enum(variant)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u128 f32 f64 char bytes byte_buf unit unit_struct seq
        tuple tuple_struct map identifier ignored_any
    }
}

struct Items<'de> {
    items: slice::Iter<'de, Node>,
    place: usize,
}

impl<'de> SeqAccess<'de> for Items<'de> {
    type Error = Fault;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Fault> {
        let Some(item) = self.items.next() else { return Ok(None) };
        let step = Step::Index(self.place);
        self.place = self.place.saturating_add(1);
        seed.deserialize(item).map(Some).map_err(|fault| fault.at(item).under(step))
    }
}

struct Entries<'de> {
    entries: slice::Iter<'de, Entry>,
    current: Option<&'de Entry>,
}

impl<'de> MapAccess<'de> for Entries<'de> {
    type Error = Fault;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Fault> {
        self.current = self.entries.next();
        let Some(entry) = self.current else { return Ok(None) };
        let name: StrDeserializer<'_, Fault> = entry.name.as_str().into_deserializer();
        seed.deserialize(name).map(Some).map_err(|mut fault| {
            fault.origin = Some(entry.origin.clone());
            fault
        })
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, Fault> {
        let Some(entry) = self.current else {
            return Err(Fault::custom("a key before its value"));
        };
        let value = &entry.value;
        seed.deserialize(value)
            .map_err(|fault| fault.at(value).under(Step::Name(entry.name.clone())))
    }
}
