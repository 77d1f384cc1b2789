//! Why the gate says no. A closed list: a new reason does not compile until it has its wire row.

use serde::{Deserialize, Serialize};

/// The reason of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[expect(
    missing_docs,
    reason = "the names are the codes of 10-gate.md; `wire` has a text for each"
)]
pub enum Reason {
    Unauthenticated,
    AgentRevoked,
    ClientIpDenied,
    KillSwitchGlobal,
    KillSwitchAgent,
    ServiceUnknown,
    DestinationBlocked,
    CredentialMissing,
    AmountUnreadable,
    PriceUnknown,
    CurrencyUnknown,
    DomainBlacklisted,
    MethodRestricted,
    TimeWindowBlocked,
    PerCallLimitExceeded,
    DailyBudgetExceeded,
    MonthlyBudgetExceeded,
    RateLimited,
    DomainNotWhitelisted,
    RiskAmountSpike,
    RiskFrequencySpike,
    RiskUnknownDomain,
    RiskNightAmount,
    BadRequest,
    RequestTooLarge,
    ReservationExceeded,
    LoopDetected,
    AuditUnavailable,
    UpstreamTimeout,
    UpstreamUnreachable,
    UpstreamTlsError,
    Internal,
}

impl Reason {
    /// Every reason.
    pub const ALL: [Self; 32] = [
        Self::Unauthenticated,
        Self::AgentRevoked,
        Self::ClientIpDenied,
        Self::KillSwitchGlobal,
        Self::KillSwitchAgent,
        Self::ServiceUnknown,
        Self::DestinationBlocked,
        Self::CredentialMissing,
        Self::AmountUnreadable,
        Self::PriceUnknown,
        Self::CurrencyUnknown,
        Self::DomainBlacklisted,
        Self::MethodRestricted,
        Self::TimeWindowBlocked,
        Self::PerCallLimitExceeded,
        Self::DailyBudgetExceeded,
        Self::MonthlyBudgetExceeded,
        Self::RateLimited,
        Self::DomainNotWhitelisted,
        Self::RiskAmountSpike,
        Self::RiskFrequencySpike,
        Self::RiskUnknownDomain,
        Self::RiskNightAmount,
        Self::BadRequest,
        Self::RequestTooLarge,
        Self::ReservationExceeded,
        Self::LoopDetected,
        Self::AuditUnavailable,
        Self::UpstreamTimeout,
        Self::UpstreamUnreachable,
        Self::UpstreamTlsError,
        Self::Internal,
    ];

    /// Whether a risk rule said it: five of these in a row stop the agent.
    pub const fn is_risk(self) -> bool {
        matches!(
            self,
            Self::RiskAmountSpike
                | Self::RiskFrequencySpike
                | Self::RiskUnknownDomain
                | Self::RiskNightAmount
        )
    }
}
