//! Extractors: where an operator says the money of a call is.
//!
//! A specification is text; [`ExtractorSpec::compile`] makes valid types of it, and every error names
//! its field. Never here: reading a body.

mod pattern;
mod place;
mod scale;

use serde::{Deserialize, Serialize};
use thiserror::Error;

pub use pattern::PathPattern;
pub use place::{JsonPath, Step};
pub use scale::{Decimal, Scale};

use crate::money::{Currency, Money, parse_micros};

/// What method an extractor may name: those that pass the door.
const METHODS: [&str; 7] = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"];

/// An extractor as it is written and stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExtractorSpec {
    /// Calls of this method only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// Calls of these paths, below the service's base URL: `/v1/orders/*/pay`, `/v1/**`.
    pub path: String,
    /// Which side names the money.
    #[serde(default)]
    pub source: Source,
    /// `$.a.b[0]`, `$.items[*].price` (summed), `form:NAME`, or `fixed:0.04`.
    pub amount: String,
    /// A factor, `units`, `minor` or `micros`.
    #[serde(default = "units")]
    pub scale: String,
    /// `USD`, or where the code stands.
    #[serde(default = "usd")]
    pub currency: String,
    /// What is reserved before a call whose answer names the money.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<String>,
}

/// Which side of a call names its money.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// The request: the amount is known before it leaves.
    #[default]
    Request,
    /// The answer: a maximum is reserved, and the amount settles it.
    Response,
}

/// An extractor that can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extractor {
    method: Option<&'static str>,
    path: PathPattern,
    /// What is read of a call that fits.
    pub reads: Reads,
}

/// What is read, and from where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reads {
    /// Nothing: every call costs this.
    Fixed(Money),
    /// The request.
    Request(Figures),
    /// The answer; this much is reserved.
    Response(Figures, Money),
}

/// Where the amount and its currency stand, and what the amount counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Figures {
    /// The amount.
    pub amount: Place,
    /// What it counts.
    pub scale: Scale,
    /// Its currency.
    pub currency: CurrencyPlace,
}

/// Where a value stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// In JSON.
    Json(JsonPath),
    /// The field of a form with this name.
    Form(String),
}

/// Which currency an amount is in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CurrencyPlace {
    /// Always this one.
    Fixed(Currency),
    /// The one that is named there.
    At(Place),
}

/// Why a specification cannot be used.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{field}: {why}")]
pub struct ExtractorError {
    /// The field that is wrong.
    pub field: &'static str,
    /// What is wrong with it.
    pub why: String,
}

impl ExtractorSpec {
    /// Checks and compiles.
    pub fn compile(&self) -> Result<Extractor, ExtractorError> {
        let wrong = |field| move |why: String| ExtractorError { field, why };
        let method = self.method.as_deref().map(method).transpose().map_err(wrong("method"))?;
        let path = PathPattern::parse(&self.path).map_err(wrong("path"))?;
        let reads = match self.amount.strip_prefix("fixed:") {
            Some(amount) => Reads::Fixed(self.fixed(amount)?),
            None => self.read()?,
        };
        Ok(Extractor { method, path, reads })
    }

    fn fixed(&self, amount: &str) -> Result<Money, ExtractorError> {
        let wrong = |field, why: &str| ExtractorError { field, why: why.to_owned() };
        if self.source == Source::Response {
            return Err(wrong("source", "a fixed amount is known before the call: use `request`"));
        }
        if self.scale != units() {
            return Err(wrong("scale", "a fixed amount is in whole units: leave it out"));
        }
        self.no_max()?;
        let CurrencyPlace::Fixed(currency) = currency(&self.currency)? else {
            return Err(wrong("currency", "a fixed amount needs a code such as `USD`"));
        };
        money("amount", amount, currency)
    }

    fn read(&self) -> Result<Reads, ExtractorError> {
        let wrong = |field| move |why: String| ExtractorError { field, why };
        let amount = place(&self.amount).map_err(wrong("amount"))?.ok_or_else(|| {
            let why = "must be a path such as `$.amount`, `form:NAME`, or `fixed:0.04`".to_owned();
            ExtractorError { field: "amount", why }
        })?;
        let scale = Scale::parse(&self.scale).map_err(wrong("scale"))?;
        let currency = currency(&self.currency)?;
        let mixed = match (&amount, &currency) {
            (_, CurrencyPlace::Fixed(_))
            | (Place::Json(_), CurrencyPlace::At(Place::Json(_)))
            | (Place::Form(_), CurrencyPlace::At(Place::Form(_))) => false,
            (Place::Json(_), CurrencyPlace::At(Place::Form(_)))
            | (Place::Form(_), CurrencyPlace::At(Place::Json(_))) => true,
        };
        if mixed {
            let why = "must stand in the same kind of body as the amount".to_owned();
            return Err(wrong("currency")(why));
        }
        let figures = Figures { amount, scale, currency };
        match self.source {
            Source::Request => {
                self.no_max()?;
                Ok(Reads::Request(figures))
            }
            Source::Response => {
                if let Place::Form(_) = figures.amount {
                    let why = "answers are read as JSON: use a path such as `$.amount`".to_owned();
                    return Err(wrong("amount")(why));
                }
                let max = self.max.as_deref().ok_or_else(|| {
                    let why = "is missing: an answer comes too late to refuse a call, so so much \
                               is reserved before it";
                    wrong("max")(why.to_owned())
                })?;
                // Which currency the answer will name is not known before.
                let currency = match figures.currency {
                    CurrencyPlace::Fixed(currency) => currency,
                    CurrencyPlace::At(_) => Currency::USD,
                };
                let max = money("max", max, currency)?;
                Ok(Reads::Response(figures, max))
            }
        }
    }

    fn no_max(&self) -> Result<(), ExtractorError> {
        match self.max {
            None => Ok(()),
            Some(_) => Err(ExtractorError {
                field: "max",
                why: "has a meaning only with `source: response`; a rule bounds other calls"
                    .to_owned(),
            }),
        }
    }
}

impl Extractor {
    /// Whether a call is one of these. `path` is what follows the service's base URL, read loosely:
    /// decoded, in lower case, single slashes, none at the end.
    pub fn fits(&self, method: &str, path: &str) -> bool {
        self.method.is_none_or(|own| own == method) && self.fits_path(path)
    }

    /// The same for a call that may be taken for one of another method.
    pub fn fits_path(&self, path: &str) -> bool {
        self.path.fits(path)
    }
}

fn method(name: &str) -> Result<&'static str, String> {
    METHODS
        .into_iter()
        .find(|known| known.eq_ignore_ascii_case(name))
        .ok_or_else(|| format!("must be one of {}", METHODS.join(", ")))
}

fn currency(text: &str) -> Result<CurrencyPlace, ExtractorError> {
    let wrong = |why: String| ExtractorError { field: "currency", why };
    if let Some(place) = place(text).map_err(wrong)? {
        return Ok(CurrencyPlace::At(place));
    }
    let code = Currency::parse(text).ok_or_else(|| {
        wrong("must be a code such as `USD`, a path such as `$.currency`, or `form:NAME`".into())
    })?;
    Ok(CurrencyPlace::Fixed(code))
}

fn place(text: &str) -> Result<Option<Place>, String> {
    if text.starts_with('$') {
        return JsonPath::parse(text).map(|path| Some(Place::Json(path)));
    }
    let Some(name) = text.strip_prefix("form:") else { return Ok(None) };
    place::form_name(name).map(|name| Some(Place::Form(name)))
}

fn money(field: &'static str, text: &str, currency: Currency) -> Result<Money, ExtractorError> {
    let wrong = |why: String| ExtractorError { field, why };
    let micros = parse_micros(text)
        .map_err(|why| wrong(format!("`{}` {why}", text.chars().take(80).collect::<String>())))?;
    Money::new(micros, currency)
        .filter(|money| money.micros() > 0)
        .ok_or_else(|| wrong("must be more than nothing".to_owned()))
}

fn units() -> String {
    "units".to_owned()
}

fn usd() -> String {
    "USD".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn compile(fields: &Value) -> Result<Extractor, String> {
        let mut all = json!({"path": "/pay", "amount": "$.amount"});
        all.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        let spec: ExtractorSpec = serde_json::from_value(all).map_err(|error| error.to_string())?;
        spec.compile().map_err(|error| error.to_string())
    }

    #[test]
    fn specifications_compile_to_what_they_say() {
        let plain = compile(&json!({})).unwrap();
        let Reads::Request(figures) = &plain.reads else { panic!("{plain:?}") };
        assert_eq!(figures.currency, CurrencyPlace::Fixed(Currency::USD));
        assert_eq!(figures.scale, Scale::Factor(1_000_000));
        assert!(
            plain.fits("GET", "/pay") && plain.fits("POST", "/pay") && !plain.fits("POST", "/")
        );
        let fixed = compile(&json!({"amount": "fixed:0.04", "currency": "eur", "method": "post"}));
        let fixed = fixed.unwrap();
        let Reads::Fixed(money) = fixed.reads else { panic!("{fixed:?}") };
        assert_eq!(money.to_string(), "0.04 EUR");
        assert!(
            fixed.fits("POST", "/pay") && !fixed.fits("GET", "/pay") && fixed.fits_path("/pay")
        );
        let answer = json!({"source": "response", "max": "5", "currency": "JPY"});
        let Reads::Response(_, max) = compile(&answer).unwrap().reads else { panic!() };
        assert_eq!(max.to_string(), "5.00 JPY");
        let named = json!({"source": "response", "max": "5", "currency": "$.currency"});
        let Reads::Response(_, max) = compile(&named).unwrap().reads else { panic!() };
        assert_eq!(max.to_string(), "5.00 USD");
    }

    #[test]
    fn wrong_specifications_name_their_field() {
        for (fields, expected) in [
            (json!({"method": "CONNECT"}), "method: must be one of"),
            (json!({"path": "pay"}), "path: "),
            (json!({"amount": "amount"}), "amount: must be a path"),
            (json!({"amount": "$"}), "amount: "),
            (json!({"amount": "$..x"}), "amount: "),
            (json!({"amount": "form:"}), "amount: "),
            (json!({"amount": "fixed:-1"}), "amount: `-1`"),
            (json!({"amount": "fixed:0"}), "amount: must be more"),
            (json!({"amount": "fixed:1", "scale": "minor"}), "scale: "),
            (json!({"amount": "fixed:1", "currency": "$.c"}), "currency: "),
            (json!({"amount": "fixed:1", "max": "1"}), "max: "),
            (json!({"amount": "fixed:1", "source": "response", "max": "1"}), "source: "),
            (json!({"scale": "cents"}), "scale: "),
            (json!({"scale": "0"}), "scale: "),
            (json!({"currency": "dollars"}), "currency: must be"),
            (json!({"currency": "form:c"}), "currency: must stand"),
            (json!({"amount": "form:a", "currency": "$.c"}), "currency: must stand"),
            (json!({"max": "1"}), "max: has a meaning"),
            (json!({"source": "response"}), "max: is missing"),
            (json!({"source": "response", "max": "0"}), "max: must be more"),
            (json!({"source": "response", "max": "1e9"}), "max: `1e9`"),
            (json!({"source": "response", "max": "1", "amount": "form:a"}), "amount: answers"),
            (json!({"source": "elsewhere"}), "unknown variant `elsewhere`"),
            (json!({"amuont": "$.a"}), "unknown field `amuont`"),
        ] {
            let said = compile(&fields).unwrap_err();
            assert!(said.starts_with(expected), "{fields}: {said}");
        }
    }
}
