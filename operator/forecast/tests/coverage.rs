//! Forecasts over streams that are made from a seed: as many hold as are promised, also when capacity changes for good.

use std::collections::BTreeMap;

use scavenger_forecast::{Class, Forecast, Forecaster, Kind, Waiting};

/// Seconds between two looks.
const LOOK: i64 = 600;

/// Numbers that look random (splitmix64).
struct Chance(u64);

impl Chance {
    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut number = self.0;
        number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((number ^ (number >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn until_next(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.unit()).ln()
    }
}

/// A pool whose capacity changes with time, and ScavengerJobs that come first and are served first as far as they fit.
struct Stream {
    days: i64,
    /// Cores at a time.
    cores: fn(i64) -> f64,
    /// Mean seconds between two submissions, and mean run time.
    gap: f64,
    run: f64,
}

struct Job {
    cores: f64,
}

#[derive(Default)]
struct Count {
    all: u32,
    early: u32,
    late: u32,
}

impl Count {
    fn coverage(&self) -> f64 {
        1.0 - f64::from(self.early + self.late) / f64::from(self.all)
    }
}

/// What the forecasts of a stream came to from `begin` on: all of them, those of each third of their lengths, those of each class; and
/// the median width over the median wait.
struct Outcome {
    all: Count,
    lengths: Vec<Count>,
    classes: BTreeMap<String, Count>,
    width: f64,
}

impl Stream {
    fn class(job: &Job) -> Class {
        Class::of(Kind::Single, job.cores)
    }

    fn play(&self, seed: u64, begin: i64) -> Outcome {
        let mut chance = Chance(seed);
        let end = self.days * 86_400;
        let mut queue: Vec<(u64, Job)> = Vec::new();
        let mut running: Vec<(i64, f64)> = Vec::new();
        let (mut forecaster, mut next, mut number) = (Forecaster::default(), 0.0, 0);
        // Of each ScavengerJob that waits, when forecasts were made and what they said.
        let mut made: BTreeMap<u64, Vec<(i64, [i64; 3])>> = BTreeMap::new();
        let mut ended: Vec<(i64, [i64; 3], Option<i64>, Class)> = Vec::new();
        for now in (0..end).step_by(60) {
            while next <= now as f64 {
                let cores = [1.0, 2.0, 4.0, 8.0][(chance.unit() * 4.0) as usize];
                queue.push((number, Job { cores }));
                number += 1;
                next += chance.until_next(self.gap);
            }
            running.retain(|(until, _)| *until > now);
            let mut free = (self.cores)(now) - running.iter().map(|(_, cores)| cores).sum::<f64>();
            queue.retain(|(id, job)| {
                if job.cores > free {
                    return true;
                }
                free -= job.cores;
                running.push((now + chance.until_next(self.run) as i64, job.cores));
                forecaster
                    .observe_start(now, &Waiting { id: *id, class: Self::class(job), interrupted: false });
                let forecasts = made.remove(id).unwrap_or_default();
                ended.extend(
                    forecasts.into_iter().map(|(at, bounds)| (at, bounds, Some(now), Self::class(job))),
                );
                false
            });
            if now % LOOK == 0 {
                let waiting: Vec<Waiting> = queue
                    .iter()
                    .map(|(id, job)| Waiting { id: *id, class: Self::class(job), interrupted: false })
                    .collect();
                forecaster.observe_waiting(now, &waiting);
                for (one, forecast) in waiting.iter().zip(forecaster.forecasts(now, &waiting)) {
                    // A part of them is enough.
                    if let Forecast::Between { from, expected, to } = forecast
                        && one.id % 5 == 0
                    {
                        made.entry(one.id).or_default().push((now, [from, expected, to]));
                    }
                }
            }
        }
        for (id, job) in &queue {
            let forecasts = made.remove(id).unwrap_or_default();
            ended.extend(forecasts.into_iter().map(|(at, bounds)| (at, bounds, None, Self::class(job))));
        }
        ended.retain(|(at, bounds, ..)| *at >= begin && bounds[2] <= end);
        outcome(ended)
    }
}

fn outcome(mut ended: Vec<(i64, [i64; 3], Option<i64>, Class)>) -> Outcome {
    ended.sort_by_key(|(at, bounds, ..)| bounds[1] - at);
    let mut outcome =
        Outcome { all: Count::default(), lengths: Vec::new(), classes: BTreeMap::new(), width: 0.0 };
    let third = ended.len().div_ceil(3);
    for (place, (_, bounds, started, class)) in ended.iter().enumerate() {
        if place % third == 0 {
            outcome.lengths.push(Count::default());
        }
        let length = outcome.lengths.last_mut().expect("a third should have begun");
        for count in [&mut outcome.all, length, outcome.classes.entry(class.name()).or_default()] {
            let started = started.unwrap_or(i64::MAX);
            count.all += 1;
            count.early += u32::from(started < bounds[0]);
            count.late += u32::from(started > bounds[2]);
        }
    }
    let median = |mut values: Vec<i64>| {
        values.sort_unstable();
        values[values.len() / 2] as f64
    };
    let width = median(ended.iter().map(|(_, bounds, ..)| bounds[2] - bounds[0]).collect());
    let wait = median(ended.iter().map(|(at, _, started, _)| started.unwrap_or(i64::MAX / 2) - at).collect());
    outcome.width = width / wait;
    outcome
}

/// The part of the forecasts that hold lies between these; so does that of each third by length, with more leeway for chance.
const HOLD: std::ops::RangeInclusive<f64> = 0.75..=0.85;
const HOLD_EACH: std::ops::RangeInclusive<f64> = 0.7..=0.9;

fn check(name: &str, stream: &Stream, begin: i64) {
    let outcome = stream.play(1, begin);
    assert!(outcome.all.all > 1000, "{name}: {}", outcome.all.all);
    let all = outcome.all.coverage();
    assert!(HOLD.contains(&all), "{name}: {all}");
    for (number, third) in outcome.lengths.iter().enumerate() {
        assert!(HOLD_EACH.contains(&third.coverage()), "{name}, third {number}: {}", third.coverage());
    }
    for (class, count) in &outcome.classes {
        assert!(HOLD_EACH.contains(&count.coverage()), "{name}, {class}: {}", count.coverage());
    }
    assert!(outcome.width < 3.0, "{name}: the median width is {} of the median wait", outcome.width);
}

const DAY: i64 = 86_400;

#[test]
fn where_queues_come_and_go() {
    check("steady", &Stream { days: 40, cores: |_| 100.0, gap: 140.0, run: 3600.0 }, 5 * DAY);
}

#[test]
fn where_capacity_changes_with_the_hour() {
    let cores = |now| 100.0 - 60.0 * ((now % DAY) as f64 / DAY as f64 * std::f64::consts::TAU).cos();
    check("daily", &Stream { days: 40, cores, gap: 145.0, run: 3600.0 }, 5 * DAY);
}

#[test]
fn where_half_of_the_capacity_goes_for_good() {
    let cores = |now| if now < 10 * DAY { 200.0 } else { 100.0 };
    check("half", &Stream { days: 40, cores, gap: 140.0, run: 3600.0 }, 10 * DAY);
}
