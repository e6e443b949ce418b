//! How many pods of a demand the nodes could take, kept up node by node. A gang whose pods must be on one node is counted as
//! if it were one pod ([`Demand::units`]).
//!
//! What is free on each node lies in rows of plain numbers, one column for each resource, so that all nodes can be
//! looked through in microseconds. For every demand that somebody waits with, the number of its pods that find a
//! place is counted once; from then on a change of one node changes each count by what that node takes more or less.
//! So asking costs nothing, and a change costs a step for each different demand, however many nodes there are.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, BinaryHeap},
    sync::Arc,
};

use super::{
    admissions::Admissions,
    table::{Bits, Columns, FreeByView, Reach, Slab, TABLES, Table, VIEWS, View},
};
use crate::values::{
    Demand, Node, Placement,
    resources::{CPU, MEMORY, Resources},
};

/// Who chooses the nodes of ScavengerJobs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Placing {
    /// kube-scheduler, by what pods request.
    #[default]
    Scheduler,
    /// The planner, by what is really used, for ScavengerJobs of one pod.
    Usage,
    /// The planner, by requests and limits of nodes, for ScavengerJobs of one pod. Others count in the same way.
    NodeLimits,
}

/// Which pods a demand is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Whose {
    /// A ScavengerJob's.
    ScavengerJobs,
    /// An ordinary pod's, which kube-scheduler places.
    Ordinary,
}

/// Many demands find a place on one of so many nodes, and then there is no need to look at all nodes, nor to keep up a
/// count from then on.
const FIRST_NODES: usize = 64;

/// Number of a demand.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ask(usize);

/// So many parts of the pool have a threshold of their own; who reaches another is counted in the whole.
const MOST_PARTS: usize = 64;

/// What demands find on the nodes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Places {
    columns: Columns,
    /// For each view of each table what is free: `width` amounts for each node.
    free: [Vec<i64>; TABLES],
    counts_in: [Bits; TABLES],
    placing: Placing,
    admissions: Admissions,
    asks: Slab<Asked>,
    /// By whose demands they are.
    ask_numbers: [BTreeMap<Arc<Demand>, Ask>; 2],
    /// True if some of the asks' counts may be known.
    counts_known: bool,
    /// What pending pods ask that some node could take if no ScavengerJob were there.
    takeable: Resources,
    takeable_stale: bool,
    /// What demands reach that do not reach the whole pool, each once.
    parts: Vec<Reach>,
    /// For each of them, what of `takeable` is asked by pods that reach nothing else.
    takeable_in: Vec<Resources>,
}

/// One demand, and how many of its pods find a place.
#[derive(Debug, Clone)]
struct Asked {
    demand: Arc<Demand>,
    whose: Whose,
    table: Table,
    /// How many nodes are asked of it at most: each takes one of its pods, or all of them. See [`Demand::units`].
    units: u32,
    /// Columns and amounts of what one of them asks for, without those it asks nothing of; none if it asks for a resource
    /// that no node has.
    amounts: Option<Vec<(usize, i64)>>,
    placement: usize,
    users: usize,
    /// Pending pods among the users.
    pending: i64,
    /// The groups of nodes that it reaches.
    reach: Reach,
    /// Which of the parts that is, counted from 1; 0 for the whole pool.
    part: usize,
    /// For each view, once somebody wanted to know. One node counts at most for all units of the demand.
    counts: [Option<u64>; VIEWS],
}

impl Asked {
    /// Where the rows of its table are.
    fn rows(&self, view: View) -> usize {
        self.table.rows(view)
    }

    fn table(whose: Whose, demand: &Demand, placing: Placing) -> Table {
        match whose {
            Whose::ScavengerJobs if placing == Placing::NodeLimits => Table::Usage,
            Whose::ScavengerJobs if placing == Placing::Usage && demand.may_go_by_use() => Table::Usage,
            Whose::Ordinary if placing != Placing::Scheduler => Table::Ordinary,
            Whose::ScavengerJobs | Whose::Ordinary => Table::Requests,
        }
    }

    /// True if the planner chooses its node, whatever keeps its pods together.
    fn is_placed_by_the_planner(&self) -> bool {
        self.table == Table::Usage && self.demand.may_go_by_use()
    }

    /// Columns and amounts of what one unit asks for; nothing for what no node has, which fits nowhere.
    fn amounts(&self) -> &[(usize, i64)] {
        self.amounts.as_deref().unwrap_or_default()
    }

    /// How many units of the demand a node takes that has this much free.
    fn units_on(&self, free: &[i64]) -> u32 {
        let Some(amounts) = &self.amounts else { return 0 };
        let mut units = self.units;
        for (column, amount) in amounts {
            let free = free[*column];
            if free < *amount {
                return 0;
            }
            if units > 1 {
                units = units.min(u32::try_from(free / amount).unwrap_or(u32::MAX));
            }
        }
        units
    }
}

impl Places {
    /// Somebody waits with a demand. `candidates` gives all nodes that may admit a placement, with their numbers.
    pub(super) fn add_user<'a>(
        &mut self,
        demand: &Demand,
        whose: Whose,
        candidates: impl FnOnce(&Placement) -> Vec<(usize, &'a Node)>,
    ) -> Ask {
        if let Some(ask) = self.ask_numbers[whose as usize].get(demand) {
            self.asks.at_mut(ask.0).users += 1;
            return *ask;
        }
        let placement = self.admissions.add_user(&demand.placement, candidates);
        let (unit, units) = demand.units();
        let amounts = self.columns.amounts(&unit);
        let demand = Arc::new(demand.clone());
        let asked = Asked {
            demand: demand.clone(),
            whose,
            table: Asked::table(whose, &demand, self.placing),
            units,
            amounts,
            placement,
            users: 1,
            pending: 0,
            reach: Reach::default(),
            part: 0,
            counts: [None; VIEWS],
        };
        let ask = Ask(self.asks.add(asked));
        self.ask_numbers[whose as usize].insert(demand, ask);
        ask
    }

    /// Somebody who waited with a demand does so no longer.
    pub(super) fn remove_user(&mut self, ask: Ask) {
        let asked = self.asks.at_mut(ask.0);
        asked.users -= 1;
        if asked.users > 0 {
            return;
        }
        let asked = self.asks.remove(ask.0);
        self.ask_numbers[asked.whose as usize].remove(&asked.demand);
        self.admissions.remove_user(asked.placement);
    }

    /// A pending pod more or less asks for this.
    pub(super) fn change_pending(&mut self, ask: Ask, by: i64) {
        self.asks.at_mut(ask.0).pending += by;
        self.takeable_stale = true;
    }

    /// The demand behind a number.
    pub(crate) fn demand(&self, ask: Ask) -> &Demand {
        &self.asks.at(ask.0).demand
    }

    /// What a node has now, under its number. `node` is given if who may go there may have changed.
    pub(crate) fn set_node(&mut self, slot: usize, node: Option<Option<&Node>>, amounts: &FreeByView) {
        for (name, _) in
            amounts.iter().flatten().flat_map(|there| &there.other).filter(|(_, amount)| **amount > 0)
        {
            self.add_column(name);
        }
        let end = (slot + 1) * self.columns.width();
        let mut new = vec![0; TABLES * self.columns.width()];
        let mut changed = [false; TABLES];
        let mut counted = [false; TABLES];
        for (rows, there) in amounts.iter().enumerate() {
            let row = &mut new[rows * self.columns.width()..(rows + 1) * self.columns.width()];
            if let Some(there) = there {
                self.columns.fill(row, there);
            }
            counted[rows] = self.counts_in[rows].get(slot);
            // A table that nobody uses has no rows. One that is used has as many in each view.
            let is_unused = rows >= VIEWS && amounts[VIEWS..].iter().all(Option::is_none);
            if is_unused && !counted[rows] && self.free[rows].len() < end {
                continue;
            }
            if self.free[rows].len() < end {
                self.free[rows].resize(end, 0);
            }
            changed[rows] =
                self.free[rows][end - self.columns.width()..end] != *row || counted[rows] != there.is_some();
        }
        let admissions = node.map(|node| self.admissions.changes(slot, node)).unwrap_or_default();
        if !changed.contains(&true) && admissions.is_empty() {
            return;
        }
        for asked in self.asks.items.iter_mut().flatten().filter(|_| self.counts_known) {
            let again = admissions.get(&asked.placement);
            for view in View::ALL {
                let Some(count) = asked.counts[view as usize] else { continue };
                let admitted = self.admissions.nodes(asked.placement, view).get(slot);
                let admits = again.map_or(admitted, |again| again[view as usize]);
                let rows = asked.rows(view);
                if !changed[rows] && admits == admitted {
                    continue;
                }
                let before = if counted[rows] && admitted {
                    asked.units_on(&self.free[rows][end - self.columns.width()..end])
                } else {
                    0
                };
                let after = if amounts[rows].is_some() && admits {
                    asked.units_on(&new[rows * self.columns.width()..(rows + 1) * self.columns.width()])
                } else {
                    0
                };
                let now = count + u64::from(after) - u64::from(before);
                asked.counts[view as usize] = Some(now);
                if view == View::WithoutScavengers && asked.pending > 0 && (now == 0) != (count == 0) {
                    self.takeable_stale = true;
                }
            }
        }
        for (rows, there) in amounts.iter().enumerate().filter(|(rows, _)| changed[*rows]) {
            let row = &new[rows * self.columns.width()..(rows + 1) * self.columns.width()];
            self.free[rows][end - self.columns.width()..end].copy_from_slice(row);
            self.counts_in[rows].set(slot, there.is_some());
        }
        self.admissions.set(slot, admissions);
    }

    /// Demands that other nodes let in, once they are ready, since this was called last.
    pub(super) fn take_readmitted(&mut self) -> BTreeSet<Ask> {
        let placements = self.admissions.take_readmitted();
        if placements.is_empty() {
            return BTreeSet::new();
        }
        let asks =
            self.asks.items.iter().enumerate().filter_map(|(number, asked)| Some((number, asked.as_ref()?)));
        let readmitted = asks.filter(|(_, asked)| placements.contains(&asked.placement));
        readmitted.map(|(number, _)| Ask(number)).collect()
    }

    /// True if some demand reaches only a part of the pool.
    pub(super) fn has_parts(&self) -> bool {
        !self.parts.is_empty()
    }

    /// Before many nodes change at once: finding out again which of them admit a placement, and counting again when
    /// asked, is cheaper than following every change. `candidates` gives all nodes that may admit a placement as they are
    /// now, so which nodes admit it need not be said to [`Self::set_node`].
    pub(super) fn begin_again<'a>(&mut self, candidates: impl FnMut(&Placement) -> Vec<(usize, &'a Node)>) {
        for asked in self.asks.items.iter_mut().flatten() {
            asked.counts = [None; VIEWS];
        }
        self.admissions.begin_again(candidates);
        self.counts_known = false;
        self.takeable_stale = true;
    }

    /// Who chooses the nodes of ScavengerJobs. The rows of all nodes are to be set again after a change.
    pub(super) fn set_placing(&mut self, placing: Placing) {
        if self.placing == placing {
            return;
        }
        self.placing = placing;
        for asked in self.asks.items.iter_mut().flatten() {
            asked.table = Asked::table(asked.whose, &asked.demand, placing);
            asked.counts = [None; VIEWS];
        }
        self.takeable_stale = true;
    }

    /// Where the rows are in which a ScavengerJob's demand finds what is free.
    pub(crate) fn rows(&self, demand: &Demand, view: View) -> usize {
        Asked::table(Whose::ScavengerJobs, demand, self.placing).rows(view)
    }

    /// How many units of a demand find a place.
    pub(crate) fn count(&mut self, ask: Ask, view: View) -> u64 {
        let asked = self.asks.at(ask.0);
        if let Some(count) = asked.counts[view as usize] {
            return count;
        }
        let count = self.open_to(asked, view).map(|(_, row)| u64::from(asked.units_on(row))).sum();
        self.asks.at_mut(ask.0).counts[view as usize] = Some(count);
        self.counts_known = true;
        count
    }

    /// The nodes that count and admit pods of a demand, with what is free there.
    fn open_to(&self, asked: &Asked, view: View) -> impl Iterator<Item = (usize, &[i64])> {
        let width = self.columns.width();
        let free = &self.free[asked.rows(view)];
        let admits = self.admissions.nodes(asked.placement, view);
        let slots = self.counts_in[asked.rows(view)].both(admits);
        slots.map(move |slot| (slot, &free[slot * width..(slot + 1) * width]))
    }

    /// True if all pods of a demand find a place at the same time. All are alike, so a node that takes as many as it
    /// can leaves no fewer places than any other choice.
    pub(crate) fn fits(&mut self, ask: Ask, view: View) -> bool {
        let asked = self.asks.at(ask.0);
        let wanted = u64::from(asked.units);
        if asked.counts[view as usize].is_none() {
            let mut found = 0;
            for (_, row) in self.open_to(asked, view).take(FIRST_NODES) {
                found += u64::from(asked.units_on(row));
                if found >= wanted {
                    return true;
                }
            }
        }
        self.count(ask, view) >= wanted
    }

    /// Numbers of nodes for all pods of a demand now, one for each pod: first fit in the order of the numbers. Where the
    /// planner chooses, it is the node that keeps the largest share free: a node that is filled to the brim is the first
    /// to take back. After so many starts that `failed` it is another one: there may be something about the first that only
    /// kube-scheduler or the kubelet knows.
    pub(crate) fn nodes_for(&self, ask: Ask, failed: u32) -> Vec<usize> {
        let asked = self.asks.at(ask.0);
        let wanted = asked.demand.pod_count as usize;
        if asked.is_placed_by_the_planner() || asked.demand.placement.one_node {
            let chosen = self.emptiest(asked, failed as usize);
            return chosen.into_iter().flat_map(|slot| std::iter::repeat_n(slot, wanted)).collect();
        }
        let mut nodes = Vec::with_capacity(wanted);
        for (slot, row) in self.open_to(asked, View::Now) {
            let pods = asked.units_on(row) as usize;
            nodes.extend(std::iter::repeat_n(slot, pods.min(wanted - nodes.len())));
            if nodes.len() == wanted {
                break;
            }
        }
        nodes
    }

    /// Of the nodes that take a demand as a whole now, the one that keeps the largest share free of its scarcest resource; or
    /// that which comes so many places after it, and after the last one the first again.
    fn emptiest(&self, asked: &Asked, place: usize) -> Option<usize> {
        let whole = &self.free[asked.rows(View::Empty)];
        let width = self.columns.width();
        let share = |slot: usize, row: &[i64]| {
            let stays = |(column, amount): &(usize, i64)| {
                let whole = whole.get(slot * width + column).copied().unwrap_or(0).max(1);
                i128::from(row[*column].saturating_sub(*amount)) * 1_000_000 / i128::from(whole)
            };
            asked.amounts().iter().map(stays).min().unwrap_or(0)
        };
        let takes = self.open_to(asked, View::Now).filter(|(_, row)| asked.units_on(row) > 0);
        let ranked = takes.map(|(slot, row)| (Reverse(share(slot, row)), slot));
        if place == 0 {
            return ranked.min().map(|(_, slot)| slot);
        }
        let mut all: Vec<_> = ranked.collect();
        all.sort_unstable();
        all.get(place % all.len().max(1)).map(|(_, slot)| *slot)
    }

    /// Equal for demands that ask for the same extended resources (columns beyond the 64th count as one).
    pub(crate) fn kind(&self, ask: Ask) -> u64 {
        let amounts = self.asks.at(ask.0).amounts();
        let extended = amounts.iter().filter(|(column, _)| Columns::is_extended(*column));
        extended.fold(0, |kind, (column, _)| kind | 1 << (*column).min(63))
    }

    /// True if less than the demands `kept` ask for, in a resource that the last of them asks for, would be left of
    /// `free` by `ask`: in the pool, or in the part of it that the last one reaches.
    pub(crate) fn takes_from(&self, ask: Ask, kept: &[Ask], free: &[i64]) -> bool {
        let Some(last) = kept.last() else { return false };
        let last = self.asks.at(last.0);
        let takes_from_part = |part: usize| {
            // Who may go there may go there with all pods.
            let total = |ask: Ask, column: usize| {
                let asked = self.asks.at(ask.0);
                let goes_there = part == 0 || asked.reach.meets(last.reach);
                let amount = asked
                    .amounts()
                    .iter()
                    .find(|(of, _)| goes_there && *of == column)
                    .map_or(0, |(_, amount)| *amount);
                amount.saturating_mul(i64::from(asked.units))
            };
            last.amounts().iter().any(|(column, _)| {
                let own = total(ask, *column);
                let all = kept.iter().fold(own, |sum, one| sum.saturating_add(total(*one, *column)));
                own > 0 && all > free.get(self.column_in(part, *column)).copied().unwrap_or(0)
            })
        };
        takes_from_part(0) || last.part > 0 && takes_from_part(last.part)
    }

    /// Where a column of a part is in what [`Self::row_of_parts`] gave.
    fn column_in(&self, part: usize, column: usize) -> usize {
        part * self.columns.width() + column
    }

    /// Nodes for the units of a demand, and how many on each, of all that could take them if no ScavengerJob were there:
    /// those where the least share of any resource has to become free first. No choice of these nodes makes that
    /// share smaller, and nothing but ordinary pods can make it larger while they are kept.
    pub(crate) fn nodes_to_keep(&self, ask: Ask) -> Vec<(usize, u32)> {
        let asked = self.asks.at(ask.0);
        let (now, without) =
            (&self.free[asked.rows(View::Now)], &self.free[asked.rows(View::WithoutScavengers)]);
        let lacking = |slot: usize, pods: u32| {
            let row = slot * self.columns.width()..(slot + 1) * self.columns.width();
            let share = |(column, amount): &(usize, i64)| {
                let (free, most) = (now[row.clone()][*column], without[row.clone()][*column]);
                let lacks = amount.saturating_mul(i64::from(pods)).saturating_sub(free).max(0);
                i128::from(lacks) * 1_000_000 / i128::from(most.max(1))
            };
            asked.amounts().iter().map(share).max().unwrap_or(0)
        };
        let mut next = BinaryHeap::new();
        for (slot, row) in self.open_to(asked, View::WithoutScavengers) {
            let most = asked.units_on(row);
            if most > 0 {
                next.push(Reverse((lacking(slot, 1), slot, 1, most)));
            }
        }
        let mut nodes: BTreeMap<usize, u32> = BTreeMap::new();
        for _ in 0..asked.units {
            let Some(Reverse((_, slot, pods, most))) = next.pop() else { break };
            nodes.insert(slot, pods);
            if pods < most {
                next.push(Reverse((lacking(slot, pods + 1), slot, pods + 1, most)));
            }
        }
        nodes.into_iter().collect()
    }

    /// True if pods of a demand could go now to one of the nodes that are kept, and would leave there less than is kept.
    pub(crate) fn takes_from_nodes(&self, ask: Ask, kept: Ask, nodes: &[(usize, u32)]) -> bool {
        let (asked, kept) = (self.asks.at(ask.0), self.asks.at(kept.0));
        let now = asked.rows(View::Now);
        let admits = self.admissions.nodes(asked.placement, View::Now);
        nodes.iter().any(|(slot, pods)| {
            if !self.counts_in[now].get(*slot) || !admits.get(*slot) {
                return false;
            }
            let width = self.columns.width();
            let free = &self.free[now][slot * width..(slot + 1) * width];
            let own = i64::from(asked.units_on(free));
            own > 0
                && kept.amounts().iter().any(|(column, amount)| {
                    let mine =
                        asked.amounts().iter().find(|(of, _)| of == column).map_or(0, |(_, mine)| *mine);
                    let left = free[*column].saturating_sub(mine.saturating_mul(own));
                    mine > 0 && left < amount.saturating_mul(i64::from(*pods))
                })
        })
    }

    /// Number of nodes of the pool that let a demand's pods in, however full they are and whether they are ready or not.
    pub(super) fn suitable(&self, ask: Ask) -> usize {
        let asked = self.asks.at(ask.0);
        let admits = self.admissions.nodes(asked.placement, View::Empty);
        self.counts_in[asked.rows(View::Empty)].common(admits)
    }

    /// Of a row of amounts in the order of the columns, what it says of cpu and of memory.
    pub(super) fn cpu_and_memory(&self, row: &[i64]) -> (i64, i64) {
        let amount = |name| self.columns.of(name).and_then(|column| row.get(column)).copied().unwrap_or(0);
        (amount(CPU), amount(MEMORY))
    }

    /// Amounts of the pool, and of each part of it, in the order of the columns.
    pub(super) fn row_of_parts(
        &self,
        pool: &Resources,
        part: impl Fn(usize, Reach) -> Resources,
    ) -> Vec<i64> {
        let width = self.columns.width();
        let mut row = vec![0; (1 + self.parts.len()) * width];
        self.columns.fill(&mut row[..width], pool);
        for (index, row) in row[width..].chunks_exact_mut(width).enumerate() {
            self.columns.fill(row, &part(index + 1, self.parts[index]));
        }
        row
    }

    /// True if all that a demand asks for is at most what [`Self::row_of_parts`] gave, in the pool and in the part of it
    /// that it reaches, on whatever nodes.
    pub(crate) fn is_within(&self, ask: Ask, row: &[i64]) -> bool {
        let asked = self.asks.at(ask.0);
        let units = i64::from(asked.units);
        let is_within = |part: usize, (column, amount): &(usize, i64)| {
            amount.saturating_mul(units) <= row.get(self.column_in(part, *column)).copied().unwrap_or(0)
        };
        asked.amounts.as_ref().is_some_and(|amounts| {
            amounts
                .iter()
                .all(|amount| is_within(0, amount) && (asked.part == 0 || is_within(asked.part, amount)))
        })
    }

    /// True if some of these nodes let a demand's pods in, once they are ready.
    pub(super) fn lets_in_some_of(&self, ask: Ask, nodes: &Bits) -> bool {
        let admits = self.admissions.nodes(self.asks.at(ask.0).placement, View::Empty);
        nodes.meets(admits)
    }

    /// What a demand reaches.
    pub(super) fn set_reach(&mut self, ask: Ask, reach: Reach, is_whole: bool) {
        let part = if is_whole {
            0
        } else if let Some(index) = self.parts.iter().position(|part| *part == reach) {
            index + 1
        } else if self.parts.len() < MOST_PARTS {
            self.parts.push(reach);
            self.takeable_stale = true;
            self.parts.len()
        } else {
            0
        };
        let asked = self.asks.at_mut(ask.0);
        self.takeable_stale |= asked.pending > 0 && (asked.reach, asked.part) != (reach, part);
        (asked.reach, asked.part) = (reach, part);
    }

    /// Before it is found out again what each demand reaches.
    pub(super) fn forget_reaches(&mut self) {
        self.takeable_stale |= !self.parts.is_empty();
        self.parts.clear();
    }

    /// The part of the pool that a demand reaches, with its number, if it is not the whole.
    pub(super) fn part_reached(&self, ask: Ask) -> Option<(usize, Reach)> {
        let part = self.asks.at(ask.0).part;
        part.checked_sub(1).and_then(|index| Some((part, *self.parts.get(index)?)))
    }

    /// What of [`Self::takeable`] is asked by pods that reach nothing but this part.
    pub(super) fn takeable_in(&self, part: usize) -> Option<&Resources> {
        if self.takeable_stale { None } else { self.takeable_in.get(part.checked_sub(1)?) }
    }

    /// Every demand.
    pub(super) fn all_asks(&self) -> Vec<Ask> {
        let asks = self.asks.items.iter().enumerate();
        asks.filter(|(_, asked)| asked.is_some()).map(|(number, _)| Ask(number)).collect()
    }

    /// What pending pods ask that some node could take if no ScavengerJob were there; none if that was not found out
    /// since something changed.
    pub(super) fn takeable(&self) -> Option<&Resources> {
        (!self.takeable_stale).then_some(&self.takeable)
    }

    /// Finds out what [`Self::takeable`] says.
    pub(crate) fn settle(&mut self) {
        if !std::mem::take(&mut self.takeable_stale) {
            return;
        }
        let mut takeable = Resources::default();
        let mut takeable_in = vec![Resources::default(); self.parts.len()];
        for number in 0..self.asks.items.len() {
            let Some(pending) = self.asks.items[number].as_ref().map(|asked| asked.pending) else { continue };
            if pending > 0 && self.count(Ask(number), View::WithoutScavengers) > 0 {
                let asked = self.asks.at(number);
                let all = asked.demand.per_pod.times(pending);
                takeable.add(&all);
                let within = |part: &Reach| asked.part > 0 && asked.reach.is_within(*part);
                for (_, sum) in self.parts.iter().zip(&mut takeable_in).filter(|(part, _)| within(part)) {
                    sum.add(&all);
                }
            }
        }
        (self.takeable, self.takeable_in) = (takeable, takeable_in);
    }

    /// Every demand with the counts that are known.
    #[cfg(any(test, feature = "fixtures"))]
    pub(crate) fn counts(&self) -> impl Iterator<Item = (&Demand, Table, [Option<u64>; VIEWS])> {
        self.asks.items.iter().flatten().map(|asked| (&*asked.demand, asked.table, asked.counts))
    }

    #[cfg(test)]
    pub(super) fn width(&self) -> usize {
        self.columns.width()
    }

    /// A node has this resource.
    fn add_column(&mut self, name: &Arc<str>) {
        let width = self.columns.width();
        if !self.columns.add(name) {
            return;
        }
        for rows in &mut self.free {
            *rows = rows.chunks_exact(width).flat_map(|row| row.iter().copied().chain([0])).collect();
        }
        // No node has any of it yet, so what was counted is still right.
        for asked in self.asks.items.iter_mut().flatten().filter(|asked| asked.amounts.is_none()) {
            asked.amounts = self.columns.amounts(&asked.demand.units().0);
        }
    }
}
