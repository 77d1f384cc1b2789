//! Going through conversations and lists of tools for what stands in them besides text.

use std::fmt;

use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor,
};

use super::scalar::{Name, Scalar};

/// What stands in messages besides text.
#[derive(Debug, Default)]
pub(super) struct Parts {
    pub(super) images: u64,
    pub(super) elsewhere: bool,
    pub(super) audio: bool,
    pub(super) caches: bool,
    /// Tools are added in the middle of the conversation.
    pub(super) tools: bool,
}

#[derive(Debug, Default)]
pub(super) struct Tools {
    pub(super) count: u64,
    /// Types that are not run by the agent itself, or not known to be.
    pub(super) foreign: bool,
}

/// Whether a `type` says what a part of a message is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Reads {
    /// In the conversation's own items.
    Items,
    /// In what they are made of.
    Parts,
    /// In a tool's schema it is something else.
    CachesOnly,
}

/// Goes through a value for what stands in it besides text.
pub(super) struct Skim<'p> {
    pub(super) parts: &'p mut Parts,
    pub(super) reads: Reads,
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
pub(super) struct ToolList<'p> {
    pub(super) tools: &'p mut Tools,
    pub(super) parts: &'p mut Parts,
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
pub(super) struct Modalities<'p>(pub(super) &'p mut bool);

impl<'de> DeserializeSeed<'de> for Modalities<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        let named: Option<Vec<Scalar<'de>>> = Deserialize::deserialize(deserializer)?;
        *self.0 |= named.unwrap_or_default().iter().any(|kind| !kind.is("text"));
        Ok(())
    }
}

/// How many prompts there are, and whether it is one that is stored at the provider.
pub(super) struct Prompts;

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
