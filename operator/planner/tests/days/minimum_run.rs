//! What the pool's `minimumRun` costs: the same day with and without it.

use std::collections::BTreeSet;

use scavenger_planner::{
    fixtures::{node, pod, seconds, settings, sj},
    loss::Work,
    values::{Outcome, Reason, Settings},
};
use scavenger_simulator::{Cluster, Random, Workload};

/// Hours of the day in which ordinary pods come and go.
const HOURS: i64 = 8;

/// What interruptions for headroom cost.
#[derive(Debug, Default, PartialEq, Eq)]
struct Cost {
    interruptions: i64,
    /// Of those, the attempts that had run for less than ten minutes.
    young: i64,
    /// Core-seconds that were computed since the last checkpoint.
    lost: i64,
    /// Core-seconds that the restarts take, as their specs say.
    restarts: i64,
}

impl Cost {
    fn all(&self) -> i64 {
        self.lost + self.restarts
    }
}

/// 160 cores that ScavengerJobs fill as far as they may. What ordinary pods hold rises and falls by the hour.
fn day(minimum_run: i64) -> Cost {
    let mut cluster = Cluster::new(Settings { minimum_run: seconds(minimum_run), ..settings() })
        .with_nodes((0..10).map(|number| node(&format!("n{number}"), 16_000)));
    (cluster.strict, cluster.thorough) = (false, false);
    let mut random = Random::new(7);
    let mut below = |bound: u64| i64::try_from(random.below(bound)).expect("bounds should be small");
    for number in 0..120 {
        let cores = 1 + below(4);
        let sj = sj(&format!("job{number}"))
            .asking(1000 * cores)
            .interruptible_after(seconds(600 * (1 + below(4))));
        cluster.submit(sj, Workload { needs: seconds(100_000), ..Workload::default() });
    }
    let mut cost = Cost::default();
    let mut counted = BTreeSet::new();
    for minute in 0..HOURS * 60 {
        let arrivals = if minute % 60 < 30 { 2 } else { 1 };
        for number in 0..arrivals {
            if below(2) == 0 {
                let pod = pod(&format!("web{minute}-{number}"), 1000 * (1 + below(4)));
                cluster.create_pod(pod, seconds(60 * (10 + below(50))));
            }
        }
        cluster.run_for(seconds(60));
        for sj in cluster.scavenger_jobs() {
            let Some(attempt) = sj.status.attempt.as_deref() else { continue };
            let is_headroom =
                attempt.outcome == Some(Outcome::Interrupted) && attempt.reason == Some(Reason::Headroom);
            if !is_headroom || !counted.insert((sj.uid.clone(), attempt.number)) {
                continue;
            }
            let cores = attempt.demand.per_pod.cpu_milli / 1000;
            cost.interruptions += 1;
            // One that had not run yet lost nothing but its start.
            let ran = attempt.start_time.zip(attempt.end_time).map(|(start, end)| end.duration_since(start));
            cost.young += i64::from(ran.is_none_or(|ran| ran < seconds(600)));
            cost.lost += Work::of_ended(sj, attempt).map_or(0, |work| work.lost.as_secs()) * cores;
            cost.restarts += sj.spec.as_ref().map_or(0, |spec| spec.restart.as_secs()) * cores;
        }
    }
    cost
}

#[test]
fn a_minimum_run_changes_hardly_anything_between_the_usual_thresholds() {
    let costs: Vec<(i64, Cost)> =
        [0, 300, 600, 1800].into_iter().map(|minimum| (minimum, day(minimum))).collect();
    println!("minimumRun  interruptions  younger than 10m  lost core-s  restarts core-s");
    for (minimum, cost) in &costs {
        let Cost { interruptions, young, lost, restarts } = cost;
        println!("{minimum:>9}s  {interruptions:>13}  {young:>16}  {lost:>11}  {restarts:>15}");
    }
    let [(_, none), (_, five), (_, ten), (_, thirty)] = &costs[..] else { panic!("four days") };
    assert!(none.interruptions > 40, "{none:?}");
    // Between the start threshold of 70% and the interrupt threshold of 90% ordinary pods need a while: who has just begun is not
    // interrupted, so a minimum of ten minutes spares nobody. One of half an hour changes who goes, and hardly what it costs.
    assert_eq!(none.young, 0, "{none:?}");
    assert_eq!((five, ten), (none, none));
    assert!(thirty.all() * 100 > none.all() * 98, "{thirty:?} instead of {none:?}");
}
