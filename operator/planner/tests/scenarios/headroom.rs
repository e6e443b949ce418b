//! Who goes before others need the room, and whose node is under pressure.

use scavenger_planner::{
    action::Task,
    fixtures::{at, key, millis, node, pod, seconds, settings, sj},
    resources::Share,
    values::{Observation, Outcome, Phase, Reason, Settings, Usage, WaitingReason},
};
use scavenger_simulator::{Cluster, Kill, Workload};

use super::{all_is_quiet, attempt, cluster, completed, outcome, work};

fn runs(cluster: &Cluster, name: &str) -> bool {
    cluster.status(name).phase == Phase::Running
}

fn interruptions(cluster: &Cluster) -> Vec<(&str, u32)> {
    cluster.scavenger_jobs().map(|sj| (&*sj.key.name, sj.status.interrupted_count)).collect()
}

/// Three ScavengerJobs of 2 cpu on a node with 10, in the first, second and last step of their priority.
fn three_steps() -> Cluster {
    let mut cluster = cluster();
    for name in ["dear", "middle", "cheap"] {
        cluster.submit(sj(name).asking(2000).interruptible_after(seconds(90)), work(1000));
        cluster.run_until_phase(name, Phase::Running);
        cluster.run_for(seconds(29));
    }
    cluster
}

#[test]
fn whoever_loses_least_goes_until_the_target_is_reached() {
    let mut cluster = three_steps();
    // 6 + 3.2 of 10 cpu are more than 90%: down to 85% somebody has to give 0.7.
    cluster.create_pod(pod("owner", 3200), seconds(300));
    cluster.run_until_phase("cheap", Phase::Interrupted);
    assert!(runs(&cluster, "dear") && runs(&cluster, "middle"));
    assert_eq!(outcome(&cluster, "cheap"), (1, Some(Outcome::Interrupted), Reason::Headroom));
    assert_eq!(
        cluster.status("cheap").message,
        "attempt 1 was interrupted: frees capacity before others need it: 9.2 cpu of 10 cpu are used, more than the \
         interruptThreshold of 90%"
    );
    cluster.run_for(seconds(100));
    assert_eq!(cluster.waits("cheap"), Some(WaitingReason::NoCapacity));
    assert_eq!(interruptions(&cluster), [("cheap", 1), ("dear", 0), ("middle", 0)]);
    completed(&mut cluster, "cheap");
    assert_eq!(attempt(&cluster, "cheap").number, 2);
}

#[test]
fn a_checkpoint_saved_on_sigterm_makes_the_oldest_the_cheapest() {
    let mut cluster = cluster();
    for (name, saving) in [("saves", true), ("loses", false)] {
        let sj = sj(name).asking(2000);
        cluster.submit(if saving { sj.saving() } else { sj }, work(1000));
        cluster.run_until_phase(name, Phase::Running);
        cluster.run_for(seconds(10));
    }
    cluster.create_pod(pod("owner", 5200), seconds(300));
    cluster.run_until_phase("saves", Phase::Interrupted);
    assert!(runs(&cluster, "loses"));
}

#[test]
fn what_only_waits_for_a_node_is_no_reason() {
    let mut cluster = three_steps();
    cluster.preempts = false;
    cluster.create_pod(pod("waits", 9000), seconds(300));
    cluster.run_for(seconds(60));
    assert!(interruptions(&cluster).iter().all(|(_, count)| *count == 0));
}

#[test]
fn what_is_going_counts_as_gone_a_gang_with_all_its_pods() {
    let mut cluster = cluster();
    cluster.submit(sj("single").asking(3000), work(1000));
    cluster.run_until_phase("single", Phase::Running);
    cluster.submit(sj("gang").gang(3), Workload { grace: seconds(30), ..work(500) });
    cluster.run_until_phase("gang", Phase::Running);
    cluster.run_for(seconds(50));
    // Of the gang one pod is enough, but all three go, and while they do nobody else has to.
    cluster.create_pod(pod("owner", 3200), seconds(600));
    cluster.run_until_phase("gang", Phase::Interrupted);
    cluster.run_for(seconds(20));
    assert_eq!(cluster.live_pods("gang").len(), 3, "they terminate");
    assert!(runs(&cluster, "single"));
    cluster.run_for(seconds(60));
    assert_eq!(interruptions(&cluster), [("gang", 1), ("single", 0)]);
}

#[test]
fn extended_resources_have_none_unless_they_are_named_and_null_is_none_at_all() {
    let fill = |settings: scavenger_planner::values::Settings| {
        let mut settings = settings;
        settings.start_thresholds.overrides.insert("gpu".into(), settings.start_thresholds.default);
        let mut cluster = Cluster::new(settings).with_nodes([node("n1", 10_000).having("gpu", 10)]);
        cluster.submit(sj("a").asking(1000).asking_for("gpu", 5), work(1000));
        cluster.run_until_phase("a", Phase::Running);
        let mut owner = pod("owner", 100);
        owner.requests.other.insert("gpu".into(), 5);
        cluster.create_pod(owner, seconds(100));
        cluster.run_for(seconds(30));
        cluster.status("a").interrupted_count
    };
    assert_eq!(fill(settings()), 0);
    let mut named = settings();
    named
        .headroom
        .interrupt_threshold_overrides
        .insert("gpu".into(), named.headroom.interrupt_threshold.unwrap());
    assert_eq!(fill(named.clone()), 1);

    let mut off = Cluster::new(settings().without_headroom()).with_nodes([node("n1", 10_000)]);
    off.submit(sj("a").asking(5000), work(1000));
    off.run_until_phase("a", Phase::Running);
    off.create_pod(pod("owner", 5000), seconds(300));
    off.run_for(seconds(60));
    assert_eq!(off.status("a").interrupted_count, 0);
}

/// 1 is how an admin switches headroom off in a pool that is there already.
#[test]
fn a_threshold_of_everything_is_none_even_where_more_is_asked_than_there_is() {
    let interrupted = |threshold| {
        let mut pool = settings();
        pool.headroom.interrupt_threshold = Some(Share::from_fraction(threshold));
        let mut cluster = Cluster::new(pool).with_nodes([node("n1", 10_000)]);
        cluster.submit(sj("a").asking(5000), work(1000));
        cluster.run_until_phase("a", Phase::Running);
        cluster.create_pod(pod("owner", 5000), seconds(300));
        cluster.run_for(seconds(5));
        cluster.set_node(node("n1", 9000));
        cluster.run_for(seconds(60));
        cluster.status("a").interrupted_count
    };
    assert_eq!(interrupted(1.0), 0);
    assert_eq!(interrupted(0.999), 1);
}

#[test]
fn a_budget_that_forbids_everything_does_not_keep_it() {
    let mut cluster = three_steps();
    cluster.budgets_forbid = true;
    cluster.create_pod(pod("owner", 3200), seconds(300));
    cluster.run_until_phase("cheap", Phase::Interrupted);
    assert_eq!(outcome(&cluster, "cheap"), (1, Some(Outcome::Interrupted), Reason::Headroom));
}

#[test]
fn the_reason_is_written_before_anything_is_evicted_and_each_pod_is_evicted_once() {
    let mut cluster = three_steps();
    let before = cluster.log.len();
    cluster.create_pod(pod("owner", 3200), seconds(300));
    cluster.run_until_phase("cheap", Phase::Interrupted);
    let tasks: Vec<&str> = cluster.log[before..]
        .iter()
        .filter(|(_, action)| action.sj == key("cheap"))
        .map(|(_, action)| match &action.task {
            Task::WriteStatus(write) => {
                match write.status.attempt.as_ref().and_then(|a| a.disruption.as_ref()) {
                    Some(disruption) if disruption.reason == Reason::Headroom => "reason",
                    _ => "step of its priority",
                }
            }
            Task::Interrupt { pods } if pods.len() == 1 => "evict",
            _ => "something else",
        })
        .collect();
    assert_eq!(tasks, ["reason", "evict", "reason"], "the second one ends the attempt");
}

#[test]
fn who_comes_to_his_own_end_before_the_eviction_was_not_interrupted() {
    let mut cluster = cluster();
    cluster.submit(sj("a").asking(2000), work(60));
    cluster.run_until_phase("a", Phase::Running);
    cluster.run_for(at(58).duration_since(cluster.now));
    // The decision is written at 60 s, the pods would be evicted at 62 s, and the work is done in between.
    cluster.delays.request = seconds(2);
    cluster.create_pod(pod("owner", 7200), seconds(300));
    cluster.run_until("the reason is written", |cluster| attempt(cluster, "a").disruption.is_some());
    cluster.run_until_phase("a", Phase::Completed);
    assert_eq!(cluster.status("a").interrupted_count, 0);
    assert_eq!(attempt(&cluster, "a").disruption, None, "it tells no interruption that was none");
}

#[test]
fn a_node_under_pressure_gives_back_what_scavengerjobs_hold_there() {
    let mut cluster = cluster().with_nodes([node("n2", 10_000)]);
    cluster.strict = false;
    for name in ["a", "b", "c", "d"] {
        cluster.submit(sj(name).asking(2000), work(300));
        cluster.run_until_phase(name, Phase::Running);
    }
    let on_n1 = |cluster: &Cluster| {
        cluster.all_live_pods().iter().filter(|pod| pod.node.as_deref() == Some("n1")).count()
    };
    assert_eq!(on_n1(&cluster), 2);
    cluster.set_node(node("n1", 10_000).pressed("MemoryPressure"));
    let began = cluster.now;
    cluster.run_until("they are gone", |cluster| on_n1(cluster) == 0);
    assert!(cluster.now.duration_since(began) < seconds(4));
    let reasons: Vec<_> =
        cluster.scavenger_jobs().filter_map(|sj| sj.status.attempt.as_ref()?.reason.clone()).collect();
    assert_eq!(reasons, [Reason::NodePressure, Reason::NodePressure]);
    cluster.run_for(seconds(40));
    cluster.set_node(node("n1", 10_000));
    for name in ["a", "b", "c", "d"] {
        cluster.run_until_phase(name, Phase::Completed);
    }
    all_is_quiet(&mut cluster);
}

fn story(kill: Option<Kill>) -> Cluster {
    let mut cluster = cluster();
    cluster.kill = kill;
    cluster.submit(sj("dear").asking(2000), work(200));
    cluster.submit(sj("gang").gang(2), work(200));
    cluster.run_until("both run", |cluster| runs(cluster, "dear") && runs(cluster, "gang"));
    cluster.run_for(millis(500));
    cluster.submit(sj("cheap").asking(2000), work(200));
    cluster.run_until_phase("cheap", Phase::Running);
    cluster.create_pod(pod("owner", 3900), seconds(100));
    cluster.run_until("the room is there", |cluster| {
        let used: i64 = cluster.all_live_pods().iter().map(|pod| pod.requests.cpu_milli).sum();
        used + 3900 <= 8500
    });
    for name in ["dear", "gang", "cheap"] {
        cluster.run_until_phase(name, Phase::Completed);
    }
    all_is_quiet(&mut cluster);
    cluster
}

#[test]
fn killed_before_and_after_every_action_the_same_one_goes_once() {
    let undisturbed = story(None);
    let end = |cluster: &Cluster| -> Vec<(String, Phase, u32)> {
        let scavenger_jobs = cluster.scavenger_jobs();
        scavenger_jobs.map(|sj| (sj.key.to_string(), sj.status.phase, sj.status.interrupted_count)).collect()
    };
    assert_eq!(interruptions(&undisturbed).iter().map(|(_, count)| count).sum::<u32>(), 1);
    for number in 1..=undisturbed.actions {
        for kill in [Kill::Before(number), Kill::After(number), Kill::Late(number)] {
            let disturbed = story(Some(kill));
            let total: u32 = interruptions(&disturbed).iter().map(|(_, count)| count).sum();
            assert_eq!(total, 1, "{kill:?}\n{}", disturbed.history());
            assert!(end(&disturbed).iter().all(|(_, phase, _)| *phase == Phase::Completed), "{kill:?}");
        }
    }
}

/// n1 with a ScavengerJob of 5 cpu and ordinary pods of 4.6, and n2 with ordinary pods of 4, of 10 cpu each: 68% together.
fn two_nodes(settings: Settings) -> Cluster {
    let nodes = ["n1", "n2"].map(|name| node(name, 10_000).labelled("name", name).labelled("group", "g"));
    let mut cluster = Cluster::new(settings).with_nodes(nodes);
    cluster.submit(sj("a").asking(5000).only_on("name", "n1"), work(3000));
    cluster.run_until_phase("a", Phase::Running);
    for (name, node, cpu) in [("web", "n1", 4600), ("database", "n2", 4000)] {
        let mut owner = pod(name, cpu);
        owner.placement.node_selector.insert("name".into(), node.into());
        cluster.create_pod(owner, seconds(100_000));
    }
    cluster.run_for(seconds(5));
    cluster
}

#[test]
fn a_node_that_is_closed_to_scavenger_jobs_still_counts_as_headroom() {
    for settings in [settings(), settings().with_group("g", ("group", "g"), 0.7)] {
        let mut cluster = two_nodes(settings);
        for (mib, closed) in [(9500, 1), (9000, 1), (5000, 0)] {
            let usage = Usage { node: "n2".into(), cpu_milli: 0, memory_bytes: mib << 20, time: cluster.now };
            cluster.planner.observe(Observation::Usage(Some(vec![usage])), cluster.now);
            cluster.run_for(seconds(60));
            assert_eq!(cluster.planner.capacity().nodes_to_avoid().len(), closed);
            assert_eq!(interruptions(&cluster), [("a", 0)], "{mib} MiB");
        }
        // One that takes no ordinary pods either is no headroom.
        let there = cluster.all_nodes().find(|node| &*node.name == "n2").cloned().unwrap();
        cluster.set_node(there.cordoned());
        cluster.run_until_phase("a", Phase::Interrupted);
        assert_eq!(outcome(&cluster, "a").2, Reason::Headroom);
    }
}
