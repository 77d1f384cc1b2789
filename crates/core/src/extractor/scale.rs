//! From a written number to money, exactly. What is finer than a millionth counts as a whole one.

use crate::money::{Currency, MICROS, Money, parse_micros};

/// Digits of a number that are read. Real amounts have a dozen, with a tail of a computed cost.
const DIGITS_MAX: usize = 30;

/// Currencies that have no minor unit, or are sent without one. With fewer digits an amount counts
/// for more: where interfaces differ (ISK, UGX, MGA), too much is the safe side.
const NO_DECIMALS: [&str; 17] = [
    "BIF", "CLP", "DJF", "GNF", "ISK", "JPY", "KMF", "KRW", "MGA", "PYG", "RWF", "UGX", "VND",
    "VUV", "XAF", "XOF", "XPF",
];
/// Currencies whose minor unit is a thousandth.
const THREE_DECIMALS: [&str; 7] = ["BHD", "IQD", "JOD", "KWD", "LYD", "OMR", "TND"];

/// A plain non-negative number as it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decimal {
    digits: i128,
    /// How many of the digits stand after the point.
    places: u32,
}

/// What a number counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// The currency's minor unit: cents, yen, fils.
    Minor,
    /// So many millionths of a unit.
    Factor(i64),
}

impl Decimal {
    /// Reads `1999` and `12.5`; no sign, no exponent.
    pub fn parse(text: &str) -> Option<Self> {
        let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
        let is_digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        if !is_digits(whole) || !is_digits(fraction) {
            return None;
        }
        let fraction = fraction.trim_end_matches('0');
        if whole.len().saturating_add(fraction.len()) > DIGITS_MAX {
            return None;
        }
        let digits = format!("{whole}{fraction}").parse().ok()?;
        Some(Self { digits, places: u32::try_from(fraction.len()).ok()? })
    }
}

impl Scale {
    /// Reads `minor`, `units`, `micros` or a factor such as `0.01`.
    pub fn parse(text: &str) -> Result<Self, String> {
        match text {
            "minor" => return Ok(Self::Minor),
            "units" => return Ok(Self::Factor(MICROS)),
            "micros" => return Ok(Self::Factor(1)),
            _ => {}
        }
        let shown: String = text.chars().take(40).collect();
        match parse_micros(text) {
            Ok(0) => Err("must be more than 0: nothing may be free by its scale".into()),
            Ok(factor) => Ok(Self::Factor(factor)),
            Err(why) => {
                Err(format!("must be `minor`, `units`, `micros` or a factor; `{shown}` {why}"))
            }
        }
    }

    /// So much of a currency, rounded up; none if it is more than can be named.
    pub fn money(self, number: Decimal, currency: Currency) -> Option<Money> {
        let factor = match self {
            Self::Factor(factor) => i128::from(factor),
            Self::Minor => 10_i128.checked_pow(6_u32.checked_sub(minor_digits(currency))?)?,
        };
        let of = 10_i128.checked_pow(number.places)?;
        let product = number.digits.checked_mul(factor)?;
        let micros = product.checked_add(of.checked_sub(1)?)?.checked_div(of)?;
        Money::new(i64::try_from(micros).ok()?, currency)
    }
}

fn minor_digits(currency: Currency) -> u32 {
    match currency.code() {
        code if NO_DECIMALS.contains(&code) => 0,
        code if THREE_DECIMALS.contains(&code) => 3,
        _ => 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(number: &str, scale: &str, currency: &str, expected: Option<&str>) {
        let scale = Scale::parse(scale).unwrap();
        let currency = Currency::parse(currency).unwrap();
        let found = Decimal::parse(number).and_then(|number| scale.money(number, currency));
        let found = found.map(|money| money.to_string());
        assert_eq!(found.as_deref(), expected, "{number} {scale:?}");
    }

    #[test]
    fn numbers_become_money_exactly() {
        check("12.5", "units", "USD", Some("12.50 USD"));
        check("0.1", "units", "USD", Some("0.10 USD"));
        check("1999", "minor", "USD", Some("19.99 USD"));
        check("1999", "0.01", "USD", Some("19.99 USD"));
        check("500", "minor", "JPY", Some("500.00 JPY"));
        check("1234", "minor", "KWD", Some("1.234 KWD"));
        check("500", "minor", "ISK", Some("500.00 ISK"));
        check("5000000", "micros", "EUR", Some("5.00 EUR"));
        check("3", "0.04", "USD", Some("0.12 USD"));
        check("0", "units", "USD", Some("0.00 USD"));
        check("007.50", "units", "USD", Some("7.50 USD"));
        check("1.0000000000000000000000000000000000", "units", "USD", Some("1.00 USD"));
    }

    #[test]
    fn what_is_finer_than_a_millionth_rounds_up() {
        check("0.00000123456789", "units", "USD", Some("0.000002 USD"));
        check("0.0000001", "units", "USD", Some("0.000001 USD"));
        check("1.5", "micros", "USD", Some("0.000002 USD"));
        check("10.001", "minor", "USD", Some("0.10001 USD"));
    }

    #[test]
    fn what_is_no_plain_number_is_none() {
        for number in [
            "",
            "-1",
            "+1",
            "1e3",
            "1E3",
            ".5",
            "5.",
            "1,5",
            "1.2.3",
            "NaN",
            "Infinity",
            "0x10",
            "١",
            " 1",
            "1 ",
            "1000000001",
            "9999999999999999999999999999999999",
            "170141183460469231731687303715",
        ] {
            check(number, "units", "USD", None);
        }
        check("999999999999999999999999999999", "1000000000", "USD", None);
        for scale in ["", "0", "-1", "cents", "1e2", "0.0000001", "MINOR"] {
            assert!(Scale::parse(scale).is_err(), "{scale}");
        }
    }
}
