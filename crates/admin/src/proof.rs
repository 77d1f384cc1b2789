//! How the gate proves to the command line that it knows the management token, without saying it.
//!
//! Any program of any user can listen on a loopback port while no gate does. A command that sent
//! its token to whatever answers would hand over the lasting key to every agent. So the command
//! asks first, and both sides use the functions here. Never here: what the token opens.

use std::fmt;
use std::net::SocketAddr;

use agentguard_core::token::TokenHash;
use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use crate::body::Query;
use crate::error::ApiError;
use crate::state::Admin;

/// The path, which needs no token: who asks has yet to find out whether to show one. An answer is
/// one short hash and says nothing about a token of 190 random bits, so the bounds of every
/// request (connections at once, time, size) are enough.
pub(crate) const PATH: &str = "/api/v1/proof";

/// Keeps this hash apart from every other use of the same token.
const TAG: &[u8] = b"agentguard management proof 1\0";

const BYTES: usize = 32;

/// What the asker chose: new each time, so that no answer can be kept and used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nonce([u8; BYTES]);

impl Nonce {
    /// Of random bytes.
    pub const fn new(random: [u8; BYTES]) -> Self {
        Self(random)
    }

    /// From 64 hexadecimal digits, and nothing else.
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.as_bytes();
        if digits.len() != BYTES * 2 || !digits.iter().all(u8::is_ascii_hexdigit) {
            return None;
        }
        let mut bytes = [0; BYTES];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok()?;
        }
        Some(Self(bytes))
    }
}

impl fmt::Display for Nonce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        hex(&self.0, f)
    }
}

/// What only a holder of the token (or of its hash) can say.
#[derive(Clone, Debug)]
pub struct Proof([u8; BYTES]);

impl Proof {
    /// `place` is where the gate listens: without it, a program on another port could ask the real
    /// gate and pass its answer on. The secret stands at both ends, so that nothing can be added
    /// to a hash that was seen.
    pub fn of(token: &TokenHash, nonce: &Nonce, place: SocketAddr) -> Self {
        let hash = Sha256::new()
            .chain_update(TAG)
            .chain_update(token.0)
            .chain_update(nonce.0)
            .chain_update(place.to_string())
            .chain_update(token.0);
        Self(hash.finalize().into())
    }

    /// Whether the text is this proof, in a time that tells nothing.
    pub fn is(&self, text: &str) -> bool {
        self.to_string().as_bytes().ct_eq(text.as_bytes()).into()
    }
}

impl fmt::Display for Proof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        hex(&self.0, f)
    }
}

/// What is asked.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Question {
    nonce: String,
}

pub(crate) async fn prove(
    State(admin): State<Admin>,
    Query(asked): Query<Question>,
) -> Result<Json<Value>, ApiError> {
    let nonce = Nonce::parse(&asked.nonce)
        .ok_or_else(|| ApiError::invalid("nonce", "must be 64 hexadecimal digits"))?;
    let proof = admin.proof(&nonce).ok_or_else(ApiError::no_route)?;
    Ok(Json(json!({"proof": proof.to_string()})))
}

fn hex(bytes: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_is_of_one_token_one_nonce_and_one_place() {
        let (token, other) = (TokenHash([1; 32]), TokenHash([2; 32]));
        let nonce = Nonce::new([3; 32]);
        let place: SocketAddr = "127.0.0.1:3000".parse().unwrap();
        let proof = Proof::of(&token, &nonce, place);
        assert!(proof.is(&Proof::of(&token, &nonce, place).to_string()));
        for wrong in [
            Proof::of(&other, &nonce, place),
            Proof::of(&token, &Nonce::new([4; 32]), place),
            Proof::of(&token, &nonce, "127.0.0.1:3001".parse().unwrap()),
            Proof::of(&token, &nonce, "[::1]:3000".parse().unwrap()),
        ] {
            assert!(!proof.is(&wrong.to_string()));
        }
        let cut: String = proof.to_string().chars().take(63).collect();
        assert!(!proof.is("") && !proof.is(&cut) && !proof.is(&format!("{proof}0")));
    }

    #[test]
    fn only_64_hexadecimal_digits_are_a_nonce() {
        let nonce = Nonce::new([0xa5; 32]);
        assert_eq!(Nonce::parse(&nonce.to_string()), Some(nonce));
        let signed = "+f".repeat(32);
        for bad in ["", "a5", &"g".repeat(64), &"a".repeat(63), &"a".repeat(65), &signed] {
            assert_eq!(Nonce::parse(bad), None, "{bad}");
        }
    }
}
