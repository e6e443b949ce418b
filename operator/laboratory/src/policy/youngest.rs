//! Those that started last go first: whom `newest` and `predecessor` choose.

use std::collections::BTreeSet;

use crate::{
    values::{Amounts, AttemptId, PodId},
    world::{Change, World},
};

/// The attempts that there are, by when they began.
#[derive(Debug, Default)]
pub(super) struct Youngest {
    active: BTreeSet<AttemptId>,
    known: usize,
}

impl Youngest {
    pub(super) fn see(&mut self, change: Change, world: &World<'_>) {
        while self.known < world.attempts.len() {
            self.active.insert(AttemptId::at(self.known));
            self.known += 1;
        }
        if let Change::Over(attempt) = change {
            self.active.remove(&attempt);
        }
    }

    /// The pods of each attempt that goes: none while `used` is within `most`, and else as many as bring it down to `target`.
    pub(super) fn beyond(
        &self,
        used: Amounts,
        (most, target): (Amounts, Amounts),
        world: &World<'_>,
    ) -> Vec<Vec<PodId>> {
        // What is going is given back already.
        let is_going = |attempt: &AttemptId| {
            let attempt = &world.attempts[attempt.index()];
            attempt.pods.iter().any(|pod| world.pods[pod.index()].deleted.is_some())
        };
        let demand = |attempt: &AttemptId| {
            let spec = world.spec_of(*attempt);
            spec.requests.times(i64::from(spec.pods))
        };
        let going = self.active.iter().filter(|attempt| is_going(attempt)).map(demand);
        let mut used = going.fold(used, Amounts::minus);
        let is_above =
            |used: Amounts, limit: Amounts| used.each().into_iter().zip(limit.each()).any(|(a, b)| a > b);
        let mut chosen = Vec::new();
        if !is_above(used, most) {
            return chosen;
        }
        let staying = self.active.iter().rev().filter(|attempt| !is_going(attempt));
        for attempt in staying {
            if !is_above(used, target) {
                break;
            }
            let pods = world.attempts[attempt.index()].pods.clone();
            // One that has no pods yet is left alone: it goes when it has some.
            if !pods.is_empty() {
                used = used.minus(demand(attempt));
                chosen.push(pods);
            }
        }
        chosen
    }
}
