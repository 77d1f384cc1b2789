//! One line of the journal: `crc32 SP json LF`. Written by hand, since every request pays for it.

use std::sync::Arc;

use agentguard_core::action::AmountKind;
use agentguard_core::{AgentId, Currency, Door, MicroUsd, Money, RequestId, Timestamp};
use agentguard_gate::{Decision, Intent, Row};
use serde::Deserialize;
use uuid::Uuid;
use uuid::fmt::Hyphenated;

use crate::limits::INTENT_TEXT_BYTES_MAX;

/// Hexadecimal digits of the checksum, and the space after them.
const CRC_DIGITS: usize = 8;

/// What a line is turned into when its action never came to an end.
pub(crate) const INTERRUPTED: &str = "interrupted";

/// Writes the line into an empty buffer.
pub(crate) fn encode(intent: &Intent<'_>, line: &mut Vec<u8>) {
    line.clear();
    line.extend_from_slice(b"00000000 {\"id\":");
    uuid(line, intent.id.0);
    line.extend_from_slice(b",\"agent\":");
    uuid(line, intent.agent_id.0);
    line.extend_from_slice(b",\"at\":");
    number(line, intent.action.at.as_micros());
    line.extend_from_slice(b",\"door\":");
    text(line, intent.action.door().name());
    line.extend_from_slice(b",\"verb\":");
    text(line, intent.action.verb());
    line.extend_from_slice(b",\"target\":");
    text(line, intent.action.target());
    if let Some(service) = intent.action.service() {
        line.extend_from_slice(b",\"service\":");
        text(line, service);
    }
    if let Some(money) = intent.action.money() {
        line.extend_from_slice(b",\"amount\":");
        number(line, money.micros());
        line.extend_from_slice(b",\"currency\":");
        text(line, money.currency().code());
    }
    line.extend_from_slice(b",\"cost\":");
    number(line, intent.cost.micros());
    if intent.action.amount.kind() == AmountKind::Metered {
        line.extend_from_slice(b",\"metered\":true");
    }
    line.push(b'}');
    let crc = crc32fast::hash(line.get(CRC_DIGITS + 1..).unwrap_or_default());
    for (place, digit) in line.iter_mut().take(CRC_DIGITS).enumerate() {
        let shift = 28_usize.saturating_sub(place.saturating_mul(4));
        *digit = hex_digit(crc >> shift);
    }
    line.push(b'\n');
}

/// The row of an intent whose outcome nobody knows: its money stays charged as it was reserved.
/// `None` if the line (without its end) is damaged.
pub(crate) fn decode(line: &[u8]) -> Option<Row> {
    let (crc, json) = line.split_at_checked(CRC_DIGITS)?;
    let json = json.strip_prefix(b" ")?;
    let crc = u32::from_str_radix(std::str::from_utf8(crc).ok()?, 16).ok()?;
    if crc != crc32fast::hash(json) {
        return None;
    }
    let line: Line = serde_json::from_slice(json).ok()?;
    let amount = match (line.amount, line.currency) {
        (Some(micros), Some(currency)) => Money::new(micros, currency),
        (Some(_), None) | (None, Some(_)) | (None, None) => None,
    };
    Some(Row {
        id: RequestId(line.id),
        agent_id: Some(AgentId(line.agent)),
        at: Timestamp::from_micros(line.at),
        door: line.door,
        verb: line.verb.into(),
        target: line.target,
        service: line.service,
        amount,
        cost: MicroUsd::from_micros(line.cost),
        decision: Decision::Error,
        block_reason: Some(INTERRUPTED),
        rule_id: None,
        response_status: None,
        latency_us: 0,
        is_streaming: false,
        estimated: true,
        risk: None,
        facts: None,
        first_in_minute: false,
        is_metered: line.metered,
    })
}

#[derive(Deserialize)]
struct Line {
    id: Uuid,
    agent: Uuid,
    at: i64,
    door: Door,
    verb: String,
    target: String,
    service: Option<Arc<str>>,
    amount: Option<i64>,
    currency: Option<Currency>,
    cost: i64,
    /// Lines of earlier versions do not say.
    #[serde(default)]
    metered: bool,
}

fn hex_digit(value: u32) -> u8 {
    match value & 0xf {
        low @ 0..=9 => b'0'.saturating_add(u8::try_from(low).unwrap_or(0)),
        high => b'a'.saturating_add(u8::try_from(high.saturating_sub(10)).unwrap_or(0)),
    }
}

fn uuid(line: &mut Vec<u8>, id: Uuid) {
    let mut buffer = [0; Hyphenated::LENGTH];
    line.push(b'"');
    line.extend_from_slice(id.hyphenated().encode_lower(&mut buffer).as_bytes());
    line.push(b'"');
}

fn number(line: &mut Vec<u8>, value: i64) {
    // Twenty places hold every i64 with its sign.
    let mut digits = [0_u8; 20];
    let mut rest = value.unsigned_abs();
    let mut used = 0_usize;
    for digit in digits.iter_mut().rev() {
        *digit = b'0'.saturating_add(u8::try_from(rest % 10).unwrap_or(0));
        rest /= 10;
        used = used.saturating_add(1);
        if rest == 0 {
            break;
        }
    }
    if value < 0 {
        line.push(b'-');
    }
    let start = digits.len().saturating_sub(used);
    line.extend_from_slice(digits.get(start..).unwrap_or_default());
}

fn text(line: &mut Vec<u8>, whole: &str) {
    let end = whole.floor_char_boundary(INTENT_TEXT_BYTES_MAX);
    let bytes = whole.as_bytes().get(..end).unwrap_or_default();
    line.push(b'"');
    for run in bytes.split_inclusive(|byte| needs_escape(*byte)) {
        match run.split_last() {
            Some((last, plain)) if needs_escape(*last) => {
                line.extend_from_slice(plain);
                escape(line, *last);
            }
            Some(_) | None => line.extend_from_slice(run),
        }
    }
    line.push(b'"');
}

const fn needs_escape(byte: u8) -> bool {
    byte < 0x20 || byte == b'"' || byte == b'\\'
}

fn escape(line: &mut Vec<u8>, byte: u8) {
    match byte {
        b'"' => line.extend_from_slice(b"\\\""),
        b'\\' => line.extend_from_slice(b"\\\\"),
        control => {
            line.extend_from_slice(b"\\u00");
            line.push(hex_digit(u32::from(control >> 4)));
            line.push(hex_digit(u32::from(control)));
        }
    }
}

#[cfg(test)]
mod tests {
    use agentguard_core::action::{ApiFacts, ExecFacts};
    use agentguard_core::{Action, Amount, Facts};

    use super::*;

    fn action(verb: &str, target: &str, amount: Amount) -> Action {
        Action {
            at: Timestamp::from_micros(1_700_000_000_123_456),
            facts: Facts::Api(ApiFacts {
                method: verb.into(),
                masked_url: target.into(),
                host: "a.com".into(),
                service: Some("stripe".into()),
            }),
            amount,
        }
    }

    fn read_back(action: &Action, cost: i64) -> Row {
        let intent = Intent {
            id: RequestId(Uuid::from_u128(7)),
            agent_id: AgentId(Uuid::from_u128(u128::MAX)),
            action,
            cost: MicroUsd::from_micros(cost),
        };
        let mut line = Vec::new();
        encode(&intent, &mut line);
        assert_eq!(line.iter().filter(|b| **b == b'\n').count(), 1);
        decode(line.strip_suffix(b"\n").unwrap()).unwrap()
    }

    #[test]
    fn what_is_written_reads_back_whatever_the_texts_hold() {
        let eur = Money::new(12_500_000, Currency::parse("EUR").unwrap()).unwrap();
        for target in ["https://a.com/x", "", "\"\\\n\r\t\u{0}\u{1f}\u{7f}é𝄞", "\\u0041"] {
            let row = read_back(&action("POST", target, Amount::Exact(eur)), 13_000_000);
            assert_eq!((&*row.verb, row.target.as_str()), ("POST", target));
            assert_eq!((row.amount, row.cost.micros()), (Some(eur), 13_000_000));
            assert_eq!(row.at.as_micros(), 1_700_000_000_123_456);
            assert_eq!(row.service.as_deref(), Some("stripe"));
            assert!(row.estimated && row.decision == Decision::Error);
            assert!(!row.is_metered);
        }
        assert!(read_back(&action("POST", "", Amount::UpTo(eur)), 1).is_metered);
        for cost in [0, -1, i64::MIN, i64::MAX] {
            assert_eq!(read_back(&action("GET", "", Amount::Free), cost).cost.micros(), cost);
        }
    }

    #[test]
    fn long_texts_are_cut_on_a_character() {
        let action = Action {
            at: Timestamp::from_micros(0),
            facts: Facts::Exec(ExecFacts {
                host_id: "web-1".into(),
                command: "é".repeat(10_000),
                args: Vec::new(),
            }),
            amount: Amount::Free,
        };
        assert_eq!(*read_back(&action, 0).verb, *"é".repeat(INTENT_TEXT_BYTES_MAX / 2));
    }

    #[test]
    fn a_line_with_any_byte_changed_is_refused() {
        let action = action("POST", "https://a.com/x", Amount::Free);
        let id = RequestId(Uuid::from_u128(7));
        let agent_id = AgentId(Uuid::from_u128(8));
        let intent = Intent { id, agent_id, action: &action, cost: MicroUsd::ZERO };
        let mut line = Vec::new();
        encode(&intent, &mut line);
        line.pop();
        for place in 0..line.len() {
            let mut bad = line.clone();
            bad[place] ^= 1;
            assert!(decode(&bad).is_none(), "byte {place}");
            assert!(decode(&line[..place]).is_none(), "cut at {place}");
        }
    }
}
