//! Nodes with an agent: it says why a container was killed for memory, and the pool may require it.

use std::collections::BTreeSet;

use scavenger_planner::values::{KillCause, KillReport, Name, Pod};

use super::*;

/// The agents of these nodes are live, and no others.
fn agents(cluster: &mut Cluster, nodes: &[&str]) {
    let nodes: BTreeSet<Name> = nodes.iter().map(|node| Name::from(*node)).collect();
    cluster.tell(Observation::NodeAgents(nodes));
    cluster.settle();
}

/// The agent says why a container of this pod was killed.
fn explain(cluster: &mut Cluster, pod: &Pod, cause: KillCause) {
    let time = pod.out_of_memory.unwrap_or(cluster.now);
    let report = KillReport { pod: pod.key.clone(), uid: pod.uid.clone(), time, cause };
    cluster.tell(Observation::Kill(report));
    cluster.settle();
}

/// Kills the one pod of a ScavengerJob, and returns it.
fn kill(cluster: &mut Cluster, name: &str) -> Pod {
    let pod = cluster.live_pods(name)[0].clone();
    cluster.end_pod(&pod.key, 137, "OOMKilled");
    cluster.run_for(seconds(2));
    pod
}

fn tripped(cluster: &Cluster) -> usize {
    cluster.planner.pool_report(cluster.now).usage.map_or(0, |usage| usage.tripped.len())
}

fn own_limits(cluster: &Cluster) -> u64 {
    cluster.planner.pool_report(cluster.now).usage.map_or(0, |usage| usage.own_limits)
}

#[test]
fn the_kernels_counters_decide_whose_fault_a_kill_was_whatever_was_measured() {
    // Of its limit it was measured to use the half, or all.
    for (cause, part, expected) in [
        (KillCause::Limit, 2, (Outcome::Failed, Reason::OOMKilled)),
        (KillCause::Node, 1, (Outcome::Interrupted, Reason::NodeOutOfMemory)),
        (KillCause::Unknown, 2, (Outcome::Interrupted, Reason::NodeOutOfMemory)),
        (KillCause::Unknown, 1, (Outcome::Failed, Reason::OOMKilled)),
    ] {
        let mut cluster = reserved(settings().by_use());
        agents(&mut cluster, &["n1"]);
        cluster.submit(sj("a").asking(2000), work(3000));
        runs(&mut cluster, "a");
        for _ in 0..8 {
            cluster.run_for(seconds(EVERY));
            measure_with(&mut cluster, |_| (1000, 1000), part);
        }
        let pod = kill(&mut cluster, "a");
        assert_eq!(cluster.status("a").phase, Phase::Running, "the agent is waited for");
        explain(&mut cluster, &pod, cause);
        let (_, last, reason) = outcome(&cluster, "a");
        assert_eq!((last.unwrap(), reason), expected, "{cause:?} {part}\n{}", cluster.history());
    }
}

#[test]
fn an_agent_that_does_not_answer_is_not_waited_for_long() {
    let mut cluster = reserved(settings().by_use());
    agents(&mut cluster, &["n1"]);
    cluster.submit(sj("a").asking(2000), work(3000));
    runs(&mut cluster, "a");
    kill(&mut cluster, "a");
    cluster.run_for(seconds(10));
    assert_eq!(cluster.status("a").phase, Phase::Running);
    cluster.run_for(seconds(5));
    assert_eq!(outcome(&cluster, "a").1, Some(Outcome::Interrupted), "{}", cluster.history());
    // Where no agent is live nobody waits.
    agents(&mut cluster, &["n2"]);
    runs(&mut cluster, "a");
    kill(&mut cluster, "a");
    assert_eq!(cluster.status("a").interrupted_count, 2, "{}", cluster.history());
}

/// That other pods take the memory of its node is no fault of a workload, however often it happens.
#[test]
fn kills_that_the_nodes_are_to_blame_for_are_not_counted() {
    for settings in [settings(), settings().by_use()] {
        let mut cluster = Cluster::new(settings).with_nodes([node("n1", 10_000)]);
        agents(&mut cluster, &["n1"]);
        cluster.submit(sj("a").asking(2000), work(300_000));
        for kills in 1..=7 {
            runs(&mut cluster, "a");
            let pod = kill(&mut cluster, "a");
            explain(&mut cluster, &pod, KillCause::Node);
            let expected = (kills, Some(Outcome::Interrupted), Reason::NodeOutOfMemory);
            assert_eq!(outcome(&cluster, "a"), expected, "{}", cluster.history());
        }
        assert!(cluster.status("a").out_of_memory_nodes.is_empty());
        let message = attempt(&cluster, "a").message.clone().unwrap();
        assert!(message.starts_with("node n1 had no memory left: the container was killed"), "{message}");
    }
}

/// Its pod has the name of the one before.
#[test]
fn what_is_said_of_another_pod_is_void() {
    let mut cluster = reserved(settings().by_use());
    agents(&mut cluster, &["n1"]);
    cluster.submit(sj("a").asking(2000), work(3000));
    runs(&mut cluster, "a");
    let pod = kill(&mut cluster, "a");
    explain(&mut cluster, &Pod { uid: "another".into(), ..pod.clone() }, KillCause::Limit);
    assert_eq!(cluster.status("a").phase, Phase::Running);
    explain(&mut cluster, &pod, KillCause::Node);
    assert_eq!(outcome(&cluster, "a").2, Reason::NodeOutOfMemory);
}

/// One pod of a gang died for its node, and a peer beside it for its own limit.
#[test]
fn of_a_gang_one_pod_that_outgrew_its_limit_is_enough() {
    for (cause, expected) in [
        (KillCause::Limit, (Outcome::Failed, Reason::OOMKilled)),
        (KillCause::Node, (Outcome::Interrupted, Reason::NodeOutOfMemory)),
    ] {
        let mut cluster = Cluster::default().with_nodes([node("n1", 10_000)]);
        agents(&mut cluster, &["n1"]);
        cluster.submit(sj("a").asking(1000).gang(2), work(3000));
        cluster.run_until_phase("a", Phase::Running);
        let pods: Vec<Pod> = cluster.live_pods("a").into_iter().cloned().collect();
        for pod in &pods {
            cluster.end_pod(&pod.key, 137, "OOMKilled");
        }
        cluster.run_for(seconds(2));
        explain(&mut cluster, &pods[0], KillCause::Node);
        assert_eq!(cluster.status("a").phase, Phase::Running, "{}", cluster.history());
        explain(&mut cluster, &pods[1], cause);
        let (_, last, reason) = outcome(&cluster, "a");
        assert_eq!((last.unwrap(), reason), expected, "{}", cluster.history());
    }
}

/// A ScavengerJob beside an ordinary pod that loses its container now, on a node with an agent; and that pod.
fn with_a_kill() -> (Cluster, Pod) {
    let mut cluster = reserved(settings().by_use());
    agents(&mut cluster, &["n1"]);
    cluster.submit(sj("a").asking(2000), work(300_000));
    minutes(&mut cluster, 6, |_| (1000, 1000));
    let web = |cluster: &Cluster| cluster.pod("web-0").expect("the pod should be there").clone();
    let key = web(&cluster).key;
    cluster.kill_container(&key);
    let web = web(&cluster);
    (cluster, web)
}

/// The node has memory left, as far as it was measured, which the agent knows better.
#[test]
fn the_agent_says_what_killed_an_ordinary_container_before_samples_do() {
    for (cause, harm) in
        [(Some(KillCause::Limit), 0), (Some(KillCause::Node), 1), (Some(KillCause::Unknown), 0), (None, 0)]
    {
        let (mut cluster, web) = with_a_kill();
        cluster.run_for(seconds(5));
        assert_eq!(tripped(&cluster), 0, "{cause:?}: the agent is waited for");
        match cause {
            Some(cause) => explain(&mut cluster, &web, cause),
            None => cluster.run_for(seconds(11)),
        }
        assert_eq!(tripped(&cluster), harm, "{cause:?}");
        minutes(&mut cluster, 3, |_| (1000, 1000));
        let interrupted = harm.try_into().unwrap();
        assert_eq!((tripped(&cluster), cluster.status("a").interrupted_count), (harm, interrupted));
        assert_eq!(own_limits(&cluster), u64::from(harm == 0), "{cause:?}: judged once");
    }
}

/// A pod that is deleted is not asked about any more: samples say what killed it.
#[test]
fn a_killed_pod_that_goes_before_the_answer_is_judged_as_without_an_agent() {
    let (mut cluster, web) = with_a_kill();
    cluster.run_for(seconds(2));
    assert_eq!(tripped(&cluster), 0);
    cluster.tell(Observation::PodGone(web.key));
    minutes(&mut cluster, 3, |_| (1000, 1000));
    assert_eq!((tripped(&cluster), own_limits(&cluster)), (0, 1));
}

/// In a pool that requires the agent.
fn careful() -> Settings {
    let mut settings = settings().by_use();
    if let Some(rules) = &mut settings.usage {
        rules.require_node_agent = true;
    }
    settings
}

#[test]
fn by_use_they_start_only_beside_a_live_agent_if_the_pool_requires_it() {
    let mut cluster = reserved(careful());
    cluster.submit(sj("a").asking(4000), work(3000));
    minutes(&mut cluster, 7, |_| (1000, 1000));
    assert_eq!(cluster.waits("a"), Some(WaitingReason::NoCapacity), "by requests the node is full");
    let report = cluster.planner.pool_report(cluster.now).usage.unwrap();
    assert_eq!((report.known, report.without_agent), (0, 1));
    agents(&mut cluster, &["n1"]);
    cluster.run_for(seconds(10));
    let attempt = attempt(&cluster, "a");
    assert_eq!((attempt.accounting, attempt.node.as_deref()), (Accounting::Usage, Some("n1")));
    assert_eq!(cluster.status("a").phase, Phase::Running, "{}", cluster.history());
    let report = cluster.planner.pool_report(cluster.now);
    assert!(report.nodes[0].has_agent);
    assert_eq!(report.usage.unwrap().without_agent, 0);
}

#[test]
fn without_a_live_agent_they_start_by_requests() {
    let mut cluster = Cluster::new(careful()).with_nodes([node("n1", 10_000)]);
    cluster.submit(sj("a").asking(4000), work(3000));
    // Nobody needs to have measured anything for that.
    cluster.run_until_phase("a", Phase::Running);
    assert_eq!(attempt(&cluster, "a").accounting, Accounting::Requests);
}

/// What runs beside it stays and is watched by use, and nothing is added by use.
#[test]
fn an_agent_that_goes_away_interrupts_nobody() {
    let mut cluster = reserved(careful());
    agents(&mut cluster, &["n1"]);
    cluster.submit(sj("a").asking(2000), work(300_000));
    minutes(&mut cluster, 7, |_| (1000, 1000));
    assert_eq!(cluster.status("a").phase, Phase::Running);
    agents(&mut cluster, &[]);
    cluster.submit(sj("b").asking(2000), work(3000));
    cluster.submit(sj("c").asking(500), work(3000));
    minutes(&mut cluster, 20, |_| (1000, 1000));
    assert_eq!((cluster.status("a").phase, cluster.status("a").interrupted_count), (Phase::Running, 0));
    assert_eq!(cluster.waits("b"), Some(WaitingReason::NoCapacity), "{}", cluster.history());
    assert_eq!(cluster.waits("c"), Some(WaitingReason::NoCapacity), "{}", cluster.history());
    // Ordinary pods need their processors as before.
    minutes(&mut cluster, 3, |_| (9500, 1000));
    assert_eq!(outcome(&cluster, "a").2, Reason::NodeCPUShort, "{}", cluster.history());
}

/// Half of the node is reserved. One runs there by use, and the next finds capacity by both ways of counting.
#[test]
fn beside_what_runs_by_use_the_next_starts_by_requests() {
    let mut cluster = Cluster::new(careful()).with_nodes([node("n1", 10_000)]);
    for number in 0..5 {
        cluster.create_pod(pod(&format!("web-{number}"), 1000), FOREVER);
    }
    agents(&mut cluster, &["n1"]);
    minutes(&mut cluster, 6, |_| (1000, 1000));
    cluster.submit(sj("a").asking(1000), work(300_000));
    minutes(&mut cluster, 1, |_| (1000, 1000));
    assert_eq!(attempt(&cluster, "a").accounting, Accounting::Usage, "{}", cluster.history());
    agents(&mut cluster, &[]);
    cluster.submit(sj("b").asking(800), work(3000));
    minutes(&mut cluster, 1, |_| (1000, 1000));
    assert_eq!(cluster.status("b").phase, Phase::Running, "{}", cluster.history());
    assert_eq!(attempt(&cluster, "b").accounting, Accounting::Requests);
}
