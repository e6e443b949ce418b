//! Whether the operator is there: its clock is only compared with itself.
//!
//! Each of its words on the pool counts from when a submitter first saw it, by the clock of the database, which keeps that
//! time: a process that does not stay (`run --once`) sees one word, and no later one.

use std::sync::{Mutex, PoisonError};

use jiff::Timestamp;

/// The operator's newest word on the pool, by its own clock, and when that was first seen.
#[derive(Debug, Default)]
pub struct Heard(Mutex<Option<(Timestamp, Timestamp)>>);

impl Heard {
    /// When what the operator wrote at `update` was first seen; none if it is not what this process knows.
    #[must_use]
    pub fn of(&self, update: Timestamp) -> Option<Timestamp> {
        let heard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        heard.filter(|(known, _)| *known == update).map(|(_, time)| time)
    }

    /// What the operator wrote at `update` was first seen then.
    pub fn remember(&self, update: Timestamp, seen: Timestamp) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((update, seen));
    }
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::*;
    use crate::fixtures::now;

    #[test]
    fn the_operators_clock_is_only_compared_with_itself() {
        let heard = Heard::default();
        let after = |seconds| now() + SignedDuration::from_secs(seconds);
        // Its clock is an hour ahead.
        let of_operator = |seconds| after(seconds) + SignedDuration::from_hours(1);
        assert_eq!(heard.of(of_operator(0)), None);
        heard.remember(of_operator(0), now());
        assert_eq!(heard.of(of_operator(0)), Some(now()));
        assert_eq!(heard.of(of_operator(5)), None, "that is news");
        heard.remember(of_operator(5), after(7));
        assert_eq!(heard.of(of_operator(5)), Some(after(7)));
    }
}
