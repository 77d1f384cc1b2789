//! A look at request heads as they come off the wire, for what the HTTP library repairs in silence.
//!
//! hyper answers most malformed heads itself. It lets some shapes through that a server behind the
//! gate may read in another way, and leaves no trace of them in the request: a length beside
//! `Transfer-Encoding` (the length is dropped), a length given twice with one value (merged), and
//! lines that end in a bare LF. A `#` in the request line is dropped with what follows. So the bytes
//! are looked at here, before hyper has them.
//!
//! Never here: what happens to such a request. The connection is marked, and the door refuses.

use memchr::memchr;

use crate::limits::HEAD_BYTES_MAX;
use crate::upgrade::WEBSOCKET;

/// What is wrong with a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Malformed {
    LengthAndChunked,
    TwoLengths,
    BadLength,
    TwoCodings,
    BareLineFeed,
    FoldedLine,
    Fragment,
    TooLong,
}

impl Malformed {
    pub(crate) const ALL: [Self; 8] = [
        Self::LengthAndChunked,
        Self::TwoLengths,
        Self::BadLength,
        Self::TwoCodings,
        Self::BareLineFeed,
        Self::FoldedLine,
        Self::Fragment,
        Self::TooLong,
    ];

    pub(crate) const fn text(self) -> &'static str {
        match self {
            Self::LengthAndChunked => "the request has both Content-Length and Transfer-Encoding",
            Self::TwoLengths => "the request has more than one Content-Length",
            Self::BadLength => "Content-Length is not a plain number",
            Self::TwoCodings => "the request has more than one Transfer-Encoding",
            Self::BareLineFeed => "a line of the head ends in LF without CR",
            Self::FoldedLine => "a header is folded over several lines",
            Self::Fragment => "the request line holds a `#`",
            Self::TooLong => "the request head is too long",
        }
    }
}

/// Follows the bytes of one connection from head to head.
#[derive(Debug)]
pub(crate) struct HeadScan {
    place: Place,
    /// The start of a line whose end has not come yet.
    partial: Vec<u8>,
    head: Head,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Head,
    Body {
        left_bytes: u64,
    },
    /// No further head is awaited. A chunked request is the last of its connection, since only a
    /// second chunk parser could say where it ends; and what follows the request for a WebSocket is
    /// no HTTP, or, if it does not come to one, not read.
    Over,
}

#[derive(Debug, Default)]
struct Head {
    bytes: usize,
    request_line: bool,
    length: Option<u64>,
    chunked: bool,
    websocket: bool,
}

/// What a piece of the wire said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    Nothing,
    /// The request under way is the last of its connection.
    Last,
    Bad(Malformed),
}

impl HeadScan {
    pub(crate) fn new() -> Self {
        Self { place: Place::Head, partial: Vec::new(), head: Head::default() }
    }

    /// Takes the next bytes.
    pub(crate) fn feed(&mut self, mut bytes: &[u8]) -> Seen {
        loop {
            match self.place {
                Place::Over => return Seen::Nothing,
                Place::Body { left_bytes } => {
                    let have = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
                    if have < left_bytes {
                        self.place = Place::Body { left_bytes: left_bytes.saturating_sub(have) };
                        return Seen::Nothing;
                    }
                    let body = usize::try_from(left_bytes).unwrap_or(usize::MAX);
                    bytes = bytes.get(body..).unwrap_or_default();
                    self.place = Place::Head;
                }
                Place::Head => {
                    if bytes.is_empty() {
                        return Seen::Nothing;
                    }
                    match self.feed_head(&mut bytes) {
                        Ok(Seen::Nothing) => {}
                        Ok(seen) => return seen,
                        Err(malformed) => {
                            self.place = Place::Over;
                            return Seen::Bad(malformed);
                        }
                    }
                }
            }
        }
    }

    /// Takes one line, or the part of it that is there.
    fn feed_head(&mut self, bytes: &mut &[u8]) -> Result<Seen, Malformed> {
        let end = memchr(b'\n', bytes);
        let taken = end.map_or(bytes.len(), |end| end.saturating_add(1));
        let (piece, rest) = bytes.split_at_checked(taken).unwrap_or((bytes, &[]));
        *bytes = rest;
        self.head.bytes = self.head.bytes.saturating_add(piece.len());
        if self.head.bytes > HEAD_BYTES_MAX {
            return Err(Malformed::TooLong);
        }
        if end.is_none() {
            self.partial.extend_from_slice(piece);
            return Ok(Seen::Nothing);
        }
        if self.partial.is_empty() {
            return self.line(piece);
        }
        let mut line = std::mem::take(&mut self.partial);
        line.extend_from_slice(piece);
        self.line(&line)
    }

    fn line(&mut self, line: &[u8]) -> Result<Seen, Malformed> {
        let Some(text) = line.strip_suffix(b"\r\n") else { return Err(Malformed::BareLineFeed) };
        match (text.first(), self.head.request_line) {
            // Empty lines before a request are allowed for.
            (None, false) => Ok(Seen::Nothing),
            (None, true) => Ok(self.end()),
            (Some(_), false) => {
                self.head.request_line = true;
                if memchr(b'#', text).is_some() {
                    Err(Malformed::Fragment)
                } else {
                    Ok(Seen::Nothing)
                }
            }
            (Some(b' ' | b'\t'), true) => Err(Malformed::FoldedLine),
            (Some(b'c' | b'C' | b't' | b'T' | b'u' | b'U'), true) => {
                self.header(text).map(|()| Seen::Nothing)
            }
            (Some(_), true) => Ok(Seen::Nothing),
        }
    }

    fn header(&mut self, line: &[u8]) -> Result<(), Malformed> {
        let Some(colon) = memchr(b':', line) else { return Ok(()) };
        let (name, value) = line.split_at_checked(colon).unwrap_or((line, &[]));
        let value = value.strip_prefix(b":").unwrap_or(value).trim_ascii();
        if name.eq_ignore_ascii_case(b"content-length") {
            let digits = std::str::from_utf8(value)
                .ok()
                .filter(|text| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()));
            let length = digits.and_then(|text| text.parse().ok()).ok_or(Malformed::BadLength)?;
            if self.head.length.replace(length).is_some() {
                return Err(Malformed::TwoLengths);
            }
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            if self.head.chunked {
                return Err(Malformed::TwoCodings);
            }
            self.head.chunked = true;
        } else if name.eq_ignore_ascii_case(b"upgrade") {
            self.head.websocket |= value.eq_ignore_ascii_case(WEBSOCKET);
        }
        if self.head.chunked && self.head.length.is_some() {
            return Err(Malformed::LengthAndChunked);
        }
        Ok(())
    }

    fn end(&mut self) -> Seen {
        let head = std::mem::take(&mut self.head);
        if head.chunked || head.websocket {
            self.place = Place::Over;
            return Seen::Last;
        }
        self.place = Place::Body { left_bytes: head.length.unwrap_or(0) };
        Seen::Nothing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whole, and byte by byte: where a read ends must not matter.
    fn check(wire: &str, expected: Seen) {
        let mut whole = HeadScan::new();
        assert_eq!(whole.feed(wire.as_bytes()), expected, "{wire:?}");
        let mut slow = HeadScan::new();
        let seen = wire.bytes().map(|byte| slow.feed(&[byte])).find(|seen| *seen != Seen::Nothing);
        assert_eq!(seen.unwrap_or(Seen::Nothing), expected, "{wire:?} byte by byte");
    }

    #[test]
    fn heads_that_can_be_read_in_two_ways_are_seen() {
        let bad = |headers: &str, why| {
            check(&format!("POST / HTTP/1.1\r\n{headers}\r\n\r\n"), Seen::Bad(why));
        };
        bad("Content-Length: 3\r\nTransfer-Encoding: chunked", Malformed::LengthAndChunked);
        bad("transfer-encoding: chunked\r\ncontent-length: 3", Malformed::LengthAndChunked);
        bad("Content-Length: 3\r\nContent-Length: 3", Malformed::TwoLengths);
        bad("Content-Length: 3\r\nX: y\r\ncontent-length: 4", Malformed::TwoLengths);
        bad("Content-Length: +3", Malformed::BadLength);
        bad("Content-Length: 3, 3", Malformed::BadLength);
        bad("Content-Length:", Malformed::BadLength);
        bad("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity", Malformed::TwoCodings);
        bad("A: b\nB: c", Malformed::BareLineFeed);
        bad("A: b\r\n c", Malformed::FoldedLine);
        check("GET /a#b HTTP/1.1\r\n\r\n", Seen::Bad(Malformed::Fragment));
        check("GET / HTTP/1.1\n\n", Seen::Bad(Malformed::BareLineFeed));
        let long = format!("GET / HTTP/1.1\r\nA: {}", "x".repeat(HEAD_BYTES_MAX));
        check(&long, Seen::Bad(Malformed::TooLong));
    }

    #[test]
    fn bodies_are_not_taken_for_heads() {
        let body = "Content-Length: 9\nTransfer-Encoding: chunked\n\n";
        let request = format!("POST / HTTP/1.1\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        check(&request, Seen::Nothing);
        check(&format!("{request}{request}"), Seen::Nothing);
        check(&format!("{request}GET / HTTP/1.1\n"), Seen::Bad(Malformed::BareLineFeed));
        check("\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", Seen::Nothing);
        check("GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nanything\n", Seen::Last);
    }

    #[test]
    fn what_follows_the_request_for_a_websocket_is_no_head() {
        let asks = |upgrade: &str| format!("GET / HTTP/1.1\r\n{upgrade}\r\n\r\nframe\n");
        check(&asks("Upgrade: websocket"), Seen::Last);
        check(&asks("upgrade:\tWebSocket "), Seen::Last);
        check(&asks("Upgrade: h2c"), Seen::Bad(Malformed::BareLineFeed));
        check(&asks("User-Agent: websocket"), Seen::Bad(Malformed::BareLineFeed));
    }
}
