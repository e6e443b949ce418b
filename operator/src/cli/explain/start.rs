//! When a ScavengerJob that waits is expected to start, as the statuses say.

use jiff::Timestamp;
use kube::Client;
use scavenger_forecast::LEAST_STARTS;
use scavenger_program::objects::Objects;
use scavenger_schema::{
    names,
    scavenger_job::{ScavengerJob, ScavengerJobStatus},
    scavenger_pool::{ForecastStatus, ScavengerPool},
};
use scavenger_vocabulary::{Phase, WaitingReason};

use super::{Lines, age};
use crate::forecast::is_foreseeable;

/// The line, with what the pool's status says beside it.
pub(super) async fn read(client: &Client, sj: &ScavengerJob, now: Timestamp) -> String {
    let pools: Objects<ScavengerPool> = Objects::all(client.clone());
    // It only says why nothing is known.
    let pool = pools.get_opt(names::DEFAULT_POOL).await.ok().flatten();
    let forecast = pool.and_then(|pool| pool.status?.forecast);
    let mut lines = Lines::default();
    add(&mut lines, sj.status.as_ref(), forecast.as_ref(), now);
    lines.text
}

pub(super) fn add(
    lines: &mut Lines,
    status: Option<&ScavengerJobStatus>,
    forecast: Option<&ForecastStatus>,
    now: Timestamp,
) {
    if let Some(text) = text(status, forecast, now) {
        lines.add("starts", &text);
    }
}

fn text(
    status: Option<&ScavengerJobStatus>,
    forecast: Option<&ForecastStatus>,
    now: Timestamp,
) -> Option<String> {
    let status = status?;
    if let Some(expected) = &status.expected_start {
        let since = age(now.duration_since(expected.forecast_time.0));
        let between = expected.between();
        return Some(if expected.latest.0 < now {
            format!("later than was forecast {since} ago: {between}; 2 of 10 such forecasts fail")
        } else {
            format!("{between} (8 of 10 such forecasts hold; forecast {since} ago)")
        });
    }
    let condition = status.conditions.iter().find(|condition| condition.type_ == "Admitted")?;
    let reason = WaitingReason::from_name(&condition.reason).filter(|_| condition.status == "False")?;
    let waits = matches!(status.phase, Some(Phase::Waiting | Phase::Interrupted)) && is_foreseeable(reason);
    // Without the pool's status nobody can say why.
    let seen = forecast.filter(|_| waits)?.starts_seen;
    Some(if seen < LEAST_STARTS.into() {
        format!("unknown: fewer than {LEAST_STARTS} starts seen ({seen})")
    } else {
        "unknown: too few starts were seen when its status was written last".to_owned()
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn said(status: serde_json::Value, starts: Option<i64>) -> Option<String> {
        let now = "2026-11-28T13:00:00Z".parse().unwrap();
        let forecast = starts.map(|starts_seen| ForecastStatus { starts_seen, ..ForecastStatus::default() });
        text(Some(&serde_json::from_value(status).unwrap()), forecast.as_ref(), now)
    }

    fn waits(reason: &str) -> serde_json::Value {
        json!({ "phase": "Waiting", "conditions": [{ "type": "Admitted", "status": "False", "reason": reason, "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z" }] })
    }

    #[test]
    fn a_forecast_is_an_interval_with_its_odds() {
        let expected = |earliest: &str, latest: &str| {
            let start =
                json!({ "earliest": earliest, "latest": latest, "forecastTime": "2026-11-28T12:55:00Z" });
            said(json!({ "phase": "Waiting", "expectedStart": start }), Some(99)).unwrap()
        };
        assert_eq!(
            expected("2026-11-28T14:10:40Z", "2026-11-28T16:40:00Z"),
            "between 2026-11-28 14:10 and 16:40 UTC (8 of 10 such forecasts hold; forecast 5m0s ago)"
        );
        assert_eq!(
            expected("2026-11-28T12:10:00Z", "2026-11-28T12:59:00Z"),
            "later than was forecast 5m0s ago: between 2026-11-28 12:10 and 12:59 UTC; 2 of 10 such forecasts fail"
        );
    }

    #[test]
    fn too_short_a_history_is_no_promise() {
        let unknown = "unknown: fewer than 30 starts seen (12)";
        assert_eq!(said(waits("NoCapacity"), Some(12)).as_deref(), Some(unknown));
        assert_eq!(said(waits("BackingOff"), None), None, "who may not read the pool cannot know");
        assert!(said(waits("BehindInQueue"), Some(30)).unwrap().starts_with("unknown: too few starts"));
        assert_eq!(said(waits("Suspended"), Some(12)), None, "starts of others say nothing about it");
        assert_eq!(said(json!({ "phase": "Running" }), Some(12)), None);
    }
}
