//! What supervisors know: when the checkpoints of running attempts are written.

use std::collections::{BTreeSet, HashMap, HashSet};

use crate::{
    values::{AttemptId, SjId, Time},
    world::World,
};

/// The attempts that run under the supervisor.
#[derive(Debug, Default)]
pub(super) struct Checkpoints {
    /// Those whose Job names it.
    supervised: HashSet<(SjId, u32)>,
    /// Of each of them the newest checkpoint, if there is one.
    newest: HashMap<AttemptId, Option<Time>>,
    /// When to look for the next, when the run began that writes it, and when it is written if the run never starves.
    due: BTreeSet<(Time, AttemptId, Time, Time)>,
    /// The run of each attempt that is followed.
    followed: HashMap<AttemptId, Time>,
}

impl Checkpoints {
    /// The Job of an attempt names the supervisor.
    pub(super) fn supervise(&mut self, sj: SjId, number: u32) {
        self.supervised.insert((sj, number));
    }

    /// An attempt has a number.
    pub(super) fn begin(&mut self, id: AttemptId, (sj, number): (SjId, u32)) {
        if self.supervised.contains(&(sj, number)) {
            self.newest.insert(id, None);
        }
    }

    /// None without a supervisor, else the newest checkpoint.
    pub(super) fn of(&self, attempt: AttemptId) -> Option<Option<Time>> {
        self.newest.get(&attempt).copied()
    }

    /// An attempt may have begun to run.
    pub(super) fn follow(&mut self, id: AttemptId, world: &World<'_>) {
        let Some((since, restart)) = world.attempts[id.index()].run else { return };
        if self.newest.contains_key(&id) && self.followed.insert(id, since) != Some(since) {
            let spec = world.spec_of(id);
            let first = since + restart + spec.interval + spec.cost;
            self.due.insert((first, id, since, first));
        }
    }

    /// When the next one is written.
    pub(super) fn next(&self) -> Option<Time> {
        self.due.first().map(|(time, ..)| *time)
    }

    /// Those that are written by now.
    pub(super) fn written_by_now(&mut self, world: &World<'_>) -> Vec<(AttemptId, Time)> {
        let mut written = Vec::new();
        while let Some(due) = self.due.first().copied().filter(|(time, ..)| *time <= world.now) {
            self.due.remove(&due);
            let (time, id, since, planned) = due;
            let attempt = &world.attempts[id.index()];
            if attempt.run.is_none_or(|(begun, _)| begun != since) {
                continue;
            }
            if planned + attempt.starved > time {
                self.due.insert((planned + attempt.starved, id, since, planned));
                continue;
            }
            let spec = world.spec_of(id);
            let cycle = spec.interval + spec.cost;
            self.due.insert((time + cycle, id, since, planned + cycle));
            self.newest.insert(id, Some(time));
            written.push((id, time));
        }
        written
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        values::{Amounts, MINUTE, SECOND},
        workload::{Node, Scavenger, Workload},
        world::{Delays, Order, Preempts, Start},
    };

    fn workload() -> Workload {
        let capacity = Amounts { cpu: 4000, memory: 4096, pods: 10, gpus: 0 };
        let sj = Scavenger {
            arrival: 0,
            work: 60 * MINUTE,
            pods: 1,
            requests: Amounts::of_pod(1000, 1024, 0),
            interval: 10 * MINUTE,
            cost: 5 * SECOND,
            restart: MINUTE,
            grace: SECOND,
            saves: false,
        };
        let nodes = vec![Node { name: "n0".to_owned(), capacity, labels: [].into() }];
        Workload { nodes, scavengers: vec![sj], length: 120 * MINUTE, ..Workload::default() }
    }

    #[test]
    fn checkpoints_are_known_when_they_are_written_to_their_end_and_only_while_it_runs() {
        let workload = workload();
        let mut world = World::new(&workload, Preempts::All, Delays::default(), 1);
        let (sj, id) = (SjId(0), AttemptId(0));
        let start = Start { sj, number: 1, priority: 0, allowed: None, remakes: false, least: None };
        world.carry_out(Order::Start(start));
        world.advance(MINUTE);
        let mut checkpoints = Checkpoints::default();
        checkpoints.begin(id, (sj, 1));
        checkpoints.follow(id, &world);
        assert_eq!((checkpoints.of(id), checkpoints.next()), (None, None), "it has no supervisor");
        checkpoints.supervise(sj, 1);
        checkpoints.begin(id, (sj, 1));
        checkpoints.follow(id, &world);
        let (since, _) = world.attempts[0].run.unwrap();
        let first = since + 10 * MINUTE + 5 * SECOND;
        assert_eq!((checkpoints.of(id), checkpoints.next()), (Some(None), Some(first)));
        world.advance(first);
        assert_eq!(checkpoints.written_by_now(&world), [(id, first)]);
        assert_eq!(checkpoints.of(id), Some(Some(first)));
        assert_eq!(checkpoints.next(), Some(first + 10 * MINUTE + 5 * SECOND));
        world.carry_out(Order::Interrupt(world.attempts[0].pods.clone()));
        world.advance(first + 30 * MINUTE);
        assert_eq!(checkpoints.written_by_now(&world), []);
        assert_eq!((checkpoints.of(id), checkpoints.next()), (Some(Some(first)), None));
    }
}
