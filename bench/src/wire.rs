//! As much HTTP/1.1 as load and upstream need: a head's fields, and where an answer ends.

use memchr::memmem;

/// The value of a header, if the head has it.
pub(crate) fn header<'a>(head: &'a [u8], name: &str) -> Option<&'a str> {
    let head = std::str::from_utf8(head).ok()?;
    head.split("\r\n").skip(1).find_map(|line| {
        let (key, value) = line.split_once(':')?;
        key.eq_ignore_ascii_case(name).then_some(value.trim())
    })
}

pub(crate) fn content_length(head: &[u8]) -> Option<usize> {
    header(head, "content-length")?.parse().ok()
}

/// The status of an answer, once all of it is there. Nothing may follow it.
pub(crate) fn whole_answer(bytes: &[u8]) -> Option<u16> {
    let head_end = memmem::find(bytes, b"\r\n\r\n")? + 4;
    let head = &bytes[..head_end];
    let is_whole = match content_length(head) {
        Some(length) => bytes.len() >= head_end + length,
        None => bytes.ends_with(b"0\r\n\r\n"),
    };
    is_whole.then(|| status(head))
}

/// The status of an answer whose head has begun, or 0.
pub(crate) fn status(head: &[u8]) -> u16 {
    let code = head.get(9..12).and_then(|code| std::str::from_utf8(code).ok());
    code.and_then(|code| code.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_whole_at_its_end_and_not_before() {
        for (answer, expected) in [
            ("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}", Some(200)),
            ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{", None),
            (
                "HTTP/1.1 403 No\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
                Some(403),
            ),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n", None),
            ("HTTP/1.1 200 OK\r\n", None),
        ] {
            assert_eq!(whole_answer(answer.as_bytes()), expected, "{answer}");
        }
    }
}
