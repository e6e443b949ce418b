//! One that fits into the empty cluster does not wait forever while others that came later start.

use proptest::prelude::*;
use scavenger_planner::{
    fixtures::{key, node, pod, seconds, settings, sj},
    values::Phase,
};
use scavenger_simulator::{Cluster, Workload};

/// How long each of the many runs at most, in seconds.
const LONGEST: i64 = 100;

/// So many of the small ones are there before the big one.
const BEFORE: i64 = 20;

/// An endless stream of small ones over a cluster in which a big one waits.
#[derive(Debug, Clone)]
struct Stream {
    nodes: Vec<i64>,
    /// Percent of the largest node that each pod of the big one asks for.
    big: i64,
    pods: u32,
    /// Processor time and run time of each of the small ones.
    small: Vec<(i64, i64)>,
    /// Percent of each node that ordinary pods use.
    ordinary: i64,
    /// One of so many is preempted now and then, and comes before the big one again.
    preempts: bool,
    /// The pool's `reserveAfter` in seconds.
    reserve_after: i64,
}

fn stream() -> impl Strategy<Value = Stream> {
    let nodes = prop::collection::vec(4..9_i64, 1..4);
    let small = prop::collection::vec((1..5_i64, 20..LONGEST), 3..8);
    (nodes, 60..91_i64, 1..3_u32, small, 0..2_i64, any::<bool>(), 60..900_i64).prop_map(
        |(nodes, big, pods, small, ordinary, preempts, reserve_after)| Stream {
            // As many of the nodes as it has pods can take it.
            pods: pods.min(u32::try_from(nodes.len()).unwrap_or(1)),
            nodes: nodes.into_iter().map(|cpu| cpu * 1000).collect(),
            big,
            small: small.into_iter().map(|(cpu, needs)| (cpu * 500, needs)).collect(),
            ordinary: ordinary * 10,
            preempts,
            reserve_after,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 20, ..super::cases(8) })]

    #[test]
    fn the_big_one_starts_soon_after_room_is_kept_for_it(stream in stream()) {
        let names = (0..stream.nodes.len()).map(|number| format!("n{number}"));
        let nodes: Vec<_> = names.zip(&stream.nodes).map(|(name, cpu)| node(&name, *cpu)).collect();
        let mut pool = settings().filled_to(1.0).starting_at_once(4);
        pool.reserve_after = seconds(stream.reserve_after);
        let mut cluster = Cluster::new(pool).with_nodes(nodes.clone());
        for node in &nodes {
            let name = format!("owner-{}", node.name);
            cluster.create_pod(pod(&name, node.allocatable.cpu_milli * stream.ordinary / 100 + 1), seconds(100_000));
        }
        cluster.run_for(seconds(5));
        let count = usize::try_from(stream.pods).unwrap_or(1);
        let mut sizes = stream.nodes.clone();
        sizes.sort_unstable();
        let smallest = sizes.iter().rev().nth(count - 1).copied().unwrap_or_default();
        let asks = smallest * stream.big.min(85 - stream.ordinary) / 100;
        let mut number = 0;
        let mut submit = |cluster: &mut Cluster| {
            let (cpu, needs) = stream.small[number % stream.small.len()];
            let workload = Workload { needs: seconds(needs), ..Workload::default() };
            cluster.submit(sj(&format!("small{number}")).asking(cpu), workload);
            number += 1;
        };
        // The cluster is full, and stays so.
        for _ in 0..BEFORE {
            submit(&mut cluster);
        }
        cluster.run_for(seconds(20));
        let workload = Workload { needs: seconds(10), ..Workload::default() };
        cluster.submit(sj("big").asking(asks).gang(stream.pods), workload);
        // Those that were there before it have their turn first, however long that takes; then those that started
        // before room was kept for it end, and after an interruption they may do so once more.
        let mut patience = stream.reserve_after + 3 * LONGEST;
        let mut round = 0;
        while patience > 0 && !cluster.starts.iter().any(|(started, _)| *started == key("big")) {
            let waiting = cluster.scavenger_jobs().filter(|sj| sj.status.phase == Phase::Waiting).count();
            for _ in waiting..10 {
                submit(&mut cluster);
            }
            let victim = cluster.all_live_pods().first().map(|pod| pod.key.clone());
            if let Some(victim) = victim.filter(|_| stream.preempts && round % 10 == 0) {
                cluster.preempt(&victim);
            }
            cluster.run_for(seconds(10));
            round += 1;
            prop_assert!(round < BEFORE * LONGEST, "those that came before the big one do not end");
            let through = (0..BEFORE).all(|number| cluster.status(&format!("small{number}")).phase.is_finished());
            if through || patience > 3 * LONGEST {
                patience -= 10;
            }
        }
        let started = cluster.starts.iter().any(|(started, _)| *started == key("big"));
        prop_assert!(started, "the big one waits, with {asks} of each of {count} nodes: {:?}", cluster.status("big"));
    }
}
