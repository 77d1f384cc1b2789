//! Changes of policy: a closed list, so that every one is recorded with who, before and after.

use agentguard_core::price::PriceSpec;
use agentguard_core::rule::{RuleAction, RuleSpec, RuleType};
use agentguard_core::service::Service;
use agentguard_core::token::TokenHash;
use agentguard_core::{Agent, AgentId, Door, RuleId, RuleSetId};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::credential::CredentialChange;
use crate::directory::PolicyData;
use crate::stop::{Scope, Stop};

/// Who made a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Actor {
    /// Somebody at the command line, with the token file of the data folder.
    Cli,
    /// Somebody with a management token or a session, by name.
    Operator(String),
    /// The configuration file.
    File,
    /// The gate itself.
    System,
}

impl Actor {
    /// As it stands in `config_changes`.
    pub fn name(&self) -> &str {
        match self {
            Self::Cli => "cli",
            Self::Operator(name) => name,
            Self::File => "file",
            Self::System => "system",
        }
    }
}

/// A change of what is kept in the store.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "each variant says what it does; fields carry the whole new value")]
pub enum Change {
    AddAgent {
        agent: Agent,
        token_hash: TokenHash,
    },
    RevokeAgent(AgentId),
    RotateToken {
        agent_id: AgentId,
        token_hash: TokenHash,
    },
    AddRule(RuleSpec),
    RemoveRule(RuleId),
    /// Removes every rule of the set.
    ClearRules(RuleSetId),
    /// Creates or replaces.
    PutService {
        service: Service,
        credential: CredentialChange,
    },
    RemoveService(String),
    /// What a model costs, over the program's and the file's figures. Creates or replaces.
    PutPrice(PriceSpec),
    RemovePrice(String),
    Stop(Stop),
    Resume(Scope),
    /// The configuration file was read again; nothing in the store changes, but the record shows what
    /// came into force, without secrets.
    Reload {
        before: Value,
        after: Value,
    },
    /// Rule sets and services become exactly these; agents are added or moved, never removed.
    Import(Box<ImportPlan>),
}

/// A policy file with ids and tokens made for what is new in it.
#[derive(Clone, Debug)]
pub struct ImportPlan {
    /// All rule sets.
    pub rule_sets: Vec<crate::directory::RuleSet>,
    /// All services.
    pub services: Vec<Service>,
    /// Agents that do not exist yet, with the hashes of their new tokens.
    pub new_agents: Vec<(Agent, TokenHash)>,
    /// Agents that do, and the rule set they are to have.
    pub moved_agents: Vec<(AgentId, RuleSetId)>,
    /// All stored prices; none leaves those that there are.
    pub prices: Option<Vec<PriceSpec>>,
}

impl ImportPlan {
    /// Whether the credential that is stored for an alias stays. A file brings none; one that is
    /// there stays with its service, unless that is gone, leads to another origin or names a variable
    /// instead.
    pub fn keeps_credential(&self, alias: &str, before: &PolicyData) -> bool {
        let old = before.services.iter().find(|service| service.alias == alias);
        let new = self.services.iter().find(|service| service.alias == alias);
        old.zip(new)
            .is_some_and(|(old, new)| old.origin() == new.origin() && new.credential_env.is_none())
    }
}

/// What `policy export` writes and `policy import` reads: names instead of ids, no secrets.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyFile {
    /// The format: 1.
    pub version: u32,
    /// Rule sets by name.
    #[serde(default)]
    pub rule_sets: Vec<RuleSetDraft>,
    /// Services by alias.
    #[serde(default)]
    pub services: Vec<Service>,
    /// Agents by name.
    #[serde(default)]
    pub agents: Vec<AgentDraft>,
    /// Prices of models that operators set. A file without them, as earlier versions wrote it, leaves
    /// the prices that there are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prices: Option<Vec<PriceSpec>>,
}

/// A rule set in a policy file.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuleSetDraft {
    /// Its name.
    pub name: String,
    /// Its rules.
    #[serde(default)]
    pub rules: Vec<RuleDraft>,
}

/// A rule as a person writes it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuleDraft {
    /// Kept if given, so that an exported file imports as the same rules.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<RuleId>,
    /// What it looks at.
    #[serde(rename = "type")]
    pub kind: RuleType,
    /// On unless it says otherwise.
    #[serde(default = "yes")]
    pub enabled: bool,
    /// By default what the type does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<RuleAction>,
    /// 100 unless it says otherwise.
    #[serde(default = "middle")]
    pub priority: i32,
    /// None means every door where it has a meaning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub doors: Option<Vec<Door>>,
    /// Its parameters.
    #[serde(default)]
    pub params: Map<String, Value>,
}

/// An agent in a policy file.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentDraft {
    /// Its name.
    pub name: String,
    /// The rule set it is under.
    pub rule_set: String,
    /// What it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

impl RuleDraft {
    /// The rule with its id and set.
    pub fn into_spec(self, id: RuleId, rule_set_id: RuleSetId) -> RuleSpec {
        RuleSpec {
            id,
            rule_set_id,
            kind: self.kind,
            enabled: self.enabled,
            action: self.action.unwrap_or(self.kind.default_action()),
            priority: self.priority,
            doors: self.doors,
            params: self.params,
        }
    }
}

const fn yes() -> bool {
    true
}

const fn middle() -> i32 {
    100
}
