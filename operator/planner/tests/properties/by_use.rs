//! Accounting Usage on nodes whose ordinary pods use more and less as they like, against plain statements of what must
//! hold: what starts finds capacity beside the last sample, and what is too much is given back.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;
use scavenger_planner::{
    fixtures::{node, pod, seconds, settings, sj},
    values::{Accounting, Name, Observation, Phase, PodUsage, Reason, Usage},
};
use scavenger_simulator::{Cluster, Workload};

use super::cases;

/// How often everything is measured.
const EVERY: i64 = 15;

/// Cores and GiB of each node, in thousandths.
const WHOLE: i64 = 20_000;

/// How long ordinary pods run.
const FOREVER: SignedDuration = SignedDuration::from_hours(1000);

/// From some minute on the ordinary pods of a node use this much: node, minute, millicores, MiB.
type Change = (usize, i64, i64, i64);

fn name(node: usize) -> Name {
    format!("n{node}").as_str().into()
}

/// What ordinary pods of a node use at a minute.
fn used(changes: &[Change], node: usize, minute: i64) -> (i64, i64) {
    let of_node = changes.iter().filter(|change| change.0 == node && change.1 <= minute);
    of_node.max_by_key(|change| change.1).map_or((1000, 1000), |change| (change.2, change.3))
}

/// What pods of ScavengerJobs hold on each node: millicores and MiB.
fn held(cluster: &Cluster) -> BTreeMap<Name, (i64, i64)> {
    let mut held: BTreeMap<Name, (i64, i64)> = BTreeMap::new();
    for pod in cluster.all_live_pods().into_iter().filter(|pod| pod.owner.is_some()) {
        if let Some(node) = &pod.node {
            let on_node = held.entry(node.clone()).or_default();
            on_node.0 += pod.holds().cpu_milli;
            on_node.1 += pod.holds().memory_bytes >> 20;
        }
    }
    held
}

/// Everything is measured. Pods of ScavengerJobs use all that they hold.
fn measure(cluster: &mut Cluster, nodes: usize, use_of: impl Fn(usize) -> (i64, i64)) {
    let held = held(cluster);
    let samples = (0..nodes).map(|number| {
        let (cpu, mib) = use_of(number);
        let (held_cpu, held_mib) = held.get(&name(number)).copied().unwrap_or_default();
        Usage {
            node: name(number),
            cpu_milli: cpu + held_cpu,
            memory_bytes: (mib + held_mib) << 20,
            time: cluster.now,
        }
    });
    let samples = samples.collect();
    let pods = cluster.all_live_pods().into_iter().filter(|pod| pod.owner.is_some()).map(|pod| PodUsage {
        pod: pod.key.clone(),
        time: cluster.now,
        cpu_milli: pod.holds().cpu_milli,
        memory_bytes: pod.holds().memory_bytes,
    });
    let pods = pods.collect();
    cluster.planner.observe(Observation::Usage(Some(samples)), cluster.now);
    cluster.planner.observe(Observation::PodUsage(pods), cluster.now);
    cluster.settle();
}

/// Three quarters of an hour.
const MINUTES: i64 = 45;

fn changes(nodes: usize) -> impl Strategy<Value = Vec<Change>> {
    prop::collection::vec((0..nodes, 0..MINUTES, 0..WHOLE, 0..WHOLE * 8 / 10), 0..12)
}

proptest! {
    #![proptest_config(cases(32))]

    #[test]
    fn what_starts_finds_capacity_and_what_is_too_much_is_given_back(
        changes in changes(3),
        asks in prop::collection::vec(500_i64..6000, 4..14),
    ) {
        let nodes = 3;
        let mut cluster = Cluster::new(settings().by_use().starting_at_once(3))
            .with_nodes((0..nodes).map(|number| node(&name(number), WHOLE)));
        // Each node is reserved by pods of which none asks for much.
        for number in 0..nodes * 18 {
            cluster.create_pod(pod(&format!("web-{number}"), 1000), FOREVER);
        }
        for (number, cpu) in asks.iter().enumerate() {
            let sj = sj(&format!("s{number}")).asking(*cpu);
            cluster.submit(sj, Workload { needs: seconds(100_000), ..Workload::default() });
        }
        cluster.run_for(seconds(5));
        let mut started: BTreeMap<Name, u32> = BTreeMap::new();
        // Since when each node has had more than it may have, with ordinary pods that use the same.
        let mut too_much: BTreeMap<usize, ((i64, i64), Timestamp)> = BTreeMap::new();
        for step in 0..MINUTES * 60 / EVERY {
            let before = (step - 1) * EVERY / 60;
            cluster.run_for(seconds(EVERY));
            // What started since the last samples found capacity beside them.
            for sj in cluster.scavenger_jobs().filter(|sj| sj.status.phase == Phase::Running) {
                let Some(attempt) = &sj.status.attempt else { continue };
                if started.insert(sj.key.name.clone(), attempt.number) == Some(attempt.number) {
                    continue;
                }
                prop_assert_eq!(attempt.accounting, Accounting::Usage);
                let place = attempt.node.clone().unwrap();
                let number: usize = place[1..].parse().unwrap();
                let (cpu, mib) = used(&changes, number, before.max(0));
                let (held_cpu, held_mib) = held(&cluster).get(&place).copied().unwrap_or_default();
                let limit = WHOLE * 7 / 10;
                prop_assert!(
                    cpu + held_cpu <= limit && mib + held_mib <= limit,
                    "{} started on {place} beside {cpu} and {mib}: {held_cpu} and {held_mib} are held\n{}",
                    sj.key, cluster.history()
                );
            }
            let minute = step * EVERY / 60;
            measure(&mut cluster, nodes, |number| used(&changes, number, minute));
            // What is too much is given back: memory at once, cpu after a minute; both within the grace period. For half a
            // minute after another ended it is not certain how much is used.
            for number in 0..nodes {
                let (cpu, mib) = used(&changes, number, minute);
                let (held_cpu, held_mib) = held(&cluster).get(&name(number)).copied().unwrap_or_default();
                let limit = WHOLE * 9 / 10;
                let is_too_much = held_cpu + held_mib > 0 && (cpu + held_cpu > limit || mib + held_mib > limit);
                if is_too_much {
                    let (of, since) = too_much.entry(number).or_insert(((cpu, mib), cluster.now));
                    if *of != (cpu, mib) {
                        (*of, *since) = ((cpu, mib), cluster.now);
                    }
                    let waits = cluster.now.duration_since(*since);
                    prop_assert!(
                        waits <= seconds(60 + 30 + 30 + 2 * EVERY),
                        "n{number} has had too much for {waits}\n{}", cluster.history()
                    );
                } else {
                    too_much.remove(&number);
                }
            }
        }
        // Nobody went for another reason than what ordinary pods use.
        for sj in cluster.scavenger_jobs() {
            let reason = sj.status.attempt.as_ref().and_then(|attempt| attempt.disruption.as_ref());
            let reason = reason.map(|disruption| disruption.reason.clone());
            let allowed = [Reason::NodeMemoryShort, Reason::NodeCPUShort, Reason::NodePressure];
            prop_assert!(reason.as_ref().is_none_or(|reason| allowed.contains(reason)), "{reason:?}");
        }
    }
}
