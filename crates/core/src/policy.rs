//! A rule set put together: compiled, ordered, and ready to decide.

use std::collections::HashMap;
use std::sync::Arc;

use crate::action::Action;
use crate::domain::DomainSet;
use crate::door::Door;
use crate::money::Rates;
use crate::rule::{Check, RateKey, Rule, RuleError, RuleSpec};
use crate::service::Service;
use crate::time::Zone;

/// What rules an agent is under. Built once per change, then only read.
#[derive(Clone, Debug)]
pub struct Policy {
    rules: Vec<Rule>,
    rate_keys: Vec<RateKey>,
    known_hosts: DomainSet,
    rates: Arc<Rates>,
    version: u64,
    lanes: [Lane; Door::COUNT],
    /// Rules that look at what came of an action.
    afterwards: Vec<u32>,
}

/// The rules of one door by what must be known of an action for them to matter, as places in the
/// order of evaluation. A decision walks what can matter, so that a thousand rules for other hosts
/// and other services cost nothing.
#[derive(Clone, Debug, Default)]
struct Lane {
    always: Vec<u32>,
    by_service: HashMap<Arc<str>, Vec<u32>>,
    by_host: HashMap<Box<str>, Vec<u32>>,
    by_suffix: HashMap<Box<str>, Vec<u32>>,
}

/// What a policy is put together from, besides its rules.
#[derive(Clone, Debug)]
pub struct Surroundings<'a> {
    /// The configured time zone.
    pub zone: &'a Zone,
    /// The currency rates.
    pub rates: Arc<Rates>,
    /// The services: their hosts are known domains.
    pub services: &'a [Service],
    /// Grows with every change, so that counters see that they must follow.
    pub version: u64,
}

impl Policy {
    /// Compiles the enabled rules. A rule that does not compile fails the whole: a policy with a
    /// hole in it must not come into force.
    pub fn compile(specs: &[RuleSpec], around: &Surroundings<'_>) -> Result<Self, RuleError> {
        let mut rules = specs
            .iter()
            .filter(|spec| spec.enabled)
            .map(|spec| spec.compile(around.zone))
            .collect::<Result<Vec<_>, _>>()?;
        rules.sort_by_key(|rule| (rule.check.rule_type(), rule.priority, rule.id));

        let mut rate_keys: Vec<RateKey> = Vec::new();
        let mut known_hosts = DomainSet::default();
        for rule in &mut rules {
            if let Check::RateLimit { key, slot, .. } = &mut rule.check {
                let place = rate_keys.iter().position(|known| known == key);
                *slot = place.unwrap_or(rate_keys.len());
                if place.is_none() {
                    rate_keys.push(key.clone());
                }
            }
        }
        for service in around.services {
            // A host that is no domain (an IPv6 literal, say) is known by nothing else either.
            if known_hosts.insert(&service.host()).is_err() {
                continue;
            }
        }
        let lanes = Door::ALL.map(|door| Lane::of(door, &rules));
        let afterwards = (0_u32..).zip(&rules).filter(|(_, rule)| looks_afterwards(rule));
        let afterwards = afterwards.map(|(place, _)| place).collect();
        Ok(Self {
            lanes,
            afterwards,
            rules,
            rate_keys,
            known_hosts,
            rates: Arc::clone(&around.rates),
            version: around.version,
        })
    }

    /// The rules in order of evaluation.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// The rules that can have something to say to this action, in order of evaluation. Those left
    /// out are for other doors, other services or other hosts.
    pub(crate) fn concerning(&self, action: &Action) -> Concerning<'_> {
        let Some(lane) = self.lanes.get(action.door().index()) else {
            return Concerning { policy: self, always: &[], service: &[], hosts: Vec::new() };
        };
        let service = action.service().and_then(|alias| lane.by_service.get(alias));
        Concerning {
            policy: self,
            always: &lane.always,
            service: service.map_or(&[], Vec::as_slice),
            hosts: action.host().map(|host| lane.naming(host)).unwrap_or_default(),
        }
    }

    /// The rules that look at what came of an action, in order.
    pub(crate) fn afterwards(&self) -> impl Iterator<Item = &Rule> {
        self.afterwards.iter().filter_map(|place| self.rules.get(usize::try_from(*place).ok()?))
    }

    /// What rate limits count, by slot.
    pub fn rate_keys(&self) -> &[RateKey] {
        &self.rate_keys
    }

    /// The currency rates.
    pub fn rates(&self) -> &Rates {
        &self.rates
    }

    /// Which state of the policy this is.
    pub const fn version(&self) -> u64 {
        self.version
    }

    /// Whether some whitelist or service names the host.
    pub fn knows_host(&self, host: &str) -> bool {
        self.known_hosts.contains(host)
            || self.rules.iter().any(|rule| match &rule.check {
                Check::DomainWhitelist { domains } => domains.contains(host),
                Check::DomainBlacklist { .. }
                | Check::MethodRestriction { .. }
                | Check::TimeWindowBlock { .. }
                | Check::PerCallLimit { .. }
                | Check::DailyBudget { .. }
                | Check::MonthlyBudget { .. }
                | Check::RateLimit { .. }
                | Check::AmountSpike { .. }
                | Check::FrequencySpike { .. }
                | Check::UnknownDomain
                | Check::NightAmount { .. }
                | Check::ConsecutiveFailure { .. }
                | Check::UpstreamDenials { .. } => false,
            })
    }

    /// Whether any rule limits money where this action goes: only then must its price be known.
    pub fn limits_money(&self, action: &Action) -> bool {
        let door = action.door();
        self.rules.iter().filter(|rule| rule.doors.contains(door)).any(|rule| match &rule.check {
            Check::PerCallLimit { .. }
            | Check::DailyBudget { .. }
            | Check::MonthlyBudget { .. }
            | Check::AmountSpike { .. }
            | Check::NightAmount { .. } => rule.action.blocks(),
            Check::DomainBlacklist { .. }
            | Check::MethodRestriction { .. }
            | Check::TimeWindowBlock { .. }
            | Check::RateLimit { .. }
            | Check::DomainWhitelist { .. }
            | Check::FrequencySpike { .. }
            | Check::UnknownDomain
            | Check::ConsecutiveFailure { .. }
            | Check::UpstreamDenials { .. } => false,
        })
    }
}

const fn looks_afterwards(rule: &Rule) -> bool {
    match &rule.check {
        Check::MonthlyBudget { .. }
        | Check::AmountSpike { .. }
        | Check::NightAmount { .. }
        | Check::ConsecutiveFailure { .. }
        | Check::UpstreamDenials { .. } => true,
        Check::DomainBlacklist { .. }
        | Check::MethodRestriction { .. }
        | Check::TimeWindowBlock { .. }
        | Check::PerCallLimit { .. }
        | Check::DailyBudget { .. }
        | Check::RateLimit { .. }
        | Check::DomainWhitelist { .. }
        | Check::FrequencySpike { .. }
        | Check::UnknownDomain => false,
    }
}

impl Lane {
    fn of(door: Door, rules: &[Rule]) -> Self {
        let mut lane = Self::default();
        for (place, rule) in (0_u32..).zip(rules).filter(|(_, rule)| rule.doors.contains(door)) {
            match &rule.check {
                Check::DomainBlacklist { domains } => {
                    for host in domains.exact() {
                        lane.by_host.entry(host.into()).or_default().push(place);
                    }
                    for suffix in domains.suffixes() {
                        lane.by_suffix.entry(suffix.into()).or_default().push(place);
                    }
                }
                Check::MethodRestriction { service: Some(alias), .. }
                | Check::RateLimit { key: RateKey { service: Some(alias), .. }, .. } => {
                    lane.by_service.entry(Arc::clone(alias)).or_default().push(place);
                }
                Check::MethodRestriction { service: None, .. }
                | Check::RateLimit { key: RateKey { service: None, .. }, .. }
                | Check::TimeWindowBlock { .. }
                | Check::PerCallLimit { .. }
                | Check::DailyBudget { .. }
                | Check::MonthlyBudget { .. }
                | Check::DomainWhitelist { .. }
                | Check::AmountSpike { .. }
                | Check::FrequencySpike { .. }
                | Check::UnknownDomain
                | Check::NightAmount { .. } => lane.always.push(place),
                // These look at what came of earlier actions, after it.
                Check::ConsecutiveFailure { .. } | Check::UpstreamDenials { .. } => {}
            }
        }
        lane
    }

    /// Places of the lists that name the host, each once, in order.
    fn naming(&self, host: &str) -> Vec<u32> {
        let host = host.trim_end_matches('.');
        let mut places: Vec<u32> = self.by_host.get(host).cloned().unwrap_or_default();
        for above in crate::domain::parents(host) {
            places.extend(self.by_suffix.get(above).into_iter().flatten());
        }
        places.sort_unstable();
        places.dedup();
        places
    }
}

/// An iterator over the rules that concern an action: three ordered lists, merged.
#[derive(Debug)]
pub(crate) struct Concerning<'a> {
    policy: &'a Policy,
    always: &'a [u32],
    service: &'a [u32],
    /// Short or empty; taken from the front.
    hosts: Vec<u32>,
}

impl<'a> Iterator for Concerning<'a> {
    type Item = &'a Rule;

    fn next(&mut self) -> Option<&'a Rule> {
        let heads = [self.always.first(), self.service.first(), self.hosts.first()];
        let next = *heads.into_iter().flatten().min()?;
        if self.hosts.first() == Some(&next) {
            self.hosts.remove(0);
        } else if self.service.first() == Some(&next) {
            self.service = self.service.get(1..).unwrap_or_default();
        } else {
            self.always = self.always.get(1..).unwrap_or_default();
        }
        self.policy.rules.get(usize::try_from(next).ok()?)
    }
}
