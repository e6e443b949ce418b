//! How often something may happen, per key.

use std::{collections::HashMap, hash::Hash, time::Duration};

use tokio::time::Instant;

/// So few entries are not worth a look through them.
const FEW: usize = 1000;

/// Lets each key pass once in a period, and a few times more if it has been quiet before.
///
/// Of each key one moment is kept: when its allowance is whole again. A key whose moment has passed is as one that was
/// never seen, and is forgotten.
#[derive(Debug)]
pub(super) struct Pace<K> {
    period: Duration,
    /// How far a key may be ahead of its period.
    ahead: Duration,
    whole: HashMap<K, Instant>,
    /// Entries after the last look through them.
    kept: usize,
}

impl<K: Eq + Hash> Pace<K> {
    /// `burst`: how often a key that was quiet may pass at once.
    pub(super) fn new(period: Duration, burst: u32) -> Self {
        Self { period, ahead: period * burst.saturating_sub(1), whole: HashMap::new(), kept: 0 }
    }

    /// Lets the key pass, or says how long it must wait.
    pub(super) fn pass(&mut self, key: K, now: Instant) -> Result<(), Duration> {
        if self.whole.len() >= FEW.max(2 * self.kept) {
            self.whole.retain(|_, whole| *whole > now);
            self.kept = self.whole.len();
        }
        let whole = self.whole.entry(key).or_insert(now);
        let from = (*whole).max(now);
        let early = from.duration_since(now).saturating_sub(self.ahead);
        if !early.is_zero() {
            return Err(early);
        }
        *whole = from + self.period;
        Ok(())
    }

    /// Takes one pass of the key back.
    pub(super) fn give_back(&mut self, key: &K) {
        if let Some(whole) = self.whole.get_mut(key)
            && let Some(before) = whole.checked_sub(self.period)
        {
            *whole = before;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_quiet_key_may_pass_a_few_times_and_then_once_in_a_period() {
        let mut pace = Pace::new(10 * SECOND, 3);
        let start = Instant::now();
        for _ in 0..3 {
            assert_eq!(pace.pass("a", start), Ok(()));
        }
        assert_eq!(pace.pass("a", start), Err(10 * SECOND));
        assert_eq!(pace.pass("b", start), Ok(()), "another key");
        assert_eq!(pace.pass("a", start + 4 * SECOND), Err(6 * SECOND));
        assert_eq!(pace.pass("a", start + 10 * SECOND), Ok(()));
        assert_eq!(pace.pass("a", start + 10 * SECOND), Err(10 * SECOND));
        pace.give_back(&"a");
        assert_eq!(pace.pass("a", start + 10 * SECOND), Ok(()));
        let mut passed = 0;
        for second in 1000..2000 {
            passed += u32::from(pace.pass("a", start + second * SECOND).is_ok());
        }
        assert_eq!(passed, 102);
    }

    #[test]
    fn keys_that_are_quiet_are_forgotten() {
        let mut pace = Pace::new(SECOND, 1);
        let start = Instant::now();
        for key in 0..100_000_u32 {
            assert_eq!(pace.pass(key, start + key / 100 * SECOND), Ok(()));
        }
        assert!(pace.whole.len() < 2 * FEW, "{}", pace.whole.len());
    }
}
