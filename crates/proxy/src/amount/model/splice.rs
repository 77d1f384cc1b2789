//! The changes that the gate makes to a body: it asks a stream for its usage, and lowers a maximum where
//! the operator lets it. The rest of the body stays as it was, to the byte.

use agentguard_core::action::Unreadable;
use bytes::Bytes;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::Api;
use super::ask::Ask;

/// A body and what is to change in it.
#[derive(Debug)]
pub(super) struct Splice<'a> {
    body: &'a [u8],
    /// Where, how many bytes, and what stands there instead.
    changes: Vec<(usize, usize, String)>,
}

impl<'a> Splice<'a> {
    pub(super) const fn new(body: &'a [u8]) -> Self {
        Self { body, changes: Vec::new() }
    }

    /// Sets `stream_options.include_usage`.
    pub(super) fn ask_usage(&mut self, ask: &Ask<'a>) -> Result<(), Unreadable> {
        let Some(raw) = ask.stream_options else {
            return self.insert(r#""stream_options":{"include_usage":true}"#.to_owned());
        };
        let options: Option<Map<String, Value>> =
            serde_json::from_str(raw.get()).map_err(|_| Unreadable::Malformed)?;
        let mut options = options.unwrap_or_default();
        options.insert("include_usage".to_owned(), true.into());
        self.replace(raw, Value::Object(options).to_string())
    }

    /// Sets every maximum that is named, or else this one.
    pub(super) fn lower(
        &mut self,
        ask: &Ask<'a>,
        (api, name): (Api, &str),
        tokens: u64,
    ) -> Result<(), Unreadable> {
        let mut named = ask.maxima(api).peekable();
        if named.peek().is_none() {
            return self.insert(format!("\"{name}\":{tokens}"));
        }
        named.try_for_each(|raw| self.replace(raw, tokens.to_string()))
    }

    /// The body as it goes out; none if nothing changes.
    pub(super) fn finish(mut self) -> Result<Option<Bytes>, Unreadable> {
        if self.changes.is_empty() {
            return Ok(None);
        }
        self.changes.sort_by_key(|(start, ..)| *start);
        let mut whole = Vec::with_capacity(self.body.len().saturating_add(64));
        let mut at = 0;
        for (start, bytes, text) in &self.changes {
            whole.extend_from_slice(self.body.get(at..*start).ok_or(Unreadable::Malformed)?);
            whole.extend_from_slice(text.as_bytes());
            at = start.saturating_add(*bytes);
        }
        whole.extend_from_slice(self.body.get(at..).ok_or(Unreadable::Malformed)?);
        Ok(Some(whole.into()))
    }

    /// As the first member: what is changed here names a model, so it is never empty.
    fn insert(&mut self, member: String) -> Result<(), Unreadable> {
        let brace = self.body.iter().position(|byte| *byte == b'{').ok_or(Unreadable::Malformed)?;
        self.changes.push((brace.saturating_add(1), 0, member + ","));
        Ok(())
    }

    /// The raw value is a part of the body, so its place is where it lies in memory.
    fn replace(&mut self, raw: &RawValue, text: String) -> Result<(), Unreadable> {
        let old = raw.get().as_bytes();
        let start = (old.as_ptr() as usize).checked_sub(self.body.as_ptr() as usize);
        let start = start.ok_or(Unreadable::Malformed)?;
        if self.body.get(start..start.saturating_add(old.len())) != Some(old) {
            return Err(Unreadable::Malformed);
        }
        self.changes.push((start, old.len(), text));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_is_asked_for_and_the_rest_stays() {
        for (body, expected) in [
            (
                r#"{"model":"m","stream":true}"#,
                r#"{"stream_options":{"include_usage":true},"model":"m","stream":true}"#,
            ),
            (
                " \n{ \"stream\" : true }\n",
                " \n{\"stream_options\":{\"include_usage\":true}, \"stream\" : true }\n",
            ),
            (
                r#"{"stream_options":null,"stream":true}"#,
                r#"{"stream_options":{"include_usage":true},"stream":true}"#,
            ),
            (
                r#"{"stream":true, "stream_options" : {"include_usage":false} , "a":1}"#,
                r#"{"stream":true, "stream_options" : {"include_usage":true} , "a":1}"#,
            ),
            (
                r#"{"stream_options":{"include_obfuscation":false},"stream":true}"#,
                r#"{"stream_options":{"include_obfuscation":false,"include_usage":true},"stream":true}"#,
            ),
        ] {
            let ask = Ask::read(body.as_bytes()).unwrap();
            assert!(!ask.wants_usage().unwrap());
            let mut splice = Splice::new(body.as_bytes());
            splice.ask_usage(&ask).unwrap();
            let rewritten = splice.finish().unwrap().unwrap();
            assert_eq!(rewritten, expected.as_bytes(), "{body}");
            assert!(Ask::read(&rewritten).unwrap().wants_usage().unwrap());
        }
    }

    #[test]
    fn every_maximum_is_lowered() {
        for (body, expected) in [
            (r#"{"model":"m"}"#, r#"{"max_tokens":7,"model":"m"}"#),
            (r#"{"max_tokens": 99 ,"model":"m"}"#, r#"{"max_tokens": 7 ,"model":"m"}"#),
            (
                r#"{"max_tokens":99,"model":"m","max_completion_tokens":"88"}"#,
                r#"{"max_tokens":7,"model":"m","max_completion_tokens":7}"#,
            ),
        ] {
            let ask = Ask::read(body.as_bytes()).unwrap();
            let mut splice = Splice::new(body.as_bytes());
            splice.lower(&ask, (Api::Chat, "max_tokens"), 7).unwrap();
            assert_eq!(splice.finish().unwrap().unwrap(), expected.as_bytes(), "{body}");
        }
        assert_eq!(Splice::new(b"{}").finish(), Ok(None));
    }
}
