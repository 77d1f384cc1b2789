//! Prices by model, and how a name finds its own.

use std::collections::HashMap;
use std::sync::Arc;

use serde::Serialize;

use super::{Price, PriceError, PriceSpec, built_in_specs};
use crate::limits::{MODEL_NAME_BYTES_MAX, NEAREST_NAMES_MAX, PRICES_MAX};

/// Prices by model.
#[derive(Clone, Debug, Default)]
pub struct PriceTable {
    exact: HashMap<String, Entry>,
    /// Names that begin like this; the longest that fits counts.
    begins: HashMap<String, Entry>,
    /// For models that nothing else fits, if the operator set one.
    fallback: Option<Arc<Price>>,
}

#[derive(Clone, Debug)]
struct Entry {
    /// As it is shown: with its `*`.
    name: Arc<str>,
    price: Arc<Price>,
    origin: Origin,
}

/// Where a price comes from. The later ones go over the earlier ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// The program's own table.
    BuiltIn,
    /// `proxy.prices_file`.
    File,
    /// Set by an operator in the running gate.
    Stored,
    /// `proxy.fallback_price`.
    Fallback,
}

/// Why a price is that of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum How {
    /// It has this very name.
    Exact,
    /// The name is a dated version of that one.
    DatedVersion,
    /// The name is a fine-tune of that one.
    FineTune,
    /// The name begins like this.
    Beginning,
    /// Nothing fits, and the operator set a price for that.
    Fallback,
}

/// The price of a name, and why it is that one.
#[derive(Clone, Copy, Debug)]
pub struct Found<'a> {
    /// The entry's name, with its `*` where it has one; none for the fallback.
    pub name: Option<&'a str>,
    /// Why.
    pub how: How,
    /// Where it comes from.
    pub origin: Origin,
    /// What it costs.
    pub price: &'a Arc<Price>,
}

impl PriceTable {
    /// The figures that ship with the program.
    pub fn built_in() -> Result<Self, PriceError> {
        let mut table = Self::default();
        for spec in built_in_specs()? {
            table.put_from(&spec, Origin::BuiltIn)?;
        }
        Ok(table)
    }

    /// Adds an operator's price, or replaces the one of that name.
    pub fn put(&mut self, spec: &PriceSpec) -> Result<(), PriceError> {
        self.put_from(spec, Origin::Stored)
    }

    /// Adds a price, or replaces the one of that name.
    pub fn put_from(&mut self, spec: &PriceSpec, origin: Origin) -> Result<(), PriceError> {
        let name = spec.model.to_ascii_lowercase();
        let price = Arc::new(spec.price()?);
        let entry = Entry { name: name.as_str().into(), price, origin };
        let full = self.len() >= PRICES_MAX;
        let (kept, key) = match name.strip_suffix('*') {
            Some(stem) => (&mut self.begins, stem),
            None => (&mut self.exact, name.as_str()),
        };
        if full && !kept.contains_key(key) {
            return Err(PriceError::TooMany);
        }
        kept.insert(key.to_owned(), entry);
        Ok(())
    }

    /// What a model costs that nothing else fits.
    pub fn set_fallback(&mut self, price: Option<Price>) {
        self.fallback = price.map(Arc::new);
    }

    /// The price of a model, by its own name, by the one it is a dated version of, by the beginning of
    /// its name, or else the fallback.
    pub fn find(&self, model: &str) -> Option<&Arc<Price>> {
        self.known(model).or(self.fallback.as_ref())
    }

    /// The same without the fallback.
    pub fn known(&self, model: &str) -> Option<&Arc<Price>> {
        match self.exact.get(model) {
            Some(entry) => Some(&entry.price),
            None => self.look_up_known(model).map(|found| found.price),
        }
    }

    /// As [`Self::find`], with the reason.
    pub fn look_up(&self, model: &str) -> Option<Found<'_>> {
        let fallback = || {
            let price = self.fallback.as_ref()?;
            Some(Found { name: None, how: How::Fallback, origin: Origin::Fallback, price })
        };
        self.look_up_known(model).or_else(fallback)
    }

    fn look_up_known(&self, model: &str) -> Option<Found<'_>> {
        if model.len() > MODEL_NAME_BYTES_MAX {
            return None;
        }
        let name = model.to_ascii_lowercase();
        let mut stem = Some(name.as_str());
        while let Some(known) = stem {
            if let Some(entry) = self.exact.get(known) {
                let how = match known.len() == name.len() {
                    true => How::Exact,
                    false if name.starts_with("ft:") => How::FineTune,
                    false => How::DatedVersion,
                };
                return Some(entry.found(how));
            }
            stem = shorter(known);
        }
        let fitting = self.begins.iter().filter(|(stem, _)| name.starts_with(stem.as_str()));
        let longest = fitting.max_by_key(|(stem, _)| stem.len());
        longest.map(|(_, entry)| entry.found(How::Beginning))
    }

    /// Every price, by name; the fallback is none of them.
    pub fn entries(&self) -> Vec<Found<'_>> {
        let exact = self.exact.values().map(|entry| entry.found(How::Exact));
        let begins = self.begins.values().map(|entry| entry.found(How::Beginning));
        let mut all: Vec<_> = exact.chain(begins).collect();
        all.sort_by_key(|found| found.name);
        all
    }

    /// Names that a slip of the finger could have made of this one, the nearest first.
    pub fn nearest(&self, model: &str) -> Vec<&str> {
        if model.len() > MODEL_NAME_BYTES_MAX {
            return Vec::new();
        }
        let wanted = model.to_ascii_lowercase();
        // A third of the letters, as elsewhere; lengths first, since comparing takes their product.
        let reach = wanted.len().div_ceil(3);
        let near = |name: &String| {
            let close = name.len().abs_diff(wanted.len()) <= reach;
            let distance = close.then(|| strsim::damerau_levenshtein(&wanted, name))?;
            (distance <= reach).then_some(distance)
        };
        let mut found: Vec<_> = self
            .exact
            .iter()
            .filter_map(|(name, entry)| Some((near(name)?, &*entry.name)))
            .collect();
        found.sort_unstable();
        found.truncate(NEAREST_NAMES_MAX);
        found.into_iter().map(|(_, name)| name).collect()
    }

    /// How many models have a price.
    pub fn len(&self) -> usize {
        self.exact.len().saturating_add(self.begins.len())
    }

    /// Whether nothing has a price.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Entry {
    fn found(&self, how: How) -> Found<'_> {
        Found { name: Some(&self.name), how, origin: self.origin, price: &self.price }
    }
}

impl Origin {
    /// Its name on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            Self::BuiltIn => "built_in",
            Self::File => "file",
            Self::Stored => "stored",
            Self::Fallback => "fallback",
        }
    }
}

/// The name without its date, or without a fine-tune's own part.
fn shorter(name: &str) -> Option<&str> {
    if name.starts_with("ft:") {
        // ft:BASE:ORGANISATION:NAME:ID
        let (base, _) = name.rsplit_once(':')?;
        return (base != "ft").then_some(base);
    }
    let digits = |text: &str, count: usize| {
        text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit())
    };
    let (rest, last) = name.rsplit_once('-')?;
    if digits(last, 8) {
        return Some(rest);
    }
    let (rest, month) = rest.rsplit_once('-').filter(|_| digits(last, 2))?;
    let (rest, year) = rest.rsplit_once('-').filter(|_| digits(month, 2))?;
    digits(year, 4).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::price::tests::spec;

    #[test]
    fn names_are_looked_up_strictly() {
        let mut table = PriceTable::built_in().unwrap();
        table.put(&spec("llama-*", "1", "1")).unwrap();
        table.put(&spec("llama-big*", "9", "9")).unwrap();
        for (name, same_as) in [
            ("gpt-4o", Some("gpt-4o")),
            ("GPT-4o", Some("gpt-4o")),
            ("gpt-4o-2031-01-31", Some("gpt-4o")),
            ("gpt-4o-2024-05-13", Some("gpt-4o-2024-05-13")),
            ("claude-haiku-4-5-20991231", Some("claude-haiku-4-5")),
            ("ft:gpt-4o-2024-08-06:acme:x:1", Some("ft:gpt-4o-2024-08-06")),
            ("ft:gpt-4o-2024-08-06:acme::1", Some("ft:gpt-4o-2024-08-06")),
            ("llama-3", Some("llama-*")),
            ("llama-bigger", Some("llama-big*")),
            ("gpt-4o-ultra", None),
            ("gpt-4o ", None),
            (" gpt-4o", None),
            ("gpt-4o/", None),
            ("openai/gpt-4o", None),
            ("ft:unheard-of:acme:x:1", None),
            ("gpt-4o-2024", None),
            ("gpt-4o-1-1-1", None),
            ("", None),
        ] {
            let found = table.find(name).map(|price| price.usual);
            let expected = same_as.map(|known| match known {
                "llama-*" => spec("x", "1", "1").price().unwrap().usual,
                "llama-big*" => spec("x", "9", "9").price().unwrap().usual,
                known => table.exact.get(known).unwrap().price.usual,
            });
            assert_eq!(found, expected, "{name}");
        }
        assert!(table.find(&"x".repeat(1_000)).is_none());
        table.set_fallback(Some(spec("any", "50", "100").price().unwrap()));
        assert_eq!(table.find("unheard-of").unwrap().usual.input.micros(), 50_000_000);
    }

    #[test]
    fn a_price_says_where_it_comes_from_and_why_it_fits() {
        let mut table = PriceTable::built_in().unwrap();
        table.put_from(&spec("GPT-4o", "3", "11"), Origin::File).unwrap();
        table.put_from(&spec("o3", "3", "11"), Origin::File).unwrap();
        table.put(&spec("o3", "4", "12")).unwrap();
        table.put(&spec("Llama-*", "1", "1")).unwrap();
        let check = |model: &str, expected: Option<(Option<&str>, How, Origin)>| {
            let found = table.look_up(model).map(|found| (found.name, found.how, found.origin));
            assert_eq!(found, expected, "{model}");
            assert_eq!(table.find(model), table.look_up(model).map(|found| found.price));
        };
        check("gpt-4o", Some((Some("gpt-4o"), How::Exact, Origin::File)));
        check("o3", Some((Some("o3"), How::Exact, Origin::Stored)));
        check("o3-2025-04-16", Some((Some("o3-2025-04-16"), How::Exact, Origin::BuiltIn)));
        check("o3-2031-04-16", Some((Some("o3"), How::DatedVersion, Origin::Stored)));
        let tuned = Some((Some("ft:gpt-4.1-2025-04-14"), How::FineTune, Origin::BuiltIn));
        check("ft:gpt-4.1-2025-04-14:a::b", tuned);
        check("llama-3", Some((Some("llama-*"), How::Beginning, Origin::Stored)));
        check("unheard-of", None);
        table.set_fallback(Some(spec("x", "50", "100").price().unwrap()));
        let found = table.look_up("unheard-of").unwrap();
        assert_eq!((found.name, found.how), (None, How::Fallback));
    }

    #[test]
    fn near_names_are_slips_of_the_finger() {
        let table = PriceTable::built_in().unwrap();
        for (wrong, meant) in [
            ("gpt4o", "gpt-4o"),
            ("gpt-4o-mni", "gpt-4o-mini"),
            ("claude-opus4-6", "claude-opus-4-6"),
        ] {
            assert_eq!(table.nearest(wrong).first(), Some(&meant), "{wrong}");
        }
        assert!(table.nearest("mistral-large-instruct-of-somebody").is_empty());
        assert!(table.nearest("").is_empty());
        assert!(table.nearest(&"x".repeat(1_000)).is_empty());
        assert!(table.nearest("gpt-4").len() <= NEAREST_NAMES_MAX);
    }

    #[test]
    fn a_full_table_still_takes_a_new_price_of_a_known_name() {
        let mut table = PriceTable::default();
        for place in 0..PRICES_MAX {
            table.put(&spec(&format!("m{place}"), "1", "1")).unwrap();
        }
        table.put(&spec("m0", "2", "2")).unwrap();
        assert_eq!(table.put(&spec("one-more", "1", "1")), Err(PriceError::TooMany));
    }
}
