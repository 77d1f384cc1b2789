//! The figures that ship with the program, one model a line.
//!
//! Never here: what they mean.

use super::{LongSpec, PriceError, PriceSpec};

const BUILT_IN: &str = include_str!("../../prices.tsv");

/// What the first line says before the day of the figures.
const DATE_MARK: &str = "Figures of ";

/// The day of the built-in figures, as `2026-01-31`.
pub fn built_in_date() -> &'static str {
    let first = BUILT_IN.lines().next().unwrap_or_default();
    first.split_once(DATE_MARK).map_or("", |(_, date)| date.trim_end_matches('.'))
}

/// The lines of the built-in table.
pub fn built_in_specs() -> Result<Vec<PriceSpec>, PriceError> {
    let mut specs = Vec::new();
    for (index, text) in BUILT_IN.lines().enumerate() {
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        let spec = line_spec(text)
            .map_err(|why| PriceError::Line { line: index.saturating_add(1), why })?;
        specs.push(spec);
    }
    Ok(specs)
}

/// `model, input, cached input, cache write, output, max input, max output, flags, and above how many
/// tokens which input, cached input, cache write and output`, parted by tabs.
fn line_spec(text: &str) -> Result<PriceSpec, String> {
    let mut fields = text.split('\t');
    let mut next = |name: &str| fields.next().ok_or_else(|| format!("{name} is missing"));
    let given = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    let count = |text: &str| text.parse().map_err(|_| format!("`{text}` is no number"));
    let model = next("the model")?.to_owned();
    let input = next("input")?.to_owned();
    let cached_input = given(next("cached input")?);
    let cache_write = given(next("cache write")?);
    let output = next("output")?.to_owned();
    let max_input_tokens = count(next("the longest input")?)?;
    let max_output_tokens = count(next("the longest output")?)?;
    let reasons = match next("flags")? {
        "reasons" => true,
        "" => false,
        other => return Err(format!("`{other}` is no flag")),
    };
    let long = match fields.next() {
        None => None,
        Some(above) => {
            let above_tokens = count(above)?;
            let mut next = |name: &str| fields.next().ok_or_else(|| format!("{name} is missing"));
            Some(LongSpec {
                above_tokens,
                input: next("long input")?.to_owned(),
                cached_input: given(next("long cached input")?),
                cache_write: given(next("long cache write")?),
                output: next("long output")?.to_owned(),
            })
        }
    };
    Ok(PriceSpec {
        model,
        input,
        cached_input,
        cache_write,
        output,
        max_input_tokens,
        max_output_tokens,
        reasons,
        long,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::price::PriceTable;

    #[test]
    fn every_built_in_line_is_a_price() {
        let specs = built_in_specs().unwrap();
        let table = PriceTable::built_in().unwrap();
        assert_eq!(table.len(), specs.len(), "no model is there twice");
        for spec in specs {
            let price = table.find(&spec.model).unwrap();
            assert!(price.usual.input.micros() > 0, "{}", spec.model);
            assert!(price.usual.cached_input <= price.usual.input, "{}", spec.model);
            assert!(price.usual.cache_write >= price.usual.input, "{}", spec.model);
            let Some((above, long)) = &price.long else { continue };
            assert!(*above < price.max_input_tokens, "{}: nothing is long", spec.model);
            assert!(long.input > price.usual.input, "{}", spec.model);
            assert!(long.cached_input > price.usual.cached_input, "{}", spec.model);
            assert!(long.cache_write > price.usual.cache_write, "{}", spec.model);
            assert!(long.output > price.usual.output, "{}", spec.model);
        }
    }

    #[test]
    fn the_figures_have_a_date() {
        let date = built_in_date();
        let digits = date.bytes().filter(u8::is_ascii_digit).count();
        assert_eq!((date.len(), digits), (10, 8), "{date}");
    }
}
