//! A model call's body, as far as it says what the call can cost. One pass, nothing copied.
//!
//! Never here: prices.

mod scalar;
mod skim;

use std::fmt;

use agentguard_core::action::Unreadable;
use serde::de::{Deserializer as _, Error, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::Api;
use scalar::{Name, Scalar, whole};
use skim::{Modalities, Parts, Prompts, Reads, Skim, ToolList, Tools};

/// A surcharge of none.
const PLAIN_PPM: u32 = 1_000_000;
/// OpenAI's `service_tier: priority`: 1.7 to 2.5 times, by model.
const PRIORITY_PPM: u32 = 2_500_000;
/// Anthropic's `speed: fast`: six times.
const FAST_PPM: u32 = 6_000_000;
/// Anthropic's `inference_geo`: a tenth more.
const GEO_PERCENT: u32 = 110;

/// What a body says of the call's cost.
#[derive(Debug, Default)]
pub(super) struct Ask<'a> {
    model: Option<Scalar<'a>>,
    stream: Option<bool>,
    pub(super) stream_options: Option<&'a RawValue>,
    /// `max_tokens`, `max_completion_tokens` and `max_output_tokens`, as they stand in the body.
    maxima: [Option<&'a RawValue>; 3],
    n: Option<Scalar<'a>>,
    best_of: Option<Scalar<'a>>,
    prompts: Option<u64>,
    service_tier: Option<Scalar<'a>>,
    speed: Option<Scalar<'a>>,
    inference_geo: Option<Scalar<'a>>,
    /// Names of members that were there, and neither null nor false.
    present: Vec<&'static str>,
    parts: Parts,
    tools: Tools,
}

/// Members that a call can name once, and that say something of its cost by being there.
const TELLING: [&str; 16] = [
    "audio",
    "background",
    "compaction",
    "container",
    "conversation",
    "fallbacks",
    "mcp_servers",
    "models",
    "prediction",
    "previous_response_id",
    "prompt",
    "reasoning",
    "stored_prompt",
    "thinking",
    "thread",
    "web_search_options",
];

impl<'a> Ask<'a> {
    pub(super) fn read(body: &'a [u8]) -> Result<Self, Unreadable> {
        let mut source = serde_json::Deserializer::from_slice(body);
        let ask = source.deserialize_map(Whole).map_err(|_| Unreadable::Malformed)?;
        source.end().map_err(|_| Unreadable::Malformed)?;
        match &ask.model {
            None | Some(Scalar::Null | Scalar::Text(_)) => Ok(ask),
            Some(Scalar::Whole(_) | Scalar::Bool(_) | Scalar::Other) => Err(Unreadable::Malformed),
        }
    }

    pub(super) fn model(&self) -> &str {
        match &self.model {
            Some(Scalar::Text(name)) => name,
            Some(Scalar::Null | Scalar::Whole(_) | Scalar::Bool(_) | Scalar::Other) | None => "",
        }
    }

    pub(super) fn streams(&self) -> bool {
        self.stream == Some(true)
    }

    /// Whether the agent asks for the usage of its stream itself.
    pub(super) fn wants_usage(&self) -> Result<bool, Unreadable> {
        #[derive(serde::Deserialize)]
        struct Options {
            #[serde(default)]
            include_usage: Option<bool>,
        }
        let Some(raw) = self.stream_options else { return Ok(false) };
        let options: Option<Options> =
            serde_json::from_str(raw.get()).map_err(|_| Unreadable::Malformed)?;
        Ok(options.and_then(|options| options.include_usage).unwrap_or(false))
    }

    /// The largest of this call's own maxima that are named: which of them a server takes is its own
    /// affair. Those of other calls bound nothing, and nor does a zero, which some servers take for none.
    pub(super) fn max_output(&self, api: Api) -> Result<Option<u64>, Unreadable> {
        let largest = self.maxima(api).try_fold(None, |largest: Option<u64>, raw| {
            let value = serde_json::from_str(raw.get()).map_err(|_| Unreadable::Malformed)?;
            Ok(largest.max(whole(&Some(value))?))
        })?;
        Ok(largest.filter(|tokens| *tokens > 0))
    }

    /// The maxima that bound this call.
    pub(super) fn maxima(&self, api: Api) -> impl Iterator<Item = &'a RawValue> {
        let [max_tokens, max_completion_tokens, max_output_tokens] = self.maxima;
        let own = match api {
            Api::Chat => [max_tokens, max_completion_tokens],
            Api::Completions | Api::Messages => [max_tokens, None],
            Api::Responses => [max_output_tokens, None],
            Api::Embeddings => [None, None],
        };
        own.into_iter().flatten()
    }

    /// How many answers are written at the most.
    pub(super) fn answers(&self) -> Result<u64, Unreadable> {
        let n = whole(&self.n)?.unwrap_or(1).max(1);
        let best_of = whole(&self.best_of)?.unwrap_or(1).max(1);
        Ok(n.max(best_of).saturating_mul(self.prompts.unwrap_or(1).max(1)))
    }

    /// What costs on top of tokens, or in tokens that no bound holds.
    pub(super) fn beyond_tokens(&self, api: Api) -> Option<&'static str> {
        let at_provider = ["web_search_options", "mcp_servers", "container"];
        let foreign = self.tools.foreign || self.parts.tools;
        if foreign || at_provider.into_iter().any(|name| self.has(name)) {
            return Some("a tool that runs at the provider");
        }
        if self.has("fallbacks") || self.has("models") {
            return Some("another model in its place");
        }
        if self.has("compaction") {
            return Some("compaction at the provider");
        }
        if self.parts.audio || self.has("audio") {
            return Some("audio");
        }
        let tier = match &self.service_tier {
            None | Some(Scalar::Null) => None,
            Some(Scalar::Text(name)) => Some(&**name),
            Some(Scalar::Whole(_) | Scalar::Bool(_) | Scalar::Other) => Some("?"),
        };
        let known = match api {
            Api::Messages => ["auto", "standard_only", "standard"].as_slice(),
            Api::Chat | Api::Completions | Api::Responses | Api::Embeddings => {
                &["auto", "default", "flex", "priority", "scale"]
            }
        };
        if tier.is_some_and(|tier| !known.contains(&tier)) {
            return Some("this service tier");
        }
        let speed_known = self.speed.as_ref().is_none_or(|speed| {
            matches!(speed, Scalar::Null) || speed.is("fast") || speed.is("standard")
        });
        (!speed_known).then_some("this speed")
    }

    /// In millionths, all surcharges together.
    pub(super) fn surcharge_ppm(&self) -> u32 {
        let mut ppm = PLAIN_PPM;
        if self.service_tier.as_ref().is_some_and(|tier| tier.is("priority")) {
            ppm = PRIORITY_PPM;
        }
        if self.speed.as_ref().is_some_and(|speed| speed.is("fast")) {
            ppm = FAST_PPM;
        }
        let elsewhere = |geo: &Scalar<'_>| !matches!(geo, Scalar::Null) && !geo.is("global");
        if self.inference_geo.as_ref().is_some_and(elsewhere) {
            ppm = ppm.saturating_mul(GEO_PERCENT).div_euclid(100);
        }
        ppm
    }

    /// Whether what goes in is not all in the body.
    pub(super) fn refers_elsewhere(&self) -> bool {
        let named = ["previous_response_id", "conversation", "stored_prompt", "thread"];
        self.parts.elsewhere || named.into_iter().any(|name| self.has(name))
    }

    pub(super) fn tools(&self) -> u64 {
        self.tools.count
    }

    pub(super) fn images(&self) -> u64 {
        self.parts.images
    }

    pub(super) fn caches(&self) -> bool {
        self.parts.caches
    }

    pub(super) fn predicts(&self) -> bool {
        self.has("prediction")
    }

    /// Whether tokens are written that the answer does not show: by thinking, or after it.
    pub(super) fn writes_unseen(&self) -> bool {
        ["thinking", "reasoning", "background"].into_iter().any(|name| self.has(name))
    }

    fn has(&self, name: &str) -> bool {
        self.present.contains(&name)
    }

    /// Takes the value of one member. A member that is there twice, or in another case, could be read
    /// in another way by the upstream.
    fn take<A: MapAccess<'a>>(&mut self, name: &str, members: &mut A) -> Result<(), A::Error> {
        match name {
            "model" => once(&mut self.model, members),
            "max_tokens" | "max_completion_tokens" | "max_output_tokens" => {
                let raw = members.next_value()?;
                let [max_tokens, max_completion_tokens, max_output_tokens] = &mut self.maxima;
                let slot = match name {
                    "max_tokens" => max_tokens,
                    "max_completion_tokens" => max_completion_tokens,
                    _ => max_output_tokens,
                };
                put(slot, raw)
            }
            "n" => once(&mut self.n, members),
            "best_of" => once(&mut self.best_of, members),
            "service_tier" => once(&mut self.service_tier, members),
            "speed" => once(&mut self.speed, members),
            "inference_geo" => once(&mut self.inference_geo, members),
            "stream" => {
                let stream = match members.next_value()? {
                    Scalar::Bool(stream) => stream,
                    Scalar::Null => false,
                    Scalar::Whole(_) | Scalar::Text(_) | Scalar::Other => {
                        return Err(A::Error::custom("no plain `stream`"));
                    }
                };
                put(&mut self.stream, stream)
            }
            "stream_options" => {
                let raw = members.next_value()?;
                put(&mut self.stream_options, raw)
            }
            "messages" | "input" | "system" => {
                members.next_value_seed(Skim { parts: &mut self.parts, reads: Reads::Items })
            }
            "context_management" => {
                let raw: &RawValue = members.next_value()?;
                if raw.get().contains("compact") {
                    self.present.push("compaction");
                }
                Ok(())
            }
            "tools" => {
                members.next_value_seed(ToolList { tools: &mut self.tools, parts: &mut self.parts })
            }
            "modalities" => members.next_value_seed(Modalities(&mut self.parts.audio)),
            "prompt" => {
                let (prompts, stored) = members.next_value_seed(Prompts)?;
                if stored {
                    self.present.push("stored_prompt");
                }
                put(&mut self.prompts, prompts)
            }
            "cache_control" => {
                self.parts.caches = true;
                members.next_value::<IgnoredAny>().map(drop)
            }
            other => match TELLING.into_iter().find(|telling| *telling == other) {
                Some(telling) => {
                    if !matches!(members.next_value()?, Scalar::Null | Scalar::Bool(false)) {
                        self.present.push(telling);
                    }
                    Ok(())
                }
                None if is_misspelt(other) => Err(A::Error::custom("a member in capitals")),
                None => members.next_value::<IgnoredAny>().map(drop),
            },
        }
    }
}

/// Some servers compare names without their case.
fn is_misspelt(name: &str) -> bool {
    const READ: [&str; 15] = [
        "best_of",
        "inference_geo",
        "input",
        "max_completion_tokens",
        "max_output_tokens",
        "max_tokens",
        "messages",
        "modalities",
        "model",
        "n",
        "service_tier",
        "speed",
        "stream",
        "stream_options",
        "tools",
    ];
    name.bytes().any(|byte| byte.is_ascii_uppercase())
        && READ.into_iter().chain(TELLING).any(|known| known.eq_ignore_ascii_case(name))
}

fn once<'a, A: MapAccess<'a>>(
    slot: &mut Option<Scalar<'a>>,
    members: &mut A,
) -> Result<(), A::Error> {
    let value = members.next_value()?;
    put(slot, value)
}

fn put<T, E: Error>(slot: &mut Option<T>, value: T) -> Result<(), E> {
    match slot.replace(value) {
        None => Ok(()),
        Some(_) => Err(E::custom("a member is there twice")),
    }
}

struct Whole;

impl<'de> Visitor<'de> for Whole {
    type Value = Ask<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Ask<'de>, A::Error> {
        let mut ask = Ask::default();
        while let Some(Name(name)) = members.next_key()? {
            ask.take(&name, &mut members)?;
        }
        Ok(ask)
    }
}
