//! PersistentVolumes tie pods to nodes: those of ScavengerJobs, and ordinary ones for which room is made.

use scavenger_planner::{
    Planner,
    fixtures::{at, key, node, pod, seconds, settings, sj},
    guard::Help,
    values::{
        Access, Expression, Key, NodeTerm, Observation, Operator, Phase, ScavengerJob, Volume, WaitingReason,
    },
};
use scavenger_simulator::Cluster;

use super::work;

/// A volume that is bound to a claim, on the node of this name.
fn volume(name: &str, claim: &str, node: &str) -> Volume {
    let here = Expression { key: "name".into(), operator: Operator::In, values: vec![node.into()] };
    let affinity = vec![NodeTerm { labels: vec![here], names: Vec::new() }];
    Volume { name: name.into(), claim: Some(key(claim)), affinity, access: Access::ManyNodes }
}

fn mounting(mut sj: ScavengerJob, claim: &str) -> ScavengerJob {
    if let Ok(spec) = &mut sj.spec {
        spec.claims = vec![claim.into()];
    }
    sj
}

/// Two full nodes, of which the second has the cheaper one.
fn full() -> Cluster {
    let nodes = ["n1", "n2"].map(|name| node(name, 10_000).labelled("name", name));
    let mut cluster = Cluster::new(settings().filled_to(1.0)).with_nodes(nodes);
    for (name, node, cpu) in [("dear", "n1", 10_000), ("cheap", "n2", 9000)] {
        cluster.submit(sj(name).asking(cpu).only_on("name", node), work(3000));
        cluster.run_until_phase(name, Phase::Running);
    }
    cluster
}

/// Where room is made for a pending pod that mounts claim `data`, with these volumes.
fn room(cluster: &Cluster, seen: impl IntoIterator<Item = Observation>) -> (Key, Help) {
    let mut planner = Planner::default();
    for observation in cluster.objects() {
        planner.observe(observation, cluster.now);
    }
    let pool = settings().preempting().filled_to(1.0);
    planner.observe(Observation::Pool(Box::new(Ok(pool))), cluster.now);
    let mut owner = pod("owner", 5000).patient();
    owner.unschedulable = Some("0/2 nodes are available: 2 Insufficient cpu.".to_owned());
    owner.claims = vec!["data".into()];
    planner.observe(Observation::Pod(Box::new(owner)), cluster.now);
    // In any order: the watches have none among each other.
    for observation in seen {
        planner.observe(observation, cluster.now);
    }
    let mut helped = planner.relieve(cluster.now);
    assert_eq!(helped.len(), 1, "{helped:?}");
    helped.remove(0)
}

fn node_of(help: &Help) -> &str {
    match help {
        Help::Room { node, .. } => node,
        other => panic!("{other:?}"),
    }
}

#[test]
fn room_is_made_where_the_volume_is() {
    let cluster = full();
    for there in ["n1", "n2"] {
        let (_, help) = room(&cluster, [Observation::Volume(volume("pv", "data", there))]);
        assert_eq!(node_of(&help), there);
    }
    // One that can be mounted everywhere ties nobody down: the cheaper one goes.
    let everywhere = Volume { affinity: Vec::new(), ..volume("pv", "data", "n1") };
    assert_eq!(node_of(&room(&cluster, [Observation::Volume(everywhere)]).1), "n2");
    // Nor does one of somebody else.
    let mut others = volume("others", "data", "n1");
    others.claim = Some(Key::new("elsewhere", "data"));
    let mine = volume("pv", "data", "n2");
    assert_eq!(node_of(&room(&cluster, [others, mine].map(Observation::Volume)).1), "n2");
    // Where no node has it, nobody goes.
    let lost = volume("pv", "data", "n3");
    assert_eq!(room(&cluster, [Observation::Volume(lost)]).1, Help::Nothing);
}

#[test]
fn a_claim_that_is_not_bound_can_not_be_judged() {
    let cluster = full();
    let unbound = Help::Unjudged(vec!["PersistentVolumeClaim data is not bound".into()]);
    assert_eq!(room(&cluster, []).1, unbound);
    let gone = [Observation::Volume(volume("pv", "data", "n1")), Observation::VolumeGone("pv".into())];
    assert_eq!(room(&cluster, gone).1, unbound);
    let released = Volume { claim: None, ..volume("pv", "data", "n1") };
    let released = [volume("pv", "data", "n1"), released].map(Observation::Volume);
    assert_eq!(room(&cluster, released).1, unbound);
    let again = [volume("pv", "data", "n1"), volume("pv", "other", "n1"), volume("new", "data", "n1")];
    assert_eq!(node_of(&room(&cluster, again.map(Observation::Volume)).1), "n1");
}

#[test]
fn a_scavenger_job_waits_for_room_where_its_volume_is() {
    let nodes = ["n1", "n2"].map(|name| node(name, 10_000).labelled("name", name));
    let mut cluster = Cluster::new(settings().filled_to(1.0)).with_nodes(nodes);
    cluster.submit(sj("first").asking(8000).only_on("name", "n1"), work(100));
    cluster.run_until_phase("first", Phase::Running);
    cluster.planner.observe(Observation::Volume(volume("pv", "data", "n1")), at(10));
    cluster.submit(mounting(sj("tied").asking(5000), "data"), work(50));
    cluster.submit(mounting(sj("free").asking(5000), "unbound"), work(50));
    cluster.run_until_phase("free", Phase::Running);
    cluster.run_for(seconds(30));
    assert_eq!(cluster.waits("tied"), Some(WaitingReason::NoRoom), "{:?}", cluster.status("tied"));
    // A volume that moves, as network volumes do, lets it go where it is then.
    cluster.planner.observe(Observation::Volume(volume("pv", "data", "n2")), cluster.now);
    cluster.run_until_phase("tied", Phase::Running);
    assert!(cluster.status("first").finish_time.is_none());
}
