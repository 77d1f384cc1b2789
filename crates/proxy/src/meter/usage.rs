//! A provider's `usage`, as tokens that are each counted once.
//!
//! OpenAI counts cached input within its input, Anthropic beside it. A usage that makes no sense is no
//! usage: then the answer is settled by what passed.

use agentguard_core::Tokens;
use agentguard_core::limits::TOKENS_MAX;
use serde::Deserialize;

use crate::amount::Api;

/// Reads the object.
pub(super) fn read(api: Api, json: &[u8]) -> Option<Tokens> {
    let usage: Usage = serde_json::from_slice(json).ok()?;
    let tokens = match api {
        Api::Chat | Api::Completions | Api::Embeddings => usage.of_openai()?,
        Api::Responses => usage.of_responses()?,
        Api::Messages => usage.of_anthropic()?,
    };
    let sane = [
        tokens.input,
        tokens.cached_input,
        tokens.cache_write,
        tokens.cache_write_hour,
        tokens.output,
    ]
    .into_iter()
    .all(|count| count <= TOKENS_MAX);
    sane.then_some(tokens)
}

/// All names of all providers; each reads its own.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Usage {
    prompt_tokens: Option<u64>,
    completion_tokens: Option<u64>,
    total_tokens: Option<u64>,
    prompt_tokens_details: Option<InputDetails>,
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    input_tokens_details: Option<InputDetails>,
    cache_read_input_tokens: Option<u64>,
    cache_creation_input_tokens: Option<u64>,
    cache_creation: Option<CacheCreation>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct InputDetails {
    cached_tokens: Option<u64>,
    cache_write_tokens: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct CacheCreation {
    ephemeral_1h_input_tokens: Option<u64>,
}

impl Usage {
    fn of_openai(self) -> Option<Tokens> {
        let input = self.prompt_tokens?;
        // Some servers count reasoning only in the total. Embeddings have no output.
        let beside = self.total_tokens.map(|total| total.saturating_sub(input));
        let output = self.completion_tokens.max(beside)?;
        within(input, self.prompt_tokens_details, output)
    }

    fn of_responses(self) -> Option<Tokens> {
        within(self.input_tokens?, self.input_tokens_details, self.output_tokens?)
    }

    fn of_anthropic(self) -> Option<Tokens> {
        let written = self.cache_creation_input_tokens.unwrap_or(0);
        let hour = self.cache_creation.and_then(|created| created.ephemeral_1h_input_tokens);
        let cache_write_hour = hour.unwrap_or(0).min(written);
        Some(Tokens {
            input: self.input_tokens.unwrap_or(0),
            cached_input: self.cache_read_input_tokens.unwrap_or(0),
            cache_write: written.saturating_sub(cache_write_hour),
            cache_write_hour,
            output: self.output_tokens?,
        })
    }
}

/// Parts of the input are counted within it, and never beyond it.
fn within(all: u64, details: Option<InputDetails>, output: u64) -> Option<Tokens> {
    let details = details.unwrap_or_default();
    let cached_input = details.cached_tokens.unwrap_or(0).min(all);
    let fresh = all.saturating_sub(cached_input);
    let cache_write = details.cache_write_tokens.unwrap_or(0).min(fresh);
    Some(Tokens {
        input: fresh.saturating_sub(cache_write),
        cached_input,
        cache_write,
        cache_write_hour: 0,
        output,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_provider_is_read_in_its_own_way() {
        let check = |api, json: &str, expected: Option<[u64; 5]>| {
            let found = read(api, json.as_bytes()).map(|tokens| {
                let Tokens { input, cached_input, cache_write, cache_write_hour, output } = tokens;
                [input, cached_input, cache_write, cache_write_hour, output]
            });
            assert_eq!(found, expected, "{json}");
        };
        check(
            Api::Chat,
            r#"{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15}"#,
            Some([10, 0, 0, 0, 5]),
        );
        check(
            Api::Chat,
            r#"{"prompt_tokens":10,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":4,"cache_write_tokens":2},"completion_tokens_details":{"reasoning_tokens":3}}"#,
            Some([4, 4, 2, 0, 5]),
        );
        check(
            Api::Chat,
            r#"{"prompt_tokens":10,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":99}}"#,
            Some([0, 10, 0, 0, 5]),
        );
        check(Api::Embeddings, r#"{"prompt_tokens":8,"total_tokens":8}"#, Some([8, 0, 0, 0, 0]));
        check(
            Api::Responses,
            r#"{"input_tokens":7,"input_tokens_details":{"cached_tokens":2},"output_tokens":3}"#,
            Some([5, 2, 0, 0, 3]),
        );
        check(
            Api::Messages,
            r#"{"input_tokens":7,"cache_creation_input_tokens":30,"cache_read_input_tokens":9,"cache_creation":{"ephemeral_5m_input_tokens":10,"ephemeral_1h_input_tokens":20},"output_tokens":3}"#,
            Some([7, 9, 10, 20, 3]),
        );
        check(Api::Messages, r#"{"output_tokens":3}"#, Some([0, 0, 0, 0, 3]));
        check(
            Api::Chat,
            r#"{"prompt_tokens":10,"completion_tokens":10,"total_tokens":16020}"#,
            Some([10, 0, 0, 0, 16_010]),
        );
        check(Api::Chat, r#"{"prompt_tokens":10}"#, None);
        check(Api::Chat, r#"{"completion_tokens":5}"#, None);
        check(Api::Chat, r#"{"prompt_tokens":-1,"completion_tokens":5}"#, None);
        check(Api::Chat, r#"{"prompt_tokens":1.5,"completion_tokens":5}"#, None);
        check(Api::Chat, r#"{"prompt_tokens":1,"completion_tokens":99999999999999}"#, None);
        check(Api::Responses, r#"{"input_tokens":7}"#, None);
        check(Api::Messages, "{}", None);
        check(Api::Chat, "nonsense", None);
    }
}
