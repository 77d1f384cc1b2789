//! What a caller shows at a door, and how it is turned away before anything is decided.

use std::net::IpAddr;

use agentguard_core::token::Token;
use agentguard_core::{AgentId, Refusal};

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
