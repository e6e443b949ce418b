//! The measured runs that were read, kept in memory, so that a look at the database adds the new ones only.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use scavenger_schema::tuning::DroppedRuns;
use scavenger_tuner_model::model::Observation;

use super::{Dropped, MOST, MOST_PER_OWNER};

/// Rows before the newest that are looked for again: transactions end in another order than they take their numbers.
pub(super) const OVERLAP: i64 = 1000;

/// The runs that count, and what was read beside them.
#[derive(Clone, Debug, Default)]
pub struct Archive {
    /// By owner and hardware class, the newest last.
    groups: BTreeMap<(String, String), VecDeque<(i64, Observation)>>,
    dropped: BTreeMap<Dropped, u64>,
    /// Number of the newest row.
    newest: i64,
    /// Numbers of the rows of the overlap that were read.
    recent: BTreeSet<i64>,
    /// Rows that were read or counted.
    rows: i64,
}

/// A row as far as the archive sorts by it.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) id: i64,
    pub(super) owner: String,
    pub(super) hardware_class: String,
    pub(super) run: Result<Observation, Dropped>,
}

impl Archive {
    /// An archive that has counted `rows` rows up to the number `newest`, and has yet to be given those that count.
    pub(super) fn starting(
        newest: i64,
        rows: i64,
        recent: BTreeSet<i64>,
        dropped: BTreeMap<Dropped, u64>,
    ) -> Self {
        Self { newest, recent, rows, dropped, ..Self::default() }
    }

    /// The number after which rows may be new.
    pub(super) fn since(&self) -> i64 {
        self.newest - OVERLAP
    }

    /// Numbers after [`Self::since`] that were read.
    pub(super) fn known(&self) -> Vec<i64> {
        self.recent.iter().copied().collect()
    }

    /// Rows that were read or counted.
    pub(super) fn rows(&self) -> i64 {
        self.rows
    }

    /// Adds a row that [`Self::starting`] has counted.
    pub(super) fn put(&mut self, entry: Entry) {
        let run = match entry.run {
            Ok(run) => run,
            Err(reason) => {
                *self.dropped.entry(reason).or_default() += 1;
                return;
            }
        };
        let group = self.groups.entry((entry.owner, entry.hardware_class)).or_default();
        // Nearly always the last place.
        let place = group.partition_point(|(id, _)| *id < entry.id);
        group.insert(place, (entry.id, run));
        if group.len() > MOST_PER_OWNER {
            group.pop_front();
            *self.dropped.entry(Dropped::Older).or_default() += 1;
        }
    }

    /// Adds a row that is new.
    pub(super) fn add(&mut self, entry: Entry) {
        self.rows += 1;
        self.newest = self.newest.max(entry.id);
        self.recent.insert(entry.id);
        self.put(entry);
    }

    /// Forgets numbers that are not looked for any more.
    pub(super) fn trim(&mut self) {
        self.recent = self.recent.split_off(&(self.since() + 1));
    }

    /// The runs that count, round robin over owners and classes, each one's newest last: where there are too many for
    /// the model, the last ones are kept.
    #[must_use]
    pub fn runs(&self) -> Vec<Observation> {
        let mut ranked: Vec<(usize, Reverse<i64>, &Observation)> = self
            .groups
            .values()
            .flat_map(|group| group.iter().rev().enumerate())
            .map(|(age, (id, run))| (age, Reverse(*id), run))
            .collect();
        ranked.sort_by_key(|(age, id, _)| (*age, *id));
        ranked.truncate(MOST);
        ranked.into_iter().rev().map(|(.., run)| run.clone()).collect()
    }

    /// Rows that do not count, by reason.
    #[must_use]
    pub fn dropped(&self) -> Vec<DroppedRuns> {
        let kept: usize = self.groups.values().map(VecDeque::len).sum();
        let mut dropped = self.dropped.clone();
        *dropped.entry(Dropped::Older).or_default() += kept.saturating_sub(MOST) as u64;
        dropped.into_iter().filter_map(|(reason, runs)| reason.counted(runs)).collect()
    }
}

#[cfg(test)]
mod tests {
    use scavenger_schema::tuning::{Layout, Resources};
    use scavenger_tuner_model::ladder::fixtures::water;

    use super::*;

    fn entry(id: i64, owner: &str) -> Entry {
        let resources = Resources { cpu_millicores: 1000, memory_bytes: 0, gpus: 0 };
        let run = Observation::local(
            &water(10_000),
            None,
            &Layout::cpu(1, 1),
            &resources,
            &BTreeMap::new(),
            id as f64,
            owner,
        );
        Entry {
            id,
            owner: owner.to_owned(),
            hardware_class: "unknown".to_owned(),
            run: Ok(run.expect("the run should be accepted")),
        }
    }

    fn speeds(archive: &Archive) -> Vec<f64> {
        archive.runs().iter().filter_map(|run| run.ns_per_day).collect()
    }

    #[test]
    fn runs_come_round_robin_with_the_newest_last() {
        let mut archive = Archive::default();
        for (id, owner) in [(1, "a"), (2, "a"), (3, "b"), (4, "a")] {
            archive.add(entry(id, owner));
        }
        assert_eq!(speeds(&archive), [1.0, 2.0, 3.0, 4.0]);
        assert_eq!((archive.rows(), archive.since()), (4, 4 - OVERLAP));
    }

    #[test]
    fn a_row_that_is_committed_late_takes_its_place() {
        let (mut in_order, mut late) = (Archive::default(), Archive::default());
        for id in [5, 7, 9] {
            in_order.add(entry(id, "a"));
        }
        for id in [5, 9, 7] {
            late.add(entry(id, "a"));
        }
        assert_eq!(speeds(&late), speeds(&in_order));
        assert_eq!(late.known(), [5, 7, 9]);
        late.add(entry(9 + 2 * OVERLAP, "a"));
        late.trim();
        assert_eq!(late.known(), [9 + 2 * OVERLAP]);
    }

    #[test]
    fn no_owner_crowds_out_others() {
        let mut archive = Archive::default();
        archive.add(entry(1, "b"));
        for id in 2..=1 + MOST_PER_OWNER as i64 + 3 {
            archive.add(entry(id, "a"));
        }
        assert_eq!(archive.runs().len(), MOST_PER_OWNER + 1);
        assert!(speeds(&archive).contains(&1.0) && !speeds(&archive).contains(&4.0));
        assert_eq!(archive.dropped().iter().map(|dropped| dropped.runs).sum::<u64>(), 3);
        archive.add(Entry { run: Err(Dropped::Unreadable), ..entry(9999, "a") });
        assert_eq!(archive.dropped().len(), 2);
    }
}
