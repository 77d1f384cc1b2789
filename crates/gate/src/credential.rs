//! What the gate holds to authenticate at services with, and what a change does to it.
//!
//! Never here: how one is kept (the store seals it), or where it goes in a request.

use agentguard_core::credential::CredentialError;
use agentguard_core::service::Service;
use agentguard_core::{Credential, Secret};
use thiserror::Error;

/// Variables of this name are the gate's own settings, tokens among them: none of them may be sent to
/// a service.
const OWN_PREFIX: &str = "AGENTGUARD";

/// The credential of one service. Its `Debug` shows nothing of it.
#[derive(Clone, Debug, Default)]
pub enum CredentialState {
    /// There is none: the agent's own passes.
    #[default]
    None,
    /// There is one.
    Held {
        /// Itself.
        credential: Credential,
        /// Where it is from.
        source: CredentialSource,
    },
    /// There should be one, and it cannot be used. Calls that need it are refused.
    Unusable(Unusable),
}

/// Where a credential is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CredentialSource {
    /// Sealed in the store.
    Store,
    /// A variable of the gate's environment.
    Environment,
}

/// Why a credential cannot be used.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Unusable {
    /// The key file is missing or another, the row was changed, or the base URL leads elsewhere now.
    #[error(
        "the stored credential cannot be opened: its key file is missing or another one, or it was stored for another service or origin"
    )]
    Sealed,
    /// The variable.
    #[error("{0}")]
    Environment(EnvironmentError),
}

/// Why a variable of the gate's environment gives no credential.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum EnvironmentError {
    /// It is not there.
    #[error("the variable `{0}` is not set in the gate's environment")]
    NotSet(String),
    /// It is one of the gate's own settings.
    #[error("the variable `{0}` is a setting of the gate itself")]
    Own(String),
    /// It is there, and cannot be a credential.
    #[error("the variable `{name}` of the gate's environment {error}")]
    Invalid {
        /// Its name.
        name: String,
        /// What is wrong with its value.
        error: CredentialError,
    },
}

/// What happens to a service's stored credential when the service is changed.
#[derive(Clone, Debug)]
pub enum CredentialChange {
    /// It stays, unless the service now leads to another origin: then it goes.
    Keep,
    /// This one takes its place.
    Set(Credential),
    /// It goes.
    Remove,
}

impl CredentialState {
    /// Where it comes from, in a word; none if there is none.
    pub const fn name(&self) -> Option<&'static str> {
        match self {
            Self::None => None,
            Self::Held { source: CredentialSource::Store, .. } => Some("stored"),
            Self::Held { source: CredentialSource::Environment, .. } => Some("env"),
            Self::Unusable(_) => Some("unusable"),
        }
    }

    /// What is wrong with it, if it cannot be used.
    pub const fn problem(&self) -> Option<&Unusable> {
        match self {
            Self::None | Self::Held { .. } => None,
            Self::Unusable(why) => Some(why),
        }
    }

    /// Whether both would put the same into a request.
    pub fn same_as(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::None, Self::None) => true,
            (Self::Held { credential: a, .. }, Self::Held { credential: b, .. }) => a.same_as(b),
            (Self::Unusable(a), Self::Unusable(b)) => a == b,
            (Self::None | Self::Held { .. } | Self::Unusable(_), _) => false,
        }
    }

    /// A service's credential: the stored one, or else that of the variable it names.
    pub(crate) fn of(service: &Service, stored: Option<&Self>) -> Self {
        match (stored, &service.credential_env) {
            (Some(stored @ (Self::Held { .. } | Self::Unusable(_))), _) => stored.clone(),
            (Some(Self::None) | None, None) => Self::None,
            (Some(Self::None) | None, Some(name)) => match from_environment(name) {
                Ok(credential) => Self::Held { credential, source: CredentialSource::Environment },
                Err(error) => Self::Unusable(Unusable::Environment(error)),
            },
        }
    }
}

/// The credential in a variable of this process's environment.
pub fn from_environment(name: &str) -> Result<Credential, EnvironmentError> {
    if name.starts_with(OWN_PREFIX) {
        return Err(EnvironmentError::Own(name.to_owned()));
    }
    let invalid = |error| EnvironmentError::Invalid { name: name.to_owned(), error };
    let value = match std::env::var(name) {
        Ok(value) if !value.is_empty() => Secret::new(value),
        Ok(_) | Err(std::env::VarError::NotPresent) => {
            return Err(EnvironmentError::NotSet(name.to_owned()));
        }
        Err(std::env::VarError::NotUnicode(_)) => {
            return Err(invalid(CredentialError::Unprintable));
        }
    };
    Credential::parse(value).map_err(invalid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_variable_that_is_set_and_not_the_gates_own_gives_a_credential() {
        // The one variable that every test of this workspace has.
        let known = from_environment("CARGO_PKG_VERSION");
        assert!(known.is_ok_and(|version| version.expose() == env!("CARGO_PKG_VERSION")));
        let missing = from_environment("NO_SUCH_VARIABLE_HERE").err();
        assert_eq!(missing, Some(EnvironmentError::NotSet("NO_SUCH_VARIABLE_HERE".to_owned())));
        let own = from_environment("AGENTGUARD_CONFIG").err();
        assert_eq!(own, Some(EnvironmentError::Own("AGENTGUARD_CONFIG".to_owned())));
    }
}
