//! Server-sent events, parted as they pass, in pieces of any size. Every payload goes through `scan`.
//!
//! Never here: what an event means for the money.

use memchr::memchr2;

use super::scan::{Found, Scan};

/// Bytes at a line's start that are kept to know its field.
const FIELD_BYTES: usize = 5;

/// Parts a stream into events.
#[derive(Debug, Default)]
pub(super) struct Events {
    scan: Scan,
    line: Line,
    /// The field's first bytes, while they come.
    field: [u8; FIELD_BYTES],
    field_bytes: usize,
    /// The last byte was a carriage return, so a line feed belongs to it.
    after_return: bool,
    /// Something stands in this event.
    any: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Line {
    /// Not one byte of the line has come.
    #[default]
    Start,
    /// It may become `data:`.
    Field,
    Data,
    /// A comment or another field.
    Other,
}

impl Events {
    /// Takes the next bytes; calls `ended` for each event that ends in them, with the place behind it.
    pub(super) fn feed(&mut self, bytes: &[u8], mut ended: impl FnMut(usize, Found)) {
        let mut place = 0;
        while let Some(rest) = bytes.get(place..).filter(|rest| !rest.is_empty()) {
            if std::mem::take(&mut self.after_return) && rest.first() == Some(&b'\n') {
                place = place.saturating_add(1);
                continue;
            }
            let end = memchr2(b'\n', b'\r', rest);
            self.content(rest.get(..end.unwrap_or(rest.len())).unwrap_or_default());
            let Some(end) = end else { return };
            place = place.saturating_add(end).saturating_add(1);
            self.after_return = rest.get(end) == Some(&b'\r');
            // The event ends behind both bytes of its last line end, if both are here.
            if self.after_return && bytes.get(place) == Some(&b'\n') {
                self.after_return = false;
                place = place.saturating_add(1);
            }
            let blank = self.line == Line::Start;
            self.line = Line::Start;
            if blank && std::mem::take(&mut self.any) {
                ended(place, self.scan.finish());
            }
        }
    }

    /// What of the last event has come, if the stream ended within it.
    pub(super) fn finish(&mut self) -> Found {
        self.scan.finish()
    }

    /// A part of a line.
    fn content(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        self.any = true;
        if self.line == Line::Start {
            self.line = Line::Field;
            self.field_bytes = 0;
        }
        let mut rest = bytes;
        while self.line == Line::Field {
            let Some((byte, after)) = rest.split_first() else { return };
            rest = after;
            if let Some(slot) = self.field.get_mut(self.field_bytes) {
                *slot = *byte;
            }
            self.field_bytes = self.field_bytes.saturating_add(1);
            if self.field_bytes == FIELD_BYTES {
                self.line = if self.field == *b"data:" { Line::Data } else { Line::Other };
            }
        }
        if self.line == Line::Data {
            self.scan.feed(rest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(stream: &str, expected: &[Option<&str>]) {
        for piece in [1, 2, 3, 5, 1_000] {
            let mut events = Events::default();
            let mut usages = Vec::new();
            let mut ends = Vec::new();
            for (nth, bytes) in stream.as_bytes().chunks(piece).enumerate() {
                events.feed(bytes, |place, found| {
                    usages.push(found.usage.map(|kept| String::from_utf8(kept).unwrap()));
                    ends.push(nth * piece + place);
                });
            }
            let seen: Vec<_> = usages.iter().map(Option::as_deref).collect();
            assert_eq!(seen, expected, "{stream:?} by {piece}");
            if piece == 1_000 && !stream.contains("\n\n\n") {
                assert_eq!(
                    ends.last().copied().unwrap_or(stream.len()),
                    stream.len(),
                    "{stream:?}"
                );
            }
        }
    }

    #[test]
    fn events_end_at_a_blank_line_of_any_kind() {
        for end in ["\n", "\r\n", "\r"] {
            let stream = [r#"data: {"usage":{"a":1}}"#, "", r#"data:{"usage":{"a":2}}"#, "", ""];
            check(&stream.join(end), &[Some(r#"{"a":1}"#), Some(r#"{"a":2}"#)]);
        }
        check("event: x\ndata: {\"usage\":{\ndata: \"a\":1}}\n\n", &[Some("{ \"a\":1}")]);
        check(": ping\n\n", &[None]);
        check("data: [DONE]\n\n", &[None]);
        check("dat\n\n", &[None]);
        check("id: 1\nretry: 5\n\ndata: {\"usage\":{\"a\":1}}\n\n", &[None, Some("{\"a\":1}")]);
        check("\n\n\ndata: 1\n\n", &[None]);
        check("xdata: {\"usage\":{\"a\":1}}\n\n", &[None]);
        check("data: {\"usage\":{\"a\":1}}", &[]);
        check("data: {\"usage\":{\"a\":1}}\n", &[]);
    }
}
