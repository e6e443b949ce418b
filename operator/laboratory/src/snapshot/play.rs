//! What happens to a cluster with one pool.

use std::collections::BTreeMap;

use jiff::SignedDuration;
use scavenger_planner::{action::Event, values::Settings};
use scavenger_simulator::{Cluster, Step};
use serde::Serialize;

use super::live::Live;

/// Something that happens to a ScavengerJob.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Happening {
    /// How long after the snapshot. Of an interruption: when it is ordered, and not when its pods have ended.
    pub(super) seconds: i64,
    pub(super) scavenger_job: String,
    pub(super) event: Event,
    /// Why, as one word and as a message; empty for a start.
    pub(super) reason: String,
    pub(super) message: String,
    /// Time of cores whose results are lost.
    pub(super) lost_core_seconds: f64,
    pub(super) nodes: Vec<String>,
}

/// The sums of what happens with one pool.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Sums {
    /// How often each event happens; of starts and interruptions also if they do not.
    pub(super) events: BTreeMap<Event, usize>,
    /// Interruptions by reason.
    pub(super) reasons: BTreeMap<String, usize>,
    pub(super) lost_core_hours: f64,
    /// ScavengerJobs that have an attempt at the end.
    pub(super) active_at_end: usize,
    /// ScavengerJobs that wait at the end.
    pub(super) waiting_at_end: usize,
}

/// What happens with one pool.
#[derive(Debug, Default)]
pub(super) struct Run {
    /// In the order of time.
    pub(super) happenings: Vec<Happening>,
    pub(super) sums: Sums,
    /// ScavengerJobs that wait for what a snapshot does not show.
    pub(super) held: usize,
}

/// Plays so many hours; with another pool if one is given, which comes right after the snapshot.
///
/// # Errors
/// If the snapshot contradicts itself.
pub(super) fn play(live: &Live, pool: Option<&Settings>, hours: u16) -> Result<Run, String> {
    let mut cluster = Cluster::resumed(live.observations.clone(), live.time);
    if let Some(pool) = pool {
        cluster.set_pool(Ok(pool.clone()));
    }
    for _ in 0..hours {
        if cluster.contradiction().is_none() {
            cluster.run_for(SignedDuration::from_hours(1));
        }
    }
    if let Some(what) = cluster.contradiction() {
        return Err(format!("what it shows contradicts itself: {what}"));
    }
    let under_way = cluster.steps_under_way();
    let steps = cluster.steps.iter().chain(&under_way);
    let mut happenings: Vec<Happening> = steps.map(|step| of(&cluster, live, step)).collect();
    happenings.sort_by_key(|happening| happening.seconds);
    let mut sums = Sums { events: [(Event::Started, 0), (Event::Interrupted, 0)].into(), ..Sums::default() };
    for happening in &happenings {
        *sums.events.entry(happening.event).or_default() += 1;
        sums.lost_core_hours += happening.lost_core_seconds / 3600.0;
        if happening.event == Event::Interrupted {
            *sums.reasons.entry(happening.reason.clone()).or_default() += 1;
        }
    }
    let left = cluster.scavenger_jobs().filter(|sj| !sj.status.phase.is_finished());
    let (active, waiting): (Vec<_>, Vec<_>) = left.partition(|sj| sj.status.phase.is_active());
    (sums.active_at_end, sums.waiting_at_end) = (active.len(), waiting.len());
    Ok(Run { happenings, sums, held: cluster.not_seen.len() })
}

fn of(cluster: &Cluster, live: &Live, step: &Step) -> Happening {
    let attempt = step.attempt.as_ref();
    let ordered = attempt.and_then(|attempt| attempt.disruption.as_ref());
    let ordered = ordered.filter(|_| step.event == Event::Interrupted);
    let time = ordered.map_or(step.time, |disruption| disruption.time.clamp(live.time, step.time));
    let message = ordered.map(|disruption| disruption.message.clone());
    let cores = attempt.map_or(0.0, |attempt| attempt.demand.total().cpu_milli as f64 / 1000.0);
    Happening {
        seconds: time.duration_since(live.time).as_secs(),
        scavenger_job: step.sj.to_string(),
        event: step.event,
        reason: step.reason.as_ref().map(ToString::to_string).unwrap_or_default(),
        message: message.or_else(|| attempt?.message.clone()).unwrap_or_default(),
        lost_core_seconds: step.lost.as_secs_f64() * cores,
        nodes: cluster.nodes_of(step).iter().map(ToString::to_string).collect(),
    }
}
