//! PersistentVolumes tie pods to nodes: those of ScavengerJobs, and ordinary ones for which room is made.

use scavenger_planner::{
    fixtures::{at, key, node, pod, seconds, settings, sj},
    guard::Help,
    values::{Access, Expression, Key, NodeTerm, Observation, Operator, Phase, Volume, WaitingReason},
};
use scavenger_simulator::{Cluster, Traced, Workload};

use super::work;

/// A volume that is bound to a claim, on the node of this name.
fn volume(name: &str, claim: &str, node: &str) -> Volume {
    let here = Expression { key: "name".into(), operator: Operator::In, values: vec![node.into()] };
    let affinity = vec![NodeTerm { labels: vec![here], names: Vec::new() }];
    Volume { name: name.into(), claim: Some(key(claim)), affinity, access: Access::ManyNodes }
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
    let mut planner = Traced::default();
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
    cluster.submit(sj("tied").asking(5000).mounting("data"), work(50));
    cluster.submit(sj("free").asking(5000).mounting("unbound"), work(50));
    cluster.run_until_phase("free", Phase::Running);
    cluster.run_for(seconds(30));
    assert_eq!(cluster.waits("tied"), Some(WaitingReason::NoCapacity), "{:?}", cluster.status("tied"));
    // A volume that moves, as network volumes do, lets it go where it is then.
    cluster.planner.observe(Observation::Volume(volume("pv", "data", "n2")), cluster.now);
    cluster.run_until_phase("tied", Phase::Running);
    assert!(cluster.status("first").finish_time.is_none());
}

#[test]
fn while_volumes_cannot_be_listed_only_those_wait_whose_volume_is_not_known() {
    let mut cluster = with_volume(Access::OneNode);
    cluster.planner.observe(Observation::VolumesKnown(false), cluster.now);
    cluster.submit(sj("plain").asking(1000), work(50));
    submit(&mut cluster, "known", 1000, 50);
    for name in ["listed", "shown"] {
        cluster.submit(sj(name).asking(1000).mounting(name), work(50));
    }
    cluster.run_until_phase("plain", Phase::Running);
    cluster.run_until_phase("known", Phase::Running);
    cluster.run_for(seconds(100));
    for name in ["listed", "shown"] {
        assert_eq!(cluster.waits(name), Some(WaitingReason::VolumeUnknown), "{:?}", cluster.status(name));
        let expected = format!(
            "the volume of PersistentVolumeClaim {name:?} is not known; waits until the operator can list \
             PersistentVolumes"
        );
        assert_eq!(cluster.status(name).message, expected);
    }
    cluster.planner.observe(Observation::Volume(volume("pv-2", "shown", "n2")), cluster.now);
    cluster.run_until_phase("shown", Phase::Running);
    assert!(!cluster.status("listed").phase.is_active(), "{:?}", cluster.status("listed"));
    // That claim is not bound: it goes anywhere.
    cluster.planner.observe(Observation::VolumesKnown(true), cluster.now);
    cluster.run_for(seconds(5));
    assert!(cluster.status("listed").phase.is_active(), "{:?}", cluster.status("listed"));
}

/// Claim `data` is bound to a volume that can be mounted so often, and two empty nodes.
fn with_volume(access: Access) -> Cluster {
    let nodes = ["n1", "n2"].map(|name| node(name, 10_000).labelled("name", name));
    let mut cluster = Cluster::new(settings().filled_to(1.0)).with_nodes(nodes);
    let volume = Volume { affinity: Vec::new(), access, ..volume("pv", "data", "n1") };
    cluster.planner.observe(Observation::Volume(volume), cluster.now);
    cluster
}

fn submit(cluster: &mut Cluster, name: &str, cpu: i64, needs: i64) {
    cluster.submit(sj(name).asking(cpu).mounting("data"), work(needs));
}

fn node_of_pod(cluster: &Cluster, sj: &str) -> Option<String> {
    cluster.live_pods(sj).first().and_then(|pod| Some(pod.node.as_ref()?.to_string()))
}

#[test]
fn those_that_share_a_volume_of_one_node_go_to_that_node_or_wait() {
    let mut cluster = with_volume(Access::OneNode);
    for (name, cpu) in [("a", 6000), ("b", 3000), ("large", 8000)] {
        submit(&mut cluster, name, cpu, 100);
    }
    cluster.run_until_phase("a", Phase::Running);
    cluster.run_until_phase("b", Phase::Running);
    let there = node_of_pod(&cluster, "a").unwrap();
    assert_eq!(node_of_pod(&cluster, "b").as_ref(), Some(&there));
    cluster.run_for(seconds(5));
    assert_eq!(cluster.waits("large"), Some(WaitingReason::NoCapacity));
    let message = &cluster.status("large").message;
    assert!(message.ends_with(&format!("its volume is attached to node {there}")), "{message}");
    // Once the volume is detached, it may go anywhere.
    cluster.run_until_phase("large", Phase::Completed);
    assert_eq!(cluster.starts.len(), 3, "none of them was tried in vain");
}

#[test]
fn two_on_a_claim_whose_volume_is_made_where_the_first_goes_do_not_start_together() {
    for names in [["a", "b"], ["b", "a"]] {
        for random in 0..8 {
            let nodes = ["n1", "n2"].map(|name| node(name, 10_000).labelled("name", name));
            let mut cluster = Cluster::new(settings().filled_to(1.0)).with_nodes(nodes);
            cluster.random = Some((scavenger_simulator::Random::new(random), 0));
            cluster.fresh_claims.insert(key("data"), Access::OneNode);
            // Each fits on a node of its own only.
            for name in names {
                submit(&mut cluster, name, 6000, 100);
            }
            cluster.run_until("one of them runs", |cluster| {
                names.iter().any(|name| cluster.exists(name) && cluster.status(name).phase == Phase::Running)
            });
            cluster.run_for(seconds(30));
            assert_eq!(cluster.starts.len(), 1, "{random}\n{}", cluster.history());
            cluster.run_until("both have ended", |cluster| {
                names.iter().all(|name| cluster.status(name).phase == Phase::Completed)
            });
            assert_eq!(cluster.starts.len(), 2, "none of them was tried in vain");
        }
    }
}

#[test]
fn what_its_volume_can_do_counts_more_than_what_a_claim_asks_for() {
    let mut cluster = with_volume(Access::ManyNodes);
    cluster.fresh_claims.insert(key("data"), Access::OneNode);
    for name in ["a", "b"] {
        submit(&mut cluster, name, 8000, 100);
    }
    cluster.run_until_phase("a", Phase::Running);
    cluster.run_until_phase("b", Phase::Running);
    assert_ne!(node_of_pod(&cluster, "a"), node_of_pod(&cluster, "b"));
}

#[test]
fn a_volume_of_many_nodes_ties_nobody_down() {
    let mut cluster = with_volume(Access::ManyNodes);
    for name in ["a", "b"] {
        submit(&mut cluster, name, 8000, 100);
    }
    cluster.run_until_phase("a", Phase::Running);
    cluster.run_until_phase("b", Phase::Running);
    assert_ne!(node_of_pod(&cluster, "a"), node_of_pod(&cluster, "b"));
}

#[test]
fn an_ordinary_pod_that_mounts_the_volume_counts() {
    let mut cluster = with_volume(Access::OneNode);
    let mut standing = pod("shop", 2000).on("n1").running();
    standing.claims = vec!["data".into()];
    cluster.planner.observe(Observation::Pod(Box::new(standing.clone())), cluster.now);
    submit(&mut cluster, "a", 9000, 100);
    cluster.run_for(seconds(30));
    assert_eq!(cluster.waits("a"), Some(WaitingReason::NoCapacity));
    cluster.planner.observe(Observation::PodGone(standing.key), cluster.now);
    cluster.run_until_phase("a", Phase::Running);
}

#[test]
fn a_volume_of_one_pod_is_waited_for() {
    let mut cluster = with_volume(Access::OnePod);
    for name in ["a", "b"] {
        submit(&mut cluster, name, 1000, 100);
    }
    cluster.run_until_phase("a", Phase::Running);
    cluster.run_for(seconds(60));
    assert_eq!(cluster.waits("b"), Some(WaitingReason::VolumeInUse));
    assert_eq!(
        cluster.status("b").message,
        "PersistentVolumeClaim \"data\" can be mounted by one pod, and pod a-1-0 mounts it; waits until that pod has ended"
    );
    assert_eq!(cluster.status("a").phase, Phase::Running);
    cluster.run_until_phase("b", Phase::Completed);
}

#[test]
fn a_start_that_fails_gives_the_volume_to_the_next() {
    let mut cluster = with_volume(Access::OneNode);
    let never = Workload { never_scheduled: true, ..work(100) };
    cluster.submit(sj("never").mounting("data"), never);
    cluster.run_for(seconds(2));
    submit(&mut cluster, "next", 1000, 10);
    cluster.run_for(seconds(10));
    assert_eq!(
        cluster.status("next").message,
        "PersistentVolumeClaim \"data\" can be mounted on one node; waits until ScavengerJob never, which mounts it too, \
         has a node"
    );
    cluster.run_until_phase("next", Phase::Completed);
    assert_eq!(cluster.status("never").failed_starts, 1);
}

/// The nodes of a ScavengerJob's pods.
fn nodes_of_pods(cluster: &Cluster, sj: &str) -> Vec<String> {
    let pods = cluster.live_pods(sj);
    pods.iter().filter_map(|pod| Some(pod.node.as_ref()?.to_string())).collect()
}

#[test]
fn a_gang_that_mounts_a_volume_of_one_node_goes_to_one_node_or_waits() {
    // Whether the volume is there or will be made where the first pod goes.
    for is_fresh in [false, true] {
        let mut cluster = with_volume(if is_fresh { Access::ManyNodes } else { Access::OneNode });
        let claim = if is_fresh { "fresh" } else { "data" };
        cluster.fresh_claims.insert(key(claim), Access::OneNode);
        let gang = |name: &str, cpu| sj(name).asking(cpu).gang(3).mounting(claim);
        // 12,000 are free, enough for three pods with 3000, but not on one node.
        for (name, node, cpu) in [("shop", "n1", 3000), ("standing", "n2", 5000)] {
            cluster.create_pod(pod(name, cpu).on(node).running(), seconds(100_000));
        }
        cluster.submit(gang("gang", 3000), work(50));
        cluster.run_for(seconds(60));
        assert_eq!(cluster.waits("gang"), Some(WaitingReason::NoCapacity), "{}", cluster.history());
        assert_eq!(
            cluster.status("gang").message,
            "no node has capacity for all 3 pods with 3 cpu, 3000 MiB each now (2 nodes looked at), and they mount a \
             volume that one node at a time can mount"
        );
        cluster.delete_pod(&key("shop"));
        cluster.run_until_phase("gang", Phase::Running);
        assert_eq!(nodes_of_pods(&cluster, "gang"), ["n1"; 3], "{is_fresh}");
        // Another one that mounts it goes there, too, with all of its pods.
        if !is_fresh {
            cluster.submit(gang("second", 300), work(10));
            cluster.run_until_phase("second", Phase::Running);
            assert_eq!(nodes_of_pods(&cluster, "second"), ["n1"; 3]);
        }
        cluster.run_until_phase("gang", Phase::Completed);
        assert_eq!(cluster.starts.len(), if is_fresh { 1 } else { 2 }, "none was tried in vain");
        cluster.submit(gang("large", 4000), work(50));
        cluster.run_for(seconds(60));
        assert_eq!(cluster.waits("large"), Some(WaitingReason::NeverFits), "{:?}", cluster.status("large"));
    }
}

#[test]
fn a_gang_of_one_node_keeps_its_node_when_the_planner_begins_again() {
    let mut cluster = with_volume(Access::OneNode);
    cluster.scheduler_works = false;
    cluster.submit(sj("gang").asking(3000).gang(3).mounting("data"), work(50));
    cluster.run_until_phase("gang", Phase::Starting);
    cluster.restart(false);
    let volume = Volume { affinity: Vec::new(), access: Access::OneNode, ..volume("pv", "data", "n1") };
    cluster.planner.observe(Observation::Volume(volume), cluster.now);
    cluster.run_for(seconds(1));
    let node = cluster.status("gang").attempt.as_ref().unwrap().node.clone().unwrap();
    let promised = cluster.planner.ledger().promised(&node).unwrap();
    assert_eq!(promised.cpu_milli, 9000, "{:?}", cluster.planner.ledger());
    cluster.scheduler_works = true;
    cluster.create_pod(pod("wakes-the-scheduler", 10), seconds(10));
    cluster.run_until_phase("gang", Phase::Running);
    assert_eq!(nodes_of_pods(&cluster, "gang"), [node.as_ref(); 3], "{}", cluster.history());
}

#[test]
fn a_gang_that_is_not_placed_on_the_node_chosen_for_it_is_tried_on_another() {
    let mut cluster = with_volume(Access::OneNode);
    let never = Workload { never_scheduled: true, ..work(50) };
    cluster.submit(sj("gang").asking(3000).gang(3).mounting("data"), never);
    let mut nodes = Vec::new();
    for failed in 0..3 {
        cluster.run_until("it starts once more", |cluster| {
            let status = cluster.status("gang");
            status.failed_starts == failed && status.phase == Phase::Starting
        });
        let attempt = cluster.status("gang").attempt.clone().unwrap();
        nodes.extend(attempt.node.map(|node| node.to_string()));
    }
    assert_eq!(nodes, ["n1", "n2", "n1"]);
}

#[test]
fn a_gang_on_a_volume_of_one_pod_is_told_that_it_can_never_mount_it() {
    let mut cluster = with_volume(Access::OnePod);
    cluster.submit(sj("gang").asking(1000).gang(3).mounting("data"), work(50));
    cluster.run_for(seconds(60));
    assert_eq!(cluster.waits("gang"), Some(WaitingReason::VolumeInUse));
    assert_eq!(
        cluster.status("gang").message,
        "PersistentVolumeClaim \"data\" can be mounted by one pod, and this ScavengerJob has 3; waits until its access \
         mode is another, or its podCount 1"
    );
    assert!(cluster.starts.is_empty());
}
