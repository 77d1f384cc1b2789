//! The one table from a reason to what each protocol says.

use crate::reason::Reason;

/// Whether it makes sense for a caller to try again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// Not without a change by somebody: SDKs are told to leave it.
    Never,
    /// Yes, later.
    Later,
}

/// What the protocols say for one reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// The stable code.
    pub code: &'static str,
    /// HTTP status.
    pub status: u16,
    /// JSON-RPC error code, for MCP.
    pub jsonrpc: i32,
    /// The browser pipe's code.
    pub pipe: &'static str,
    /// Whether trying again helps.
    pub retry: Retry,
    /// What agents may hear, whatever the cause.
    pub text: &'static str,
    /// What would change it.
    pub remedy: &'static str,
}

/// The row of a reason.
pub const fn row(reason: Reason) -> Row {
    match reason {
        Reason::Unauthenticated => Row {
            remedy: "send the agent's token, for example as `X-AgentGuard-Token`; `agentguard agent rotate NAME` makes a new one",
            ..deny("UNAUTHENTICATED", 401, -32001, "no valid agent token")
        },
        Reason::AgentRevoked => Row {
            remedy: "a revoked agent stays so; add a new one with `agentguard agent add NAME`",
            ..deny("AGENT_REVOKED", 401, -32001, "this agent was revoked")
        },
        Reason::ClientIpDenied => Row {
            remedy: "an operator can add the address to `proxy.allow_client_ips`",
            ..deny("CLIENT_IP_DENIED", 403, -32003, "this client address may not use the gate")
        },
        Reason::KillSwitchGlobal => Row {
            remedy: "a person must run `agentguard resume`",
            ..deny("KILL_SWITCH_GLOBAL", 503, -32050, "all agents are stopped")
        },
        Reason::KillSwitchAgent => Row {
            remedy: "a person must run `agentguard resume --agent NAME`",
            ..deny("KILL_SWITCH_AGENT", 503, -32050, "this agent is stopped")
        },
        Reason::ServiceUnknown => Row {
            remedy: "an operator can add it with `agentguard service set ALIAS --base-url URL`",
            ..deny("SERVICE_UNKNOWN", 403, -32003, "no service of this name")
        },
        Reason::DestinationBlocked => Row {
            remedy: "an operator can allow it for the service (`agentguard service set … --allow-private`)",
            ..deny("DESTINATION_BLOCKED", 403, -32003, "this destination is not allowed")
        },
        Reason::CredentialMissing => Row {
            remedy: "an operator can store one (`agentguard service set ALIAS --credential-env NAME`); or send your own key, and the token as `X-AgentGuard-Token`",
            ..deny("CREDENTIAL_MISSING", 403, -32003, "the gate has no credential for this service")
        },
        Reason::AmountUnreadable => Row {
            remedy: "send the body as plain JSON or a form with one amount and its currency",
            ..deny("AMOUNT_UNREADABLE", 403, -32003, "the amount of this call cannot be read")
        },
        Reason::PriceUnknown => Row {
            remedy: "an operator can set a price (`agentguard price set MODEL …`), or add an extractor for calls that no model price covers",
            ..deny("PRICE_UNKNOWN", 403, -32003, "the price of this call is not known")
        },
        Reason::CurrencyUnknown => Row {
            remedy: "an operator can add a rate under `currency_rates` in the configuration",
            ..deny("CURRENCY_UNKNOWN", 403, -32003, "there is no rate for this currency")
        },
        Reason::DomainBlacklisted => Row {
            remedy: "an operator can change the rule",
            ..deny("DOMAIN_BLACKLISTED", 403, -32003, "this domain is blocked by a rule")
        },
        Reason::MethodRestricted => Row {
            remedy: "use an allowed method, or an operator can change the rule",
            ..deny("METHOD_RESTRICTED", 403, -32003, "this method is not allowed by a rule")
        },
        Reason::TimeWindowBlocked => Row {
            remedy: "try outside of these hours, or an operator can change the rule",
            ..deny("TIME_WINDOW_BLOCKED", 403, -32003, "nothing is allowed at this time")
        },
        Reason::PerCallLimitExceeded => Row {
            remedy: "ask for less, or an operator can raise the rule's limit",
            ..deny("PER_CALL_LIMIT_EXCEEDED", 403, -32003, "this call costs more than one call may")
        },
        Reason::DailyBudgetExceeded => Row {
            remedy: "wait for the budget to turn over, ask for less, or an operator can raise the rule's limit",
            ..deny("DAILY_BUDGET_EXCEEDED", 403, -32003, "today's budget does not cover this call")
        },
        Reason::MonthlyBudgetExceeded => Row {
            remedy: "wait for the budget to turn over, ask for less, or an operator can raise the rule's limit",
            ..deny(
                "MONTHLY_BUDGET_EXCEEDED",
                403,
                -32003,
                "this month's budget does not cover this call",
            )
        },
        Reason::RateLimited => Row {
            remedy: "wait until the time in `X-RateLimit-Reset`, or an operator can raise the rule's limit",
            ..later("RATE_LIMITED", 429, -32029, "too many calls")
        },
        Reason::DomainNotWhitelisted => Row {
            remedy: "an operator can add the domain to the rule",
            ..deny(
                "DOMAIN_NOT_WHITELISTED",
                403,
                -32003,
                "this domain is not on the list of allowed ones",
            )
        },
        Reason::RiskAmountSpike => Row {
            remedy: "ask for an amount nearer to what is usual, or an operator can change the rule",
            ..deny("RISK_AMOUNT_SPIKE", 403, -32003, "this amount is far above what is usual")
        },
        Reason::RiskFrequencySpike => Row {
            remedy: "slow down, or an operator can change the rule",
            ..deny("RISK_FREQUENCY_SPIKE", 403, -32003, "calls come far faster than is usual")
        },
        Reason::RiskUnknownDomain => Row {
            remedy: "an operator can add the domain as a service or to a whitelist",
            ..deny("RISK_UNKNOWN_DOMAIN", 403, -32003, "this domain is not known")
        },
        Reason::RiskNightAmount => Row {
            remedy: "try in the daytime, ask for less, or an operator can change the rule",
            ..deny("RISK_NIGHT_AMOUNT", 403, -32003, "this amount is not allowed at night")
        },
        Reason::BadRequest => Row {
            remedy: "correct the request",
            ..deny("BAD_REQUEST", 400, -32602, "the request is malformed")
        },
        Reason::RequestTooLarge => Row {
            remedy: "send less",
            ..deny("REQUEST_TOO_LARGE", 413, -32602, "the request is too large")
        },
        Reason::ReservationExceeded => Row {
            remedy: "ask for a larger maximum of output tokens; an operator can check the model's price and limits",
            ..deny(
                "RESERVATION_EXCEEDED",
                403,
                -32003,
                "the answer ran past what was reserved for it, and was cut",
            )
        },
        Reason::LoopDetected => Row {
            remedy: "an operator must correct the service's base URL, which leads back to the gate",
            ..deny("LOOP_DETECTED", 508, -32003, "this request came through this gate before")
        },
        Reason::AuditUnavailable => Row {
            remedy: "an operator must make room on the disk or mend the data folder",
            ..later(
                "AUDIT_UNAVAILABLE",
                503,
                -32050,
                "the action cannot be recorded, so it is not done",
            )
        },
        Reason::UpstreamTimeout => Row {
            remedy: "try again later, or an operator can raise the service's timeout",
            ..later("UPSTREAM_TIMEOUT", 504, -32004, "the upstream did not answer in time")
        },
        Reason::UpstreamUnreachable => Row {
            remedy: "try again later; an operator can check the service's base URL",
            ..later("UPSTREAM_UNREACHABLE", 502, -32004, "the upstream cannot be reached")
        },
        Reason::UpstreamTlsError => Row {
            remedy: "an operator can check the service's certificate or give its CA with `--ca-file`",
            ..deny("UPSTREAM_TLS_ERROR", 502, -32004, "the upstream's certificate is not trusted")
        },
        Reason::Internal => Row {
            remedy: "an operator can look at the gate's log for this request id",
            ..deny("INTERNAL", 502, -32603, "the gate failed; nothing was done")
        },
    }
}

const fn deny(code: &'static str, status: u16, jsonrpc: i32, text: &'static str) -> Row {
    Row { code, status, jsonrpc, pipe: "MAC_GATE_DENIED", retry: Retry::Never, text, remedy: "" }
}

const fn later(code: &'static str, status: u16, jsonrpc: i32, text: &'static str) -> Row {
    Row { code, status, jsonrpc, pipe: "MAC_GATE_DENIED", retry: Retry::Later, text, remedy: "" }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_reason_has_a_row_of_its_own_whose_code_is_its_name() {
        let mut codes = HashSet::new();
        for reason in Reason::ALL {
            let row = row(reason);
            assert!(codes.insert(row.code), "{} twice", row.code);
            assert_eq!(serde_json::to_value(reason).unwrap(), row.code);
            assert!(!row.text.is_empty() && !row.remedy.is_empty(), "{}", row.code);
            assert!((400..=599).contains(&row.status));
        }
    }
}
