//! Virtual keys: the service's own credential, put where the agent's guard token stood.
//!
//! Never here: where credentials are kept, or whose token it is.

use agentguard_core::service::{Service, ServiceKind};
use agentguard_core::{Credential, Reason, Refusal, Secret};
use agentguard_gate::CredentialState;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderValue};

use crate::identity::{API_KEY, Place, holds_token_text};

/// A service's credential, made ready when its route is: a request costs a copy of a pointer.
#[derive(Debug)]
pub(crate) struct RouteCredential {
    state: CredentialState,
    ready: Option<Ready>,
}

/// As it stands in headers. Marked sensitive: not shown by `Debug`, not kept by HTTP/2's compression.
#[derive(Debug)]
struct Ready {
    /// `Bearer …`
    bearer: HeaderValue,
    /// By itself.
    plain: HeaderValue,
}

impl RouteCredential {
    pub(crate) fn of(service: &Service, state: &CredentialState) -> Self {
        let ready = match state {
            CredentialState::None => None,
            CredentialState::Held { credential, .. } => Ready::of(credential),
            CredentialState::Unusable(why) => {
                let alias = &service.alias;
                tracing::warn!(service = %alias, %why, "calls that need this service's credential are refused");
                None
            }
        };
        Self { state: state.clone(), ready }
    }

    /// Whether it is still the one to use.
    pub(crate) fn is_of(&self, state: &CredentialState) -> bool {
        self.state.same_as(state)
    }

    /// Puts it into a request from which the guard token was taken, if the token stood for it. What
    /// the agent sends of its own beside `X-AgentGuard-Token`, or without a token, passes as it is.
    pub(crate) fn put_into(
        &self,
        headers: &mut HeaderMap,
        place: &Place,
        service: &Service,
    ) -> Result<(), Refusal> {
        let brings_its_own =
            || headers.contains_key(AUTHORIZATION) || headers.contains_key(API_KEY);
        match place {
            Place::Nowhere => return Ok(()),
            Place::OwnHeader if brings_its_own() => return Ok(()),
            Place::OwnHeader
            | Place::Bearer
            | Place::ApiKey
            | Place::BasicUser { .. }
            | Place::BasicPassword { .. } => {}
        }
        match (&self.state, &self.ready) {
            (CredentialState::None, _) if *place == Place::OwnHeader => Ok(()),
            (CredentialState::None, _) => Err(missing(&service.alias)),
            (CredentialState::Held { credential, .. }, Some(ready)) => {
                ready.put_into(headers, place, service.kind, credential)
            }
            // Neither without it nor with a wrong one.
            (CredentialState::Held { .. }, None) | (CredentialState::Unusable(_), _) => {
                Err(unusable(&service.alias))
            }
        }
    }
}

impl Ready {
    fn of(credential: &Credential) -> Option<Self> {
        let bearer = Secret::new(format!("Bearer {}", credential.expose()));
        Some(Self { bearer: sensitive(bearer.expose())?, plain: sensitive(credential.expose())? })
    }

    fn put_into(
        &self,
        headers: &mut HeaderMap,
        place: &Place,
        kind: ServiceKind,
        credential: &Credential,
    ) -> Result<(), Refusal> {
        match kind {
            ServiceKind::Openai | ServiceKind::Stripe | ServiceKind::GoogleAds => {
                headers.remove(API_KEY);
                headers.insert(AUTHORIZATION, self.bearer.clone());
            }
            ServiceKind::Anthropic => {
                // A second credential would leave open which of the two is meant.
                headers.remove(AUTHORIZATION);
                headers.insert(API_KEY, self.plain.clone());
            }
            ServiceKind::Generic => match place {
                Place::Nowhere => {}
                Place::OwnHeader | Place::Bearer => {
                    headers.insert(AUTHORIZATION, self.bearer.clone());
                }
                Place::ApiKey => {
                    headers.insert(API_KEY, self.plain.clone());
                }
                Place::BasicUser { password } => {
                    headers.insert(AUTHORIZATION, basic(credential.expose().as_bytes(), password)?);
                }
                Place::BasicPassword { user } => {
                    headers.insert(AUTHORIZATION, basic(user, credential.expose().as_bytes())?);
                }
            },
        }
        Ok(())
    }
}

/// Basic authentication, the one scheme that cannot be made ready: half of it is the agent's.
fn basic(user: &[u8], password: &[u8]) -> Result<HeaderValue, Refusal> {
    // The other half may be a token as well.
    let half = |text| if holds_token_text(text) { &[] } else { text };
    let pair = Secret::new([half(user), b":", half(password)].concat());
    let value = Secret::new(format!("Basic {}", STANDARD.encode(pair.expose())));
    sensitive(value.expose()).ok_or_else(|| Refusal::plain(Reason::Internal))
}

fn sensitive(text: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(text).ok()?;
    value.set_sensitive(true);
    Some(value)
}

fn missing(alias: &str) -> Refusal {
    let message = format!(
        "the agent's token stands where the key of service `{alias}` belongs, and the gate holds no \
         credential for it: store one with `agentguard service set {alias} --credential-env NAME`, or \
         send your own key there and the token as `X-AgentGuard-Token`"
    );
    Refusal::with(Reason::CredentialMissing, message)
}

fn unusable(alias: &str) -> Refusal {
    let message = format!("the gate's credential for service `{alias}` cannot be used");
    let remedy = format!(
        "an operator can see why with `agentguard service list --json`, and store it again with \
         `agentguard service set {alias} --credential-env NAME`"
    );
    Refusal::with(Reason::CredentialMissing, message).detail("remedy", remedy)
}

#[cfg(test)]
mod tests {
    use super::*;
    use agentguard_gate::{CredentialSource, Unusable};

    const TOKEN: &[u8] = b"ag_live_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

    fn service(kind: ServiceKind) -> Service {
        let mut service = agentguard_gate::defaults::built_in_services().remove(0);
        service.kind = kind;
        service
    }

    fn held() -> CredentialState {
        let credential = Credential::parse(Secret::new("sk-hunter2".to_owned())).unwrap();
        CredentialState::Held { credential, source: CredentialSource::Store }
    }

    #[test]
    fn what_is_put_in_is_sensitive_and_shown_nowhere() {
        let user = b"me".to_vec();
        for place in [Place::Bearer, Place::ApiKey, Place::BasicPassword { user }] {
            for kind in ServiceKind::ALL {
                let service = service(kind);
                let credential = RouteCredential::of(&service, &held());
                let mut headers = HeaderMap::new();
                credential.put_into(&mut headers, &place, &service).unwrap();
                assert!(headers.len() == 1 && headers.values().all(HeaderValue::is_sensitive));
                let shown = format!("{credential:?} {headers:?}");
                assert!(!shown.contains("hunter2") && shown.contains("Sensitive"), "{shown}");
            }
        }
    }

    #[test]
    fn a_token_in_both_halves_leaves_neither() {
        let service = service(ServiceKind::Generic);
        let credential = RouteCredential::of(&service, &held());
        let mut headers = HeaderMap::new();
        let place = Place::BasicUser { password: TOKEN.to_vec() };
        credential.put_into(&mut headers, &place, &service).unwrap();
        let expected = format!("Basic {}", STANDARD.encode("sk-hunter2:"));
        assert_eq!(headers.get(AUTHORIZATION).unwrap().as_bytes(), expected.as_bytes());
    }

    #[test]
    fn an_unusable_credential_refuses_wherever_it_would_be_needed() {
        let service = service(ServiceKind::Openai);
        let credential =
            RouteCredential::of(&service, &CredentialState::Unusable(Unusable::Sealed));
        let check = |place: Place, own: bool, refused: bool| {
            let mut headers = HeaderMap::new();
            if own {
                headers.insert(AUTHORIZATION, HeaderValue::from_static("Bearer own"));
            }
            let put = credential.put_into(&mut headers, &place, &service);
            let reason = put.err().map(|refusal| refusal.reason);
            assert_eq!(reason, refused.then_some(Reason::CredentialMissing));
            assert_eq!(headers.len(), usize::from(own));
        };
        check(Place::Bearer, false, true);
        check(Place::OwnHeader, false, true);
        check(Place::OwnHeader, true, false);
        check(Place::Nowhere, false, false);
    }
}
