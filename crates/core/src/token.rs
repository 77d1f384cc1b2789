//! Agent tokens: `ag_live_` and 32 letters or digits. Only the hash is ever kept.

use std::fmt;

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::secret::Secret;

/// What every agent token starts with.
pub const PREFIX: &str = "ag_live_";
/// What every management token starts with.
pub const ADMIN_PREFIX: &str = "ag_admin_";
/// Characters after the prefix.
pub const BODY_CHARS: usize = 32;

const ALPHABET: &[u8; 62] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
/// Bytes at or above this are thrown away, so that every character is equally likely.
const FAIR_BELOW: u8 = 248;

/// A token that was presented or just made.
#[derive(Clone, Debug)]
pub struct Token(Secret<String>);

impl Token {
    /// The token, if the text has exactly its form. Anything else is not looked up at all.
    pub fn parse(text: &str) -> Option<Self> {
        Self::parse_as(PREFIX, text)
    }

    /// A management token, if the text has exactly its form.
    pub fn parse_admin(text: &str) -> Option<Self> {
        Self::parse_as(ADMIN_PREFIX, text)
    }

    /// A token out of random bytes; `None` if they ran out before 32 fair characters were drawn
    /// (64 bytes are enough but for about one time in 10^23).
    pub fn from_random(prefix: &str, random: &[u8]) -> Option<Self> {
        let body: String = random
            .iter()
            .filter(|byte| **byte < FAIR_BELOW)
            .filter_map(|byte| ALPHABET.get(usize::from(byte % 62)))
            .take(BODY_CHARS)
            .map(|letter| char::from(*letter))
            .collect();
        (body.len() == BODY_CHARS).then(|| Self(Secret::new(format!("{prefix}{body}"))))
    }

    /// Its SHA-256: what is stored, and what it is found by.
    pub fn hash(&self) -> TokenHash {
        TokenHash(Sha256::digest(self.0.expose().as_bytes()).into())
    }

    /// The text itself, to be shown once.
    pub fn expose(&self) -> &str {
        self.0.expose()
    }

    fn parse_as(prefix: &str, text: &str) -> Option<Self> {
        let body = text.strip_prefix(prefix)?;
        (body.len() == BODY_CHARS && body.bytes().all(|b| b.is_ascii_alphanumeric()))
            .then(|| Self(Secret::new(text.to_owned())))
    }
}

/// The SHA-256 of a token.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TokenHash(pub [u8; 32]);

impl TokenHash {
    /// Equality that takes the same time wherever the two differ.
    pub fn same_as(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl fmt::Debug for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenHash(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_exact_form_is_a_token() {
        let good = format!("ag_live_{}", "a".repeat(32));
        assert!(Token::parse(&good).is_some());
        for bad in [
            "",
            "ag_live_",
            "sk-123",
            &good.to_uppercase(),
            &format!("{good}a"),
            &good.replace('a', "-"),
        ] {
            assert!(Token::parse(bad).is_none(), "{bad}");
        }
        assert!(Token::parse_admin(&good).is_none());
    }

    #[test]
    fn made_tokens_have_the_form_that_is_parsed() {
        let bytes: Vec<u8> = (0..=255).collect();
        let token = Token::from_random(PREFIX, &bytes).unwrap();
        assert!(Token::parse(token.expose()).is_some());
        assert!(Token::from_random(PREFIX, &[250; 64]).is_none());
    }
}
