//! What ordinary pods notice of ScavengerJobs.

use scavenger_laboratory::{
    compare::contenders,
    policy::Kind,
    pool::Pool,
    run::{Conditions, run, run_baseline},
    values::{HOUR, MINUTE, SECOND, Time},
    workload::{Ordinary, Workload},
};
use scavenger_planner::{resources::Share, values::PreemptionMode};

use super::{nodes, ordinary, scavenger, workload};

/// Ordinary pods that always find a node when nobody else is there: at most 7 of 8 cores of each of four nodes.
fn modest() -> Workload {
    let mut pods: Vec<Ordinary> = Vec::new();
    for round in 0..6 {
        let begin = round * 20 * MINUTE + MINUTE;
        // Twelve at once, which are gone before the next come. One that comes later and hopes for the same node would be
        // waited for, too: kube-scheduler keeps what is freed for both.
        pods.extend((0..12).map(|_| ordinary(begin, 12 * MINUTE, 2)));
    }
    let scavengers = (0..60).map(|number| {
        let mut sj = scavenger(1 + number % 3);
        (sj.work, sj.grace, sj.saves) = (HOUR, (1 + number % 5) * SECOND, number % 4 == 0);
        sj
    });
    workload(nodes(&[8, 8, 8, 8]), pods, scavengers.collect())
}

/// The longest that a pod can wait although everybody does what is to be done at once: kube-scheduler, the grace period, the
/// end of the pod, and kube-scheduler once more.
const BY_STOCK: Time = 10 + 5 * SECOND + 300 + 10;

/// In mode Operator the watch comes before that, the order is written, and then the pod is evicted: two requests and two
/// answers, and the plans between them.
const LATE: Time = 50;
const BY_OPERATOR: Time = BY_STOCK + 2 * LATE + 4 * 3 + 10;

#[test]
fn no_ordinary_pod_waits_for_longer_than_a_scavenger_job_takes_to_end() {
    let workload = modest();
    let alone = workload.without_scavengers();
    let baseline = run_baseline(&alone, 1).tally.ordinary;
    assert!(baseline.iter().all(|pod| pod.waited == Some(710)), "{baseline:?}");
    let modes = [PreemptionMode::Scheduler, PreemptionMode::Operator].map(Pool::usual);
    for contender in contenders(&Kind::ALL, &modes) {
        // Without headroom, so that pods do have to wait.
        let mut settings = contender.pool.settings.clone();
        settings.headroom.interrupt_threshold = None;
        settings.start_thresholds.default = Share::ONE;
        let conditions = Conditions { late: LATE, seed: 1 };
        let (world, _) = run(&workload, contender.kind, &settings, conditions);
        let waited = |pod: &scavenger_laboratory::world::OrdinaryState| pod.waited.unwrap_or(Time::MAX) - 710;
        let longest = world.tally.ordinary.iter().map(waited).max().unwrap_or(0);
        let allowed = match contender.kind {
            Kind::Operator if settings.preemption_mode == PreemptionMode::Operator => BY_OPERATOR,
            _ => BY_STOCK,
        };
        assert!(longest > 0, "{}: nobody had to wait", contender.name());
        assert!(longest <= allowed, "{}: {longest} ms, and {allowed} would do", contender.name());
    }
}

/// Ordinary pods of one core that come one after the other, until they ask for 45 of 64 cores.
fn rising() -> Workload {
    let pods = (0..300).map(|number| ordinary(MINUTE + number * 20 * SECOND, 15 * MINUTE, 1));
    let scavengers = (0..100).map(|_| scavenger(1));
    workload(nodes(&[16, 16, 16, 16]), pods.collect(), scavengers.collect())
}

#[test]
fn headroom_is_made_before_ordinary_pods_ask_for_it() {
    let workload = rising();
    for mode in [PreemptionMode::Scheduler, PreemptionMode::Operator] {
        let usual = Pool::usual(mode).settings;
        let mut without = usual.clone();
        without.headroom.interrupt_threshold = None;
        without.start_thresholds.default = Share::ONE;
        let late = |settings| {
            let (world, _) = run(&workload, Kind::Operator, &settings, Conditions { late: LATE, seed: 1 });
            world.tally.ordinary.iter().filter(|pod| pod.waited > Some(SECOND)).count()
        };
        let (with, without) = (late(usual), late(without));
        assert_eq!(with, 0, "{mode:?}");
        assert!(without > 40, "{mode:?}: only {without} have to wait without headroom");
    }
}
