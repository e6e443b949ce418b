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
//! of its kind after it, would come before this one again and again.) Who is bound may start only if it does not touch
//! the reservation:
//!
//! - below the threshold there must be room for it and for the holder, in every resource that both ask for;
//! - the holder's nodes are those where least has to end before its pods fit beside ordinary ones. On each of them at
//!   which the scheduler could put pods of the one that is bound, the holder must fit beside these, too.
//!
//! So of what the holder needs nothing is taken any more by those that came later, and each ScavengerJob that ends gives
//! it more: it starts as soon as those that were there before it, which are finite in number, are through. Ordinary pods
//! are never held up, and one that cannot fit beside them reserves nothing. All of this follows from what statuses say,
//! so it outlives a restart. Slurm and Maui keep room for the head of the queue in the same way (EASY backfill); there
//! users promise when their jobs end. Here nobody does, so what is reserved is only lent, to those that can be interrupted
//! again ([`super::loans`]).

use std::sync::Arc;

use jiff::Timestamp;

use super::{
    Queue, Room,
    fronts::Age,
    loans::{Claim, Lent},
    rank::{Lane, Rank, binds},
};
use crate::{capacity::Ask, values::Key};

/// A standing reservation.
#[derive(Debug)]
pub(crate) struct Reservation {
    pub(super) lane: Lane,
    pub(super) rank: Arc<Rank>,
    pub(super) sj: Key,
    /// Nodes where room is kept, with the number of pods on each, once somebody wanted to know.
    pub(super) nodes: Option<Vec<(usize, u32)>>,
}

impl Reservation {
    pub(super) fn binds(&self, other: &Rank) -> bool {
        binds(&self.rank, other)
    }
}

/// What is kept, and for whom.
#[derive(Debug, Default)]
pub(super) struct Kept<'a> {
    pub(super) reservations: Vec<Reservation>,
    /// What of it is lent.
    pub(super) lent: Lent<'a>,
}

impl Queue {
    /// Who has a standing reservation now, longest waiting first.
    pub(crate) fn reservations(&self, room: &mut Room<'_>) -> Vec<Reservation> {
        let due = room.now.saturating_sub(room.settings.reserve_after).unwrap_or(Timestamp::MIN);
        let without_scavengers = room.capacity.free_row_without_scavengers(room.settings);
        let mut oldest: Vec<(&Age, Lane)> = Vec::new();
        for ages in self.fronts.ages() {
            let mut due = ages.take_while(|((since, _), _)| *since <= due);
            oldest.extend(due.find(|(_, lane)| {
                // Capacity may not be all that is lacking where a namespace is held.
                lane.hold.is_none_or(|hold| self.holds.lacks_capacity(hold))
                    && room.capacity.fits_without_scavengers(lane.ask, &without_scavengers)
            }));
        }
        oldest.sort_unstable();
        let reservation = |((_, sj), lane): (&Age, Lane)| {
            let (_, rank) = self.places.get(sj)?;
            Some(Reservation { lane, rank: rank.clone(), sj: sj.clone(), nodes: None })
        };
        oldest.into_iter().filter_map(reservation).collect()
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
    room: &mut Room<'_>,
) -> Option<Key> {
    if let Some(claim) = claim.filter(|claim| claim.is_touched_by(ask, free, room.capacity)) {
        return Some(claim.sj.clone());
    }
    let free = kept.lent.free(free);
    let mut asks: Vec<Ask> = claim.map(|claim| claim.lane.ask).into_iter().collect();
    let before_it = kept.reservations.iter().position(|reservation| reservation.rank.uid == rank.uid);
    let before_it = before_it.unwrap_or(kept.reservations.len());
    let claims_too = |one: &Reservation| claim.is_some_and(|claim| claim.sj == one.sj);
    let binding = kept.reservations[..before_it].iter_mut().filter(|one| one.binds(rank) && !claims_too(one));
    for reservation in binding {
        asks.push(reservation.lane.ask);
        if room.capacity.takes_from(ask, &asks, &free) {
            return Some(reservation.sj.clone());
        }
        let nodes = reservation
            .nodes
            .get_or_insert_with(|| room.capacity.nodes_to_keep(reservation.lane.ask, &kept.lent.rows));
        if room.capacity.takes_from_nodes(ask, reservation.lane.ask, nodes, &kept.lent.rows) {
            return Some(reservation.sj.clone());
        }
    }
    None
}
