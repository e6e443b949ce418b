//! Workloads that are made from a seed. Each has a name, and shows one thing that clusters do.

use std::{collections::BTreeMap, sync::Arc};

use super::{Mix, Node, Ordinary, Scavenger, Uses, Workload, gromacs};
use crate::{
    chance::Chance,
    values::{Amounts, DAY, HOUR, MINUTE, SECOND, Time},
};

/// A workload that is made from a seed.
#[derive(Debug, Clone, Copy)]
pub struct Scenario {
    /// Its name.
    pub name: &'static str,
    /// What it shows.
    pub about: &'static str,
    length: Time,
    draw: fn(u64, Time) -> Workload,
}

/// All of them.
pub const SCENARIOS: [Scenario; 8] = [
    Scenario {
        name: "steady",
        about: "ordinary pods request about 60% of the cpu all day",
        length: 2 * DAY,
        draw: steady,
    },
    Scenario {
        name: "daily",
        about: "ordinary pods request 35% of the cpu at night and 85% at noon",
        length: 2 * DAY,
        draw: daily,
    },
    Scenario {
        name: "bursty",
        about: "every two hours or so a batch asks for a third of the cluster at once",
        length: 2 * DAY,
        draw: bursty,
    },
    Scenario {
        name: "large-jobs",
        about: "ordinary pods of 16 and 32 cores, and ScavengerJobs of several large pods",
        length: 2 * DAY,
        draw: large_jobs,
    },
    Scenario {
        name: "wide-gangs",
        about: "now and then a gang of eight large pods for an hour, among ScavengerJobs that run for days",
        length: 4 * DAY,
        draw: wide_gangs,
    },
    Scenario {
        name: "gromacs",
        about: "the ordinary pods of daily, and rows of the queue with speeds from the tuner's model",
        length: 2 * DAY,
        draw: gromacs_rows,
    },
    Scenario {
        name: "reserved",
        about: "200 nodes for a day: ordinary pods request 90% of the cpu, and use about half of that",
        length: DAY,
        draw: reserved,
    },
    Scenario {
        name: "month",
        about: "2,000 nodes and 20,000 ScavengerJobs for 30 days, to measure the speed",
        length: 30 * DAY,
        draw: month,
    },
];

impl Scenario {
    /// The one with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        SCENARIOS.into_iter().find(|scenario| scenario.name == name)
    }

    /// The workload for a seed.
    #[must_use]
    pub fn draw(&self, seed: u64) -> Workload {
        (self.draw)(seed, self.length)
    }

    /// The workload for a seed, and for another length: what is submitted at once comes again each time that the scenario is
    /// over. With a load, ScavengerJobs have work for so many percent of the cpu instead.
    #[must_use]
    pub fn draw_longer(&self, seed: u64, length: Time, load: Option<i64>) -> Workload {
        let mut workload = (self.draw)(seed, length);
        workload.scavengers.clear();
        let kept = |place: usize| match load {
            // Spread evenly.
            Some(load) => {
                (place as i64 + 1) * load / SCAVENGER_PERCENT > place as i64 * load / SCAVENGER_PERCENT
            }
            None => true,
        };
        for (number, begin) in (0..length).step_by(self.length as usize).enumerate() {
            let part = (self.draw)(seed.wrapping_add(1_000_000 * number as u64), self.length).scavengers;
            let part = part.into_iter().enumerate().filter(|(place, _)| kept(*place));
            workload.scavengers.extend(part.map(|(_, sj)| Scavenger { arrival: sj.arrival + begin, ..sj }));
        }
        workload.scavengers.retain(|sj| sj.arrival < length);
        workload
    }
}

/// Cores and GiB of the nodes of a small cluster.
const KINDS: [(i64, i64); 3] = [(16, 64), (32, 128), (64, 256)];

/// What a node keeps for itself: half a core, 2 GiB.
const RESERVED: (i64, i64) = (500, 2048);

/// Pods that a kubelet takes.
const PODS: i64 = 110;

/// ScavengerJobs have work for this part of the cluster, all of the time: more than any policy gives them.
const SCAVENGER_PERCENT: i64 = 40;

/// For what a seed is used.
const ORDINARY: u64 = 1;
const SCAVENGERS: u64 = 2;

fn node(number: usize, (cores, gib): (i64, i64)) -> Node {
    let capacity =
        Amounts { cpu: cores * 1000 - RESERVED.0, memory: gib * 1024 - RESERVED.1, pods: PODS, gpus: 0 };
    let labels = BTreeMap::from([("node.kubernetes.io/instance-type".to_owned(), format!("c{cores}"))]);
    Node { name: format!("node-{number:04}"), capacity, labels }
}

fn nodes(count: usize) -> Vec<Node> {
    (0..count).map(|number| node(number, KINDS[number % KINDS.len()])).collect()
}

/// Cores and MiB of memory of ordinary pods.
const SMALL: [(i64, i64); 6] =
    [(250, 512), (500, 1024), (1000, 2048), (2000, 4096), (2000, 8192), (4000, 8192)];

/// Ordinary pods as a cluster has them.
struct Ordinaries {
    sizes: &'static [(i64, i64)],
    /// The shortest run and the longest.
    duration: (Time, Time),
    /// The part of the cpu that they request on average, over time.
    load: fn(Time) -> f64,
    /// The most of it.
    highest: f64,
}

impl Ordinaries {
    /// Each has run for a while when the run begins, as it would have been met at any time. More come as the load says, each
    /// whenever it happens to come.
    fn draw(&self, cpu: i64, length: Time, chance: &mut Chance) -> Vec<Ordinary> {
        let mean_cpu = self.sizes.iter().map(|(cpu, _)| cpu).sum::<i64>() as f64 / self.sizes.len() as f64;
        let (least, most) = (self.duration.0 as f64, self.duration.1 as f64);
        let mean_duration = (most - least) / (most / least).ln();
        // So many at once at full load, and so the time between two of them.
        let at_once = self.highest * cpu as f64 / mean_cpu;
        let gap = mean_duration / at_once;
        let mut pods = Vec::new();
        // Those that came before the run began and are still there.
        let mut time = -self.duration.1;
        while time < length {
            time += chance.until_next(gap);
            let is_wanted = (chance.below(1_000_000) as f64) < (self.load)(time) / self.highest * 1e6;
            let pod = self.draw_one(time, chance);
            let end = time + pod.duration;
            if is_wanted && time < length && end > 0 {
                pods.push(Ordinary { arrival: time.max(0), duration: end - time.max(0), ..pod });
            }
        }
        pods
    }

    fn draw_one(&self, arrival: Time, chance: &mut Chance) -> Ordinary {
        let (cpu, memory) = *chance.of(self.sizes);
        let duration = chance.between_evenly_by_size(self.duration.0, self.duration.1);
        let priority = if chance.percent(10) { 1000 } else { 0 };
        Ordinary { arrival, duration, requests: Amounts::of_pod(cpu, memory, 0), priority }
    }
}

/// A workload of ordinary pods and of as many ScavengerJobs as use what they leave.
fn workload(
    seed: u64,
    count: usize,
    length: Time,
    ordinaries: &Ordinaries,
    mix: fn(i64, Time) -> Mix,
) -> Workload {
    let nodes = nodes(count);
    let cpu: i64 = nodes.iter().map(|node| node.capacity.cpu).sum();
    let ordinary = ordinaries.draw(cpu, length, &mut Chance::new(seed, ORDINARY));
    let scavengers =
        mix(cpu / 1000 * SCAVENGER_PERCENT / 100, length).draw(&mut Chance::new(seed, SCAVENGERS));
    Workload { nodes, ordinary, scavengers, length, uses: None }
}

fn steady(seed: u64, length: Time) -> Workload {
    let ordinaries =
        Ordinaries { sizes: &SMALL, duration: (5 * MINUTE, 8 * HOUR), load: |_| 0.6, highest: 0.6 };
    workload(seed, 60, length, &ordinaries, Mix::filling)
}

fn daily(seed: u64, length: Time) -> Workload {
    let load = |time: Time| {
        let part_of_day = time.rem_euclid(DAY) as f64 / DAY as f64;
        0.6 - 0.25 * (part_of_day * std::f64::consts::TAU).cos()
    };
    let ordinaries = Ordinaries { sizes: &SMALL, duration: (5 * MINUTE, 4 * HOUR), load, highest: 0.85 };
    workload(seed, 60, length, &ordinaries, Mix::filling)
}

fn bursty(seed: u64, length: Time) -> Workload {
    let ordinaries =
        Ordinaries { sizes: &SMALL, duration: (5 * MINUTE, 8 * HOUR), load: |_| 0.45, highest: 0.45 };
    let mut workload = workload(seed, 60, length, &ordinaries, Mix::filling);
    let cpu = workload.capacity().cpu;
    let mut chance = Chance::new(seed, 3);
    let mut time = 0;
    loop {
        time += chance.until_next((2 * HOUR) as f64);
        if time >= workload.length {
            break;
        }
        let size = cpu / 3 / 2000;
        let duration = chance.between_evenly_by_size(15 * MINUTE, 45 * MINUTE);
        // A batch is created by a controller, one pod after the other.
        let batch = (0..size).map(|number| Ordinary {
            arrival: time + number * 20,
            duration,
            requests: Amounts::of_pod(2000, 4096, 0),
            priority: 0,
        });
        workload.ordinary.extend(batch);
    }
    workload.ordinary.sort_by_key(|pod| pod.arrival);
    workload.ordinary.retain(|pod| pod.arrival < workload.length);
    workload
}

fn large_jobs(seed: u64, length: Time) -> Workload {
    let ordinaries = Ordinaries {
        sizes: &[(1000, 2048), (2000, 4096), (4000, 16_384), (15_000, 32_768), (30_000, 65_536)],
        duration: (20 * MINUTE, 8 * HOUR),
        load: |_| 0.5,
        highest: 0.5,
    };
    let mix = |cores: i64, length: Time| {
        let base = Mix { cores: &[2, 4, 8, 15], gang_percent: 40, ..Mix::filling(cores, length) };
        base.asking_for(cores, length)
    };
    workload(seed, 60, length, &ordinaries, mix)
}

/// The case for lending what is reserved: a gang waits long until enough came free, and needs it shortly.
fn wide_gangs(seed: u64, length: Time) -> Workload {
    let ordinaries =
        Ordinaries { sizes: &SMALL, duration: (5 * MINUTE, 8 * HOUR), load: |_| 0.5, highest: 0.5 };
    let mix = |cores: i64, length: Time| {
        Mix { work: (10 * MINUTE, 4 * DAY), gang_percent: 0, ..Mix::filling(1, length) }
            .asking_for(cores, length)
    };
    let mut workload = workload(seed, 60, length, &ordinaries, mix);
    let mut chance = Chance::new(seed, 3);
    let mut time = 2 * HOUR;
    while time < length {
        let requests = Amounts::of_pod(15_000, 15 * 1024, 0);
        let gang = Scavenger {
            arrival: time,
            work: HOUR,
            pods: 8,
            requests,
            interval: 10 * MINUTE,
            cost: 2 * SECOND,
            restart: MINUTE,
            grace: SECOND,
            saves: false,
        };
        workload.scavengers.push(gang);
        time += chance.until_next((6 * HOUR) as f64);
    }
    workload.scavengers.sort_by_key(|sj| sj.arrival);
    workload
}

fn gromacs_rows(seed: u64, length: Time) -> Workload {
    let workload = daily(seed, length);
    let cores = workload.capacity().cpu / 1000 * SCAVENGER_PERCENT / 100;
    let rows = gromacs::rows(&workload.nodes, cores, workload.length, &mut Chance::new(seed, SCAVENGERS));
    Workload { scavengers: rows, ..workload }
}

/// Full by requests, and half idle by use.
fn reserved(seed: u64, length: Time) -> Workload {
    let ordinaries = Ordinaries { sizes: &SMALL, duration: (HOUR, 2 * DAY), load: |_| 0.9, highest: 0.9 };
    let workload = workload(seed, 200, length, &ordinaries, Mix::filling);
    Workload { uses: Some(Arc::new(Uses::draw(seed))), ..workload }
}

fn month(seed: u64, length: Time) -> Workload {
    let load = |time: Time| {
        let part_of_day = time.rem_euclid(DAY) as f64 / DAY as f64;
        0.55 - 0.15 * (part_of_day * std::f64::consts::TAU).cos()
    };
    let ordinaries = Ordinaries {
        sizes: &[(1000, 2048), (2000, 8192), (4000, 16_384), (8000, 32_768)],
        duration: (HOUR, 4 * DAY),
        load,
        highest: 0.7,
    };
    let mix = |_: i64, length: Time| Mix {
        count: 20_000,
        work: (6 * HOUR, 10 * DAY),
        cores: &[4, 8, 16],
        ..Mix::filling(1, length)
    };
    workload(seed, 2000, length, &ordinaries, mix)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_scenario_has_a_name_of_its_own_and_is_the_same_for_the_same_seed() {
        for scenario in SCENARIOS.iter().filter(|scenario| scenario.name != "month") {
            assert_eq!(Scenario::named(scenario.name).map(|found| found.about), Some(scenario.about));
            assert_eq!(scenario.draw(3), scenario.draw(3), "{}", scenario.name);
            assert_ne!(scenario.draw(3), scenario.draw(4), "{}", scenario.name);
        }
        assert!(Scenario::named("weekly").is_none());
    }

    #[test]
    fn what_is_longer_begins_alike_and_has_as_much_work_a_day() {
        let scenario = Scenario::named("steady").unwrap();
        let own = scenario.draw(3);
        assert_eq!(scenario.draw_longer(3, scenario.length, None), own);
        let longer = scenario.draw_longer(3, 3 * scenario.length, None);
        let (count, all) = (own.scavengers.len(), longer.scavengers.len());
        assert_eq!(longer.scavengers[..count], own.scavengers);
        assert_eq!(all, 3 * count);
        let arrivals: Vec<Time> = longer.scavengers.iter().map(|sj| sj.arrival).collect();
        assert!(arrivals.is_sorted() && arrivals[all - 1] < longer.length);
        assert_eq!(scenario.draw_longer(3, scenario.length, Some(20)).scavengers.len(), count / 2);
    }

    /// Ordinary pods that ask for as much as the scenario says, from the beginning on.
    #[test]
    fn the_load_is_what_the_scenario_says() {
        let workload = steady(1, 2 * DAY);
        let capacity = workload.capacity().cpu as f64;
        for time in [HOUR, 12 * HOUR, 30 * HOUR] {
            let there = |pod: &&Ordinary| pod.arrival <= time && time < pod.arrival + pod.duration;
            let used: i64 = workload.ordinary.iter().filter(there).map(|pod| pod.requests.cpu).sum();
            let share = used as f64 / capacity;
            assert!((0.5..0.7).contains(&share), "{share} at {time}");
        }
    }
}
