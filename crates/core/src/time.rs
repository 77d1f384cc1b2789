//! Points in time, and the days and months that budgets turn over by.

use std::fmt;

use jiff::civil::{Time, Weekday};
use jiff::tz::{TimeZone, TimeZoneDatabase};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Microseconds since the Unix epoch. The gate hands them in; nothing here reads a clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(i64);

/// Microseconds in a second.
pub const SECOND_MICROS: i64 = 1_000_000;
/// Microseconds in a minute.
pub const MINUTE_MICROS: i64 = 60 * SECOND_MICROS;
/// Microseconds in an hour.
pub const HOUR_MICROS: i64 = 60 * MINUTE_MICROS;
/// Microseconds in a day of 24 hours.
pub const DAY_MICROS: i64 = 24 * HOUR_MICROS;

impl Timestamp {
    /// From microseconds since the epoch.
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// Microseconds since the epoch.
    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// Whole seconds since the epoch, rounded up: for "not before" headers.
    pub const fn as_secs_ceil(self) -> i64 {
        self.0.saturating_add(SECOND_MICROS - 1).div_euclid(SECOND_MICROS)
    }

    /// Later by so many microseconds.
    pub const fn plus_micros(self, micros: i64) -> Self {
        Self(self.0.saturating_add(micros))
    }

    /// Microseconds from `earlier` to this; negative if it is earlier.
    pub const fn micros_since(self, earlier: Self) -> i64 {
        self.0.saturating_sub(earlier.0)
    }

    /// `2026-11-15T21:02:07.123456Z`.
    pub fn to_rfc3339(self) -> String {
        match jiff::Timestamp::from_microsecond(self.0) {
            Ok(at) => format!("{at:.6}"),
            // Out of the calendar's range: a clock that far off is shown as the number it is.
            Err(_) => format!("{}us", self.0),
        }
    }

    /// Reads RFC 3339 with any offset.
    pub fn parse_rfc3339(text: &str) -> Option<Self> {
        text.parse::<jiff::Timestamp>().ok().map(|at| Self(at.as_microsecond()))
    }

    fn zoned(self, zone: &Zone) -> Option<jiff::Zoned> {
        jiff::Timestamp::from_microsecond(self.0).ok().map(|at| at.to_zoned(zone.0.clone()))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_rfc3339())
    }
}

impl Serialize for Timestamp {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.to_rfc3339())
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse_rfc3339(&text)
            .ok_or_else(|| serde::de::Error::custom(format!("`{text}` is not an RFC 3339 time")))
    }
}

/// A time zone out of the table that is compiled in: no look at the machine's files, so the same
/// policy decides alike everywhere.
#[derive(Clone, Debug, PartialEq)]
pub struct Zone(TimeZone);

/// A time zone name that the table does not have.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("`{0}` is no IANA time zone (for example `Europe/Berlin` or `UTC`)")]
pub struct UnknownZone(pub String);

impl Zone {
    /// Coordinated universal time.
    pub const UTC: Self = Self(TimeZone::UTC);

    /// The zone of this IANA name.
    pub fn named(name: &str) -> Result<Self, UnknownZone> {
        if name == "UTC" {
            return Ok(Self::UTC);
        }
        TimeZoneDatabase::bundled().get(name).map(Self).map_err(|_| UnknownZone(name.to_owned()))
    }

    /// Its IANA name.
    pub fn name(&self) -> &str {
        self.0.iana_name().unwrap_or("UTC")
    }
}

/// A day or month of a budget, from its first instant to the first one after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The first instant that belongs to it.
    pub start: Timestamp,
    /// The first instant that does not.
    pub end: Timestamp,
}

impl Span {
    /// The local day that holds `at`.
    pub fn day(at: Timestamp, zone: &Zone) -> Self {
        Self::local(at, zone, DAY_MICROS, |zoned| {
            let start = zoned.start_of_day()?;
            let end = start.tomorrow()?.start_of_day()?;
            Ok((start, end))
        })
    }

    /// The local month that holds `at`.
    pub fn month(at: Timestamp, zone: &Zone) -> Self {
        Self::local(at, zone, 31 * DAY_MICROS, |zoned| {
            let start = zoned.first_of_month()?.start_of_day()?;
            let end = zoned.last_of_month()?.tomorrow()?.start_of_day()?;
            Ok((start, end))
        })
    }

    /// The local hour that holds `at`: what spending is kept by, so that hours add up to local days
    /// in zones that are off by half an hour too.
    pub fn hour(at: Timestamp, zone: &Zone) -> Self {
        let offset = at
            .zoned(zone)
            .map_or(0, |zoned| i64::from(zoned.offset().seconds()).saturating_mul(SECOND_MICROS));
        let local = at.0.saturating_add(offset);
        let start =
            Timestamp(local.saturating_sub(local.rem_euclid(HOUR_MICROS)).saturating_sub(offset));
        Self { start, end: start.plus_micros(HOUR_MICROS) }
    }

    fn local(
        at: Timestamp,
        zone: &Zone,
        fallback_micros: i64,
        bounds: impl Fn(&jiff::Zoned) -> Result<(jiff::Zoned, jiff::Zoned), jiff::Error>,
    ) -> Self {
        let spanned = at.zoned(zone).and_then(|zoned| bounds(&zoned).ok());
        match spanned {
            Some((start, end)) => Self {
                start: Timestamp(start.timestamp().as_microsecond()),
                end: Timestamp(end.timestamp().as_microsecond()),
            },
            // At the calendar's edge there is no next day. A span that never ends keeps what was
            // spent counted, so doubt refuses.
            None => {
                Self { start: at, end: Timestamp(at.0.saturating_add(fallback_micros).max(at.0)) }
            }
        }
    }
}

/// A daily stretch of local time, on some weekdays, that may pass midnight.
#[derive(Clone, Debug, PartialEq)]
pub struct DailyWindow {
    /// Minutes after midnight at which it starts.
    pub start_minute: u16,
    /// Minutes after midnight at which it ends (1440 is midnight).
    pub end_minute: u16,
    /// The weekdays on which it starts, Monday first.
    pub days: [bool; 7],
    /// Whose midnight.
    pub zone: Zone,
}

impl DailyWindow {
    /// Whether `at` lies inside. `None` if the calendar cannot say, which callers treat as inside.
    pub fn contains(&self, at: Timestamp) -> Option<bool> {
        let zoned = at.zoned(&self.zone)?;
        let minute = minute_of_day(zoned.time());
        let today = self.starts_on(zoned.weekday());
        if self.start_minute < self.end_minute {
            return Some(today && minute >= self.start_minute && minute < self.end_minute);
        }
        // Past midnight: the late part belongs to today's start, the early part to yesterday's.
        let late = today && minute >= self.start_minute;
        let early = self.starts_on(zoned.weekday().previous()) && minute < self.end_minute;
        Some(late || early)
    }

    fn starts_on(&self, day: Weekday) -> bool {
        let place = usize::try_from(day.to_monday_zero_offset()).unwrap_or(0);
        self.days.get(place).copied().unwrap_or(true)
    }
}

fn minute_of_day(time: Time) -> u16 {
    let hours = u16::try_from(time.hour()).unwrap_or(0);
    let minutes = u16::try_from(time.minute()).unwrap_or(0);
    hours.saturating_mul(60).saturating_add(minutes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        Timestamp::parse_rfc3339(text).unwrap()
    }

    #[test]
    fn days_turn_over_at_local_midnight() {
        let zone = Zone::named("Asia/Kolkata").unwrap();
        let day = Span::day(at("2026-03-01T18:29:59Z"), &zone);
        assert_eq!(day.end, at("2026-03-01T18:30:00Z"));
        assert_eq!(Span::day(day.end, &zone).start, day.end);
        assert_eq!(Span::hour(at("2026-03-01T18:45:00Z"), &zone).start, at("2026-03-01T18:30:00Z"));
    }

    #[test]
    fn a_day_with_a_clock_change_has_its_true_length() {
        let zone = Zone::named("Europe/Berlin").unwrap();
        let spring = Span::day(at("2026-03-29T10:00:00Z"), &zone);
        assert_eq!(spring.end.micros_since(spring.start), 23 * HOUR_MICROS);
    }

    #[test]
    fn months_end_where_the_next_begins() {
        let month = Span::month(at("2028-02-29T23:59:59Z"), &Zone::UTC);
        assert_eq!(
            (month.start, month.end),
            (at("2028-02-01T00:00:00Z"), at("2028-03-01T00:00:00Z"))
        );
    }

    #[test]
    fn a_window_past_midnight_belongs_to_the_day_it_starts_on() {
        // Friday 22:00 to Saturday 06:00, Fridays only.
        let days = [false, false, false, false, true, false, false];
        let window =
            DailyWindow { start_minute: 22 * 60, end_minute: 6 * 60, days, zone: Zone::UTC };
        for (when, inside) in [
            ("2026-11-13T21:59:59Z", false),
            ("2026-11-13T22:00:00Z", true),
            ("2026-11-14T05:59:59Z", true),
            ("2026-11-14T06:00:00Z", false),
            ("2026-11-14T23:00:00Z", false),
            ("2026-11-13T03:00:00Z", false),
        ] {
            assert_eq!(window.contains(at(when)), Some(inside), "{when}");
        }
    }

    #[test]
    fn unknown_zones_are_named_in_the_error() {
        assert_eq!(Zone::named("Mars/Base"), Err(UnknownZone("Mars/Base".into())));
    }
}
