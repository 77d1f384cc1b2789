//! Model calls: which they are, and the most that one can cost, bounded from its request alone.
//!
//! A bound has to hold whatever the model does, or parallel calls could pass a budget together. Input
//! is bounded by bytes: no tokenizer makes more tokens than there are bytes. What is not in the body
//! (files, earlier answers) is bounded by what the model can take in. What cannot be bounded has no
//! price.
//!
//! Never here: what a call did cost (`meter`).

mod ask;
mod splice;

use std::sync::Arc;

use agentguard_core::action::{Unpriced, Unreadable};
use agentguard_core::price::CacheWrites;
use agentguard_core::service::ServiceKind;
use agentguard_core::{Amount, Currency, MicroUsd, Money, Price, PriceTable};

use super::{Planned, Settling};
use crate::limits::{CALL_OVERHEAD_TOKENS, IMAGE_TOKENS_MAX, TOOLS_OVERHEAD_TOKENS};
use ask::Ask;
use splice::Splice;

/// Which of the providers' calls it is: they name their bounds and their usage differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Api {
    /// OpenAI's `/v1/chat/completions`.
    Chat,
    /// OpenAI's `/v1/completions`.
    Completions,
    /// OpenAI's `/v1/responses`.
    Responses,
    /// OpenAI's `/v1/embeddings`.
    Embeddings,
    /// Anthropic's `/v1/messages`.
    Messages,
}

/// What is known of a call before it is made, and needed to settle it.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) api: Api,
    pub(crate) model: String,
    pub(crate) price: Arc<Price>,
    pub(crate) surcharge_ppm: u32,
    pub(crate) input_bound: u64,
    pub(crate) output_bound: u64,
    pub(crate) reserved: MicroUsd,
    /// The model may write what nobody sees, so that what passes says little about what it cost.
    pub(crate) hides_output: bool,
    /// The gate asked for the usage, not the agent: the event that holds it stays here.
    pub(crate) withholds: bool,
    /// To how many tokens the gate lowered the maximum of each answer, if it did.
    pub(crate) clamped: Option<u64>,
}

/// What a call is priced with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pricing<'a> {
    pub(crate) prices: &'a PriceTable,
    /// What the call may cost, where it is to be made to fit.
    pub(crate) room: Option<MicroUsd>,
    /// The model that the path names, if it does.
    pub(crate) deployment: Option<&'a str>,
}

/// The deployment that a path names, as Azure's do.
pub(crate) fn deployment(path: &str) -> Option<&str> {
    let mut segments = path.split('/');
    segments.find(|segment| segment.eq_ignore_ascii_case("deployments"))?;
    segments.next().filter(|name| !name.is_empty())
}

/// The call of a loosely read path: priced by its model, or paid in a way that cannot be counted. None
/// where it is free.
pub(super) fn call(kind: ServiceKind, path: &str) -> Option<Option<Api>> {
    let segments: Vec<_> = path.split('/').filter(|segment| !segment.is_empty()).collect();
    let is_version = |segment: &&str| {
        segment.strip_prefix('v').is_some_and(|rest| rest.bytes().all(|b| b.is_ascii_digit()))
    };
    let after = segments.iter().rposition(is_version).map_or(0, |place| place.saturating_add(1));
    let named = segments.get(after..).unwrap_or_default();
    match kind {
        ServiceKind::Openai => openai(path, named),
        ServiceKind::Anthropic => anthropic(path, named),
        ServiceKind::Stripe | ServiceKind::GoogleAds | ServiceKind::Generic => None,
    }
}

fn openai(path: &str, named: &[&str]) -> Option<Option<Api>> {
    let priced = [
        ("/chat/completions", Api::Chat),
        ("/completions", Api::Completions),
        ("/responses", Api::Responses),
        ("/embeddings", Api::Embeddings),
    ];
    if let Some((_, api)) = priced.into_iter().find(|(end, _)| path.ends_with(end)) {
        return Some(Some(api));
    }
    match named {
        ["files" | "uploads" | "conversations" | "moderations", ..]
        | ["responses", "input_tokens"]
        | ["responses" | "batches", _, "cancel"]
        | ["fine_tuning", "jobs", _, "cancel" | "pause"]
        | ["chat", "completions", _] => None,
        _ => Some(None),
    }
}

fn anthropic(path: &str, named: &[&str]) -> Option<Option<Api>> {
    if path.ends_with("/messages") {
        return Some(Some(Api::Messages));
    }
    match named {
        ["files", ..] | ["messages", "count_tokens"] | ["messages", "batches", _, "cancel"] => None,
        _ => Some(None),
    }
}

/// Reads a call's body and bounds its cost. Where `room` is given, a maximum that does not fit into it
/// is lowered until it does.
pub(crate) fn plan(api: Api, body: &[u8], with: Pricing<'_>) -> Result<Planned, Unreadable> {
    let Pricing { prices, room, deployment } = with;
    let ask = Ask::read(body)?;
    // A server that is asked by deployment takes its model from there, whatever the body says.
    let model = deployment.unwrap_or_else(|| ask.model());
    let unpriced = |what| Planned::plain(Amount::Unpriced(what));
    if let Some(what) = ask.beyond_tokens(api) {
        return Ok(unpriced(Unpriced::Extra(what)));
    }
    let Some(price) = prices.find(model) else {
        let shown = model.chars().filter(|c| !c.is_control()).take(80).collect();
        return Ok(unpriced(Unpriced::Model(shown)));
    };
    let mut output = output_bound(api, &ask, body.len(), price)?;
    let input_bound = input_bound(api, &ask, body.len(), price);
    let surcharge_ppm = ask.surcharge_ppm();
    let cache = match api {
        Api::Messages if ask.caches() => CacheWrites::Hour,
        Api::Messages | Api::Embeddings => CacheWrites::None,
        Api::Chat | Api::Completions | Api::Responses => CacheWrites::Minutes,
    };
    let bound = |output: &Output| price.bound(input_bound, output.bound(), cache, surcharge_ppm);
    let mut splice = Splice::new(body);
    let mut clamped = None;
    if let Some(room) = room.filter(|room| bound(&output) > *room)
        && let Some(lowered) = output.lowered(|output| bound(output) <= room)
    {
        splice.lower(&ask, (api, api.maximum(price)), lowered.each)?;
        clamped = Some(lowered.each);
        output = lowered;
    }
    let reserved = bound(&output);
    let money = Money::new(reserved.micros(), Currency::USD).ok_or(Unreadable::NotAnAmount)?;
    let asks_usage = matches!(api, Api::Chat | Api::Completions) && ask.streams();
    let withholds = asks_usage && !ask.wants_usage()?;
    if withholds {
        splice.ask_usage(&ask)?;
    }
    let plan = Plan {
        api,
        model: model.to_owned(),
        price: Arc::clone(price),
        surcharge_ppm,
        input_bound,
        output_bound: output.bound(),
        reserved,
        hides_output: price.reasons || ask.writes_unseen(),
        withholds,
        clamped,
    };
    let settling = Some(Settling::Model(Box::new(plan)));
    Ok(Planned { amount: Amount::UpTo(money), settling, rewritten: splice.finish()? })
}

/// How much may come out.
#[derive(Clone, Copy, Debug)]
struct Output {
    /// Of one answer.
    each: u64,
    answers: u64,
    /// A prediction that does not fit is paid for as output.
    predicted: u64,
}

impl Output {
    const fn bound(&self) -> u64 {
        self.each.saturating_mul(self.answers).saturating_add(self.predicted)
    }

    /// The longest answers that fit, if any do.
    fn lowered(self, fits: impl Fn(&Self) -> bool) -> Option<Self> {
        let (mut low, mut high) = (0_u64, self.each);
        while low.saturating_add(1) < high {
            let each = low.midpoint(high);
            if fits(&Self { each, ..self }) { low = each } else { high = each }
        }
        (low > 0).then_some(Self { each: low, ..self })
    }
}

impl Api {
    /// The member that bounds the output where none is named.
    const fn maximum(self, price: &Price) -> &'static str {
        match self {
            Self::Chat if price.reasons => "max_completion_tokens",
            Self::Responses => "max_output_tokens",
            Self::Chat | Self::Completions | Self::Embeddings | Self::Messages => "max_tokens",
        }
    }
}

/// The most tokens that go in.
fn input_bound(api: Api, ask: &Ask<'_>, body_bytes: usize, price: &Price) -> u64 {
    if ask.refers_elsewhere() {
        return price.max_input_tokens;
    }
    let bytes = u64::try_from(body_bytes).unwrap_or(u64::MAX);
    let tools = ask.tools().saturating_mul(TOOLS_OVERHEAD_TOKENS);
    let images = ask.images().saturating_mul(IMAGE_TOKENS_MAX);
    let tokens =
        bytes.saturating_add(CALL_OVERHEAD_TOKENS).saturating_add(tools).saturating_add(images);
    match api {
        // The model turns away what is longer.
        Api::Chat | Api::Responses | Api::Messages => tokens.min(price.max_input_tokens),
        // Many inputs in one call, each of which may be that long.
        Api::Completions | Api::Embeddings => tokens,
    }
}

/// The most tokens that come out.
fn output_bound(
    api: Api,
    ask: &Ask<'_>,
    body_bytes: usize,
    price: &Price,
) -> Result<Output, Unreadable> {
    if api == Api::Embeddings {
        return Ok(Output { each: 0, answers: 0, predicted: 0 });
    }
    let predicted = if ask.predicts() { u64::try_from(body_bytes).unwrap_or(u64::MAX) } else { 0 };
    Ok(Output {
        each: ask.max_output(api)?.unwrap_or(price.max_output_tokens),
        answers: ask.answers()?,
        predicted,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path;

    fn plan_of(planned: Planned) -> Plan {
        match planned.settling {
            Some(Settling::Model(plan)) => *plan,
            other => panic!("no plan: {other:?}"),
        }
    }

    fn planned(api: Api, body: &str) -> Result<Planned, Unreadable> {
        let prices = PriceTable::built_in().unwrap();
        plan(api, body.as_bytes(), Pricing { prices: &prices, room: None, deployment: None })
    }

    #[test]
    fn a_path_says_whether_and_how_a_call_is_paid() {
        let check = |kind, raw: &str, expected: Option<Option<Api>>| {
            assert_eq!(call(kind, &path::loosely(raw)), expected, "{raw}");
        };
        let openai = ServiceKind::Openai;
        check(openai, "/v1/chat/completions", Some(Some(Api::Chat)));
        check(openai, "/v1//Chat/completions/", Some(Some(Api::Chat)));
        check(openai, "/v1/chat%2fcompletions", Some(Some(Api::Chat)));
        check(openai, "/openai/deployments/x/chat/completions", Some(Some(Api::Chat)));
        check(openai, "/v1/completions", Some(Some(Api::Completions)));
        check(openai, "/v1/responses", Some(Some(Api::Responses)));
        check(openai, "/v1/embeddings", Some(Some(Api::Embeddings)));
        check(openai, "/v1/responses/resp_1/cancel", None);
        check(openai, "/v1/responses/compact", Some(None));
        check(openai, "/v1/files", None);
        check(openai, "/v1/models/gemini:generateContent", Some(None));
        check(openai, "/v1/moderations", None);
        check(openai, "/v1/images/generations", Some(None));
        check(openai, "/v1/audio/speech", Some(None));
        check(openai, "/v1/batches", Some(None));
        check(openai, "/v1/threads/t/runs", Some(None));
        check(openai, "/files/v1/images/generations", Some(None));
        check(openai, "/anything", Some(None));
        let anthropic = ServiceKind::Anthropic;
        check(anthropic, "/v1/messages", Some(Some(Api::Messages)));
        check(anthropic, "/v1/messages/count_tokens", None);
        check(anthropic, "/v1/messages/batches", Some(None));
        check(anthropic, "/v1/complete", Some(None));
        check(ServiceKind::Generic, "/v1/chat/completions", None);
    }

    #[test]
    fn a_bound_follows_from_the_body() {
        let check = |api, body: &str, input: u64, output: u64| {
            let plan = plan_of(planned(api, body).unwrap());
            assert_eq!((plan.input_bound, plan.output_bound), (input, output), "{body}");
        };
        let long = |body: &str| u64::try_from(body.len()).unwrap() + CALL_OVERHEAD_TOKENS;
        let body =
            r#"{"model":"gpt-4o","messages":[{"role":"user","content":"hi"}],"max_tokens":5}"#;
        check(Api::Chat, body, long(body), 5);
        let body =
            r#"{"model":"gpt-4o","messages":[],"max_completion_tokens":7,"max_tokens":5,"n":3}"#;
        check(Api::Chat, body, long(body), 21);
        let body = r#"{"model":"gpt-4o","messages":[]}"#;
        check(Api::Chat, body, long(body), 16_384);
        let body =
            r#"{"model":"davinci-002","prompt":["a","b"],"n":2,"best_of":3,"max_tokens":10}"#;
        check(Api::Completions, body, long(body), 60);
        let body = r#"{"model":"davinci-002","prompt":[1,2,3],"max_tokens":10}"#;
        check(Api::Completions, body, long(body), 10);
        let body = r#"{"model":"text-embedding-3-small","input":["a","b"]}"#;
        check(Api::Embeddings, body, long(body), 0);
        let body = r#"{"model":"gpt-5","input":"x","previous_response_id":"resp_1","max_output_tokens":9}"#;
        check(Api::Responses, body, 272_000, 9);
        let body = r#"{"model":"gpt-5","input":[{"role":"user","content":[{"type":"input_file","file_id":"f"}]}],"max_output_tokens":9}"#;
        check(Api::Responses, body, 272_000, 9);
        let body = r#"{"model":"gpt-4o","messages":[],"max_output_tokens":1}"#;
        check(Api::Chat, body, long(body), 16_384);
        let body = r#"{"model":"gpt-4o","messages":[],"max_tokens":0}"#;
        check(Api::Chat, body, long(body), 16_384);
        let body = r#"{"model":"gpt-5","input":"x","max_tokens":1}"#;
        check(Api::Responses, body, long(body), 128_000);
        let body = r#"{"model":"gpt-5","input":[{"id":"msg_1"}],"max_output_tokens":1}"#;
        check(Api::Responses, body, 272_000, 1);
        let body = r#"{"model":"gpt-5","input":[{"id":"msg_1","type":"message","content":[]}],"max_output_tokens":1}"#;
        check(Api::Responses, body, long(body), 1);
        let body = r#"{"model":"claude-haiku-4-5","max_tokens":5,"messages":[],"thread":{"type":"continue"}}"#;
        check(Api::Messages, body, 200_000, 5);
        let body = r#"{"model":"gpt-4o","messages":[{"content":[{"type":"image_url","image_url":{"url":"x"}}]}],"max_tokens":1}"#;
        check(Api::Chat, body, long(body) + IMAGE_TOKENS_MAX, 1);
        let body = r#"{"model":"claude-haiku-4-5","max_tokens":5,"tools":[{"name":"f","input_schema":{"type":"object"}}],"messages":[]}"#;
        check(Api::Messages, body, long(body) + TOOLS_OVERHEAD_TOKENS, 5);
        let body =
            format!(r#"{{"model":"gpt-4","messages":"{}","max_tokens":1}}"#, "x".repeat(9_000));
        check(Api::Chat, &body, 8_192, 1);
        let body = r#"{"model":"gpt-4o","messages":[],"prediction":{"type":"content","content":"abc"},"max_tokens":1}"#;
        check(Api::Chat, body, long(body), 1 + u64::try_from(body.len()).unwrap());
    }

    #[test]
    fn what_cannot_be_bounded_has_no_price() {
        let check = |api, body: &str, expected: Unpriced| {
            let planned = planned(api, body).unwrap();
            assert_eq!(planned.amount, Amount::Unpriced(expected), "{body}");
        };
        let extra = Unpriced::Extra;
        check(Api::Chat, r#"{"model":"GPT-9"}"#, Unpriced::Model("GPT-9".to_owned()));
        check(Api::Chat, r#"{"messages":[]}"#, Unpriced::Model(String::new()));
        check(Api::Chat, r#"{"model":"gpt-4o","service_tier":"gold"}"#, extra("this service tier"));
        check(
            Api::Chat,
            r#"{"model":"gpt-4o","messages":[{"content":[{"type":"input_audio"}]}]}"#,
            extra("audio"),
        );
        check(Api::Chat, r#"{"model":"gpt-4o","modalities":["text","audio"]}"#, extra("audio"));
        let tools = "a tool that runs at the provider";
        check(Api::Chat, r#"{"model":"gpt-4o","web_search_options":{}}"#, extra(tools));
        check(Api::Responses, r#"{"model":"gpt-5","tools":[{"type":"web_search"}]}"#, extra(tools));
        check(
            Api::Messages,
            r#"{"model":"claude-haiku-4-5","tools":[{"type":"web_search_20250305","name":"web_search"}]}"#,
            extra(tools),
        );
    }

    #[test]
    fn another_model_or_tool_in_the_conversation_has_no_price() {
        for (api, body) in [
            (
                Api::Responses,
                r#"{"model":"gpt-5","input":[{"type":"additional_tools","tools":[{"type":"web_search"}]}]}"#,
            ),
            (
                Api::Messages,
                r#"{"model":"claude-haiku-4-5","max_tokens":1,"messages":[{"content":[{"type":"tool_addition","tool":{}}]}]}"#,
            ),
            (
                Api::Messages,
                r#"{"model":"claude-haiku-4-5","max_tokens":1,"fallbacks":[{"model":"claude-opus-4-1"}]}"#,
            ),
            (Api::Chat, r#"{"model":"gpt-4o","models":["o1-pro"]}"#),
            (
                Api::Messages,
                r#"{"model":"claude-haiku-4-5","max_tokens":1,"context_management":{"edits":[{"type":"compact_20260112"}]}}"#,
            ),
        ] {
            let amount = planned(api, body).unwrap().amount;
            assert!(matches!(amount, Amount::Unpriced(Unpriced::Extra(_))), "{body}: {amount:?}");
        }
    }

    #[test]
    fn a_deployment_is_priced_by_its_own_name() {
        assert_eq!(deployment("/openai/deployments/gpt-4/chat/completions"), Some("gpt-4"));
        assert_eq!(deployment("/v1/chat/completions"), None);
        let prices = PriceTable::built_in().unwrap();
        let with = Pricing { prices: &prices, room: None, deployment: Some("gpt-4") };
        let planned = plan(Api::Chat, br#"{"model":"gpt-4o-mini","max_tokens":1}"#, with).unwrap();
        assert_eq!(plan_of(planned).model, "gpt-4");
    }

    #[test]
    fn doubtful_bodies_are_unreadable() {
        let check = |body: &str, expected| {
            assert_eq!(planned(Api::Chat, body).unwrap_err(), expected, "{body}");
        };
        for body in [
            "",
            "[]",
            "{",
            r#"{"model":"gpt-4o"}x"#,
            r#"{"model":"gpt-4o","model":"gpt-4o-mini"}"#,
            r#"{"model":"gpt-4o","max_tokens":1,"max_tokens":9}"#,
            r#"{"model":"gpt-4o","Max_Tokens":9}"#,
            r#"{"model":"gpt-4o","\u006dodel":"gpt-4o-mini"}"#,
            r#"{"model":1}"#,
            r#"{"model":"gpt-4o","stream":"yes"}"#,
            r#"{"model":"gpt-4o","stream":true,"stream_options":7}"#,
        ] {
            check(body, Unreadable::Malformed);
        }
        for number in ["-1", "1.5", "1e3", "99999999999999999999", "true", "[]", "\"x\""] {
            check(
                &format!(r#"{{"model":"gpt-4o","max_tokens":{number}}}"#),
                Unreadable::NotAnAmount,
            );
            check(&format!(r#"{{"model":"gpt-4o","n":{number}}}"#), Unreadable::NotAnAmount);
        }
        check(r#"{"model":"gpt-4o","max_tokens":18446744073709551615}"#, Unreadable::NotAnAmount);
        assert!(planned(Api::Chat, r#"{"model":"gpt-4o","max_tokens":null,"n":null}"#).is_ok());
        assert!(planned(Api::Chat, r#"{"model":"gpt-4o","max_tokens":"5"}"#).is_ok());
    }

    #[test]
    fn dearer_ways_of_being_served_cost_more() {
        let reserved = |body: &str| plan_of(planned(Api::Chat, body).unwrap()).reserved;
        let plain =
            reserved(r#"{"model":"gpt-4o","max_tokens":1000000,"service_tier":"default" }"#);
        let prior =
            reserved(r#"{"model":"gpt-4o","max_tokens":1000000,"service_tier":"priority"}"#);
        assert!(prior.micros() > plain.micros() * 249 / 100, "{prior} against {plain}");
    }

    #[test]
    fn a_maximum_is_lowered_to_what_there_is_room_for() {
        let prices = PriceTable::built_in().unwrap();
        let body = r#"{"model":"gpt-4o","max_tokens":1000,"n":2}"#;
        let at = |room| {
            let room = Some(MicroUsd::from_micros(room));
            let with = Pricing { prices: &prices, room, deployment: None };
            let mut planned = plan(Api::Chat, body.as_bytes(), with).unwrap();
            let rewritten = planned.rewritten.take();
            (plan_of(planned), rewritten)
        };
        let (whole, rewritten) = at(1_000_000);
        assert_eq!((whole.clamped, rewritten), (None, None));
        let input = whole.reserved.micros() - 20_000;
        for (room, each) in [(input + 10_000, 500), (input + 10_019, 500), (input + 20, 1)] {
            let (lowered, rewritten) = at(room);
            assert_eq!(lowered.clamped, Some(each), "room for {room}");
            assert!(lowered.reserved.micros() <= room);
            let text = format!(r#"{{"model":"gpt-4o","max_tokens":{each},"n":2}}"#);
            assert_eq!(rewritten.unwrap(), text.as_bytes());
        }
        // No room at all: it goes to the gate as it is, which refuses it.
        let (refused, rewritten) = at(input + 19);
        assert_eq!((refused.clamped, rewritten, refused.reserved), (None, None, whole.reserved));
    }
}
