//! Forecasts that are not decided yet: a sample of those that were made.

use crate::memory;
use crate::spread::{LENGTHS, Spread, Traits};

/// Forecasts of one length that are open at a time.
const OPEN: usize = 16;

/// A forecast that may be followed, with its bounds in seconds from now on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Candidate {
    pub(crate) id: u64,
    pub(crate) traits: Traits,
    pub(crate) bounds: [f64; 3],
}

/// A forecast whose end is awaited.
#[derive(Debug, Clone, PartialEq)]
struct Trial {
    id: u64,
    traits: Traits,
    /// Seconds since the epoch at which each bound lies.
    bounds: [i64; 3],
    /// Bounds about which is known that the start is later.
    passed: usize,
}

/// The sample.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Trials {
    open: Vec<Trial>,
    /// When one of each length may be added again.
    next: Vec<i64>,
    /// Of those that were decided lately, how many there were, and how many held.
    decided: f64,
    held: f64,
    results: Results,
}

/// How many forecasts were decided, and how.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Results {
    /// The start was in the interval.
    pub held: u64,
    /// It was earlier.
    pub earlier: u64,
    /// It was later.
    pub later: u64,
}

impl Default for Trials {
    fn default() -> Self {
        Self {
            open: Vec::new(),
            next: vec![0; LENGTHS],
            decided: 0.0,
            held: 0.0,
            results: Results::default(),
        }
    }
}

/// What is remembered of how many held: about so many.
const REMEMBERED: f64 = 200.0;

impl Trials {
    /// True if one more of this length may be added now.
    pub(crate) fn wants(&self, length: u8, now: i64) -> bool {
        self.next[usize::from(length)] <= now
    }

    /// A forecast was made that is to be followed.
    pub(crate) fn add(&mut self, candidate: Candidate, now: i64) {
        let Candidate { id, traits, bounds } = candidate;
        let length = usize::from(traits.length);
        if self.open.iter().filter(|trial| trial.traits.length == traits.length).count() >= OPEN {
            return;
        }
        // As many as may be open are spread over the time that one takes.
        self.next[length] = now + (60_i64 << length) / OPEN as i64;
        let bounds = bounds.map(|seconds| now + seconds.min(1e12) as i64);
        self.open.push(Trial { id, traits, bounds, passed: 0 });
    }

    /// Those whose bounds have passed are decided that far.
    pub(crate) fn pass(&mut self, now: i64, spread: &mut Spread) {
        let mut missed = 0;
        self.open.retain_mut(|trial| {
            while trial.passed < 3 && trial.bounds[trial.passed] <= now {
                spread.learn(trial.traits, trial.passed, false);
                trial.passed += 1;
            }
            missed += u64::from(trial.passed == 3);
            trial.passed < 3
        });
        self.results.later += missed;
        (0..missed).for_each(|_| self.decide(false));
    }

    /// A ScavengerJob starts.
    pub(crate) fn start(&mut self, id: u64, now: i64, spread: &mut Spread) {
        let (ended, open) = std::mem::take(&mut self.open).into_iter().partition(|trial| trial.id == id);
        self.open = open;
        let ended: Vec<Trial> = ended;
        for trial in ended {
            for bound in trial.passed..3 {
                spread.learn(trial.traits, bound, now < trial.bounds[bound]);
            }
            let [from, _, to] = trial.bounds;
            match now {
                _ if now < from => self.results.earlier += 1,
                _ if now > to => self.results.later += 1,
                _ => self.results.held += 1,
            }
            self.decide((from..=to).contains(&now));
        }
    }

    /// A ScavengerJob waits no longer and did not start.
    pub(crate) fn drop(&mut self, id: u64) {
        self.open.retain(|trial| trial.id != id);
    }

    fn decide(&mut self, has_held: bool) {
        let kept = 1.0 - 1.0 / REMEMBERED;
        self.decided = self.decided * kept + 1.0;
        self.held = self.held * kept + f64::from(u8::from(has_held));
    }

    /// The part of the forecasts that held, of those that were decided lately, and how many these are.
    pub(crate) fn coverage(&self) -> (f64, f64) {
        (self.held / self.decided.max(1e-9), self.decided)
    }

    pub(crate) fn results(&self) -> Results {
        self.results
    }

    pub(crate) fn remember(&self) -> (f32, f32) {
        (memory::rounded(self.decided), memory::rounded(self.held))
    }

    pub(crate) fn recall(&mut self, (decided, held): (f32, f32)) -> Option<()> {
        let is_count = (0.0..=decided).contains(&held) && decided.is_finite();
        (self.decided, self.held) = (decided.into(), held.into());
        is_count.then_some(())
    }
}
