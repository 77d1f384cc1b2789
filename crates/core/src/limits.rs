//! Bounds of the decision core, each with the reason for its number.

/// Rules in one rule set. The cost of a decision grows with it; a thousand is far above what a person
/// can keep in mind and still decides within tens of microseconds.
pub const RULES_PER_SET_MAX: usize = 1_000;

/// Patterns in one domain rule: a large published blocklist fits, a typing accident does not.
pub const DOMAINS_PER_RULE_MAX: usize = 10_000;

/// Bytes of a name that a person gives (agent, service alias, rule set).
pub const NAME_BYTES_MAX: usize = 64;

/// Bytes of a free text (description, reason for a stop).
pub const TEXT_BYTES_MAX: usize = 1_024;

/// Bytes of an upstream credential. API keys have under 200, OAuth access tokens up to 2,048; servers
/// take no more than 8 KiB of headers in all.
pub const CREDENTIAL_BYTES_MAX: usize = 4_096;

/// Largest count a rate rule may allow in its window: what a `u32` bucket holds with room to spare.
pub const RATE_MAX: u32 = 1_000_000_000;

/// Largest amount that can be named, in micro-units: a billion units. Sums of millions of such
/// amounts still fit into the `i64` they are kept in, so saturation is never reached by honest use.
pub const AMOUNT_MICROS_MAX: i64 = 1_000_000_000_000_000;

/// Days that a baseline may look back.
pub const BASELINE_DAYS_MAX: u32 = 30;

/// Minutes with traffic that must have been seen before `frequency_spike` may speak: with fewer,
/// "normal" is a guess.
pub const FREQUENCY_ACTIVE_MINUTES_MIN: u32 = 30;

/// Refusals by risk rules in a row that stop an agent (10-gate.md, "Kill switch").
pub const RISK_REFUSALS_TO_STOP: u32 = 5;

/// Bytes of a URL that are kept on the record after masking.
pub const TARGET_URL_BYTES_MAX: usize = 2_048;

/// Bytes of a model's name. Fine-tunes have the longest, well under this.
pub const MODEL_NAME_BYTES_MAX: usize = 256;

/// Models with a price. The built-in table has a few hundred.
pub const PRICES_MAX: usize = 10_000;

/// Names that are offered for one that is not known: what a person reads at a glance.
pub const NEAREST_NAMES_MAX: usize = 5;

/// Extractors of one service. Every call to it looks at them in turn.
pub const EXTRACTORS_PER_SERVICE_MAX: usize = 64;

/// Bytes of a path pattern: longer ones are no paths that a person writes.
pub const PATH_PATTERN_BYTES_MAX: usize = 1_024;

/// Segments of a path pattern. Real interfaces have ten at the most.
pub const PATH_PATTERN_SEGMENTS_MAX: usize = 32;

/// Bytes of a path into JSON, and of a form field's name.
pub const JSON_PATH_BYTES_MAX: usize = 512;

/// Steps of a path into JSON: as deep as bodies are looked into.
pub const JSON_PATH_STEPS_MAX: usize = 32;

/// The most tokens that one call can be said to have, a hundred times the largest context of today. A
/// count beyond it is taken for nonsense.
pub const TOKENS_MAX: u64 = 1_000_000_000;
