//! What models cost: tariffs in whole micro-dollars for a million tokens, and the table of them.
//!
//! A model that is not in the table has no price, and where money is limited that is a refusal. So
//! names are looked up strictly: a longer name is another model (`gpt-5-pro` is no `gpt-5`), unless
//! what follows is a date or a fine-tune's own name.
//!
//! Never here: how tokens are read from a provider's answer.

mod built_in;
mod shown;
mod table;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::limits::{MODEL_NAME_BYTES_MAX, PRICES_MAX, TOKENS_MAX};
use crate::money::{DecimalError, MICROS, MicroUsd, parse_micros};

pub use built_in::{built_in_date, built_in_specs};
pub use shown::{Checked, Listed};
pub use table::{Found, How, Origin, PriceTable};

/// Micro-dollars for a million tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct PerMillion(i64);

/// What each kind of token costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tariff {
    /// Read anew.
    pub input: PerMillion,
    /// Read from a cache.
    pub cached_input: PerMillion,
    /// Written to a cache for minutes.
    pub cache_write: PerMillion,
    /// Written to a cache for an hour.
    pub cache_write_hour: PerMillion,
    /// Written by the model, its reasoning included.
    pub output: PerMillion,
}

/// The price of one model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Price {
    /// What tokens cost.
    pub usual: Tariff,
    /// What they all cost once the input is longer than so many tokens.
    pub long: Option<(u64, Tariff)>,
    /// The longest input that the model takes.
    pub max_input_tokens: u64,
    /// The longest output that it gives.
    pub max_output_tokens: u64,
    /// Whether it may think before it speaks: such tokens cost and are never seen.
    pub reasons: bool,
}

/// Tokens of one call, each counted once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tokens {
    /// Input that was read anew.
    pub input: u64,
    /// Input that was read from a cache.
    pub cached_input: u64,
    /// Input that was written to a cache for minutes.
    pub cache_write: u64,
    /// Input that was written to a cache for an hour.
    pub cache_write_hour: u64,
    /// Output, reasoning included.
    pub output: u64,
}

/// A price as it is written in files and on the wire. Decimals are dollars for a million tokens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PriceSpec {
    /// The model's name, or the beginning of names with a `*` at its end.
    pub model: String,
    /// Input tokens.
    pub input: String,
    /// Input tokens from a cache; as input where it is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cached_input: Option<String>,
    /// Input tokens into a cache; as input where it is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write: Option<String>,
    /// Output tokens.
    pub output: String,
    /// The longest input.
    #[serde(default = "longest_input")]
    pub max_input_tokens: u64,
    /// The longest output.
    #[serde(default = "longest_output")]
    pub max_output_tokens: u64,
    /// Whether it may think unseen. Assumed: the other way round would count too little.
    #[serde(default = "yes")]
    pub reasons: bool,
    /// Other prices for long inputs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub long: Option<LongSpec>,
}

/// What a long input costs, as written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LongSpec {
    /// Input longer than this.
    pub above_tokens: u64,
    /// Input tokens.
    pub input: String,
    /// Input tokens from a cache; as input where it is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cached_input: Option<String>,
    /// Input tokens into a cache; as input where it is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write: Option<String>,
    /// Output tokens.
    pub output: String,
}

/// Why a price cannot be used.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum PriceError {
    /// The name is empty, too long, or has a `*` inside.
    #[error("model: `{0}` is no model name")]
    Name(String),
    /// A figure is no amount.
    #[error("{field}: `{text}` {why}")]
    Figure {
        /// Which.
        field: &'static str,
        /// What stood there.
        text: String,
        /// What is wrong with it.
        why: DecimalError,
    },
    /// A bound is nothing or beyond what is counted.
    #[error("{0}: must be from 1 to {TOKENS_MAX}")]
    Bound(&'static str),
    /// A line of a table is not one.
    #[error("line {line}: {why}")]
    Line {
        /// Counted from 1.
        line: usize,
        /// What is wrong with it.
        why: String,
    },
    /// Too many.
    #[error("there are more than {PRICES_MAX} prices")]
    TooMany,
}

impl PerMillion {
    /// Reads dollars for a million tokens.
    pub fn parse(text: &str) -> Result<Self, DecimalError> {
        parse_micros(text).map(Self)
    }

    /// Micro-dollars.
    pub const fn micros(self) -> i64 {
        self.0
    }

    /// A million micro-dollars' worth of it: `tokens × price`, not yet divided.
    fn times(self, tokens: u64) -> i128 {
        i128::from(self.0).saturating_mul(i128::from(tokens))
    }

    fn doubled(self) -> Self {
        Self(self.0.saturating_mul(2))
    }
}

impl std::fmt::Display for PerMillion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        MicroUsd::from_micros(self.0).fmt(f)
    }
}

impl Tariff {
    /// What an input token can cost at the most.
    pub fn dearest_input(&self, cache: CacheWrites) -> PerMillion {
        let written = match cache {
            CacheWrites::None => self.input,
            CacheWrites::Minutes => self.cache_write,
            CacheWrites::Hour => self.cache_write.max(self.cache_write_hour),
        };
        self.input.max(self.cached_input).max(written)
    }

    fn cost(&self, tokens: &Tokens) -> i128 {
        [
            (self.input, tokens.input),
            (self.cached_input, tokens.cached_input),
            (self.cache_write, tokens.cache_write),
            (self.cache_write_hour, tokens.cache_write_hour),
            (self.output, tokens.output),
        ]
        .into_iter()
        .fold(0_i128, |sum, (price, count)| sum.saturating_add(price.times(count)))
    }
}

/// Whether a call may write to the provider's cache, which can cost more than reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheWrites {
    /// It cannot.
    None,
    /// It can, for minutes.
    Minutes,
    /// It can, for an hour.
    Hour,
}

impl Tokens {
    /// All that went in.
    pub const fn all_input(&self) -> u64 {
        self.input
            .saturating_add(self.cached_input)
            .saturating_add(self.cache_write)
            .saturating_add(self.cache_write_hour)
    }
}

impl Price {
    /// What these tokens cost, rounded up once, times `surcharge_ppm` millionths.
    pub fn cost(&self, tokens: &Tokens, surcharge_ppm: u32) -> MicroUsd {
        rounded_up(self.tariff(tokens.all_input()).cost(tokens), surcharge_ppm)
    }

    /// The most that a call with so many tokens at the most can cost.
    pub fn bound(
        &self,
        input: u64,
        output: u64,
        cache: CacheWrites,
        surcharge_ppm: u32,
    ) -> MicroUsd {
        let most = |tariff: &Tariff| {
            tariff.dearest_input(cache).times(input).saturating_add(tariff.output.times(output))
        };
        let usual = most(&self.usual);
        // A short input is never billed as a long one; a long bound may be billed as either.
        let long = self.long.as_ref().filter(|(above, _)| input > *above);
        let dearest = long.map_or(usual, |(_, tariff)| usual.max(most(tariff)));
        rounded_up(dearest, surcharge_ppm)
    }

    fn tariff(&self, input: u64) -> &Tariff {
        match &self.long {
            Some((above, long)) if input > *above => long,
            Some(_) | None => &self.usual,
        }
    }
}

/// From micro-dollars × tokens for a million tokens to micro-dollars.
fn rounded_up(product: i128, surcharge_ppm: u32) -> MicroUsd {
    let of = i128::from(MICROS).saturating_mul(i128::from(MICROS));
    let times = product.saturating_mul(i128::from(surcharge_ppm));
    let micros = times.saturating_add(of.saturating_sub(1)).div_euclid(of);
    MicroUsd::from_micros(i64::try_from(micros).unwrap_or(i64::MAX))
}

impl PriceSpec {
    /// Two prices, and for the rest what is assumed.
    pub fn plain(model: &str, input: &str, output: &str) -> Self {
        Self {
            model: model.to_owned(),
            input: input.to_owned(),
            cached_input: None,
            cache_write: None,
            output: output.to_owned(),
            max_input_tokens: longest_input(),
            max_output_tokens: longest_output(),
            reasons: true,
            long: None,
        }
    }

    /// Checks and compiles.
    pub fn price(&self) -> Result<Price, PriceError> {
        let stem = self.model.strip_suffix('*').unwrap_or(&self.model);
        let named = !self.model.is_empty()
            && self.model.len() <= MODEL_NAME_BYTES_MAX
            && stem.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'*');
        if !named {
            return Err(PriceError::Name(self.model.chars().take(80).collect()));
        }
        let within = |field, tokens: u64| {
            (1..=TOKENS_MAX).contains(&tokens).then_some(tokens).ok_or(PriceError::Bound(field))
        };
        let long = match &self.long {
            Some(long) => Some((
                within("long.above_tokens", long.above_tokens)?,
                tariff(LONG, [&long.input, &long.output], [&long.cached_input, &long.cache_write])?,
            )),
            None => None,
        };
        Ok(Price {
            usual: tariff(
                USUAL,
                [&self.input, &self.output],
                [&self.cached_input, &self.cache_write],
            )?,
            long,
            max_input_tokens: within("max_input_tokens", self.max_input_tokens)?,
            max_output_tokens: within("max_output_tokens", self.max_output_tokens)?,
            reasons: self.reasons,
        })
    }
}

/// Names of figures: input, output, cached input, cache write.
type Names = [&'static str; 4];
const USUAL: Names = ["input", "output", "cached_input", "cache_write"];
const LONG: Names = ["long.input", "long.output", "long.cached_input", "long.cache_write"];

fn tariff(
    names: Names,
    [input, output]: [&str; 2],
    [cached, written]: [&Option<String>; 2],
) -> Result<Tariff, PriceError> {
    let figure = |field, text: &str| {
        PerMillion::parse(text).map_err(|why| PriceError::Figure {
            field,
            text: text.chars().take(80).collect(),
            why,
        })
    };
    let [input_name, output_name, cached_name, written_name] = names;
    let input = figure(input_name, input)?;
    let or_input = |field, text: &Option<String>| match text {
        Some(text) => figure(field, text),
        None => Ok(input),
    };
    let cache_write = or_input(written_name, written)?;
    Ok(Tariff {
        input,
        cached_input: or_input(cached_name, cached)?,
        cache_write,
        // An hour's cache costs twice the input where caches are paid for.
        cache_write_hour: cache_write.max(input.doubled()),
        output: figure(output_name, output)?,
    })
}

const fn longest_input() -> u64 {
    2_000_000
}

const fn longest_output() -> u64 {
    200_000
}

const fn yes() -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::price::CacheWrites::{Hour, None as NoCache};

    const PLAIN: u32 = 1_000_000;

    pub(super) fn spec(model: &str, input: &str, output: &str) -> PriceSpec {
        PriceSpec::plain(model, input, output)
    }

    #[test]
    fn a_call_costs_the_sum_of_its_tokens_rounded_up_once() {
        let table = PriceTable::built_in().unwrap();
        let tokens = |input, cached_input, output| Tokens {
            input,
            cached_input,
            output,
            ..Tokens::default()
        };
        let cost = |model, tokens| table.find(model).unwrap().cost(&tokens, PLAIN).micros();
        assert_eq!(cost("gpt-4o", tokens(1_000_000, 0, 0)), 2_500_000);
        assert_eq!(cost("gpt-4o", tokens(0, 1_000_000, 1_000_000)), 11_250_000);
        assert_eq!(cost("gpt-4o-mini", tokens(1, 0, 0)), 1, "0.15 rounds up");
        assert_eq!(cost("gpt-4o-mini", tokens(1, 1, 1)), 1, "0.15 + 0.075 + 0.6");
        assert_eq!(cost("gpt-4o", Tokens::default()), 0);
        let huge = Tokens { output: u64::MAX, ..Tokens::default() };
        assert_eq!(cost("o1-pro", huge), i64::MAX);
    }

    #[test]
    fn a_surcharge_and_a_long_input_raise_the_price() {
        let mut long = spec("m", "1", "2");
        long.cache_write = Some("1.25".to_owned());
        long.long = Some(LongSpec {
            above_tokens: 100,
            input: "2".to_owned(),
            cached_input: None,
            cache_write: None,
            output: "3".to_owned(),
        });
        let price = long.price().unwrap();
        let tokens = |input| Tokens { input, output: 100, ..Tokens::default() };
        assert_eq!(price.cost(&tokens(100), PLAIN).micros(), 300);
        assert_eq!(price.cost(&tokens(101), PLAIN).micros(), 502);
        assert_eq!(price.cost(&tokens(100), 2_500_000).micros(), 750);
        assert_eq!(price.bound(100, 100, NoCache, PLAIN).micros(), 300);
        assert_eq!(price.bound(100, 100, Hour, PLAIN).micros(), 400, "an hour's cache");
        assert_eq!(price.bound(101, 100, NoCache, PLAIN).micros(), 502);
    }

    #[test]
    fn a_wrong_price_names_its_field() {
        let mut bad = spec("m", "-1", "2");
        assert!(bad.price().unwrap_err().to_string().starts_with("input: `-1`"));
        bad = spec("", "1", "2");
        assert!(matches!(bad.price(), Err(PriceError::Name(_))));
        bad = spec("a*b", "1", "2");
        assert!(matches!(bad.price(), Err(PriceError::Name(_))));
        bad = spec("m", "1", "2");
        bad.long = Some(LongSpec {
            above_tokens: 1,
            input: "1".to_owned(),
            cached_input: None,
            cache_write: Some("x".to_owned()),
            output: "1".to_owned(),
        });
        assert!(bad.price().unwrap_err().to_string().starts_with("long.cache_write: `x`"));
        bad = spec("m", "1", "2");
        bad.max_output_tokens = 0;
        assert_eq!(bad.price().unwrap_err(), PriceError::Bound("max_output_tokens"));
    }

    proptest::proptest! {
        #[test]
        fn no_split_of_tokens_costs_more_than_the_bound(
            parts in proptest::array::uniform5(0_u64..300_000),
            surcharge in 1_000_000_u32..6_000_000,
        ) {
            let [input, cached_input, cache_write, cache_write_hour, output] = parts;
            let tokens = Tokens { input, cached_input, cache_write, cache_write_hour, output };
            let table = PriceTable::built_in().unwrap();
            for model in ["gpt-4o", "claude-sonnet-4-5", "gpt-5.4", "o3", "claude-opus-4-6"] {
                let price = table.find(model).unwrap();
                let bound = price.bound(tokens.all_input(), output, Hour, surcharge);
                proptest::prop_assert!(price.cost(&tokens, surcharge) <= bound);
            }
        }
    }
}
