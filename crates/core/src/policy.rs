//! A rule set put together: compiled, ordered, and ready to decide.

use std::sync::Arc;

use crate::action::Action;
use crate::domain::DomainSet;
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
        Ok(Self {
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
