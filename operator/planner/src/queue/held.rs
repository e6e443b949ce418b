//! The queue while namespaces and claims are held: who waits in the lines of those that are, and who leaves them.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::{Queue, rank::Lane};
use crate::backoff::holds::HoldId;
use crate::{
    capacity::Capacity,
    values::{Demand, Key, Name, Settings, Waiting, WaitingReason},
};

impl Queue {
    /// A start with this demand was refused, for a reason that holds its namespace, or the claims without a volume that it
    /// mounts.
    pub(crate) fn refuse(
        &mut self,
        sj: &Key,
        (demand, claims): (&Demand, &[Name]),
        waiting: &Waiting,
        capacity: &Capacity,
        now: Timestamp,
    ) {
        // The volume may just have come.
        if waiting.reason == WaitingReason::VolumeUnbound && claims.is_empty() {
            return;
        }
        if self.holds.refuse(sj, (demand, claims), waiting, now) {
            self.sort_by_hold(&sj.namespace, capacity);
        }
        self.changed = true;
    }

    /// Admission refused the start of a ScavengerJob with this spec.
    pub(crate) fn deny(
        &mut self,
        sj: &Key,
        spec_hash: u64,
        waiting: &Waiting,
        capacity: &Capacity,
        now: Timestamp,
    ) {
        if self.holds.deny(sj, spec_hash, waiting, now) {
            self.sort_by_hold(&sj.namespace, capacity);
        }
        self.changed = true;
    }

    /// A ScavengerJob is gone: that admission refused it says nothing any more.
    pub(crate) fn forget_denied(&mut self, sj: &Key) {
        self.holds.forget_denied(sj);
    }

    /// Admission took all that a start of a namespace needs.
    pub(crate) fn taken(&mut self, namespace: &Name, capacity: &Capacity) {
        if self.holds.taken(namespace) {
            self.sort_by_hold(namespace, capacity);
            self.changed = true;
        }
    }

    /// A pod of a namespace ended, or a Job of it is gone: what it took of a quota is free.
    pub(crate) fn freed(&mut self, namespace: &Name, is_job: bool) {
        self.changed |= self.holds.freed(namespace, is_job);
    }

    /// A claim has a volume now: nobody that mounts it waits for that any longer.
    pub(crate) fn bound(&mut self, claim: &Key, capacity: &Capacity) {
        if self.holds.bound(claim) {
            self.sort_by_hold(&claim.namespace, capacity);
            self.changed = true;
        }
    }

    /// The ScavengerJobs that start to find out whether their namespace takes them, or whether their claim has a volume.
    pub(crate) fn probes(&self) -> impl Iterator<Item = &Key> {
        self.holds.probes()
    }

    /// True if a ScavengerJob starts to find that out.
    pub(crate) fn is_probe(&self, sj: &Key) -> bool {
        self.holds.is_probe(sj)
    }

    /// A probe is over without a refusal; `was_taken` if all of its pods were made.
    pub(crate) fn probed(&mut self, sj: &Key, was_taken: bool, now: Timestamp) {
        self.changed |= self.holds.probed(sj, was_taken, now);
    }

    /// True if something of a hold changes by now that had not when this was settled last.
    pub(crate) fn opens(&self, now: Timestamp) -> bool {
        self.holds.turns().any(|time| time <= now)
    }

    /// When something of a hold changes next although nothing is seen until then.
    pub(crate) fn wake_at(&self, now: Timestamp) -> Option<Timestamp> {
        self.holds.turns().filter(|time| *time > now).min()
    }

    /// Opens the holds whose time has come, finds out who lacks capacity by now, and ends the holds that are of no use any
    /// more. Returns the heads of the lines that wait for another reason now.
    pub(crate) fn settle_holds(
        &mut self,
        capacity: &Capacity,
        settings: &Settings,
        now: Timestamp,
    ) -> Vec<Key> {
        let is_waited_for = |id| self.lines.keys().any(|lane| lane.hold == Some(id));
        let (over, lacking) = self.holds.settle(settings.max_concurrent_starts, is_waited_for, now);
        let lines_of = |id: HoldId| self.lines.iter().filter(move |(lane, _)| lane.hold == Some(id));
        let lines = lacking.into_iter().flat_map(lines_of);
        let heads = lines.filter_map(|(_, line)| line.members.first()).map(|rank| rank.sj()).collect();
        for scope in over {
            self.holds.end(&scope);
            self.sort_by_hold(&scope.0, capacity);
        }
        heads
    }

    /// Moves those of a namespace into the lines of those that are held, or out of them.
    fn sort_by_hold(&mut self, namespace: &Name, capacity: &Capacity) {
        let first = Key { namespace: namespace.clone(), name: "".into() };
        let members = self.places.range(first..).take_while(|(sj, _)| sj.namespace == *namespace);
        let members: Vec<_> = members.map(|(sj, (lane, rank))| (sj.clone(), *lane, rank.clone())).collect();
        let mut moves: BTreeMap<(Lane, &[Name]), Lane> = BTreeMap::new();
        for (sj, lane, rank) in &members {
            let (sj, lane) = (sj.clone(), *lane);
            let to = *moves.entry((lane, &rank.claims)).or_insert_with(|| {
                // All of a line ask for the same.
                let hold = self.holds.over(namespace, capacity.demand(lane.ask), &rank.claims);
                Lane { hold, ..lane }
            });
            if to != lane {
                self.move_to(&sj, to);
            }
        }
    }
}
