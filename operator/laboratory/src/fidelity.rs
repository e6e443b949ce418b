//! How faithful the laboratory is: one scenario, small enough for a real control plane to play it, too.
//!
//! The workload and the pool stand here once, for both. `cargo xtask fidelity` plays them on a cluster of its own and compares
//! what it counts with [`Counts`] of many seeds.

use scavenger_planner::values::Settings;
use scavenger_schema::scavenger_pool::ScavengerPoolSpec;
use serde_json::{Value, json};

use crate::{
    chance::Chance,
    policy::Kind,
    run::{Conditions, run_with},
    values::{Amounts, MINUTE, SECOND, Time},
    workload::{Node, Ordinary, Scavenger, Workload},
    world::{Delays, World},
};

/// How long it is played.
pub const LENGTH: Time = 10 * MINUTE;

/// An ordinary pod that starts this long after its creation had to wait.
pub const WAITED: Time = 3 * SECOND;

/// What played nodes have, and what the cluster has of them.
const NODE: Amounts = Amounts { cpu: 64_000, memory: 256 * 1024, pods: 250, gpus: 0 };
const NODES: usize = 20;

/// Ordinary pods that come at any time, and those of each burst.
const SCATTERED: usize = 100;
const BURST: usize = 50;
const BURSTS: [Time; 2] = [150 * SECOND, 360 * SECOND];
/// How long a burst takes.
const BURST_LASTS: Time = 20 * SECOND;

const SCAVENGER_JOBS: usize = 100;

/// No ordinary pod and no ScavengerJob comes later: it would tell nothing.
const LAST_ARRIVAL: Time = 9 * MINUTE;

/// How long Kubernetes takes where the nodes are played: their kubelet starts containers at once, and ends those that are deleted
/// at a whole second.
const DELAYS: Delays = Delays {
    scheduler: 20,
    kubelet: 150,
    pod_phase: 600,
    new_pods: 100,
    job_controller: 1100,
    unstarted: 500,
    spread_percent: 100,
};

/// How late the operator sees what changes.
const LATE: Time = 50;

/// The spec of the pool that both play.
#[must_use]
pub fn pool() -> Value {
    json!({
        "nodeSelector": { "type": "kwok" },
        "toleratedTaints": ["kwok.x-k8s.io/node"],
        "startThreshold": 0.8,
        "headroomTarget": 0.85,
        "interruptThreshold": 0.9,
        "interruptionBackoff": "1s",
        "limits": { "minInterruptionAfter": "1s" },
    })
}

/// What both play: ordinary pods that come at any time, two bursts of them, and ScavengerJobs for all that they leave.
#[must_use]
pub fn workload() -> Workload {
    let mut chance = Chance::new(1, 7);
    let labels = |number: usize| {
        [("type", "kwok".to_owned()), ("kubernetes.io/hostname", format!("fake-{:04}", number + 1))]
    };
    let nodes = (0..NODES).map(|number| Node {
        name: format!("fake-{:04}", number + 1),
        capacity: NODE,
        labels: labels(number).map(|(key, value)| (key.to_owned(), value)).into(),
    });
    let arrivals: Vec<Time> = (0..SCATTERED)
        .map(|_| chance.below(LAST_ARRIVAL))
        .chain(BURSTS.into_iter().flat_map(|burst| vec![burst; BURST]))
        .collect();
    let mut ordinary: Vec<Ordinary> = arrivals
        .into_iter()
        .map(|arrival| Ordinary {
            arrival: if BURSTS.contains(&arrival) { arrival + chance.below(BURST_LASTS) } else { arrival },
            duration: whole_seconds(chance.between_evenly_by_size(MINUTE, 5 * MINUTE)),
            requests: Amounts::of_pod(*chance.of(&[8000, 16_000]), 1024, 0),
            priority: 0,
        })
        .collect();
    ordinary.sort_by_key(|pod| pod.arrival);
    let mut scavengers: Vec<Scavenger> = (0..SCAVENGER_JOBS)
        .map(|number| Scavenger {
            arrival: if number % 5 < 2 { 0 } else { chance.below(LAST_ARRIVAL) },
            work: whole_seconds(chance.between_evenly_by_size(MINUTE, 6 * MINUTE)),
            pods: 1,
            requests: Amounts::of_pod(*chance.of(&[8000, 16_000, 32_000]), 2048, 0),
            interval: *chance.of(&[20, 40, 60]) * SECOND,
            cost: 0,
            restart: 5 * SECOND,
            grace: 4 * SECOND,
            saves: false,
        })
        .collect();
    scavengers.sort_by_key(|sj| sj.arrival);
    Workload { nodes: nodes.collect(), ordinary, scavengers, length: LENGTH, uses: None }
}

fn whole_seconds(time: Time) -> Time {
    time - time % SECOND
}

/// What is counted of a run, in the laboratory and on a cluster.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// How often a ScavengerJob began to run.
    pub starts: u64,
    /// How often one was interrupted while it ran.
    pub interruptions: u64,
    /// ScavengerJobs that were done in time.
    pub completed: u64,
    /// Core seconds of work that were done again.
    pub redone: u64,
    /// Ordinary pods that did not run [`WAITED`] after their creation.
    pub waited: u64,
}

impl Counts {
    /// What they are called, in the order of [`Counts::each`].
    pub const NAMES: [&str; 5] =
        ["starts", "interruptions", "completed", "core seconds redone", "ordinary pods that waited"];

    /// Each of them.
    #[must_use]
    pub const fn each(&self) -> [u64; 5] {
        [self.starts, self.interruptions, self.completed, self.redone, self.waited]
    }

    fn of(world: &World<'_>) -> Self {
        let count = |number: usize| number as u64;
        Self {
            starts: world.tally.starts,
            interruptions: world.tally.interruptions,
            completed: count(world.scavengers.iter().filter(|sj| sj.finished.is_some()).count()),
            redone: core_seconds(world.tally.redone),
            waited: count(
                world.tally.ordinary.iter().filter(|pod| pod.waited.is_none_or(|time| time > WAITED)).count(),
            ),
        }
    }
}

/// Core seconds of work in millicores times milliseconds.
#[must_use]
pub fn core_seconds(work: i64) -> u64 {
    u64::try_from(work / (1000 * SECOND)).unwrap_or(0)
}

/// The rules by which the laboratory plays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rules {
    /// Those of the operator.
    Right,
    /// With one that is wrong on purpose: nobody is interrupted for headroom. The comparison must notice.
    WithoutHeadroom,
}

/// Plays it in the laboratory.
///
/// # Panics
/// If the pool cannot be used, which a test excludes.
#[must_use]
pub fn play(rules: Rules, seed: u64) -> Counts {
    let spec: ScavengerPoolSpec = serde_json::from_value(pool()).expect("the pool should be one");
    let settings = scavenger_specs::settings(&spec, None).expect("the pool should be usable");
    let settings = match rules {
        Rules::Right => settings,
        Rules::WithoutHeadroom => without_headroom(settings),
    };
    let workload = workload();
    let conditions = Conditions { late: LATE, seed };
    let (world, _) = run_with(DELAYS, &workload, Kind::Operator, &settings, conditions);
    Counts::of(&world)
}

fn without_headroom(mut settings: Settings) -> Settings {
    settings.headroom.interrupt_threshold = None;
    settings
}

/// The 5th and the 95th percentile of the same count of many seeds, and the median between them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Band {
    /// The 5th percentile.
    pub low: u64,
    /// The median.
    pub median: u64,
    /// The 95th percentile.
    pub high: u64,
}

impl Band {
    /// Of some counts; all zero if there is none.
    #[must_use]
    pub fn of(mut counts: Vec<u64>) -> Self {
        counts.sort_unstable();
        let last = counts.len().saturating_sub(1);
        let at = |percent: usize| counts.get((last * percent).div_ceil(100)).copied().unwrap_or_default();
        Self { low: at(5), median: at(50), high: at(95) }
    }

    /// True if a count lies within.
    #[must_use]
    pub const fn holds(&self, count: u64) -> bool {
        self.low <= count && count <= self.high
    }

    /// How wide it is, in percent of the median.
    #[must_use]
    pub fn width_percent(&self) -> f64 {
        100.0 * (self.high - self.low) as f64 / self.median.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_says_the_same_each_time_and_something_happens() {
        let counts = play(Rules::Right, 3);
        assert_eq!(counts, play(Rules::Right, 3));
        assert!(counts.interruptions >= 20 && counts.starts > 100 && counts.completed > 20, "{counts:?}");
    }

    #[test]
    fn the_band_of_a_rule_that_is_wrong_is_another_one() {
        let band = |rules| Band::of((1..=20).map(|seed| play(rules, seed).interruptions).collect());
        let (right, wrong) = (band(Rules::Right), band(Rules::WithoutHeadroom));
        assert!(right.low > wrong.high || right.high < wrong.low, "{right:?} {wrong:?}");
    }

    #[test]
    fn a_band_is_what_lies_between_its_percentiles() {
        let band = Band::of((1..=101).rev().collect());
        assert_eq!(band, Band { low: 6, median: 51, high: 96 });
        assert!(band.holds(6) && band.holds(96) && !band.holds(5) && !band.holds(97));
        assert!((band.width_percent() - 90.0 / 51.0 * 100.0).abs() < 1e-9);
        assert_eq!(Band::of(Vec::new()), Band { low: 0, median: 0, high: 0 });
    }
}
