//! What the model APIs share: how much was asked, how much is answered, and a text of that size.
//!
//! Tokens are simple and deterministic: four bytes of text are one input token, each word of the
//! answer is one output token. Never here: a provider's shapes.

use serde_json::Value;

use super::call::Call;
use super::sse::Count;

/// Long enough to see several events, short enough to read in a failed test.
const OUTPUT_TOKENS_DEFAULT: u64 = 8;
/// A finite answer stays small in memory; longer streams are `endless`.
const OUTPUT_TOKENS_MAX: u64 = 100_000;
/// No second clock in the tests: everything was made at one instant.
pub(crate) const CREATED_AT: u64 = 1_700_000_000;

/// A model call, read.
pub(crate) struct Ask {
    pub(crate) model: String,
    pub(crate) stream: bool,
    pub(crate) input_tokens: u64,
    pub(crate) cached_tokens: u64,
    pub(crate) cache_write_tokens: u64,
    pub(crate) reasoning_tokens: u64,
    pub(crate) count: Count,
    /// The caller's maximum ended the answer.
    pub(crate) cut: bool,
}

impl Ask {
    /// `input` are the members that hold the prompt, `maxima` those that bound the answer.
    pub(crate) fn read(call: &Call, body: &Value, input: &[&str], maxima: &[&str]) -> Option<Self> {
        let prompt = input.iter().map(|name| size_of(&body[*name])).sum::<Size>();
        let input_tokens =
            call.knob_number("x-test-input-tokens").unwrap_or_else(|| prompt.tokens());
        let most = maxima.iter().find_map(|name| body[*name].as_u64());
        let wanted =
            Count::wanted(call, "x-test-events").unwrap_or(Count::Events(OUTPUT_TOKENS_DEFAULT));
        let (count, cut) = match (wanted, most) {
            (Count::Endless, _) => (Count::Endless, false),
            (Count::Events(wanted), most) => {
                let given = wanted.min(most.unwrap_or(u64::MAX)).min(OUTPUT_TOKENS_MAX);
                (Count::Events(given), given < wanted)
            }
        };
        Some(Self {
            model: body["model"].as_str()?.to_owned(),
            stream: body["stream"].as_bool().unwrap_or(false),
            input_tokens,
            cached_tokens: call.knob_number("x-test-cached-tokens").unwrap_or(0),
            cache_write_tokens: call.knob_number("x-test-cache-write-tokens").unwrap_or(0),
            reasoning_tokens: call.knob_number("x-test-reasoning-tokens").unwrap_or(0),
            count,
            cut,
        })
    }

    /// Output tokens of a finite answer; an endless one never gets as far as saying it.
    pub(crate) fn output_tokens(&self) -> u64 {
        match self.count {
            Count::Events(count) => count,
            Count::Endless => 0,
        }
    }
}

/// The word with this number; its space stands in front from the second on.
pub(crate) fn word(n: u64) -> String {
    if n == 0 { "w0".to_owned() } else { format!(" w{n}") }
}

pub(crate) fn text(words: u64) -> String {
    (0..words).map(word).collect()
}

/// Text in bytes, and tokens that were sent as numbers.
#[derive(Clone, Copy, Default)]
struct Size {
    bytes: u64,
    numbers: u64,
}

impl Size {
    fn tokens(self) -> u64 {
        self.bytes.div_ceil(4) + self.numbers
    }
}

impl std::iter::Sum for Size {
    fn sum<I: Iterator<Item = Self>>(sizes: I) -> Self {
        sizes.fold(Self::default(), |a, b| Self {
            bytes: a.bytes + b.bytes,
            numbers: a.numbers + b.numbers,
        })
    }
}

pub(crate) fn input_tokens(value: &Value) -> u64 {
    size_of(value).tokens()
}

fn size_of(value: &Value) -> Size {
    match value {
        Value::String(text) => Size { bytes: text.len() as u64, numbers: 0 },
        Value::Number(_) => Size { bytes: 0, numbers: 1 },
        Value::Array(items) => items.iter().map(size_of).sum(),
        Value::Object(members) => members.values().map(size_of).sum(),
        Value::Null | Value::Bool(_) => Size::default(),
    }
}
