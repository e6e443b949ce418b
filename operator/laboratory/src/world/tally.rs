//! What is counted while a cluster runs. Work is in millicores times milliseconds.

use super::pod::Owner;
use crate::values::{MINUTE, Time};

/// How an ordinary pod fared.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OrdinaryState {
    /// From its arrival until it ran for the first time; none if it never did.
    pub waited: Option<Time>,
    /// How often it was preempted.
    pub preempted: u32,
}

/// What was counted so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tally {
    /// What containers of ScavengerJobs ran.
    pub ran: i64,
    /// Work that checkpoints or results hold.
    pub kept: i64,
    /// Work that was done and is done again.
    pub redone: i64,
    /// What restarts took.
    pub restarts: i64,
    /// What writing checkpoints took.
    pub writing: i64,
    /// What containers ran without anything getting done: others of their gang were missing, or they were ending.
    pub idle: i64,
    /// Work since the last checkpoint, of what still ran at the end.
    pub in_progress: i64,
    /// How often all containers of an attempt began to run.
    pub starts: u64,
    /// How often running ScavengerJobs were interrupted.
    pub interruptions: u64,
    /// Pods of ScavengerJobs that were killed because their node had no memory left.
    pub killed: u64,
    /// Every ordinary pod of the workload.
    pub ordinary: Vec<OrdinaryState>,
    /// What ordinary pods requested while they were bound.
    pub held_by_ordinary: i64,
    /// What pods of ScavengerJobs requested while they were bound.
    pub held_by_scavengers: i64,
    /// The same two in each span of [`Tally::STEP`], from the beginning on.
    pub steps: Vec<(i64, i64)>,
    now_ordinary: i64,
    now_scavengers: i64,
    settled: Time,
}

impl Tally {
    /// How finely what is held over time is counted.
    pub const STEP: Time = 5 * MINUTE;

    pub(super) fn new(ordinary: usize) -> Self {
        Self {
            ran: 0,
            kept: 0,
            redone: 0,
            restarts: 0,
            writing: 0,
            idle: 0,
            in_progress: 0,
            starts: 0,
            interruptions: 0,
            killed: 0,
            ordinary: vec![OrdinaryState::default(); ordinary],
            held_by_ordinary: 0,
            held_by_scavengers: 0,
            steps: Vec::new(),
            now_ordinary: 0,
            now_scavengers: 0,
            settled: 0,
        }
    }

    /// Counts what is held up to now; to be called before that changes.
    pub(super) fn settle(&mut self, now: Time) {
        let span = now - self.settled;
        self.held_by_ordinary += self.now_ordinary * span;
        self.held_by_scavengers += self.now_scavengers * span;
        while self.settled < now {
            let place = usize::try_from(self.settled / Self::STEP).unwrap_or(0);
            let end = (self.settled / Self::STEP + 1) * Self::STEP;
            let part = now.min(end) - self.settled;
            self.steps.resize(self.steps.len().max(place + 1), (0, 0));
            self.steps[place].0 += self.now_ordinary * part;
            self.steps[place].1 += self.now_scavengers * part;
            self.settled += part;
        }
    }

    pub(super) fn occupy(&mut self, owner: Owner, cpu: i64) {
        match owner {
            Owner::Ordinary(_) => self.now_ordinary += cpu,
            Owner::Attempt(..) => self.now_scavengers += cpu,
        }
    }

    pub(super) fn ordinary_starts(&mut self, place: u32, waited: Time) {
        self.ordinary[place as usize].waited.get_or_insert(waited);
    }

    pub(super) fn ordinary_preempted(&mut self, place: u32) {
        self.ordinary[place as usize].preempted += 1;
    }

    /// What ran and is kept nowhere. What is in progress is neither kept nor lost yet.
    #[must_use]
    pub fn lost(&self) -> i64 {
        self.ran - self.kept - self.in_progress
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_over_time_adds_up() {
        let mut tally = Tally::new(0);
        tally.occupy(Owner::Ordinary(0), 2);
        tally.settle(7 * MINUTE);
        tally.occupy(Owner::Ordinary(1), 3);
        tally.settle(12 * MINUTE);
        tally.settle(12 * MINUTE);
        let parts = [10, 2 * 2 + 5 * 3, 5 * 2].map(|minutes| (minutes * MINUTE, 0));
        assert_eq!(tally.steps, parts);
        assert_eq!(tally.held_by_ordinary, 39 * MINUTE);
    }
}
