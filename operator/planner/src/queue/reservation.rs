//! Standing reservations: capacity that is kept for those that have waited long.
//!
//! Nobody starves: who has waited for the pool's `reserveAfter` (since it was created or last interrupted, or since nothing
//! but capacity kept it from starting: the delay after a withdrawn start was over, its folder and its volume were free for
//! the first time, and it was not suspended) and would fit if no ScavengerJob were there gets a standing reservation. There is
//! one for each kind of demand (the set of extended resources it asks for); of several of a kind the one that has
//! waited longest has it. It binds those behind its holder in the order above, and those created after its holder began
//! to wait: these could have been interrupted only because they were let past before, so that does not put them ahead
//! again. Holders are bound only by holders that have waited longer than they have: nobody waits for one that waits for
//! it, and the one that has waited longest is bound by nobody. (Not by turn: one that was interrupted often, or another
//! of its kind after it, would come before this one again and again.)
//!
//! With the order FairShare tenants come first ([`super::shares`]): of a kind the one that has waited longest of the tenant
//! that stands first has the reservation, and holders are bound by those whose tenant stands before theirs, or the same and
//! that have waited longer. Nor does a reservation bind those that came later if their tenant stands before its holder's:
//! else a tenant with many that have waited long would get all that becomes free, one reservation after the other, whatever
//! it used. A holder may so lose its reservation to another tenant's. That one starts, its tenant stands further behind
//! with it, and the first tenant's turn comes as soon as it would without reservations.
//!
//! Who is bound may start only if it does not touch the reservation:
//!
//! - below the threshold there must be capacity for it and for the holder, in every resource that both ask for;
//! - the holder's nodes are those where least has to end before its pods fit beside ordinary ones. On each of them at
//!   which the scheduler could put pods of the one that is bound, the holder must fit beside these, too.
//!
//! So of what the holder needs nothing is taken any more by those that came later, and each ScavengerJob that ends gives
//! it more: it starts as soon as those that were there before it, which are finite in number, are through. Ordinary pods
//! are never held up, and one that cannot fit beside them reserves nothing. All of this follows from what statuses say,
//! so it outlives a restart. Slurm and Maui keep capacity for the head of the queue in the same way (EASY backfill); there
//! users promise when their jobs end. Here nobody does, so what is reserved is only lent, to those that can be interrupted
//! again.
//!
//! # What is lent
//!
//! Capacity that lies idle because it is reserved is lent, and taken back when it is needed.
//!
//! A standing reservation can keep most of a pool idle: a gang of 20 nodes waits for the last one,
//! and the other 19 are empty. So what is reserved is lent to a ScavengerJob that the reservation binds and that would fit
//! now, if an interruption costs it little ([`super::rank::may_borrow`]). Nothing else is different for it: what it
//! holds counts as used for the threshold, for headroom and for ordinary pods. That its start is lent stands in the status
//! of its attempt, so it outlives a restart.
//!
//! What is lent counts as free for those that come before the borrower:
//!
//! - Where a reservation is touched is decided as if no borrower were there.
//! - The holder of a reservation, and a ScavengerJob that comes before all holders, starts as soon as it would fit if what
//!   is lent to those behind it were free. Until that is free its nodes are kept for it alone ([`Claim`]). This is done for
//!   one ScavengerJob after the other, and nobody who becomes ready meanwhile comes before it.
//! - Of the borrowers those go that lose least, and no more than it takes. They go before anybody else would: nobody is
//!   interrupted for a waiting ScavengerJob unless by taking back what was lent.
//!
//! So the holder starts when it would have started without lending, or later by the grace period of the borrowers (and by the
//! rounds that it takes, where more must go than go at once), and so
//! does each that comes before it. The grace period of a borrower is limited for that reason. What is stuck while it is
//! terminating counts as used, as everywhere. The last start slot is not lent.
//!
//! Budgets of the pool may delay the interruption of borrowers ([`TakeBack`]). While they allow none, nothing is kept for those
//! who would get it, so that no capacity lies idle for hours; who began to get something back keeps it until more may go.
//!
//! Nothing is lent any more once no reservation binds the borrower: then it has what it would have got without lending, and
//! keeps it. Giving back costs no rank in the queue and brings none.

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;

use super::{
    Context, Queue,
    rank::{Age, Lane, Rank},
    shares::Shares,
};
use crate::{
    capacity::{Ask, Capacity, Rows},
    lifecycle::loss::Loss,
    values::{Key, Name, ScavengerJob, resources::Resources},
};

/// A standing reservation.
#[derive(Debug)]
pub(crate) struct Reservation {
    pub(super) lane: Lane,
    pub(super) rank: Arc<Rank>,
    pub(super) sj: Key,
    /// Nodes where capacity is kept, with the number of pods on each, once somebody wanted to know.
    pub(super) nodes: Option<Vec<(usize, u32)>>,
}

impl Reservation {
    pub(super) fn binds(&self, other: &Rank, shares: &Shares) -> bool {
        binds(&self.rank, other, shares)
    }
}

/// True if a reservation of the first binds the other.
fn binds(holder: &Rank, other: &Rank, shares: &Shares) -> bool {
    let came_later = other.created > holder.turn.waiting_since;
    shares.turn_of(other) > shares.turn_of(holder)
        || came_later && shares.standing_of(other) >= shares.standing_of(holder)
}

/// What is kept, and for whom.
#[derive(Debug, Default)]
pub(super) struct Kept<'a> {
    pub(super) reservations: Vec<Reservation>,
    /// What of it is lent.
    pub(super) lent: Lent<'a>,
}

impl Queue {
    /// Who has a standing reservation now, in the order in which holders bind each other.
    pub(crate) fn reservations(&self, context: &mut Context<'_>) -> Vec<Reservation> {
        let due = context.now.saturating_sub(context.settings.reserve_after).unwrap_or(Timestamp::MIN);
        let without_scavengers = context.capacity.free_row_without_scavengers(context.settings);
        let standings = context.shares.standings().to_vec();
        let mut first: Vec<(u64, &Age, Lane)> = Vec::new();
        for ages in self.fronts.ages() {
            let mut due = ages.take_while(|((since, _), _)| *since <= due);
            let mut may_start = |lane: Lane| {
                // Capacity may not be all that is lacking where a namespace is held, nor where a tenant is.
                lane.block.is_none_or(|block| self.blocked.lacks_capacity(block))
                    && context.beyond(lane).is_none()
                    && context.capacity.fits_without_scavengers(lane.ask, &without_scavengers)
            };
            if standings.is_empty() {
                first.extend(due.find(|(_, lane)| may_start(*lane)).map(|(age, lane)| (0, age, lane)));
            } else {
                let standing = |lane: Lane| standings.get(lane.tenant as usize).copied().unwrap_or(0);
                let mut due: Vec<_> = due.map(|(age, lane)| (standing(lane), age, lane)).collect();
                due.sort_unstable();
                first.extend(due.into_iter().find(|(_, _, lane)| may_start(*lane)));
            }
        }
        first.sort_unstable();
        let reservation = |(_, (_, sj), lane): (u64, &Age, Lane)| {
            let (_, rank) = self.places.get(sj)?;
            Some(Reservation { lane, rank: rank.clone(), sj: sj.clone(), nodes: None })
        };
        first.into_iter().filter_map(reservation).collect()
    }
}

/// Whose reservation a ScavengerJob would touch if it started now, or whose claim to what is being given back. `free` is
/// what is left below the threshold.
pub(super) fn touched(
    ask: Ask,
    rank: &Rank,
    kept: &mut Kept<'_>,
    claim: Option<&Claim>,
    free: &[i64],
    context: &mut Context<'_>,
) -> Option<Key> {
    if let Some(claim) = claim.filter(|claim| claim.is_touched_by(ask, free, context.capacity)) {
        return Some(claim.sj.clone());
    }
    let free = kept.lent.free(free);
    let mut asks: Vec<Ask> = claim.map(|claim| claim.lane.ask).into_iter().collect();
    let before_it = kept.reservations.iter().position(|reservation| reservation.rank.uid == rank.uid);
    let before_it = before_it.unwrap_or(kept.reservations.len());
    let claims_too = |one: &Reservation| claim.is_some_and(|claim| claim.sj == one.sj);
    let binding = kept.reservations[..before_it].iter_mut();
    let binding = binding.filter(|one| one.binds(rank, context.shares) && !claims_too(one));
    for reservation in binding {
        asks.push(reservation.lane.ask);
        if context.capacity.places().takes_from(ask, &asks, &free) {
            return Some(reservation.sj.clone());
        }
        let nodes = reservation.nodes.get_or_insert_with(|| {
            context.capacity.places().nodes_to_keep(reservation.lane.ask, &kept.lent.rows)
        });
        if context.capacity.places().takes_from_nodes(ask, reservation.lane.ask, nodes, &kept.lent.rows) {
            return Some(reservation.sj.clone());
        }
    }
    None
}

/// What is lent, and whether it may be taken back.
#[derive(Debug, Default)]
pub struct Loans<'a> {
    /// Those to which it is lent.
    pub(crate) borrowers: &'a [Borrower],
    /// What may be taken back now.
    pub(crate) take_back: TakeBack,
}

/// What may be taken back of what is lent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum TakeBack {
    /// Whatever somebody needs who comes before the borrowers.
    #[default]
    Anything,
    /// What was begun to be taken back goes on: soon more may go, and until then what came back is kept.
    Begun,
    /// Nothing. So nothing is kept for it either.
    Nothing,
}

impl TakeBack {
    /// True if something may be taken back that was begun to be taken back, or was not.
    pub(super) fn allows(self, is_begun: bool) -> bool {
        match self {
            Self::Anything => true,
            Self::Begun => is_begun,
            Self::Nothing => false,
        }
    }
}

/// A ScavengerJob that holds capacity that is reserved for another.
#[derive(Debug)]
pub struct Borrower {
    sj: Key,
    /// The one that it started with.
    rank: Rank,
    loss: Loss,
    /// What its pods hold, or are promised, and where.
    held: Vec<(Option<Name>, Resources)>,
    /// True if it gives its capacity back already.
    is_terminating: bool,
}

impl Borrower {
    /// What this ScavengerJob holds, and what it would lose.
    pub(crate) fn of(
        sj: &ScavengerJob,
        loss: Loss,
        held: Vec<(Option<Name>, Resources)>,
        is_terminating: bool,
    ) -> Self {
        Self { sj: sj.key.clone(), rank: Rank::of(sj), loss, held, is_terminating }
    }
}

/// What is lent now, as far as a reservation binds the borrowers.
#[derive(Debug, Default)]
pub(super) struct Lent<'a> {
    borrowers: Vec<Counted<'a>>,
    /// What would become free on nodes of the pool, and below the threshold.
    pub(super) rows: Rows,
    total: Vec<i64>,
}

#[derive(Debug)]
struct Counted<'a> {
    borrower: &'a Borrower,
    rows: Rows,
    total: Vec<i64>,
}

/// What is taken back for a ScavengerJob.
#[derive(Debug, Clone)]
pub(super) struct Return {
    /// Nodes for its pods, and how many on each.
    pub(super) nodes: Vec<(usize, u32)>,
    /// The borrowers that have to go, those that lose least first.
    pub(super) from: Vec<Key>,
    /// What becomes free on nodes of the pool, and below the threshold.
    rows: Rows,
    total: Vec<i64>,
}

/// The claim of a ScavengerJob to what is being given back for it.
#[derive(Debug)]
pub(super) struct Claim {
    pub(super) lane: Lane,
    pub(super) sj: Key,
    pub(super) back: Return,
}

impl Claim {
    /// True if a start now would leave less than is claimed. `free` is what is left below the threshold.
    pub(super) fn is_touched_by(&self, ask: Ask, free: &[i64], capacity: &Capacity) -> bool {
        let mut with_back = free.to_vec();
        add(&mut with_back, &self.back.total);
        capacity.places().takes_from(ask, &[self.lane.ask], &with_back)
            || capacity.places().takes_from_nodes(ask, self.lane.ask, &self.back.nodes, &self.back.rows)
    }
}

impl<'a> Lent<'a> {
    /// Of the borrowers those to which something is lent still. `binds` says whether a reservation binds a rank;
    /// none if nothing is reserved.
    pub(super) fn new(
        borrowers: &'a [Borrower],
        binds: Option<&dyn Fn(&Rank) -> bool>,
        capacity: &Capacity,
    ) -> Self {
        let mut lent = Self::default();
        let is_lent = |borrower: &&Borrower| {
            binds.is_some_and(|binds| binds(&borrower.rank) || borrower.is_terminating)
        };
        for borrower in borrowers.iter().filter(is_lent) {
            let counted = Counted::new(borrower, capacity);
            add(&mut lent.total, &counted.total);
            for (slot, row) in &counted.rows {
                add(lent.rows.entry(*slot).or_default(), row);
            }
            lent.borrowers.push(counted);
        }
        lent
    }

    /// What would be free if all of it were.
    pub(super) fn free(&self, free: &[i64]) -> Vec<i64> {
        let mut all = free.to_vec();
        add(&mut all, &self.total);
        all
    }

    /// What has to be given back so that a demand fits; none if that would not help it. `free` is what is left below the
    /// threshold.
    pub(super) fn give_back(
        &self,
        ask: Ask,
        rank: &Rank,
        is_holder: bool,
        free: &[i64],
        context: &mut Context<'_>,
    ) -> Option<Return> {
        let (capacity, shares) = (&mut *context.capacity, &*context.shares);
        let comes_before = |borrower: &Borrower| match is_holder {
            true => binds(rank, &borrower.rank, shares),
            false => shares.turn_of(&borrower.rank) > shares.turn_of(rank),
        };
        let counts = |one: &&Counted<'_>| one.borrower.is_terminating || comes_before(one.borrower);
        let mut borrowers: Vec<&Counted<'_>> = self.borrowers.iter().filter(counts).collect();
        let mut total = Vec::new();
        let mut rows = Rows::new();
        for one in &borrowers {
            add(&mut total, &one.total);
            for (slot, row) in &one.rows {
                add(rows.entry(*slot).or_default(), row);
            }
        }
        let is_within = |capacity: &Capacity, total: &[i64]| {
            let mut all = free.to_vec();
            add(&mut all, total);
            capacity.places().is_within(ask, &all)
        };
        if borrowers.is_empty() || !is_within(capacity, &total) {
            return None;
        }
        let wanted = u64::from(capacity.demand(ask).units().1);
        let mut pods = more_units(ask, &rows, capacity);
        let now = capacity.units_now(ask);
        if now + pods < wanted {
            return None;
        }
        borrowers.sort_by(|a, b| b.borrower.loss.cmp(&a.borrower.loss));
        let mut from = Vec::new();
        for one in borrowers.into_iter().filter(|one| !one.borrower.is_terminating) {
            // What would be left to be given back if this one stayed.
            let mut without = total.clone();
            subtract(&mut without, &one.total);
            let touched = |rows: &Rows| -> Rows {
                one.rows.keys().filter_map(|slot| Some((*slot, rows.get(slot)?.clone()))).collect()
            };
            let before = touched(&rows);
            let mut after = before.clone();
            for (slot, row) in &one.rows {
                subtract(after.entry(*slot).or_default(), row);
            }
            let left = pods - more_units(ask, &before, capacity) + more_units(ask, &after, capacity);
            if is_within(capacity, &without) && now + left >= wanted {
                (total, pods) = (without, left);
                rows.extend(after);
            } else {
                from.push(one.borrower.sj.clone());
            }
        }
        from.reverse();
        rows.retain(|_, row| row.iter().any(|amount| *amount > 0));
        Some(Return { nodes: nodes_for(ask, &rows, capacity), from, rows, total })
    }
}

/// How many more pods of a demand would find a node with this.
fn more_units(ask: Ask, rows: &Rows, capacity: &Capacity) -> u64 {
    let pods = |(slot, row): (&usize, &Vec<i64>)| {
        u64::from(
            capacity
                .places()
                .units_on(ask, *slot, Some(row))
                .saturating_sub(capacity.places().units_on(ask, *slot, None)),
        )
    };
    rows.iter().map(pods).sum()
}

/// Nodes for the pods of a demand: first those where something is given back.
fn nodes_for(ask: Ask, rows: &Rows, capacity: &Capacity) -> Vec<(usize, u32)> {
    let mut left = capacity.demand(ask).units().1;
    let mut nodes: BTreeMap<usize, u32> = BTreeMap::new();
    for (slot, row) in rows {
        let pods = capacity.places().units_on(ask, *slot, Some(row)).min(left);
        if pods > 0 {
            nodes.insert(*slot, pods);
            left -= pods;
        }
    }
    for slot in capacity.slots_to_take(ask) {
        if left > 0 && !rows.contains_key(&slot) {
            *nodes.entry(slot).or_default() += 1;
            left -= 1;
        }
    }
    nodes.into_iter().collect()
}

impl<'a> Counted<'a> {
    fn new(borrower: &'a Borrower, capacity: &Capacity) -> Self {
        let mut counted = Self { borrower, rows: Rows::new(), total: Vec::new() };
        for (node, amount) in &borrower.held {
            let row = node.as_ref().and_then(|node| capacity.row_on(node, amount));
            if let Some((slot, row, of_parts)) = row {
                add(&mut counted.total, &of_parts);
                add(counted.rows.entry(slot).or_default(), &row);
            }
        }
        counted
    }
}

fn add(sum: &mut Vec<i64>, row: &[i64]) {
    sum.resize(sum.len().max(row.len()), 0);
    sum.iter_mut().zip(row).for_each(|(sum, amount)| *sum = sum.saturating_add(*amount));
}

fn subtract(sum: &mut [i64], row: &[i64]) {
    sum.iter_mut().zip(row).for_each(|(sum, amount)| *sum = sum.saturating_sub(*amount));
}
