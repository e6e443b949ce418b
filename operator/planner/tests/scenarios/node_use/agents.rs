//! Nodes with an agent: it says why a container was killed for memory.

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

#[test]
fn an_ordinary_container_that_reached_its_own_limit_was_harmed_by_nobody() {
    for (cause, harm) in
        [(Some(KillCause::Limit), 0), (Some(KillCause::Node), 1), (Some(KillCause::Unknown), 1), (None, 1)]
    {
        let mut cluster = reserved(settings().by_use());
        agents(&mut cluster, &["n1"]);
        cluster.submit(sj("a").asking(2000), work(300_000));
        minutes(&mut cluster, 6, |_| (1000, 1000));
        let web = cluster.pod("web-0").unwrap().key.clone();
        cluster.kill_container(&web);
        cluster.run_for(seconds(5));
        assert_eq!(tripped(&cluster), 0, "{cause:?}: the agent is waited for");
        let web = cluster.pod("web-0").unwrap().clone();
        match cause {
            Some(cause) => explain(&mut cluster, &web, cause),
            None => cluster.run_for(seconds(11)),
        }
        assert_eq!(tripped(&cluster), harm, "{cause:?}");
        minutes(&mut cluster, 1, |_| (1000, 1000));
        assert_eq!(
            (tripped(&cluster), cluster.status("a").interrupted_count),
            (harm, harm.try_into().unwrap())
        );
    }
}

/// A pod that is deleted is not asked about any more.
#[test]
fn a_killed_pod_that_goes_before_the_answer_counts_as_without_an_agent() {
    let mut cluster = reserved(settings().by_use());
    agents(&mut cluster, &["n1"]);
    cluster.submit(sj("a").asking(2000), work(300_000));
    minutes(&mut cluster, 6, |_| (1000, 1000));
    let web = cluster.pod("web-0").unwrap().key.clone();
    cluster.kill_container(&web);
    cluster.run_for(seconds(2));
    assert_eq!(tripped(&cluster), 0);
    cluster.tell(Observation::PodGone(web));
    cluster.settle();
    assert_eq!(tripped(&cluster), 1);
}
