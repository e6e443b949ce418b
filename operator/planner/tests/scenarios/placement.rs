//! On which nodes pods of ScavengerJobs are. The simulator's scheduler takes any node that admits a pod, in the pool or
//! not, and ends the test if a pod is bound to a node outside the pool (`truth.rs`).

use scavenger_planner::{
    check,
    fixtures::{key, node, seconds, settings, sj},
    values::{Name, Node, Observation, Outcome, Phase, Reason, Settings, Usage, WaitingReason},
};
use scavenger_simulator::Cluster;

use super::{attempt, outcome, work};

/// A pool of the nodes with label `pool: scavenger`.
fn selecting() -> Settings {
    Settings { node_selector: [("pool".into(), "scavenger".into())].into(), ..settings() }
}

/// The nodes on which pods of ScavengerJobs are.
fn occupied(cluster: &Cluster) -> Vec<&str> {
    let mut nodes: Vec<&str> =
        cluster.all_live_pods().into_iter().filter_map(|pod| Some(&**pod.place()?)).collect();
    nodes.sort_unstable();
    nodes.dedup();
    nodes
}

#[test]
fn pods_stay_on_the_nodes_of_the_pool() {
    let others = ["o1", "o2", "o3"].map(|name| node(name, 64_000));
    let mut cluster = Cluster::new(selecting())
        .with_nodes([node("p1", 64_000).labelled("pool", "scavenger")])
        .with_nodes(others);
    for number in 0..40 {
        cluster.submit(sj(&format!("job{number}")).asking(4000), work(3000));
    }
    cluster.run_for(seconds(120));
    assert_eq!(occupied(&cluster), ["p1"]);
    assert_eq!(cluster.all_live_pods().len(), 11, "70% of 64 cores");
    assert_eq!(cluster.waits("job39"), Some(WaitingReason::BehindInQueue));
}

#[test]
fn a_toleration_opens_no_node_that_the_pool_does_not_tolerate() {
    let pool = Settings { tolerated_taints: vec!["gpu".into()], ..settings() };
    let mut cluster = Cluster::new(pool).with_nodes([
        node("p1", 10_000),
        node("gpu", 10_000).tainted("gpu"),
        node("control-plane", 64_000).tainted("node-role.kubernetes.io/control-plane"),
    ]);
    cluster.submit(
        sj("named").tolerating("gpu").tolerating("node-role.kubernetes.io/control-plane"),
        work(3000),
    );
    cluster.submit(sj("any").tolerating_everything(), work(3000));
    cluster.run_for(seconds(10));
    assert_eq!(cluster.all_live_pods().len(), 2);
    assert!(!occupied(&cluster).contains(&"control-plane"), "{:?}", occupied(&cluster));
}

/// These nodes of 10,000 MiB were just measured to use 9,800 of them, and all others 1,000.
fn measure(cluster: &mut Cluster, full: &[String]) {
    let nodes: Vec<_> = cluster.all_nodes().map(|node| node.name.clone()).collect();
    let usage = |node: &Name| {
        let mib = if full.iter().any(|full| **full == **node) { 9800 } else { 1000 };
        Usage { node: node.clone(), cpu_milli: 0, memory_bytes: mib << 20, time: cluster.now }
    };
    let usage = nodes.iter().map(usage).collect();
    cluster.planner.observe(Observation::Usage(Some(usage)), cluster.now);
    cluster.settle();
}

#[test]
fn a_node_that_is_full_by_measurement_gets_none_even_if_it_is_the_emptiest() {
    let nodes = ["n1", "n2"].map(|name| node(name, 10_000).labelled("name", name));
    let mut cluster = Cluster::new(settings().filled_to(1.0)).with_nodes(nodes);
    cluster.submit(sj("fills").asking(5000).only_on("name", "n2"), work(3000));
    cluster.run_for(seconds(5));
    measure(&mut cluster, &["n1".to_owned()]);
    cluster.submit(sj("a"), work(3000));
    cluster.run_until_phase("a", Phase::Running);
    assert_eq!(occupied(&cluster), ["n2"]);
}

/// The annotation of an admin: what runs there stays, and what is new goes elsewhere until it is taken away.
#[test]
fn a_node_that_an_admin_closes_takes_nothing_new_and_keeps_what_runs() {
    let nodes = ["n1", "n2"].map(|name| node(name, 10_000));
    let mut cluster = Cluster::new(settings().filled_to(1.0)).with_nodes(nodes);
    cluster.submit(sj("before").asking(6000), work(100_000));
    cluster.run_until_phase("before", Phase::Running);
    let on = cluster.live_pods("before")[0].node.clone().expect("it should run on a node");
    let other = if &*on == "n1" { "n2" } else { "n1" };
    cluster.set_node(node(&on, 10_000).closed("its disk is replaced"));
    cluster.submit(sj("small").asking(3000), work(100_000));
    cluster.run_until_phase("small", Phase::Running);
    assert_eq!(cluster.live_pods("small")[0].node.as_deref(), Some(other));
    cluster.set_node(node(other, 10_000).closed(""));
    cluster.submit(sj("after").asking(3000), work(100_000));
    cluster.run_for(seconds(600));
    assert_eq!(cluster.waits("after"), Some(WaitingReason::NoCapacity));
    let report = cluster.planner.pool_report(cluster.now);
    let messages: Vec<String> =
        report.closed_nodes.iter().map(|(node, closed)| closed.message(node)).collect();
    let (of_on, of_other) = (
        format!("node {on} is closed by an admin: its disk is replaced"),
        format!("node {other} is closed by an admin"),
    );
    assert!(messages.contains(&of_on) && messages.contains(&of_other), "{messages:?}");
    assert_eq!(cluster.status("before").phase, Phase::Running, "closing interrupts nobody");
    cluster.set_node(node(&on, 10_000));
    cluster.run_until_phase("after", Phase::Running);
    assert_eq!(cluster.live_pods("after")[0].node.as_deref(), Some(&*on));
}

/// 60 nodes, and 55 of them are closed: more than a Job keeps its pods off by name.
fn mostly_closed(settings: Settings) -> (Cluster, Vec<String>) {
    let names: Vec<String> = (0..60).map(|number| format!("n{number}")).collect();
    let nodes = names.iter().map(|name| node(name, 10_000));
    let mut cluster = Cluster::new(settings).with_nodes(nodes);
    cluster.run_for(seconds(1));
    measure(&mut cluster, &names[..55]);
    (cluster, names)
}

#[test]
fn closed_nodes_stop_no_starts_elsewhere_however_many() {
    let (mut cluster, names) = mostly_closed(settings().filled_to(1.0));
    for number in 0..4 {
        cluster.submit(sj(&format!("one{number}")).asking(6000), work(3000));
    }
    cluster.submit(sj("gang").asking(2000).gang(4), work(3000));
    for name in ["one0", "one1", "one2", "one3", "gang"] {
        cluster.run_until_phase(name, Phase::Running);
    }
    let is_closed = |node: &&str| names[..55].iter().any(|closed| closed == node);
    assert_eq!(occupied(&cluster).iter().find(|node| is_closed(node)), None);
    // What fits on no node that is open waits, and its message says what the closed ones have to do with it.
    cluster.submit(sj("waits").asking(9000), work(10));
    cluster.run_for(seconds(10));
    assert_eq!(cluster.waits("waits"), Some(WaitingReason::NoCapacity));
    let message = cluster.status("waits").message.clone();
    assert!(message.ends_with("(60 nodes looked at, 55 of them closed to ScavengerJobs)"), "{message}");
    measure(&mut cluster, &[]);
    cluster.run_until_phase("waits", Phase::Running);
}

#[test]
fn nodes_that_are_switched_off_close_nothing() {
    let names: Vec<String> = (0..200).map(|number| format!("n{number}")).collect();
    let nodes = names.iter().map(|name| node(name, 10_000));
    let mut cluster = Cluster::new(settings()).with_nodes(nodes);
    cluster.run_for(seconds(1));
    measure(&mut cluster, &[]);
    for name in &names[..60] {
        cluster.set_node(node(name, 10_000).unusable());
    }
    for _ in 0..30 {
        cluster.run_for(seconds(15));
        let usage = names[60..].iter().map(|name| Usage {
            node: name.as_str().into(),
            cpu_milli: 0,
            memory_bytes: 1000 << 20,
            time: cluster.now,
        });
        cluster.planner.observe(Observation::Usage(Some(usage.collect())), cluster.now);
        cluster.settle();
    }
    // A taint keeps pods off them; they are nobody's reason to name nodes.
    assert!(cluster.planner.pool_report(cluster.now).closed_nodes.is_empty());
    cluster.submit(sj("a"), work(3000));
    cluster.run_until_phase("a", Phase::Running);
    // Switched on again they take nothing until they are measured.
    for name in &names[..60] {
        cluster.set_node(node(name, 10_000));
    }
    cluster.run_for(seconds(1));
    assert_eq!(cluster.planner.pool_report(cluster.now).closed_nodes.len(), 60);
    cluster.submit(sj("b"), work(3000));
    cluster.run_until_phase("b", Phase::Running);
    assert!(!names[..60].iter().any(|closed| occupied(&cluster).contains(&closed.as_str())));
}

#[test]
fn a_start_that_was_decided_before_its_node_was_closed_goes_elsewhere() {
    let names: Vec<String> = (0..60).map(|number| format!("n{number}")).collect();
    let nodes = names.iter().map(|name| node(name, 10_000));
    let mut cluster = Cluster::new(settings()).with_nodes(nodes);
    cluster.delays.answer = seconds(1);
    for (name, pods) in [("one", 1), ("gang", 3)] {
        cluster.submit(sj(name).gang(pods), work(3000));
        cluster.run_until_phase(name, Phase::Starting);
        // Among them is each node that it was promised.
        let is_promised = |name: &&String| cluster.planner.ledger().promised(&name.as_str().into()).is_some();
        let open: Vec<_> = names.iter().filter(|name| !is_promised(name)).take(5).collect();
        let closed: Vec<String> = names.iter().filter(|name| !open.contains(name)).cloned().collect();
        measure(&mut cluster, &closed);
        cluster.run_until_phase(name, Phase::Waiting);
        assert_eq!(cluster.waits(name), Some(WaitingReason::NoCapacity));
        assert!(cluster.all_jobs().all(|job| !job.key.name.starts_with(name)), "no Job was made");
        cluster.run_until_phase(name, Phase::Running);
        measure(&mut cluster, &[]);
    }
}

fn inside(name: &str) -> Node {
    node(name, 10_000).labelled("pool", "scavenger")
}

/// One that runs on node p1 of a pool with two nodes.
fn running_on_p1() -> Cluster {
    let mut cluster = Cluster::new(selecting()).with_nodes([inside("p1")]);
    cluster.submit(sj("a"), work(3000));
    cluster.run_until_phase("a", Phase::Running);
    cluster.strict = false;
    cluster.set_node(inside("p2"));
    cluster
}

#[test]
fn a_node_that_leaves_the_pool_gives_its_scavenger_jobs_back_after_a_minute() {
    let without_label = node("p1", 10_000);
    let tainted = inside("p1").tainted("reserved");
    for (left, why) in
        [(without_label, "it lacks label pool=scavenger"), (tainted, "it has taint reserved:NoSchedule")]
    {
        let mut cluster = running_on_p1();
        cluster.set_node(left);
        cluster.run_for(seconds(55));
        assert_eq!(cluster.status("a").phase, Phase::Running, "{why}");
        let said = cluster.planner.node_that_left(&key("a")).unwrap_or_default();
        assert!(said.contains(why) && said.ends_with("once the node was outside for 60 s"), "{said}");
        cluster.run_for(seconds(10));
        let (number, outcome, reason) = outcome(&cluster, "a");
        assert_eq!((number, outcome, reason), (1, Some(Outcome::Interrupted), Reason::NodeLeftPool));
        let message = format!("node p1 does not belong to the pool any more: {why}");
        assert_eq!(attempt(&cluster, "a").message.as_deref(), Some(&*message));
        cluster.run_until_phase("a", Phase::Running);
        assert_eq!(occupied(&cluster), ["p2"]);
    }
}

#[test]
fn a_node_that_is_back_within_the_minute_or_only_cordoned_keeps_what_it_has() {
    let mut cluster = running_on_p1();
    for _ in 0..3 {
        cluster.set_node(node("p1", 10_000));
        cluster.run_for(seconds(50));
        cluster.set_node(inside("p1"));
        cluster.run_for(seconds(50));
    }
    cluster.set_node(inside("p1").cordoned());
    cluster.run_for(seconds(300));
    assert_eq!(cluster.status("a").interrupted_count, 0);
    assert_eq!(occupied(&cluster), ["p1"]);
}

#[test]
fn a_pool_whose_selector_is_mistyped_loses_little_until_it_is_mended() {
    let nodes: Vec<Node> = (0..20).map(|number| inside(&format!("p{number}"))).collect();
    let mut cluster = Cluster::new(selecting().filled_to(1.0)).with_nodes(nodes);
    for number in 0..200 {
        cluster.submit(sj(&format!("job{number}")), work(30_000));
    }
    cluster.run_for(seconds(60));
    assert_eq!(cluster.all_live_pods().len(), 200);
    cluster.strict = false;
    let mistyped = Settings { node_selector: [("pol".into(), "scavenger".into())].into(), ..selecting() };
    cluster.set_pool(Ok(mistyped));
    let interrupted =
        |cluster: &Cluster| cluster.scavenger_jobs().filter(|sj| sj.status.interrupted_count > 0).count();
    cluster.run_for(seconds(58));
    assert_eq!(interrupted(&cluster), 0);
    cluster.run_for(seconds(7));
    assert_eq!(interrupted(&cluster), 20);
    cluster.run_for(seconds(10));
    assert_eq!(interrupted(&cluster), 38);
    cluster.set_pool(Ok(selecting().filled_to(1.0)));
    cluster.run_for(seconds(200));
    assert_eq!(interrupted(&cluster), 38);
    assert_eq!(cluster.all_live_pods().len(), 200);
}

#[test]
fn a_pod_of_a_job_that_was_made_after_its_node_had_left_is_found() {
    let mut cluster = running_on_p1();
    cluster.set_node(node("p1", 10_000));
    cluster.run_for(seconds(40));
    assert_eq!(check::kept_up(&cluster.planner), Ok(()), "it was there before");
    // A Job without affinity, as if the operator had forgotten it.
    let sj = cluster.scavenger_jobs().next().unwrap();
    let mut job = cluster.jobs_of("a")[0].clone();
    (job.creation_time, job.resource_version) = (cluster.now, job.resource_version + 1_000_000);
    assert_eq!(job.owner, sj.uid);
    cluster.planner.observe(Observation::Job(job), cluster.now);
    let found = check::kept_up(&cluster.planner).unwrap_err();
    assert!(found.contains("pod lab/a-1-0 is on node p1, which had left the pool before"), "{found}");
}
