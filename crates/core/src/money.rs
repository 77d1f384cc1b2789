//! Money in whole micro-units. No floats, here or anywhere on the money path.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::limits::AMOUNT_MICROS_MAX;

/// Micro-units in one unit of a currency.
pub const MICROS: i64 = 1_000_000;

/// An amount in micro US dollars. May be negative where it is a difference or a debt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct MicroUsd(i64);

impl MicroUsd {
    /// Nothing.
    pub const ZERO: Self = Self(0);

    /// So many millionths of a dollar.
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// Millionths of a dollar.
    pub const fn micros(self) -> i64 {
        self.0
    }

    /// The sum, held at the ends of the range: a sum that does not fit must not wrap into room.
    pub const fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// The difference, held at the ends of the range.
    pub const fn minus(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// `part` millionths of this, rounded down.
    pub fn share(self, part: Ppm) -> Self {
        Self(scale(self.0, i64::from(part.0), MICROS, Rounding::Down))
    }

    /// Reads `"50.00"`: no sign, no exponent, at most six places.
    pub fn parse(text: &str) -> Result<Self, DecimalError> {
        parse_micros(text).map(Self)
    }
}

impl fmt::Display for MicroUsd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_decimal(f, self.0)
    }
}

impl Serialize for MicroUsd {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A share in parts per million: `0.8` is 800,000.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ppm(pub u32);

/// A currency by its three letters.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Currency([u8; 3]);

impl Currency {
    /// The US dollar, in which budgets are kept.
    pub const USD: Self = Self(*b"USD");

    /// The currency of this code, in either case.
    pub fn parse(code: &str) -> Option<Self> {
        let bytes: [u8; 3] = code.as_bytes().try_into().ok()?;
        bytes
            .iter()
            .all(u8::is_ascii_alphabetic)
            .then(|| Self(bytes.map(|b| b.to_ascii_uppercase())))
    }

    /// Its code in capitals.
    pub fn code(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or("???")
    }
}

impl fmt::Display for Currency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

impl fmt::Debug for Currency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

impl Serialize for Currency {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.code())
    }
}

impl<'de> Deserialize<'de> for Currency {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text)
            .ok_or_else(|| serde::de::Error::custom(format!("`{text}` is no currency code")))
    }
}

/// An amount in some currency, never negative.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Money {
    micros: i64,
    currency: Currency,
}

impl Money {
    /// So many micro-units; `None` if negative or beyond [`AMOUNT_MICROS_MAX`].
    pub fn new(micros: i64, currency: Currency) -> Option<Self> {
        (0..=AMOUNT_MICROS_MAX).contains(&micros).then_some(Self { micros, currency })
    }

    /// From minor units with so many digits after the point (JPY 0, USD 2, KWD 3).
    pub fn from_minor(minor: u64, digits: u32, currency: Currency) -> Option<Self> {
        let factor = 10_i64.checked_pow(6_u32.checked_sub(digits)?)?;
        Self::new(i64::try_from(minor).ok()?.checked_mul(factor)?, currency)
    }

    /// Micro-units.
    pub const fn micros(self) -> i64 {
        self.micros
    }

    /// Its currency.
    pub const fn currency(self) -> Currency {
        self.currency
    }

    /// The sum, if both are in one currency and it can be named.
    pub fn plus(self, other: Self) -> Option<Self> {
        if self.currency != other.currency {
            return None;
        }
        Self::new(self.micros.checked_add(other.micros)?, self.currency)
    }

    /// The amount without its currency: `"12.50"`.
    pub fn decimal(self) -> String {
        MicroUsd(self.micros).to_string()
    }
}

impl fmt::Display for Money {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_decimal(f, self.micros)?;
        write!(f, " {}", self.currency)
    }
}

/// What one unit of each currency is worth in US dollars.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rates(BTreeMap<Currency, i64>);

impl Rates {
    /// From rates in micro-dollars for one unit. A rate of nothing would make spending free, so it
    /// must be positive.
    pub fn new(rates: impl IntoIterator<Item = (Currency, i64)>) -> Option<Self> {
        let table: BTreeMap<_, _> = rates.into_iter().collect();
        table.values().all(|rate| *rate > 0).then_some(Self(table))
    }

    /// In dollars, rounded up; `None` if the currency has no rate.
    pub fn to_usd(&self, money: Money) -> Option<MicroUsd> {
        if money.currency == Currency::USD {
            return Some(MicroUsd(money.micros));
        }
        let rate = *self.0.get(&money.currency)?;
        Some(MicroUsd(scale(money.micros, rate, MICROS, Rounding::Up)))
    }

    /// The currencies that have a rate, with it in micro-dollars.
    pub fn iter(&self) -> impl Iterator<Item = (Currency, i64)> + '_ {
        self.0.iter().map(|(currency, rate)| (*currency, *rate))
    }
}

/// Why a text is no amount.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum DecimalError {
    /// Not `123` or `123.45`.
    #[error("is not a decimal number such as `50.00`")]
    Malformed,
    /// More than six digits after the point.
    #[error("has more than six digits after the point")]
    TooFine,
    /// Beyond what can be named.
    #[error("is larger than 1,000,000,000")]
    TooLarge,
}

/// Reads a decimal number as millionths. Exact: what cannot be represented is an error.
pub fn parse_micros(text: &str) -> Result<i64, DecimalError> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let digits_only = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    if !digits_only(whole) || !digits_only(fraction) {
        return Err(DecimalError::Malformed);
    }
    let fine = fraction.trim_end_matches('0');
    if fine.len() > 6 {
        return Err(DecimalError::TooFine);
    }
    let units: i64 = whole.parse().map_err(|_| DecimalError::TooLarge)?;
    let rest: i64 = format!("{fine:0<6}").parse().map_err(|_| DecimalError::Malformed)?;
    units
        .checked_mul(MICROS)
        .and_then(|micros| micros.checked_add(rest))
        .filter(|micros| *micros <= AMOUNT_MICROS_MAX)
        .ok_or(DecimalError::TooLarge)
}

#[derive(Clone, Copy)]
enum Rounding {
    Up,
    Down,
}

/// `value * by / of`, held at the ends of the range. `of` is a positive constant of the caller.
fn scale(value: i64, by: i64, of: i64, rounding: Rounding) -> i64 {
    let product = i128::from(value).saturating_mul(i128::from(by));
    let of = i128::from(of.max(1));
    let up = match rounding {
        Rounding::Up => of.saturating_sub(1),
        Rounding::Down => 0,
    };
    let quotient = product.saturating_add(up).div_euclid(of);
    i64::try_from(quotient).unwrap_or(if quotient < 0 { i64::MIN } else { i64::MAX })
}

/// At least two places, up to six, no trailing zeros beyond cents: `1.20`, `0.000125`.
fn write_decimal(f: &mut fmt::Formatter<'_>, micros: i64) -> fmt::Result {
    let sign = if micros < 0 { "-" } else { "" };
    let absolute = micros.unsigned_abs();
    let units = absolute.div_euclid(1_000_000);
    let fraction = format!("{:06}", absolute.rem_euclid(1_000_000));
    let fine = fraction.trim_end_matches('0');
    write!(f, "{sign}{units}.{fine:0<2}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_read_exactly_or_not_at_all() {
        for (text, expected) in [
            ("50.00", Ok(50_000_000)),
            ("0", Ok(0)),
            ("0.000001", Ok(1)),
            ("1.2000000000", Ok(1_200_000)),
            ("0.0000001", Err(DecimalError::TooFine)),
            ("1000000001", Err(DecimalError::TooLarge)),
            ("99999999999999999999", Err(DecimalError::TooLarge)),
            ("-1", Err(DecimalError::Malformed)),
            ("+1", Err(DecimalError::Malformed)),
            ("1e3", Err(DecimalError::Malformed)),
            (".5", Err(DecimalError::Malformed)),
            ("5.", Err(DecimalError::Malformed)),
            ("", Err(DecimalError::Malformed)),
            ("١", Err(DecimalError::Malformed)),
            ("1,000", Err(DecimalError::Malformed)),
        ] {
            assert_eq!(parse_micros(text), expected, "{text}");
        }
    }

    #[test]
    fn amounts_are_shown_with_cents_and_what_is_finer() {
        for (micros, shown) in
            [(0, "0.00"), (1_200_000, "1.20"), (125, "0.000125"), (-2_500_000, "-2.50")]
        {
            assert_eq!(MicroUsd(micros).to_string(), shown);
        }
    }

    #[test]
    fn minor_units_follow_the_currency() {
        let yen = Currency::parse("jpy").unwrap();
        assert_eq!(Money::from_minor(500, 0, yen).unwrap().micros(), 500_000_000);
        assert_eq!(Money::from_minor(500, 2, Currency::USD).unwrap().decimal(), "5.00");
        assert_eq!(
            Money::from_minor(500, 3, Currency::parse("KWD").unwrap()).unwrap().decimal(),
            "0.50"
        );
        assert_eq!(Money::from_minor(u64::MAX, 2, Currency::USD), None);
    }

    #[test]
    fn conversion_rounds_against_the_spender_and_needs_a_rate() {
        let eur = Currency::parse("EUR").unwrap();
        let rates = Rates::new([(eur, 1_080_001)]).unwrap();
        assert_eq!(rates.to_usd(Money::new(1, eur).unwrap()), Some(MicroUsd(2)));
        assert_eq!(rates.to_usd(Money::new(1, Currency::parse("GBP").unwrap()).unwrap()), None);
        assert!(Rates::new([(eur, 0)]).is_none());
    }

    proptest::proptest! {
        #[test]
        fn what_is_shown_reads_back_the_same(micros in 0..=AMOUNT_MICROS_MAX) {
            proptest::prop_assert_eq!(parse_micros(&MicroUsd(micros).to_string()), Ok(micros));
        }
    }
}
