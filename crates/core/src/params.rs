//! Reading a rule's parameters. Every error names the field, and a field that nobody reads is one.

use serde_json::{Map, Value};
use thiserror::Error;

use crate::domain::DomainSet;
use crate::limits::DOMAINS_PER_RULE_MAX;
use crate::money::{MicroUsd, Ppm, parse_micros};
use crate::time::Zone;

/// What is wrong with a parameter.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("parameter `{field}`: {problem}")]
pub struct ParamError {
    /// Which one.
    pub field: String,
    /// What is wrong, and what is expected.
    pub problem: String,
}

impl ParamError {
    /// An error on this field.
    pub fn new(field: &str, problem: impl Into<String>) -> Self {
        Self { field: field.to_owned(), problem: problem.into() }
    }
}

/// The parameters of one rule, ticked off as they are read. Numbers may come as text (from a command
/// line) or as JSON numbers; both are read by their digits, never as floats.
pub(crate) struct Params<'a> {
    map: &'a Map<String, Value>,
    known: Vec<&'static str>,
}

impl<'a> Params<'a> {
    pub(crate) fn new(map: &'a Map<String, Value>) -> Self {
        Self { map, known: Vec::new() }
    }

    pub(crate) fn money(&mut self, field: &'static str) -> Result<MicroUsd, ParamError> {
        let micros = self.positive_micros(field)?;
        micros
            .map(MicroUsd::from_micros)
            .ok_or_else(|| missing(field, "an amount such as \"50.00\""))
    }

    pub(crate) fn share_or(
        &mut self,
        field: &'static str,
        default: Ppm,
    ) -> Result<Ppm, ParamError> {
        let Some(micros) = self.positive_micros(field)? else { return Ok(default) };
        u32::try_from(micros)
            .ok()
            .filter(|ppm| *ppm <= 1_000_000)
            .map(Ppm)
            .ok_or_else(|| ParamError::new(field, "must be above 0 and at most 1"))
    }

    /// A positive decimal in millionths.
    pub(crate) fn factor_or(
        &mut self,
        field: &'static str,
        default: i64,
    ) -> Result<i64, ParamError> {
        Ok(self.positive_micros(field)?.unwrap_or(default))
    }

    pub(crate) fn count(&mut self, field: &'static str, max: u32) -> Result<u32, ParamError> {
        self.opt_count(field, max)?.ok_or_else(|| missing(field, "a whole number"))
    }

    pub(crate) fn count_or(
        &mut self,
        field: &'static str,
        default: u32,
        max: u32,
    ) -> Result<u32, ParamError> {
        Ok(self.opt_count(field, max)?.unwrap_or(default))
    }

    pub(crate) fn opt_text(&mut self, field: &'static str) -> Result<Option<&'a str>, ParamError> {
        match self.take(field) {
            None => Ok(None),
            Some(Value::String(text)) if !text.is_empty() => Ok(Some(text)),
            Some(_) => Err(ParamError::new(field, "must be a non-empty text")),
        }
    }

    pub(crate) fn list(&mut self, field: &'static str) -> Result<Option<Vec<String>>, ParamError> {
        let wrong = || ParamError::new(field, "must be a list of texts (or one text with commas)");
        let items: Vec<String> = match self.take(field) {
            None => return Ok(None),
            Some(Value::String(text)) => {
                text.split(',').map(|item| item.trim().to_owned()).collect()
            }
            Some(Value::Array(values)) => values
                .iter()
                .map(|value| value.as_str().map(|text| text.trim().to_owned()).ok_or_else(wrong))
                .collect::<Result<_, _>>()?,
            Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_)) => {
                return Err(wrong());
            }
        };
        if items.is_empty() || items.iter().any(String::is_empty) {
            return Err(ParamError::new(field, "must name at least one, and none may be empty"));
        }
        Ok(Some(items))
    }

    pub(crate) fn domains(&mut self, field: &'static str) -> Result<DomainSet, ParamError> {
        let items = self.list(field)?.ok_or_else(|| missing(field, "a list of domains"))?;
        if items.len() > DOMAINS_PER_RULE_MAX {
            return Err(ParamError::new(
                field,
                format!("has more than {DOMAINS_PER_RULE_MAX} entries"),
            ));
        }
        let mut set = DomainSet::default();
        for item in &items {
            set.insert(item).map_err(|error| ParamError::new(field, error.to_string()))?;
        }
        Ok(set)
    }

    /// `HH:MM` as minutes after midnight; `24:00` only where a window ends.
    pub(crate) fn time_of_day(
        &mut self,
        field: &'static str,
        default: Option<u16>,
        max: u16,
    ) -> Result<u16, ParamError> {
        let Some(text) = self.opt_text(field)? else {
            return default.ok_or_else(|| missing(field, "a time such as \"22:00\""));
        };
        let two = |part: &str| (part.len() == 2).then(|| part.parse::<u16>().ok()).flatten();
        text.split_once(':')
            .and_then(|(hours, minutes)| Some((two(hours)?, two(minutes)?)))
            .filter(|(_, minutes)| *minutes < 60)
            .map(|(hours, minutes)| hours.saturating_mul(60).saturating_add(minutes))
            .filter(|minute| *minute <= max)
            .ok_or_else(|| {
                ParamError::new(field, format!("`{text}` is not a time of day as HH:MM"))
            })
    }

    pub(crate) fn zone(&mut self, field: &'static str, default: &Zone) -> Result<Zone, ParamError> {
        match self.opt_text(field)? {
            None => Ok(default.clone()),
            Some(name) => {
                Zone::named(name).map_err(|error| ParamError::new(field, error.to_string()))
            }
        }
    }

    pub(crate) fn days(&mut self, field: &'static str) -> Result<[bool; 7], ParamError> {
        const NAMES: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];
        let Some(items) = self.list(field)? else { return Ok([true; 7]) };
        let mut days = [false; 7];
        for item in &items {
            let place =
                NAMES.iter().position(|name| item.to_ascii_lowercase().get(..3) == Some(*name));
            let slot = place.and_then(|place| days.get_mut(place)).ok_or_else(|| {
                ParamError::new(
                    field,
                    format!("`{item}` is no weekday (mon, tue, wed, thu, fri, sat, sun)"),
                )
            })?;
            *slot = true;
        }
        Ok(days)
    }

    /// Call when every known field was read: anything else is a mistake, most often in spelling.
    pub(crate) fn finish(self) -> Result<(), ParamError> {
        match self.map.keys().find(|key| !self.known.contains(&key.as_str())) {
            None => Ok(()),
            Some(key) if self.known.is_empty() => {
                Err(ParamError::new(key, "is unknown: this rule takes no parameters"))
            }
            Some(key) => Err(ParamError::new(
                key,
                format!("is unknown; known are {}", self.known.join(", ")),
            )),
        }
    }

    fn take(&mut self, field: &'static str) -> Option<&'a Value> {
        self.known.push(field);
        self.map.get(field).filter(|value| !value.is_null())
    }

    fn digits(&mut self, field: &'static str) -> Result<Option<String>, ParamError> {
        match self.take(field) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(Value::Number(number)) => Ok(Some(number.to_string())),
            Some(Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_)) => {
                Err(ParamError::new(field, "must be a number"))
            }
        }
    }

    fn positive_micros(&mut self, field: &'static str) -> Result<Option<i64>, ParamError> {
        let Some(text) = self.digits(field)? else { return Ok(None) };
        let micros = parse_micros(&text)
            .map_err(|error| ParamError::new(field, format!("`{text}` {error}")))?;
        if micros == 0 {
            return Err(ParamError::new(field, "must be above 0"));
        }
        Ok(Some(micros))
    }

    fn opt_count(&mut self, field: &'static str, max: u32) -> Result<Option<u32>, ParamError> {
        let Some(text) = self.digits(field)? else { return Ok(None) };
        text.parse::<u32>().ok().filter(|count| (1..=max).contains(count)).map(Some).ok_or_else(
            || ParamError::new(field, format!("`{text}` is not a whole number from 1 to {max}")),
        )
    }
}

fn missing(field: &str, expected: &str) -> ParamError {
    ParamError::new(field, format!("is missing; give {expected}"))
}
