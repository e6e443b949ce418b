//! The walk along the queue: who starts next, for as long as there is capacity.

use std::{ops::Bound, sync::Arc};

use jiff::Timestamp;

use super::{
    Context, Line, Obstacle, Queue,
    rank::{Lane, Rank, Starting, Turn},
    reservation::{Reservation, touched},
};
use crate::values::{Demand, Key, Name, later};

/// So many heads of lines are looked at again at each walk, in turn, for what they wait for: its numbers change, and to
/// look at all of them each time would cost more than the walk.
const LOOKS_PER_WALK: usize = 8;

/// A line whose demand fits, with the member that holds a standing reservation, or else with its first.
#[derive(Debug)]
struct Candidate {
    turn: Turn,
    lane: Lane,
    holder: Option<Arc<Rank>>,
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

/// One that starts next, and what decides among several.
#[derive(Debug)]
struct Next {
    turn: Turn,
    share: i128,
    lane: Lane,
    rank: Arc<Rank>,
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
}

impl Queue {
    /// Walks along the queue and starts those for which there is capacity. It is reserved in the ledger at once, so that the
    /// next one sees what is left. `starting` ScavengerJobs are starting already.
    pub fn walk(&mut self, context: &mut Context<'_>, mut starting: Starting) -> Walk {
        let mut walk = Walk::default();
        context.capacity.settle(context.promises.ledger_mut());
        context.shares.settle(context.capacity, context.promises.ledger(), context.now);
        walk.to_report = self.settle_blocked(context.capacity, context.settings, context.now);
        // Who is moved because a block ends is looked at by this walk: it is no reason for another one.
        self.take_changed();
        self.decide_who_never_fits(context, &mut walk);
        // Those that come before this turn were passed over, and are passed over again.
        let mut from = None;
        // Made only if somebody fits: until then there is nothing to keep from anybody.
        let mut reservations = None;
        while starting.has_slot_for(false, context.settings) {
            let next = self.next(&mut reservations, from, starting, context, &mut walk);
            let Some(Next { turn, lane, rank, .. }) = next else { break };
            let sj = rank.sj();
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
            if reservations.iter().flatten().any(|reservation| reservation.sj == sj) {
                // What was kept for it is kept no longer, or for another.
                (reservations, from) = (None, None);
            } else if !lane.is_doubtful() {
                // Capacity only shrinks along the walk, and no tenant comes earlier: one that was passed over is passed
                // over again.
                from = Some(turn);
            }
            walk.started.push(Started { sj, demand });
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

    /// The first one that fits and touches no reservation. Of those whose last start failed it is the one whose delay was over
    /// first, if `starting` leaves a slot to them.
    fn next(
        &mut self,
        reservations: &mut Option<Vec<Reservation>>,
        from: Option<Turn>,
        starting: Starting,
        context: &mut Context<'_>,
        walk: &mut Walk,
    ) -> Option<Next> {
        let free = context.capacity.free_row(context.promises.ledger(), context.settings);
        let is_ahead = |turn: Turn, lane: Lane| lane.is_doubtful() || from.is_none_or(|from| from <= turn);
        let mut found = self.look_at_lines(is_ahead, &free, context);
        if reservations.is_none() && !(found.candidates.is_empty() && found.failed.is_empty()) {
            *reservations = Some(self.reservations(context));
        }
        let reservations = reservations.as_deref_mut().unwrap_or_default();
        // Who has a reservation has its turn even if others of its line come first.
        for one in &*reservations {
            let turn = context.shares.turn_of(&one.rank);
            let is_held = context.beyond(one.lane).is_some();
            if is_ahead(turn, one.lane) && !is_held && context.capacity.fits(one.lane.ask, &free) {
                let list = found.list(one.lane);
                let place = list.partition_point(|other| other.turn < turn);
                list.insert(place, Candidate { turn, lane: one.lane, holder: Some(one.rank.clone()) });
            }
        }
        let Found { candidates, failed, mut passed_over, held } = found;
        let mut again = None;
        if starting.has_slot_for(true, context.settings) {
            again = self.first_of_failed(failed, reservations, &free, context, &mut passed_over);
        }
        let has_precedence = self.failed_have_precedence(context);
        let first = match again {
            again @ Some(_) if has_precedence => again,
            again => {
                let best = self.first_in_turn(&candidates, reservations, &free, context, &mut passed_over);
                let again = again.filter(|_| best.is_none() || context.settings.max_concurrent_starts > 1);
                // By their turns, as if those whose last start failed waited in the same line.
                best.into_iter().chain(again).min_by(|a, b| a.order().cmp(&b.order()))
            }
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

    /// Finds the lines whose demand fits.
    fn look_at_lines(
        &self,
        is_ahead: impl Fn(Turn, Lane) -> bool,
        free: &[i64],
        context: &mut Context<'_>,
    ) -> Found {
        let mut found = Found::default();
        let mut to_look_at = self.fronts.to_look_at(context.capacity.size(free));
        if !context.shares.standings().is_empty() {
            to_look_at.iter_mut().for_each(|(turn, lane)| *turn = context.shares.turn_in(*turn, *lane));
            to_look_at.sort_unstable();
        }
        for (turn, lane) in to_look_at.into_iter().filter(|(turn, lane)| is_ahead(*turn, *lane)) {
            if lane.block.is_some_and(|block| !self.blocked.is_open(block)) {
                found.held.push((lane, Obstacle::Blocked));
            } else if context.beyond(lane).is_some() {
                found.held.push((lane, Obstacle::Tenant));
            } else if context.capacity.fits(lane.ask, free) {
                found.list(lane).push(Candidate { turn, lane, holder: None });
            } else {
                found.passed_over.push((lane, None));
            }
        }
        found
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
        reservations: &mut [Reservation],
        free: &[i64],
        context: &Context<'_>,
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
        for (_, rank, Candidate { lane, .. }) in ranks {
            match touched(lane.ask, &rank, reservations, free, context) {
                Some(holder) => passed_over.push((lane, Some(holder))),
                None => {
                    let turn = context.shares.turn_of(&rank);
                    let share = context.share(&rank.namespace);
                    return Some(Next { turn, share, lane, rank });
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
        reservations: &mut [Reservation],
        free: &[i64],
        context: &Context<'_>,
        passed_over: &mut Vec<(Lane, Option<Key>)>,
    ) -> Option<Next> {
        let mut best: Option<Next> = None;
        for Candidate { turn, lane, holder } in candidates {
            if best.as_ref().is_some_and(|best| best.turn != *turn) {
                break;
            }
            let firsts = self.lines.get(lane).filter(|_| holder.is_none()).into_iter().flat_map(Line::firsts);
            for rank in firsts.chain(holder) {
                if let Some(kept_for) = touched(lane.ask, rank, reservations, free, context) {
                    passed_over.extend(holder.is_none().then_some((*lane, Some(kept_for))));
                    continue;
                }
                let share = context.share(&rank.namespace);
                let one = Next { turn: *turn, share, lane: *lane, rank: rank.clone() };
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
