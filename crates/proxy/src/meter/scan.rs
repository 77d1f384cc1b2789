//! JSON looked at as it passes, in pieces of any size: the usage is kept, text is counted, all else is
//! only stepped over. Memory stays the same whatever the length of an answer.
//!
//! Lenient on purpose: what passes here goes to the agent in any case. Whether the usage makes sense is
//! judged where it is read (`usage`).

use memchr::memchr2;

use crate::limits::USAGE_BYTES_MAX;

/// Levels whose names are kept. Usage stands at the second at the deepest, text at the fourth.
const LEVELS: usize = 6;

/// Bytes of a name that are kept: one more than the longest that counts has.
const NAME_BYTES: usize = 18;

/// What was found in one document.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// The last object named `usage` in a place where one counts.
    pub(super) usage: Option<Vec<u8>>,
    /// Bytes of text that the model wrote, as they stand in the JSON.
    pub(super) text_bytes: u64,
    /// Some of it is certainly the model's own words, and so at least a token.
    pub(super) has_words: bool,
    /// `choices` was there and empty, as in the event that only holds the usage.
    pub(super) no_choices: bool,
}

/// Looks at one document after the other.
#[derive(Debug, Default)]
pub(super) struct Scan {
    lex: Lex,
    depth: usize,
    /// The name under which each level stands, and whether it is an object.
    levels: [Level; LEVELS],
    /// The name that was read last, for the value that follows.
    name: Name,
    name_text: [u8; NAME_BYTES],
    name_bytes: usize,
    /// In an object the next string is a name.
    wants_name: bool,
    /// `choices` was opened and nothing has come yet.
    choices_open: bool,
    /// Depth at which the kept object ends, and its bytes.
    keeps: Option<(usize, Vec<u8>)>,
    found: Found,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Lex {
    #[default]
    Outside,
    Text(Role),
    Escape(Role),
}

/// What a string is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Name,
    /// Written by the model.
    Counted,
    Other,
}

#[derive(Clone, Copy, Debug, Default)]
struct Level {
    name: Name,
    is_object: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Name {
    Usage,
    Response,
    Message,
    Delta,
    Choices,
    Text,
    /// Another member that holds the model's words.
    Words,
    /// A member of a delta that says what it is, and is not written by the model.
    Label,
    #[default]
    Other,
}

impl Scan {
    /// Takes the next bytes of the document.
    pub(super) fn feed(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let taken = match self.lex {
                Lex::Outside => self.step(rest),
                Lex::Text(role) => self.text(rest, role),
                Lex::Escape(role) => {
                    self.lex = Lex::Text(role);
                    1
                }
            };
            let (seen, after) = rest.split_at_checked(taken).unwrap_or((rest, &[]));
            self.keep(seen);
            rest = after;
        }
    }

    /// The document is over: what was found in it. The next one begins.
    pub(super) fn finish(&mut self) -> Found {
        let found = std::mem::take(&mut self.found);
        *self = Self::default();
        found
    }

    /// Steps over what is outside of strings, to the next thing that matters.
    fn step(&mut self, bytes: &[u8]) -> usize {
        for (place, byte) in bytes.iter().enumerate() {
            match byte {
                b'"' => {
                    self.begins();
                    self.lex = Lex::Text(self.role());
                    self.name_bytes = 0;
                }
                b'{' | b'[' => {
                    self.begins();
                    self.open(*byte == b'{');
                }
                b'}' | b']' => self.close(),
                b',' => {
                    self.wants_name = self.level(self.depth).is_some_and(|level| level.is_object);
                    continue;
                }
                b':' => {
                    self.wants_name = false;
                    continue;
                }
                b' ' | b'\t' | b'\r' | b'\n' => continue,
                _ => {
                    self.begins();
                    continue;
                }
            }
            // Up to here in one piece, so that keeping sees every byte at its depth.
            return place.saturating_add(1);
        }
        bytes.len()
    }

    /// Steps over a string, to its end or the next escape.
    fn text(&mut self, bytes: &[u8], role: Role) -> usize {
        let end = memchr2(b'"', b'\\', bytes);
        let inside = end.unwrap_or(bytes.len());
        match role {
            Role::Name => self.spell(bytes.get(..inside).unwrap_or_default()),
            Role::Counted => {
                let count = u64::try_from(inside).unwrap_or(u64::MAX);
                self.found.text_bytes = self.found.text_bytes.saturating_add(count);
                let is_words = matches!(self.name, Name::Delta | Name::Text | Name::Words);
                self.found.has_words |= is_words && count > 0;
            }
            Role::Other => {}
        }
        match end.and_then(|end| bytes.get(end)) {
            Some(b'"') => {
                self.lex = Lex::Outside;
                if role == Role::Name {
                    self.name = self.spelt();
                }
                inside.saturating_add(1)
            }
            Some(_) => {
                if role == Role::Counted {
                    self.found.text_bytes = self.found.text_bytes.saturating_add(1);
                }
                // No name that counts is written with escapes by any provider.
                self.name_bytes = NAME_BYTES;
                self.lex = Lex::Escape(role);
                inside.saturating_add(1)
            }
            None => inside,
        }
    }

    /// A value or a name begins.
    fn begins(&mut self) {
        self.choices_open = false;
    }

    fn role(&self) -> Role {
        if self.wants_name {
            Role::Name
        } else if self.is_written_by_model() {
            Role::Counted
        } else {
            Role::Other
        }
    }

    /// `delta` at the top, or `delta` and `text` in one of the choices, and all that is below but for
    /// labels.
    fn is_written_by_model(&self) -> bool {
        if self.name == Name::Label {
            return false;
        }
        let at = |depth: usize| match depth.cmp(&self.depth) {
            // The value of this level is being read: its name was the last one.
            std::cmp::Ordering::Equal => self.name,
            std::cmp::Ordering::Less => {
                self.level(depth.saturating_add(1)).map_or(Name::Other, |level| level.name)
            }
            std::cmp::Ordering::Greater => Name::Other,
        };
        match at(1) {
            Name::Delta => true,
            Name::Choices => matches!(at(3), Name::Delta | Name::Text),
            Name::Usage
            | Name::Response
            | Name::Message
            | Name::Text
            | Name::Words
            | Name::Label
            | Name::Other => false,
        }
    }

    fn open(&mut self, is_object: bool) {
        let name = self.name;
        self.depth = self.depth.saturating_add(1);
        if let Some(level) = self.depth.checked_sub(1).and_then(|at| self.levels.get_mut(at)) {
            *level = Level { name, is_object };
        }
        self.name = Name::Other;
        self.wants_name = is_object;
        if is_object && name == Name::Usage && self.is_usage_place() {
            self.keeps = Some((self.depth, Vec::with_capacity(256)));
        }
        self.choices_open = !is_object && name == Name::Choices && self.depth == 2;
    }

    /// At the top of the document, or in the `response` or `message` there.
    fn is_usage_place(&self) -> bool {
        match self.depth {
            2 => true,
            3 => self
                .level(2)
                .is_some_and(|level| matches!(level.name, Name::Response | Name::Message)),
            _ => false,
        }
    }

    fn close(&mut self) {
        if std::mem::take(&mut self.choices_open) {
            self.found.no_choices = true;
        }
        self.depth = self.depth.saturating_sub(1);
        self.name = Name::Other;
        self.wants_name = false;
    }

    fn level(&self, depth: usize) -> Option<&Level> {
        self.levels.get(depth.checked_sub(1)?)
    }

    fn spell(&mut self, bytes: &[u8]) {
        for byte in bytes {
            match self.name_text.get_mut(self.name_bytes) {
                Some(slot) => *slot = *byte,
                None => return,
            }
            self.name_bytes = self.name_bytes.saturating_add(1);
        }
    }

    fn spelt(&self) -> Name {
        match self.name_text.get(..self.name_bytes).unwrap_or_default() {
            b"usage" => Name::Usage,
            b"response" => Name::Response,
            b"message" => Name::Message,
            b"delta" => Name::Delta,
            b"choices" => Name::Choices,
            b"text" => Name::Text,
            b"content" | b"arguments" | b"partial_json" | b"thinking" | b"refusal"
            | b"reasoning" | b"reasoning_content" => Name::Words,
            b"role" | b"type" | b"id" | b"stop_reason" | b"stop_sequence" | b"finish_reason"
            | b"signature" => Name::Label,
            _ => Name::Other,
        }
    }

    /// Keeps what belongs to the usage. Its last brace has lowered the depth already.
    fn keep(&mut self, seen: &[u8]) {
        let Some((depth, kept)) = &mut self.keeps else { return };
        // It begins with its brace, the last byte of the step that opened it.
        let own = if kept.is_empty() { seen.last_chunk::<1>().map_or(seen, |l| l) } else { seen };
        kept.extend_from_slice(own);
        let over = self.depth < *depth;
        if kept.len() > USAGE_BYTES_MAX {
            self.keeps = None;
        } else if over {
            self.found.usage = self.keeps.take().map(|(_, kept)| kept);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scan(document: &str, piece: usize) -> Found {
        let mut scan = Scan::default();
        document.as_bytes().chunks(piece).for_each(|bytes| scan.feed(bytes));
        scan.finish()
    }

    fn check(document: &str, usage: Option<&str>, text_bytes: u64, no_choices: bool) {
        for piece in [1, 2, 3, 7, 64, 100_000] {
            let found = scan(document, piece);
            let text = found.usage.map(|kept| String::from_utf8(kept).unwrap());
            assert_eq!(text.as_deref(), usage, "{document} by {piece}");
            assert_eq!(found.text_bytes, text_bytes, "{document} by {piece}");
            assert_eq!(found.no_choices, no_choices, "{document} by {piece}");
        }
    }

    #[test]
    fn usage_is_found_where_it_counts() {
        check(r#"{"usage":{"a":1}}"#, Some(r#"{"a":1}"#), 0, false);
        check(
            r#"{ "x" : [1,{"y":"}"}] , "usage" : {"a":{"b":[1]}} }"#,
            Some(r#"{"a":{"b":[1]}}"#),
            0,
            false,
        );
        check(r#"{"response":{"output":[],"usage":{"a":1}}}"#, Some(r#"{"a":1}"#), 0, false);
        check(r#"{"message":{"usage":{"a":1}}}"#, Some(r#"{"a":1}"#), 0, false);
        check(r#"{"usage":{"a":1},"usage":{"a":2}}"#, Some(r#"{"a":2}"#), 0, false);
        check(r#"{"usage":null}"#, None, 0, false);
        check(r#"{"usage":[{"a":1}]}"#, None, 0, false);
        check(r#"[{"usage":{"a":1}}]"#, None, 0, false);
        check(r#"{"content":{"usage":{"a":1}}}"#, None, 0, false);
        check(r#"{"response":{"x":{"usage":{"a":1}}}}"#, None, 0, false);
        check(r#"{"text":"\"usage\":{\"a\":1}"}"#, None, 0, false);
        check(r#"{"usage":{"a":1"#, None, 0, false);
        check("", None, 0, false);
    }

    #[test]
    fn text_is_what_the_model_wrote() {
        check(
            r#"{"choices":[{"index":0,"delta":{"content":"abc"}}],"usage":null}"#,
            None,
            3,
            false,
        );
        check(
            r#"{"choices":[{"delta":{"tool_calls":[{"function":{"arguments":"{}"}}]}}]}"#,
            None,
            2,
            false,
        );
        check(r#"{"choices":[{"text":"abcd"}]}"#, None, 4, false);
        check(r#"{"type":"response.output_text.delta","delta":"ab\n"}"#, None, 3, false);
        check(r#"{"delta":{"type":"text_delta","text":"xyz"}}"#, None, 3, false);
        check(r#"{"choices":[{"finish_reason":"stop"}],"text":"abc"}"#, None, 0, false);
    }

    #[test]
    fn words_are_told_from_labels() {
        for (document, expected) in [
            (r#"{"choices":[{"delta":{"role":"assistant","content":""}}]}"#, false),
            (r#"{"choices":[{"delta":{"content":"x"}}]}"#, true),
            (r#"{"choices":[{"delta":{"tool_calls":[{"function":{"arguments":"{"}}]}}]}"#, true),
            (r#"{"delta":{"stop_reason":"end_turn","stop_sequence":null}}"#, false),
            (r#"{"delta":{"type":"signature_delta","signature":"abc"}}"#, false),
            (r#"{"delta":"x"}"#, true),
            (r#"{"delta":{"unheard_of":"x"}}"#, false),
        ] {
            assert_eq!(scan(document, 1_000).has_words, expected, "{document}");
        }
    }

    #[test]
    fn the_event_that_only_holds_usage_is_known() {
        check(r#"{"choices":[],"usage":{"a":1}}"#, Some(r#"{"a":1}"#), 0, true);
        check(r#"{"choices":[ ] ,"x":1}"#, None, 0, true);
        check(r#"{"choices":[1]}"#, None, 0, false);
        check(r#"{"choices":["x"]}"#, None, 0, false);
        check(r#"{"choices":{}}"#, None, 0, false);
        check(r#"{"y":{"choices":[]}}"#, None, 0, false);
    }

    #[test]
    fn an_endless_usage_is_not_kept() {
        let long = format!(r#"{{"usage":{{"a":"{}"}}}}"#, "x".repeat(USAGE_BYTES_MAX));
        check(&long, None, 0, false);
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_in_any_pieces_are_survived(
            bytes in proptest::collection::vec(
                proptest::sample::select(b"{}[]\":,\\ udseagchoict1".as_slice()), 0..200),
            piece in 1_usize..9,
        ) {
            let mut whole = Scan::default();
            whole.feed(&bytes);
            let whole = whole.finish();
            let mut parts = Scan::default();
            bytes.chunks(piece).for_each(|bytes| parts.feed(bytes));
            let parts = parts.finish();
            proptest::prop_assert_eq!(whole.usage, parts.usage);
            proptest::prop_assert_eq!(whole.text_bytes, parts.text_bytes);
            proptest::prop_assert_eq!(whole.no_choices, parts.no_choices);
        }
    }
}
