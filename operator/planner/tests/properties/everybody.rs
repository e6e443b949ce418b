//! Everybody starts who fits beside the ordinary pods: several kinds of demands, gangs, starts that fail, interruptions.

use jiff::Timestamp;
use proptest::prelude::*;
use scavenger_planner::{
    fixtures::{key, node, pod, seconds, settings, sj},
    resources::Share,
    values::{Phase, ScavengerJob},
};
use scavenger_simulator::{Cluster, Workload};

/// Processor time of each of the two nodes.
const NODE: i64 = 10_000;

/// How long each of the small ones runs at most, in seconds.
const LONGEST: i64 = 100;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Plain,
    Gpu,
    Storage,
    Gang,
}

/// One of the large ones.
#[derive(Debug, Clone)]
struct Large {
    kind: Kind,
    /// Percent of a node that each of its pods asks for.
    asks: i64,
    needs: i64,
    /// When it is submitted, after the one before.
    after: i64,
    /// How long after its first start it is preempted, once.
    preempted: Option<i64>,
    /// True if its first start fails.
    fails: bool,
}

#[derive(Debug, Clone)]
struct World {
    at_once: usize,
    reserve_after: i64,
    /// Percent of each node that ordinary pods use.
    ordinary: i64,
    /// True if the node with the GPU is tainted, which those of one node without a GPU do not tolerate.
    tainted: bool,
    larges: Vec<Large>,
    /// Processor time and run time of the small ones that come all the time.
    small: Vec<(i64, i64)>,
}

fn large() -> impl Strategy<Value = Large> {
    let kind = prop_oneof![Just(Kind::Plain), Just(Kind::Gpu), Just(Kind::Storage), Just(Kind::Gang)];
    let preempted = prop::option::weighted(0.6, 50..600_i64);
    (kind, 20..90_i64, 100..1500_i64, 0..200_i64, preempted, prop::bool::weighted(0.3)).prop_map(
        |(kind, asks, needs, after, preempted, fails)| Large { kind, asks, needs, after, preempted, fails },
    )
}

fn world() -> impl Strategy<Value = World> {
    let larges = prop::collection::vec(large(), 3..7);
    let small = prop::collection::vec((1..5_i64, 20..LONGEST), 3..6);
    (prop::bool::ANY, 60..400_i64, 0..2_i64, prop::bool::ANY, larges, small).prop_map(
        |(one, reserve_after, ordinary, tainted, larges, small)| World {
            at_once: if one { 1 } else { 4 },
            reserve_after,
            ordinary: ordinary * 10,
            tainted,
            larges: larges
                .into_iter()
                // Both ordinary pods may be on one node.
                .map(|large| Large { asks: large.asks.min(88 - ordinary * 20), ..large })
                .collect(),
            small: small.into_iter().map(|(cpu, needs)| (cpu * 500, needs)).collect(),
        },
    )
}

impl World {
    fn cluster(&self) -> Cluster {
        let nodes = ["n1", "n2"].map(|name| node(name, NODE).having("ephemeral-storage", 100));
        let nodes = nodes.map(|node| if &*node.name == "n1" { node.having("gpu", 1) } else { node });
        let nodes =
            nodes.map(|node| if self.tainted && &*node.name == "n1" { node.tainted("gpu") } else { node });
        // With a taint each node has a threshold of its own, which all of the large ones stay below.
        let mut pool =
            settings().filled_to(if self.tainted { 0.95 } else { 1.0 }).starting_at_once(self.at_once);
        pool.tolerated_taints.push("gpu".into());
        pool.start_thresholds.overrides.insert("gpu".into(), Share::from_fraction(1.0));
        pool.reserve_after = seconds(self.reserve_after);
        let mut cluster = Cluster::new(pool).with_nodes(nodes);
        for name in ["ordinary1", "ordinary2"] {
            cluster.create_pod(pod(name, NODE * self.ordinary / 100 + 1), seconds(1_000_000));
        }
        cluster.run_for(seconds(5));
        cluster
    }

    /// How long it may take until all of the large ones are through: one after the other, each twice, with as long as
    /// others may be let past, as failed starts and delays may take, and as the small ones run that were let past.
    fn patience(&self) -> i64 {
        let each = |large: &Large| 2 * (large.needs + large.after + self.reserve_after + 3 * LONGEST + 300);
        self.larges.iter().map(each).sum::<i64>() + 3000
    }
}

impl Large {
    fn sj(&self, name: &str) -> ScavengerJob {
        let sj = sj(name).asking(NODE * self.asks / 100);
        match self.kind {
            Kind::Plain => sj,
            Kind::Gpu => sj.asking_for("gpu", 1).tolerating("gpu"),
            Kind::Storage => sj.asking_for("ephemeral-storage", 10),
            Kind::Gang => sj.gang(2).tolerating("gpu"),
        }
    }
}

/// When the large one of this name is to be preempted.
fn due(cluster: &Cluster, name: &str, large: &Large) -> Option<Timestamp> {
    let status = cluster.status(name);
    let started = status.start_times.first().filter(|_| status.interrupted_count == 0)?;
    Some(*started + seconds(large.preempted?))
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 20, ..super::cases(24) })]

    #[test]
    fn everybody_who_fits_beside_the_ordinary_pods_starts_within_a_bound(world in world()) {
        let mut cluster = world.cluster();
        cluster.thorough = false;
        let mut times: Vec<i64> = Vec::new();
        for large in &world.larges {
            times.push(times.last().unwrap_or(&0) + large.after);
        }
        let names: Vec<String> = (0..world.larges.len()).map(|number| format!("large{number}")).collect();
        let (mut elapsed, mut small) = (0, 0);
        loop {
            for ((name, large), time) in names.iter().zip(&world.larges).zip(&times) {
                if *time > elapsed {
                    continue;
                }
                if !cluster.exists(name) {
                    let needs = seconds(large.needs);
                    let workload = Workload { needs, never_scheduled: large.fails, ..Workload::default() };
                    cluster.submit(large.sj(name), workload);
                } else if cluster.status(name).failed_starts > 0 {
                    cluster.let_schedule(name);
                }
                if due(&cluster, name, large).is_some_and(|time| time <= cluster.now) {
                    let pod = cluster.live_pods(name).first().map(|pod| pod.key.clone());
                    cluster.preempt(&pod.unwrap_or_else(|| key("nobody")));
                }
            }
            let waiting = |sj: &&ScavengerJob| sj.status.phase == Phase::Waiting && sj.key.name.starts_with("small");
            for _ in cluster.scavenger_jobs().filter(waiting).count()..6 {
                let (cpu, needs) = world.small[small % world.small.len()];
                let workload = Workload { needs: seconds(needs), ..Workload::default() };
                let sj = sj(&format!("small{small}")).asking(cpu);
                cluster.submit(if small % 2 == 0 { sj } else { sj.tolerating("gpu") }, workload);
                small += 1;
            }
            cluster.run_for(seconds(10));
            elapsed += 10;
            let is_through = |name: &String| cluster.exists(name) && cluster.status(name).phase == Phase::Completed;
            if names.iter().all(is_through) {
                break;
            }
            if elapsed > world.patience() {
                let left: Vec<_> = names.iter().filter(|name| !is_through(name)).collect();
                let said: Vec<_> = left.iter().map(|name| (name, &cluster.status(name).message)).collect();
                prop_assert!(false, "after {elapsed} s these are not through: {said:?}");
            }
        }
    }
}
