//! A model call's body, as far as it says what the call can cost. One pass, nothing copied.
//!
//! Never here: prices.

use std::borrow::Cow;
use std::fmt;

use agentguard_core::action::Unreadable;
use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor,
};
use serde_json::value::RawValue;

use super::Api;

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

/// What stands in messages besides text.
#[derive(Debug, Default)]
struct Parts {
    images: u64,
    elsewhere: bool,
    audio: bool,
    caches: bool,
    /// Tools are added in the middle of the conversation.
    tools: bool,
}

#[derive(Debug, Default)]
struct Tools {
    count: u64,
    /// Types that are not run by the agent itself, or not known to be.
    foreign: bool,
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

/// A number, or a text of digits, which some servers take for one.
fn whole(value: &Option<Scalar<'_>>) -> Result<Option<u64>, Unreadable> {
    match value {
        None | Some(Scalar::Null) => Ok(None),
        Some(Scalar::Whole(number)) => Ok(Some(*number)),
        Some(Scalar::Text(text)) => super::super::digits(text).map(Some),
        Some(Scalar::Bool(_) | Scalar::Other) => Err(Unreadable::NotAnAmount),
    }
}

/// A value that is no list and no object, or marked as such.
#[derive(Debug)]
enum Scalar<'a> {
    Null,
    Bool(bool),
    Whole(u64),
    Text(Cow<'a, str>),
    /// A list, an object, or a number that is negative, fractional or too large.
    Other,
}

impl Scalar<'_> {
    fn is(&self, word: &str) -> bool {
        matches!(self, Self::Text(text) if text == word)
    }
}

impl<'de> Deserialize<'de> for Scalar<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ScalarVisitor)
    }
}

struct ScalarVisitor;

impl<'de> Visitor<'de> for ScalarVisitor {
    type Value = Scalar<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E: Error>(self) -> Result<Scalar<'de>, E> {
        Ok(Scalar::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Scalar<'de>, E> {
        Ok(Scalar::Bool(value))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Scalar<'de>, E> {
        Ok(Scalar::Whole(number))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Scalar<'de>, E> {
        Ok(u64::try_from(number).map_or(Scalar::Other, Scalar::Whole))
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<Scalar<'de>, E> {
        Ok(Scalar::Other)
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Scalar<'de>, E> {
        Ok(Scalar::Text(Cow::Borrowed(text)))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Scalar<'de>, E> {
        Ok(Scalar::Text(Cow::Owned(text.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Scalar<'de>, A::Error> {
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Scalar::Other)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Scalar<'de>, A::Error> {
        while members.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Scalar::Other)
    }
}

/// The name of a member, borrowed where it can be.
struct Name<'a>(Cow<'a, str>);

impl<'de> Deserialize<'de> for Name<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Scalar::deserialize(deserializer)? {
            Scalar::Text(name) => Ok(Self(name)),
            Scalar::Null | Scalar::Bool(_) | Scalar::Whole(_) | Scalar::Other => {
                Err(D::Error::custom("no name"))
            }
        }
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

/// Whether a `type` says what a part of a message is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reads {
    /// In the conversation's own items.
    Items,
    /// In what they are made of.
    Parts,
    /// In a tool's schema it is something else.
    CachesOnly,
}

/// Goes through a value for what stands in it besides text.
struct Skim<'p> {
    parts: &'p mut Parts,
    reads: Reads,
}

impl<'de> DeserializeSeed<'de> for Skim<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl Parts {
    fn see(&mut self, kind: &str) {
        if ["additional_tool", "tool_addition", "tool_definition"]
            .into_iter()
            .any(|word| kind.contains(word))
        {
            self.tools = true;
        }
        if kind.contains("audio") {
            self.audio = true;
        } else if ["file", "document", "video", "reference", "container", "pdf"]
            .into_iter()
            .any(|word| kind.contains(word))
        {
            self.elsewhere = true;
        }
    }
}

macro_rules! nothing {
    () => {
        fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
            Ok(Default::default())
        }

        fn visit_bool<E: Error>(self, _: bool) -> Result<Self::Value, E> {
            Ok(Default::default())
        }

        fn visit_u64<E: Error>(self, _: u64) -> Result<Self::Value, E> {
            Ok(Default::default())
        }

        fn visit_i64<E: Error>(self, _: i64) -> Result<Self::Value, E> {
            Ok(Default::default())
        }

        fn visit_f64<E: Error>(self, _: f64) -> Result<Self::Value, E> {
            Ok(Default::default())
        }
    };
}

impl<'de> Visitor<'de> for Skim<'_> {
    type Value = ();

    nothing!();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let Self { parts, reads } = self;
        while items.next_element_seed(Skim { parts: &mut *parts, reads })?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        let Self { parts, reads } = self;
        let below = match reads {
            Reads::Items | Reads::Parts => Reads::Parts,
            Reads::CachesOnly => Reads::CachesOnly,
        };
        let mut has_image = false;
        // An item that is only named: what it says is kept at the provider.
        let (mut has_id, mut has_content, mut is_plain) = (false, false, true);
        while let Some(Name(name)) = members.next_key()? {
            has_id |= &*name == "id";
            has_content |= &*name == "content";
            match (&*name, reads) {
                ("type", Reads::Items | Reads::Parts) => {
                    if let Scalar::Text(kind) = members.next_value()? {
                        has_image |= kind.contains("image");
                        is_plain &= &*kind == "message";
                        parts.see(&kind);
                    }
                }
                ("cache_control", _) => {
                    parts.caches = true;
                    members.next_value::<IgnoredAny>()?;
                }
                // Some servers take `{"image_url": …}` without its type.
                (
                    "image_url" | "file_id" | "file_url" | "file_data",
                    Reads::Items | Reads::Parts,
                ) => {
                    has_image |= &*name == "image_url";
                    parts.elsewhere |= &*name != "image_url";
                    members.next_value::<IgnoredAny>()?;
                }
                _ => members.next_value_seed(Skim { parts: &mut *parts, reads: below })?,
            }
        }
        parts.elsewhere |= reads == Reads::Items && has_id && !has_content && is_plain;
        parts.images = parts.images.saturating_add(u64::from(has_image));
        Ok(())
    }
}

/// The list of tools.
struct ToolList<'p> {
    tools: &'p mut Tools,
    parts: &'p mut Parts,
}

impl<'de> DeserializeSeed<'de> for ToolList<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ToolList<'_> {
    type Value = ();

    nothing!();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("tools")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let Self { tools, parts } = self;
        while items
            .next_element_seed(ToolList { tools: &mut *tools, parts: &mut *parts })?
            .is_some()
        {
            tools.count = tools.count.saturating_add(1);
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        let Self { tools, parts } = self;
        while let Some(Name(name)) = members.next_key()? {
            if &*name == "type" {
                let runs_here = match members.next_value()? {
                    Scalar::Null => true,
                    Scalar::Text(kind) => is_run_by_agent(&kind),
                    Scalar::Bool(_) | Scalar::Whole(_) | Scalar::Other => false,
                };
                tools.foreign |= !runs_here;
            } else {
                let reads = Reads::CachesOnly;
                members.next_value_seed(Skim { parts: &mut *parts, reads })?;
            }
        }
        Ok(())
    }
}

fn is_run_by_agent(kind: &str) -> bool {
    matches!(kind, "function" | "custom" | "local_shell" | "apply_patch")
        || ["bash_", "text_editor_", "computer_", "memory_"]
            .into_iter()
            .any(|start| kind.starts_with(start))
}

/// `modalities`: anything but text is paid for otherwise.
struct Modalities<'p>(&'p mut bool);

impl<'de> DeserializeSeed<'de> for Modalities<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        let named: Option<Vec<Scalar<'de>>> = Deserialize::deserialize(deserializer)?;
        *self.0 |= named.unwrap_or_default().iter().any(|kind| !kind.is("text"));
        Ok(())
    }
}

/// How many prompts there are, and whether it is one that is stored at the provider.
struct Prompts;

impl<'de> DeserializeSeed<'de> for Prompts {
    type Value = (u64, bool);

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(u64, bool), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Prompts {
    type Value = (u64, bool);

    nothing!();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a prompt")
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<(u64, bool), E> {
        Ok((1, false))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(u64, bool), A::Error> {
        let mut count: u64 = 0;
        while let Some(item) = items.next_element()? {
            // Numbers are the tokens of one prompt.
            let prompts = u64::from(!matches!(item, Scalar::Whole(_)));
            count = count.saturating_add(prompts);
        }
        Ok((count, false))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(u64, bool), A::Error> {
        while members.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok((1, true))
    }
}
