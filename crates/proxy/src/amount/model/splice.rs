//! The one change that the gate makes to a body: it asks a stream for its usage. The rest of the body
//! stays as it was, to the byte.

use agentguard_core::action::Unreadable;
use bytes::Bytes;
use serde_json::{Map, Value};

use super::ask::Ask;

const ASKED: &str = r#""stream_options":{"include_usage":true}"#;

/// The body with `stream_options.include_usage` set.
pub(super) fn asking_usage(body: &[u8], ask: &Ask<'_>) -> Result<Bytes, Unreadable> {
    let Some(raw) = ask.stream_options else {
        // As the first member: an object that streams is never empty.
        let brace = body.iter().position(|byte| *byte == b'{').ok_or(Unreadable::Malformed)?;
        let (before, after) =
            body.split_at_checked(brace.saturating_add(1)).ok_or(Unreadable::Malformed)?;
        return Ok([before, ASKED.as_bytes(), b",", after].concat().into());
    };
    let options: Option<Map<String, Value>> =
        serde_json::from_str(raw.get()).map_err(|_| Unreadable::Malformed)?;
    let mut options = options.unwrap_or_default();
    options.insert("include_usage".to_owned(), true.into());
    let text = Value::Object(options).to_string();
    // The raw value is a part of the body, so its place is where it lies in memory.
    let start = (raw.get().as_ptr() as usize).checked_sub(body.as_ptr() as usize);
    let parts = start.and_then(|start| {
        let (before, rest) = body.split_at_checked(start)?;
        let (old, after) = rest.split_at_checked(raw.get().len())?;
        (old == raw.get().as_bytes()).then_some((before, after))
    });
    let (before, after) = parts.ok_or(Unreadable::Malformed)?;
    Ok([before, text.as_bytes(), after].concat().into())
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
            let rewritten = asking_usage(body.as_bytes(), &ask).unwrap();
            assert_eq!(rewritten, expected.as_bytes(), "{body}");
            assert!(Ask::read(&rewritten).unwrap().wants_usage().unwrap());
        }
    }
}
