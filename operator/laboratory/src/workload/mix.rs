//! ScavengerJobs as a group submits them, from a seed: some short, some long, few sizes, checkpoints that are minutes apart.

use super::Scavenger;
use crate::{
    chance::Chance,
    values::{Amounts, HOUR, MINUTE, SECOND, Time},
};

/// What kind of ScavengerJobs are submitted.
#[derive(Debug, Clone, Copy)]
pub struct Mix {
    /// How many.
    pub count: usize,
    /// They are submitted from the beginning to this time.
    pub until: Time,
    /// So many of a hundred are there from the beginning.
    pub at_once_percent: u64,
    /// The shortest work and the longest.
    pub work: (Time, Time),
    /// Cores of a pod.
    pub cores: &'static [i64],
    /// So many of a hundred have several pods.
    pub gang_percent: u64,
    /// So many of a hundred ask for GPUs.
    pub gpu_percent: u64,
}

/// The checkpoint intervals that are drawn.
const INTERVALS: [Time; 4] = [5 * MINUTE, 10 * MINUTE, 15 * MINUTE, 30 * MINUTE];

/// What a restart costs.
const RESTARTS: [Time; 3] = [20 * SECOND, 60 * SECOND, 120 * SECOND];

/// So many of a hundred write a checkpoint when they get SIGTERM.
const SAVING_PERCENT: u64 = 30;

/// MiB of memory that come with a core.
const MEMORY_PER_CORE: [i64; 2] = [1024, 2048];

impl Mix {
    /// ScavengerJobs in the order of their submission.
    #[must_use]
    pub fn draw(&self, chance: &mut Chance) -> Vec<Scavenger> {
        let mut all: Vec<Scavenger> = (0..self.count).map(|_| self.draw_one(chance)).collect();
        all.sort_by_key(|one| one.arrival);
        all
    }

    fn draw_one(&self, chance: &mut Chance) -> Scavenger {
        let at_once = chance.percent(self.at_once_percent);
        let arrival = if at_once { 0 } else { chance.below(self.until) };
        let cores = *chance.of(self.cores);
        let memory = cores * chance.of(&MEMORY_PER_CORE);
        let gpus = i64::from(chance.percent(self.gpu_percent));
        let pods = if chance.percent(self.gang_percent) { *chance.of(&[2, 4]) } else { 1 };
        let work = chance.between_evenly_by_size(self.work.0, self.work.1);
        let interval = *chance.of(&INTERVALS);
        let saves = chance.percent(SAVING_PERCENT);
        Scavenger {
            arrival,
            work,
            pods,
            requests: Amounts::of_pod(cores * 1000, memory, gpus),
            interval,
            cost: *chance.of(&[0, 2 * SECOND, 5 * SECOND]),
            restart: *chance.of(&RESTARTS),
            // One that saves needs time for it.
            grace: if saves { *chance.of(&[5 * SECOND, 10 * SECOND]) } else { SECOND },
            saves,
        }
    }

    /// As many as keep the part of a cluster that ordinary pods leave busy for all of the time, and a little more.
    #[must_use]
    pub fn filling(cores: i64, length: Time) -> Self {
        let base = Self {
            count: 0,
            until: length,
            at_once_percent: 30,
            work: (10 * MINUTE, 12 * HOUR),
            cores: &[1, 2, 4, 8],
            gang_percent: 10,
            gpu_percent: 0,
        };
        base.asking_for(cores, length)
    }

    /// With so many ScavengerJobs that together they have work for so many cores all of the time.
    #[must_use]
    pub fn asking_for(self, cores: i64, length: Time) -> Self {
        let mean_cores = self.cores.iter().sum::<i64>() as f64 / self.cores.len().max(1) as f64;
        let mean_pods = 1.0 + 2.0 * self.gang_percent as f64 / 100.0;
        let (least, most) = (self.work.0 as f64, self.work.1 as f64);
        // The mean where each order of magnitude is as likely as another.
        let mean_work = (most - least) / (most / least).ln();
        let each = mean_cores * mean_pods * mean_work;
        let count = (cores as f64 * length as f64 / each).ceil();
        Self { count: count as usize, ..self }
    }
}
