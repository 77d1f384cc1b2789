//! What a caller shows at a door, and how it is turned away before anything is decided.

use std::net::IpAddr;
use std::ops::Deref;
use std::sync::Arc;

use agentguard_core::token::Token;
use agentguard_core::{AgentId, Refusal};

use crate::directory::Entry;

/// What a caller showed at the door.
#[derive(Clone, Debug)]
pub struct Knock {
    /// Its token.
    pub presented: Presented,
    /// Where it calls from.
    pub client_ip: IpAddr,
    /// Whether a web page sent it (`Origin`, or a cross-site `Sec-Fetch-Site`).
    pub from_web_page: bool,
}

/// The token that was shown, if any.
#[derive(Clone, Debug)]
pub enum Presented {
    /// None.
    Nothing,
    /// Something that claims to be one and does not have its form.
    Garbage,
    /// One of the right form.
    Token(Token),
}

/// An agent that showed who it is. Only [`crate::Gate::identify`] makes one, and admission asks for it,
/// so no door can act for an agent that never knocked.
#[derive(Clone, Debug)]
pub struct Caller(Arc<Entry>);

impl Caller {
    pub(crate) const fn new(entry: Arc<Entry>) -> Self {
        Self(entry)
    }

    pub(crate) const fn entry(&self) -> &Arc<Entry> {
        &self.0
    }
}

impl Deref for Caller {
    type Target = Entry;

    fn deref(&self) -> &Entry {
        &self.0
    }
}

/// Why somebody was not let up to the gate.
#[derive(Debug)]
pub struct Rebuff {
    /// Who it was, if that is known.
    pub agent_id: Option<AgentId>,
    /// What they hear.
    pub refusal: Refusal,
}

impl Rebuff {
    pub(crate) fn boxed(agent_id: Option<AgentId>, refusal: Refusal) -> Box<Self> {
        Box::new(Self { agent_id, refusal })
    }
}
