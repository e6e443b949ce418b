//! Each forecast beside the start that it foretold.

use std::collections::{BTreeMap, BTreeSet};

use scavenger_forecast::{CLASSES, Class, Forecast, Forecaster, Waiting};

use super::history::{History, Place, Wait};

/// How often every ScavengerJob that waits is looked at, in seconds.
const EVERY: i64 = 600;

/// So long after a ScavengerJob began to wait its first forecast is made: what starts at once waits for nothing.
const FIRST: i64 = 5;

/// A bin of the histograms is so many percent wide.
const BIN: f64 = 0.02;

/// How many forecasts came to what.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Count {
    /// All of them.
    pub all: u64,
    /// The start was earlier.
    pub early: u64,
    /// It was later.
    pub late: u64,
}

impl Count {
    fn add(&mut self, more: Self) {
        self.all += more.all;
        self.early += more.early;
        self.late += more.late;
    }

    /// The part that held, from 0 to 1; not a number if there is none.
    #[must_use]
    pub fn coverage(self) -> f64 {
        (self.all - self.early - self.late) as f64 / self.all as f64
    }
}

/// Spans by their size.
#[derive(Debug, Clone, Default)]
struct Histogram(BTreeMap<i32, u64>);

fn bin(seconds: i64) -> i32 {
    (f64::from(i32::try_from(seconds.max(1)).unwrap_or(i32::MAX)).ln() / BIN) as i32
}

impl Histogram {
    fn add(&mut self, seconds: i64) {
        *self.0.entry(bin(seconds)).or_default() += 1;
    }

    /// In seconds.
    fn median(&self) -> f64 {
        let half = self.0.values().sum::<u64>() / 2;
        let mut sum = 0;
        let found = self.0.iter().find(|(_, count)| {
            sum += **count;
            sum > half
        });
        found.map_or(f64::NAN, |(bin, _)| (f64::from(*bin) * BIN).exp())
    }
}

/// What all forecasts came to.
#[derive(Debug, Clone, Default)]
pub struct Coverage {
    /// By how long was expected.
    lengths: BTreeMap<i32, Count>,
    /// By class of demand.
    pub classes: BTreeMap<Class, Count>,
    widths: Histogram,
    waits: Histogram,
    /// Looks at which too few starts were seen.
    pub unknown: u64,
    /// Forecasts that end behind the end of the run.
    pub undecided: u64,
}

impl Coverage {
    /// All forecasts of a run.
    #[must_use]
    pub fn of(history: &History) -> Self {
        Player::new(history).play()
    }

    /// Those of one more run.
    pub fn add(&mut self, more: &Self) {
        more.lengths.iter().for_each(|(key, count)| self.lengths.entry(*key).or_default().add(*count));
        more.classes.iter().for_each(|(key, count)| self.classes.entry(*key).or_default().add(*count));
        for (mine, other) in [(&mut self.widths, &more.widths), (&mut self.waits, &more.waits)] {
            other.0.iter().for_each(|(bin, count)| *mine.0.entry(*bin).or_default() += count);
        }
        self.unknown += more.unknown;
        self.undecided += more.undecided;
    }

    /// Of all of them.
    #[must_use]
    pub fn total(&self) -> Count {
        self.lengths.values().fold(Count::default(), |mut sum, count| {
            sum.add(*count);
            sum
        })
    }

    /// Ten groups of about as many forecasts, by how long was expected: the longest of each in seconds, and its count.
    #[must_use]
    pub fn deciles(&self) -> Vec<(f64, Count)> {
        let all = self.total().all;
        let mut deciles: Vec<(f64, Count)> = Vec::new();
        let (mut sum, mut decile) = (0, Count::default());
        for (bin, count) in &self.lengths {
            sum += count.all;
            decile.add(*count);
            if sum * 10 >= all * (deciles.len() as u64 + 1) {
                deciles.push(((f64::from(bin + 1) * BIN).exp(), std::mem::take(&mut decile)));
            }
        }
        deciles
    }

    /// The median width of the intervals, and the median wait from a forecast to the start, in seconds.
    #[must_use]
    pub fn medians(&self) -> (f64, f64) {
        (self.widths.median(), self.waits.median())
    }
}

/// What happens at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Start(usize),
    Wait(usize),
    First(usize),
    Look,
}

struct Player<'a> {
    history: &'a History,
    forecaster: Forecaster,
    queue: BTreeSet<(Place, usize)>,
    /// How many of each class never ran.
    of_class: [u32; CLASSES],
    coverage: Coverage,
}

impl<'a> Player<'a> {
    fn new(history: &'a History) -> Self {
        Self {
            history,
            forecaster: Forecaster::default(),
            queue: BTreeSet::new(),
            of_class: [0; CLASSES],
            coverage: Coverage::default(),
        }
    }

    fn events(&self) -> Vec<(i64, Event)> {
        let History { waits, begin, end } = self.history;
        let of = |(place, wait): (usize, &Wait)| {
            let first = Some(wait.since + FIRST).filter(|time| wait.until.is_none_or(|until| until > *time));
            let start = wait.until.map(|until| (until, Event::Start(place)));
            let first = first.map(|time| (time, Event::First(place)));
            [Some((wait.since, Event::Wait(place))), start, first]
        };
        let looks = (1..).map(|number| begin + number * EVERY).take_while(|time| time <= end);
        let looks = looks.map(|time| (time, Event::Look));
        let mut events: Vec<(i64, Event)> =
            waits.iter().enumerate().flat_map(of).flatten().chain(looks).collect();
        events.sort_unstable_by_key(|(time, event)| {
            // What waited for a moment only waits before it starts.
            let rank = match event {
                Event::Wait(_) => 0,
                Event::Start(_) => 1,
                Event::First(_) => 2,
                Event::Look => 3,
            };
            (*time, rank, *event)
        });
        events
    }

    fn play(mut self) -> Coverage {
        for (time, event) in self.events() {
            match event {
                Event::Wait(place) => {
                    let wait = &self.history.waits[place];
                    self.of_class[wait.class.index()] += u32::from(wait.interruptions == 0);
                    self.queue.insert((wait.place(), place));
                }
                Event::Start(place) => {
                    let wait = &self.history.waits[place];
                    self.of_class[wait.class.index()] -= u32::from(wait.interruptions == 0);
                    self.queue.remove(&(wait.place(), place));
                    self.forecaster.observe_start(time, &wait.waiting());
                }
                Event::First(place) => self.first(place, time),
                Event::Look => self.look(time),
            }
        }
        self.coverage
    }

    /// The forecast when it is submitted, or right after an interruption.
    fn first(&mut self, place: usize, now: i64) {
        let wait = &self.history.waits[place];
        let before = if wait.interruptions == 0 {
            // Nobody comes behind it yet, but for those of the same moment.
            self.of_class[wait.class.index()].saturating_sub(1)
        } else {
            let before = self.queue.range(..(wait.place(), place));
            let alike = before.filter(|(_, other)| self.history.waits[*other].class == wait.class);
            u32::try_from(alike.count()).unwrap_or(u32::MAX)
        };
        let forecast = self.forecaster.forecast(now, &wait.waiting(), before);
        self.record(wait, forecast, now);
    }

    fn look(&mut self, now: i64) {
        let places: Vec<usize> = self.queue.iter().map(|(_, place)| *place).collect();
        let queue: Vec<Waiting> = places.iter().map(|place| self.history.waits[*place].waiting()).collect();
        self.forecaster.observe_waiting(now, &queue);
        let forecasts = self.forecaster.forecasts(now, &queue);
        for (place, forecast) in places.into_iter().zip(forecasts) {
            self.record(&self.history.waits[place], forecast, now);
        }
    }

    /// A forecast that ends behind the end of the run is left out whether it held or not: to count only those that are
    /// known by then would count those that start early.
    fn record(&mut self, wait: &Wait, forecast: Forecast, now: i64) {
        let coverage = &mut self.coverage;
        let Forecast::Between { from, expected, to } = forecast else {
            coverage.unknown += 1;
            return;
        };
        if to > self.history.end {
            coverage.undecided += 1;
            return;
        }
        let started = wait.until.unwrap_or(i64::MAX);
        let count = Count { all: 1, early: u64::from(started < from), late: u64::from(started > to) };
        coverage.lengths.entry(bin(expected - now)).or_default().add(count);
        coverage.classes.entry(wait.class).or_default().add(count);
        coverage.widths.add(to - from);
        coverage.waits.add(started.min(self.history.end) - now);
    }
}

#[cfg(test)]
mod tests {
    use scavenger_forecast::Kind;

    use super::*;

    /// One is submitted every ten minutes and waits for an hour, for so many days.
    fn history(days: i64, forever: impl Fn(i64) -> bool) -> History {
        let waits = (0..days * 144).map(|number| {
            let since = number * 600;
            let until = Some(since + 3601).filter(|_| !forever(number));
            let class = Class::of(Kind::Single, 1.0);
            Wait { id: number.unsigned_abs(), class, since, until, interruptions: 0 }
        });
        History { waits: waits.collect(), begin: 0, end: days * 86_400 }
    }

    #[test]
    fn each_forecast_is_counted_once_in_each_table() {
        let coverage = Coverage::of(&history(20, |_| false));
        let all = coverage.total();
        assert!(coverage.unknown > 0 && all.all > 10_000, "{all:?}");
        let sums = [
            coverage.deciles().iter().map(|(_, count)| count.all).sum::<u64>(),
            coverage.classes.values().map(|count| count.all).sum(),
            coverage.waits.0.values().sum(),
        ];
        assert_eq!(sums, [all.all; 3]);
        let (_, wait) = coverage.medians();
        assert!((1500.0..2400.0).contains(&wait), "half of an hour is left on average: {wait}");
        let mut twice = coverage.clone();
        twice.add(&coverage);
        assert_eq!(twice.total().all, 2 * all.all);
    }

    #[test]
    fn who_never_starts_is_later_than_its_forecast_and_not_left_out() {
        let [none, some] =
            [i64::MAX, 50].map(|every| Coverage::of(&history(20, |number| number % every == 7)));
        assert!(some.total().late > none.total().late + 100, "{:?} {:?}", some.total(), none.total());
    }

    #[test]
    fn what_ends_behind_the_end_of_the_run_is_left_out_whether_it_held_or_not() {
        let history = history(20, |_| false);
        let coverage = Coverage::of(&history);
        let made = coverage.total().all + coverage.unknown + coverage.undecided;
        // Seven looks while it waits, and one when it begins to; fewer right before the end.
        let most = 8 * history.waits.len() as u64;
        assert!(coverage.undecided > 0 && (most - 40..=most).contains(&made), "{made} of {most}");
    }
}
