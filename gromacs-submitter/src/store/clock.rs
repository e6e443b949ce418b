//! The database's clock, read along with rows.
//!
//! What is due is decided by the database; times that are written must be of the same clock, or a submitter whose own is
//! a little behind would find every row due at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use jiff::{SignedDuration, Timestamp};

/// Shared by all who use one store.
#[derive(Debug, Clone, Default)]
pub(super) struct Clock {
    /// Microseconds that the database's clock is ahead.
    ahead: Arc<AtomicI64>,
}

impl Clock {
    /// The database's clock says `time` now. The milliseconds that the answer took are left out.
    pub(super) fn set(&self, time: Timestamp) {
        self.ahead.store(time.as_microsecond() - own_now().as_microsecond(), Ordering::Relaxed);
    }

    pub(super) fn now(&self) -> Timestamp {
        let ahead = SignedDuration::from_micros(self.ahead.load(Ordering::Relaxed));
        own_now().checked_add(ahead).unwrap_or_else(|_| own_now())
    }
}

#[allow(
    clippy::disallowed_methods,
    reason = "the clock is read here, at the edge, and handed to what decides"
)]
fn own_now() -> Timestamp {
    Timestamp::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_other_clock_goes_on_from_what_it_said() {
        let clock = Clock::default();
        let before = own_now();
        assert!(clock.now().duration_since(before) < SignedDuration::from_secs(60));
        for ahead in [3600, -3600] {
            let there = own_now() + SignedDuration::from_secs(ahead);
            clock.set(there);
            let passed = clock.now().duration_since(there);
            // What is less than a microsecond is left out.
            assert!(passed.as_micros() >= 0 && passed < SignedDuration::from_secs(60), "{passed:?}");
        }
    }
}
