//! What of an address may go on the record: never a query value, a user name or a token.

use crate::limits::TARGET_URL_BYTES_MAX;
use crate::token::PREFIX;

const MASK: &str = "***";

/// `scheme://host/path?a=***&b=***`, cut at a bound. `origin` is scheme, host and port without
/// userinfo; `path` starts with `/`.
pub fn target(origin: &str, path: &str, query: Option<&str>) -> String {
    let mut masked =
        String::with_capacity(origin.len().saturating_add(path.len()).saturating_add(16));
    masked.push_str(origin);
    push_without_tokens(&mut masked, path);
    if let Some(query) = query.filter(|query| !query.is_empty()) {
        push_masked_query(&mut masked, query);
    }
    cut(&mut masked);
    masked
}

/// Cuts at the last character that fits.
pub fn cut(text: &mut String) {
    if text.len() > TARGET_URL_BYTES_MAX {
        let end =
            (0..=TARGET_URL_BYTES_MAX).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.truncate(end);
        text.push('…');
    }
}

fn push_masked_query(masked: &mut String, query: &str) {
    for (place, pair) in query.split('&').take(64).enumerate() {
        masked.push(if place == 0 { '?' } else { '&' });
        match pair.split_once('=') {
            // A name is shown if it looks like one: `?<secret>=` must not slip through as a name.
            Some((name, _)) if is_plain_name(name) => {
                masked.push_str(name);
                masked.push('=');
                masked.push_str(MASK);
            }
            Some(_) | None => masked.push_str(MASK),
        }
    }
}

/// Letters, `_` and `-`, with `[]` behind them: what parameters are called, and what keys are not.
fn is_plain_name(name: &str) -> bool {
    let bare = name.strip_suffix("[]").unwrap_or(name);
    (1..=32).contains(&bare.len())
        && !bare.contains(PREFIX)
        && bare.bytes().all(|b| b.is_ascii_alphabetic() || matches!(b, b'_' | b'-'))
}

fn push_without_tokens(masked: &mut String, path: &str) {
    // A token that is spelled with escapes is a token all the same.
    if path.contains('%') && !path.contains(PREFIX) {
        let decoded = percent_encoding::percent_decode_str(path).decode_utf8_lossy();
        if decoded.contains(PREFIX) {
            masked.push('/');
            masked.push_str(MASK);
            return;
        }
    }
    let mut rest = path;
    while let Some((before, after)) = rest.split_once(PREFIX) {
        masked.push_str(before);
        masked.push_str(PREFIX);
        masked.push_str(MASK);
        rest = after.trim_start_matches(|c: char| c.is_ascii_alphanumeric());
    }
    masked.push_str(rest);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_tokens_and_odd_names_are_masked() {
        let token = format!("ag_live_{}", "x".repeat(32));
        for (path, query, shown) in [
            ("/v1/charges", None, "https://a.com/v1/charges"),
            ("/v1/x", Some("limit=3&key=sk_live_1"), "https://a.com/v1/x?limit=***&key=***"),
            ("/v1/x", Some("sk_live_secret"), "https://a.com/v1/x?***"),
            ("/v1/x", Some(&*format!("{token}=1")), "https://a.com/v1/x?***"),
            (
                "/v1/x",
                Some("c2VjcmV0Ng==&k3y=1&expand[]=a"),
                "https://a.com/v1/x?***&***&expand[]=***",
            ),
            (&*format!("/t/%61g_live_{}", "x".repeat(32)), None, "https://a.com/***"),
            (&*format!("/t/{token}/x"), None, "https://a.com/t/ag_live_***/x"),
        ] {
            assert_eq!(target("https://a.com", path, query), shown);
        }
    }

    #[test]
    fn long_addresses_are_cut_on_a_character() {
        let masked = target("https://a.com", &format!("/{}", "é".repeat(5_000)), None);
        assert!(masked.len() <= TARGET_URL_BYTES_MAX + 4 && masked.ends_with('…'));
    }
}
