//! Who waited when: all that a forecast can be made from, and judged by.

use std::cmp::Reverse;

use scavenger_forecast::{Class, Kind, Waiting};

use crate::{
    values::{SjId, Time, stamp},
    workload::{Scavenger, Workload},
    world::{Attempt, World},
};

/// A ScavengerJob that waits from a submission or an interruption to its start. Times are seconds since the epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wait {
    /// Number of the ScavengerJob.
    pub id: u64,
    /// What it asks for.
    pub class: Class,
    /// Since when it waits.
    pub since: i64,
    /// When all of its pods run; none if that is not seen any more.
    pub until: Option<i64>,
    /// How often it was interrupted before.
    pub interruptions: u32,
}

/// Its place in the queue; the smallest comes first.
pub(super) type Place = (Reverse<u32>, i64, u64);

impl Wait {
    /// Its place: those that were interrupted most come first, then those that have waited longest.
    pub(super) fn place(&self) -> Place {
        (Reverse(self.interruptions.min(10)), self.since, self.id)
    }

    /// What the forecast knows of it.
    pub(super) fn waiting(&self) -> Waiting {
        Waiting { id: self.id, class: self.class, interrupted: self.interruptions > 0 }
    }
}

/// All waits of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct History {
    /// In no useful order.
    pub waits: Vec<Wait>,
    /// When the run begins.
    pub begin: i64,
    /// When it ends.
    pub end: i64,
}

fn seconds(time: Time) -> i64 {
    stamp(time).as_second()
}

/// The class of a ScavengerJob, in the cores of this cluster.
fn class(workload: &Workload, spec: &Scavenger) -> Class {
    let (asked, capacity) = (spec.requests.times(spec.pods.into()), workload.capacity());
    let kind = Kind::of(spec.pods, spec.requests.gpus > 0);
    Class::of_demand(kind, (asked.cpu, asked.memory), (capacity.cpu, capacity.memory))
}

impl History {
    /// What happened in a run that is over.
    #[must_use]
    pub fn of(world: &World<'_>) -> Self {
        let workload = world.workload;
        let mut attempts: Vec<Vec<&Attempt>> = vec![Vec::new(); workload.scavengers.len()];
        for attempt in &world.attempts {
            attempts[attempt.start.sj.index()].push(attempt);
        }
        let mut waits = Vec::new();
        for (number, (spec, attempts)) in workload.scavengers.iter().zip(&attempts).enumerate() {
            let id = u64::from(SjId::at(number).0);
            let mut wait = Wait {
                id,
                class: class(workload, spec),
                since: seconds(spec.arrival),
                until: None,
                interruptions: 0,
            };
            let mut is_waiting = true;
            for attempt in attempts {
                let pods = attempt.pods.iter().map(|pod| &world.pods[pod.index()]);
                let started: Option<Vec<Time>> = pods.clone().map(|pod| pod.started).collect();
                let Some(started) = started.and_then(|times| times.into_iter().max()) else { continue };
                waits.push(Wait { until: Some(seconds(started)), ..wait });
                is_waiting = false;
                let ended: Option<Vec<Time>> = pods.map(|pod| pod.ended).collect();
                let Some(ended) = ended.and_then(|times| times.into_iter().max()) else { break };
                if attempt.work_done.is_some() {
                    break;
                }
                wait = Wait { since: seconds(ended), interruptions: wait.interruptions + 1, ..wait };
                is_waiting = true;
            }
            if is_waiting {
                waits.push(wait);
            }
        }
        Self { waits, begin: seconds(0), end: seconds(workload.length) }
    }
}

#[cfg(test)]
mod tests {
    use scavenger_planner::values::PreemptionMode;

    use super::*;
    use crate::{
        policy::Kind as Policy,
        pool::Pool,
        run::{Conditions, run},
        values::{Amounts, HOUR, MINUTE, SECOND},
        workload::{Node, Ordinary},
    };

    #[test]
    fn a_scavenger_job_waits_from_its_submission_and_from_each_interruption_to_its_start() {
        let capacity = Amounts { cpu: 10_000, memory: 16_384, pods: 10, gpus: 0 };
        let sj = |arrival| Scavenger {
            arrival,
            work: HOUR,
            pods: 1,
            requests: Amounts::of_pod(6000, 1024, 0),
            interval: 10 * MINUTE,
            cost: 0,
            restart: MINUTE,
            grace: SECOND,
            saves: false,
        };
        let ordinary = |arrival, duration| Ordinary {
            arrival,
            duration,
            requests: Amounts::of_pod(9000, 1024, 0),
            priority: 0,
        };
        let workload = Workload {
            uses: None,
            nodes: vec![Node { name: "n0".to_owned(), capacity, labels: [].into() }],
            // The first keeps the ScavengerJob waiting, the second interrupts it.
            ordinary: vec![ordinary(0, 20 * MINUTE), ordinary(40 * MINUTE, 30 * MINUTE)],
            scavengers: vec![sj(5 * MINUTE), sj(6 * HOUR - MINUTE)],
            length: 6 * HOUR,
        };
        let settings = Pool::usual(PreemptionMode::Scheduler).settings;
        let (world, _) = run(&workload, Policy::Operator, &settings, Conditions { late: 50, seed: 1 });
        let history = History::of(&world);
        let begin = history.begin;
        let minutes = |wait: &Wait| ((wait.since - begin) / 60, wait.until.map(|until| (until - begin) / 60));
        let of_first: Vec<_> = history.waits.iter().filter(|wait| wait.id == 0).collect();
        assert_eq!(of_first.len(), 2, "{history:?}");
        assert_eq!(minutes(of_first[0]), (5, Some(20)), "{history:?}");
        assert_eq!((minutes(of_first[1]).0, of_first[1].interruptions), (40, 1), "{history:?}");
        assert!(minutes(of_first[1]).1.is_some_and(|until| until >= 70), "{history:?}");
        assert!(of_first.iter().all(|wait| wait.class.name() == "1 pod up to 8 cpu"));
        assert_eq!(history.waits.iter().filter(|wait| wait.id == 1).count(), 1, "{history:?}");
    }
}
