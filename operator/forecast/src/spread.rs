//! How far starts were from what the rates said: the quantiles of actual over predicted, adapted with each forecast that is
//! decided, so that one in ten starts is earlier than its interval and one in ten later.

use crate::{
    class::{CLASSES, Class},
    memory::{self, Table},
};

/// Lengths that are distinguished: each is twice the one before, from a minute to 22 days.
pub(crate) const LENGTHS: usize = 16;

/// Added to what is compared, in seconds: nobody needs to know seconds.
pub(crate) const GRAIN: f64 = 60.0;

/// The parts of starts that are earlier than each bound of a forecast.
const LEVELS: [f64; 3] = [0.1, 0.5, 0.9];

/// Factors before anything was learnt, as logarithms. With -1.4 and 1.1 intervals in the laboratory were wider and held more often.
const FIRST: [f64; 3] = [-1.0, 0.0, 0.7];

/// How far a bound moves at least with each forecast that is decided, times 0.1 or 0.9.
const STEP: f64 = 0.03;

/// More forecasts than this change nothing about the step.
const MOST_SEEN: u32 = 1000;

/// What a forecast has in common with others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Traits {
    pub(crate) class: Class,
    pub(crate) length: u8,
    pub(crate) interrupted: bool,
}

impl Traits {
    pub(crate) fn of(class: Class, interrupted: bool, seconds: f64) -> Self {
        let length = ((seconds + GRAIN) / GRAIN).log2().clamp(0.0, (LENGTHS - 1) as f64) as u8;
        Self { class, length, interrupted }
    }

    fn features(self) -> [usize; 3] {
        let length = usize::from(self.length).min(LENGTHS - 1);
        let kind = usize::from(self.interrupted);
        [
            kind * LENGTHS + length,
            2 * LENGTHS + self.class.index(),
            2 * LENGTHS + CLASSES + self.class.index() * LENGTHS + length,
        ]
    }
}

const FEATURES: usize = 2 * LENGTHS + CLASSES + CLASSES * LENGTHS;

/// What is learnt of one thing that forecasts have in common.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Learnt {
    seen: u32,
    /// Logarithms of factors.
    bounds: [f64; 3],
}

/// The quantiles.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Spread {
    learnt: Vec<Learnt>,
}

impl Default for Spread {
    fn default() -> Self {
        Self { learnt: vec![Learnt::default(); FEATURES] }
    }
}

impl Spread {
    /// The bounds of a forecast, in seconds from now on.
    pub(crate) fn around(&self, seconds: f64, traits: Traits) -> [f64; 3] {
        let mut bounds = FIRST;
        for feature in traits.features() {
            for (bound, learnt) in bounds.iter_mut().zip(self.learnt[feature].bounds) {
                *bound += learnt;
            }
        }
        // Each bound is learnt alone, so they may cross. Sorted, one would learn from what another said, and drift away.
        bounds[0] = bounds[0].min(bounds[1]);
        bounds[2] = bounds[2].max(bounds[1]);
        bounds.map(|bound| ((seconds + GRAIN) * bound.clamp(-12.0, 12.0).exp() - GRAIN).max(0.0))
    }

    /// It is known on which side of a bound a start was.
    pub(crate) fn learn(&mut self, traits: Traits, bound: usize, was_earlier: bool) {
        let miss = if was_earlier { LEVELS[bound] - 1.0 } else { LEVELS[bound] };
        for feature in traits.features() {
            let learnt = &mut self.learnt[feature];
            let step = STEP.max(0.3 / (1.0 + f64::from(learnt.seen) / 20.0));
            learnt.bounds[bound] += step * miss;
            if bound == 2 {
                learnt.seen = learnt.seen.saturating_add(1);
            }
        }
    }

    pub(crate) fn remember(&self) -> Table {
        memory::table(self.learnt.iter().map(|learnt| {
            let [early, middle, late] = learnt.bounds;
            [f64::from(learnt.seen.min(MOST_SEEN)), early, middle, late]
        }))
    }

    pub(crate) fn recall(&mut self, table: &Table) -> Option<()> {
        let rows: Vec<[f64; 4]> = memory::read(table, FEATURES)?;
        for (learnt, [seen, early, middle, late]) in self.learnt.iter_mut().zip(rows) {
            *learnt = Learnt { seen: seen as u32, bounds: [early, middle, late] };
        }
        Some(())
    }
}
