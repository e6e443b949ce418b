//! With any budgets of the pool no more ScavengerJobs are interrupted in a time than they allow, what cannot wait does not, and
//! whatever is held back goes in the end.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp, civil::Time};
use proptest::prelude::*;
use scavenger_planner::{
    fixtures::{at, budget, daily, node, pod, seconds, settings, sj},
    resources::Share,
    values::{Budget, Name, Node, Reason, Settings},
};
use scavenger_simulator::{Cluster, Workload};

const JOBS: usize = 24;

/// Something that concerns many ScavengerJobs.
#[derive(Debug, Clone, Copy)]
enum Event {
    /// The threshold falls to so many percent.
    Threshold(u32),
    LeavesPool(usize),
    ComesBack(usize),
    Pressure(usize),
    /// An ordinary pod waits.
    Waits,
    Restart,
}

#[derive(Debug, Clone)]
struct World {
    budgets: Vec<Budget>,
    /// What happens, and after how many seconds.
    events: Vec<(i64, Event)>,
}

fn some_budget() -> impl Strategy<Value = Budget> {
    let reasons = prop::sample::subsequence(vec![Reason::Headroom, Reason::NodeLeftPool], 0..=2);
    let schedule = prop::option::of((0..10_i8, 1..10_i8));
    (reasons, 0..6_usize, 1..29_i64, schedule).prop_map(|(reasons, jobs, period, schedule)| {
        // The model begins at 08:00.
        let minute = |minute: i8| Time::constant(8, minute, 0, 0);
        let schedule = schedule.map(|(start, length)| daily(minute(start), minute(start + length)));
        // An attempt follows another one half a minute after it was interrupted: until then its status says why.
        Budget { reasons, schedule, ..budget(jobs, period) }
    })
}

fn world() -> impl Strategy<Value = World> {
    let event = prop_oneof![
        3 => (10..100_u32).prop_map(Event::Threshold),
        3 => (0..4_usize).prop_map(Event::LeavesPool),
        1 => (0..4_usize).prop_map(Event::ComesBack),
        1 => (0..4_usize).prop_map(Event::Pressure),
        1 => Just(Event::Waits),
        1 => Just(Event::Restart),
    ];
    let events = prop::collection::vec((5..120_i64, event), 1..8);
    (prop::collection::vec(some_budget(), 0..4), events)
        .prop_map(|(budgets, events)| World { budgets, events })
}

fn pool(budgets: &[Budget], percent: u32) -> Settings {
    let mut pool = settings().preempting().filled_to(1.0);
    pool.node_selector = [("pool".into(), "yes".into())].into();
    pool.budgets = budgets.to_vec();
    if percent < 100 {
        let share = |percent: u32| Share::from_fraction(f64::from(percent) / 100.0);
        pool.headroom.interrupt_threshold = Some(share(percent));
        pool.headroom.target = share(percent - 1);
        pool.start_thresholds.default = share(percent - 2);
    }
    pool
}

fn name(number: usize) -> String {
    format!("n{number}")
}

fn usual(number: usize) -> Node {
    node(&name(number), 6000).labelled("pool", "yes")
}

/// The cluster, and each interruption that was ordered: its attempt, when and why.
struct Story {
    cluster: Cluster,
    ordered: BTreeMap<(Name, u32), (Timestamp, Reason)>,
}

impl Story {
    fn run_for(&mut self, time: i64) {
        for _ in 0..time {
            self.cluster.run_for(seconds(1));
            for sj in self.cluster.scavenger_jobs() {
                let Some(attempt) = sj.status.attempt.as_deref() else { continue };
                if let Some(decided) = attempt.decided() {
                    let order = (decided.time, decided.reason.clone());
                    self.ordered.entry((sj.uid.clone(), attempt.number)).or_insert(order);
                }
            }
        }
    }

    fn play(&mut self, world: &World) -> Result<(), TestCaseError> {
        for (after, event) in &world.events {
            self.run_for(*after);
            match event {
                Event::Threshold(percent) => self.cluster.set_pool(Ok(pool(&world.budgets, *percent))),
                Event::LeavesPool(number) => {
                    let mut node = usual(*number);
                    node.labels.clear();
                    self.cluster.set_node(node);
                }
                Event::ComesBack(number) => self.cluster.set_node(usual(*number)),
                Event::Pressure(number) => {
                    self.cluster.set_node(usual(*number).pressed("MemoryPressure"));
                    self.run_for(5);
                    self.all_go(&name(*number))?;
                }
                Event::Waits => {
                    let name = format!("shop{}", self.cluster.plans);
                    self.cluster.create_pod(pod(&name, 6000).patient(), seconds(40));
                }
                Event::Restart => self.cluster.restart(false),
            }
        }
        self.run_for(900);
        Ok(())
    }

    /// Nobody stays on a node under pressure.
    fn all_go(&self, node: &str) -> Result<(), TestCaseError> {
        for sj in self.cluster.scavenger_jobs() {
            let pods = self.cluster.live_pods(&sj.key.name);
            let is_there = pods.iter().any(|pod| pod.node.as_deref() == Some(node));
            let goes = sj.status.attempt.as_ref().is_some_and(|attempt| attempt.decided().is_some());
            prop_assert!(!is_there || goes, "{} stays on {node}\n{}", sj.key, self.cluster.history());
        }
        Ok(())
    }

    /// In no time of this length more go for such reasons than may.
    fn most(&self, period: SignedDuration, names: impl Fn(&Reason, Timestamp) -> bool) -> usize {
        let mut times: Vec<Timestamp> = self
            .ordered
            .values()
            .filter(|(time, reason)| names(reason, *time))
            .map(|(time, _)| *time)
            .collect();
        times.sort();
        let within = |from: &Timestamp| {
            times.iter().filter(|time| *from <= **time && time.duration_since(*from) < period).count()
        };
        times.iter().map(within).max().unwrap_or(0)
    }
}

/// True while a budget holds: the second statement of what a schedule says, for those that are made here.
fn holds(budget: &Budget, time: Timestamp) -> bool {
    budget.schedule.as_ref().is_none_or(|schedule| {
        let clock = time.to_zoned(schedule.time_zone.clone()).time();
        schedule.start <= clock && clock < schedule.end
    })
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 30, ..super::cases(40) })]

    #[test]
    fn budgets_are_kept_what_cannot_wait_does_not_and_all_go_in_the_end(world in world()) {
        let mut cluster = Cluster::new(pool(&world.budgets, 100)).with_nodes((0..4).map(usual));
        (cluster.strict, cluster.thorough) = (false, false);
        for number in 0..JOBS {
            cluster.submit(sj(&format!("job{number}")), Workload { needs: seconds(100_000), ..Workload::default() });
        }
        let mut story = Story { cluster, ordered: BTreeMap::new() };
        story.play(&world)?;
        let names = |budget: &Budget, reason: &Reason| match budget.reasons.is_empty() {
            true => reason.is_planned(),
            false => budget.reasons.contains(reason),
        };
        for budget in &world.budgets {
            // What went before it held counts, but was not bound by it.
            let most = story.most(budget.period, |reason, time| names(budget, reason) && holds(budget, time));
            prop_assert!(most <= budget.at_least, "{most} for {budget:?}\n{}", story.cluster.history());
        }
        for reason in [Reason::Headroom, Reason::NodeLeftPool] {
            let is_usual = |of: &Reason, time| {
                *of == reason && !world.budgets.iter().any(|budget| names(budget, of) && holds(budget, time))
            };
            let most = story.most(seconds(10), is_usual);
            prop_assert!(most <= 10, "{most} for {reason}\n{}", story.cluster.history());
        }

        // As soon as a budget allows it, one after another.
        let last = world.events.iter().rev().find_map(|(_, event)| match event {
            Event::Threshold(percent) => Some(*percent),
            _ => None,
        });
        story.cluster.set_pool(Ok(pool(&[budget(1, 7)], last.unwrap_or(100))));
        story.run_for(i64::try_from(JOBS).unwrap() * 7 + 120);
        for pod in story.cluster.all_live_pods() {
            let node = story.cluster.all_nodes().find(|node| Some(&node.name) == pod.node.as_ref());
            let is_outside = node.is_some_and(|node| node.labels.is_empty());
            let stays = is_outside && pod.owner.is_some();
            prop_assert!(!stays, "{} is still outside\n{}", pod.key, story.cluster.history());
        }
        prop_assert!(story.cluster.planner.held_back(story.cluster.now).is_empty(), "{}", story.cluster.history());
        prop_assert!(story.cluster.now > at(0));
    }
}
