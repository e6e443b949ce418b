//! The walk along the queue against a second, slower statement of the same rule.

use std::collections::BTreeMap;

use proptest::prelude::*;
use scavenger_planner::{
    fixtures::{at, node, pod, settings, sj},
    internals::{Capacity, Context, Promises, Queue, Shares, Starting},
    resources::Resources,
    values::{Key, Node, Phase, ScavengerJob, WaitingReason},
};

#[derive(Debug, Clone)]
struct World {
    nodes: Vec<Node>,
    /// Used on each node.
    used: Vec<i64>,
    scavenger_jobs: Vec<ScavengerJob>,
    starting: usize,
    at_once: usize,
    share: u8,
}

fn any_sj(number: usize) -> impl Strategy<Value = ScavengerJob> {
    (1..6_i64, 1..4_u32, 0..13_u32, 0..5_i64, 0..3_u8).prop_map(
        move |(cpu, pods, interruptions, since, kind)| {
            let mut sj = sj(&format!("job{number}")).asking(cpu * 1000).gang(pods);
            sj.creation_time = at(since);
            if kind == 0 {
                sj = sj.only_on("disk", "fast");
            }
            if interruptions > 0 {
                sj.status.phase = Phase::Interrupted;
                sj.status.interrupted_count = interruptions + 1;
                sj.status.counted_interruptions = interruptions;
                sj.status.interruption_times = vec![at(10 + since)];
            }
            sj
        },
    )
}

fn world() -> impl Strategy<Value = World> {
    let nodes = prop::collection::vec((1..12_i64, any::<bool>(), 0..100_i64), 1..5);
    let scavenger_jobs = (0..12_usize).prop_flat_map(|count| (0..count).map(any_sj).collect::<Vec<_>>());
    (nodes, scavenger_jobs, 0..4_usize, 1..6_usize, 30..101_u8).prop_map(
        |(nodes, scavenger_jobs, starting, at_once, share)| World {
            used: nodes.iter().map(|(cpu, _, percent)| cpu * 1000 * percent / 100).collect(),
            nodes: nodes
                .iter()
                .enumerate()
                .map(|(number, (cpu, fast, _))| {
                    let node = node(&format!("n{number}"), cpu * 1000);
                    if *fast { node.labelled("disk", "fast") } else { node }
                })
                .collect(),
            scavenger_jobs,
            starting,
            at_once,
            share,
        },
    )
}

/// Whether pods of a demand fit onto nodes with this much free, first fit; takes the room if so.
fn place(sj: &ScavengerJob, nodes: &[Node], free: &mut Vec<i64>) -> bool {
    let demand = &sj.spec.as_ref().expect("the spec should be valid").demand;
    let mut after = free.clone();
    for _ in 0..demand.pod_count {
        let fitting = (0..nodes.len())
            .find(|i| demand.placement.admits(&nodes[*i]) && after[*i] >= demand.per_pod.cpu_milli);
        match fitting {
            Some(i) => after[i] -= demand.per_pod.cpu_milli,
            None => return false,
        }
    }
    *free = after;
    true
}

/// Why one waits, and another reason that may be given for it.
type Reasons = (WaitingReason, Option<WaitingReason>);

/// The rule, one ScavengerJob at a time: most interrupted first (10 at most count), then who has waited longest, then
/// by UID; whoever fits starts, whoever does not is passed over.
/// Of those that wait only for a start to be over, the second reason is given if there would be no room either.
fn slowly(world: &World) -> (Vec<Key>, BTreeMap<Key, Reasons>) {
    let mut queue: Vec<&ScavengerJob> = world.scavenger_jobs.iter().collect();
    queue.sort_by_key(|sj| {
        let since = sj.status.interruption_times.last().copied().unwrap_or(sj.creation_time);
        (-i64::from(sj.status.counted_interruptions.min(10)), since, sj.uid.clone())
    });
    let whole: i64 = world.nodes.iter().map(|node| node.allocatable.cpu_milli).sum();
    let limit = whole * i64::from(world.share) / 100;
    let mut used: i64 = world.used.iter().sum();
    let mut free: Vec<i64> =
        world.nodes.iter().zip(&world.used).map(|(node, used)| node.allocatable.cpu_milli - used).collect();
    let mut starting = world.starting;
    let (mut started, mut waiting) = (Vec::new(), BTreeMap::new());
    for sj in queue {
        let total = sj.spec.as_ref().expect("the spec should be valid").demand.total().cpu_milli;
        let mut empty = world.nodes.iter().map(|node| node.allocatable.cpu_milli).collect();
        let reasons = if total > limit || !place(sj, &world.nodes, &mut empty) {
            (WaitingReason::NeverFits, None)
        } else if starting >= world.at_once {
            let room = used + total <= limit && place(sj, &world.nodes, &mut free.clone());
            (WaitingReason::BehindInQueue, (!room).then_some(WaitingReason::NoCapacity))
        } else if used + total > limit || !place(sj, &world.nodes, &mut free) {
            (WaitingReason::NoCapacity, None)
        } else {
            used += total;
            starting += 1;
            started.push(sj.key.clone());
            continue;
        };
        waiting.insert(sj.key.clone(), reasons);
    }
    (started, waiting)
}

proptest! {
    #![proptest_config(super::cases(2000))]

    #[test]
    fn the_walk_starts_whom_the_rule_names_and_in_its_order(world in world()) {
        let settings = settings().filled_to(f64::from(world.share) / 100.0).starting_at_once(world.at_once);
        let mut capacity = Capacity::default();
        for (node, used) in world.nodes.iter().zip(&world.used) {
            capacity.set_node(node.clone(), Some(&settings));
            let mut pod = pod(&format!("on-{}", node.name), *used).on(&node.name).running();
            pod.requests = Resources { cpu_milli: *used, ..Resources::default() };
            capacity.set_pod(&pod);
        }
        let (mut queue, mut promises, mut shares) = (Queue::default(), Promises::default(), Shares::default());
        for sj in &world.scavenger_jobs {
            let demand = &sj.spec.as_ref().expect("the spec should be valid").demand;
            queue.insert(sj, demand, &mut capacity, &shares);
        }
        let mut room = Context {
            capacity: &mut capacity,
            promises: &mut promises,
            shares: &mut shares,
            settings: &settings,
            now: at(30),
        };
        let walk = queue.walk(&mut room, Starting { all: world.starting, failed: 0 });
        let (started, waiting) = slowly(&world);
        let walked: Vec<Key> = walk.started.iter().map(|started| started.sj.clone()).collect();
        prop_assert_eq!(&walked, &started);
        for (key, (reason, also)) in &waiting {
            let said = queue.waiting(key, &mut room, world.starting).map(|why| why.waiting.reason);
            // Whoever is not the head of its line is told to wait behind it.
            let head = said != Some(WaitingReason::BehindInQueue) || *reason == WaitingReason::BehindInQueue;
            prop_assert!(said == Some(*reason) || said == *also || !head, "{} is told {:?} instead of {:?}", key, said, reason);
            prop_assert!(head || !walk.to_report.contains(key), "{} is told although it is no head", key);
        }
        let heads = |(key, (reason, _)): &(&Key, &Reasons)| *reason != WaitingReason::NeverFits && walk.to_report.contains(key);
        let demands: std::collections::BTreeSet<_> = waiting
            .iter()
            .filter(|(_, (reason, _))| *reason != WaitingReason::NeverFits)
            .filter_map(|(key, _)| world.scavenger_jobs.iter().find(|sj| sj.key == *key))
            .map(|sj| sj.spec.as_ref().expect("the spec should be valid").demand.clone())
            .collect();
        prop_assert_eq!(waiting.iter().filter(heads).count(), demands.len(), "each line's head is told something");
        let mut promised = Resources::default();
        for sj in world.scavenger_jobs.iter().filter(|sj| started.contains(&sj.key)) {
            promised.add(&sj.spec.as_ref().expect("the spec should be valid").demand.total());
        }
        prop_assert_eq!(promises.ledger().total(), &promised);
        for key in &started {
            promises.release(key);
        }
        prop_assert_eq!(promises.ledger().total(), &Resources::default());
        prop_assert_eq!(promises.ledger().promised_nodes(), 0);
    }
}
