//! The figures of a run, and what several runs of different seeds say together.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::{
    values::{HOUR, MINUTE, SECOND, Time},
    workload::Workload,
    world::{OrdinaryState, Tally, World},
};

/// Millicores times milliseconds in a core hour.
const CORE_HOUR: f64 = (1000 * HOUR) as f64;

/// An ordinary pod that starts so much later than without ScavengerJobs had to wait for them.
const LATER: Time = SECOND;

/// The figures of one run.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Figures {
    /// Work kept over work done.
    pub goodput: f64,
    /// Core hours that ScavengerJobs kept.
    pub kept_core_hours: f64,
    /// Core hours that they ran and that are kept nowhere: the sum of the next four.
    pub lost_core_hours: f64,
    /// Work that was done again.
    pub redone_core_hours: f64,
    /// Restarts.
    pub restart_core_hours: f64,
    /// Writing of checkpoints.
    pub checkpoint_core_hours: f64,
    /// Containers that ran while nothing got done.
    pub idle_core_hours: f64,
    /// Interruptions of running ScavengerJobs.
    pub interruptions: f64,
    /// Pods of ScavengerJobs that were killed because their node had no memory left.
    pub killed_for_memory: f64,
    /// Interruptions that the policy ordered, by reason, if it has several.
    pub ordered: BTreeMap<String, u64>,
    /// ScavengerJobs that were done at the end.
    pub finished: f64,
    /// Those that had run by then.
    pub started: f64,
    /// Minutes from submission to the first run: the median and the 90th percentile. One that never ran has waited until the end:
    /// where small ones pass the others, those that ran are the ones that waited least.
    pub wait_minutes: f64,
    /// See [`Self::wait_minutes`].
    pub wait_minutes_p90: f64,
    /// From submission to the end, over the work, of those that were done: the median.
    pub slowdown: f64,
    /// Part of the cpu that pods requested while they were bound.
    pub utilisation: f64,
    /// The part of it that ordinary pods requested.
    pub ordinary_utilisation: f64,
    /// Ordinary pods of the workload.
    pub ordinary_pods: f64,
    /// Those that started more than a second later than without ScavengerJobs.
    pub ordinary_later: f64,
    /// In percent of all.
    pub ordinary_later_percent: f64,
    /// By how much those started later: the mean and the most, in seconds.
    pub ordinary_later_seconds: f64,
    /// See [`Self::ordinary_later_seconds`].
    pub ordinary_later_seconds_most: f64,
    /// Ordinary pods that started more than a second earlier than without ScavengerJobs, which put other pods elsewhere.
    pub ordinary_earlier: f64,
    /// Preemptions of ordinary pods beyond those without ScavengerJobs.
    pub ordinary_preemptions: f64,
    /// Ordinary pods that were preempted more often than without ScavengerJobs.
    pub ordinary_preempted_more: f64,
}

/// What a picture shows of one run.
#[derive(Debug, Clone, PartialEq)]
pub struct Course {
    /// The parts of the cpu that ordinary pods and that ScavengerJobs requested, in spans of [`Tally::STEP`].
    pub used: Vec<(f64, f64)>,
    /// Minutes from submission to the first run, in order; infinite where there was none.
    pub waits: Vec<f64>,
}

/// What a picture shows of a run that has ended.
#[must_use]
pub fn course(world: &World<'_>) -> Course {
    let cpu = world.workload.capacity().cpu as f64;
    let (whole, length) = (cpu * Tally::STEP as f64, world.workload.length);
    let steps = world.tally.steps.iter().zip(0..);
    let share = |((ordinary, scavengers), place): (&(i64, i64), Time)| {
        // The last one may be cut short.
        let whole = whole.min(cpu * (length - place * Tally::STEP).max(1) as f64);
        (*ordinary as f64 / whole, *scavengers as f64 / whole)
    };
    let both = world.scavengers.iter().zip(&world.workload.scavengers);
    let wait = |(state, sj): (&crate::world::ScavengerState, &crate::workload::Scavenger)| {
        state.first_run.map_or(f64::INFINITY, |run| (run - sj.arrival) as f64 / MINUTE as f64)
    };
    let mut waits: Vec<f64> = both.map(wait).collect();
    waits.sort_by(f64::total_cmp);
    Course { used: steps.map(share).collect(), waits }
}

/// What a run without ScavengerJobs says about each ordinary pod.
pub type Baseline = Vec<OrdinaryState>;

/// The figures of a run that has ended.
#[must_use]
pub fn measure(world: &World<'_>, baseline: &Baseline) -> Figures {
    let tally = &world.tally;
    let hours = |amount: i64| amount as f64 / CORE_HOUR;
    let whole = (world.workload.capacity().cpu * world.workload.length) as f64;
    let of = |part: i64, of: i64| if of == 0 { f64::NAN } else { part as f64 / of as f64 };
    let differences = differences(&tally.ordinary, baseline, world.workload);
    let later: Vec<Time> = differences.iter().copied().filter(|later| *later > LATER).collect();
    let (waits, slowdowns) = waits(world);
    let sum: Time = later.iter().sum();
    let number = tally.ordinary.len();
    let preempted = |states: &[OrdinaryState]| states.iter().map(|pod| i64::from(pod.preempted)).sum::<i64>();
    let more =
        tally.ordinary.iter().zip(baseline).filter(|(with, without)| with.preempted > without.preempted);
    Figures {
        goodput: of(tally.kept, tally.ran - tally.in_progress),
        kept_core_hours: hours(tally.kept),
        lost_core_hours: hours(tally.lost()),
        redone_core_hours: hours(tally.redone),
        restart_core_hours: hours(tally.restarts),
        checkpoint_core_hours: hours(tally.writing),
        idle_core_hours: hours(tally.idle),
        interruptions: tally.interruptions as f64,
        killed_for_memory: tally.killed as f64,
        ordered: BTreeMap::new(),
        finished: world.scavengers.iter().filter(|sj| sj.finished.is_some()).count() as f64,
        started: world.scavengers.iter().filter(|sj| sj.first_run.is_some()).count() as f64,
        wait_minutes: quantile(&waits, 0.5) / MINUTE as f64,
        wait_minutes_p90: quantile(&waits, 0.9) / MINUTE as f64,
        slowdown: quantile(&slowdowns, 0.5),
        utilisation: (tally.held_by_ordinary + tally.held_by_scavengers) as f64 / whole,
        ordinary_utilisation: tally.held_by_ordinary as f64 / whole,
        ordinary_pods: number as f64,
        ordinary_later: later.len() as f64,
        ordinary_later_percent: 100.0 * later.len() as f64 / number.max(1) as f64,
        ordinary_later_seconds: sum as f64 / SECOND as f64 / later.len().max(1) as f64,
        ordinary_later_seconds_most: later.iter().max().map_or(0.0, |most| *most as f64 / SECOND as f64),
        ordinary_earlier: differences.iter().filter(|later| **later < -LATER).count() as f64,
        ordinary_preemptions: (preempted(&tally.ordinary) - preempted(baseline)) as f64,
        ordinary_preempted_more: more.count() as f64,
    }
}

/// By how much each ordinary pod started later. One that never started has waited until the end.
fn differences(states: &[OrdinaryState], baseline: &Baseline, workload: &Workload) -> Vec<Time> {
    let until_end = workload.ordinary.iter().map(|pod| workload.length - pod.arrival);
    let compared = states.iter().zip(baseline).zip(until_end);
    let waited = |state: &OrdinaryState, until_end| state.waited.unwrap_or(until_end);
    compared
        .map(|((with, without), until_end)| waited(with, until_end) - waited(without, until_end))
        .collect()
}

/// How long ScavengerJobs waited, and how much longer they took than their work.
fn waits(world: &World<'_>) -> (Vec<f64>, Vec<f64>) {
    let both = || world.scavengers.iter().zip(&world.workload.scavengers);
    let length = world.workload.length;
    let waits = both().map(|(state, sj)| (state.first_run.unwrap_or(length) - sj.arrival) as f64);
    let slowdowns =
        both().filter_map(|(state, sj)| Some((state.finished? - sj.arrival) as f64 / sj.work as f64));
    (waits.collect(), slowdowns.collect())
}

/// The value below which this part of the others lies, between two of them where none is there; NaN of none.
#[must_use]
pub fn quantile(values: &[f64], part: f64) -> f64 {
    let mut sorted: Vec<f64> = values.iter().copied().filter(|value| !value.is_nan()).collect();
    sorted.sort_by(f64::total_cmp);
    let Some(last) = sorted.len().checked_sub(1) else { return f64::NAN };
    let place = part * last as f64;
    let below = place.floor() as usize;
    let above = (below + 1).min(last);
    sorted[below] + (sorted[above] - sorted[below]) * (place - below as f64)
}

/// A figure over several seeds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Interval {
    /// The median.
    pub median: f64,
    /// The 5th percentile.
    pub low: f64,
    /// The 95th percentile.
    pub high: f64,
}

impl Interval {
    /// Of the values that several seeds gave.
    #[must_use]
    pub fn of(values: &[f64]) -> Self {
        let at = |part| quantile(values, part);
        Self { median: at(0.5), low: at(0.05), high: at(0.95) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{values::Amounts, workload::Ordinary};

    #[test]
    fn one_that_never_starts_waits_until_the_end() {
        let pod = Ordinary { arrival: 2000, duration: 1, requests: Amounts::default(), priority: 0 };
        let workload = Workload { ordinary: vec![pod; 3], length: 10_000, ..Workload::default() };
        let states = |waited: [Option<Time>; 3]| waited.map(|waited| OrdinaryState { waited, preempted: 0 });
        let (with, without) = (states([Some(7), None, Some(100)]), states([Some(7), Some(3000), None]));
        assert_eq!(differences(&with, &without.to_vec(), &workload), [0, 5000, -7900]);
    }

    #[test]
    fn a_quantile_lies_between_its_neighbours() {
        let values = [4.0, 1.0, f64::NAN, 3.0, 2.0];
        assert_eq!(quantile(&values, 0.0), 1.0);
        assert_eq!(quantile(&values, 0.5), 2.5);
        assert_eq!(quantile(&values, 1.0), 4.0);
        assert!(quantile(&[], 0.5).is_nan());
        let interval = Interval::of(&[7.0]);
        assert_eq!((interval.low, interval.median, interval.high), (7.0, 7.0, 7.0));
    }
}
