//! Capacity that is kept for those that have waited long.

use jiff::Timestamp;
use scavenger_planner::{
    fixtures::{at, key, node, seconds, settings, sj},
    values::{Access, Observation, Outcome, Phase, Reason, ScavengerJob, Volume, WaitingReason},
};
use scavenger_simulator::{Cluster, Workload};

use super::{attempt, completed, outcome, work};

#[test]
fn holders_of_two_kinds_do_not_bind_each_other() {
    let nodes = [node("n1", 10_000).having("gpu", 1)];
    let mut cluster = Cluster::new(settings().filled_to(1.0)).with_nodes(nodes);
    cluster.submit(sj("z").asking(6000), work(2000));
    cluster.run_until_phase("z", Phase::Running);
    cluster.submit(sj("a").asking(8000), work(10));
    cluster.run_for(seconds(60));
    cluster.submit(sj("b").asking(4000).asking_for("gpu", 1), work(100_000));
    cluster.run_until_phase("b", Phase::Running);
    cluster.run_for(seconds(640));
    // From now on b comes before a, which waited before b was created.
    cluster.preempt(&key("b-1-0"));
    cluster.run_until_phase("z", Phase::Completed);
    cluster.run_until_phase("a", Phase::Completed);
    cluster.run_until_phase("b", Phase::Running);
}

/// For this one an interruption costs more than may be lent to.
fn dear(name: &str) -> ScavengerJob {
    sj(name).interruptible_after(seconds(7200))
}

/// A gang needs most of two nodes, one of which is in use for 2000 s. It has a standing reservation.
fn a_gang_waits(settings: scavenger_planner::values::Settings) -> Cluster {
    let nodes = [node("n1", 10_000), node("n2", 10_000)];
    let mut cluster = Cluster::new(settings.filled_to(1.0)).with_nodes(nodes);
    cluster.submit(dear("z").asking(6000), work(2000));
    cluster.run_until_phase("z", Phase::Running);
    cluster.submit(dear("gang").gang(2).asking(8000), work(100));
    cluster.run_for(seconds(700));
    assert_eq!(cluster.status("gang").phase, Phase::Waiting);
    cluster
}

/// When the gang ran for the first time.
fn gang_started(cluster: &mut Cluster) -> Timestamp {
    cluster.run_until_phase("gang", Phase::Running);
    cluster.status("gang").start_times[0]
}

#[test]
fn what_is_reserved_is_lent_to_those_that_lose_little_until_its_holder_can_start() {
    let mut plain = a_gang_waits(settings());
    plain.run_until_phase("z", Phase::Completed);
    let without_lending = gang_started(&mut plain);

    let mut cluster = a_gang_waits(settings());
    cluster.submit(sj("saves").saving().asking(5000), work(5000));
    cluster.submit(sj("often").interruptible_after(seconds(600)).asking(3000), work(5000));
    cluster.submit(dear("dear").asking(1000), work(10));
    cluster.submit(sj("rarely").interruptible_after(seconds(601)).asking(1000), work(10));
    cluster.run_for(seconds(60));
    for name in ["saves", "often"] {
        assert_eq!(cluster.status(name).phase, Phase::Running, "{name}");
        assert!(cluster.status(name).message.contains("reserved for"), "{}", cluster.status(name).message);
    }
    for name in ["dear", "rarely"] {
        assert_eq!(cluster.status(name).phase, Phase::Waiting, "{name}");
    }
    let started = gang_started(&mut cluster);
    assert_eq!(cluster.status("z").phase, Phase::Completed);
    assert!(started.duration_since(without_lending) <= seconds(35), "{started} instead of {without_lending}");
    for name in ["saves", "often"] {
        assert_eq!(outcome(&cluster, name), (1, Some(Outcome::Interrupted), Reason::Reclaimed), "{name}");
        let status = cluster.status(name);
        assert_eq!((status.interrupted_count, status.counted_interruptions), (1, 0), "{name}");
        assert!(status.interruption_times.is_empty(), "a loan costs no rank in the queue");
    }
    completed(&mut cluster, "often");
}

#[test]
fn only_as_much_is_taken_back_as_the_holder_needs() {
    let mut cluster = a_gang_waits(settings());
    // 4 + 10 cpu are free, and the gang leaves 2 on each node.
    for name in ["a", "b", "c", "d", "e", "f", "g"] {
        cluster.submit(sj(name).saving().asking(2000), work(5000));
    }
    cluster.run_for(seconds(60));
    gang_started(&mut cluster);
    let names = ["a", "b", "c", "d", "e", "f", "g"];
    let running = names.iter().filter(|name| cluster.status(name).phase == Phase::Running);
    assert_eq!(running.count(), 2);
}

#[test]
fn what_was_lent_is_taken_back_by_an_operator_that_was_restarted() {
    let mut cluster = a_gang_waits(settings());
    cluster.submit(sj("saves").saving().asking(9000), work(5000));
    cluster.run_until_phase("saves", Phase::Running);
    cluster.restart(false);
    cluster.run_for(seconds(60));
    assert_eq!(cluster.status("saves").phase, Phase::Running);
    gang_started(&mut cluster);
    assert_eq!(outcome(&cluster, "saves").2, Reason::Reclaimed);
    completed(&mut cluster, "saves");
}

#[test]
fn a_loan_is_over_once_nothing_is_reserved_any_more() {
    let mut cluster = a_gang_waits(settings());
    cluster.submit(sj("saves").saving().asking(9000), work(3000));
    cluster.run_until_phase("saves", Phase::Running);
    cluster.delete_sj("gang");
    cluster.run_for(seconds(60));
    cluster.submit(dear("later").gang(2).asking(8000), work(100));
    completed(&mut cluster, "later");
    assert_eq!(outcome(&cluster, "saves"), (1, Some(Outcome::Completed), Reason::Completed));
    assert!(attempt(&cluster, "later").start_time > attempt(&cluster, "saves").end_time);
}

#[test]
fn what_hangs_when_it_is_taken_back_keeps_others_from_starting_for_a_while_only() {
    let mut cluster = a_gang_waits(settings());
    cluster.submit(sj("hangs").saving().asking(5000), Workload { hangs: true, ..work(5000) });
    cluster.run_until_phase("hangs", Phase::Running);
    cluster.run_until("it is taken back", |cluster| {
        attempt(cluster, "hangs").disruption.as_ref().is_some_and(|it| it.reason == Reason::Reclaimed)
    });
    cluster.submit(sj("saves").saving().asking(2000), work(50));
    cluster.run_for(seconds(120));
    assert_ne!(cluster.status("saves").phase, Phase::Waiting);
    assert_eq!(cluster.status("gang").phase, Phase::Waiting);
}

/// Why a ScavengerJob could not start for a long time although there was capacity.
#[derive(Debug, Clone, Copy, PartialEq)]
enum HeldBy {
    Folder,
    Claim,
    Suspend,
}

/// "late" was held for an hour. Since it can start there is no capacity for it.
fn held_for_an_hour(by: HeldBy) -> Cluster {
    let mut cluster = Cluster::new(settings().filled_to(1.0)).with_nodes([node("n1", 10_000)]);
    let (mut first, mut late) = (sj("first"), sj("late").asking(8000));
    match by {
        HeldBy::Folder => (first, late) = (first.in_folder("water"), late.in_folder("water")),
        HeldBy::Claim => {
            let claim = Some(key("data"));
            let volume = Volume { name: "pv".into(), claim, affinity: Vec::new(), access: Access::OnePod };
            cluster.planner.observe(Observation::Volume(volume), cluster.now);
            for sj in [&mut first, &mut late] {
                sj.spec.as_mut().expect("the spec should be valid").claims = vec!["data".into()];
            }
        }
        HeldBy::Suspend => late.controls.suspend = true,
    }
    cluster.submit(dear("z").asking(5000), work(8000));
    cluster.run_until_phase("z", Phase::Running);
    cluster.submit(first, work(3600));
    cluster.run_until_phase("first", Phase::Running);
    cluster.submit(late, work(100));
    cluster.run_until_phase("first", Phase::Completed);
    if by == HeldBy::Suspend {
        cluster.control("late", |controls| controls.suspend = false);
    }
    cluster.run_for(seconds(60));
    assert_eq!(cluster.waits("late"), Some(WaitingReason::NoCapacity), "{by:?}");
    cluster
}

#[test]
fn time_in_which_it_could_not_have_started_earns_no_standing_reservation() {
    for (by, restarts) in
        [(HeldBy::Folder, false), (HeldBy::Folder, true), (HeldBy::Claim, false), (HeldBy::Suspend, true)]
    {
        let mut cluster = held_for_an_hour(by);
        if restarts {
            cluster.restart(false);
            cluster.settle();
        }
        cluster.submit(dear("new").asking(4000), work(100));
        cluster.run_for(seconds(5));
        assert_eq!(cluster.status("new").phase, Phase::Running, "{by:?}: {}", cluster.status("new").message);
        cluster.run_until_phase("new", Phase::Completed);
        // From now on it has waited for capacity alone for as long as anybody has to.
        cluster.run_for(seconds(600));
        cluster.submit(dear("newer").asking(4000), work(100));
        cluster.run_for(seconds(5));
        let message = &cluster.status("newer").message;
        assert!(message.contains("is reserved for lab/late"), "{by:?}: {message}");
        cluster.run_until_phase("late", Phase::Running);
    }
}

#[test]
fn those_that_take_turns_in_its_folder_do_not_keep_it_from_its_reservation() {
    let mut cluster = Cluster::new(settings().filled_to(1.0)).with_nodes([node("n1", 10_000)]);
    cluster.submit(dear("z").asking(6000), work(3000));
    cluster.run_until_phase("z", Phase::Running);
    cluster.submit(dear("large").asking(8000).in_folder("water"), work(100));
    cluster.run_for(seconds(2));
    // At any time somebody else works in the folder, or is about to; and another one like the first wants its place.
    for number in 0..40 {
        cluster.submit(dear(&format!("small{number:02}")).asking(4000).in_folder("water"), work(100));
    }
    cluster.submit(dear("after-z").asking(6000), work(3000));
    cluster.run_until_phase("large", Phase::Running);
    assert!(cluster.now < at(3100), "{}", cluster.now);
    assert_eq!(cluster.status("after-z").phase, Phase::Waiting);
}
