//! Google Ads: the micro-units of every campaign budget that a call creates or changes, summed.
//!
//! A budget's money is in the account's currency, which no request names. It is taken as USD, the
//! currency of the gate's own budgets.
//!
//! Numbers come as text or as numbers, and names in either of protobuf's spellings.

use agentguard_core::action::Unreadable;
use agentguard_core::{Currency, Money};

use super::json::{self, Json};
use super::{Media, Paper, Reading, media};
use crate::limits::ADS_OPERATIONS_MAX;

/// What a call holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    /// `campaignBudgets:mutate`: budgets only.
    Budgets,
    /// `googleAds:mutate`: anything, budgets among it.
    Mixed,
}

/// The call of a loosely read path. The last two are the same calls by their gRPC names: their bodies
/// are no JSON, so they are unreadable.
pub(super) fn call(path: &str) -> Option<Call> {
    let (_, last) = path.rsplit_once('/')?;
    match last {
        "campaignbudgets:mutate" | "mutatecampaignbudgets" => Some(Call::Budgets),
        "googleads:mutate" => Some(Call::Mixed),
        "mutate" if path.ends_with("googleadsservice/mutate") => Some(Call::Mixed),
        _ => None,
    }
}

pub(super) fn read(call: Call, paper: Paper<'_>) -> Reading {
    match media(paper)? {
        Media::Json => {}
        Media::Empty => return Err(Unreadable::Missing),
        Media::Form => return Err(Unreadable::Encoding),
    }
    let body = json::parse(paper.body)?;
    let micros = match call {
        Call::Budgets => {
            let list = operations(&body, &["operations"])?;
            list.iter().try_fold(0, |sum, operation| add(sum, budget_micros(operation)?))?
        }
        Call::Mixed => {
            let list = operations(&body, &["mutateOperations", "mutate_operations"])?;
            list.iter().try_fold(0, |sum, operation| add(sum, mixed_micros(operation)?))?
        }
    };
    let micros = i64::try_from(micros).map_err(|_| Unreadable::NotAnAmount)?;
    Money::new(micros, Currency::USD).map(Some).ok_or(Unreadable::NotAnAmount)
}

fn operations<'a>(body: &'a Json, spellings: &[&str]) -> Result<&'a [Json], Unreadable> {
    match body.member(spellings)? {
        Some(Json::List(list)) if list.len() <= ADS_OPERATIONS_MAX => Ok(list),
        Some(Json::List(_)) => Err(Unreadable::TooLong),
        Some(Json::Null | Json::Whole(_) | Json::Text(_) | Json::Object(_) | Json::Other) => {
            Err(Unreadable::Malformed)
        }
        None => Err(Unreadable::Missing),
    }
}

fn mixed_micros(operation: &Json) -> Result<u64, Unreadable> {
    let budget = operation.member(&["campaignBudgetOperation", "campaign_budget_operation"])?;
    budget.map_or(Ok(0), budget_micros)
}

fn budget_micros(operation: &Json) -> Result<u64, Unreadable> {
    let created = operation.member(&["create"])?;
    let updated = operation.member(&["update"])?;
    let named = match (created, updated) {
        (Some(created), None) => Some(named_micros(created)?.ok_or(Unreadable::Missing)?),
        (None, Some(updated)) => named_micros(updated)?,
        // Removing a budget frees money.
        (None, None) => None,
        (Some(_), Some(_)) => return Err(Unreadable::Malformed),
    };
    Ok(named.unwrap_or(0))
}

/// By the day and for the whole time: both are promises to pay.
fn named_micros(budget: &Json) -> Result<Option<u64>, Unreadable> {
    let daily = budget.member(&["amountMicros", "amount_micros"])?.map(Json::whole).transpose()?;
    let total = budget.member(&["totalAmountMicros", "total_amount_micros"])?;
    let total = total.map(Json::whole).transpose()?;
    match (daily, total) {
        (Some(daily), Some(total)) => add(daily, total).map(Some),
        (one, None) | (None, one) => Ok(one),
    }
}

fn add(sum: u64, more: u64) -> Result<u64, Unreadable> {
    sum.checked_add(more).ok_or(Unreadable::NotAnAmount)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::loosely;
    use http::{HeaderMap, HeaderValue};

    fn check(call: Call, body: &str, expected: Result<i64, Unreadable>) {
        let mut headers = HeaderMap::new();
        headers.insert("content-type", HeaderValue::from_static("application/json"));
        let found = read(call, Paper { headers: &headers, query: None, body: body.as_bytes() });
        assert_eq!(found.map(|money| money.map_or(0, Money::micros)), expected, "{body}");
    }

    #[test]
    fn every_budget_of_a_call_is_counted() {
        let b = Call::Budgets;
        check(b, r#"{"operations":[{"create":{"amountMicros":"5000000"}}]}"#, Ok(5_000_000));
        check(b, r#"{"operations":[{"create":{"amount_micros":5000000}}]}"#, Ok(5_000_000));
        check(
            b,
            r#"{"operations":[{"create":{"amountMicros":"1"}},{"update":{"amountMicros":2,"resourceName":"x"},"updateMask":"amountMicros"},{"remove":"y"}]}"#,
            Ok(3),
        );
        check(b, r#"{"operations":[{"create":{"totalAmountMicros":"7"}}]}"#, Ok(7));
        check(
            b,
            r#"{"operations":[{"create":{"totalAmountMicros":"7","amountMicros":"1"}}]}"#,
            Ok(8),
        );
        check(b, r#"{"operations":[{"update":{"name":"x"}}]}"#, Ok(0));
        check(b, r#"{"operations":[{"create":null,"update":{"amountMicros":"4"}}]}"#, Ok(4));
        let m = Call::Mixed;
        check(
            m,
            r#"{"mutateOperations":[{"campaignBudgetOperation":{"create":{"amountMicros":"9"}}},{"campaignOperation":{"create":{}}}]}"#,
            Ok(9),
        );
        check(
            m,
            r#"{"mutate_operations":[{"campaign_budget_operation":{"update":{"amount_micros":"9"}}}]}"#,
            Ok(9),
        );
    }

    #[test]
    fn doubtful_budgets_are_unreadable() {
        let b = Call::Budgets;
        check(b, r#"{"operations":[{"create":{}}]}"#, Err(Unreadable::Missing));
        check(b, "{}", Err(Unreadable::Missing));
        check(b, r#"{"operations":{}}"#, Err(Unreadable::Malformed));
        check(b, r#"{"operations":[5]}"#, Err(Unreadable::Malformed));
        check(
            b,
            r#"{"operations":[{"create":{"amountMicros":"1","amount_micros":"2"}}]}"#,
            Err(Unreadable::NotAnAmount),
        );
        check(
            b,
            r#"{"operations":[{"create":{"amountMicros":"1","amountMicros":"2"}}]}"#,
            Err(Unreadable::Malformed),
        );
        check(b, r#"{"operations":[],"operations":[]}"#, Err(Unreadable::Malformed));
        check(
            b,
            r#"{"operations":[{"create":{"amountMicros":"1"},"update":{"amountMicros":"1"}}]}"#,
            Err(Unreadable::Malformed),
        );
        for amount in ["-1", "1.5", "\"-1\"", "\"1e3\"", "1e3", "\"18446744073709551616\""] {
            let body = format!(r#"{{"operations":[{{"create":{{"amountMicros":{amount}}}}}]}}"#);
            check(b, &body, Err(Unreadable::NotAnAmount));
        }
        let most = u64::MAX;
        let body = format!(
            r#"{{"operations":[{{"create":{{"amountMicros":{most}}}}},{{"create":{{"amountMicros":{most}}}}}]}}"#
        );
        check(b, &body, Err(Unreadable::NotAnAmount));
    }

    #[test]
    fn budget_calls_are_known_in_every_spelling() {
        for (path, expected) in [
            ("/v17/customers/1/campaignBudgets:mutate", Some(Call::Budgets)),
            ("/v17/customers/1/campaignBudgets%3Amutate", Some(Call::Budgets)),
            ("/v17/customers/1/CAMPAIGNBUDGETS:MUTATE/", Some(Call::Budgets)),
            ("/v17/customers/1/googleAds:mutate", Some(Call::Mixed)),
            (
                "/google.ads.googleads.v17.services.CampaignBudgetService/MutateCampaignBudgets",
                Some(Call::Budgets),
            ),
            ("/google.ads.googleads.v17.services.GoogleAdsService/Mutate", Some(Call::Mixed)),
            ("/v17/customers/1/campaigns:mutate", None),
            ("/v17/customers/1/googleAds:searchStream", None),
        ] {
            assert_eq!(call(&loosely(path)), expected, "{path}");
        }
    }
}
