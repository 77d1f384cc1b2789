//! What a call did cost, where its answer says it: the answer is looked at as it passes, and at its end
//! the reservation is corrected.
//!
//! Never here: the bound before the call (`amount`).

mod answer;
mod drain;
mod events;
mod model;
mod scan;
mod usage;

use agentguard_gate::Spent;
use bytes::Bytes;
use http::HeaderMap;
use serde_json::{Map, Value};

use crate::amount::Settling;
use answer::AnswerMeter;
pub(crate) use drain::Drains;
use model::ModelMeter;

/// Looks at one answer.
#[derive(Debug)]
pub(crate) enum Meter {
    Model(Box<ModelMeter>),
    Answer(Box<AnswerMeter>),
}

/// What becomes of bytes that came.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Passed {
    /// They go on; none, if all of them stay here.
    On(Bytes),
    /// The answer is past what was reserved: this is the last that the agent hears of it.
    Cut(Bytes),
}

/// How an answer came to its end, as far as money is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    Whole,
    Broken,
}

impl Meter {
    /// For an answer with this head.
    pub(crate) fn new(settling: Settling, headers: &HeaderMap, is_events: bool) -> Self {
        match settling {
            Settling::Model(plan) => {
                Self::Model(Box::new(ModelMeter::new(plan, headers, is_events)))
            }
            Settling::Custom(own) => Self::Answer(Box::new(AnswerMeter::new(own, headers))),
        }
    }

    /// Whether it may take bytes out of the answer, or put some in: then its length is not known.
    pub(crate) fn changes_length(&self) -> bool {
        match self {
            Self::Model(model) => model.changes_length(),
            Self::Answer(_) => false,
        }
    }

    /// Whether more of the answer could say more about its cost.
    pub(crate) fn wants_more(&self) -> bool {
        match self {
            Self::Model(model) => model.wants_more(),
            Self::Answer(_) => true,
        }
    }

    /// Takes the next bytes of the answer.
    pub(crate) fn passed(&mut self, data: Bytes) -> Passed {
        match self {
            Self::Model(model) => model.passed(data),
            Self::Answer(answer) => {
                answer.passed(&data);
                Passed::On(data)
            }
        }
    }

    /// What is still held when the answer is over.
    pub(crate) fn rest(&mut self) -> Bytes {
        match self {
            Self::Model(model) => model.rest(),
            Self::Answer(_) => Bytes::new(),
        }
    }

    /// What the call cost, and what goes on the record about it.
    pub(crate) fn settle(&mut self, ending: Ending, facts: &mut Map<String, Value>) -> Spent {
        match self {
            Self::Model(model) => model.settle(ending, facts),
            Self::Answer(answer) => answer.settle(ending),
        }
    }
}
