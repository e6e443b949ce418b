//! Which lines of the queue take part in a walk: those of namespaces and claims that are blocked probe only, and those that can never
//! fit stay out until nodes or settings change.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::{
    Context, Line, Queue,
    rank::{Fronts, Lane},
    walk::Walk,
};
use crate::{
    backoff::blocked::BlockId,
    capacity::{Capacity, Traits},
    values::{Demand, Key, Name, Settings, Waiting, WaitingReason},
};

impl Queue {
    /// A start with this demand was refused, for a reason that blocks its namespace, or the claims without a volume that it
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
        if self.blocked.refuse(sj, (demand, claims), waiting, now) {
            self.sort_by_block(&sj.namespace, capacity);
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
        if self.blocked.deny(sj, spec_hash, waiting, now) {
            self.sort_by_block(&sj.namespace, capacity);
        }
        self.changed = true;
    }

    /// A ScavengerJob is gone: that admission refused it says nothing any more.
    pub(crate) fn forget_denied(&mut self, sj: &Key) {
        self.blocked.forget_denied(sj);
    }

    /// Admission took all that a start of a namespace needs.
    pub(crate) fn taken(&mut self, namespace: &Name, capacity: &Capacity) {
        if self.blocked.taken(namespace) {
            self.sort_by_block(namespace, capacity);
            self.changed = true;
        }
    }

    /// A pod of a namespace ended, or a Job of it is gone: what it took of a quota is free.
    pub(crate) fn freed(&mut self, namespace: &Name, is_job: bool) {
        self.changed |= self.blocked.freed(namespace, is_job);
    }

    /// A claim has a volume now: nobody that mounts it waits for that any longer.
    pub(crate) fn bound(&mut self, claim: &Key, capacity: &Capacity) {
        if self.blocked.bound(claim) {
            self.sort_by_block(&claim.namespace, capacity);
            self.changed = true;
        }
    }

    /// The ScavengerJobs that start to find out whether their namespace takes them, or whether their claim has a volume.
    pub(crate) fn probes(&self) -> impl Iterator<Item = &Key> {
        self.blocked.probes()
    }

    /// True if a ScavengerJob starts to find that out.
    pub(crate) fn is_probe(&self, sj: &Key) -> bool {
        self.blocked.is_probe(sj)
    }

    /// A probe is over without a refusal; `was_taken` if all of its pods were made.
    pub(crate) fn probed(&mut self, sj: &Key, was_taken: bool, now: Timestamp) {
        self.changed |= self.blocked.probed(sj, was_taken, now);
    }

    /// True if something of a block changes by now that had not when this was settled last.
    pub(crate) fn opens(&self, now: Timestamp) -> bool {
        self.blocked.turns().any(|time| time <= now)
    }

    /// When something of a block changes next although nothing is seen until then.
    pub(crate) fn wake_at(&self, now: Timestamp) -> Option<Timestamp> {
        self.blocked.turns().filter(|time| *time > now).min()
    }

    /// Opens the blocks whose time has come, finds out who lacks capacity by now, and ends the blocks that are of no use any
    /// more. Returns the heads of the lines that wait for another reason now.
    pub(super) fn settle_blocked(
        &mut self,
        capacity: &Capacity,
        settings: &Settings,
        now: Timestamp,
    ) -> Vec<Key> {
        let is_waited_for = |id| self.lines.keys().any(|lane| lane.block == Some(id));
        let (over, lacking) = self.blocked.settle(settings.max_concurrent_starts, is_waited_for, now);
        let lines_of = |id: BlockId| self.lines.iter().filter(move |(lane, _)| lane.block == Some(id));
        let lines = lacking.into_iter().flat_map(lines_of);
        let heads = lines.filter_map(|(_, line)| line.members.first()).map(|rank| rank.sj()).collect();
        for scope in over {
            self.blocked.end(&scope);
            self.sort_by_block(&scope.0, capacity);
        }
        heads
    }

    /// Moves those of a namespace into the lines of those that are blocked, or out of them.
    fn sort_by_block(&mut self, namespace: &Name, capacity: &Capacity) {
        let first = Key { namespace: namespace.clone(), name: "".into() };
        let members = self.places.range(first..).take_while(|(sj, _)| sj.namespace == *namespace);
        let members: Vec<_> = members.map(|(sj, (lane, rank))| (sj.clone(), *lane, rank.clone())).collect();
        let mut moves: BTreeMap<(Lane, &[Name]), Lane> = BTreeMap::new();
        for (sj, lane, rank) in &members {
            let (sj, lane) = (sj.clone(), *lane);
            let to = *moves.entry((lane, &rank.claims)).or_insert_with(|| {
                // All of a line ask for the same.
                let block = self.blocked.over(namespace, capacity.demand(lane.ask), &rank.claims);
                Lane { block, ..lane }
            });
            if to != lane {
                self.move_to(&sj, to);
            }
        }
    }

    /// Finds out whether lines can ever fit: of new ones, of those whose pods other nodes let in than before, and of all if
    /// nodes came, went or grew.
    pub(crate) fn decide_who_never_fits(&mut self, context: &mut Context<'_>, walk: &mut Walk) {
        let new = std::mem::take(&mut self.new);
        let epoch = context.capacity.epoch();
        let most = context.capacity.most_row(context.settings);
        let readmitted = context.capacity.take_readmitted();
        if std::mem::replace(&mut self.epoch, epoch) == epoch {
            for ask in readmitted {
                let first = Lane { ask, ..Lane::default() };
                for (lane, line) in self.lines.range_mut(first..).take_while(|(lane, _)| lane.ask == ask) {
                    if !new.contains(lane) {
                        line.decide(
                            *lane,
                            false,
                            &most,
                            context,
                            (&mut self.fronts, &mut self.unreported),
                            walk,
                        );
                    }
                }
            }
            for lane in &new {
                if let Some(line) = self.lines.get_mut(lane) {
                    line.decide(*lane, true, &most, context, (&mut self.fronts, &mut self.unreported), walk);
                }
            }
        } else {
            for (lane, line) in &mut self.lines {
                let is_new = new.contains(lane);
                line.decide(*lane, is_new, &most, context, (&mut self.fronts, &mut self.unreported), walk);
            }
        }
    }
}

impl Line {
    /// Finds out whether it can ever fit.
    fn decide(
        &mut self,
        lane: Lane,
        is_new: bool,
        most: &[i64],
        context: &mut Context<'_>,
        (fronts, unreported): (&mut Fronts, &mut BTreeSet<Lane>),
        walk: &mut Walk,
    ) {
        let never = !context.capacity.can_fit(lane.ask, most, context.settings);
        let traits = match is_new {
            true => context.capacity.traits(lane.ask),
            false => Traits { kind: context.capacity.places().kind(lane.ask), ..self.traits },
        };
        let Some((head, oldest)) = self.members.first().zip(self.ages.first()) else { return };
        let (was_front, before) = (!is_new && !self.never, std::mem::replace(&mut self.traits, traits));
        if was_front && (never || before != traits) {
            fronts.remove(head.turn, lane, before);
            fronts.change_age(before, Some(oldest), None, lane);
        }
        if !never && (!was_front || before != traits) {
            fronts.insert(head.turn, lane, traits);
            fronts.change_age(traits, None, Some(oldest), lane);
        }
        if !is_new && self.never == never {
            if before != traits {
                fronts.set_settled(head.turn, lane, self.is_settled());
            }
            return;
        }
        self.never = never;
        self.reported = None;
        if never {
            unreported.remove(&lane);
        } else {
            unreported.insert(lane);
        }
        if !is_new {
            walk.to_report.extend(self.members.iter().map(|rank| rank.sj()));
        }
    }
}
