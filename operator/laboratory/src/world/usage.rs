//! What pods really use, and what happens on a node that has less: ScavengerJobs that are counted by use wait for processors,
//! and are killed for memory. The world looks once a minute.
//!
//! The pods of ScavengerJobs use all cores that they may have, and a fixed part of their memory.

use super::{
    cluster::{Event, World},
    pod::{Owner, Phase},
};
use crate::values::{Amounts, AttemptId, MINUTE, NodeId, PodId, Time};

/// What a ScavengerJob uses of the memory that it may have, in percent.
const MEMORY_PERCENT: i64 = 80;

impl World<'_> {
    /// What a pod uses now, if it gets all cores that it could use. Nothing where nothing is known of use.
    #[must_use]
    pub fn used_by(&self, pod: PodId) -> Amounts {
        let of = &self.pods[pod.index()];
        let Some(uses) = self.workload.uses.as_ref().filter(|_| of.phase == Phase::Running) else {
            return Amounts::default();
        };
        match of.owner {
            Owner::Ordinary(place) => uses.of(place, of.requests, self.now),
            Owner::Attempt(attempt, _) => {
                let Amounts { cpu, memory, .. } = self.spec_of(attempt).requests;
                Amounts { cpu, memory: memory * MEMORY_PERCENT / 100, ..Amounts::default() }
            }
        }
    }

    /// Looks at every node, and again a minute later.
    pub(super) fn look_at_use(&mut self) {
        for node in (0..self.on_node.len()).map(NodeId::at) {
            self.kill_for_memory(node);
            // One that is counted by use has one pod, so no other node has a say.
            for (attempt, time) in self.starving(node) {
                self.starve(attempt, time);
            }
        }
        self.after(MINUTE, Event::LookAtUse);
    }

    /// The attempt of a pod that runs and requests less than it may use.
    fn counted_by_use(&self, pod: PodId) -> Option<AttemptId> {
        let of = &self.pods[pod.index()];
        let Owner::Attempt(attempt, _) = of.owner else { return None };
        let is = of.phase == Phase::Running && of.requests.cpu < self.spec_of(attempt).requests.cpu;
        is.then_some(attempt)
    }

    fn by_use_on(&self, node: NodeId) -> impl Iterator<Item = (PodId, AttemptId)> {
        let pods = self.on_node[node.index()].iter();
        pods.filter_map(|pod| self.counted_by_use(*pod).map(|attempt| (*pod, attempt)))
    }

    fn used_on(&self, node: NodeId) -> Amounts {
        self.on_node[node.index()].iter().fold(Amounts::default(), |sum, pod| sum.plus(self.used_by(*pod)))
    }

    /// How many cores a node lacks for those that are counted by use, and how many they would use.
    fn short_on(&self, node: NodeId) -> (i64, i64) {
        let capacity = self.workload.nodes[node.index()].capacity.cpu;
        let asked: i64 = self.by_use_on(node).map(|(pod, _)| self.used_by(pod).cpu).sum();
        ((self.used_on(node).cpu - capacity).clamp(0, asked), asked)
    }

    /// What each pod on a node gets of what it would use. Those that request their cores come first, and those that are counted
    /// by use share what these leave.
    #[must_use]
    pub fn use_on(&self, node: NodeId) -> Vec<(PodId, Amounts)> {
        let (short, asked) = self.short_on(node);
        let gets = |pod: &PodId| {
            let mut used = self.used_by(*pod);
            if short > 0 && self.counted_by_use(*pod).is_some() {
                used.cpu -= used.cpu * short / asked;
            }
            (*pod, used)
        };
        self.on_node[node.index()].iter().map(gets).collect()
    }

    /// How long of the last minute attempts on a node got nothing done.
    fn starving(&self, node: NodeId) -> Vec<(AttemptId, Time)> {
        let (short, asked) = self.short_on(node);
        if short == 0 {
            return Vec::new();
        }
        let of = |(pod, attempt): (PodId, AttemptId)| {
            let wants = self.used_by(pod).cpu;
            let lacks = wants * short / asked;
            (lacks > 0).then(|| (attempt, MINUTE * lacks / wants))
        };
        self.by_use_on(node).filter_map(of).collect()
    }

    /// The kernel kills those that requested next to nothing, the one that uses most first, until memory suffices.
    fn kill_for_memory(&mut self, node: NodeId) {
        let over =
            |world: &Self| world.used_on(node).memory > world.workload.nodes[node.index()].capacity.memory;
        while over(self) {
            let largest = self.by_use_on(node).max_by_key(|(pod, _)| (self.used_by(*pod).memory, *pod));
            let Some((pod, attempt)) = largest else { return };
            self.pods[pod.index()].is_killed = true;
            self.tally.killed += 1;
            self.stop_work(attempt, false);
            self.end_pod(pod);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, sync::Arc};

    use super::*;
    use crate::{
        values::{HOUR, SECOND, SjId},
        workload::{Node, Ordinary, Scavenger, Uses, Workload},
        world::{Delays, Job, Order, Preempts, Start},
    };

    /// A node whose only ordinary pod requests all of it, and a ScavengerJob of one pod that may use so much.
    fn workload(sj: Amounts) -> Workload {
        let capacity = Amounts { cpu: 4000, memory: 8192, pods: 110, gpus: 0 };
        let requests = Amounts::of_pod(4000, 8000, 0);
        let scavenger = Scavenger {
            arrival: 0,
            work: HOUR,
            pods: 1,
            requests: sj,
            interval: 10 * MINUTE,
            cost: 0,
            restart: 0,
            grace: SECOND,
            saves: true,
        };
        Workload {
            nodes: vec![Node { name: "n".to_owned(), capacity, labels: BTreeMap::new() }],
            ordinary: vec![Ordinary { arrival: 0, duration: 9 * HOUR, requests, priority: 0 }],
            scavengers: vec![scavenger],
            length: 9 * HOUR,
            uses: Some(Arc::new(Uses::draw(1))),
        }
    }

    fn played(workload: &Workload) -> World<'_> {
        let mut world = World::new(workload, Preempts::All, Delays::default(), 1);
        world.advance(0);
        let least = Some(Amounts { cpu: 0, memory: 8, ..workload.scavengers[0].requests });
        let (sj, allowed) = (SjId(0), None);
        world.carry_out(Order::Start(Start { sj, number: 1, priority: -1, allowed, remakes: false, least }));
        world.advance(workload.length);
        world.finish();
        world
    }

    #[test]
    fn what_lacks_processors_takes_longer_and_that_is_counted_as_idle() {
        let workload = workload(Amounts::of_pod(4000, 1000, 0));
        let world = played(&workload);
        let finished = world.scavengers[0].finished.expect("it should end");
        // The ordinary pod uses about half of the node, in some minutes all of it.
        assert!((75 * MINUTE..4 * HOUR).contains(&finished), "{finished}");
        let tally = &world.tally;
        assert_eq!((tally.killed, tally.kept), (0, 4000 * HOUR));
        assert_eq!(tally.ran, tally.kept + tally.idle);
        assert!(tally.idle > 4000 * (finished - HOUR - MINUTE), "{}", tally.idle);
    }

    #[test]
    fn what_requested_next_to_nothing_is_killed_where_memory_does_not_suffice() {
        let workload = workload(Amounts::of_pod(100, 4000, 0));
        let world = played(&workload);
        assert_eq!((world.tally.killed, world.tally.interruptions), (1, 1));
        assert!(world.tally.kept < 100 * HOUR && world.scavengers[0].finished.is_none());
        assert!(matches!(world.attempts[0].job, Job::Failed(_)));
        assert_eq!(world.tally.ordinary[0].preempted, 0);
    }
}
