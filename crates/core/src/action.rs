//! What an agent wants to do, as facts that rules can judge.

use std::sync::Arc;

use crate::door::Door;
use crate::money::Money;
use crate::time::Timestamp;

/// One thing an agent asked for. Doors build it; only the gate can turn it into a permit.
#[derive(Clone, Debug)]
pub struct Action {
    /// When it was asked, by the gate's clock.
    pub at: Timestamp,
    /// What it is.
    pub facts: Facts,
    /// What it costs.
    pub amount: Amount,
}

/// What is known of an action before it happens, by door.
#[derive(Clone, Debug)]
pub enum Facts {
    /// A call of a paid API.
    Api(ApiFacts),
    /// Reading a page.
    Web(WebFacts),
    /// A command on a server.
    Exec(ExecFacts),
    /// A command to the guarded browser.
    Browser(BrowserFacts),
    /// An action of the browser that started the agent.
    Pipe(PipeFacts),
}

/// A call of a paid API.
#[derive(Clone, Debug)]
pub struct ApiFacts {
    /// The HTTP method, in capitals.
    pub method: Arc<str>,
    /// The address with query values and user names masked: this goes on the record.
    pub masked_url: String,
    /// The host in lower case.
    pub host: Arc<str>,
    /// The service's alias, if the call goes to one.
    pub service: Option<Arc<str>>,
}

/// Reading a page.
#[derive(Clone, Debug)]
pub struct WebFacts {
    /// `GET` or `HEAD`.
    pub method: Arc<str>,
    /// The address, masked.
    pub masked_url: String,
    /// The host in lower case.
    pub host: Arc<str>,
}

/// A command on a server.
#[derive(Clone, Debug)]
pub struct ExecFacts {
    /// The configured host.
    pub host_id: Arc<str>,
    /// The program.
    pub command: String,
    /// Its arguments.
    pub args: Vec<String>,
}

/// A command to the guarded browser.
#[derive(Clone, Debug)]
pub struct BrowserFacts {
    /// Whose window.
    pub session: String,
    /// What to do.
    pub subcommand: String,
    /// The address, masked, when it has one.
    pub masked_url: Option<String>,
    /// The host of the address in lower case.
    pub host: Option<Arc<str>>,
}

/// An action of the browser that started the agent.
#[derive(Clone, Debug)]
pub struct PipeFacts {
    /// What to do.
    pub action: String,
    /// The domain that the page must be on.
    pub domain: Arc<str>,
}

/// What an action costs, as far as is known before it happens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Amount {
    /// No money moves.
    Free,
    /// Exactly this much.
    Exact(Money),
    /// This much at the most; settlement says how much it was.
    UpTo(Money),
    /// Money should be there and could not be read.
    Unreadable(Unreadable),
    /// It costs, and nobody can say how much at the most.
    Unpriced(Unpriced),
}

/// When an amount is known. Payments and metered calls differ by orders of magnitude, so that what is
/// usual for the ones says nothing of the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AmountKind {
    /// Before the call: a payment.
    Exact,
    /// After it, within a bound: a model call.
    Metered,
}

impl Amount {
    /// Among which amounts it counts. What is neither exact nor bounded has no amount to count.
    pub const fn kind(&self) -> AmountKind {
        match self {
            Self::UpTo(_) => AmountKind::Metered,
            Self::Exact(_) | Self::Free | Self::Unreadable(_) | Self::Unpriced(_) => {
                AmountKind::Exact
            }
        }
    }
}

/// What has no price.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unpriced {
    /// A model of this name; empty where none is named.
    Model(String),
    /// Calls of this kind: they are paid for by something else than tokens.
    Call,
    /// Something that the call asks for on top of its tokens.
    Extra(&'static str),
}

impl std::fmt::Display for Unpriced {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Model(name) if name.is_empty() => f.write_str("no model is named"),
            Self::Model(name) => write!(f, "model `{name}` has no price"),
            Self::Call => f.write_str("what calls of this kind cost cannot be counted"),
            Self::Extra(what) => write!(f, "what {what} costs cannot be bounded"),
        }
    }
}

/// Why an amount could not be read. Closed, so that what agents hear is never made of their input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// The body is not what its content type says.
    Malformed,
    /// The body is longer than is looked into.
    TooLong,
    /// A content type or encoding that is not understood.
    Encoding,
    /// The amount is missing.
    Missing,
    /// The amount is negative, fractional, given twice, or too large.
    NotAnAmount,
    /// The currency is missing or no currency.
    NoCurrency,
}

impl Unreadable {
    /// For people.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Malformed => "the body is not well-formed for its content type",
            Self::TooLong => "the body is longer than `proxy.max_body_inspect_bytes`",
            Self::Encoding => {
                "the body's content type or encoding is not one that amounts are read from"
            }
            Self::Missing => "the amount is missing",
            Self::NotAnAmount => "the amount is not one plain non-negative number",
            Self::NoCurrency => "the currency is missing or unknown",
        }
    }
}

impl Action {
    /// The door it goes through.
    pub const fn door(&self) -> Door {
        match &self.facts {
            Facts::Api(_) => Door::Api,
            Facts::Web(_) => Door::Web,
            Facts::Exec(_) => Door::Exec,
            Facts::Browser(_) => Door::Browser,
            Facts::Pipe(_) => Door::Pipe,
        }
    }

    /// The host that domain rules judge, if the action has one.
    pub fn host(&self) -> Option<&str> {
        match &self.facts {
            Facts::Api(api) => Some(&api.host),
            Facts::Web(web) => Some(&web.host),
            Facts::Exec(_) => None,
            Facts::Browser(browser) => browser.host.as_deref(),
            Facts::Pipe(pipe) => Some(&pipe.domain),
        }
    }

    /// The service, if it goes to one.
    pub fn service(&self) -> Option<&Arc<str>> {
        match &self.facts {
            Facts::Api(api) => api.service.as_ref(),
            Facts::Web(_) | Facts::Exec(_) | Facts::Browser(_) | Facts::Pipe(_) => None,
        }
    }

    /// The HTTP method, where there is one.
    pub fn method(&self) -> Option<&str> {
        match &self.facts {
            Facts::Api(api) => Some(&api.method),
            Facts::Web(web) => Some(&web.method),
            Facts::Exec(_) | Facts::Browser(_) | Facts::Pipe(_) => None,
        }
    }

    /// Method or verb, as the record names it.
    pub fn verb(&self) -> &str {
        match &self.facts {
            Facts::Api(api) => &api.method,
            Facts::Web(web) => &web.method,
            Facts::Exec(exec) => &exec.command,
            Facts::Browser(browser) => &browser.subcommand,
            Facts::Pipe(pipe) => &pipe.action,
        }
    }

    /// The same, to be kept: methods are shared, not copied.
    pub fn shared_verb(&self) -> Arc<str> {
        match &self.facts {
            Facts::Api(api) => Arc::clone(&api.method),
            Facts::Web(web) => Arc::clone(&web.method),
            Facts::Exec(_) | Facts::Browser(_) | Facts::Pipe(_) => self.verb().into(),
        }
    }

    /// The target, as the record names it.
    pub fn target(&self) -> &str {
        match &self.facts {
            Facts::Api(api) => &api.masked_url,
            Facts::Web(web) => &web.masked_url,
            Facts::Exec(exec) => &exec.host_id,
            Facts::Browser(browser) => browser.masked_url.as_deref().unwrap_or(""),
            Facts::Pipe(pipe) => &pipe.domain,
        }
    }

    /// The money it names, if it could be read.
    pub fn money(&self) -> Option<Money> {
        match &self.amount {
            Amount::Exact(money) | Amount::UpTo(money) => Some(*money),
            Amount::Free | Amount::Unreadable(_) | Amount::Unpriced(_) => None,
        }
    }
}
