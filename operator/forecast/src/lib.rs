//! When will a ScavengerJob that waits start? An interval that holds for 8 of 10.
//!
//! | step | file |
//! |---|---|
//! | which starts say something about which ScavengerJob | `class` |
//! | how often such capacity comes free, by the hour of the week | `rates` |
//! | how far forecasts were off: quantiles of actual over predicted, tracked online | `spread` |
//! | which forecasts are followed to their ends | `trials` |
//! | what is kept for the next leader | `memory` |
//!
//! A forecast is the number of those of its line that come earlier in the queue, over the rate at which the line starts
//! while some of it waits, times two factors. In a line are those of one class that were interrupted, or those that were not.
//! The factors are learnt: when a start comes later than the interval, the logarithm of the later one grows by nine parts of a step, else it shrinks by one part. So it stands still where one in ten is later, whatever the
//! distribution is and however it changes (the quantile tracker of conformal prediction; Angelopoulos, Candès and Tibshirani, 2023,
//! call it the P of conformal PID control). It need not wait for the start: once a bound has passed it is known that the start is
//! later, so a forecast is decided at its end at the latest.
//!
//! There is no clock, no I/O and no randomness: the same calls give the same forecasts. Times are seconds since the epoch.
//! docs/forecast.md explains it for users, and says how often it holds.

mod class;
mod memory;
mod rates;
mod spread;
mod trials;

use std::collections::BTreeMap;

pub use class::{CLASSES, Class, Kind};
use rates::Rates;
use spread::{Spread, Traits};
pub use trials::Results;
use trials::{Candidate, Trials};

/// Fewer starts than this say nothing.
pub const LEAST_STARTS: u32 = 30;

/// A ScavengerJob that waits for capacity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waiting {
    /// The same each time, and another for each ScavengerJob.
    pub id: u64,
    /// What it asks for.
    pub class: Class,
    /// True if it was interrupted, and so comes before those that never ran.
    pub interrupted: bool,
}

/// Lines in which ScavengerJobs wait: for each class those that were interrupted, and those that were not.
const LINES: usize = 2 * CLASSES;

impl Waiting {
    /// The line in which it waits. Within one, starts come in the order of the queue. Capacity that those take which are interrupted
    /// again and again is none that comes free for the others.
    fn line(&self) -> usize {
        2 * self.class.index() + usize::from(self.interrupted)
    }
}

/// When one will start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Forecast {
    /// Too few starts were seen.
    Unknown {
        /// So many.
        starts_seen: u32,
    },
    /// In seconds since the epoch.
    Between {
        /// One in ten starts earlier.
        from: i64,
        /// Half of them start earlier.
        expected: i64,
        /// One in ten starts later.
        to: i64,
    },
}

/// What was learnt from starts.
#[derive(Debug, Clone, PartialEq)]
pub struct Forecaster {
    starts_seen: u32,
    rates: Rates,
    spread: Spread,
    trials: Trials,
    looked: Option<i64>,
    /// Starts since the last look, and whether some waited at it, by line.
    starts: Vec<u32>,
    waited: Vec<bool>,
}

impl Default for Forecaster {
    fn default() -> Self {
        Self {
            starts_seen: 0,
            rates: Rates::default(),
            spread: Spread::default(),
            trials: Trials::default(),
            looked: None,
            starts: vec![0; LINES],
            waited: vec![false; LINES],
        }
    }
}

impl Forecaster {
    /// A ScavengerJob starts.
    pub fn observe_start(&mut self, now: i64, one: &Waiting) {
        self.starts_seen = self.starts_seen.saturating_add(1);
        self.starts[one.line()] += 1;
        self.trials.start(one.id, now, &mut self.spread);
    }

    /// A ScavengerJob waits no longer, and does not start.
    pub fn observe_gone(&mut self, id: u64) {
        self.trials.drop(id);
    }

    /// These wait, in the order of the queue.
    pub fn observe_waiting(&mut self, now: i64, queue: &[Waiting]) {
        if let Some(looked) = self.looked.filter(|looked| *looked < now) {
            self.rates.pass(looked, now, &self.starts, &self.waited);
        }
        self.looked = Some(now);
        self.starts.fill(0);
        self.waited.fill(false);
        for one in queue {
            self.waited[one.line()] = true;
        }
        self.trials.pass(now, &mut self.spread);
        if self.starts_seen < LEAST_STARTS {
            return;
        }
        // For each length that takes one more, the ScavengerJob that the time and its number choose.
        let mut chosen: BTreeMap<u8, (u64, Candidate)> = BTreeMap::new();
        let ahead = self.rates.ahead(now);
        let mut before = [0_u32; LINES];
        for one in queue {
            let count = &mut before[one.line()];
            *count += 1;
            let Some((traits, bounds)) = self.bounds(&ahead, one, *count - 1) else { continue };
            let lot = scramble(one.id ^ now.unsigned_abs().rotate_left(32));
            let is_first = chosen.get(&traits.length).is_none_or(|(least, _)| lot < *least);
            if is_first && self.trials.wants(traits.length, now) {
                chosen.insert(traits.length, (lot, Candidate { id: one.id, traits, bounds }));
            }
        }
        for (_, candidate) in chosen.into_values() {
            self.trials.add(candidate, now);
        }
    }

    /// The forecasts for those that wait, in the order of the queue.
    #[must_use]
    pub fn forecasts(&self, now: i64, queue: &[Waiting]) -> Vec<Forecast> {
        let ahead = self.rates.ahead(now);
        let mut before = [0_u32; LINES];
        let of = |one: &Waiting| {
            let count = &mut before[one.line()];
            *count += 1;
            self.stamped(now, self.bounds(&ahead, one, *count - 1))
        };
        queue.iter().map(of).collect()
    }

    /// The forecast for one that waits behind so many of its line: of its class, and interrupted or not as it is.
    #[must_use]
    pub fn forecast(&self, now: i64, one: &Waiting, before: u32) -> Forecast {
        self.stamped(now, self.bounds(&self.rates.ahead(now), one, before))
    }

    fn stamped(&self, now: i64, bounds: Option<(Traits, [f64; 3])>) -> Forecast {
        match bounds {
            Some((_, bounds)) if self.starts_seen >= LEAST_STARTS => {
                let [from, expected, to] = bounds.map(|seconds| now + seconds.min(1e12) as i64);
                Forecast::Between { from, expected, to }
            }
            _ => Forecast::Unknown { starts_seen: self.starts_seen },
        }
    }

    fn bounds(&self, ahead: &rates::Ahead, one: &Waiting, before: u32) -> Option<(Traits, [f64; 3])> {
        let hours = self.rates.hours_until(one.line(), before.saturating_add(1), ahead)?;
        let seconds = hours * 3600.0;
        let traits = Traits::of(one.class, one.interrupted, seconds);
        Some((traits, self.spread.around(seconds, traits)))
    }

    /// How many starts were seen.
    #[must_use]
    pub fn starts_seen(&self) -> u32 {
        self.starts_seen
    }

    /// How many forecasts were decided since this one began to learn, or to go on from what another learnt. Of all that are made a
    /// sample is followed.
    #[must_use]
    pub fn results(&self) -> Results {
        self.trials.results()
    }

    /// Of the forecasts that were decided lately, the part that held; none before 30 were.
    #[must_use]
    pub fn coverage(&self) -> Option<f64> {
        let (coverage, decided) = self.trials.coverage();
        (decided >= 30.0).then_some(coverage)
    }
}

/// A number that looks random (splitmix64).
fn scramble(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests;
