//! Whatever times are announced for nodes: nothing starts there that cannot save before, a node that was announced early enough is empty
//! at its time, one that was not is empty soon after, and an ordinary pod waits no longer for it.

use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;
use scavenger_planner::{
    fixtures::{at, budget, node, pod, seconds, settings, sj},
    values::{Budget, Node, ScavengerJob},
};
use scavenger_simulator::{Cluster, Workload};

const NODES: usize = 4;
const JOBS: usize = 20;

#[derive(Debug, Clone, Copy)]
enum Event {
    /// A node leaves after so many seconds.
    Leaves(usize, i64),
    Stays(usize),
    Waits,
    Restart,
}

#[derive(Debug, Clone)]
struct World {
    budget: Option<Budget>,
    /// Pods, millicores, `interruptionAfter` in seconds, and whether it saves on SIGTERM.
    jobs: Vec<(u32, i64, i64, bool)>,
    /// What happens, and after how many seconds.
    events: Vec<(i64, Event)>,
}

fn world() -> impl Strategy<Value = World> {
    let budget = prop::option::of((1..5_usize, 1..29_i64).prop_map(|(jobs, period)| budget(jobs, period)));
    let job = (1..3_u32, 500..3000_i64, 60..7200_i64, any::<bool>());
    let event = prop_oneof![
        5 => (0..NODES, -100..4000_i64).prop_map(|(node, after)| Event::Leaves(node, after)),
        2 => (0..NODES).prop_map(Event::Stays),
        1 => Just(Event::Waits),
        1 => Just(Event::Restart),
    ];
    let events = prop::collection::vec((1..900_i64, event), 1..8);
    (budget, prop::collection::vec(job, JOBS), events).prop_map(|(budget, jobs, events)| World {
        budget,
        jobs,
        events,
    })
}

fn usual(number: usize) -> Node {
    node(&format!("n{number}"), 10_000)
}

/// When something is known of a node: when it was said, and until when it is in the pool.
type Said = (Timestamp, Option<Timestamp>);

/// How long it takes at least until it has saved: the second statement of the rule, without its steps.
fn saves_after(sj: &ScavengerJob) -> SignedDuration {
    let spec = sj.spec.as_ref().expect("a valid spec");
    spec.restart + if spec.saves_on_sigterm { spec.grace_period } else { spec.interruption_after }
}

struct Story {
    cluster: Cluster,
    said: [Said; NODES],
}

impl Story {
    fn run_for(&mut self, time: i64) -> Result<(), TestCaseError> {
        let end = self.cluster.now + seconds(time);
        while self.cluster.now < end {
            self.cluster.run_for(end.duration_since(self.cluster.now).min(seconds(5)));
            self.nothing_starts_too_late()?;
        }
        Ok(())
    }

    /// All that are on a node that leaves were started before that was said, or early enough.
    fn nothing_starts_too_late(&self) -> Result<(), TestCaseError> {
        for (number, (said, until)) in self.said.iter().enumerate() {
            let Some(until) = until else { continue };
            for sj in self.cluster.scavenger_jobs() {
                let Some(attempt) = sj.status.active_attempt() else { continue };
                // What was said takes a moment to be heard.
                if attempt.creation_time <= *said + seconds(1) {
                    continue;
                }
                let pods = self.cluster.live_pods(&sj.key.name);
                let is_there = pods.iter().any(|pod| pod.node.as_ref() == Some(&usual(number).name));
                let left = until.duration_since(attempt.creation_time);
                prop_assert!(
                    !is_there || saves_after(sj) < left,
                    "{} was started on n{number} {left} before it leaves\n{}",
                    sj.key,
                    self.cluster.history()
                );
            }
        }
        Ok(())
    }

    fn say(&mut self, number: usize, until: Option<Timestamp>) {
        let node = usual(number);
        self.cluster.set_node(Node { until, ..node });
        self.said[number] = (self.cluster.now, until);
    }

    fn is_empty(&self, number: usize) -> bool {
        !self
            .cluster
            .all_live_pods()
            .iter()
            .any(|pod| pod.node.as_ref() == Some(&usual(number).name) && pod.owner.is_some())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 30, ..super::cases(24) })]

    #[test]
    fn nothing_starts_that_cannot_save_and_nodes_are_empty_in_time(world in world()) {
        let mut pool = settings().preempting().filled_to(1.0);
        pool.budgets = world.budget.iter().cloned().collect();
        let mut cluster = Cluster::new(pool).with_nodes((0..NODES).map(usual));
        (cluster.strict, cluster.thorough) = (false, false);
        for (number, (pods, cpu_milli, after, saves)) in world.jobs.iter().enumerate() {
            let job = sj(&format!("job{number}")).gang(*pods).asking(*cpu_milli).interruptible_after(seconds(*after));
            let job = if *saves { job.saving() } else { job };
            cluster.submit(job, Workload { needs: seconds(100_000), ..Workload::default() });
        }
        let mut story = Story { cluster, said: [(at(0), None); NODES] };
        let most = world.budget.as_ref().map_or((10, 10), |budget| (budget.at_least, budget.period.as_secs()));
        let rounds = JOBS.div_ceil(most.0);
        let all = i64::try_from(rounds).unwrap() * most.1 + 120;
        for (after, event) in &world.events {
            story.run_for(*after)?;
            match event {
                Event::Leaves(number, after) => {
                    let until = story.cluster.now + seconds(*after);
                    story.say(*number, Some(until));
                }
                Event::Stays(number) => story.say(*number, None),
                Event::Restart => story.cluster.restart(false),
                Event::Waits => {
                    let name = format!("shop{}", story.cluster.plans);
                    story.cluster.create_pod(pod(&name, 4000).patient(), seconds(60));
                    story.run_for(45)?;
                    let waits = story.cluster.ordinary_pods().any(|pod| *pod.key.name == *name && pod.node.is_none());
                    prop_assert!(!waits, "{name} waits\n{}", story.cluster.history());
                }
            }
        }
        // Now to the end of each time that was announced.
        let mut ends: Vec<(Timestamp, usize, bool)> = Vec::new();
        for (number, (said, until)) in story.said.iter().enumerate() {
            if let Some(until) = until {
                // A restart forgets for how long it has been known. Where the rounds take longer than nothing starts there, more may
                // start than was counted.
                let is_early = (*said).max(story.cluster.now) + seconds(all + 60) < *until && all <= 320;
                ends.push(((*until).max(story.cluster.now), number, is_early));
            }
        }
        ends.sort();
        for (until, number, is_early) in ends {
            story.run_for(until.duration_since(story.cluster.now).as_secs().max(0))?;
            prop_assert!(!is_early || story.is_empty(number), "n{number} is not empty\n{}", story.cluster.history());
        }
        story.run_for(all + 120)?;
        for number in 0..NODES {
            let is_over = story.said[number].1.is_some_and(|until| until <= story.cluster.now - seconds(all + 120));
            prop_assert!(!is_over || story.is_empty(number), "n{number} is not empty\n{}", story.cluster.history());
        }
    }
}
