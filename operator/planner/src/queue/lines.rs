//! The lines of the queue, for a walk and for people.
//!
//! - Of the lines of namespaces and claims that are blocked some members only probe, and lines that can never fit stay out of each
//!   walk until nodes or settings change.
//! - People ask who is where, what decides that, and why a ScavengerJob waits.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use jiff::Timestamp;

use super::{
    Context, Line, Obstacle, Queue,
    rank::{Fronts, Lane, Rank},
    shares::Shares,
    walk::Walk,
};
use crate::{
    backoff::blocked::BlockId,
    capacity::{Capacity, Traits, promises::Ledger},
    values::{Demand, Explanation, Key, Name, Settings, Shortage, Waiting, WaitingReason},
};

/// A ScavengerJob in the queue, with the parts of its rank in the order in which they decide.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueEntry<'a> {
    /// The ScavengerJob.
    pub sj: Key,
    /// Interruptions that advance it: the more, the earlier its turn.
    pub interruptions: u32,
    /// Since when it waits: its creation, or its last interruption.
    pub waiting_since: Timestamp,
    /// Its tenant, if the pool says something of tenants.
    pub tenant: Option<Name>,
    /// The largest share of any of the pool's resources that its tenant holds, in millionths: of equals the one of
    /// the smaller share comes first.
    pub tenant_share: i128,
    /// Since when nothing but capacity keeps it.
    pub ready_since: Timestamp,
    /// True if its last start failed: then it takes one of the start slots for such ScavengerJobs.
    pub last_start_failed: bool,
    /// What it requests.
    pub demand: &'a Demand,
}

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

impl Queue {
    /// Since when the one that has waited longest has waited for nothing but capacity, of those that can ever fit.
    pub(crate) fn oldest_ready(&self) -> Option<Timestamp> {
        let lines = self.lines.values().filter(|line| !line.never);
        lines.filter_map(|line| line.ages.first()).map(|(since, _)| *since).min()
    }

    /// Everyone in the queue, first those whose turn is first. Sorts the whole queue: for people who ask.
    pub(crate) fn in_order<'a>(
        &'a self,
        capacity: &'a Capacity,
        ledger: &Ledger,
        shares: &Shares,
    ) -> Vec<QueueEntry<'a>> {
        let mut members: Vec<_> = self.places.values().collect();
        members.sort_by_cached_key(|(_, rank)| {
            let share = shares.share(&rank.namespace, capacity, ledger);
            (shares.turn_of(rank), share, rank.uid.clone())
        });
        members
            .into_iter()
            .map(|(lane, rank)| QueueEntry {
                sj: rank.sj(),
                interruptions: rank.turn.interruptions.0,
                waiting_since: rank.turn.waiting_since,
                tenant: shares.name_of(lane.tenant),
                tenant_share: shares.share(&rank.namespace, capacity, ledger),
                ready_since: rank.ready_since,
                last_start_failed: lane.failed,
                demand: capacity.demand(lane.ask),
            })
            .collect()
    }

    /// Why a ScavengerJob in the queue waits, as far as the last walk found out.
    pub fn waiting(&self, sj: &Key, context: &mut Context<'_>, starting: usize) -> Option<Explanation> {
        let (lane, rank) = self.places.get(sj)?;
        let line = self.lines.get(lane)?;
        if line.never
            && let Some(shortage) = context.capacity.never_fits(lane.ask, context.settings)
        {
            return Some(lacks(WaitingReason::NeverFits, shortage));
        }
        let lacks_capacity =
            |block| line.reported == Some(Obstacle::Capacity) && self.blocked.lacks_capacity(block);
        if let Some(block) = lane.block.filter(|block| !lacks_capacity(*block))
            && let Some(waiting) = self.blocked.waiting(block)
        {
            return Some(waiting.into());
        }
        if line.members.first() != Some(rank) {
            let message = "queued behind other ScavengerJobs that request the same resources".to_owned();
            return Some(Waiting { reason: WaitingReason::BehindInQueue, message }.into());
        }
        if line.reported == Some(Obstacle::Tenant)
            && let Some(beyond) = context.beyond(*lane)
        {
            return Some(lacks(WaitingReason::TenantLimit, beyond.shortage()));
        }
        Some(match line.reported {
            Some(Obstacle::Capacity) if line.kept_for.is_some() => {
                let holder = line.kept_for.as_ref().map_or_else(String::new, Key::to_string);
                let message = format!(
                    "the capacity that is left is reserved for {holder}, which has waited longer than reserveAfter"
                );
                Waiting { reason: WaitingReason::NoCapacity, message }.into()
            }
            Some(Obstacle::Capacity) => {
                let shortage =
                    context.capacity.shortage(lane.ask, context.promises.ledger(), context.settings);
                lacks(WaitingReason::NoCapacity, shortage)
            }
            _ => {
                let message = format!(
                    "waits for a start slot: {starting} of {} are taken (maxConcurrentStarts{})",
                    context.settings.max_concurrent_starts,
                    if lane.failed { "; half of them for ScavengerJobs whose last start failed" } else { "" }
                );
                Waiting { reason: WaitingReason::BehindInQueue, message }.into()
            }
        })
    }
}

fn lacks(reason: WaitingReason, shortage: Shortage) -> Explanation {
    Explanation { waiting: Waiting { reason, message: shortage.message.clone() }, shortage: Some(shortage) }
}

impl Line {
    /// True if its head knows that it waits for capacity, and that is kept for nobody: as long as its demand does not fit
    /// below the threshold, another look changes nothing.
    pub(super) fn is_settled(&self) -> bool {
        self.reported == Some(Obstacle::Capacity) && self.kept_for.is_none()
    }

    /// Of those that have the turn of the head, the first of each namespace.
    pub(super) fn firsts(&self) -> impl Iterator<Item = &Arc<Rank>> {
        let mut next = self.members.first();
        std::iter::from_fn(move || {
            let rank = next?;
            let empty: Name = Name::from("");
            // Names of namespaces hold no NUL: nothing lies between a namespace and its name with one behind it.
            let behind = Rank {
                again: rank.again,
                turn: rank.turn,
                namespace: format!("{}\0", rank.namespace).into(),
                uid: empty.clone(),
                name: empty,
                created: Timestamp::MIN,
                ready_since: Timestamp::MIN,
                claims: Box::default(),
                failed_starts: rank.failed_starts,
            };
            let alike = |after: &&Arc<Rank>| (after.again, after.turn) == (rank.again, rank.turn);
            next = self.members.range::<Rank, _>(behind..).next().filter(alike);
            Some(rank)
        })
    }
}
