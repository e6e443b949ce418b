//! The node and the victims for a pending pod, against trying every set on every node.

use std::cmp::Reverse;

use proptest::prelude::*;
use scavenger_planner::{
    fixtures::{at, key, node, pod, seconds, settings, sj},
    internals::{
        Candidate,
        pending_pod::{self, CandidateNode},
    },
    loss::Loss,
    resources::Resources,
    values::Phase,
};
use scavenger_simulator::{Cluster, Workload};

fn amounts((cpu, memory, gpu): (i64, i64, i64)) -> Resources {
    let other = if gpu == 0 { [].into() } else { [("gpu".into(), gpu)].into() };
    Resources { cpu_milli: cpu * 1000, memory_bytes: memory << 30, pods: 1, other }
}

fn place(number: usize) -> impl Strategy<Value = CandidateNode> {
    let victim = ((0..6_i64, 0..6_i64, 0..3_i64), 0..12_u32);
    let victims = prop::collection::vec(victim, 0..9);
    ((-2..6_i64, -2..6_i64, 0..3_i64), 0..3_i64, victims).prop_map(move |(free, pods, victims)| {
        CandidateNode {
            node: format!("n{number}").into(),
            free: Resources { pods, ..amounts(free) },
            candidates: victims
                .into_iter()
                .enumerate()
                .map(|(index, (held, loss))| Candidate {
                    sj: key(&format!("job{number}-{index}")),
                    held: amounts(held),
                    loss: Loss {
                        amount: loss.into(),
                        interrupted_count: 0,
                        began: Reverse(at(0)),
                        uid: format!("{number}-{index}").into(),
                    },
                    is_young: false,
                })
                .collect(),
        }
    })
}

fn places() -> impl Strategy<Value = Vec<CandidateNode>> {
    (0..4_usize).prop_flat_map(|count| (0..count).map(place).collect::<Vec<_>>())
}

/// What is lost if these victims go, if that makes room.
fn loss(requests: &Resources, place: &CandidateNode, goes: impl Fn(usize) -> bool) -> Option<u128> {
    let mut free = place.free.clone();
    let mut lost = 0;
    for (_, victim) in place.candidates.iter().enumerate().filter(|(number, _)| goes(*number)) {
        free.add(&victim.held);
        lost += victim.loss.amount;
    }
    requests.exceeds(&free).is_none().then_some(lost)
}

proptest! {
    #![proptest_config(super::cases(3000))]

    #[test]
    fn no_set_on_any_node_loses_less_and_nobody_goes_in_vain(
        requests in (1..12_i64, 0..12_i64, 0..4_i64),
        places in places(),
    ) {
        let requests = amounts(requests);
        let least = places
            .iter()
            .flat_map(|place| {
                let sets = 0..1_u32 << place.candidates.len();
                sets.filter_map(|set| loss(&requests, place, |number| set & (1 << number) != 0))
            })
            .min();
        match pending_pod::choose(&requests, places.clone()) {
            None => prop_assert_eq!(least, None, "somebody could help"),
            Some((node, scavenger_jobs)) => {
                let place = places.iter().find(|place| place.node == node).expect("the node should exist");
                let goes = |number: usize| scavenger_jobs.contains(&place.candidates[number].sj);
                let lost = loss(&requests, place, goes);
                prop_assert!(lost.is_some(), "it would not help");
                prop_assert_eq!(lost, least);
                for spared in (0..place.candidates.len()).filter(|number| goes(*number)) {
                    let without = loss(&requests, place, |number| goes(number) && number != spared);
                    prop_assert_eq!(without, None, "{} goes in vain", spared);
                }
            }
        }
    }
}

/// Beside the owners' pods that are there, is there a node for one more?
fn has_room(cluster: &Cluster, cpu_milli: i64) -> bool {
    ["n1", "n2"].iter().any(|node| {
        let ordinary = cluster.ordinary_pods().filter(|pod| pod.node.as_deref() == Some(node));
        ordinary.map(|pod| pod.requests.cpu_milli).sum::<i64>() + cpu_milli <= 10_000
    })
}

proptest! {
    #![proptest_config(super::cases(30))]

    /// The model panics if an ordinary pod is ever evicted.
    #[test]
    fn every_pod_that_can_be_helped_runs_and_nobody_goes_more_than_once_for_each(
        scavenger_jobs in prop::collection::vec((1..8_i64, 1..3_u32, 0..40_i64), 1..8),
        owners in prop::collection::vec((1..11_i64, 0..20_i64), 1..5),
        seed in any::<u64>(),
    ) {
        let mut cluster = Cluster::new(settings().preempting().filled_to(1.0))
            .with_nodes([node("n1", 10_000), node("n2", 10_000)]);
        cluster.strict = false;
        cluster.random = Some((scavenger_simulator::Random::new(seed), 0));
        for (number, (cpu, pods, after)) in scavenger_jobs.iter().enumerate() {
            let sj = sj(&format!("job{number}")).asking(cpu * 1000).gang(*pods);
            cluster.submit(sj, Workload { needs: seconds(2000), ..Workload::default() });
            cluster.run_for(seconds(*after));
        }
        cluster.run_for(seconds(20));
        let mut served = 0_u32;
        for (number, (cpu, after)) in owners.iter().enumerate() {
            let fits = has_room(&cluster, cpu * 1000);
            let name = format!("owner{number}");
            cluster.create_pod(pod(&name, cpu * 1000).patient(), seconds(100_000));
            if fits {
                cluster.run_until("the owner's pod has a node", |cluster| {
                    cluster.pod(&name).is_some_and(|pod| pod.node.is_some())
                });
                served += 1;
            }
            cluster.run_for(seconds(*after));
        }
        let running = cluster.scavenger_jobs().filter(|sj| sj.status.phase == Phase::Running).count();
        let interrupted: u32 = cluster.scavenger_jobs().map(|sj| sj.status.interrupted_count).sum();
        let most = u32::try_from(scavenger_jobs.len()).unwrap() * served;
        prop_assert!(interrupted <= most, "{} interruptions, {} run", interrupted, running);
    }
}
