//! The order in which ScavengerJobs start.
//!
//! # Fronts
//!
//! The heads of the lines that can fit at all, in the order of their turns.
//!
//! With many lines most of them need no look in most walks: they ask for more than is left below the threshold, and their
//! heads know that. So the lines are kept by what they ask for, too, and a walk looks at those only that ask for no more
//! than is left, at those of which more than capacity decides, and at those whose heads have something to report.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use jiff::Timestamp;

use crate::{
    backoff::blocked::BlockId,
    capacity::{Ask, Size, Traits},
    values::{Key, Name, ScavengerJob, Settings},
};

/// More interruptions than this do not advance any further.
const MAX_COUNTED_INTERRUPTIONS: u32 = 10;

/// What is looked at first to put ScavengerJobs in order; the smallest comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Turn {
    pub(super) interruptions: Reverse<u32>,
    /// How its tenant stands, where that decides. It is of a moment ([`super::shares`]): what is kept has 0.
    pub(super) standing: u64,
    pub(super) waiting_since: Timestamp,
}

impl Turn {
    /// The same with the standing of its tenant where that decides: one that was interrupted comes first as ever.
    pub(super) fn standing_at(self, standing: u64) -> Self {
        Self { standing: if self.interruptions.0 == 0 { standing } else { 0 }, ..self }
    }
}

/// Place in a line; the smallest comes first. Equal turns lie side by side, sorted by namespace.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank {
    /// When the delay after its last start was over, if that failed.
    pub(super) again: Option<Timestamp>,
    pub(super) turn: Turn,
    pub(super) namespace: Name,
    pub(super) uid: Name,
    pub(super) name: Name,
    pub(super) created: Timestamp,
    /// See [`ScavengerJob::ready_since`].
    pub(super) ready_since: Timestamp,
    /// The claims that it mounts.
    pub(super) claims: Box<[Name]>,
    /// How often in a row its start was withdrawn.
    pub(super) failed_starts: u32,
}

impl Rank {
    /// Rank of a ScavengerJob that waits, or the one it started with. It has waited since it was created, or since it was
    /// last interrupted; a withdrawn attempt costs no place.
    pub(super) fn of(sj: &ScavengerJob) -> Self {
        let (waiting_since, ready_since) = (sj.waiting_since(), sj.ready_since());
        Self {
            again: (sj.status.failed_starts > 0).then_some(ready_since),
            turn: Turn {
                interruptions: Reverse(sj.status.counted_interruptions.min(MAX_COUNTED_INTERRUPTIONS)),
                standing: 0,
                waiting_since,
            },
            namespace: sj.key.namespace.clone(),
            uid: sj.uid.clone(),
            name: sj.key.name.clone(),
            created: sj.creation_time,
            ready_since,
            claims: sj.spec.as_ref().map(|spec| spec.claims.as_slice().into()).unwrap_or_default(),
            failed_starts: sj.status.failed_starts,
        }
    }

    pub(super) fn sj(&self) -> Key {
        Key { namespace: self.namespace.clone(), name: self.name.clone() }
    }
}

/// Number of a line: what its members ask for, whether their last start failed, whether their namespace or claim is held,
/// and which tenant's they are, if the pool says something of tenants.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Lane {
    pub(super) ask: Ask,
    pub(super) failed: bool,
    pub(super) block: Option<BlockId>,
    pub(super) tenant: u32,
}

impl Lane {
    /// True if a start of its members is more likely to fail than others.
    pub(super) fn is_doubtful(self) -> bool {
        self.failed || self.block.is_some()
    }
}

/// How many start already.
#[derive(Debug, Clone, Copy, Default)]
pub struct Starting {
    /// All of them.
    pub all: usize,
    /// Those of them whose last start failed, or whose namespace or claim is held.
    pub failed: usize,
}

impl Starting {
    /// True if one more of these may start.
    pub(super) fn has_slot_for(self, failed: bool, settings: &Settings) -> bool {
        let most = settings.max_concurrent_starts;
        self.all < most && (!failed || self.failed < (most / 2).max(1))
    }
}

/// Since when somebody waits, and who.
pub(super) type Age = (Timestamp, Key);

/// The heads of the lines that can fit at all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Fronts {
    turns: BTreeSet<(Turn, Lane)>,
    /// Those that wait for nothing but capacity.
    by_cpu: BTreeSet<(i64, Turn, Lane)>,
    by_memory: BTreeSet<(i64, Turn, Lane)>,
    /// The others.
    doubtful: BTreeSet<(Turn, Lane)>,
    /// Those whose heads do not know yet that they wait for capacity, or for whom it is kept.
    unsettled: BTreeSet<(Turn, Lane)>,
    /// Of each kind, who has waited longest in each line.
    ages: BTreeMap<u64, BTreeSet<(Age, Lane)>>,
}

impl Fronts {
    pub(super) fn insert(&mut self, turn: Turn, lane: Lane, traits: Traits) {
        self.turns.insert((turn, lane));
        self.unsettled.insert((turn, lane));
        if lane.is_doubtful() {
            self.doubtful.insert((turn, lane));
        } else {
            self.by_cpu.insert((traits.size.cpu_milli, turn, lane));
            self.by_memory.insert((traits.size.memory_bytes, turn, lane));
        }
    }

    pub(super) fn remove(&mut self, turn: Turn, lane: Lane, traits: Traits) {
        self.turns.remove(&(turn, lane));
        self.unsettled.remove(&(turn, lane));
        self.doubtful.remove(&(turn, lane));
        self.by_cpu.remove(&(traits.size.cpu_milli, turn, lane));
        self.by_memory.remove(&(traits.size.memory_bytes, turn, lane));
    }

    /// The head of a line knows that it waits for capacity, which is kept for nobody; or does not.
    pub(super) fn set_settled(&mut self, turn: Turn, lane: Lane, is_settled: bool) {
        if is_settled {
            self.unsettled.remove(&(turn, lane));
        } else if self.turns.contains(&(turn, lane)) {
            self.unsettled.insert((turn, lane));
        }
    }

    /// Another one has waited longest in a line.
    pub(super) fn change_age(
        &mut self,
        traits: Traits,
        before: Option<&Age>,
        after: Option<&Age>,
        lane: Lane,
    ) {
        let ages = self.ages.entry(traits.kind).or_default();
        if let Some(before) = before {
            ages.remove(&(before.clone(), lane));
        }
        ages.extend(after.map(|after| (after.clone(), lane)));
        if ages.is_empty() {
            self.ages.remove(&traits.kind);
        }
    }

    /// Of each kind, those that have waited longest in their lines, longest waiting first.
    pub(super) fn ages(&self) -> impl Iterator<Item = impl Iterator<Item = (&Age, Lane)>> {
        self.ages.values().map(|ages| ages.iter().map(|(age, lane)| (age, *lane)))
    }

    /// The lines that a walk has to look at, in the order of their turns, if the lines that wait for nothing but capacity
    /// cannot start unless they ask for at most this. A look at any of the others changes nothing.
    pub(super) fn to_look_at(&self, most: Size) -> Vec<(Turn, Lane)> {
        // Who asks for nothing of a resource fits, however overcommitted it is.
        let (cpu, memory) = (most.cpu_milli.max(0), most.memory_bytes.max(0));
        let mut by_cpu = self.by_cpu.iter().take_while(|(asked, ..)| *asked <= cpu);
        let mut by_memory = self.by_memory.iter().take_while(|(asked, ..)| *asked <= memory);
        // To sort so many costs more than to look at all.
        let is_much = |lines: usize| lines * 8 > self.turns.len();
        let all = || self.turns.iter().copied().collect();
        let (mut of_cpu, mut of_memory) = (Vec::new(), Vec::new());
        // In step with each other: the smaller of both is enough, whichever it is.
        let mut fit = loop {
            match by_cpu.next() {
                Some((_, turn, lane)) => of_cpu.push((*turn, *lane)),
                None => break of_cpu,
            }
            match by_memory.next() {
                Some((_, turn, lane)) => of_memory.push((*turn, *lane)),
                None => break of_memory,
            }
            if is_much(of_cpu.len()) {
                return all();
            }
        };
        if is_much(fit.len() + self.doubtful.len() + self.unsettled.len()) {
            return all();
        }
        fit.extend(&self.doubtful);
        fit.extend(&self.unsettled);
        fit.sort_unstable();
        fit.dedup();
        fit
    }
}

#[cfg(test)]
mod tests {
    use std::cmp::Reverse;

    use super::*;
    use crate::{
        capacity::Capacity,
        fixtures::{at, sj},
    };

    /// A line for each pair of amounts. A few are doubtful, and the heads of some others are to be informed.
    fn lines() -> Vec<(Turn, Lane, Traits)> {
        let mut capacity = Capacity::default();
        // Two of them ask for nothing of one resource.
        let amounts = (0..100_i64).map(|number| match number {
            0 => (0, 5),
            1 => (5000, 0),
            _ => (number % 10 * 1000 + 1000, number * 7 % 10 + 1),
        });
        let lines = amounts.zip(0..).map(|((cpu_milli, memory_bytes), number)| {
            let mut demand = (*sj("a").asking(cpu_milli).spec.unwrap().demand).clone();
            demand.per_pod.memory_bytes = memory_bytes;
            let ask = capacity.ask(&demand);
            let waiting_since = at(i64::from(number % 11));
            let turn = Turn { interruptions: Reverse(number % 3), standing: 0, waiting_since };
            (turn, Lane { ask, failed: number % 40 == 7, ..Lane::default() }, capacity.traits(ask))
        });
        lines.collect()
    }

    #[test]
    fn every_line_that_a_look_could_change_is_looked_at_in_turn() {
        let lines = lines();
        let mut fronts = Fronts::default();
        for (number, (turn, lane, traits)) in lines.iter().enumerate() {
            fronts.insert(*turn, *lane, *traits);
            fronts.set_settled(*turn, *lane, number % 50 != 3);
        }
        let mut fewest = usize::MAX;
        for (cpu_milli, memory_bytes) in
            (-1..11).flat_map(|cpu| (-1..11).map(move |memory| (cpu * 1000, memory)))
        {
            let most = Size { cpu_milli, memory_bytes };
            let seen = fronts.to_look_at(most);
            assert!(seen.is_sorted_by(|a, b| a < b), "in turn, and each once");
            for (number, (turn, lane, Traits { size, .. })) in lines.iter().enumerate() {
                let is_within = |asked: i64, most: i64| asked == 0 || asked <= most;
                let fits = is_within(size.cpu_milli, cpu_milli) && is_within(size.memory_bytes, memory_bytes);
                let is_due = fits || lane.is_doubtful() || number % 50 == 3;
                assert!(!is_due || seen.contains(&(*turn, *lane)), "{size:?} with {most:?}");
            }
            fewest = fewest.min(seen.len());
        }
        assert!(fewest < lines.len() / 2, "where little is left not all lines are looked at, but {fewest}");
        for (turn, lane, traits) in lines {
            fronts.remove(turn, lane, traits);
        }
        assert_eq!(fronts, Fronts::default());
    }
}
