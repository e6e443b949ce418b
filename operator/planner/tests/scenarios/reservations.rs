//! Capacity that is kept for those that have waited long.

use scavenger_planner::{
    fixtures::{at, key, node, seconds, settings, sj},
    values::{Access, Observation, Phase, Volume, WaitingReason},
};
use scavenger_simulator::Cluster;

use super::work;

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

/// Nobody who came later runs on what a gang gathers, however little it would lose when that is taken back.
#[test]
fn what_is_reserved_is_kept_until_its_holder_starts() {
    let nodes = [node("n1", 10_000), node("n2", 10_000)];
    let mut cluster = Cluster::new(settings().filled_to(1.0)).with_nodes(nodes);
    cluster.submit(sj("z").asking(6000), work(2000));
    cluster.run_until_phase("z", Phase::Running);
    cluster.submit(sj("gang").gang(2).asking(8000), work(100));
    cluster.run_for(seconds(700));
    for (name, cpu) in [("small", 3000), ("large", 4000)] {
        cluster.submit(sj(name).saving().asking(cpu), work(100));
    }
    cluster.run_for(seconds(10));
    for name in ["small", "large"] {
        let message = &cluster.status(name).message;
        assert!(message.contains("is reserved for lab/gang"), "{message}");
    }
    cluster.submit(sj("tiny").saving().asking(2000), work(100));
    cluster.run_until_phase("tiny", Phase::Running);
    cluster.run_until_phase("z", Phase::Completed);
    cluster.run_for(seconds(10));
    assert_ne!(cluster.status("gang").phase, Phase::Waiting, "{}", cluster.history());
    for name in ["gang", "small", "large"] {
        cluster.run_until_phase(name, Phase::Completed);
        assert_eq!(cluster.status(name).interrupted_count, 0, "{name}");
    }
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
    cluster.submit(sj("z").asking(5000), work(8000));
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
        cluster.submit(sj("new").asking(4000), work(100));
        cluster.run_for(seconds(5));
        assert_eq!(cluster.status("new").phase, Phase::Running, "{by:?}: {}", cluster.status("new").message);
        cluster.run_until_phase("new", Phase::Completed);
        // From now on it has waited for capacity alone for as long as anybody has to.
        cluster.run_for(seconds(600));
        cluster.submit(sj("newer").asking(4000), work(100));
        cluster.run_for(seconds(5));
        let message = &cluster.status("newer").message;
        assert!(message.contains("is reserved for lab/late"), "{by:?}: {message}");
        cluster.run_until_phase("late", Phase::Running);
    }
}

#[test]
fn those_that_take_turns_in_its_folder_do_not_keep_it_from_its_reservation() {
    let mut cluster = Cluster::new(settings().filled_to(1.0)).with_nodes([node("n1", 10_000)]);
    cluster.submit(sj("z").asking(6000), work(3000));
    cluster.run_until_phase("z", Phase::Running);
    cluster.submit(sj("large").asking(8000).in_folder("water"), work(100));
    cluster.run_for(seconds(2));
    // At any time somebody else works in the folder, or is about to; and another one like the first wants its place.
    for number in 0..40 {
        cluster.submit(sj(&format!("small{number:02}")).asking(4000).in_folder("water"), work(100));
    }
    cluster.submit(sj("after-z").asking(6000), work(3000));
    cluster.run_until_phase("large", Phase::Running);
    assert!(cluster.now < at(3100), "{}", cluster.now);
    assert_eq!(cluster.status("after-z").phase, Phase::Waiting);
}
