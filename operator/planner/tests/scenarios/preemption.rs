//! Preemption mode Operator: who goes for a pending ordinary pod that preempts nobody.

use scavenger_planner::{
    fixtures::{key, node, pod, seconds, settings, sj},
    uid_of_preemptor,
    values::{Expression, Key, NodeTerm, Observation, Operator, Outcome, Phase, Reason, WaitingReason},
};
use scavenger_simulator::{Cluster, Kill, Workload};

use super::{all_is_quiet, attempt, completed, outcome, work};

/// Two nodes with 10 cpu each, all of which may be used.
fn full() -> Cluster {
    Cluster::new(settings().preempting().filled_to(1.0)).with_nodes([node("n1", 10_000), node("n2", 10_000)])
}

fn submit(cluster: &mut Cluster, name: &str, node: &str, cpu_milli: i64) {
    let there = cluster.all_nodes().find(|there| &*there.name == node);
    let mut labelled = there.expect("the node should be there").clone();
    if !labelled.labels.contains_key("name") {
        labelled = labelled.labelled("name", node);
        cluster.set_node(labelled);
        cluster.settle();
    }
    cluster.submit(sj(name).asking(cpu_milli).only_on("name", node), work(3000));
    cluster.run_until_phase(name, Phase::Running);
}

fn interrupted(cluster: &Cluster) -> Vec<&str> {
    let all = cluster.scavenger_jobs().filter(|sj| sj.status.interrupted_count > 0);
    all.map(|sj| &*sj.key.name).collect()
}

fn bound(cluster: &Cluster, name: &str) -> bool {
    cluster.pod(name).is_some_and(|pod| pod.node.is_some())
}

#[test]
fn the_cheapest_on_any_node_goes_and_the_pod_runs() {
    let mut cluster = full();
    submit(&mut cluster, "large", "n1", 10_000);
    submit(&mut cluster, "small", "n2", 4000);
    submit(&mut cluster, "medium", "n2", 6000);
    cluster.create_pod(pod("owner", 3000).patient(), seconds(100));
    let created = cluster.now;
    cluster.run_until("it has a node", |cluster| bound(cluster, "owner"));
    assert!(cluster.now.duration_since(created) < seconds(3));
    assert_eq!(interrupted(&cluster), ["small"]);
    assert_eq!(outcome(&cluster, "small"), (1, Some(Outcome::Interrupted), Reason::PreemptedByOperator));
    cluster.run_for(seconds(60));
    assert_eq!(cluster.waits("small"), Some(WaitingReason::NoCapacity));
    completed(&mut cluster, "small");
    assert_eq!(attempt(&cluster, "small").number, 2);
    assert_eq!(interrupted(&cluster), ["small"]);
}

#[test]
fn two_small_ones_that_lose_less_together_go_instead_of_a_large_one() {
    let mut cluster = full();
    submit(&mut cluster, "large", "n1", 10_000);
    for (name, cpu) in [("a", 3000), ("b", 3000), ("c", 4000)] {
        submit(&mut cluster, name, "n2", cpu);
    }
    cluster.create_pod(pod("owner", 6000).patient(), seconds(100));
    cluster.run_until("it has a node", |cluster| bound(cluster, "owner"));
    assert_eq!(interrupted(&cluster), ["a", "b"]);
}

#[test]
fn nobody_goes_when_nobody_could_help_or_somebody_else_makes_room() {
    let mut cluster = full();
    submit(&mut cluster, "a", "n1", 5000);
    submit(&mut cluster, "b", "n2", 5000);
    let refused = [
        pod("huge", 11_000).patient(),
        pod("preempts", 6000),
        pod("gated", 6000).patient(),
        pod("elsewhere", 6000).patient(),
        pod("unjudged", 6000).patient(),
    ];
    for mut pod in refused {
        match &*pod.key.name {
            "gated" => pod.gated = true,
            "elsewhere" => _ = pod.placement.node_selector.insert("disk".into(), "fast".into()),
            "unjudged" => pod.unjudged = vec!["podAntiAffinity".into()],
            _ => {}
        }
        cluster.preempts = false;
        cluster.create_pod(pod, seconds(100));
        cluster.run_for(seconds(20));
    }
    assert!(interrupted(&cluster).is_empty());
    let report = cluster.planner.pool_report(cluster.now);
    let unjudged: Vec<_> = report.unsupported_pods.iter().map(|(pod, _)| pod.name.to_string()).collect();
    assert_eq!(unjudged, ["unjudged"]);
}

#[test]
fn a_pod_with_a_device_that_no_node_has_is_named_and_nobody_goes_for_it() {
    let mut cluster = full();
    submit(&mut cluster, "a", "n1", 5000);
    let mut owner = pod("owner", 6000).patient();
    owner.requests.other.insert("example.com/dracard".into(), 1);
    cluster.preempts = false;
    cluster.create_pod(owner, seconds(100));
    cluster.run_for(seconds(20));
    assert!(interrupted(&cluster).is_empty());
    let said = |cluster: &Cluster| {
        let report = cluster.planner.pool_report(cluster.now);
        let pods = report.unsupported_pods.iter();
        pods.map(|(pod, what)| format!("{pod}: {}", what.join(", "))).collect::<Vec<_>>()
    };
    assert_eq!(said(&cluster), ["lab/owner: example.com/dracard, which no node has in its allocatable"]);
    // A device plugin reports it, on a node that somebody fills.
    let node = cluster.all_nodes().find(|node| &*node.name == "n1").unwrap().clone();
    cluster.set_node(node.having("example.com/dracard", 1));
    cluster.run_until("it has a node", |cluster| bound(cluster, "owner"));
    assert_eq!(interrupted(&cluster), ["a"]);
    assert!(said(&cluster).is_empty());
}

#[test]
fn in_mode_scheduler_the_operator_leaves_it_to_the_scheduler() {
    let mut cluster = full();
    cluster.set_pool(Ok(settings().filled_to(1.0)));
    submit(&mut cluster, "a", "n1", 10_000);
    submit(&mut cluster, "b", "n2", 10_000);
    cluster.create_pod(pod("owner", 6000).patient(), seconds(100));
    cluster.run_for(seconds(60));
    assert!(interrupted(&cluster).is_empty());
    // The mode can change while everything runs.
    cluster.set_pool(Ok(settings().preempting().filled_to(1.0)));
    cluster.run_until("it has a node", |cluster| bound(cluster, "owner"));
    assert_eq!(interrupted(&cluster).len(), 1);
}

#[test]
fn taints_affinity_and_extended_resources_are_respected() {
    let nodes = [
        node("n1", 10_000).tainted("batch"),
        node("n2", 10_000).labelled("disk", "slow"),
        node("n3", 10_000).labelled("disk", "fast"),
        node("n4", 10_000).labelled("disk", "fast").having("gpu", 1),
    ];
    let mut pool = settings().preempting().filled_to(1.0);
    pool.tolerated_taints.push("batch".into());
    let mut cluster = Cluster::new(pool).with_nodes(nodes);
    for (name, cpu) in [("n1", 9000), ("n2", 9100), ("n3", 9200), ("n4", 9300)] {
        let node = cluster.all_nodes().find(|node| &*node.name == name).unwrap().clone();
        cluster.set_node(node.labelled("name", name));
        cluster.settle();
        let sj = sj(&format!("on-{name}")).asking(cpu).only_on("name", name).tolerating("batch");
        cluster.submit(if name == "n4" { sj.asking_for("gpu", 1) } else { sj }, work(3000));
        cluster.run_until_phase(&format!("on-{name}"), Phase::Running);
    }
    let mut fast = pod("fast", 2000).patient();
    let disk = Expression { key: "disk".into(), operator: Operator::In, values: vec!["fast".into()] };
    fast.placement.affinity = vec![NodeTerm { labels: vec![disk], names: Vec::new() }];
    cluster.create_pod(fast, seconds(1000));
    cluster.run_until("it has a node", |cluster| bound(cluster, "fast"));
    assert_eq!(interrupted(&cluster), ["on-n3"]);
    let mut gpu = pod("gpu", 100).patient();
    gpu.requests.other.insert("gpu".into(), 1);
    cluster.create_pod(gpu, seconds(1000));
    cluster.run_until("it has a node", |cluster| bound(cluster, "gpu"));
    assert_eq!(interrupted(&cluster), ["on-n3", "on-n4"]);
}

#[test]
fn the_room_is_kept_for_the_pod_and_each_pod_is_served_once() {
    let mut cluster = full();
    submit(&mut cluster, "a", "n1", 10_000);
    submit(&mut cluster, "b", "n2", 10_000);
    cluster.scheduler_works = false;
    let mut owner = pod("owner", 4000).patient();
    owner.unschedulable = Some("0/2 nodes are available: 2 Insufficient cpu.".to_owned());
    cluster.create_pod(owner.clone(), seconds(100));
    cluster.run_for(seconds(100));
    // One went; what it gave is promised to the pod, so it cannot even start again itself.
    let [victim] = interrupted(&cluster)[..] else { panic!("{:?}", interrupted(&cluster)) };
    assert_eq!(cluster.waits(victim), Some(WaitingReason::NoCapacity));
    let victim = victim.to_owned();
    owner.key = key("second");
    owner.uid = "uid-of-second".into();
    cluster.create_pod(owner, seconds(100));
    cluster.run_for(seconds(100));
    assert_eq!(interrupted(&cluster), [victim], "the second one has room beside the first");
    cluster.scheduler_works = true;
    cluster.run_until("both have nodes", |cluster| bound(cluster, "owner") && bound(cluster, "second"));
}

#[test]
fn room_that_somebody_faster_took_is_made_once_more() {
    let mut cluster = full();
    submit(&mut cluster, "a", "n1", 10_000);
    submit(&mut cluster, "b", "n2", 10_000);
    cluster.scheduler_works = false;
    let mut owner = pod("owner", 8000).patient();
    owner.unschedulable = Some("0/2 nodes are available: 2 Insufficient cpu.".to_owned());
    cluster.create_pod(owner, seconds(100));
    cluster.run_for(seconds(20));
    let [victim] = interrupted(&cluster)[..] else { panic!("{:?}", interrupted(&cluster)) };
    let node = if victim == "a" { "n1" } else { "n2" };
    cluster.create_pod(pod("faster", 5000).on(node).running(), seconds(1000));
    cluster.run_for(seconds(20));
    assert_eq!(interrupted(&cluster), ["a", "b"]);
    cluster.scheduler_works = true;
    cluster.create_pod(pod("wakes-the-scheduler", 10), seconds(10));
    cluster.run_until("it has a node", |cluster| bound(cluster, "owner"));
}

#[test]
fn a_victim_that_never_goes_keeps_no_owner_waiting() {
    // Its pod hangs, or whatever is asked of it is refused.
    for hangs in [true, false] {
        let mut cluster = full();
        submit(&mut cluster, "dear", "n1", 10_000);
        let workload = Workload { hangs, ..work(3000) };
        cluster.submit(sj("cheap").asking(4000).only_on("name", "n2"), workload);
        submit(&mut cluster, "other", "n2", 6000);
        cluster.run_until_phase("cheap", Phase::Running);
        if !hangs {
            cluster.poisoned.insert(key("cheap"));
        }
        cluster.create_pod(pod("owner", 3000).patient(), seconds(1000));
        let created = cluster.now;
        cluster.run_until("it has a node", |cluster| bound(cluster, "owner"));
        let waited = cluster.now.duration_since(created);
        assert!(waited > seconds(29) && waited < seconds(40), "{waited}");
        assert_eq!(cluster.status("other").interrupted_count, 1, "the next cheapest went");
        assert_eq!(cluster.status("dear").interrupted_count, 0);
        // What is still there is not counted on again.
        cluster.create_pod(pod("second", 5000).patient(), seconds(1000));
        cluster.run_until("the second has a node", |cluster| bound(cluster, "second"));
        assert_eq!(cluster.status("dear").interrupted_count, 1);
    }
}

#[test]
fn of_two_pods_the_more_important_one_is_served_first() {
    let mut cluster = full();
    submit(&mut cluster, "cheap", "n1", 4000);
    submit(&mut cluster, "dear", "n2", 9000);
    cluster.scheduler_works = false;
    let waits = |name: &str, cpu: i64, priority: i32| {
        let mut pod = pod(name, cpu).patient();
        pod.unschedulable = Some("0/2 nodes are available: 2 Insufficient cpu.".to_owned());
        pod.priority = priority;
        pod
    };
    cluster.create_pod(waits("a", 9500, 0), seconds(1000));
    let mut of_others = waits("b", 9500, 100);
    of_others.key = Key::new("shop", "b");
    cluster.create_pod(of_others, seconds(1000));
    cluster.run_until("both decisions are made", |cluster| {
        cluster
            .scavenger_jobs()
            .all(|sj| sj.status.attempt.as_ref().is_some_and(|attempt| attempt.disruption.is_some()))
    });
    let message = |name: &str| attempt(&cluster, name).disruption.clone().unwrap().message;
    assert_eq!(
        message("cheap"),
        "frees capacity for an ordinary pod with priority 100 on node n1 (UID uid-of-b)",
        "its user need not know the pods of others"
    );
    assert_eq!(uid_of_preemptor(&message("cheap")), Some("uid-of-b"));
    assert_eq!(message("dear"), "frees capacity for pod lab/a on node n2");
}

fn story(kill: Option<Kill>) -> Cluster {
    let mut cluster = full();
    cluster.kill = kill;
    cluster.submit(sj("large").asking(10_000), work(60));
    cluster.run_until_phase("large", Phase::Running);
    cluster.submit(sj("small").asking(4000), work(60));
    cluster.submit(sj("gang").asking(3000).gang(2), work(60));
    cluster
        .run_until("all run", |cluster| cluster.scavenger_jobs().all(|sj| sj.status.phase == Phase::Running));
    cluster.create_pod(pod("owner", 5000).patient(), seconds(100));
    cluster.run_until("it has a node", |cluster| bound(cluster, "owner"));
    for name in ["large", "small", "gang"] {
        cluster.run_until_phase(name, Phase::Completed);
    }
    all_is_quiet(&mut cluster);
    cluster
}

#[test]
fn killed_before_and_after_every_action_the_pod_gets_its_room_and_nobody_goes_twice() {
    let undisturbed = story(None);
    let total =
        |cluster: &Cluster| cluster.scavenger_jobs().map(|sj| sj.status.interrupted_count).sum::<u32>();
    assert_eq!(total(&undisturbed), 1);
    for number in 1..=undisturbed.actions {
        for kill in [Kill::Before(number), Kill::After(number), Kill::Late(number)] {
            let disturbed = story(Some(kill));
            assert_eq!(total(&disturbed), 1, "{kill:?}\n{}", disturbed.history());
        }
    }
}

#[test]
fn a_gang_of_which_a_pod_failed_makes_room_for_the_pod_that_it_was_ordered_to_go_for() {
    for restart in [false, true] {
        let mut cluster = full();
        // Nobody but the operator ends the peers of a pod that failed.
        cluster.delays.job_controller = seconds(300);
        cluster.submit(sj("gang").gang(2).asking(6000), work(3000));
        cluster.run_until_phase("gang", Phase::Running);
        for (name, node) in [("other", "n1"), ("another", "n2")] {
            submit(&mut cluster, name, node, 4000);
        }
        cluster.exit(&key("gang-1-0"), 1);
        cluster.settle();
        let failed_on = cluster.pod("gang-1-0").and_then(|pod| pod.node.clone());
        let peer_on = if failed_on.as_deref() == Some("n1") { "n2" } else { "n1" };
        // Of those there only the gang is large enough.
        let mut ordinary = pod("owner", 5000).patient();
        ordinary.placement.node_selector.insert("name".into(), peer_on.into());
        cluster.create_pod(ordinary, seconds(100));
        let created = cluster.now;
        cluster.run_for(seconds(2));
        if restart {
            cluster.restart(false);
        }
        cluster.run_until("it has a node", |cluster| bound(cluster, "owner"));
        let waited = cluster.now.duration_since(created);
        assert!(waited < seconds(15), "{waited}\n{}", cluster.history());
        cluster.run_until("the gang is judged", |cluster| !cluster.status("gang").phase.is_active());
        assert_eq!(interrupted(&cluster), ["gang"], "{}", cluster.history());
        assert_eq!(outcome(&cluster, "gang"), (1, Some(Outcome::Interrupted), Reason::PreemptedByOperator));
    }
}

/// kube-scheduler says this of a pod that waits; `time` counts how often it has said something.
fn says(cluster: &mut Cluster, name: &str, time: u64, message: &str) {
    let mut pod = cluster.pod(name).expect("the pod should be there").clone();
    pod.resource_version += time * 1_000_000;
    pod.unschedulable = Some(message.to_owned());
    cluster.tell(Observation::Pod(Box::new(pod)));
    cluster.settle();
}

/// Both nodes are full, and an ordinary pod waits for which the ScavengerJob on one of them goes, within the grace period.
fn served(grace: i64) -> (Cluster, String) {
    let mut cluster = full();
    for (name, node) in [("a", "n1"), ("b", "n2")] {
        let there = cluster.all_nodes().find(|there| &*there.name == node).cloned();
        let there = there.expect("the node should be there");
        cluster.set_node(there.labelled("name", node));
        cluster.settle();
        let workload = Workload { grace: seconds(grace), ..work(3000) };
        cluster.submit(sj(name).asking(10_000).only_on("name", node), workload);
        cluster.run_until_phase(name, Phase::Running);
    }
    cluster.scheduler_works = false;
    let mut owner = pod("owner", 4000).patient();
    owner.unschedulable = Some("0/2 nodes are available: 2 Insufficient cpu.".to_owned());
    cluster.create_pod(owner, seconds(1000));
    cluster.run_until("one goes", |cluster| !interrupted(cluster).is_empty());
    let first = interrupted(&cluster)[0].to_owned();
    (cluster, first)
}

/// At the limit of attached volumes kube-scheduler says so only once there is enough cpu.
#[test]
fn capacity_that_does_not_help_is_given_back_and_another_node_is_tried_once() {
    let (mut cluster, first) = served(0);
    let second = if first == "a" { "b" } else { "a" };
    cluster.run_for(seconds(2));
    let one = "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) exceed max volume count.";
    says(&mut cluster, "owner", 1, one);
    cluster.run_for(seconds(20));
    assert_eq!(interrupted(&cluster), [&*first], "it may be bound yet");
    cluster.run_for(seconds(15));
    assert_eq!(interrupted(&cluster), ["a", "b"], "{}", cluster.history());
    cluster.run_until_phase(&first, Phase::Starting);
    says(&mut cluster, "owner", 2, "0/2 nodes are available: 2 node(s) exceed max volume count.");
    cluster.run_for(seconds(60));
    let report = cluster.planner.pool_report(cluster.now);
    let unjudged: Vec<String> = report.unsupported_pods.iter().map(|(_, what)| what.join(", ")).collect();
    let expected = "node(s) exceed max volume count, not bound to node n1, which had capacity, not bound to node n2, which \
                    had capacity";
    assert_eq!(unjudged, [expected]);
    // Whatever else it says, nobody goes for it any more.
    says(&mut cluster, "owner", 3, one);
    cluster.run_for(seconds(300));
    for name in [&*first, second] {
        assert_eq!(cluster.status(name).interrupted_count, 1, "{name}\n{}", cluster.history());
    }
}

#[test]
fn what_it_says_before_the_capacity_is_free_is_no_refusal() {
    let (mut cluster, first) = served(100);
    says(
        &mut cluster,
        "owner",
        1,
        "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) exceed max volume count.",
    );
    cluster.run_for(seconds(25));
    assert_eq!(interrupted(&cluster), [&*first]);
    cluster
        .run_until("it is gone", |cluster| cluster.live_pods("a").len() + cluster.live_pods("b").len() == 1);
    cluster.scheduler_works = true;
    cluster.create_pod(pod("wakes-the-scheduler", 10), seconds(10));
    cluster.run_until("it has a node", |cluster| bound(cluster, "owner"));
    assert_eq!(interrupted(&cluster), [&*first]);
}
