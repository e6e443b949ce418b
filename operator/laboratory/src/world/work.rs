//! What a workload gets done while it runs: work, checkpoints, and what of it is kept when it stops.

use crate::{values::Time, workload::Scavenger};

/// What an attempt did from when all of its containers ran until it stopped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Done {
    /// Time that went into the restart.
    pub restart: Time,
    /// Work that was done.
    pub worked: Time,
    /// What of it the last checkpoint holds.
    pub saved: Time,
    /// Time that went into writing checkpoints.
    pub writing: Time,
}

impl Scavenger {
    /// How long a run takes that has so much work left, with a restart of this length before.
    #[must_use]
    pub fn time_for(&self, left: Time, restart: Time) -> Time {
        // None is written at the end: the results are.
        let writes = (left - 1).max(0) / self.interval;
        restart + left + writes * self.cost
    }

    /// What a run has done after this time.
    #[must_use]
    pub fn done_after(&self, elapsed: Time, restart: Time) -> Done {
        let worked_for = (elapsed - restart).max(0);
        let cycle = self.interval + self.cost;
        let (whole, part) = (worked_for / cycle, worked_for % cycle);
        let saved = whole * self.interval;
        let unsaved = part.min(self.interval);
        Done {
            restart: elapsed.min(restart),
            worked: saved + unsaved,
            saved,
            writing: whole * self.cost + part - unsaved,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::Amounts;

    fn scavenger(interval: Time, cost: Time) -> Scavenger {
        Scavenger {
            arrival: 0,
            work: 1000,
            pods: 1,
            requests: Amounts::of_pod(1000, 1, 0),
            interval,
            cost,
            restart: 60,
            grace: 1,
            saves: false,
        }
    }

    #[test]
    fn work_is_kept_up_to_the_last_checkpoint_that_was_written_to_its_end() {
        let sj = scavenger(100, 10);
        for (elapsed, restart, worked, saved, writing) in [
            (30, 30, 0, 0, 0),
            (60, 60, 0, 0, 0),
            (159, 60, 99, 0, 0),
            (160, 60, 100, 0, 0),
            (169, 60, 100, 0, 9),
            (170, 60, 100, 100, 10),
            (275, 60, 200, 100, 15),
        ] {
            let done = sj.done_after(elapsed, 60);
            assert_eq!(done, Done { restart, worked, saved, writing }, "{elapsed}");
            assert_eq!(done.restart + done.worked + done.writing, elapsed);
        }
    }

    #[test]
    fn a_run_ends_when_its_work_is_done_and_writes_no_checkpoint_then() {
        for (left, restart, time) in [(1, 0, 1), (100, 0, 100), (101, 0, 111), (250, 60, 330), (0, 5, 5)] {
            let sj = scavenger(100, 10);
            assert_eq!(sj.time_for(left, restart), time);
            assert_eq!(sj.done_after(time, restart).worked, left);
        }
        let free = scavenger(100, 0);
        assert_eq!(free.done_after(free.time_for(300, 0), 0).worked, 300);
    }
}
