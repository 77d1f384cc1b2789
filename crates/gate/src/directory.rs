//! Everything the hot path looks up, compiled once per change and then only read.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use agentguard_core::limits::RULES_PER_SET_MAX;
use agentguard_core::policy::Surroundings;
use agentguard_core::price::{Origin, PriceSpec};
use agentguard_core::rule::RuleSpec;
use agentguard_core::service::Service;
use agentguard_core::time::Zone;
use agentguard_core::token::TokenHash;
use agentguard_core::{Agent, AgentId, AgentStatus, Policy, PriceTable, Rates, RuleSetId};

use crate::credential::CredentialState;
use crate::stop::Stop;
use crate::turnstile::Turnstile;

/// What the store holds of policy.
#[derive(Clone, Debug, Default)]
pub struct PolicyData {
    /// Agents, the revoked ones included.
    pub agents: Vec<AgentRecord>,
    /// Rule sets with their rules.
    pub rule_sets: Vec<RuleSet>,
    /// Services.
    pub services: Vec<Service>,
    /// Stored credentials by alias, opened.
    pub credentials: HashMap<String, CredentialState>,
    /// Switches that are on.
    pub stops: Vec<Stop>,
    /// Prices of models that operators set.
    pub prices: Vec<PriceSpec>,
}

/// An agent and the hash of its token.
#[derive(Clone, Debug)]
pub struct AgentRecord {
    /// The agent.
    pub agent: Agent,
    /// What its token hashes to.
    pub token_hash: TokenHash,
}

/// A named set of rules.
#[derive(Clone, Debug)]
pub struct RuleSet {
    /// Its id.
    pub id: RuleSetId,
    /// Its name.
    pub name: String,
    /// Its rules.
    pub rules: Vec<RuleSpec>,
}

/// One agent, ready to decide for.
#[derive(Debug)]
pub struct Entry {
    /// The agent as stored.
    pub agent: Agent,
    /// Its rules.
    pub policy: Arc<Policy>,
    /// Its counters and switch, which live on when policy changes.
    pub turnstile: Arc<Turnstile>,
}

/// The compiled policy of now.
#[derive(Debug)]
pub struct Directory {
    by_token: HashMap<TokenHash, Arc<Entry>>,
    by_id: HashMap<AgentId, Arc<Entry>>,
    services: HashMap<String, Arc<Service>>,
    credentials: HashMap<String, CredentialState>,
    sole: Option<Arc<Entry>>,
    prices: Arc<PriceTable>,
    data: PolicyData,
    version: u64,
}

/// What a directory is compiled with.
#[derive(Debug)]
pub(crate) struct Compile<'a> {
    pub(crate) zone: &'a Zone,
    pub(crate) rates: Arc<Rates>,
    pub(crate) prices: &'a Arc<PriceTable>,
    pub(crate) version: u64,
}

impl Directory {
    /// Compiles. `turnstile` finds or makes the one of an agent.
    pub(crate) fn compile(
        data: PolicyData,
        with: &Compile<'_>,
        mut turnstile: impl FnMut(AgentId) -> Arc<Turnstile>,
    ) -> Result<Self, String> {
        let mut services = HashMap::new();
        let mut credentials = HashMap::new();
        for service in &data.services {
            service.check().map_err(|error| error.to_string())?;
            services.insert(service.alias.clone(), Arc::new(service.clone()));
            let credential = CredentialState::of(service, data.credentials.get(&service.alias));
            credentials.insert(service.alias.clone(), credential);
        }
        let around = Surroundings {
            zone: with.zone,
            rates: Arc::clone(&with.rates),
            services: &data.services,
            version: with.version,
        };
        let mut policies = HashMap::new();
        for set in &data.rule_sets {
            if set.rules.len() > RULES_PER_SET_MAX {
                return Err(format!(
                    "rule set `{}` has more than {RULES_PER_SET_MAX} rules",
                    set.name
                ));
            }
            let policy = Policy::compile(&set.rules, &around).map_err(|error| error.to_string())?;
            policies.insert(set.id, Arc::new(policy));
        }
        let mut directory = Self {
            by_token: HashMap::new(),
            by_id: HashMap::new(),
            services,
            credentials,
            sole: None,
            prices: prices(with.prices, &data.prices)?,
            data: PolicyData::default(),
            version: with.version,
        };
        for record in &data.agents {
            let policy = policies
                .get(&record.agent.rule_set_id)
                .ok_or_else(|| format!("agent `{}` has no rule set", record.agent.name))?;
            let entry = Arc::new(Entry {
                agent: record.agent.clone(),
                policy: Arc::clone(policy),
                turnstile: turnstile(record.agent.id),
            });
            directory.by_token.insert(record.token_hash, Arc::clone(&entry));
            directory.by_id.insert(record.agent.id, entry);
        }
        let mut living =
            directory.by_id.values().filter(|entry| entry.agent.status != AgentStatus::Revoked);
        directory.sole = living.next().cloned().filter(|_| living.next().is_none());
        directory.data = data;
        Ok(directory)
    }

    /// The agent of a token.
    pub fn by_token(&self, hash: &TokenHash) -> Option<&Arc<Entry>> {
        self.by_token.get(hash)
    }

    /// The agent of an id.
    pub fn by_id(&self, id: AgentId) -> Option<&Arc<Entry>> {
        self.by_id.get(&id)
    }

    /// The agent of a name: the living one, if there is one.
    pub fn by_name(&self, name: &str) -> Option<&Arc<Entry>> {
        let mut named: Vec<_> =
            self.by_id.values().filter(|entry| entry.agent.name == name).collect();
        named.sort_by_key(|entry| {
            (entry.agent.status == AgentStatus::Revoked, entry.agent.created_at)
        });
        named.into_iter().next()
    }

    /// The only agent that is not revoked, if there is exactly one.
    pub fn sole(&self) -> Option<&Arc<Entry>> {
        self.sole.as_ref()
    }

    /// The service of an alias.
    pub fn service(&self, alias: &str) -> Option<&Arc<Service>> {
        self.services.get(alias)
    }

    /// What models cost.
    pub const fn prices(&self) -> &Arc<PriceTable> {
        &self.prices
    }

    /// What the gate authenticates with at the service of an alias.
    pub fn credential(&self, alias: &str) -> &CredentialState {
        self.credentials.get(alias).unwrap_or(&CredentialState::None)
    }

    /// As it is stored.
    pub const fn data(&self) -> &PolicyData {
        &self.data
    }

    /// Which state of the policy this is.
    pub const fn version(&self) -> u64 {
        self.version
    }
}

/// The configuration's prices with the stored ones over them.
fn prices(configured: &Arc<PriceTable>, stored: &[PriceSpec]) -> Result<Arc<PriceTable>, String> {
    if stored.is_empty() {
        return Ok(Arc::clone(configured));
    }
    let mut names = HashSet::new();
    let mut table = PriceTable::clone(configured);
    for spec in stored {
        let wrong = |why: String| format!("price of `{}`: {why}", spec.model.escape_debug());
        if !names.insert(spec.model.to_ascii_lowercase()) {
            return Err(wrong("is there twice".to_owned()));
        }
        table.put_from(spec, Origin::Stored).map_err(|error| wrong(error.to_string()))?;
    }
    Ok(Arc::new(table))
}
