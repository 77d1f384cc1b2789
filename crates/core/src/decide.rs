//! The decision: a pure function of action, policy and counters.
//!
//! Rules are looked at in their order, and the first that refuses is the one reported. What cannot be
//! evaluated refuses. Nothing is counted here: [`Counters`] applies what a verdict allows.

use crate::action::{Action, Amount, AmountKind, Unpriced, Unreadable};
use crate::counters::Counters;
use crate::door::Door;
use crate::hit::{Hit, Period};
use crate::id::RuleId;
use crate::limits::FREQUENCY_ACTIVE_MINUTES_MIN;
use crate::money::{Currency, MICROS, MicroUsd, Ppm};
use crate::policy::Policy;
use crate::reason::Reason;
use crate::risk::{Risk, is_risk};
use crate::rule::{Check, RateKey, Rule, RuleType};
use crate::time::{DailyWindow, Timestamp};
use crate::window::SlidingWindow;

/// What the decision is.
#[derive(Clone, Debug)]
pub enum Verdict {
    /// It may happen, if this much is reserved first.
    Allow(Allowed),
    /// It may not.
    Refuse(Denied),
}

/// A yes.
#[derive(Clone, Debug)]
pub struct Allowed {
    /// The most it can cost.
    pub cost: MicroUsd,
    /// What somebody should be told.
    pub raised: Vec<Raised>,
    /// The risk, if a risk rule looked.
    pub risk: Option<Risk>,
}

/// A no.
#[derive(Clone, Debug)]
pub struct Denied {
    /// Why.
    pub why: Why,
    /// The rule that said it, if a rule did.
    pub rule: Option<(RuleId, RuleType)>,
    /// What somebody should be told.
    pub raised: Vec<Raised>,
    /// The risk, if a risk rule looked.
    pub risk: Option<Risk>,
}

/// Something a rule wants told.
#[derive(Clone, Debug)]
pub struct Raised {
    /// The rule.
    pub rule_id: RuleId,
    /// Its type.
    pub kind: RuleType,
    /// What it saw.
    pub hit: Hit,
}

/// Why a decision is no.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// Money should be there and could not be read.
    Unreadable(Unreadable),
    /// Something without a price where money is limited.
    Unpriced(Unpriced),
    /// A currency without a rate where money is limited.
    NoRate(Currency),
    /// A rule's condition is met.
    Hit(Hit),
}

/// What looking at one rule found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// The rule has nothing to say to this action.
    Aside(&'static str),
    /// Looked at, and within its bounds.
    Clear,
    /// Within its bounds, but somebody should know.
    Near(Hit),
    /// Its condition is met.
    Met(Hit),
}

/// Decides. Total: every input has a verdict.
pub fn decide(action: &Action, policy: &Policy, counters: &Counters) -> Verdict {
    let cost = match cost(action, policy) {
        Ok(cost) => cost,
        Err(why) => {
            return Verdict::Refuse(Denied { why, rule: None, raised: Vec::new(), risk: None });
        }
    };
    let mut raised = Vec::new();
    let mut risk: Option<Risk> = None;
    for rule in policy.concerning(action) {
        let kind = rule.check.rule_type();
        let finding = look(rule, action, cost, policy, counters);
        if is_risk(kind) && !matches!(finding, Finding::Aside(_)) {
            risk.get_or_insert_with(Risk::none);
        }
        match finding {
            Finding::Aside(_) | Finding::Clear => {}
            Finding::Near(hit) => raised.push(Raised { rule_id: rule.id, kind, hit }),
            Finding::Met(hit) => {
                if let Some(risk) = risk.as_mut().filter(|_| is_risk(kind)) {
                    risk.add(rule, &hit);
                }
                if rule.action.alerts() {
                    raised.push(Raised { rule_id: rule.id, kind, hit: hit.clone() });
                }
                if rule.action.blocks() {
                    return Verdict::Refuse(Denied {
                        why: Why::Hit(hit),
                        rule: Some((rule.id, kind)),
                        raised,
                        risk,
                    });
                }
            }
        }
    }
    Verdict::Allow(Allowed { cost, raised, risk })
}

/// The most the action can cost in dollars, where that must be known.
pub(crate) fn cost(action: &Action, policy: &Policy) -> Result<MicroUsd, Why> {
    match &action.amount {
        Amount::Free => Ok(MicroUsd::ZERO),
        Amount::Unreadable(problem) => Err(Why::Unreadable(*problem)),
        Amount::Unpriced(what) if policy.limits_money(action) => Err(Why::Unpriced(what.clone())),
        Amount::Unpriced(_) => Ok(MicroUsd::ZERO),
        Amount::Exact(money) | Amount::UpTo(money) => match policy.rates().to_usd(*money) {
            Some(usd) => Ok(usd),
            None if policy.limits_money(action) => Err(Why::NoRate(money.currency())),
            None => Ok(MicroUsd::ZERO),
        },
    }
}

/// Looks at one rule whose doors include the action's.
pub(crate) fn look(
    rule: &Rule,
    action: &Action,
    cost: MicroUsd,
    policy: &Policy,
    counters: &Counters,
) -> Finding {
    let budget = |period, limit, warn_at| {
        look_at_budget((period, limit, warn_at), rule, (action, cost), counters)
    };
    match &rule.check {
        Check::DomainBlacklist { domains } => look_at_host(action, |host| {
            domains.contains(host).then(|| Hit::Blacklisted { host: host.to_owned() })
        }),
        Check::MethodRestriction { allow, service } => {
            look_at_method(allow, service.as_deref(), action)
        }
        Check::TimeWindowBlock { window } => look_at_hours(window, action.at),
        Check::PerCallLimit { limit } if cost > *limit => {
            let up_to = matches!(action.amount, Amount::UpTo(_));
            Finding::Met(Hit::OverCall { limit: *limit, requested: cost, up_to })
        }
        Check::PerCallLimit { .. } => free_or_clear(cost),
        Check::DailyBudget { limit, warn_at } => budget(Period::Day, *limit, *warn_at),
        Check::MonthlyBudget { limit, warn_at, kill_at: _ } => {
            budget(Period::Month, *limit, *warn_at)
        }
        Check::RateLimit { max, key, slot } => {
            look_at_rate(*max, key, counters.rate(*slot), action)
        }
        Check::DomainWhitelist { domains } => look_at_host(action, |host| {
            (!domains.contains(host)).then(|| Hit::NotWhitelisted { host: host.to_owned() })
        }),
        Check::AmountSpike { .. } | Check::NightAmount { .. }
            if waits_for_the_end(rule, action) =>
        {
            Finding::Aside("looks at what the call cost, after it")
        }
        Check::AmountSpike { factor_micros, window_days, min_samples } => {
            let known = counters.baseline().amounts(action.at, *window_days, AmountKind::Exact);
            look_at_amount(cost, *factor_micros, *min_samples, known)
        }
        Check::FrequencySpike { factor_micros, min_per_minute } => {
            look_at_pace(*factor_micros, *min_per_minute, action.at, counters)
        }
        Check::UnknownDomain => look_at_host(action, |host| {
            (!policy.knows_host(host)).then(|| Hit::UnknownDomain { host: host.to_owned() })
        }),
        Check::NightAmount { threshold, window } => {
            look_at_night(cost, *threshold, window, action.at)
        }
        Check::ConsecutiveFailure { .. } => Finding::Aside("looks at refusals, after them"),
        Check::UpstreamDenials { .. } => Finding::Aside("looks at answers, after them"),
    }
}

/// Looks at what a call really cost, where only its bound was known before. Nothing can be refused any
/// more: what is met is told.
pub(crate) fn look_at_cost(
    rule: &Rule,
    spent: MicroUsd,
    at: Timestamp,
    counters: &Counters,
) -> Finding {
    match &rule.check {
        Check::AmountSpike { factor_micros, window_days, min_samples } => {
            let known = counters.baseline().amounts(at, *window_days, AmountKind::Metered);
            look_at_amount(spent, *factor_micros, *min_samples, known)
        }
        Check::NightAmount { threshold, window } if !rule.action.blocks() => {
            look_at_night(spent, *threshold, window, at)
        }
        Check::NightAmount { .. } => Finding::Aside("has looked at the bound, before the call"),
        Check::DomainBlacklist { .. }
        | Check::MethodRestriction { .. }
        | Check::TimeWindowBlock { .. }
        | Check::PerCallLimit { .. }
        | Check::DailyBudget { .. }
        | Check::MonthlyBudget { .. }
        | Check::RateLimit { .. }
        | Check::DomainWhitelist { .. }
        | Check::FrequencySpike { .. }
        | Check::UnknownDomain
        | Check::ConsecutiveFailure { .. }
        | Check::UpstreamDenials { .. } => Finding::Aside("does not look at what a call cost"),
    }
}

/// Whether a rule on amounts must wait until the call has ended. A bound is far above what such calls
/// cost, so that to compare it with what is usual would cry wolf at every call. Where the rule is to
/// keep a night's spending down, the bound is what must not be passed, and it is judged before.
const fn waits_for_the_end(rule: &Rule, action: &Action) -> bool {
    let is_bound = matches!(action.amount, Amount::UpTo(_));
    is_bound && (matches!(rule.check, Check::AmountSpike { .. }) || !rule.action.blocks())
}

fn look_at_host(action: &Action, met: impl FnOnce(&str) -> Option<Hit>) -> Finding {
    match action.host() {
        Some(host) => met(host).map_or(Finding::Clear, Finding::Met),
        None => Finding::Aside("the action has no host"),
    }
}

fn look_at_method(allow: &[String], service: Option<&str>, action: &Action) -> Finding {
    if !serves(service, action) {
        return Finding::Aside("for another service");
    }
    match action.method() {
        Some(method) if allow.iter().any(|allowed| allowed == method) => Finding::Clear,
        Some(method) => {
            Finding::Met(Hit::Method { method: method.to_owned(), allow: allow.to_vec() })
        }
        None => Finding::Aside("the action has no method"),
    }
}

fn look_at_hours(window: &DailyWindow, at: Timestamp) -> Finding {
    // A time that the calendar cannot place counts as inside: doubt refuses.
    if !window.contains(at).unwrap_or(true) {
        return Finding::Clear;
    }
    Finding::Met(Hit::ClosedHours {
        start_minute: window.start_minute,
        end_minute: window.end_minute,
        zone: window.zone.name().to_owned(),
    })
}

fn look_at_rate(
    max: u32,
    key: &RateKey,
    window: Option<&SlidingWindow>,
    action: &Action,
) -> Finding {
    if !serves(key.service.as_deref(), action) {
        return Finding::Aside("for another service");
    }
    match window {
        Some(window) if window.total() < u64::from(max) => Finding::Clear,
        full => Finding::Met(Hit::RateFull {
            max,
            window: key.window,
            service: key.service.as_deref().map(str::to_owned),
            // No window for a compiled rule is a fault of ours: refuse for a whole window.
            frees_at: full
                .map_or(action.at.plus_micros(key.window.micros()), SlidingWindow::frees_at),
        }),
    }
}

fn look_at_budget(
    (period, limit, warn_at): (Period, MicroUsd, Ppm),
    rule: &Rule,
    (action, cost): (&Action, MicroUsd),
    counters: &Counters,
) -> Finding {
    if cost == MicroUsd::ZERO {
        return Finding::Aside("no money moves");
    }
    let meter = counters.meter(period);
    let before = meter.taken(rule.doors);
    let after = before.plus(cost);
    if after > limit {
        return Finding::Met(Hit::OverBudget {
            period,
            limit,
            used: meter.used(rule.doors),
            reserved: meter.reserved(rule.doors),
            left: limit.minus(before).max(MicroUsd::ZERO),
            requested: cost,
            up_to: matches!(action.amount, Amount::UpTo(_)),
            resets_at: meter.span().end,
        });
    }
    let warn = limit.share(warn_at);
    if before < warn && after >= warn {
        return Finding::Near(Hit::BudgetWarning { period, limit, used: after });
    }
    Finding::Clear
}

fn look_at_amount(
    cost: MicroUsd,
    factor_micros: i64,
    min_samples: u32,
    (sum, samples): (MicroUsd, u64),
) -> Finding {
    if cost == MicroUsd::ZERO {
        return Finding::Aside("no money moves");
    }
    if samples < u64::from(min_samples) {
        return Finding::Aside("too few amounts seen to know what is usual");
    }
    // cost > factor × sum / samples, without dividing: nothing is rounded away.
    let left = i128::from(cost.micros())
        .saturating_mul(i128::from(samples))
        .saturating_mul(i128::from(MICROS));
    let right = i128::from(sum.micros()).saturating_mul(i128::from(factor_micros));
    if left > right {
        let average = i128::from(sum.micros()).checked_div(i128::from(samples)).unwrap_or(0);
        let average = MicroUsd::from_micros(i64::try_from(average).unwrap_or(i64::MAX));
        return Finding::Met(Hit::AmountSpike { requested: cost, average, factor_micros });
    }
    Finding::Clear
}

fn look_at_night(
    cost: MicroUsd,
    threshold: MicroUsd,
    window: &DailyWindow,
    at: Timestamp,
) -> Finding {
    // A time that the calendar cannot place counts as night: doubt refuses.
    if cost > threshold && window.contains(at).unwrap_or(true) {
        return Finding::Met(Hit::NightAmount { requested: cost, threshold });
    }
    free_or_clear(cost)
}

fn look_at_pace(
    factor_micros: i64,
    min_per_minute: u32,
    at: Timestamp,
    counters: &Counters,
) -> Finding {
    let calls = counters.baseline().calls_in_last_minute().saturating_add(1);
    if calls <= u64::from(min_per_minute) {
        return Finding::Clear;
    }
    let (past_calls, minutes) = counters.baseline().pace(at);
    if minutes < u64::from(FREQUENCY_ACTIVE_MINUTES_MIN) {
        return Finding::Aside("too few minutes seen to know what is usual");
    }
    let left =
        i128::from(calls).saturating_mul(i128::from(minutes)).saturating_mul(i128::from(MICROS));
    let right = i128::from(past_calls).saturating_mul(i128::from(factor_micros));
    if left > right {
        let normal_per_minute = past_calls.checked_div(minutes).unwrap_or(0);
        return Finding::Met(Hit::FrequencySpike { calls, normal_per_minute });
    }
    Finding::Clear
}

fn serves(service: Option<&str>, action: &Action) -> bool {
    service.is_none_or(|wanted| action.service().is_some_and(|actual| &**actual == wanted))
}

const fn free_or_clear(cost: MicroUsd) -> Finding {
    if cost.micros() == 0 { Finding::Aside("no money moves") } else { Finding::Clear }
}

impl Why {
    /// What would change it, where that is not the same for every refusal of its reason.
    pub(crate) fn remedy(&self) -> Option<&'static str> {
        match self {
            Self::Unpriced(Unpriced::Extra(_)) => Some(
                "leave it out; or an operator can let this agent go without budgets and limits",
            ),
            Self::Unpriced(Unpriced::Call) => Some(
                "an operator can say what such a call costs with `agentguard service extractor add`",
            ),
            Self::Hit(hit) => hit.remedy(),
            Self::Unpriced(Unpriced::Model(_)) | Self::Unreadable(_) | Self::NoRate(_) => None,
        }
    }

    /// The reason that goes on the wire.
    pub const fn reason(&self) -> Reason {
        match self {
            Self::Unreadable(_) => Reason::AmountUnreadable,
            Self::Unpriced(_) => Reason::PriceUnknown,
            Self::NoRate(_) => Reason::CurrencyUnknown,
            Self::Hit(hit) => hit.reason(),
        }
    }
}

/// Which doors a rule of this policy covers, for explanations.
pub(crate) fn doors_named(rule: &Rule) -> Vec<Door> {
    rule.doors.iter().collect()
}
