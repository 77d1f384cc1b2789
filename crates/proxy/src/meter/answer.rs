//! A call whose answer names its money where the operator says: a bounded copy is read at its end.

use std::sync::Arc;

use agentguard_core::extractor::Extractor;
use agentguard_gate::Spent;
use http::HeaderMap;

use super::Ending;
use crate::amount::custom::AnswerCopy;
use crate::inflate::{Coding, Inflater};
use crate::limits::EXTRACTED_ANSWER_BYTES_MAX;

/// Keeps a copy of one answer.
#[derive(Debug)]
pub(crate) struct AnswerMeter {
    own: Arc<Extractor>,
    copy: AnswerCopy,
    inflater: Option<Inflater>,
    is_readable: bool,
}

impl AnswerMeter {
    pub(super) fn new(own: Arc<Extractor>, headers: &HeaderMap) -> Self {
        let coding = Coding::of(headers);
        let inflater = Inflater::new(coding, EXTRACTED_ANSWER_BYTES_MAX);
        let is_readable = coding == Coding::Plain || inflater.is_some();
        Self { own, copy: AnswerCopy::default(), inflater, is_readable }
    }

    pub(super) fn passed(&mut self, data: &[u8]) {
        let copy = &mut self.copy;
        match &mut self.inflater {
            Some(inflater) => {
                self.is_readable &= inflater.feed(data, |bytes| copy.take(bytes)).is_ok();
            }
            None => copy.take(data),
        }
    }

    /// What the answer says, or else all that was reserved.
    pub(super) fn settle(&self, ending: Ending) -> Spent {
        match self.copy.money(&self.own) {
            Ok(Some(money)) if self.is_readable && ending == Ending::Whole => Spent::Exactly(money),
            Ok(_) | Err(_) => Spent::Guessed,
        }
    }
}
