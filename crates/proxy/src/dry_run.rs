//! What an operator's extractor would read from a sample, without a gate.

use agentguard_core::Money;
use agentguard_core::action::Unreadable;
use agentguard_core::extractor::{Extractor, Place, Reads};
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Method};

use crate::amount::Paper;
use crate::amount::custom::{self, AnswerCopy};

/// A call, or the answer to one.
#[derive(Clone, Copy, Debug)]
pub struct Sample<'a> {
    /// Its `Content-Type`; none means the one that the extractor reads.
    pub content_type: Option<&'a str>,
    /// The query of a request.
    pub query: Option<&'a str>,
    /// The body.
    pub body: &'a [u8],
}

/// The money that an extractor reads from a request, or from an answer if that is what it reads.
pub fn extract(extractor: &Extractor, sample: Sample<'_>) -> Result<Money, Unreadable> {
    let found = match &extractor.reads {
        Reads::Response(..) => {
            let mut copy = AnswerCopy::default();
            copy.take(sample.body);
            copy.money(extractor)?
        }
        Reads::Fixed(_) | Reads::Request(_) => {
            let kind = sample.content_type.unwrap_or(usual_type(extractor));
            let mut headers = HeaderMap::new();
            let value = HeaderValue::from_str(kind).map_err(|_| Unreadable::Encoding)?;
            headers.insert(CONTENT_TYPE, value);
            let paper = Paper { headers: &headers, query: sample.query, body: sample.body };
            custom::request(extractor, paper)?
        }
    };
    found.ok_or(Unreadable::Missing)
}

/// Which of a service's extractors a call meets. `path` is what follows the base URL, without a query.
pub fn matching(extractors: &[Extractor], method: &str, path: &str) -> Option<usize> {
    let method = Method::from_bytes(method.to_ascii_uppercase().as_bytes()).ok()?;
    let found = custom::find(extractors, &method, &HeaderMap::new(), path)?;
    extractors.iter().position(|known| std::ptr::eq(known, found))
}

fn usual_type(extractor: &Extractor) -> &'static str {
    match &extractor.reads {
        Reads::Request(figures) | Reads::Response(figures, _) => match figures.amount {
            Place::Json(_) => "application/json",
            Place::Form(_) => "application/x-www-form-urlencoded",
        },
        Reads::Fixed(_) => "application/octet-stream",
    }
}
