//! Upstream credentials: what a service is authenticated with in an agent's place.
//!
//! Never here: where one is kept, or which header it goes into.

use thiserror::Error;

use crate::limits::CREDENTIAL_BYTES_MAX;
use crate::secret::Secret;
use crate::token::{ADMIN_PREFIX, PREFIX};

/// A credential that may stand in a header. Its `Debug` shows nothing.
#[derive(Clone, Debug)]
pub struct Credential(Secret<String>);

/// Why a text is no credential. Says nothing of the text.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum CredentialError {
    /// There is nothing.
    #[error("is empty")]
    Empty,
    /// More than any service gives out.
    #[error("is longer than {CREDENTIAL_BYTES_MAX} bytes")]
    TooLong,
    /// It could end the header, or be read in two ways.
    #[error("must be visible ASCII without spaces or line breaks")]
    Unprintable,
    /// It would go upstream.
    #[error("holds a token of this gate, which must not go upstream: give the service's own key")]
    GuardToken,
}

impl Credential {
    /// The credential, if the text can stand in a header as it is.
    pub fn parse(text: Secret<String>) -> Result<Self, CredentialError> {
        let shown = text.expose();
        if shown.is_empty() {
            return Err(CredentialError::Empty);
        }
        if shown.len() > CREDENTIAL_BYTES_MAX {
            return Err(CredentialError::TooLong);
        }
        if !shown.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(CredentialError::Unprintable);
        }
        if shown.contains(PREFIX) || shown.contains(ADMIN_PREFIX) {
            return Err(CredentialError::GuardToken);
        }
        Ok(Self(text))
    }

    /// The text itself. Call this only where it is sealed or goes into a header.
    pub fn expose(&self) -> &str {
        self.0.expose()
    }

    /// Whether both are the same text. Only ever asked of two that the gate holds.
    pub fn same_as(&self, other: &Self) -> bool {
        self.expose() == other.expose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_can_stand_in_a_header_is_a_credential() {
        let check = |text: &str, expected: Option<CredentialError>| {
            let parsed = Credential::parse(Secret::new(text.to_owned()));
            assert_eq!(parsed.err(), expected, "{text:?}");
        };
        let long = "x".repeat(CREDENTIAL_BYTES_MAX);
        check("sk-proj-Az09_-.~/+=", None);
        check(&long, None);
        check(&format!("{long}x"), Some(CredentialError::TooLong));
        check("", Some(CredentialError::Empty));
        for bad in ["a b", "a\n", "a\r\nx-evil: 1", "\u{0}", "clé", "a\t", "a\u{7f}"] {
            check(bad, Some(CredentialError::Unprintable));
        }
        check("ag_live_x", Some(CredentialError::GuardToken));
        check("Bearer:ag_admin_x", Some(CredentialError::GuardToken));
    }

    #[test]
    fn debug_shows_nothing_of_the_credential() {
        let credential = Credential::parse(Secret::new("sk-hunter2".to_owned())).unwrap();
        assert!(!format!("{credential:?}").contains("hunter2"));
    }
}
