//! Rust source reduced to code: comments and literals blanked out, lines kept.
//!
//! A word in a comment or a message is not a use of it, so every rule about code reads this form.
//! Never here: a rule, or a full parser. It needs to be right for source that compiles.

/// `source` with the inside of comments, strings and character literals replaced by spaces.
/// Line breaks stay where they are.
pub(crate) fn code_only(source: &str) -> String {
    let chars: Vec<char> = source.chars().collect();
    let mut rest = chars.as_slice();
    let mut out = String::with_capacity(source.len());
    let mut after_word = false;
    while let Some(&first) = rest.first() {
        let literal = literal_length(rest, after_word);
        let (taken, left) = rest.split_at_checked(literal.unwrap_or(1)).unwrap_or((rest, &[]));
        match literal {
            Some(_) => out.extend(taken.iter().map(|&c| if c == '\n' { '\n' } else { ' ' })),
            None => out.push(first),
        }
        after_word = literal.is_none() && is_word(first);
        rest = left;
    }
    out
}

/// Whether a character can be part of a name.
pub(crate) fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The line of a byte offset, counted from one.
pub(crate) fn line_at(text: &str, offset: usize) -> usize {
    text.bytes().take(offset).filter(|&byte| byte == b'\n').count().saturating_add(1)
}

/// Byte offsets at which `word` stands as a whole word.
pub(crate) fn whole_words<'a>(text: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    text.match_indices(word).map(|(offset, _)| offset).filter(move |&offset| {
        let (before, after) = around(text, offset, word.len());
        !before.ends_with(is_word) && !after.starts_with(is_word)
    })
}

/// The text before and after the piece of `length` bytes at `offset`.
pub(crate) fn around(text: &str, offset: usize, length: usize) -> (&str, &str) {
    let after = offset.saturating_add(length);
    (text.get(..offset).unwrap_or(""), text.get(after..).unwrap_or(""))
}

/// The attributes (`#[…]` and `#![…]`) of masked code, with their byte offsets.
pub(crate) fn attributes(code: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    for (offset, _) in code.match_indices('#') {
        let (_, after) = around(code, offset, 1);
        let body = after.strip_prefix('!').unwrap_or(after);
        if !body.starts_with('[') {
            continue;
        }
        let mut depth = 0_usize;
        for (length, c) in body.char_indices() {
            match c {
                '[' => depth = depth.saturating_add(1),
                ']' => depth = depth.saturating_sub(1),
                _ => {}
            }
            if depth == 0 {
                found.push((offset, body.get(1..length).unwrap_or("")));
                break;
            }
        }
    }
    found
}

/// How many characters the comment or literal at the start of `rest` takes; `None` if there is none.
fn literal_length(rest: &[char], after_word: bool) -> Option<usize> {
    match rest {
        ['/', '/', ..] => Some(rest.iter().position(|&c| c == '\n').unwrap_or(rest.len())),
        ['/', '*', ..] => Some(block_comment_length(rest)),
        ['"', ..] => Some(string_length(rest)),
        // Not part of a name such as `for`: `r"…"` only where a name could begin.
        ['r', ..] | ['b' | 'c', 'r', ..] if !after_word => raw_string_length(rest),
        ['\'', '\\', _, ..] => {
            let end = rest.iter().skip(3).position(|&c| c == '\'');
            Some(end.map_or(rest.len(), |n| n.saturating_add(4)))
        }
        // `'a'` is a character; `'a` without the closing mark is a lifetime.
        ['\'', _, '\'', ..] => Some(3),
        _ => None,
    }
}

fn block_comment_length(rest: &[char]) -> usize {
    let mut depth = 0_usize;
    let mut at = 0_usize;
    while let Some(ahead) = rest.get(at..) {
        let step = match ahead {
            ['/', '*', ..] => {
                depth = depth.saturating_add(1);
                2
            }
            ['*', '/', ..] => {
                depth = depth.saturating_sub(1);
                2
            }
            [] => return rest.len(),
            [_, ..] => 1,
        };
        at = at.saturating_add(step);
        if depth == 0 {
            return at;
        }
    }
    rest.len()
}

fn string_length(rest: &[char]) -> usize {
    let mut at = 1_usize;
    loop {
        match rest.get(at) {
            Some('\\') => at = at.saturating_add(2),
            Some('"') => return at.saturating_add(1),
            Some(_) => at = at.saturating_add(1),
            None => return rest.len(),
        }
    }
}

fn raw_string_length(rest: &[char]) -> Option<usize> {
    let prefix = rest.iter().take_while(|&&c| matches!(c, 'b' | 'c' | 'r')).count();
    let hashes = rest.iter().skip(prefix).take_while(|&&c| c == '#').count();
    let open = prefix.saturating_add(hashes);
    // `r#type` is a name.
    if rest.get(open) != Some(&'"') {
        return None;
    }
    let mut at = open.saturating_add(1);
    while let Some(&c) = rest.get(at) {
        at = at.saturating_add(1);
        if c == '"' && rest.iter().skip(at).take(hashes).filter(|&&c| c == '#').count() == hashes {
            return Some(at.saturating_add(hashes));
        }
    }
    Some(rest.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(source: &str, kept: &str) {
        let squeezed: Vec<_> = code_only(source).split_whitespace().map(str::to_owned).collect();
        assert_eq!(squeezed.join(" "), kept, "{source}");
    }

    #[test]
    fn comments_and_literals_are_blanked() {
        check("a // b\nc", "a c");
        check("a /* b /* c */ d */ e", "a e");
        check(r#"x("it \" said") y"#, "x( ) y");
        check("r#\"a \" b\"# z", "z");
        check("br##\"a \"# b\"## z", "z");
        check(r"m('\'', '\u{1F600}', '}', b'\\') z", "m( , , , b ) z");
        check("// to the end", "");
        check("\"never closed", "");
    }

    #[test]
    fn lifetimes_and_raw_names_stay_code() {
        check(
            "fn f<'a>(x: &'a str) -> &'a str { r#type }",
            "fn f<'a>(x: &'a str) -> &'a str { r#type }",
        );
        check("for\"x\"", "for");
        check("&'static [u8]", "&'static [u8]");
    }

    #[test]
    fn lines_stay_where_they_are() {
        let source = "a\n/* x\ny */\n\"p\nq\" b";
        let code = code_only(source);
        assert_eq!(line_at(&code, code.find('b').unwrap()), 5);
    }

    #[test]
    fn only_whole_words_count() {
        let at: Vec<_> = whole_words("todo todos my_todo (todo)", "todo").collect();
        assert_eq!(at, [0, 20]);
    }

    #[test]
    fn attributes_are_found_with_their_content() {
        let code = "#![a(b)] struct X; #[c = [1]] fn f() { x#y }";
        let bodies: Vec<_> = attributes(code).into_iter().map(|(_, body)| body).collect();
        assert_eq!(bodies, ["a(b)", "c = [1]"]);
    }
}
