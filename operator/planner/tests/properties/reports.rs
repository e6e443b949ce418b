//! Who goes when supervisors report checkpoints, against a second, slower statement of the rule.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;
use scavenger_planner::{
    action::Task,
    fixtures::{key, node, pod, seconds, settings, sj},
    values::{Phase, Settings},
};
use scavenger_simulator::{Cluster, Random, Workload};

/// How many are played.
const MANY: usize = 200;

/// What a test knows of one ScavengerJob: what it promises, and what its supervisor reported.
#[derive(Debug, Clone, Default)]
struct Told {
    interruption_after: i64,
    interval: i64,
    saves: bool,
    /// Each checkpoint that was reported, as it was reported.
    checkpoints: Vec<Timestamp>,
    /// When the attempt began whose processor time was reported last, and what it got of what it could use.
    got: Option<(Timestamp, f64)>,
}

/// Seconds of run time that are lost if it is stopped then, the restart included: the rule, said once more.
fn lost(told: &Told, start: Timestamp, now: Timestamp) -> f64 {
    const RESTART: f64 = 60.0;
    if told.saves {
        return RESTART;
    }
    let since = |time: Timestamp| now.duration_since(time).as_secs_f64();
    let of_attempt = told.checkpoints.iter().filter(|time| **time >= start);
    let (mut age, whole) = match of_attempt.max() {
        Some(last) => (since(*last), told.interruption_after as f64),
        None => (since(start), told.interval as f64),
    };
    // A checkpoint that was only promised counts when it is due. A workload that was silent for twice as long is believed no longer.
    if told.checkpoints.iter().all(|time| *time < start) || age >= 2.0 * whole {
        age %= whole;
    }
    let got = told.got.filter(|(of_attempt, _)| *of_attempt == start).map_or(1.0, |(_, got)| got);
    // In tenths, rounded up; what was reported has six digits.
    let got = ((got * 1e6).round() / 1e5).ceil() / 10.0;
    for third in [1.0, 2.0] {
        if age < whole * third / 3.0 {
            return whole * third / 3.0 * got + RESTART;
        }
    }
    whole * got + RESTART
}

/// A decision and its write may be so far apart, and steps may lie between them.
const APART: SignedDuration = SignedDuration::from_millis(20);

/// The least and the most that the loss of a ScavengerJob may have been around a time.
fn around(told: &Told, start: Timestamp, time: Timestamp) -> (f64, f64) {
    let (before, after) = (lost(told, start, time - APART), lost(told, start, time));
    (before.min(after), before.max(after))
}

/// A number below `bound`.
fn below(random: &mut Random, bound: u64) -> i64 {
    i64::try_from(random.below(bound)).expect("a small number should fit")
}

struct Play {
    cluster: Cluster,
    told: BTreeMap<String, Told>,
    random: Random,
}

impl Play {
    fn new(settings: Settings, nodes: i64, seed: u64) -> Self {
        let settings = settings.supervising().starting_at_once(MANY);
        let names = ["n1", "n2", "n3", "n4"];
        let cluster = Cluster::new(settings).with_nodes(names.map(|name| node(name, nodes)));
        let mut play = Self { cluster, told: BTreeMap::new(), random: Random::new(seed) };
        play.cluster.thorough = false;
        play.cluster.strict = false;
        for number in 0..MANY {
            let name = format!("job{number}");
            let interruption_after = 60 + 30 * below(&mut play.random, 4);
            let interval = interruption_after - 15 * below(&mut play.random, 3);
            let saves = play.random.below(8) == 0;
            let mut sj = sj(&name).interruptible_after(seconds(interruption_after)).watched();
            let spec = sj.spec.as_mut().expect("the spec should be readable");
            (spec.checkpoint_interval, spec.saves_on_sigterm) = (Some(seconds(interval)), saves);
            play.told.insert(name, Told { interruption_after, interval, saves, ..Told::default() });
            let saves =
                Workload { needs: seconds(1_000_000), saves, grace: seconds(1), ..Workload::default() };
            play.cluster.submit(sj, saves);
            if number.is_multiple_of(10) {
                let pause = below(&mut play.random, 20);
                play.cluster.run_for(seconds(pause));
            }
        }
        play.cluster.run_until("all run", |cluster| {
            cluster.scavenger_jobs().all(|sj| sj.status.phase == Phase::Running)
        });
        play
    }

    /// Some of them report a checkpoint, of now or of a while ago.
    fn report(&mut self) {
        let running: Vec<(String, u32)> = self
            .cluster
            .scavenger_jobs()
            .filter(|sj| sj.status.phase == Phase::Running)
            .filter_map(|sj| Some((sj.key.name.to_string(), sj.status.attempt.as_ref()?.number)))
            .collect();
        for (name, number) in running {
            if self.random.below(3) == 0 {
                let age = below(&mut self.random, 30);
                self.cluster.report_of(&key(&format!("{name}-{number}-0")), age, None);
                let time = self.cluster.now - seconds(age);
                // From before the attempt: it began with that.
                let start = self.start(&name).expect("it should run");
                self.told.get_mut(&name).expect("it should be known").checkpoints.push(time.max(start));
            }
            if self.random.below(3) == 0 {
                self.report_cpu(&name);
            }
        }
    }

    /// It reports that it was awake since its last checkpoint, and got a part of the processor that it requests.
    fn report_cpu(&mut self, name: &str) {
        let start = self.start(name).expect("it should run");
        let told = self.told.get_mut(name).expect("it should be known");
        let since = told.checkpoints.iter().copied().filter(|time| *time >= start).max().unwrap_or(start);
        let over = self.cluster.now.duration_since(since).as_secs_f64();
        if over >= 1.0 {
            let wait = below(&mut self.random, over as u64 + 1);
            self.cluster.report_cpu(name, over as i64 - wait, wait);
            told.got = Some((start, 1.0 - wait as f64 / over));
        }
    }

    fn start(&self, name: &str) -> Option<Timestamp> {
        self.cluster.status(name).active_attempt()?.start_time
    }

    /// Creates ordinary pods of 5 cpu, and returns who was ordered to go, with the time and the start of its attempt.
    fn need(&mut self, round: usize, pods: usize, patient: bool) -> Vec<(String, Timestamp, Timestamp)> {
        let starts: BTreeMap<String, Timestamp> =
            self.told.keys().filter_map(|name| Some((name.clone(), self.start(name)?))).collect();
        let before = self.cluster.log.len();
        for number in 0..pods {
            let ordinary = pod(&format!("owner{round}-{number}"), 5000);
            self.cluster.create_pod(if patient { ordinary.patient() } else { ordinary }, seconds(120));
        }
        self.cluster.run_for(seconds(8));
        let orders = self.cluster.log[before..].iter().filter_map(|(time, action)| match &action.task {
            Task::WriteStatus(write) if write.orders_interruption() => {
                let name = action.sj.name.to_string();
                Some((name.clone(), *time, starts[&name]))
            }
            _ => None,
        });
        orders.collect()
    }

    /// Those that could have gone instead, and when their attempts started.
    fn others(&self, ordered: &[(String, Timestamp, Timestamp)]) -> Vec<(String, Timestamp)> {
        let names = self.told.keys().filter(|name| ordered.iter().all(|(went, ..)| went != *name));
        names.filter_map(|name| Some((name.clone(), self.start(name)?))).collect()
    }
}

proptest! {
    #![proptest_config(super::cases(4))]

    #[test]
    fn for_headroom_those_go_that_lose_least(seed in any::<u64>()) {
        // 200 of 240 cpu; 20 cpu more pass 90%, and 16 have to go until 85% are reached.
        let mut play = Play::new(settings().filled_to(0.84), 60_000, seed);
        for round in 0..4 {
            play.report();
            let pause = below(&mut play.random, 50);
            play.cluster.run_for(seconds(pause));
            let ordered = play.need(round, 4, false);
            prop_assert!(round > 0 || ordered.len() == 16, "{} go", ordered.len());
            for (went, time, start) in &ordered {
                let (least, _) = around(&play.told[went], *start, *time);
                for (other, start) in play.others(&ordered) {
                    let (_, most) = around(&play.told[&other], start, *time);
                    prop_assert!(least <= most + 1e-6, "{} loses {}, and {} only {}", went, least, other, most);
                }
            }
            play.cluster.run_for(seconds(400));
        }
    }

    #[test]
    fn for_a_pod_that_waits_those_go_that_lose_least_on_one_node(seed in any::<u64>()) {
        // Four full nodes of 50 cpu.
        let mut play = Play::new(settings().preempting().filled_to(1.0), 50_000, seed);
        for round in 0..4 {
            play.report();
            let pause = below(&mut play.random, 50);
            play.cluster.run_for(seconds(pause));
            let nodes: BTreeMap<String, String> = play
                .told
                .keys()
                .filter_map(|name| {
                    let pods = play.cluster.live_pods(name);
                    Some((name.clone(), pods.first()?.node.as_ref()?.to_string()))
                })
                .collect();
            let starts: BTreeMap<String, Timestamp> =
                play.told.keys().filter_map(|name| Some((name.clone(), play.start(name)?))).collect();
            let ordered = play.need(round, 1, true);
            prop_assert_eq!(ordered.len(), 5);
            let time = ordered[0].1;
            let sum = |names: &[&String], most: bool| -> f64 {
                let of = |name: &&String| {
                    let (least, dearest) = around(&play.told[*name], starts[*name], time);
                    if most { dearest } else { least }
                };
                let mut all: Vec<f64> = names.iter().map(of).collect();
                all.sort_by(f64::total_cmp);
                all.iter().take(5).sum()
            };
            let went: Vec<&String> = ordered.iter().map(|(name, ..)| name).collect();
            prop_assert!(went.iter().all(|name| nodes[*name] == nodes[went[0]]), "one node has room then");
            for node in ["n1", "n2", "n3", "n4"] {
                let there: Vec<&String> = nodes.iter().filter(|(_, on)| *on == node).map(|(name, _)| name).collect();
                prop_assert!(sum(&went, false) <= sum(&there, true) + 1e-6, "five others on {} lose less", node);
            }
            play.cluster.run_for(seconds(400));
        }
    }
}
