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
//! users promise when their jobs end, so that others can run until then. Here nobody does, so what is reserved lies idle until
//! its holder starts. To let others run there and take it back from them gets little more done and loses much more:
//! docs/contributing/planner.md has the figures.

use std::sync::Arc;

use jiff::Timestamp;

use super::{
    Context, Queue,
    rank::{Age, Lane, Rank},
    shares::Shares,
};
use crate::{capacity::Ask, values::Key};

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
    /// True if it binds one with this rank.
    pub(super) fn binds(&self, other: &Rank, shares: &Shares) -> bool {
        let came_later = other.created > self.rank.turn.waiting_since;
        shares.turn_of(other) > shares.turn_of(&self.rank)
            || came_later && shares.standing_of(other) >= shares.standing_of(&self.rank)
    }
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

/// Whose reservation a ScavengerJob would touch if it started now. `free` is what is left below the threshold.
pub(super) fn touched(
    ask: Ask,
    rank: &Rank,
    reservations: &mut [Reservation],
    free: &[i64],
    context: &Context<'_>,
) -> Option<Key> {
    let places = context.capacity.places();
    let mut asks: Vec<Ask> = Vec::new();
    let before_it = reservations.iter().position(|reservation| reservation.rank.uid == rank.uid);
    let before_it = before_it.unwrap_or(reservations.len());
    for reservation in reservations[..before_it].iter_mut().filter(|one| one.binds(rank, context.shares)) {
        asks.push(reservation.lane.ask);
        if places.takes_from(ask, &asks, free) {
            return Some(reservation.sj.clone());
        }
        let nodes = reservation.nodes.get_or_insert_with(|| places.nodes_to_keep(reservation.lane.ask));
        if places.takes_from_nodes(ask, reservation.lane.ask, nodes) {
            return Some(reservation.sj.clone());
        }
    }
    None
}
