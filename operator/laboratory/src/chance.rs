//! What is drawn from a seed: the simulator's numbers, and the few distributions that workloads are made of.

use scavenger_simulator::Random;

use crate::values::Time;

/// Numbers that look random and are the same for the same seed.
#[derive(Debug, Clone)]
pub struct Chance(Random);

/// How finely a number between 0 and 1 is drawn.
const GRAINS: u64 = 1 << 32;

impl Chance {
    /// From a seed, and from what it is for: two uses of one seed have nothing in common.
    #[must_use]
    pub fn new(seed: u64, purpose: u64) -> Self {
        let mut random = Random::new(seed.wrapping_mul(0x1_0000_01b3).wrapping_add(purpose).wrapping_add(1));
        // The first numbers of seeds that are close to each other are close to each other.
        for _ in 0..8 {
            random.below(2);
        }
        Self(random)
    }

    /// A number below a bound.
    pub fn below(&mut self, bound: Time) -> Time {
        let bound = u64::try_from(bound).unwrap_or(1);
        Time::try_from(self.0.below(bound)).unwrap_or(0)
    }

    /// True in so many of a hundred cases.
    pub fn percent(&mut self, percent: u64) -> bool {
        self.0.below(100) < percent
    }

    /// One of several.
    ///
    /// # Panics
    /// If there is none.
    pub fn of<'a, T>(&mut self, several: &'a [T]) -> &'a T {
        let place = self.0.below(several.len() as u64);
        &several[usize::try_from(place).unwrap_or(0)]
    }

    /// A number above 0 and up to 1.
    fn unit(&mut self) -> f64 {
        (self.0.below(GRAINS) + 1) as f64 / GRAINS as f64
    }

    /// How long it takes until something happens that happens once in `mean` on average, whatever happened before.
    pub fn until_next(&mut self, mean: f64) -> Time {
        (-mean * self.unit().ln()).ceil() as Time
    }

    /// A span between two, each order of magnitude as likely as another.
    pub fn between_evenly_by_size(&mut self, least: Time, most: Time) -> Time {
        let (least, most) = (least.max(1) as f64, most.max(1) as f64);
        (least * (most / least).powf(self.unit())).round() as Time
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_drawn_has_the_mean_that_it_is_said_to_have() {
        let mut chance = Chance::new(1, 0);
        let sum: Time = (0..20_000).map(|_| chance.until_next(1000.0)).sum();
        assert!((950..1050).contains(&(sum / 20_000)), "{}", sum / 20_000);
        let mut chance = Chance::new(2, 0);
        let sum: Time = (0..20_000).map(|_| chance.between_evenly_by_size(100, 10_000)).sum();
        // (10,000 - 100) / ln(100)
        assert!((2050..2250).contains(&(sum / 20_000)), "{}", sum / 20_000);
    }

    #[test]
    fn seeds_and_purposes_have_nothing_in_common() {
        let draw = |seed, purpose| {
            let mut chance = Chance::new(seed, purpose);
            (0..5).map(|_| chance.below(1_000_000)).collect::<Vec<_>>()
        };
        assert_eq!(draw(1, 1), draw(1, 1));
        assert_ne!(draw(1, 1), draw(2, 1));
        assert_ne!(draw(1, 1), draw(1, 2));
    }
}
