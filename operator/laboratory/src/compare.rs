//! Several policies and pools side by side, on the same workloads.

use std::time::Duration;

use scavenger_planner::values::{PreemptionMode, Settings};
use serde::Serialize;

use crate::{
    measure::{Baseline, Course, Figures, Interval, course, measure},
    policy::Kind,
    pool::Pool,
    run::{Conditions, run, run_baseline, timed},
    values::Time,
    workload::Workload,
    world::World,
};

/// One of those that are compared.
#[derive(Debug, Clone)]
pub struct Contender {
    /// The policy.
    pub kind: Kind,
    /// The pool that it follows.
    pub pool: Pool,
}

impl Contender {
    /// What it is called: the policy, the pool unless it has all defaults, and the mode where that matters.
    #[must_use]
    pub fn name(&self) -> String {
        let pool = self.pool.name.as_deref().filter(|_| self.kind.follows_pool());
        let mode = (self.kind == Kind::Operator).then(|| mode_name(self.pool.settings.preemption_mode));
        let parts = [Some(self.kind.name()), mode, pool];
        parts.into_iter().flatten().collect::<Vec<_>>().join(" ")
    }
}

/// A mode as the pool writes it.
#[must_use]
pub fn mode_name(mode: PreemptionMode) -> &'static str {
    match mode {
        PreemptionMode::Scheduler => "Scheduler",
        PreemptionMode::Operator => "Operator",
    }
}

/// Each policy with each pool; once those of the same name, which no difference between the pools changes.
#[must_use]
pub fn contenders(kinds: &[Kind], pools: &[Pool]) -> Vec<Contender> {
    let mut all: Vec<Contender> = Vec::new();
    for kind in kinds {
        for pool in pools {
            let contender = Contender { kind: *kind, pool: pool.clone() };
            if all.iter().all(|other| other.name() != contender.name()) {
                all.push(contender);
            }
        }
    }
    all
}

/// What one of them did over all seeds.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Outcome {
    /// Its name.
    pub name: String,
    /// The figures of each seed, in their order.
    pub runs: Vec<Figures>,
    /// What pictures show of the first seed.
    #[serde(skip)]
    pub course: Option<Course>,
    /// The thresholds that it kept to.
    #[serde(skip)]
    pub thresholds: Vec<(&'static str, f64)>,
}

impl Outcome {
    /// Before any seed.
    #[must_use]
    pub fn none(name: String) -> Self {
        Self { name, runs: Vec::new(), course: None, thresholds: Vec::new() }
    }

    /// A figure over all seeds.
    #[must_use]
    pub fn over(&self, figure: impl Fn(&Figures) -> f64) -> Interval {
        Interval::of(&self.runs.iter().map(figure).collect::<Vec<_>>())
    }
}

/// How long a run took.
#[derive(Debug, Clone)]
pub struct Took {
    /// Which policy, which seed.
    pub what: String,
    /// Processor time.
    pub time: Duration,
}

/// What a run without ScavengerJobs says about the ordinary pods of a workload.
#[must_use]
pub fn baseline(workload: &Workload, seed: u64) -> Baseline {
    run_baseline(&workload.without_scavengers(), seed).tally.ordinary
}

/// Plays a workload under a policy to its end, and measures it.
#[must_use]
pub fn play<'a>(
    workload: &'a Workload,
    kind: Kind,
    settings: &Settings,
    conditions: Conditions,
    baseline: &Baseline,
) -> (World<'a>, Figures) {
    let (world, ordered) = run(workload, kind, settings, conditions);
    let figures = Figures { ordered, ..measure(&world, baseline) };
    (world, figures)
}

/// Plays all of them for all seeds, each with the workload of its seed. `tell` hears how long each run took.
pub fn compare(
    contenders: &[Contender],
    seeds: u64,
    late: Time,
    workload: impl Fn(u64) -> Workload,
    mut tell: impl FnMut(Took),
) -> Vec<Outcome> {
    let begin = |one: &Contender| Outcome {
        thresholds: one.kind.thresholds(&one.pool.settings),
        ..Outcome::none(one.name())
    };
    let mut outcomes: Vec<Outcome> = contenders.iter().map(begin).collect();
    for seed in 1..=seeds {
        let workload = workload(seed);
        let (baseline, time) = timed(|| baseline(&workload, seed));
        tell(Took { what: format!("without ScavengerJobs, seed {seed}"), time });
        for (contender, outcome) in contenders.iter().zip(&mut outcomes) {
            let conditions = Conditions { late, seed };
            let settings = &contender.pool.settings;
            let ((world, figures), time) =
                timed(|| play(&workload, contender.kind, settings, conditions, &baseline));
            outcome.runs.push(figures);
            outcome.course.get_or_insert_with(|| course(&world));
            tell(Took { what: format!("{}, seed {seed}", contender.name()), time });
        }
    }
    outcomes
}
