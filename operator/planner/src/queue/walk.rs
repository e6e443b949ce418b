//! The walk along the queue: who starts next, for as long as there is capacity.

use std::{ops::Bound, sync::Arc};

use jiff::Timestamp;

use super::{
    Context, Line, Obstacle, Queue,
    rank::{Lane, Rank, Starting, Turn},
    reservation::{Borrower, Claim, Kept, Lent, Loans, Return, TakeBack, touched},
};
use crate::{
    capacity::Ask,
    values::{Demand, Key, Name, later},
};

/// So many heads of lines are looked at again at each walk, in turn, for what they wait for: its numbers change, and to
/// look at all of them each time would cost more than the walk.
const LOOKS_PER_WALK: usize = 8;

/// A line whose demand fits, with the member that holds a standing reservation, or else with its first.
#[derive(Debug)]
struct Candidate {
    turn: Turn,
    lane: Lane,
    holder: Option<Arc<Rank>>,
    /// What has to be given back before it fits.
    returns: Option<Return>,
}

/// What became of the lines that were looked at.
#[derive(Debug, Default)]
struct Found {
    candidates: Vec<Candidate>,
    /// Those that are more likely to fail than others.
    failed: Vec<Candidate>,
    /// Those that do not fit, or would touch what is kept for this one.
    passed_over: Vec<(Lane, Option<Key>)>,
    /// Those that may not start, whatever is free.
    held: Vec<(Lane, Obstacle)>,
}

impl Found {
    fn list(&mut self, lane: Lane) -> &mut Vec<Candidate> {
        if lane.is_doubtful() { &mut self.failed } else { &mut self.candidates }
    }
}

/// One that starts next, or for which something is given back, and what decides among several.
#[derive(Debug)]
struct Next {
    turn: Turn,
    share: i128,
    lane: Lane,
    rank: Arc<Rank>,
    returns: Option<Return>,
    /// For whom that is reserved what is lent to it.
    lent_by: Option<Key>,
}

impl Next {
    /// The smallest starts.
    fn order(&self) -> (Turn, i128, &Name) {
        (self.turn, self.share, &self.rank.uid)
    }
}

/// What became of one walk along the queue.
#[derive(Debug, Default)]
pub struct Walk {
    /// Those that start.
    pub started: Vec<Started>,
    /// Borrowers that have to go, and for whom.
    pub taken_back: Vec<(Key, Key)>,
    /// The same of those that may not go now.
    pub held_back: Vec<(Key, Key)>,
    /// Those that wait for another reason than their status says, and some whose reason may have other numbers by now;
    /// [`Queue::waiting`] says for which.
    pub to_report: Vec<Key>,
}

/// One that starts.
#[derive(Debug)]
pub struct Started {
    /// The ScavengerJob.
    pub sj: Key,
    /// What capacity was reserved for.
    pub demand: Demand,
    /// For whom that capacity is reserved, if it is lent.
    pub lent_by: Option<Key>,
}

/// What is kept from those that ask whether they may start.
struct Around<'k, 'a> {
    kept: &'k mut Kept<'a>,
    claim: Option<&'k Claim>,
    /// What is left below the threshold.
    free: &'k [i64],
}

impl Around<'_, '_> {
    fn touched(&mut self, ask: Ask, rank: &Rank, context: &mut Context<'_>) -> Option<Key> {
        touched(ask, rank, self.kept, self.claim, self.free, context)
    }
}

/// How far a walk has come.
struct Progress<'a> {
    loans: &'a Loans<'a>,
    /// True once somebody needed what may not be taken back now. Nobody behind that one takes anything back either.
    is_closed: bool,
    /// Those that come before this turn were passed over, and are passed over again.
    from: Option<Turn>,
    /// Made only if somebody fits, or something is lent: until then there is nothing to keep from anybody.
    kept: Option<Kept<'a>>,
    /// The one for which something is being given back.
    claim: Option<Claim>,
}

impl Queue {
    /// Walks along the queue and starts those for which there is capacity. It is reserved in the ledger at once, so that the
    /// next one sees what is left. `starting` ScavengerJobs are starting already, and `loans` says what is lent.
    pub fn walk(&mut self, context: &mut Context<'_>, mut starting: Starting, loans: &Loans<'_>) -> Walk {
        let mut walk = Walk::default();
        context.capacity.settle(context.promises.ledger_mut());
        context.shares.settle(context.capacity, context.promises.ledger(), context.now);
        walk.to_report = self.settle_blocked(context.capacity, context.settings, context.now);
        // Who is moved because a block ends is looked at by this walk: it is no reason for another one.
        self.take_changed();
        self.decide_who_never_fits(context, &mut walk);
        let mut progress = Progress { loans, is_closed: false, from: None, kept: None, claim: None };
        while starting.has_slot_for(false, context.settings) {
            let claimant = self.claimant.take_if(|_| progress.claim.is_none());
            let begun = claimant.and_then(|sj| self.next_of_claimant(&sj, &mut progress, starting, context));
            let may_take_back = loans.take_back.allows(begun.is_some());
            let Some(next) = begun.or_else(|| self.next(&mut progress, starting, context, &mut walk)) else {
                let keeps = progress.kept.as_ref().is_some_and(|kept| !kept.reservations.is_empty());
                if keeps && progress.from.take().is_some() {
                    // Something may be lent to those that were passed over.
                    continue;
                }
                break;
            };
            let (turn, lane, sj, rank) = (next.turn, next.lane, next.rank.sj(), next.rank);
            if let Some(back) = next.returns {
                let from = back.from.iter().map(|borrower| (borrower.clone(), sj.clone()));
                if !may_take_back && !back.from.is_empty() {
                    walk.held_back.extend(from);
                    progress.is_closed = true;
                    continue;
                }
                walk.taken_back.extend(from);
                self.claimant = Some(sj.clone());
                progress.claim = Some(Claim { lane, sj, back });
                continue;
            }
            let nodes = context.capacity.nodes_to_take(lane.ask, rank.failed_starts);
            let demand = context.capacity.demand(lane.ask).clone();
            context.promises.admit(&sj, &demand.per_pod, nodes);
            self.remove(&sj, context.capacity);
            context.capacity.settle(context.promises.ledger_mut());
            context.shares.stand(lane.tenant, context.capacity, context.promises.ledger());
            starting.all += 1;
            if lane.is_doubtful() {
                starting.failed += 1;
                self.failed_started = Some(context.now);
            }
            if let Some(block) = lane.block {
                self.blocked.probe(block, sj.clone());
            }
            let mut reservations = progress.kept.iter().flat_map(|kept| &kept.reservations);
            if reservations.any(|reservation| reservation.sj == sj) {
                // What was kept for it is kept no longer, or for another.
                (progress.kept, progress.from) = (None, None);
            } else if !lane.is_doubtful() && next.lent_by.is_none() {
                // Capacity only shrinks along the walk, and no tenant comes earlier: one that was passed over is passed
                // over again.
                progress.from = Some(turn);
            }
            walk.started.push(Started { sj, demand, lent_by: next.lent_by });
        }
        for lane in std::mem::take(&mut self.unreported) {
            self.report(lane, Obstacle::Starts, &mut walk);
        }
        let behind = (Bound::Excluded(self.looked_at), Bound::Unbounded);
        let lines = self.lines.range(behind).chain(self.lines.range(..=self.looked_at));
        for (lane, line) in lines.take(LOOKS_PER_WALK) {
            self.looked_at = *lane;
            if matches!(line.reported, Some(Obstacle::Capacity | Obstacle::Tenant)) {
                walk.to_report.extend(line.members.first().map(|rank| rank.sj()));
            }
        }
        walk
    }

    /// The one for which something was being given back when the queue was walked last: it comes first, or those that became
    /// ready meanwhile would take what was given back. None if that is of no use to it any more.
    fn next_of_claimant(
        &self,
        sj: &Key,
        progress: &mut Progress<'_>,
        starting: Starting,
        context: &mut Context<'_>,
    ) -> Option<Next> {
        let (lane, rank) = self.places.get(sj).cloned()?;
        let is_open = lane.block.is_none_or(|block| self.blocked.is_open(block));
        let has_slot = starting.has_slot_for(lane.is_doubtful(), context.settings);
        if !is_open || !has_slot || context.beyond(lane).is_some() {
            return None;
        }
        let free = context.capacity.free_row(context.promises.ledger(), context.settings);
        let kept = progress.kept.get_or_insert_with(|| self.kept(progress.loans.borrowers, context));
        let returns = if context.capacity.fits(lane.ask, &free) {
            None
        } else if progress.loans.take_back == TakeBack::Nothing {
            return None;
        } else {
            let is_holder = kept.reservations.iter().any(|reservation| reservation.sj == *sj);
            Some(kept.lent.give_back(lane.ask, &rank, is_holder, &free, context)?)
        };
        let is_free = touched(lane.ask, &rank, kept, None, &free, context).is_none();
        let turn = context.shares.turn_of(&rank);
        is_free.then_some(Next { turn, share: 0, lane, rank, returns, lent_by: None })
    }

    /// The first one that fits, or would fit if what is lent were given back, and touches no reservation. Of those whose
    /// last start failed it is the one whose delay was over first, if `starting` leaves a slot to them. If there is none,
    /// the first one that fits and to which may be lent what is reserved.
    fn next(
        &mut self,
        progress: &mut Progress<'_>,
        starting: Starting,
        context: &mut Context<'_>,
        walk: &mut Walk,
    ) -> Option<Next> {
        let free = context.capacity.free_row(context.promises.ledger(), context.settings);
        let Progress { loans: Loans { borrowers, .. }, from, kept, claim, is_closed } = progress;
        let claim = claim.as_ref();
        let takes_nothing = *is_closed || claim.is_some();
        if kept.is_none() && !borrowers.is_empty() {
            *kept = Some(self.kept(borrowers, context));
        }
        let mut found = Found::default();
        let is_ahead = |turn: Turn, lane: Lane| lane.is_doubtful() || from.is_none_or(|from| from <= turn);
        self.look_at_lines(&mut found, is_ahead, kept.as_ref(), takes_nothing, &free, context);
        if kept.is_none() && !(found.candidates.is_empty() && found.failed.is_empty()) {
            *kept = Some(self.kept(borrowers, context));
        }
        let mut nothing = Kept::default();
        let kept = kept.as_mut().unwrap_or(&mut nothing);
        // Who has a reservation has its turn even if others of its line come first.
        for one in &kept.reservations {
            let turn = context.shares.turn_of(&one.rank);
            if !is_ahead(turn, one.lane) || context.beyond(one.lane).is_some() {
                continue;
            }
            let fits = context.capacity.fits(one.lane.ask, &free);
            let returns = if fits || takes_nothing {
                None
            } else {
                kept.lent.give_back(one.lane.ask, &one.rank, true, &free, context)
            };
            if fits || returns.is_some() {
                let list = found.list(one.lane);
                let place = list.partition_point(|other| other.turn < turn);
                let holder = Some(one.rank.clone());
                list.insert(place, Candidate { turn, lane: one.lane, holder, returns });
            }
        }
        let Found { mut candidates, mut failed, mut passed_over, held } = found;
        // The one for which something is being given back waits for that, and those of its line with it.
        if let Some(claim) = claim {
            candidates.retain(|one| one.lane != claim.lane);
            failed.retain(|one| one.lane != claim.lane);
            passed_over.push((claim.lane, None));
        }
        let mut around = Around { kept, claim, free: &free };
        let mut again = None;
        if starting.has_slot_for(true, context.settings) {
            again = self.first_of_failed(failed, &mut around, context, &mut passed_over);
        }
        let has_precedence = self.failed_have_precedence(context);
        let first = match again {
            again @ Some(_) if has_precedence => again,
            again => {
                let best = self.first_in_turn(&candidates, &mut around, context, &mut passed_over);
                let again = again.filter(|_| best.is_none() || context.settings.max_concurrent_starts > 1);
                // By their turns, as if those whose last start failed waited in the same line.
                best.into_iter().chain(again).min_by(|a, b| a.order().cmp(&b.order()))
            }
        };
        let first = match first {
            None if starting.leaves_a_slot(context.settings) => {
                self.first_borrower(&passed_over, &around, context)
            }
            first => first,
        };
        for (lane, obstacle) in held {
            self.report(lane, obstacle, walk);
        }
        for (lane, holder) in passed_over {
            self.note(lane, |line| line.kept_for = holder);
            self.report(lane, Obstacle::Capacity, walk);
        }
        first
    }

    /// Finds the lines whose demand fits, or would fit if what is lent were given back, unless `takes_nothing`: something is
    /// being given back already, or may not be.
    fn look_at_lines(
        &self,
        found: &mut Found,
        is_ahead: impl Fn(Turn, Lane) -> bool,
        kept: Option<&Kept<'_>>,
        takes_nothing: bool,
        free: &[i64],
        context: &mut Context<'_>,
    ) {
        // What is lent counts as free where something may be given back.
        let most = match kept {
            Some(kept) => context.capacity.size(&kept.lent.free(free)),
            None => context.capacity.size(free),
        };
        let mut to_look_at = self.fronts.to_look_at(most);
        if !context.shares.standings().is_empty() {
            to_look_at.iter_mut().for_each(|(turn, lane)| *turn = context.shares.turn_in(*turn, *lane));
            to_look_at.sort_unstable();
        }
        for (turn, lane) in to_look_at.into_iter().filter(|(turn, lane)| is_ahead(*turn, *lane)) {
            if lane.block.is_some_and(|block| !self.blocked.is_open(block)) {
                found.held.push((lane, Obstacle::Blocked));
                continue;
            }
            if context.beyond(lane).is_some() {
                found.held.push((lane, Obstacle::Tenant));
                continue;
            }
            let mut returns = None;
            if !context.capacity.fits(lane.ask, free) {
                let kept = kept.filter(|_| !takes_nothing);
                returns = kept.and_then(|kept| self.owed(lane, kept, free, context));
                if returns.is_none() {
                    found.passed_over.push((lane, None));
                    continue;
                }
            }
            found.list(lane).push(Candidate { turn, lane, holder: None, returns });
        }
    }

    /// What is kept now, and lent.
    fn kept<'a>(&self, borrowers: &'a [Borrower], context: &mut Context<'_>) -> Kept<'a> {
        let reservations = self.reservations(context);
        let shares = &*context.shares;
        let binds = |rank: &Rank| reservations.iter().any(|one| one.binds(rank, shares));
        let binds: &dyn Fn(&Rank) -> bool = &binds;
        let lent = Lent::new(borrowers, (!reservations.is_empty()).then_some(binds), context.capacity);
        Kept { reservations, lent }
    }

    /// What has to be given back so that the head of a line fits that comes before everybody who has a reservation.
    fn owed(&self, lane: Lane, kept: &Kept<'_>, free: &[i64], context: &mut Context<'_>) -> Option<Return> {
        let rank = self.lines.get(&lane)?.members.first()?;
        let is_bound = kept.reservations.iter().any(|reservation| reservation.binds(rank, context.shares));
        if is_bound { None } else { kept.lent.give_back(lane.ask, rank, false, free, context) }
    }

    /// The first of those that a reservation keeps from starting to which what is reserved may be lent.
    fn first_borrower(
        &self,
        passed_over: &[(Lane, Option<Key>)],
        around: &Around<'_, '_>,
        context: &mut Context<'_>,
    ) -> Option<Next> {
        passed_over.iter().find_map(|(lane, holder)| {
            let holder = holder.as_ref().filter(|_| lane.borrows && !lane.is_doubtful())?;
            let rank = self.lines.get(lane)?.members.first()?.clone();
            let is_claimed = around
                .claim
                .is_some_and(|claim| claim.is_touched_by(lane.ask, around.free, context.capacity));
            let fits = context.capacity.fits(lane.ask, around.free);
            (fits && !is_claimed).then(|| Next {
                turn: context.shares.turn_of(&rank),
                share: 0,
                lane: *lane,
                rank,
                returns: None,
                lent_by: Some(holder.clone()),
            })
        })
    }

    /// True if those whose last start failed come before all others now. Where several may start, half of the slots is
    /// theirs. Where only one may, half of the time is: each start that fails takes as long as pods may stay
    /// unscheduled, and for as long again the others come first.
    fn failed_have_precedence(&self, context: &Context<'_>) -> bool {
        let until = |started| later(started, context.settings.pending_timeout.saturating_mul(2));
        context.settings.max_concurrent_starts == 1
            && self.failed_started.is_none_or(|started| until(started) <= context.now)
    }

    /// Of those whose last start failed, the one whose delay was over first and that touches no reservation.
    fn first_of_failed(
        &self,
        candidates: Vec<Candidate>,
        around: &mut Around<'_, '_>,
        context: &mut Context<'_>,
        passed_over: &mut Vec<(Lane, Option<Key>)>,
    ) -> Option<Next> {
        let mut ranks: Vec<(Option<Timestamp>, Arc<Rank>, Candidate)> = Vec::new();
        for candidate in candidates {
            let Candidate { lane, holder, .. } = &candidate;
            let head = || self.lines.get(lane)?.members.first().cloned();
            let probes_since = lane.block.and_then(|block| self.blocked.open_since(block));
            let rank = holder.clone().or_else(head);
            ranks.extend(rank.map(|rank| (rank.again.max(probes_since), rank, candidate)));
        }
        ranks.sort_by(|a, b| (a.0, &a.1, a.2.lane).cmp(&(b.0, &b.1, b.2.lane)));
        for (_, rank, Candidate { lane, returns, .. }) in ranks {
            match around.touched(lane.ask, &rank, context) {
                Some(holder) => passed_over.push((lane, Some(holder))),
                None => {
                    let turn = context.shares.turn_of(&rank);
                    let share = context.share(&rank.namespace);
                    return Some(Next { turn, share, lane, rank, returns, lent_by: None });
                }
            }
        }
        None
    }

    /// Of the candidates, which are in the order of their turns, the first that touches no reservation; of several that
    /// have the same turn, the one whose tenant has the smallest share.
    fn first_in_turn(
        &self,
        candidates: &[Candidate],
        around: &mut Around<'_, '_>,
        context: &mut Context<'_>,
        passed_over: &mut Vec<(Lane, Option<Key>)>,
    ) -> Option<Next> {
        let mut best: Option<Next> = None;
        for Candidate { turn, lane, holder, returns } in candidates {
            if best.as_ref().is_some_and(|best| best.turn != *turn) {
                break;
            }
            let firsts = self.lines.get(lane).filter(|_| holder.is_none()).into_iter().flat_map(Line::firsts);
            for rank in firsts.chain(holder) {
                if let Some(kept_for) = around.touched(lane.ask, rank, context) {
                    passed_over.extend(holder.is_none().then_some((*lane, Some(kept_for))));
                    continue;
                }
                let share = context.share(&rank.namespace);
                let (rank, returns) = (rank.clone(), returns.clone());
                let one = Next { turn: *turn, share, lane: *lane, rank, returns, lent_by: None };
                if best.as_ref().is_none_or(|best| one.order() < best.order()) {
                    best = Some(one);
                }
            }
        }
        best
    }

    fn report(&mut self, lane: Lane, obstacle: Obstacle, walk: &mut Walk) {
        let Some(line) = self.lines.get(&lane).filter(|line| line.reported != Some(obstacle)) else { return };
        walk.to_report.extend(line.members.first().map(|rank| rank.sj()));
        self.unreported.remove(&lane);
        self.note(lane, |line| line.reported = Some(obstacle));
    }

    /// Changes what is known of the head of a line.
    fn note(&mut self, lane: Lane, change: impl FnOnce(&mut Line)) {
        let Some(line) = self.lines.get_mut(&lane) else { return };
        let was_settled = line.is_settled();
        change(line);
        if let Some(head) = line.members.first().filter(|_| line.is_settled() != was_settled) {
            self.fronts.set_settled(head.turn, lane, line.is_settled());
        }
    }
}
