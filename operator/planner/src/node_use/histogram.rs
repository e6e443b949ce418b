//! A histogram of samples of which old ones count less: its percentile is the predicted peak.
//!
//! A sample counts half as much after each half-life (as in the recommender of the Vertical Pod Autoscaler). Buckets grow
//! by 5%, so a percentile is at most 5% too high, and never too low.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use crate::values::resources::Share;

/// How much larger each bucket is than the one before.
const GROWTH: f64 = 1.05;

/// Weights are counted from a new time before they grow beyond 2 to this power.
const MOST_HALF_LIVES: f64 = 40.0;

/// Buckets with less than this share of all weight are dropped.
const LEAST: f64 = 1e-6;

/// Samples; old ones count less.
#[derive(Debug, Clone)]
pub(crate) struct Histogram {
    /// What the first bucket ends at.
    unit: f64,
    /// Weights by bucket.
    buckets: BTreeMap<u16, f64>,
    /// The time at which a sample has weight 1.
    reference: Timestamp,
    /// Seconds after which a sample counts half as much.
    half_life: f64,
}

impl Histogram {
    /// An empty one, whose smallest bucket ends at `unit`.
    pub(crate) fn new(unit: i64, half_life: SignedDuration, now: Timestamp) -> Self {
        let half_life = in_seconds(half_life);
        Self { unit: to_f64(unit.max(1)), buckets: BTreeMap::new(), reference: now, half_life }
    }

    /// Samples from now on count by another half-life. Those before keep the weights that they have.
    fn set_half_life(&mut self, half_life: SignedDuration, time: Timestamp) {
        let half_life = in_seconds(half_life);
        if half_life != self.half_life {
            self.count_from(time);
            self.half_life = half_life;
        }
    }

    /// How many half-lives a time is after the one at which a sample has weight 1.
    fn age(&self, time: Timestamp) -> f64 {
        time.duration_since(self.reference).as_secs_f64() / self.half_life
    }

    /// Weights are relative to a sample of this time.
    fn count_from(&mut self, time: Timestamp) {
        let shrink = (-self.age(time)).exp2();
        self.reference = time;
        self.buckets.values_mut().for_each(|weight| *weight *= shrink);
        let least = self.buckets.values().sum::<f64>().max(1.0) * LEAST;
        self.buckets.retain(|_, weight| *weight >= least);
    }

    /// Takes in a sample.
    pub(crate) fn add(&mut self, amount: i64, time: Timestamp, half_life: SignedDuration) {
        self.add_weighted(amount, 1.0, time, half_life);
    }

    /// Takes in samples of a time that weigh this much together.
    pub(super) fn add_weighted(
        &mut self,
        amount: i64,
        weight: f64,
        time: Timestamp,
        half_life: SignedDuration,
    ) {
        self.set_half_life(half_life, time);
        if self.age(time) > MOST_HALF_LIVES {
            self.count_from(time);
        }
        *self.buckets.entry(self.bucket(amount)).or_insert(0.0) += weight * self.age(time).exp2();
    }

    /// How much all samples weigh at a time, at which a new one weighs 1.
    pub(crate) fn weight(&self, time: Timestamp) -> f64 {
        self.buckets.values().sum::<f64>() * (-self.age(time)).exp2()
    }

    /// The amount below which this share of the samples is; 0 without samples.
    pub(crate) fn percentile(&self, share: Share) -> i64 {
        let total: f64 = self.buckets.values().sum();
        let mut left = total * share.fraction();
        for (bucket, weight) in &self.buckets {
            left -= weight;
            // What rounding leaves of nothing is nothing.
            if left <= total * 1e-9 {
                return self.end(*bucket);
            }
        }
        self.buckets.keys().next_back().map_or(0, |bucket| self.end(*bucket))
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and u16::MAX")]
    fn bucket(&self, amount: i64) -> u16 {
        let amount = to_f64(amount);
        if amount <= self.unit {
            return 0;
        }
        ((amount / self.unit).ln() / GROWTH.ln()).ceil().clamp(0.0, f64::from(u16::MAX)) as u16
    }

    #[expect(clippy::cast_possible_truncation, reason = "a cast of what is too large stops at the largest")]
    fn end(&self, bucket: u16) -> i64 {
        (self.unit * GROWTH.powi(i32::from(bucket))).ceil() as i64
    }
}

fn in_seconds(half_life: SignedDuration) -> f64 {
    half_life.as_secs_f64().max(1.0)
}

#[expect(clippy::cast_precision_loss, reason = "a part in 2^52 is nothing to a bucket")]
fn to_f64(amount: i64) -> f64 {
    amount as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{at, seconds};

    fn share(fraction: f64) -> Share {
        Share::from_fraction(fraction)
    }

    #[test]
    fn a_percentile_is_at_most_a_bucket_too_high_and_never_too_low() {
        let mut histogram = Histogram::new(10, seconds(1800), at(0));
        assert_eq!(histogram.percentile(share(0.98)), 0);
        for amount in 1..=1000 {
            histogram.add(amount, at(0), seconds(1800));
        }
        for (fraction, exact) in [(0.5, 500), (0.9, 900), (0.98, 980), (1.0, 1000)] {
            let found = histogram.percentile(share(fraction));
            assert!((exact..=exact * 106 / 100).contains(&found), "{found} for {exact}");
        }
        let mut one = Histogram::new(10, seconds(1800), at(0));
        one.add(0, at(0), seconds(1800));
        assert_eq!(one.percentile(share(0.98)), 10, "less than a bucket cannot be told");
        one.add(i64::MAX, at(1), seconds(1800));
        assert!(one.percentile(share(1.0)) >= i64::MAX / 2);
    }

    #[test]
    fn another_half_life_changes_no_weight_that_a_sample_has() {
        for (before, after) in [(60, 1800), (1800, 60)] {
            let mut histogram = Histogram::new(10, seconds(before), at(0));
            // Forty minutes at 4 cores, then a minute at 1 core by the other half-life.
            (0..160).for_each(|number| histogram.add(4000, at(number * 15), seconds(before)));
            let weight = histogram.weight(at(2400));
            (160..164).for_each(|number| histogram.add(1000, at(number * 15), seconds(after)));
            let share_of_new = 4.0 / (weight + 4.0);
            let found = histogram.percentile(share(0.9 * share_of_new));
            assert!((1000..=1050).contains(&found), "{before} to {after}: {found}");
            assert!(
                histogram.percentile(share(0.98)) >= 4000,
                "{before} to {after}: the peak is not forgotten"
            );
        }
    }

    #[test]
    fn a_peak_is_forgotten_after_some_half_lives() {
        let mut histogram = Histogram::new(10, seconds(1800), at(0));
        let sample = |histogram: &mut Histogram, amount, time| {
            histogram.add(amount, at(time), seconds(600));
        };
        // Ten minutes at 4 cores, then at 1 core, a sample each 15 s.
        (0..40).for_each(|number| sample(&mut histogram, 4000, number * 15));
        let mut forgotten = None;
        for number in 40..2000 {
            sample(&mut histogram, 1000, number * 15);
            if forgotten.is_none() && histogram.percentile(share(0.98)) < 1100 {
                forgotten = Some(number * 15 - 600);
            }
        }
        // Its share falls below 2% after between 5 and 6 half-lives.
        let forgotten = forgotten.unwrap();
        assert!((2400..4000).contains(&forgotten), "after {forgotten} s");
        // Ten days later the weights are still numbers.
        sample(&mut histogram, 2000, 864_000);
        assert!((2000..2120).contains(&histogram.percentile(share(0.5))));
    }
}
