//! A model call: its answer is looked at as it passes, and at its end the reservation is
//! corrected to what the provider says, or else to an estimate that is never too low.
//!
//! Bytes pass untouched and at once. Two things are not passed on: the event that holds the usage where
//! the gate asked for it and not the agent, and the rest of a stream that ran past its reservation.
//!
//! Never here: the bound before the call (`amount::model`).

use agentguard_core::{Currency, Money, Tokens};
use agentguard_gate::Spent;
use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use serde_json::{Map, Value, json};

use crate::amount::{Api, Plan};
use crate::inflate::{Coding, Inflater};
use crate::limits::{
    BYTES_PER_TOKEN_MAX, HELD_EVENT_BYTES_MAX, IN_FLIGHT_TOKENS, INFLATED_ANSWER_BYTES_MAX,
};

use super::events::Events;
use super::scan::{Found, Scan};
use super::{Ending, Passed, usage};

/// Looks at one answer.
#[derive(Debug)]
pub(crate) struct ModelMeter {
    plan: Box<Plan>,
    reader: Reader,
    inflater: Option<Inflater>,
    seen: Seen,
    hold: Hold,
}

#[derive(Debug)]
enum Reader {
    /// One JSON document.
    Document(Scan),
    Events(Events),
    /// It cannot be read.
    Blind,
}

/// What the answer has said so far.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    usage: Option<Tokens>,
    /// The provider has said its last word on the usage.
    is_final: bool,
    /// Bytes of text, and events with words of the model in them.
    text_bytes: u64,
    text_events: u64,
    /// Bytes of the answer, inflated.
    bytes: u64,
}

/// What is kept back until its event is whole.
#[derive(Debug)]
enum Hold {
    /// Nothing is: everything passes as it comes.
    Off,
    /// The beginning of an event.
    On(BytesMut),
    /// An event that is too long to be held passes in pieces.
    Passing,
}

impl ModelMeter {
    /// For an answer with this head.
    pub(super) fn new(plan: Box<Plan>, headers: &HeaderMap, is_events: bool) -> Self {
        let coding = Coding::of(headers);
        let inflater = Inflater::new(coding, INFLATED_ANSWER_BYTES_MAX);
        let readable = coding == Coding::Plain || inflater.is_some();
        let reader = match (readable, is_events) {
            (false, _) => Reader::Blind,
            (true, true) => Reader::Events(Events::default()),
            (true, false) => Reader::Document(Scan::default()),
        };
        // An event can only be taken out of a stream that is not compressed.
        let holds = plan.withholds && is_events && coding == Coding::Plain;
        let hold = if holds { Hold::On(BytesMut::new()) } else { Hold::Off };
        Self { plan, reader, inflater, seen: Seen::default(), hold }
    }

    /// Whether it may take bytes out of the answer, or put some in: then its length is not known.
    pub(super) fn changes_length(&self) -> bool {
        matches!(self.reader, Reader::Events(_))
    }

    /// Whether more of the answer could say more about its cost.
    pub(super) fn wants_more(&self) -> bool {
        !self.seen.is_final && !matches!(self.reader, Reader::Blind)
    }

    /// Takes the next bytes of the answer.
    pub(super) fn passed(&mut self, data: Bytes) -> Passed {
        let mut pieces = Pieces { plan: &self.plan, seen: &mut self.seen, ends: Vec::new() };
        let readable = match &mut self.inflater {
            Some(inflater) => {
                let reader = &mut self.reader;
                inflater.feed(&data, |bytes| pieces.look(reader, bytes))
            }
            None => {
                pieces.look(&mut self.reader, &data);
                Ok(())
            }
        };
        let ends = pieces.ends;
        if readable.is_err() {
            self.reader = Reader::Blind;
        }
        if self.is_past_reservation() {
            return Passed::Cut(self.last_words());
        }
        Passed::On(self.hold.pass(data, &ends))
    }

    /// What is still held when the answer is over.
    pub(super) fn rest(&mut self) -> Bytes {
        if let Reader::Document(scan) = &mut self.reader {
            let found = scan.finish();
            self.seen.take(&self.plan, found, 0);
            self.seen.is_final |= self.seen.usage.is_some();
        }
        match std::mem::replace(&mut self.hold, Hold::Off) {
            Hold::On(held) => held.freeze(),
            Hold::Off | Hold::Passing => Bytes::new(),
        }
    }

    /// What the call cost, and what goes on the record about it.
    pub(super) fn settle(&mut self, ending: Ending, facts: &mut Map<String, Value>) -> Spent {
        // A document that broke off may have said its usage before.
        self.rest();
        if let Reader::Events(events) = &mut self.reader {
            let found = events.finish();
            self.seen.take(&self.plan, found, 0);
        }
        facts.insert("model".to_owned(), self.plan.model.as_str().into());
        let (tokens, exact) = match self.seen.usage {
            Some(usage) if self.seen.is_final || ending == Ending::Whole => (usage, true),
            usage => (self.estimate(usage, ending), false),
        };
        facts.insert("tokens".to_owned(), shown(&tokens));
        let cost = self.plan.price.cost(&tokens, self.plan.surcharge_ppm);
        if cost > self.plan.reserved {
            tracing::warn!(model = %self.plan.model, %cost, reserved = %self.plan.reserved, "a call cost more than was reserved for it");
        }
        match Money::new(cost.micros(), Currency::USD) {
            Some(money) if exact => Spent::Exactly(money),
            Some(money) => Spent::Estimated(money),
            None => Spent::Unknown,
        }
    }

    /// What it can have cost at the most, by what is known. Above the bound only by what certainly came.
    fn estimate(&self, usage: Option<Tokens>, ending: Ending) -> Tokens {
        let bound = self.plan.output_bound;
        let told = usage.unwrap_or(Tokens { input: self.plan.input_bound, ..Tokens::default() });
        let unseen = match ending {
            Ending::Whole => 0,
            Ending::Broken => IN_FLIGHT_TOKENS,
        };
        // No token is written in less than one byte. Of a document that broke off nobody has seen the
        // end, and all of it was written before its first byte came.
        let written = match (&self.reader, ending) {
            (Reader::Events(_), _) if !self.plan.hides_output => self.seen.text_bytes,
            (Reader::Document(_), Ending::Whole) if !self.plan.hides_output => self.seen.bytes,
            (Reader::Events(_) | Reader::Document(_) | Reader::Blind, _) => bound,
        };
        let output = written.saturating_add(unseen).min(bound);
        Tokens { output: output.max(told.output).max(self.written_at_least()), ..told }
    }

    /// Whether the stream has certainly cost more than was reserved. Others are not cut: what has come
    /// is paid for in any case.
    fn is_past_reservation(&self) -> bool {
        if !self.changes_length() {
            return false;
        }
        let told = self.seen.usage.unwrap_or_default();
        if self.written_at_least().max(told.output) > self.plan.output_bound {
            return true;
        }
        self.seen.usage.is_some_and(|usage| {
            self.plan.price.cost(&usage, self.plan.surcharge_ppm) > self.plan.reserved
        })
    }

    /// Tokens that the model has certainly written.
    fn written_at_least(&self) -> u64 {
        self.seen.text_events.max(self.seen.text_bytes.div_euclid(BYTES_PER_TOKEN_MAX))
    }

    /// An error in the provider's own shape, as the last event.
    fn last_words(&self) -> Bytes {
        let text = agentguard_core::wire::row(agentguard_core::Reason::ReservationExceeded);
        let (code, message) = (text.code, text.text);
        match self.plan.api {
            Api::Chat | Api::Completions | Api::Embeddings => event(
                None,
                &json!({"error": {"message": message, "type": "agentguard", "param": null, "code": code}}),
            ),
            Api::Responses => event(
                Some("error"),
                &json!({"type": "error", "code": code, "message": message, "param": null, "sequence_number": self.seen.text_events}),
            ),
            Api::Messages => event(
                Some("error"),
                &json!({"type": "error", "error": {"type": "permission_error", "message": format!("{code}: {message}")}}),
            ),
        }
    }
}

fn event(name: Option<&str>, data: &Value) -> Bytes {
    // A line end first: the event before may have been cut in its middle.
    let name = name.map(|name| format!("event: {name}\n")).unwrap_or_default();
    format!("\n\n{name}data: {data}\n\n").into()
}

fn shown(tokens: &Tokens) -> Value {
    let mut shown = Map::new();
    shown.insert("input".to_owned(), tokens.input.into());
    for (name, count) in [
        ("cached_input", tokens.cached_input),
        ("cache_write", tokens.cache_write),
        ("cache_write_hour", tokens.cache_write_hour),
    ] {
        if count > 0 {
            shown.insert(name.to_owned(), count.into());
        }
    }
    shown.insert("output".to_owned(), tokens.output.into());
    shown.into()
}

/// Looks at bytes, and notes where events end that may pass or not.
struct Pieces<'m> {
    plan: &'m Plan,
    seen: &'m mut Seen,
    /// Places behind events, and whether they pass.
    ends: Vec<(usize, bool)>,
}

impl Pieces<'_> {
    fn look(&mut self, reader: &mut Reader, bytes: &[u8]) {
        let count = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        self.seen.bytes = self.seen.bytes.saturating_add(count);
        match reader {
            Reader::Document(scan) => scan.feed(bytes),
            Reader::Events(events) => {
                let Self { plan, seen, ends } = self;
                events.feed(bytes, |place, found| {
                    let only_usage = found.no_choices && found.usage.is_some();
                    seen.take(plan, found, 1);
                    seen.is_final |= only_usage;
                    if plan.withholds {
                        ends.push((place, !only_usage));
                    }
                });
            }
            Reader::Blind => {}
        }
    }
}

impl Seen {
    fn take(&mut self, plan: &Plan, found: Found, events: u64) {
        self.text_bytes = self.text_bytes.saturating_add(found.text_bytes);
        if found.has_words {
            self.text_events = self.text_events.saturating_add(events);
        }
        let Some(read) = found.usage.and_then(|json| usage::read(plan.api, &json)) else { return };
        let before = self.usage.unwrap_or_default();
        self.usage = Some(match plan.api {
            Api::Messages => {
                // The first event tells the input, the last but one the output; each may leave out
                // what the other said.
                self.is_final |= self.usage.is_some();
                most(before, read)
            }
            Api::Responses => {
                self.is_final = true;
                read
            }
            Api::Chat | Api::Completions | Api::Embeddings => read,
        });
    }
}

fn most(one: Tokens, other: Tokens) -> Tokens {
    Tokens {
        input: one.input.max(other.input),
        cached_input: one.cached_input.max(other.cached_input),
        cache_write: one.cache_write.max(other.cache_write),
        cache_write_hour: one.cache_write_hour.max(other.cache_write_hour),
        output: one.output.max(other.output),
    }
}

impl Hold {
    /// What of these bytes goes on now.
    fn pass(&mut self, data: Bytes, ends: &[(usize, bool)]) -> Bytes {
        let whole = ends.last().is_some_and(|(place, _)| *place == data.len());
        match self {
            Self::Off => return data,
            // The usual case: whole events, all of which pass.
            Self::On(held) if held.is_empty() && whole && ends.iter().all(|(_, pass)| *pass) => {
                return data;
            }
            Self::On(_) | Self::Passing => {}
        }
        let mut on = BytesMut::with_capacity(data.len());
        let mut start = 0;
        for (end, pass) in ends {
            let event = data.get(start..*end).unwrap_or_default();
            match std::mem::replace(self, Self::On(BytesMut::new())) {
                Self::On(held) if *pass => {
                    on.extend_from_slice(&held);
                    on.extend_from_slice(event);
                }
                Self::On(_) => {}
                Self::Passing | Self::Off => on.extend_from_slice(event),
            }
            start = *end;
        }
        let rest = data.get(start..).unwrap_or_default();
        match self {
            Self::On(held) if held.len().saturating_add(rest.len()) > HELD_EVENT_BYTES_MAX => {
                on.extend_from_slice(held);
                on.extend_from_slice(rest);
                *self = Self::Passing;
            }
            Self::On(held) => held.extend_from_slice(rest),
            Self::Passing | Self::Off => on.extend_from_slice(rest),
        }
        on.freeze()
    }
}
