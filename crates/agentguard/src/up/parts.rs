//! From the configuration to what each part takes.

use std::sync::Arc;
use std::time::Duration;

use agentguard_core::PriceTable;
use agentguard_core::price::Origin;
use agentguard_egress::{BlockedNames, DangerAllow};
use agentguard_gate::ports::Durabilities;
use agentguard_gate::{Durability, Settings};
use agentguard_proxy::ProxyOptions;
use agentguard_store::Retention;

use super::jobs::Openings;
use crate::config::Config;
use crate::config::model;
use crate::failure::Failure;

/// How long calls under way may go on when the gate ends.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

pub(super) fn settings(config: &Config) -> Settings {
    Settings {
        zone: config.timezone.clone(),
        rates: Arc::new(config.currency_rates.clone()),
        prices: Arc::new(prices(config)),
        allow_client_ips: config.proxy.allow_client_ips.clone(),
        durability: durabilities(&config.audit.durability),
    }
}

/// The program's prices with those of the file over them.
pub(crate) fn prices(config: &Config) -> PriceTable {
    // Without a table every model is without a price, which refuses.
    let mut table = PriceTable::built_in().unwrap_or_default();
    for spec in &config.proxy.file_prices {
        if let Err(error) = table.put_from(spec, Origin::File) {
            // It was checked when it was read.
            tracing::error!(model = %spec.model, %error, "a price of the file is left out");
        }
    }
    table.set_fallback(config.proxy.fallback_price.clone());
    table
}

pub(super) fn retention(config: &Config) -> Retention {
    let days = &config.logs.retention_days;
    Retention {
        requests_days: Some(days.requests),
        config_changes_days: Some(days.config_changes),
        system_events_days: Some(days.system_events),
    }
}

pub(super) fn proxy(config: &Config, instance: u32) -> Result<ProxyOptions, Failure> {
    Ok(ProxyOptions {
        max_body_inspect_bytes: config.proxy.max_body_inspect_bytes,
        upstream_timeout: config.proxy.upstream_timeout,
        clamp_max_tokens: config.proxy.clamp_max_tokens,
        danger_allow: danger_allow(config)?,
        max_connections: config.proxy.max_connections,
        head_timeout: agentguard_proxy::limits::HEAD_TIMEOUT,
        drain_timeout: DRAIN_TIMEOUT,
        instance,
    })
}

pub(super) fn openings(config: &Config) -> Result<Openings, Failure> {
    Ok(Openings { blocked: blocked_names(config)?, danger_allow: danger_allow(config)? })
}

fn danger_allow(config: &Config) -> Result<Vec<DangerAllow>, Failure> {
    let opened = config.destinations.danger_allow.iter().map(|opening| {
        opening
            .to_string()
            .parse()
            .map_err(|error| Failure::usage(format!("`destinations.danger_allow`: {error}")))
    });
    opened.collect()
}

pub(super) fn blocked_names(config: &Config) -> Result<BlockedNames, Failure> {
    BlockedNames::parse(&config.destinations.blocked_suffixes).map_err(|(entry, error)| {
        Failure::usage(format!("`destinations.blocked_suffixes`: `{entry}`: {error}"))
    })
}

/// Which gate this is, for loops to be seen.
pub(super) fn instance() -> Result<u32, Failure> {
    let mut bytes = [0; 4];
    getrandom::fill(&mut bytes)
        .map_err(|error| Failure::because("reading the system's random source", &error))?;
    Ok(u32::from_le_bytes(bytes))
}

fn durabilities(doors: &model::DurabilityByDoor) -> Durabilities {
    let asked = |durability: model::Durability| match durability {
        model::Durability::Process => Durability::Process,
        model::Durability::Power => Durability::Power,
    };
    // Nothing said for `api`: payments and ads on disk, model calls as the default says.
    let api = match (doors.api, doors.default) {
        (Some(durability), _) => Some(asked(durability)),
        (None, model::Durability::Power) => Some(Durability::Power),
        (None, model::Durability::Process) => None,
    };
    let rest = [doors.web, doors.exec, doors.browser, doors.pipe].map(|door| Some(asked(door)));
    let [web, exec, browser, pipe] = rest;
    Durabilities { by_door: [api, web, exec, browser, pipe] }
}
