//! Identifiers: sortable by time for requests, random for everything that is kept.

use std::sync::atomic::{AtomicU64, Ordering};

use agentguard_core::token::Token;
use agentguard_core::{AgentId, RequestId, RuleId, RuleSetId, Timestamp};
use thiserror::Error;
use uuid::Uuid;

/// The operating system gave no randomness: nothing that needs it can be made.
#[derive(Debug, Error)]
#[error("reading the system's random source")]
pub struct NoRandomness(#[from] getrandom::Error);

/// Makes identifiers.
#[derive(Debug)]
pub struct IdSource {
    salt: u64,
    counter: AtomicU64,
}

impl IdSource {
    /// A source whose request ids differ from those of every other run.
    pub fn new() -> Result<Self, NoRandomness> {
        Ok(Self { salt: u64::from_le_bytes(random()?), counter: AtomicU64::new(0) })
    }

    /// A UUID of version 7: milliseconds, then a count, then the run's salt. Request ids are names,
    /// not secrets, so they cost no call to the random source.
    pub fn request(&self, at: Timestamp) -> RequestId {
        let millis = u64::try_from(at.as_micros().div_euclid(1_000)).unwrap_or(0);
        let count = self.counter.fetch_add(1, Ordering::Relaxed);
        let high = (u128::from(millis & 0xffff_ffff_ffff) << 80)
            | (0x7 << 76)
            | (u128::from(count & 0xfff) << 64);
        let low =
            (u128::from(count >> 12 & 0xffff_ffff) << 30) | u128::from(self.salt & 0x3fff_ffff);
        RequestId(Uuid::from_u128(high | (0b10 << 62) | low))
    }

    /// A new agent's id.
    pub fn agent(&self) -> Result<AgentId, NoRandomness> {
        uuid().map(AgentId)
    }

    /// A new rule's id.
    pub fn rule(&self) -> Result<RuleId, NoRandomness> {
        uuid().map(RuleId)
    }

    /// A new rule set's id.
    pub fn rule_set(&self) -> Result<RuleSetId, NoRandomness> {
        uuid().map(RuleSetId)
    }

    /// A new token with this prefix.
    pub fn token(&self, prefix: &str) -> Result<Token, NoRandomness> {
        loop {
            let bytes: [u8; 64] = random()?;
            if let Some(token) = Token::from_random(prefix, &bytes) {
                return Ok(token);
            }
        }
    }
}

fn uuid() -> Result<Uuid, NoRandomness> {
    Ok(uuid::Builder::from_random_bytes(random()?).into_uuid())
}

fn random<const N: usize>() -> Result<[u8; N], NoRandomness> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn request_ids_are_unique_valid_and_in_order() {
        let source = IdSource::new().unwrap();
        let at = Timestamp::from_micros(1_700_000_000_000_000);
        let ids: Vec<_> = (0..10_000).map(|_| source.request(at)).collect();
        assert_eq!(ids.iter().collect::<HashSet<_>>().len(), ids.len());
        assert!(ids.iter().all(|id| id.0.get_version_num() == 7));
        assert!(ids[..4_000].is_sorted());
    }
}
