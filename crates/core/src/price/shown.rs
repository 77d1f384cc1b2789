//! Prices as they are shown: on the wire and at the command line, in one form.

use serde::Serialize;

use super::{Found, How, Origin, PerMillion, Price, PriceTable, Tariff, Tokens, built_in_date};
use crate::money::{MICROS, MicroUsd};

/// Tokens in and tokens out of the example that a check shows.
const EXAMPLE_TOKENS: u64 = 1_000;

/// A price in a list.
#[derive(Clone, Debug, Serialize)]
pub struct Listed {
    /// The model, or the beginning of names with a `*`; none for the fallback.
    pub model: Option<String>,
    /// Where it comes from.
    pub origin: Origin,
    #[serde(flatten)]
    usual: ShownTariff,
    /// The longest input.
    pub max_input_tokens: u64,
    /// The longest output.
    pub max_output_tokens: u64,
    /// Whether it may think unseen.
    pub reasons: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    long: Option<ShownLong>,
}

/// What a call with a model's name would be charged by.
#[derive(Clone, Debug, Serialize)]
pub struct Checked {
    /// The name that was asked for.
    pub asked: String,
    /// Why this price is its own.
    pub how: How,
    /// The price.
    pub price: Listed,
    /// What a thousand tokens in and a thousand out cost.
    pub example_usd: MicroUsd,
    /// The day of the program's own figures.
    pub built_in_date: &'static str,
}

#[derive(Clone, Debug, Serialize)]
struct ShownTariff {
    input: String,
    cached_input: String,
    cache_write: String,
    cache_write_hour: String,
    output: String,
}

#[derive(Clone, Debug, Serialize)]
struct ShownLong {
    above_tokens: u64,
    #[serde(flatten)]
    tariff: ShownTariff,
}

impl Checked {
    /// The price of a name, if it has one.
    pub fn of(table: &PriceTable, model: &str) -> Option<Self> {
        let found = table.look_up(model)?;
        let tokens = Tokens { input: EXAMPLE_TOKENS, output: EXAMPLE_TOKENS, ..Tokens::default() };
        let plain = u32::try_from(MICROS).unwrap_or(u32::MAX);
        Some(Self {
            asked: model.to_owned(),
            how: found.how,
            price: Listed::from(found),
            example_usd: found.price.cost(&tokens, plain),
            built_in_date: built_in_date(),
        })
    }
}

impl From<Found<'_>> for Listed {
    fn from(found: Found<'_>) -> Self {
        let Price { usual, long, max_input_tokens, max_output_tokens, reasons } = &**found.price;
        Self {
            model: found.name.map(str::to_owned),
            origin: found.origin,
            usual: ShownTariff::from(usual),
            max_input_tokens: *max_input_tokens,
            max_output_tokens: *max_output_tokens,
            reasons: *reasons,
            long: long.as_ref().map(|(above_tokens, tariff)| ShownLong {
                above_tokens: *above_tokens,
                tariff: ShownTariff::from(tariff),
            }),
        }
    }
}

impl From<&Tariff> for ShownTariff {
    fn from(tariff: &Tariff) -> Self {
        let Tariff { input, cached_input, cache_write, cache_write_hour, output } = tariff;
        let [input, cached_input, cache_write, cache_write_hour, output] =
            [input, cached_input, cache_write, cache_write_hour, output].map(PerMillion::to_string);
        Self { input, cached_input, cache_write, cache_write_hour, output }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_shows_the_price_and_what_an_example_costs() {
        let table = PriceTable::built_in().unwrap();
        let checked = Checked::of(&table, "gpt-4o-2031-01-31").unwrap();
        let shown = serde_json::to_value(checked).unwrap();
        assert_eq!(
            (&shown["how"], &shown["price"]["model"]),
            (&"dated_version".into(), &"gpt-4o".into())
        );
        assert_eq!(
            (&shown["price"]["input"], &shown["price"]["origin"]),
            (&"2.50".into(), &"built_in".into())
        );
        assert_eq!(shown["example_usd"], "0.0125");
        assert!(Checked::of(&table, "unheard-of").is_none());
        let long = serde_json::to_value(Checked::of(&table, "claude-sonnet-4-5").unwrap()).unwrap();
        assert_eq!(long["price"]["long"]["above_tokens"], 200_000);
        assert_eq!(long["price"]["long"]["output"], "22.50");
    }
}
