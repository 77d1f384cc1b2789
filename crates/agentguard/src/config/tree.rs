//! YAML text as a tree in which every value knows where it was written, so that a later check can
//! say so. The parser's limits are set here. Nothing here knows a key.

use std::fmt;
use std::sync::Arc;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::options::AliasLimits;
use serde_saphyr::{Error, Location, Options, Spanned};

use super::error::{Origin, Problem};
use super::key::{Key, Step};
use super::limits::{ALIAS_EVENTS_MAX, ALIASES_MAX, DEPTH_MAX, FILE_BYTES_MAX, NODES_MAX};

/// A value and its place.
#[derive(Clone, Debug)]
pub(super) struct Node {
    /// Where it is written.
    pub(super) origin: Origin,
    /// What is written.
    pub(super) content: Content,
}

/// What is written.
#[derive(Clone)]
pub(super) enum Content {
    /// Nothing, or `null`.
    Null,
    /// `true` or `false`.
    Flag(bool),
    /// A whole number, and its spelling.
    Whole(i128, String),
    /// A number with a fraction, by its spelling only: a float would round a currency rate.
    Fraction(String),
    /// Text.
    Text(String),
    /// A list.
    List(Vec<Node>),
    /// A section or table, in the order of the file.
    Section(Vec<Entry>),
}

/// A key of a section and its value.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    /// The key.
    pub(super) name: String,
    /// Where the key is written.
    pub(super) origin: Origin,
    /// The value.
    pub(super) value: Node,
}

/// What a text came from.
#[derive(Clone, Debug)]
pub(super) enum Source {
    /// A file of this name.
    File(Arc<str>),
    /// The variable of this name.
    Variable(Arc<str>),
}

impl Source {
    fn name(&self) -> &Arc<str> {
        match self {
            Self::File(name) | Self::Variable(name) => name,
        }
    }

    fn at(&self, place: Location) -> Origin {
        match self {
            Self::File(name) => {
                Origin::File { name: name.clone(), line: place.line(), column: place.column() }
            }
            Self::Variable(name) => Origin::Variable(name.clone()),
        }
    }
}

impl Node {
    /// Reads YAML.
    pub(super) fn parse(text: &str, source: &Source) -> Result<Self, Problem> {
        if text.len() > FILE_BYTES_MAX {
            return Err(Problem::TooLarge { name: source.name().clone() });
        }
        let parsed = serde_saphyr::from_str_with_options::<Spanned<Parsed>>(text, options());
        let root = parsed.map_err(|error| Problem::Syntax {
            origin: source.at(error.location().unwrap_or(Location::UNKNOWN)),
            why: explain(&error),
        })?;
        Ok(Self::place(root, text, source))
    }

    /// A section without keys.
    pub(super) fn empty() -> Self {
        Self { origin: Origin::Default, content: Content::Section(Vec::new()) }
    }

    /// The value that the key names, if it is written.
    pub(super) fn find(&self, key: &Key) -> Option<&Self> {
        key.steps().iter().try_fold(self, |node, step| node.child(step))
    }

    /// What a message says of it.
    pub(super) fn shown(&self) -> String {
        match &self.content {
            Content::Null => "null".into(),
            Content::Flag(flag) => flag.to_string(),
            Content::Whole(_, text) | Content::Fraction(text) | Content::Text(text) => text.clone(),
            Content::List(_) => "[…]".into(),
            Content::Section(_) => "{…}".into(),
        }
    }

    fn child(&self, step: &Step) -> Option<&Self> {
        match step {
            Step::Index(index) => {
                let Content::List(items) = &self.content else { return None };
                items.get(*index)
            }
            Step::Name(name) => {
                let Content::Section(entries) = &self.content else { return None };
                entries.iter().find(|entry| entry.name == *name).map(|entry| &entry.value)
            }
        }
    }

    fn place(parsed: Spanned<Parsed>, text: &str, source: &Source) -> Self {
        let spelling = || spelling(text, parsed.defined).unwrap_or_default();
        let content = match parsed.value {
            Parsed::Null => Content::Null,
            Parsed::Flag(flag) => Content::Flag(flag),
            Parsed::Whole(number) => Content::Whole(number, spelling()),
            Parsed::Fraction => Content::Fraction(spelling()),
            Parsed::Text(text) => Content::Text(text),
            Parsed::List(items) => Content::List(
                items.into_iter().map(|item| Self::place(item, text, source)).collect(),
            ),
            Parsed::Section(entries) => Content::Section(
                entries.into_iter().map(|entry| Entry::place(entry, text, source)).collect(),
            ),
        };
        Self { origin: source.at(parsed.referenced), content }
    }
}

impl Entry {
    fn place(
        (name, value): (Spanned<String>, Spanned<Parsed>),
        text: &str,
        source: &Source,
    ) -> Self {
        Self {
            name: name.value,
            origin: source.at(name.referenced),
            value: Node::place(value, text, source),
        }
    }
}

impl fmt::Debug for Content {
    /// A value may be a secret, and nobody knows at this point.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Null => "Null",
            Self::Flag(_) => "Flag",
            Self::Whole(..) => "Whole",
            Self::Fraction(_) => "Fraction",
            Self::Text(_) => "Text",
            Self::List(_) => "List",
            Self::Section(_) => "Section",
        })
    }
}

/// A whole megabyte of brackets, or ten lines of anchors that double each time, must cost no more
/// than an honest file.
fn options() -> Options {
    let mut aliases = AliasLimits::default();
    aliases.max_total_replayed_events = ALIAS_EVENTS_MAX;
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: DEPTH_MAX,
            max_nodes: NODES_MAX,
            max_aliases: ALIASES_MAX,
            max_anchors: ALIASES_MAX,
        },
        alias_limits: aliases,
        duplicate_keys: serde_saphyr::DuplicateKeyPolicy::Error,
        // `log_level: off` is a wrong level, not `false`.
        strict_booleans: true,
        reject_unsupported_tags: true,
        emit_comments: false,
        // A snippet of the file could show the line with the secret.
        with_snippet: false,
    }
}

/// The parser's own words, but for what it says to programmers.
fn explain(error: &Error) -> String {
    if let Error::AliasError { error, .. } = error {
        return explain(error);
    }
    if let Error::DuplicateMappingKey { key, .. } = error {
        let key = key.as_deref().unwrap_or("?");
        return format!("`{key}` is written twice; keep one");
    }
    if let Error::MultipleDocuments { .. } = error {
        return "a second document starts here; keep one".into();
    }
    if matches!(
        error,
        Error::Budget { .. }
            | Error::AliasReplayLimitExceeded { .. }
            | Error::AliasReplayStackDepthExceeded { .. }
            | Error::RecursiveReferencesRequireWeakTypes { .. }
    ) {
        return "too many values, levels or anchors; write it plainly".into();
    }
    let text = error.to_string();
    let why = text.split_once(" at line ").map_or(text.as_str(), |(why, _)| why);
    format!("not valid YAML: {why}")
}

/// The text of a number as it was written.
fn spelling(text: &str, place: Location) -> Option<String> {
    let span = place.span();
    let start = usize::try_from(span.byte_offset()?).ok()?;
    let end = start.checked_add(usize::try_from(span.byte_len()?).ok()?)?;
    let written = text.get(start..end)?;
    Some(written.trim_matches(['"', '\'']).to_owned())
}

/// A value as the parser hands it over.
enum Parsed {
    Null,
    Flag(bool),
    Whole(i128),
    Fraction,
    Text(String),
    List(Vec<Spanned<Parsed>>),
    Section(Vec<(Spanned<String>, Spanned<Parsed>)>),
}

impl<'de> Deserialize<'de> for Parsed {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ParsedVisitor)
    }
}

struct ParsedVisitor;

impl<'de> Visitor<'de> for ParsedVisitor {
    type Value = Parsed;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Parsed, E> {
        Ok(Parsed::Null)
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Parsed, E> {
        Ok(Parsed::Flag(flag))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Parsed, E> {
        Ok(Parsed::Whole(number.into()))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Parsed, E> {
        Ok(Parsed::Whole(number.into()))
    }

    fn visit_f64<E>(self, _: f64) -> Result<Parsed, E> {
        Ok(Parsed::Fraction)
    }

    fn visit_str<E>(self, text: &str) -> Result<Parsed, E> {
        Ok(Parsed::Text(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Parsed, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Parsed::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Parsed, A::Error> {
        let mut section = Vec::new();
        while let Some(entry) = entries.next_entry()? {
            section.push(entry);
        }
        Ok(Parsed::Section(section))
    }
}
