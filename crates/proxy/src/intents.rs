//! Payment intents whose amount this gate counted when they were made, by service and id.
//!
//! A confirmation names no amount: it moves what its intent says. So only an intent that was counted
//! may be confirmed or captured; one made past the gate would move money that no budget has seen. The
//! ids are kept in memory: after a restart an intent has to be made anew, which is the safe side.
//!
//! Never here: amounts, or which path is a confirmation (`amount::stripe`).

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use agentguard_core::{Reason, Refusal};
use parking_lot::Mutex;
use serde::Deserialize;

use crate::limits::{INTENT_ANSWER_BYTES_MAX, INTENT_ID_BYTES_MAX, INTENTS_MAX};

/// What a call does with an intent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Touch<'a> {
    Nothing,
    /// Makes one; its id comes with the answer.
    Makes,
    /// Confirms or captures this one; none where the path does not name it plainly.
    Settles(Option<&'a str>),
}

/// What follows from that for the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Nothing: it costs what it names.
    Plain,
    /// The id in its answer is to be read.
    Makes,
    /// It moves money that was not counted.
    Uncounted,
}

/// The intents that were counted.
#[derive(Debug, Default)]
pub(crate) struct Intents {
    counted: Mutex<Counted>,
}

/// The same keys twice: to be found, and in the order in which they came.
#[derive(Debug, Default)]
struct Counted {
    keys: HashSet<Arc<str>>,
    order: VecDeque<Arc<str>>,
}

/// Looks at the answer to the creation of an intent, as it passes, for the id.
#[derive(Debug)]
pub(crate) struct Birth {
    intents: Arc<Intents>,
    service: Arc<str>,
    /// The answer so far; none once it is too long to be one.
    seen: Option<Vec<u8>>,
}

#[derive(Deserialize)]
struct Made {
    id: String,
}

impl Intents {
    /// How a call to this service stands.
    pub(crate) fn standing(&self, service: &str, touch: Touch<'_>) -> Standing {
        match touch {
            Touch::Nothing => Standing::Plain,
            Touch::Makes => Standing::Makes,
            Touch::Settles(Some(id)) if self.knows(service, id) => Standing::Plain,
            Touch::Settles(_) => Standing::Uncounted,
        }
    }

    fn knows(&self, service: &str, id: &str) -> bool {
        self.counted.lock().keys.contains(key(service, id).as_str())
    }

    fn remember(&self, service: &str, id: &str) {
        let key: Arc<str> = key(service, id).into();
        let mut counted = self.counted.lock();
        if !counted.keys.insert(Arc::clone(&key)) {
            return;
        }
        counted.order.push_back(key);
        if counted.order.len() > INTENTS_MAX
            && let Some(oldest) = counted.order.pop_front()
        {
            counted.keys.remove(&oldest);
        }
    }
}

impl Standing {
    /// A refusal for this call, in words that fit it.
    pub(crate) fn explain(self, mut refusal: Refusal) -> Refusal {
        match self {
            Self::Uncounted if refusal.reason == Reason::AmountUnreadable => {
                "this payment intent was not created through this gate since it started, so its amount was never counted"
                    .clone_into(&mut refusal.message);
                refusal.detail("why", "intent_not_counted").detail(
                    "remedy",
                    "create the intent through the gate, on the same service, and confirm or capture that one",
                )
            }
            Self::Uncounted | Self::Plain | Self::Makes => refusal,
        }
    }
}

impl Birth {
    pub(crate) fn new(intents: &Arc<Intents>, service: &Arc<str>) -> Self {
        let (intents, service) = (Arc::clone(intents), Arc::clone(service));
        Self { intents, service, seen: Some(Vec::new()) }
    }

    /// Takes the next bytes of the answer.
    pub(crate) fn passed(&mut self, data: &[u8]) {
        let Some(seen) = &mut self.seen else { return };
        if seen.len().saturating_add(data.len()) > INTENT_ANSWER_BYTES_MAX {
            self.seen = None;
            return;
        }
        seen.extend_from_slice(data);
    }

    /// The creation is charged: its intent is known from now on. An answer without an id, or one that
    /// broke off, makes nothing known.
    pub(crate) fn over(self) {
        let seen = self.seen.unwrap_or_default();
        match serde_json::from_slice::<Made>(&seen) {
            Ok(made) if is_id(&made.id) => self.intents.remember(&self.service, &made.id),
            Ok(_) | Err(_) => {
                tracing::warn!(service = %self.service, "no id is read in the answer to the creation of a payment intent: it cannot be confirmed here");
            }
        }
    }
}

/// Whether this is the id of an intent, in the one way in which it is spelt.
pub(crate) fn is_id(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    text.starts_with("pi_") && text.len() <= INTENT_ID_BYTES_MAX && text.bytes().all(plain)
}

/// An id holds no slash, so no two pairs give one key.
fn key(service: &str, id: &str) -> String {
    format!("{service}/{id}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn knows(intents: &Intents, service: &str, id: &str) -> bool {
        intents.standing(service, Touch::Settles(Some(id))) == Standing::Plain
    }

    #[test]
    fn only_a_whole_answer_with_an_id_makes_an_intent_known() {
        let long = format!(r#"{{"id":"pi_1","x":"{}"}}"#, "y".repeat(INTENT_ANSWER_BYTES_MAX));
        let long_id = format!(r#"{{"id":"pi_{}"}}"#, "1".repeat(INTENT_ID_BYTES_MAX));
        for (answer, expected) in [
            (r#"{"id":"pi_1"}"#, true),
            (r#"{"object":"payment_intent","charge":{"id":"ch_1"},"id":"pi_1"}"#, true),
            (r#"{"id":"pi_1""#, false),
            (r#"{"id":"pi_2","id":"pi_1"}"#, false),
            (r#"{"data":{"id":"pi_1"}}"#, false),
            (r#"[{"id":"pi_1"}]"#, false),
            (r#"{"id":"ch_1"}"#, false),
            (r#"{"id":"pi_1/x"}"#, false),
            (r#"{"id":1}"#, false),
            ("", false),
            (&long, false),
            (&long_id, false),
        ] {
            let intents = Arc::new(Intents::default());
            let mut birth = Birth::new(&intents, &"stripe".into());
            answer.as_bytes().chunks(7).for_each(|piece| birth.passed(piece));
            assert!(!knows(&intents, "stripe", "pi_1"), "{answer}: before it is over");
            birth.over();
            assert_eq!(knows(&intents, "stripe", "pi_1"), expected, "{answer}");
            assert_eq!(intents.counted.lock().keys.len(), usize::from(expected), "{answer}");
        }
    }

    #[test]
    fn an_id_is_known_to_the_letter_and_under_its_service() {
        let intents = Intents::default();
        intents.remember("stripe", "pi_1aB");
        assert!(knows(&intents, "stripe", "pi_1aB"));
        assert!(!knows(&intents, "stripe", "pi_1ab"));
        assert!(!knows(&intents, "other", "pi_1aB"));
        assert_eq!(intents.standing("stripe", Touch::Settles(None)), Standing::Uncounted);
        assert_eq!(intents.standing("stripe", Touch::Nothing), Standing::Plain);
    }

    #[test]
    fn the_oldest_is_forgotten_when_there_are_too_many() {
        let intents = Intents::default();
        for n in 0..=INTENTS_MAX {
            intents.remember("stripe", &format!("pi_{n}"));
            intents.remember("stripe", &format!("pi_{n}"));
        }
        assert!(!knows(&intents, "stripe", "pi_0"));
        assert!(knows(&intents, "stripe", "pi_1"));
        let counted = intents.counted.lock();
        assert_eq!((counted.keys.len(), counted.order.len()), (INTENTS_MAX, INTENTS_MAX));
    }
}
