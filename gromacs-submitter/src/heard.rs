//! Whether the operator is there: its clock is only compared with itself.

use std::sync::{Mutex, PoisonError};

use jiff::Timestamp;

/// When the operator's last word on the pool came to be known, by the clock of the database.
#[derive(Debug, Default)]
pub struct Heard(Mutex<Option<(Timestamp, Timestamp)>>);

impl Heard {
    /// The time for a status that the operator says it wrote at `update`. The first one that a process sees may be old
    /// already, and only the operator's clock says how old.
    #[must_use]
    pub fn of(&self, update: Option<Timestamp>, now: Timestamp) -> Option<Timestamp> {
        let update = update?;
        let mut heard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let time = match *heard {
            Some((known, time)) if known == update => time,
            Some(_) => now,
            None => update.min(now),
        };
        *heard = Some((update, time));
        Some(time)
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
        // Its clock is an hour behind: what it wrote first may be as old.
        let of_operator = |seconds| Some(after(seconds) - SignedDuration::from_hours(1));
        assert_eq!(heard.of(of_operator(0), now()), of_operator(0));
        assert_eq!(heard.of(of_operator(5), after(5)), Some(after(5)), "it writes, so it is there");
        assert_eq!(heard.of(of_operator(5), after(200)), Some(after(5)), "it has not written since");
        assert_eq!(heard.of(None, now()), None);
        let ahead = Heard::default();
        assert_eq!(ahead.of(Some(after(3600)), now()), Some(now()));
    }
}
