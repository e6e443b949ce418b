//! How often ScavengerJobs of each class start while some of them wait, in recent hours and by the hour of the week.

use crate::{
    LINES,
    memory::{self, Table},
};

/// Hours of a week.
const WEEK: usize = 168;

/// Half-lives of what is remembered of starts, in hours: a short forecast goes by what happened just now, a long one by
/// days. Each is about six times the one before.
const HALF_LIVES: [f64; 4] = [1.0, 6.0, 36.0, 216.0];

/// The half-life by which a forecast goes is at least so many times as long. Tried in the laboratory: about a third, 1 and 3; 3 held best in
/// large-jobs, and in steady 1 was no worse.
const TIMES: f64 = 3.0;

/// Half-life of what is remembered of an hour of the week, in hours: four weeks.
const HALF_LIFE_OF_HOURS: f64 = 4.0 * WEEK as f64;

/// So many starts have to be expected in an hour of the day before it counts half by what was seen in it.
const TRUST: f64 = 20.0;

/// Starts of a line, and for how many hours some of it waited; hours at which more starts count for more.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Flow {
    starts: f64,
    hours: f64,
}

/// Starts in an hour of the week, and how many there would have been if all hours were alike.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Hour {
    starts: f64,
    expected: f64,
}

/// How often ScavengerJobs start.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Rates {
    /// Of each line, by half-life.
    flows: Vec<[Flow; HALF_LIVES.len()]>,
    hours: Vec<Hour>,
}

impl Default for Rates {
    fn default() -> Self {
        Self { flows: vec![Default::default(); LINES], hours: vec![Hour::default(); WEEK] }
    }
}

/// The hour of the week, from Thursday 0:00 by UTC, when the epoch began.
fn hour_of_week(now: i64) -> usize {
    usize::try_from(now.div_euclid(3600).rem_euclid(WEEK as i64)).unwrap_or(0)
}

impl Rates {
    /// Time has gone by, in which so many of each line started. `waited` says in which lines some waited.
    pub(crate) fn pass(&mut self, from: i64, to: i64, starts: &[u32], waited: &[bool]) {
        let hours = (to - from).max(0) as f64 / 3600.0;
        let hour = hour_of_week(from);
        let weight = self.weight(hour);
        let (mut started, mut expected) = (0.0, 0.0);
        for line in (0..LINES).filter(|line| waited[*line]) {
            let flow = self.flows[line][HALF_LIVES.len() - 1];
            if flow.starts > 1.0 {
                started += f64::from(starts[line]);
                expected += flow.starts / flow.hours.max(1e-9) * hours;
            }
        }
        for (line, flows) in self.flows.iter_mut().enumerate() {
            // What is known of a line does not fade while nobody waits in it.
            if waited[line] {
                for (flow, half_life) in flows.iter_mut().zip(HALF_LIVES) {
                    let kept = 0.5_f64.powf(hours / half_life);
                    flow.starts = flow.starts * kept + f64::from(starts[line]);
                    flow.hours = flow.hours * kept + hours * weight;
                }
            }
        }
        let kept = 0.5_f64.powf(hours / HALF_LIFE_OF_HOURS);
        for hour in &mut self.hours {
            (hour.starts, hour.expected) = (hour.starts * kept, hour.expected * kept);
        }
        self.hours[hour].starts += started;
        self.hours[hour].expected += expected;
    }

    /// How many more start in an hour of the week than on average. Little history counts for little: of the hour of the
    /// week beside that of the day, and of the hour of the day beside the average.
    fn weight(&self, hour: usize) -> f64 {
        let days = (0..WEEK).filter(|other| other % 24 == hour % 24).map(|other| self.hours[other]);
        let (starts, expected) =
            days.fold((0.0, 0.0), |sum, hour| (sum.0 + hour.starts, sum.1 + hour.expected));
        let of_day = (starts + TRUST) / (expected + TRUST);
        let hour = self.hours[hour];
        ((hour.starts + TRUST * of_day) / (hour.expected + TRUST)).max(0.02)
    }

    pub(crate) fn flows(&self) -> Table {
        memory::table(self.flows.iter().map(|flows| {
            let [a, b, c, d] = *flows;
            [a.starts, a.hours, b.starts, b.hours, c.starts, c.hours, d.starts, d.hours]
        }))
    }

    pub(crate) fn hours(&self) -> Table {
        memory::table(self.hours.iter().map(|hour| [hour.starts, hour.expected]))
    }

    pub(crate) fn recall(&mut self, flows: &Table, hours: &Table) -> Option<()> {
        let flows: Vec<[f64; 2 * HALF_LIVES.len()]> = memory::read(flows, LINES)?;
        let hours: Vec<[f64; 2]> = memory::read(hours, WEEK)?;
        if flows.iter().flatten().chain(hours.iter().flatten()).any(|number| *number < 0.0) {
            return None;
        }
        for (known, read) in self.flows.iter_mut().zip(flows) {
            for (flow, pair) in known.iter_mut().zip(read.chunks_exact(2)) {
                *flow = Flow { starts: pair[0], hours: pair[1] };
            }
        }
        for (known, [starts, expected]) in self.hours.iter_mut().zip(hours) {
            *known = Hour { starts, expected };
        }
        Some(())
    }

    /// The hours from now on.
    pub(crate) fn ahead(&self, now: i64) -> Ahead {
        let first = hour_of_week(now);
        let gone = now.rem_euclid(3600) as f64 / 3600.0;
        let mut sums = vec![0.0];
        let mut sum = 0.0;
        for hour in 0..WEEK {
            let part = if hour == 0 { 1.0 - gone } else { 1.0 };
            sum += part * self.weight((first + hour) % WEEK);
            sums.push(sum);
        }
        Ahead { gone, sums }
    }

    /// In how many average hours so many of a line start; none if none was seen to start.
    pub(crate) fn hours_until(&self, line: usize, count: u32, ahead: &Ahead) -> Option<f64> {
        let flows = &self.flows[line];
        let mut found = None;
        for (place, flow) in flows.iter().enumerate().rev() {
            // One more start is counted than was seen, in as much more time as the longer memory says: a line where
            // none started lately is slow, and not dead.
            let prior = found.map_or(1e9, |(_, rate)| 1.0 / rate);
            if flow.starts <= 0.0 && found.is_none() {
                continue;
            }
            let rate = if found.is_none() {
                flow.starts / flow.hours.max(1e-9)
            } else {
                (flow.starts + 1.0) / (flow.hours + prior)
            };
            let hours = f64::from(count) / rate.max(1e-9);
            found = Some((ahead.time(hours), rate));
            // The shortest memory that is some times as long as the forecast.
            let next = place.checked_sub(1).map(|shorter| HALF_LIVES[shorter]);
            if next.is_none_or(|next| found.is_some_and(|(time, _)| time > next / TIMES)) {
                break;
            }
        }
        found.map(|(time, _)| time)
    }
}

/// The hours of a week from now on.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Ahead {
    /// The part of the first hour that is gone.
    gone: f64,
    /// Average hours that the first hours are worth.
    sums: Vec<f64>,
}

impl Ahead {
    /// After how many hours so many average hours have gone by.
    fn time(&self, average: f64) -> f64 {
        let week = self.sums[WEEK];
        let weeks = (average / week).floor();
        let rest = average - weeks * week;
        let place = self.sums.partition_point(|sum| *sum <= rest).min(WEEK) - 1;
        let (before, behind) = (self.sums[place], self.sums[place + 1]);
        let width = if place == 0 { 1.0 - self.gone } else { 1.0 };
        let begin = if place == 0 { 0.0 } else { place as f64 - self.gone };
        weeks * WEEK as f64 + begin + width * (rest - before) / (behind - before).max(1e-9)
    }
}
