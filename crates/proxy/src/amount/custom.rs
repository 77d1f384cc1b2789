//! Extractors that operators add: what they read from a request or an answer.
//!
//! As strict as the built-in ones: what two readers could read in two ways is unreadable. The strict
//! reader looks at the whole body first; then the values themselves are taken by their text, so that
//! `12.5` stays what was written.
//!
//! Never here: which calls an extractor is for (`core::extractor`).

use std::borrow::Borrow;
use std::collections::HashMap;
use std::sync::Arc;

use agentguard_core::action::Unreadable;
use agentguard_core::extractor::{
    CurrencyPlace, Decimal, Extractor, Figures, JsonPath, Place, Reads, Step,
};
use agentguard_core::{Amount, Currency, Money};
use http::{HeaderMap, Method};
use serde_json::value::RawValue;

use super::{Media, Paper, Planned, Reading, Settling, form, json, media, overridden};
use crate::limits::{EXTRACTED_ANSWER_BYTES_MAX, EXTRACTED_VALUES_MAX};
use crate::path;

/// The first of these that fits a call. `path` is what follows the service's base URL.
pub(crate) fn find<'a, E: Borrow<Extractor>>(
    extractors: &'a [E],
    method: &Method,
    headers: &HeaderMap,
    path: &str,
) -> Option<&'a E> {
    if extractors.is_empty() {
        return None;
    }
    let path = path::loosely(path);
    // A header, or with a POST also a parameter, may make another method of it: then the path alone
    // decides.
    let any_method = overridden(headers) || *method == Method::POST;
    extractors.iter().find(|own| {
        let own: &Extractor = (*own).borrow();
        own.fits(method.as_str(), &path) || any_method && own.fits_path(&path)
    })
}

/// What is known without the request's body, if it is not needed.
pub(crate) fn without_body(extractor: &Arc<Extractor>) -> Option<Planned> {
    match &extractor.reads {
        Reads::Fixed(money) => Some(Planned::plain(Amount::Exact(*money))),
        Reads::Response(_, max) => Some(Planned {
            settling: Some(Settling::Custom(Arc::clone(extractor))),
            ..Planned::plain(Amount::UpTo(*max))
        }),
        Reads::Request(_) => None,
    }
}

/// The money that a request names.
pub(crate) fn request(extractor: &Extractor, paper: Paper<'_>) -> Reading {
    let figures = match &extractor.reads {
        Reads::Fixed(money) => return Ok(Some(*money)),
        Reads::Response(_, max) => return Ok(Some(*max)),
        Reads::Request(figures) => figures,
    };
    let query = paper.query.unwrap_or_default().as_bytes();
    let media = media(paper)?;
    let value = |place: &Place| match place {
        Place::Json(path) => {
            // Some servers put a query's fields beside those of the body, or over them.
            if let Some(Step::Member(name)) = path.steps().first()
                && form::field(&[query], name) != Ok(None)
            {
                return Err(Unreadable::NotAnAmount);
            }
            match media {
                Media::Json => in_json(paper.body, path),
                Media::Empty => Err(Unreadable::Missing),
                Media::Form => Err(Unreadable::Encoding),
            }
        }
        Place::Form(name) => {
            let body = match media {
                Media::Form | Media::Empty => paper.body,
                Media::Json => return Err(Unreadable::Encoding),
            };
            // A form that is also JSON: a server that sniffs would read another amount.
            if body.trim_ascii_start().starts_with(b"{") {
                return Err(Unreadable::Malformed);
            }
            let found = form::field(&[query, body], name)?;
            Ok(vec![found.map_or(Leaf::Null, Leaf::Text)])
        }
    };
    read(figures, value).map(Some)
}

/// The money that a whole answer names. An extractor of requests reads none.
pub(crate) fn response(extractor: &Extractor, body: &[u8]) -> Reading {
    let figures = match &extractor.reads {
        Reads::Response(figures, _) => figures,
        Reads::Fixed(_) | Reads::Request(_) => return Ok(None),
    };
    let value = |place: &Place| match place {
        Place::Json(path) => in_json(body, path),
        Place::Form(_) => Err(Unreadable::Encoding),
    };
    read(figures, value).map(Some)
}

/// A bounded copy of an answer, taken as it passes.
#[derive(Debug, Default)]
pub(crate) struct AnswerCopy {
    bytes: Vec<u8>,
    /// More came than is kept.
    is_over: bool,
}

impl AnswerCopy {
    /// Takes what passes now.
    pub(crate) fn take(&mut self, bytes: &[u8]) {
        self.is_over |= self.bytes.len().saturating_add(bytes.len()) > EXTRACTED_ANSWER_BYTES_MAX;
        if self.is_over {
            self.bytes = Vec::new();
        } else {
            self.bytes.extend_from_slice(bytes);
        }
    }

    /// The money that it names, once all of it has passed.
    pub(crate) fn money(&self, extractor: &Extractor) -> Reading {
        if self.is_over {
            return Err(Unreadable::TooLong);
        }
        response(extractor, &self.bytes)
    }
}

/// A value that has no parts, by its text.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Leaf {
    Null,
    Number(String),
    Text(String),
    Other,
}

fn read(
    figures: &Figures,
    value: impl Fn(&Place) -> Result<Vec<Leaf>, Unreadable>,
) -> Result<Money, Unreadable> {
    let amounts = value(&figures.amount)?;
    let currency = match &figures.currency {
        CurrencyPlace::Fixed(currency) => *currency,
        CurrencyPlace::At(place) => one_currency(value(place)?)?,
    };
    let nothing = Money::new(0, currency).ok_or(Unreadable::NotAnAmount)?;
    amounts.into_iter().try_fold(nothing, |sum, leaf| {
        let number = match leaf {
            Leaf::Number(text) | Leaf::Text(text) => Decimal::parse(&text),
            Leaf::Null => return Err(Unreadable::Missing),
            Leaf::Other => None,
        };
        let money = number.and_then(|number| figures.scale.money(number, currency));
        money.and_then(|money| sum.plus(money)).ok_or(Unreadable::NotAnAmount)
    })
}

/// The one that all of them name.
fn one_currency(leaves: Vec<Leaf>) -> Result<Currency, Unreadable> {
    let mut found = None;
    for leaf in leaves {
        let Leaf::Text(code) = leaf else { return Err(Unreadable::NoCurrency) };
        let currency = Currency::parse(&code).ok_or(Unreadable::NoCurrency)?;
        if found.is_some_and(|first| first != currency) {
            return Err(Unreadable::NoCurrency);
        }
        found = Some(currency);
    }
    found.ok_or(Unreadable::NoCurrency)
}

fn in_json(body: &[u8], path: &JsonPath) -> Result<Vec<Leaf>, Unreadable> {
    // No key twice, no depth beyond the bound, one value: what follows has one reading.
    json::parse(body)?;
    let whole: &RawValue = serde_json::from_slice(body).map_err(|_| Unreadable::Malformed)?;
    let mut here = vec![whole];
    for step in path.steps() {
        let mut next = Vec::new();
        for value in here {
            match step {
                Step::Member(name) => next.push(member(value, name)?),
                Step::Item(place) => {
                    next.push(items(value)?.get(*place).copied().ok_or(Unreadable::Missing)?);
                }
                Step::Every => next.extend(items(value)?),
            }
        }
        if next.len() > EXTRACTED_VALUES_MAX {
            return Err(Unreadable::TooLong);
        }
        here = next;
    }
    here.into_iter().map(leaf).collect()
}

fn member<'a>(value: &'a RawValue, name: &str) -> Result<&'a RawValue, Unreadable> {
    let members: HashMap<String, &RawValue> =
        serde_json::from_str(value.get()).map_err(|_| Unreadable::Missing)?;
    // `Amount` is `amount` to some servers, which then take the one or the other.
    let alike = |key: &&String| key.trim().eq_ignore_ascii_case(name.trim());
    if members.keys().filter(alike).count() > 1 {
        return Err(Unreadable::NotAnAmount);
    }
    members.get(name).copied().ok_or(Unreadable::Missing)
}

fn items(value: &RawValue) -> Result<Vec<&RawValue>, Unreadable> {
    serde_json::from_str(value.get()).map_err(|_| Unreadable::Missing)
}

fn leaf(value: &RawValue) -> Result<Leaf, Unreadable> {
    let text = value.get();
    Ok(match text.as_bytes().first() {
        Some(b'"') => Leaf::Text(serde_json::from_str(text).map_err(|_| Unreadable::Malformed)?),
        Some(b'0'..=b'9') => Leaf::Number(text.to_owned()),
        Some(b'n') => Leaf::Null,
        Some(_) | None => Leaf::Other,
    })
}

#[cfg(test)]
mod tests;
