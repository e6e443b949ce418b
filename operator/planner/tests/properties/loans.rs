//! A ScavengerJob that has a standing reservation starts no later because what is reserved was lent, but for what the
//! borrowers take to end.

use jiff::Timestamp;
use proptest::prelude::*;
use scavenger_planner::{
    fixtures::{key, node, seconds, settings, sj},
    values::{Phase, Reason, ScavengerJob},
};
use scavenger_simulator::{Cluster, Workload};

/// How long borrowers take to end at most.
const GRACE: i64 = 25;

/// A gang waits for two nodes on which others run, to which nothing may be lent.
#[derive(Debug, Clone)]
struct World {
    /// Thousandths of a core that each of the gang's pods asks for.
    gang: i64,
    /// Processor time and run time of those that run before the gang is there, and when each is preempted, if it is.
    before: Vec<(i64, i64, Option<i64>)>,
    /// Processor time, and when each is submitted: those to which may be lent.
    borrowers: Vec<(i64, i64)>,
    /// When the operator is restarted.
    restart: Option<i64>,
}

fn world() -> impl Strategy<Value = World> {
    let before = (3..7_i64, 200..3000_i64, prop::option::weighted(0.3, 50..2500_i64));
    let borrower = (1..10_i64, 700..2500_i64);
    (
        60..90_i64,
        prop::collection::vec(before, 2..5),
        prop::collection::vec(borrower, 1..12),
        prop::option::weighted(0.3, 700..2500_i64),
    )
        .prop_map(|(gang, before, borrowers, restart)| World {
            gang: gang * 100,
            before: before
                .into_iter()
                .map(|(cpu, needs, preempted)| (cpu * 1000, needs, preempted))
                .collect(),
            borrowers: borrowers.into_iter().map(|(cpu, time)| (cpu * 500, time)).collect(),
            restart,
        })
}

fn dear(name: &str) -> ScavengerJob {
    sj(name).interruptible_after(seconds(7200))
}

/// When the gang runs, and how many loans were ended for it.
fn started(world: &World, lends: bool) -> (Timestamp, usize, String) {
    // Of another kind, so that it has a reservation beside those that come before it.
    let nodes = [node("n1", 10_000).having("gpu", 1), node("n2", 10_000).having("gpu", 1)];
    let mut cluster = Cluster::new(settings().filled_to(1.0)).with_nodes(nodes);
    cluster.thorough = false;
    for (number, (cpu, needs, _)) in world.before.iter().enumerate() {
        let workload = Workload { needs: seconds(*needs), ..Workload::default() };
        cluster.submit(dear(&format!("before{number}")).asking(*cpu), workload);
    }
    cluster.run_for(seconds(5));
    let workload = Workload { needs: seconds(100), ..Workload::default() };
    cluster.submit(dear("gang").gang(2).asking(world.gang).asking_for("gpu", 1), workload);
    let mut elapsed = 0;
    while cluster.status("gang").phase != Phase::Running {
        for (number, (.., preempted)) in world.before.iter().enumerate() {
            if *preempted == Some(elapsed) {
                cluster.preempt(&key(&format!("before{number}-1-0")));
            }
        }
        for (number, (cpu, _)) in
            world.borrowers.iter().enumerate().filter(|(_, (_, time))| lends && *time == elapsed)
        {
            let grace = seconds(1 + i64::try_from(number).unwrap_or(0) * 2 % GRACE);
            let workload = Workload { needs: seconds(100_000), grace, ..Workload::default() };
            cluster.submit(sj(&format!("borrower{number}")).saving().asking(*cpu), workload);
        }
        if world.restart == Some(elapsed) {
            cluster.restart(false);
        }
        cluster.run_for(seconds(1));
        elapsed += 1;
        assert!(elapsed < 30_000, "the gang does not start\n{}", cluster.history());
    }
    let ended = |sj: &&ScavengerJob| {
        sj.status.attempt.as_ref().is_some_and(|attempt| attempt.reason == Some(Reason::Reclaimed))
    };
    (cluster.now, cluster.scavenger_jobs().filter(ended).count(), cluster.history())
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 20, ..super::cases(24) })]

    #[test]
    fn a_holder_starts_no_later_because_of_loans_than_the_borrowers_take_to_end(world in world()) {
        let (plain, none, _) = started(&world, false);
        let (lending, _, history) = started(&world, true);
        prop_assert_eq!(none, 0);
        // Each of those that come before the gang may have waited for borrowers, too. One that is preempted may therefore be
        // ready again just before the gang could start instead of just after.
        let delays = world.before.iter().map(|(_, needs, preempted)| match preempted {
            Some(_) => GRACE + 10 + needs,
            None => GRACE + 10,
        });
        let most = GRACE + 10 + delays.sum::<i64>();
        prop_assert!(lending.duration_since(plain) <= seconds(most), "{lending} instead of {plain}\n{history}");
    }
}
