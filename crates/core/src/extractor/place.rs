//! Where a value stands: a small part of JSONPath, and names of form fields.

use crate::limits::{JSON_PATH_BYTES_MAX, JSON_PATH_STEPS_MAX};

/// A path into JSON: at least one step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonPath(Vec<Step>);

/// One step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// The member of this name.
    Member(String),
    /// The item at this place, counted from 0.
    Item(usize),
    /// Every item.
    Every,
}

impl JsonPath {
    /// Reads `$.a.b[0].c`, `$['a b']` and `$.items[*].price`.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.len() > JSON_PATH_BYTES_MAX {
            return Err(format!("is longer than {JSON_PATH_BYTES_MAX} bytes"));
        }
        let mut rest = text.strip_prefix('$').ok_or("must begin with `$`")?;
        let mut steps = Vec::new();
        while !rest.is_empty() {
            let (step, after) = step(rest).ok_or_else(|| {
                let shown: String = rest.chars().take(40).collect();
                format!("`{shown}` is no step: use `.name`, `['name']`, `[0]` or `[*]`")
            })?;
            steps.push(step);
            rest = after;
        }
        match steps.len() {
            0 => Err("names nothing: add a step such as `.amount`".into()),
            n if n > JSON_PATH_STEPS_MAX => {
                Err(format!("has more than {JSON_PATH_STEPS_MAX} steps"))
            }
            _ => Ok(Self(steps)),
        }
    }

    /// From the whole body inwards.
    pub fn steps(&self) -> &[Step] {
        &self.0
    }
}

fn step(text: &str) -> Option<(Step, &str)> {
    if let Some(rest) = text.strip_prefix('.') {
        let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-');
        let end = rest.find(|c| !is_plain(c)).unwrap_or(rest.len());
        let (name, rest) = rest.split_at_checked(end)?;
        return (!name.is_empty()).then(|| (Step::Member(name.to_owned()), rest));
    }
    let rest = text.strip_prefix('[')?;
    for quote in ['\'', '"'] {
        if let Some(quoted) = rest.strip_prefix(quote) {
            let (name, rest) = quoted.split_once(quote)?;
            let is_plain = !name.is_empty() && !name.contains('\\');
            return Some((Step::Member(name.to_owned()), rest.strip_prefix(']')?))
                .filter(|_| is_plain);
        }
    }
    let (inside, rest) = rest.split_once(']')?;
    if inside == "*" {
        return Some((Step::Every, rest));
    }
    let is_number = !inside.is_empty() && inside.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| inside.parse().ok()).flatten().map(|place| (Step::Item(place), rest))
}

/// The name of a form field.
pub(super) fn form_name(name: &str) -> Result<String, String> {
    let is_name = !name.is_empty()
        && name.len() <= JSON_PATH_BYTES_MAX
        && name.bytes().all(|byte| byte.is_ascii_graphic() && !b"&;=%+".contains(&byte));
    if is_name {
        return Ok(name.to_owned());
    }
    Err("must be `form:` and the plain name of a field, such as `form:amount`".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_read_step_by_step() {
        let member = |name: &str| Step::Member(name.to_owned());
        for (text, expected) in [
            ("$.amount", vec![member("amount")]),
            ("$.a.b-c[0].d_e", vec![member("a"), member("b-c"), Step::Item(0), member("d_e")]),
            ("$['a b']", vec![member("a b")]),
            ("$[\"a.b\"].c", vec![member("a.b"), member("c")]),
            ("$.items[*].price", vec![member("items"), Step::Every, member("price")]),
            ("$[*]", vec![Step::Every]),
            ("$[17]", vec![Step::Item(17)]),
            ("$.größe", vec![member("größe")]),
        ] {
            assert_eq!(JsonPath::parse(text).unwrap().steps(), expected, "{text}");
        }
    }

    #[test]
    fn what_is_no_such_path_is_refused() {
        let long = format!("$.{}", "a".repeat(JSON_PATH_BYTES_MAX));
        let deep = format!("${}", "[0]".repeat(JSON_PATH_STEPS_MAX + 1));
        for text in [
            "",
            "$",
            "amount",
            "$amount",
            "$.",
            "$..a",
            "$.a.",
            "$.*",
            "$[",
            "$[]",
            "$[-1]",
            "$[1",
            "$[1:2]",
            "$[?(@.a)]",
            "$['']",
            "$['a",
            "$['a'",
            "$['a\\'b']",
            "$.a b",
            "$.a[0]b",
            "$[99999999999999999999999]",
            &long,
            &deep,
        ] {
            assert!(JsonPath::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn names_of_fields_are_plain() {
        for name in ["amount", "transfer_data[amount]", "a.b"] {
            assert_eq!(form_name(name).as_deref(), Ok(name));
        }
        for name in ["", "a b", "a&b", "a=b", "%61", "a+b", "ä"] {
            assert!(form_name(name).is_err(), "{name}");
        }
    }
}
