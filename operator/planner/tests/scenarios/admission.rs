//! Who starts, who waits, and what they are told.

use scavenger_planner::{
    action::Task,
    fixtures::{at, key, node, pod, seconds, settings, sj},
    values::{Phase, ScavengerJob, Settings, WaitingReason},
};
use scavenger_simulator::{Cluster, Workload};

use super::{all_is_quiet, attempt, cluster, completed, whole_cluster, work};

fn order(cluster: &Cluster) -> Vec<&str> {
    cluster.starts.iter().map(|(key, _)| &*key.name).collect()
}

#[test]
fn nothing_starts_without_a_pool_and_all_goes_on_when_it_appears() {
    let mut cluster = cluster();
    cluster.set_pool(Err("the ScavengerPool \"default\" does not exist".to_owned()));
    cluster.settle();
    cluster.submit(sj("a"), work(100));
    cluster.run_for(seconds(10));
    assert_eq!(cluster.waits("a"), Some(WaitingReason::Paused));
    assert!(cluster.status("a").message.contains("does not exist"));
    cluster.set_pool(Ok(settings()));
    completed(&mut cluster, "a");
}

#[test]
fn the_queue_is_listed_in_the_order_in_which_it_starts() {
    let mut cluster = cluster();
    cluster.submit(sj("runs").asking(7000), work(1000));
    cluster.run_until_phase("runs", Phase::Running);
    for name in ["c", "a", "b"] {
        cluster.submit(sj(name).asking(5000), work(200));
        cluster.run_for(seconds(2));
    }
    let listed = |cluster: &Cluster| -> Vec<(String, u32)> {
        let queue = cluster.planner.queue();
        for (rank, entry) in queue.iter().enumerate() {
            assert_eq!(cluster.planner.place_in_queue(&entry.sj), Some((rank, queue.len())));
            assert_eq!(entry.demand.per_pod.get("cpu"), if &*entry.sj.name == "runs" { 7000 } else { 5000 });
        }
        queue.iter().map(|entry| (entry.sj.name.to_string(), entry.interruptions)).collect()
    };
    assert_eq!(listed(&cluster), [("c".to_owned(), 0), ("a".to_owned(), 0), ("b".to_owned(), 0)]);
    // Its place is taken while it waits after the interruption; then it is the first of those that wait.
    cluster.preempt(&key("runs-1-0"));
    cluster.run_until_phase("c", Phase::Running);
    cluster.run_for(seconds(60));
    assert_eq!(listed(&cluster), [("runs".to_owned(), 1), ("a".to_owned(), 0), ("b".to_owned(), 0)]);
    for name in ["runs", "a", "b", "c"] {
        cluster.run_until_phase(name, Phase::Completed);
    }
    assert_eq!(order(&cluster), ["runs", "c", "runs", "a", "b"]);
    assert_eq!(listed(&cluster), []);
}

#[test]
fn a_pool_that_goes_while_jobs_run_interrupts_nothing() {
    let mut cluster = cluster();
    cluster.submit(sj("a"), work(100));
    cluster.run_until_phase("a", Phase::Running);
    cluster.set_pool(Err("gone".to_owned()));
    completed(&mut cluster, "a");
    assert_eq!(attempt(&cluster, "a").number, 1);
}

#[test]
fn paused_is_not_said_any_longer_than_it_is_true() {
    let mut cluster = cluster();
    cluster.submit(sj("a"), work(100));
    cluster.run_until_phase("a", Phase::Running);
    cluster.preempt(&key("a-1-0"));
    cluster.run_until_phase("a", Phase::Interrupted);
    cluster.run_for(seconds(8));
    cluster.set_pool(Err("gone".to_owned()));
    cluster.run_for(seconds(2));
    assert_eq!(cluster.waits("a"), Some(WaitingReason::Paused));
    cluster.set_pool(Ok(settings()));
    cluster.run_for(seconds(2));
    assert_eq!(cluster.waits("a"), Some(WaitingReason::BackingOff));
    completed(&mut cluster, "a");
}

#[test]
fn one_that_never_fits_one_without_room_and_one_in_line_are_told_apart() {
    let mut cluster = cluster();
    cluster.submit(sj("runs").asking(5000), work(100));
    cluster.run_until_phase("runs", Phase::Running);
    cluster.submit(sj("huge").asking(7001), work(10));
    cluster.submit(sj("big").asking(3000), work(10));
    cluster.run_for(seconds(2));
    cluster.submit(sj("next").asking(3000), work(10));
    cluster.run_for(seconds(2));
    assert_eq!(cluster.waits("huge"), Some(WaitingReason::NeverFits));
    assert_eq!(
        cluster.status("huge").message,
        "asks for 7.001 cpu in all, but ScavengerJobs may fill the pool only up to 70% of 10 cpu"
    );
    assert_eq!(cluster.waits("big"), Some(WaitingReason::NoCapacity));
    assert_eq!(
        cluster.status("big").message,
        "needs 3 cpu, but only 2 cpu are left below the threshold of 70%"
    );
    assert_eq!(cluster.waits("next"), Some(WaitingReason::BehindInQueue));
    cluster.run_until_phase("next", Phase::Completed);
    all_is_quiet(&mut cluster);
    assert_eq!(order(&cluster), ["runs", "big", "next"]);
}

#[test]
fn a_spec_replaced_while_waiting_starts_as_soon_as_it_fits() {
    let mut cluster = cluster();
    cluster.submit(sj("a").asking(7001), work(10));
    cluster.run_for(seconds(2));
    assert_eq!(cluster.waits("a"), Some(WaitingReason::NeverFits));
    cluster.replace("a", |sj| sj.asking(9000));
    cluster.run_for(seconds(2));
    assert_eq!(cluster.status("a").observed_generation, 2);
    assert_eq!(cluster.waits("a"), Some(WaitingReason::NeverFits));
    assert!(cluster.status("a").message.contains("9 cpu"));
    cluster.replace("a", |sj| sj.asking(2000));
    completed(&mut cluster, "a");
    assert_eq!(attempt(&cluster, "a").generation, 3);
    assert_eq!(attempt(&cluster, "a").demand.per_pod.cpu_milli, 2000);
}

#[test]
fn a_spec_that_grows_while_it_is_prepared_does_not_slip_through_with_the_room_of_the_old_one() {
    let mut cluster = Cluster::default().with_nodes([node("n1", 20_000)]);
    cluster.delays.answer = seconds(1);
    cluster.submit(sj("a").asking(1000), work(60));
    cluster.submit(sj("b").asking(6000), work(60));
    cluster.run_until("a is prepared", |cluster| {
        cluster
            .log
            .iter()
            .any(|(_, action)| action.sj == key("a") && matches!(action.task, Task::Prepare { .. }))
    });
    cluster.replace("a", |sj| sj.asking(9000));
    // The model checks at every instant that no more than the threshold is used.
    cluster.run_until_phase("b", Phase::Completed);
    completed(&mut cluster, "a");
}

#[test]
fn nodes_that_are_not_ready_or_cordoned_are_no_reason_to_give_up() {
    for away in [node("n1", 10_000).unusable(), node("n1", 10_000).cordoned()] {
        let mut cluster = Cluster::new(settings()).with_nodes([away]);
        cluster.strict = false;
        cluster.submit(sj("a").asking(5000), work(10));
        cluster.submit(sj("gang").gang(2).asking(2500), work(10));
        cluster.submit(sj("huge").asking(8000), work(10));
        cluster.run_for(seconds(2));
        assert_eq!(cluster.waits("a"), Some(WaitingReason::NoCapacity));
        assert_eq!(cluster.waits("gang"), Some(WaitingReason::NoCapacity));
        assert_eq!(cluster.waits("huge"), Some(WaitingReason::NeverFits));
        cluster.set_node(node("n1", 10_000));
        cluster.run_until_phase("gang", Phase::Completed);
        completed(&mut cluster, "a");
    }
}

#[test]
fn without_any_node_nobody_is_told_that_he_never_fits() {
    let mut cluster = Cluster::default();
    cluster.submit(sj("a"), work(10));
    cluster.run_for(seconds(2));
    assert_eq!(cluster.waits("a"), Some(WaitingReason::NoCapacity));
    cluster.set_node(node("n1", 10_000));
    completed(&mut cluster, "a");
}

#[test]
fn a_label_that_is_put_on_a_node_lets_in_who_asked_for_it() {
    let mut cluster = cluster();
    cluster.submit(sj("a").only_on("disk", "fast"), work(10));
    cluster.run_for(seconds(2));
    assert_eq!(cluster.waits("a"), Some(WaitingReason::NeverFits));
    cluster.set_node(node("n1", 10_000).labelled("disk", "fast"));
    completed(&mut cluster, "a");
}

#[test]
fn a_label_that_is_taken_off_the_last_node_that_has_it_leaves_who_asked_for_it_without_one() {
    let mut cluster = cluster();
    cluster.set_node(node("n1", 10_000).labelled("disk", "fast"));
    cluster.submit(sj("full").asking(6000), work(100));
    cluster.run_until_phase("full", Phase::Running);
    cluster.submit(sj("a").asking(3000).only_on("disk", "fast"), work(10));
    cluster.submit(sj("b").asking(3000), work(10));
    cluster.run_for(seconds(2));
    assert_eq!(cluster.waits("a"), Some(WaitingReason::NoCapacity));
    cluster.set_node(node("n1", 10_000));
    cluster.run_for(seconds(2));
    assert_eq!(cluster.waits("a"), Some(WaitingReason::NeverFits));
    assert_eq!(cluster.waits("b"), Some(WaitingReason::NoCapacity));
    cluster.set_node(node("n1", 10_000).labelled("disk", "fast"));
    cluster.run_for(seconds(2));
    assert_ne!(cluster.waits("a"), Some(WaitingReason::NeverFits));
    completed(&mut cluster, "a");
}

#[test]
fn a_larger_node_that_is_not_ready_yet_is_reason_to_hope() {
    let mut cluster = cluster();
    cluster.strict = false;
    cluster.submit(sj("a").asking(8000), work(10));
    cluster.run_for(seconds(2));
    assert_eq!(cluster.waits("a"), Some(WaitingReason::NeverFits));
    cluster.set_node(node("n2", 20_000).unusable());
    cluster.run_for(seconds(2));
    assert_eq!(cluster.waits("a"), Some(WaitingReason::NoCapacity));
    cluster.remove_node("n2");
    cluster.run_for(seconds(2));
    assert_eq!(cluster.waits("a"), Some(WaitingReason::NeverFits));
    cluster.set_node(node("n2", 20_000));
    completed(&mut cluster, "a");
}

#[test]
fn only_nodes_of_the_pool_count() {
    let mut settings = settings();
    settings.node_selector.insert("pool".into(), "scavenger".into());
    settings.tolerated_taints.push("batch".into());
    let mut cluster = Cluster::new(settings).with_nodes([
        node("other", 100_000),
        node("tainted", 100_000).labelled("pool", "scavenger").tainted("gpu"),
        node("mine", 10_000).labelled("pool", "scavenger").tainted("batch"),
    ]);
    cluster.strict = false;
    cluster.submit(sj("a").asking(8000).tolerating("batch"), work(10));
    cluster.submit(sj("b").asking(2000), work(10));
    cluster.submit(sj("c").asking(2000).tolerating("batch"), work(10));
    cluster.run_for(seconds(2));
    assert_eq!(cluster.waits("a"), Some(WaitingReason::NeverFits));
    assert_eq!(cluster.waits("b"), Some(WaitingReason::NeverFits));
    assert_eq!(cluster.planner.capacity().allocatable().cpu_milli, 10_000);
    cluster.run_until_phase("c", Phase::Running);
}

#[test]
fn a_resource_that_is_counted_in_whole_units_has_a_threshold_of_its_own() {
    let mut settings = settings();
    settings
        .start_thresholds
        .overrides
        .insert("nvidia.com/gpu".into(), scavenger_planner::resources::Share::from_fraction(1.0));
    let mut cluster = Cluster::new(settings).with_nodes([node("n1", 10_000).having("nvidia.com/gpu", 1)]);
    for name in ["a", "b"] {
        cluster.submit(sj(name).asking_for("nvidia.com/gpu", 1), work(10));
    }
    cluster.run_until_phase("a", Phase::Running);
    assert_eq!(cluster.status("b").phase, Phase::Waiting);
    completed(&mut cluster, "b");
}

#[test]
fn who_was_interrupted_more_often_starts_first() {
    let mut cluster = whole_cluster();
    for name in ["a", "b", "c"] {
        cluster.submit(sj(name).asking(7000), work(300));
    }
    cluster.run_until_phase("a", Phase::Running);
    cluster.run_until_phase("b", Phase::Running);
    assert_eq!(cluster.waits("c"), Some(WaitingReason::NoCapacity));
    cluster.preempt(&key("b-1-0"));
    // c starts in the place of b, which backs off; then b comes before d, which came before its interruption.
    cluster.submit(sj("d").asking(7000), work(300));
    cluster.run_until_phase("c", Phase::Running);
    cluster.run_until_phase("d", Phase::Completed);
    all_is_quiet(&mut cluster);
    assert_eq!(order(&cluster), ["a", "b", "c", "b", "d"]);
}

#[test]
fn equals_start_in_the_order_in_which_they_came() {
    let mut cluster = cluster();
    for name in ["first", "second", "third", "fourth"] {
        cluster.submit(sj(name).asking(7000), work(5));
        cluster.run_for(seconds(1));
    }
    cluster.run_until_phase("fourth", Phase::Completed);
    assert_eq!(order(&cluster), ["first", "second", "third", "fourth"]);
}

#[test]
fn a_big_one_that_does_not_fit_does_not_hold_up_a_small_one() {
    let mut cluster = cluster();
    cluster.submit(sj("runs").asking(3000), work(100));
    cluster.run_until_phase("runs", Phase::Running);
    cluster.submit(sj("big").asking(6000), work(10));
    cluster.run_for(seconds(2));
    cluster.submit(sj("small").asking(1000), work(10));
    cluster.run_until_phase("small", Phase::Running);
    assert_eq!(cluster.waits("big"), Some(WaitingReason::NoCapacity));
    completed(&mut cluster, "big");
}

#[test]
fn no_more_than_allowed_start_at_the_same_time() {
    let mut cluster = Cluster::new(settings().starting_at_once(3)).with_nodes([node("n1", 1_000_000)]);
    cluster.scheduler_works = false;
    for number in 0..20 {
        cluster.submit(sj(&format!("job{number:02}")).asking(1000 + number % 4), work(100));
    }
    cluster.run_for(seconds(4));
    assert_eq!(order(&cluster).len(), 3);
    let waiting =
        cluster.planner.pool_report(cluster.now).counts.waiting.get(&WaitingReason::BehindInQueue).copied();
    assert_eq!(waiting, Some(17));
    cluster.scheduler_works = true;
    for number in 0..20 {
        cluster.run_until_phase(&format!("job{number:02}"), Phase::Completed);
    }
    all_is_quiet(&mut cluster);
}

#[test]
fn a_gang_is_admitted_only_if_all_its_pods_find_a_node() {
    let mut cluster =
        Cluster::new(settings().filled_to(1.0)).with_nodes([node("n1", 3000), node("n2", 3000)]);
    cluster.submit(sj("a").gang(3).asking(2000), work(10));
    cluster.run_for(seconds(2));
    assert_eq!(cluster.waits("a"), Some(WaitingReason::NeverFits));
    assert!(cluster.status("a").message.contains("2 of 3 pods"), "{}", cluster.status("a").message);
    cluster.strict = false;
    cluster.set_node(node("n3", 3000));
    completed(&mut cluster, "a");
}

#[test]
fn what_owners_wait_for_is_not_given_away() {
    let mut cluster = cluster();
    cluster.preempts = false;
    cluster.scheduler_works = false;
    cluster.create_pod(pod("owner", 6500), seconds(100));
    cluster.settle();
    cluster.submit(sj("a").asking(1000), work(10));
    cluster.run_for(seconds(2));
    assert_eq!(cluster.waits("a"), Some(WaitingReason::NoCapacity));
    cluster.scheduler_works = true;
    cluster.set_node(node("n1", 10_000));
    completed(&mut cluster, "a");
}

#[test]
fn an_owner_that_no_node_can_ever_take_keeps_nobody_out() {
    let mut cluster = cluster();
    cluster.create_pod(pod("owner", 10_001), seconds(100));
    cluster.create_pod(pod("elsewhere", 5000), seconds(100));
    cluster.settle();
    let mut gated = pod("gated", 5000);
    gated.gated = true;
    cluster.create_pod(gated, seconds(100));
    cluster.submit(sj("a").asking(2000), work(10));
    cluster.run_until_phase("a", Phase::Running);
}

#[test]
fn an_owner_that_other_owners_keep_out_keeps_no_scavenger_out() {
    let mut cluster = Cluster::default().with_nodes([node("n1", 10_000), node("n2", 10_000)]);
    for name in ["one", "two"] {
        cluster.create_pod(pod(name, 3500), seconds(10_000));
    }
    cluster.settle();
    cluster.run_for(seconds(5));
    // It would not fit even if no ScavengerJob ran.
    cluster.create_pod(pod("owner", 7000), seconds(100));
    cluster.settle();
    cluster.submit(sj("a").asking(2000), work(10));
    cluster.run_for(seconds(20));
    assert_eq!(cluster.status("a").phase, Phase::Completed);
}

#[test]
fn missing_references_and_full_clusters_are_told_with_few_writes() {
    let mut cluster = cluster();
    cluster.submit(sj("runs").asking(7000), work(1000));
    cluster.run_until_phase("runs", Phase::Running);
    for number in 0..50 {
        cluster.submit(sj(&format!("job{number:02}")).asking(1000), Workload::default());
    }
    cluster.run_for(seconds(900));
    let writes = cluster
        .log
        .iter()
        .filter(|(_, action)| action.sj != key("runs") && matches!(action.task, Task::WriteStatus(_)))
        .count();
    assert!(writes <= 51, "{writes}");
}

/// A pool that is filled so far, and reserves capacity for those that have waited for so many seconds.
fn reserving_after(reserve_after: i64, fraction: f64) -> Settings {
    Settings { reserve_after: seconds(reserve_after), ..settings().filled_to(fraction) }
}

/// A stream of small ones over a full cluster in which a big one waits, until that starts.
fn stream_until_the_big_one_starts(reserve_after: i64) -> Cluster {
    let nodes = ["n1", "n2"].map(|name| node(name, 10_000));
    let cluster = Cluster::new(reserving_after(reserve_after, 1.0)).with_nodes(nodes);
    stream_over(cluster, reserve_after, |small| small, sj("big"))
}

/// The same over this cluster, which takes four of the small ones.
fn stream_over(
    mut cluster: Cluster,
    reserve_after: i64,
    small: impl Fn(ScavengerJob) -> ScavengerJob,
    big: ScavengerJob,
) -> Cluster {
    let small = |cluster: &mut Cluster, number: i64| {
        let sj = small(sj(&format!("small{number}")).asking(5000));
        cluster.submit(sj, work(40 + number % 3 * 7));
    };
    for number in 0..5 {
        small(&mut cluster, number);
        cluster.run_for(seconds(11));
    }
    cluster.submit(big.asking(10_000), work(10));
    let mut number = 5;
    while cluster.starts.iter().all(|(started, _)| *started != key("big")) {
        small(&mut cluster, number);
        number += 1;
        cluster.run_for(seconds(7));
        assert!(number < 150, "{}", cluster.history());
        if cluster.now < at(reserve_after) {
            assert_eq!(cluster.status("big").phase, Phase::Waiting);
        }
    }
    cluster
}

#[test]
fn a_stream_of_small_ones_lets_the_big_one_wait_only_until_room_is_kept_for_it() {
    let mut cluster = stream_until_the_big_one_starts(600);
    assert!(cluster.now > at(650), "without a reservation it starts at {}", cluster.now);
    assert!(cluster.now < at(800), "{}", cluster.now);
    cluster.run_until_phase("big", Phase::Completed);
}

#[test]
fn room_below_the_threshold_is_kept_from_those_that_go_to_other_nodes() {
    let nodes = [("n1", "small"), ("n2", "small"), ("n3", "small"), ("n4", "big")];
    let nodes = nodes.map(|(name, kind)| node(name, 10_000).labelled("kind", kind));
    let cluster = Cluster::new(reserving_after(600, 0.5)).with_nodes(nodes);
    let big = sj("big").only_on("kind", "big");
    let mut cluster = stream_over(cluster, 600, |small| small.only_on("kind", "small"), big);
    assert!(cluster.now > at(600) && cluster.now < at(800), "{}", cluster.now);
    cluster.run_until_phase("big", Phase::Completed);
}

#[test]
fn how_long_it_waits_until_room_is_kept_is_the_pools_to_say() {
    for reserve_after in [120, 300] {
        let cluster = stream_until_the_big_one_starts(reserve_after);
        let waited = at(reserve_after)..at(reserve_after + 200);
        assert!(waited.contains(&cluster.now), "{reserve_after}: {}", cluster.now);
    }
}

#[test]
fn of_equals_the_namespace_that_holds_less_of_the_pool_comes_first() {
    let mut cluster = Cluster::new(settings().filled_to(1.0)).with_nodes([node("n1", 4000)]);
    let of = |namespace: &str, name: &str| {
        let mut sj = sj(name);
        sj.key.namespace = namespace.into();
        sj
    };
    cluster.submit(sj("runs").asking(4000), work(30));
    cluster.run_until_phase("runs", Phase::Running);
    // All in one instant, those of the greedy one first.
    for name in ["a", "b", "c"] {
        cluster.submit(of("greedy", name), work(30));
    }
    for name in ["x", "y", "z"] {
        cluster.submit(of("modest", name), work(30));
    }
    cluster.run_for(seconds(60));
    let first: Vec<&str> = cluster.starts.iter().skip(1).take(4).map(|(key, _)| &*key.namespace).collect();
    assert_eq!(first.iter().filter(|namespace| **namespace == "modest").count(), 2, "{first:?}");
}
