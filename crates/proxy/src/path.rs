//! Path safety: whether the part after the alias stays below the service's base URL, however the
//! upstream reads it. Pure.
//!
//! Never here: normalising. A path goes upstream as it came, to the byte, or not at all.

use std::fmt;

use crate::limits::DECODE_ROUNDS_MAX;

/// Why a path is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Escape {
    /// `.` or `..` as a segment, in any encoding.
    DotSegment,
    /// `%2f` or `%5c`: one server's name is another's separator.
    EncodedSlash,
    /// `\`, which some servers read as `/`.
    Backslash,
    /// `//` at the start names a host.
    Authority,
    /// A URL in place of a path.
    AbsoluteUrl,
    /// A control character or NUL, plain or encoded.
    Control,
    /// `%` without two hexadecimal digits, or bytes that are no UTF-8 in any reading.
    BadPercent,
    /// Encoded over and over.
    TooDeep,
}

impl Escape {
    pub(crate) const fn text(self) -> &'static str {
        match self {
            Self::DotSegment => "a segment is `.` or `..`, plain or encoded",
            Self::EncodedSlash => "it holds an encoded slash or backslash",
            Self::Backslash => "it holds a backslash",
            Self::Authority => "it starts with `//`, which names a host",
            Self::AbsoluteUrl => "it is a whole URL; name the service by its alias instead",
            Self::Control => "it holds a control character, plain or encoded",
            Self::BadPercent => "it holds a percent sign that is no valid escape",
            Self::TooDeep => "it is percent-encoded too many times",
        }
    }
}

impl fmt::Display for Escape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

/// Checks the raw path after the alias: empty, or starting with `/`.
pub(crate) fn check(raw: &str) -> Result<(), Escape> {
    look(raw.as_bytes())?;
    if !raw.contains('%') {
        return Ok(());
    }
    let mut text = decode(raw.as_bytes(), Malformed::Refused)?;
    for _ in 0..DECODE_ROUNDS_MAX {
        look(&text)?;
        let next = decode(&text, Malformed::Literal)?;
        if next == text {
            return Ok(());
        }
        text = next;
    }
    Err(Escape::TooDeep)
}

/// What a path says to a server that compares loosely: decoded, in lower case, with single slashes,
/// without parameters and without a slash at the end. Only for deciding what a call is; it is never
/// sent.
pub(crate) fn loosely(raw: &str) -> String {
    let mut text = raw.as_bytes().to_vec();
    for _ in 0..DECODE_ROUNDS_MAX {
        let next = decode_any(&text);
        if next == text {
            break;
        }
        text = next;
    }
    let text = String::from_utf8_lossy(&text).to_ascii_lowercase();
    let mut canonical = String::with_capacity(text.len());
    for segment in text.split(['/', '\\']) {
        let segment = segment.split(';').next().unwrap_or_default().trim();
        if !segment.is_empty() && segment != "." {
            canonical.push('/');
            canonical.push_str(segment);
        }
    }
    canonical
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Malformed {
    /// In what was sent, `%` must start an escape.
    Refused,
    /// In what was decoded once, `100%` is a plain text.
    Literal,
}

fn look(path: &[u8]) -> Result<(), Escape> {
    if path.starts_with(b"//") {
        return Err(Escape::Authority);
    }
    let is_control = |byte: &u8| *byte < 0x20 || *byte == 0x7f;
    if path.iter().any(is_control) {
        return Err(Escape::Control);
    }
    if path.contains(&b'\\') {
        return Err(Escape::Backslash);
    }
    let mut segments = path.split(|byte| *byte == b'/');
    let first = segments.by_ref().find(|segment| !segment.is_empty()).unwrap_or_default();
    if is_scheme(first) {
        return Err(Escape::AbsoluteUrl);
    }
    // `..;x=1` is `..` to servers that know path parameters.
    let is_dots = |segment: &[u8]| {
        let name = segment.split(|byte| *byte == b';').next().unwrap_or_default();
        matches!(name, b"." | b"..")
    };
    if is_dots(first) || segments.any(is_dots) {
        return Err(Escape::DotSegment);
    }
    Ok(())
}

/// `https:` as a whole segment: what follows would be a host.
fn is_scheme(segment: &[u8]) -> bool {
    let Some((b':', name)) = segment.split_last() else { return false };
    name.first().is_some_and(u8::is_ascii_alphabetic)
        && name.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.'))
}

fn decode(text: &[u8], malformed: Malformed) -> Result<Vec<u8>, Escape> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        if *byte != b'%' {
            decoded.push(*byte);
            continue;
        }
        match escape(after) {
            Some(b'/' | b'\\') => return Err(Escape::EncodedSlash),
            // 0xC0 and 0xC1 only start overlong forms: `%c0%ae` is `.` to a careless decoder.
            Some(0xc0 | 0xc1) => return Err(Escape::BadPercent),
            Some(value) => {
                decoded.push(value);
                rest = after.get(2..).unwrap_or_default();
            }
            None if malformed == Malformed::Refused => return Err(Escape::BadPercent),
            None => decoded.push(b'%'),
        }
    }
    Ok(decoded)
}

/// As [`decode`], for paths that are compared and not judged: slashes become slashes.
pub(crate) fn decode_any(text: &[u8]) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        match escape(after).filter(|_| *byte == b'%') {
            Some(value) => {
                decoded.push(value);
                rest = after.get(2..).unwrap_or_default();
            }
            None => decoded.push(*byte),
        }
    }
    decoded
}

fn escape(after: &[u8]) -> Option<u8> {
    let digit = |at: usize| after.get(at).and_then(|byte| char::from(*byte).to_digit(16));
    u8::try_from(digit(0)? * 16 + digit(1)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn paths_that_leave_their_base_are_refused() {
        for (raw, why) in [
            ("/..", Escape::DotSegment),
            ("/../etc/passwd", Escape::DotSegment),
            ("/v1/../../x", Escape::DotSegment),
            ("/v1/.", Escape::DotSegment),
            ("/./x", Escape::DotSegment),
            ("/v1/..;x=1/y", Escape::DotSegment),
            ("/%2e%2e/x", Escape::DotSegment),
            ("/%2E%2e/x", Escape::DotSegment),
            ("/.%2e/x", Escape::DotSegment),
            ("/%2e", Escape::DotSegment),
            ("/%252e%252e/x", Escape::DotSegment),
            ("/%25252e%25252e/x", Escape::DotSegment),
            ("/a/%2e%2e%3bx/b", Escape::DotSegment),
            ("/a%2fb", Escape::EncodedSlash),
            ("/a%2Fb", Escape::EncodedSlash),
            ("/a%5cb", Escape::EncodedSlash),
            ("/a%252fb", Escape::EncodedSlash),
            ("/a%255Cb", Escape::EncodedSlash),
            ("/..%2f..%2fx", Escape::DotSegment.max_of(Escape::EncodedSlash)),
            ("/a\\b", Escape::Backslash),
            ("/..\\x", Escape::Backslash),
            ("//evil.example/x", Escape::Authority),
            ("//user@evil.example", Escape::Authority),
            ("///x", Escape::Authority),
            ("/https://evil.example/x", Escape::AbsoluteUrl),
            ("/HTTP://evil.example", Escape::AbsoluteUrl),
            ("/https:/evil.example", Escape::AbsoluteUrl),
            ("/https%3a//evil.example", Escape::AbsoluteUrl),
            ("/file:", Escape::AbsoluteUrl),
            ("/a%00b", Escape::Control),
            ("/a%0d%0aX:1", Escape::Control),
            ("/a%250ab", Escape::Control),
            ("/a\tb", Escape::Control),
            ("/a%7f", Escape::Control),
            ("/%c0%ae%c0%ae/x", Escape::BadPercent),
            ("/%u002e%u002e/", Escape::BadPercent),
            ("/100%", Escape::BadPercent),
            ("/a%2", Escape::BadPercent),
            ("/%2525252525252541", Escape::TooDeep),
        ] {
            assert_eq!(check(raw), Err(why), "{raw}");
        }
    }

    impl Escape {
        /// Both readings are right; the check finds this one first.
        fn max_of(self, found: Self) -> Self {
            assert_ne!(self, found);
            found
        }
    }

    #[test]
    fn ordinary_paths_pass() {
        for raw in [
            "",
            "/",
            "/v1/charges",
            "/v1/charges/",
            "/v1//charges",
            "/v17/customers/123/campaignBudgets:mutate",
            "/v1/files/a%20b",
            "/caf%C3%A9/%E6%97%A5%E6%9C%AC",
            "/u/%40me",
            "/@scope/name",
            "/a..b/c...d/.hidden/..x/x..",
            "/a:b/c;d=1/e,f",
            "/100%25",
            "/x/https://example.com",
            "/v1/models/ft:gpt-4o:acme::abc",
            "/%41",
        ] {
            assert_eq!(check(raw), Ok(()), "{raw}");
        }
    }

    #[test]
    fn loose_reading_sees_through_spelling() {
        for raw in [
            "/v1/charges",
            "/v1/charges/",
            "/v1//charges",
            "//V1/Charges",
            "/v1/%63harges",
            "/v1/%2563harges",
            "/v1/charges;x=1",
            "/v1/./charges",
            "/v1/charges%20",
        ] {
            assert_eq!(loosely(raw), "/v1/charges", "{raw}");
        }
        assert_eq!(loosely("/v1/charge"), "/v1/charge");
        assert_eq!(loosely("/campaignBudgets%3Amutate"), "/campaignbudgets:mutate");
    }

    proptest! {
        #[test]
        fn what_passes_holds_no_dot_segment_after_any_number_of_decodings(raw in "(/[a.%25eE2fFcC5;]{0,9}){0,4}") {
            if check(&raw).is_ok() {
                let mut text = raw.into_bytes();
                for _ in 0..8 {
                    prop_assert!(text.split(|b| *b == b'/').all(|s| s != b"." && s != b".."));
                    text = decode_any(&text);
                }
            }
        }
    }
}
