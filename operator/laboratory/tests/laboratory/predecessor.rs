//! The predecessor's rule: a margin that grows with unrest, and kills without a grace period.

use scavenger_laboratory::{
    policy::Kind,
    pool::Pool,
    run::{Conditions, run},
    values::{HOUR, MINUTE, SECOND, Time},
    workload::{Ordinary, Workload},
    world::{Delays, Order, Owner, Preempts, World},
};
use scavenger_planner::values::PreemptionMode;

use super::{nodes, ordinary, scavenger, start, workload};

/// What is lost of a ScavengerJob that saves on SIGTERM, in core minutes, and how long its pod takes to end.
fn ended(how: fn(Vec<scavenger_laboratory::values::PodId>) -> Order) -> (f64, Time) {
    let mut saving = scavenger(2);
    (saving.saves, saving.grace) = (true, 5 * SECOND);
    let workload = workload(nodes(&[4]), Vec::new(), vec![saving]);
    let mut world = World::new(&workload, Preempts::All, Delays::default(), 1);
    start(&mut world, 0, -1000, 0);
    world.advance(6 * MINUTE);
    world.carry_out(how(world.attempts[0].pods.clone()));
    world.advance(7 * MINUTE);
    let end = world.pods[0].ended.expect("the pod should have ended");
    (world.tally.redone as f64 / (1000 * MINUTE) as f64, end - 6 * MINUTE)
}

#[test]
fn one_that_is_killed_saves_nothing_and_is_gone_at_once() {
    assert_eq!(ended(Order::Interrupt), (0.0, 5300));
    let (lost, took) = ended(Order::Kill);
    assert!((11.9..12.0).contains(&lost), "{lost} core minutes");
    assert_eq!(took, 300);
}

/// Ordinary pods that ask for half of the cluster, and then for so much more all at once.
fn rising(more: i64) -> Workload {
    let steady = (0..8).map(|_| ordinary(0, 2 * HOUR, 4));
    let burst = (0..more).map(|_| ordinary(HOUR, 30 * MINUTE, 1));
    let pods: Vec<Ordinary> = steady.chain(burst).collect();
    let scavengers = (0..40).map(|_| scavenger(1));
    workload(nodes(&[16, 16, 16, 16]), pods, scavengers.collect())
}

fn play(workload: &Workload) -> World<'_> {
    let settings = Pool::usual(PreemptionMode::Scheduler).settings;
    run(workload, Kind::Predecessor, &settings, Conditions { late: 50, seed: 1 }).0
}

/// ScavengerJobs that hold a core at this time.
fn running(world: &World<'_>, at: Time) -> usize {
    let holds = |pod: &&scavenger_laboratory::world::Pod| {
        matches!(pod.owner, Owner::Attempt(..))
            && pod.bound.is_some_and(|bound| bound <= at)
            && pod.ended.is_none_or(|ended| ended > at)
    };
    world.pods.iter().filter(holds).count()
}

#[test]
fn a_jump_makes_a_margin_for_five_minutes() {
    // Up to 70% of 64 cores: 12 beside the 32. Eight more ordinary pods make 52, far below the interrupt threshold of 90%.
    let workload = rising(8);
    let world = play(&workload);
    assert_eq!(running(&world, HOUR - 1), 12);
    assert_eq!(running(&world, HOUR + 2 * MINUTE), 12);
    assert_eq!(world.tally.interruptions, 0);
    // Fourteen more make 58 of 57.6 that are below 90%, and the first look that sees them has a margin of 2.5.
    let workload = rising(14);
    let world = play(&workload);
    assert_eq!(running(&world, HOUR + 5 * SECOND), 9);
    // When half of the looks have seen them the margin is half of the jump: 46 and 4 stay below 50.6.
    assert_eq!(running(&world, HOUR + 10 * MINUTE), 4);
}
