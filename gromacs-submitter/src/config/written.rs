//! Values of options as people write them: lengths of time, moments, labels.

use std::time::Duration;

use jiff::{SignedDuration, Span, SpanRelativeTo, Timestamp};

use crate::store::Moment;

/// Since when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Since {
    /// So long ago.
    Ago(SignedDuration),
    /// That moment.
    Moment(Timestamp),
}

impl Since {
    /// The moment, seen from `now`.
    #[must_use]
    pub fn from(self, now: Timestamp) -> Timestamp {
        match self {
            Self::Ago(duration) => now.checked_sub(duration).unwrap_or(Timestamp::UNIX_EPOCH),
            Self::Moment(moment) => moment,
        }
    }
}

/// Reads `T=310`.
pub(crate) fn label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.trim().is_empty() => Ok((name.trim().to_owned(), value.to_owned())),
        _ => Err(format!("{text:?} is not a label; write NAME=VALUE, such as T=310")),
    }
}

/// Reads a deadline: so far from now, or a moment.
pub(crate) fn deadline(text: &str) -> Result<Moment, String> {
    let explain = || "write for example 12h, 3d, 2026-11-28 or 2026-11-28T08:00:00Z".to_owned();
    match since(text).map_err(|_| explain())? {
        Since::Ago(duration) => Ok(Moment::In(duration.as_secs_f64())),
        Since::Moment(time) => Ok(Moment::At(time)),
    }
}

/// The shortest time for which Kubernetes makes a token.
const LEAST_LIFETIME: SignedDuration = SignedDuration::from_mins(10);

/// Reads how long a token lives.
pub(super) fn lifetime(text: &str) -> Result<Duration, String> {
    match since(text) {
        Ok(Since::Ago(lifetime)) if lifetime >= LEAST_LIFETIME => Ok(lifetime.unsigned_abs()),
        _ => Err("write for example 90d, 12h or, at the least, 10m".to_owned()),
    }
}

pub(super) fn since(text: &str) -> Result<Since, String> {
    let explain = || "write for example 12h, 7d, 2026-11-21 or 2026-11-21T08:00:00Z".to_owned();
    if let Ok(span) = text.parse::<Span>() {
        let duration = span.to_duration(SpanRelativeTo::days_are_24_hours()).map_err(|_| explain())?;
        // Ten thousand days: beyond that a picture of it says nothing.
        if duration <= SignedDuration::ZERO || duration > SignedDuration::from_hours(240_000) {
            return Err(explain());
        }
        return Ok(Since::Ago(duration));
    }
    if let Ok(moment) = text.parse::<Timestamp>() {
        return Ok(Since::Moment(moment));
    }
    let date: jiff::civil::Date = text.parse().map_err(|_| explain())?;
    let midnight = jiff::tz::Offset::UTC.to_timestamp(date.at(0, 0, 0, 0)).map_err(|_| explain())?;
    Ok(Since::Moment(midnight))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_is_ahead_or_a_moment() {
        assert_eq!(deadline("3d"), Ok(Moment::In(3.0 * 86400.0)));
        let moment = "2026-11-28T08:00:00Z".parse().expect("should be a time");
        assert_eq!(deadline("2026-11-28T08:00:00Z"), Ok(Moment::At(moment)));
        assert!(deadline("soon").is_err_and(|error| error.contains("for example 12h, 3d")));
    }

    #[test]
    fn a_token_lives_for_ten_minutes_at_least() {
        assert_eq!(lifetime("90d"), Ok(Duration::from_secs(90 * 86400)));
        assert_eq!(lifetime("10m"), Ok(Duration::from_secs(600)));
        for bad in ["9m", "0s", "-1d", "2027-01-01", "long"] {
            assert!(lifetime(bad).is_err_and(|error| error.contains("10m")), "{bad}");
        }
    }

    #[test]
    fn since_is_a_stretch_or_a_moment() {
        let now: Timestamp = "2026-11-21T12:00:00Z".parse().expect("should be a time");
        let at = |text: &str| since(text).map(|since| since.from(now).to_string());
        assert_eq!(at("12h").as_deref(), Ok("2026-11-21T00:00:00Z"));
        assert_eq!(at("7d").as_deref(), Ok("2026-11-14T12:00:00Z"));
        assert_eq!(at("1w").as_deref(), Ok("2026-11-14T12:00:00Z"));
        assert_eq!(at("2026-11-20").as_deref(), Ok("2026-11-20T00:00:00Z"));
        assert_eq!(at("2026-11-20T08:00:00Z").as_deref(), Ok("2026-11-20T08:00:00Z"));
        for bad in ["", "7", "-1d", "0s", "1000000d", "yesterday", "2026-13-01"] {
            assert!(at(bad).is_err_and(|error| error.contains("for example")), "{bad}");
        }
    }
}
