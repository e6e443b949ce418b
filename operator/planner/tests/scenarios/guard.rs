//! Who goes for pending ordinary pods while no operator works.

use scavenger_planner::{
    fixtures::{key, node, pod, seconds, settings, sj},
    guard::{Help, Leaving},
    values::{Key, Observation, Phase, Settings},
};
use scavenger_simulator::{Cluster, Traced, Workload};

use super::work;

/// Two full nodes, in a mode in which the operator makes no room for anybody.
fn unattended() -> Cluster {
    let nodes = ["n1", "n2"].map(|name| node(name, 10_000).labelled("name", name));
    let mut cluster = Cluster::new(settings().filled_to(1.0)).with_nodes(nodes);
    for (name, node, cpu) in [("large", "n1", 10_000), ("small", "n2", 4000), ("medium", "n2", 6000)] {
        cluster.submit(sj(name).asking(cpu).only_on("name", node), work(3000));
        cluster.run_until_phase(name, Phase::Running);
    }
    cluster
}

/// What the guard says of a cluster that it has just read.
fn relief(cluster: &Cluster, pool: Settings) -> Vec<(Key, Help)> {
    let mut planner = Traced::default();
    for observation in cluster.objects() {
        planner.observe(observation, cluster.now);
    }
    planner.observe(Observation::Pool(Box::new(Ok(pool))), cluster.now);
    planner.relieve(cluster.now)
}

fn in_mode_operator() -> Settings {
    settings().preempting().filled_to(1.0)
}

fn leaving(help: &Help) -> (&str, Vec<&Leaving>) {
    match help {
        Help::Room { node, victims } => (node, victims.iter().collect()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn it_takes_whom_the_operator_would_take() {
    let mut cluster = unattended();
    cluster.create_pod(pod("owner", 3000).patient(), seconds(1000));
    cluster.create_pod(pod("second", 5000).patient(), seconds(1000));
    cluster.run_for(seconds(20));
    let helped = relief(&cluster, in_mode_operator());
    let [(owner, first), (second, then)] = &helped[..] else { panic!("{helped:?}") };
    assert_eq!((owner, second), (&key("owner"), &key("second")));
    let ((node, small), (other, medium)) = (leaving(first), leaving(then));
    assert_eq!((node, other), ("n2", "n2"));
    let pods: Vec<Key> =
        small.iter().chain(&medium).flat_map(|leaving| &leaving.pods).map(|(pod, _)| pod.clone()).collect();
    let scavenger_jobs: Vec<&str> = small.iter().chain(&medium).map(|leaving| &*leaving.sj.name).collect();
    assert_eq!(scavenger_jobs, ["small", "medium"]);
    for pod in &pods {
        cluster.evict(pod);
    }

    // What is going needs nobody's help, and nobody goes twice.
    cluster.settle();
    for (pod, help) in relief(&cluster, in_mode_operator()) {
        assert_eq!(leaving(&help).1, Vec::<&Leaving>::new(), "{pod}");
    }
    cluster.run_until("both have nodes", |cluster| {
        ["owner", "second"].iter().all(|name| cluster.pod(name).is_some_and(|pod| pod.node.is_some()))
    });
    assert_eq!(cluster.status("large").interrupted_count, 0);
    assert!(relief(&cluster, in_mode_operator()).is_empty());
}

#[test]
fn it_does_not_wait_for_what_hangs() {
    let mut cluster = Cluster::new(settings().filled_to(1.0)).with_nodes([node("n1", 10_000)]);
    cluster.submit(sj("hangs").asking(4000), Workload { hangs: true, ..work(3000) });
    cluster.submit(sj("other").asking(6000), work(3000));
    cluster.run_until("both run", |cluster| {
        cluster.scavenger_jobs().all(|sj| sj.status.phase == Phase::Running)
    });
    cluster.evict(&key("hangs-1-0"));
    cluster.create_pod(pod("owner", 3000).patient(), seconds(1000));
    let victims = |cluster: &Cluster| {
        let helped = relief(cluster, in_mode_operator());
        let [(_, help)] = &helped[..] else { panic!("{helped:?}") };
        leaving(help).1.iter().map(|leaving| leaving.sj.name.to_string()).collect::<Vec<_>>()
    };
    cluster.run_for(seconds(20));
    assert!(victims(&cluster).is_empty(), "it is going");
    cluster.run_for(seconds(20));
    assert_eq!(victims(&cluster), ["other"]);
}

#[test]
fn a_gang_goes_with_all_its_pods() {
    let nodes = ["n1", "n2"].map(|name| node(name, 10_000));
    let mut cluster = Cluster::new(settings().filled_to(1.0)).with_nodes(nodes);
    cluster.submit(sj("gang").asking(8000).gang(2), work(3000));
    cluster.run_until_phase("gang", Phase::Running);
    cluster.create_pod(pod("owner", 5000).patient(), seconds(1000));
    cluster.run_for(seconds(20));
    let helped = relief(&cluster, in_mode_operator());
    let [(_, help)] = &helped[..] else { panic!("{helped:?}") };
    let (_, victims) = leaving(help);
    assert_eq!(victims.len(), 1);
    assert_eq!(victims[0].pods.len(), 2, "{victims:?}");
}

#[test]
fn it_leaves_alone_what_does_not_help_or_is_not_its_to_judge() {
    let mut cluster = unattended();
    let mut odd = pod("odd", 3000).patient();
    odd.unjudged = vec!["hostPort".into()];
    let mut device = pod("device", 3000).patient();
    device.requests.other.insert("example.com/dracard".into(), 1);
    for pod in [pod("huge", 11_000).patient(), odd, device, pod("preempts", 11_000)] {
        cluster.create_pod(pod, seconds(1000));
    }
    cluster.run_for(seconds(20));
    assert_eq!(
        relief(&cluster, in_mode_operator()),
        [
            (key("huge"), Help::Nothing),
            (
                key("device"),
                Help::Unjudged(vec!["example.com/dracard, which no node has in its allocatable".into()])
            ),
            (key("odd"), Help::Unjudged(vec!["hostPort".into()]))
        ]
    );
    assert!(
        relief(&cluster, settings().filled_to(1.0)).is_empty(),
        "kube-scheduler makes room in its own mode"
    );
}
