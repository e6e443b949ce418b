//! What tenants used: for each resource the average of what their attempts held, in which what was held a half-life ago
//! counts half as much. Who holds as much forever has an average of as much.
//!
//! An attempt holds what its pods request from the decision to start it until its end, whether they use it or not. Both
//! times stand in the status of its ScavengerJob. The averages stand in the status of the pool, with the time up to which
//! they count. So what was used up to any later time is a plain function of what the API server has: the averages as they
//! were written, less by what time does to them, and what each attempt has held since. A planner that begins answers as the
//! one before it did, to the bit. For that:
//!
//! - Averages count only as they were read. What the planner offers to write is nothing to it until the status says so.
//! - They are averages of amounts, and become shares when somebody asks: how large the pool was meanwhile stands nowhere.
//! - The finalizer of a ScavengerJob stays until its last attempt is counted ([`Charges::is_counted`]). The status of one that
//!   is deleted while it runs says nothing of its end: it counts for as long as the ScavengerJob is there, some seconds more.
//! - An attempt whose end becomes known late was counted up to the time that was written: nobody gains by ending.
//!
//! What a namespace's attempts have held since then belongs to the tenant that the namespace is of now.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use crate::values::{Averages, Counted, Key, Name, Stretch, resources::Resources, unit};

/// What was written down, and what attempts have held since.
#[derive(Debug, Default)]
pub(super) struct Charges {
    counted: Option<Counted>,
    /// Those that reach beyond that, with the UID of their ScavengerJob.
    stretches: BTreeMap<Key, (Name, BTreeMap<u32, Stretch>)>,
}

impl Charges {
    /// Takes in an attempt. One that has ended goes on for nobody.
    pub(super) fn see(&mut self, sj: &Key, uid: &Name, stretch: Stretch) {
        if !self.is_open(&stretch) {
            return self.close(sj, &stretch);
        }
        let (known, stretches) =
            self.stretches.entry(sj.clone()).or_insert_with(|| (uid.clone(), BTreeMap::new()));
        if known != uid {
            // Deleted and created again.
            (*known, *stretches) = (uid.clone(), BTreeMap::new());
        }
        stretches.insert(stretch.attempt, stretch);
    }

    fn close(&mut self, sj: &Key, stretch: &Stretch) {
        if let Some((_, stretches)) = self.stretches.get_mut(sj) {
            stretches.remove(&stretch.attempt);
            if stretches.is_empty() {
                self.stretches.remove(sj);
            }
        }
    }

    /// True if it reaches beyond what was written down.
    fn is_open(&self, stretch: &Stretch) -> bool {
        let until = self.counted.as_ref().map(|counted| counted.until);
        stretch.until.is_none_or(|end| until.is_none_or(|until| until < end))
    }

    /// A ScavengerJob is gone.
    pub(super) fn forget(&mut self, sj: &Key) {
        self.stretches.remove(sj);
    }

    /// False while an attempt of a ScavengerJob has held something that is not written down yet. `since` is when nothing of
    /// it was left, if its status does not say so.
    pub(super) fn is_counted(&self, sj: &Key, since: Option<Timestamp>) -> bool {
        let until = self.counted.as_ref().map(|counted| counted.until);
        let is_counted =
            |stretch: &Stretch| stretch.until.is_none() && since.is_some_and(|since| until >= Some(since));
        self.stretches.get(sj).is_none_or(|(_, stretches)| stretches.values().all(is_counted))
    }

    /// Takes in what is written down.
    pub(super) fn set_counted(&mut self, counted: Option<Counted>) {
        self.counted = counted;
        let mut stretches = std::mem::take(&mut self.stretches);
        stretches.retain(|_, (_, all)| {
            all.retain(|_, stretch| self.is_open(stretch));
            !all.is_empty()
        });
        self.stretches = stretches;
    }

    /// What each tenant used up to now, by its number. `number_of` gives that of a namespace's tenant, and `number_of_tenant` that
    /// of a tenant by its name. Nothing before something was written down: from then on it is counted.
    pub(super) fn used(
        &self,
        half_life: SignedDuration,
        now: Timestamp,
        number_of: impl Fn(&Name) -> Option<u32>,
        number_of_tenant: impl Fn(&Name) -> Option<u32>,
    ) -> BTreeMap<u32, Averages> {
        let mut used: BTreeMap<u32, Averages> = BTreeMap::new();
        let Some(counted) = &self.counted else { return used };
        let left = |since: Timestamp| decay(half_life, now.duration_since(since));
        let kept = left(counted.until);
        for (name, averages) in &counted.used {
            let Some(tenant) = number_of_tenant(name) else { continue };
            let used = used.entry(tenant).or_default();
            used.extend(averages.iter().map(|(resource, amount)| (resource.clone(), amount * kept)));
        }
        // Most have held the same all the time: their sum is exact, in whatever order they are added.
        let mut throughout: BTreeMap<u32, Resources> = BTreeMap::new();
        for (sj, (_, stretches)) in &self.stretches {
            let Some(tenant) = number_of(&sj.namespace) else { continue };
            for stretch in stretches.values() {
                let until = stretch.until.filter(|until| *until < now);
                if stretch.from <= counted.until && until.is_none() {
                    throughout.entry(tenant).or_default().add(&stretch.held);
                    continue;
                }
                let from = stretch.from.max(counted.until);
                let until = until.unwrap_or(now);
                if from < until {
                    add(used.entry(tenant).or_default(), &stretch.held, left(until) - left(from));
                }
            }
        }
        for (tenant, held) in &throughout {
            add(used.entry(*tenant).or_default(), held, 1.0 - kept);
        }
        used
    }
}

/// What is left of an average after a time.
pub(super) fn decay(half_life: SignedDuration, time: SignedDuration) -> f64 {
    (-time.as_secs_f64().max(0.0) / half_life.as_secs_f64().max(1.0)).exp2()
}

fn add(averages: &mut Averages, held: &Resources, part: f64) {
    for (resource, amount) in held.iter().filter(|(_, amount)| *amount > 0) {
        let amount = amount as f64 / unit(resource) * part;
        match averages.get_mut(resource) {
            Some(average) => *average += amount,
            None => drop(averages.insert(resource.into(), amount)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{at, key};

    const HOUR: SignedDuration = SignedDuration::from_hours(1);

    fn holding(attempt: u32, cpu: i64, from: i64, until: Option<i64>) -> Stretch {
        let held = Resources { cpu_milli: cpu * 1000, ..Resources::default() };
        Stretch { attempt, held, from: at(from), until: until.map(at) }
    }

    fn counting(since: i64) -> Charges {
        let mut charges = Charges::default();
        charges.set_counted(Some(Counted { until: at(since), used: BTreeMap::new() }));
        charges
    }

    fn used(charges: &Charges, now: i64) -> f64 {
        let used = charges.used(HOUR, at(now), |_| Some(1), |_| Some(1));
        used.get(&1).and_then(|used| used.get("cpu")).copied().unwrap_or(0.0)
    }

    fn written(charges: &mut Charges, now: i64) {
        let used = charges.used(HOUR, at(now), |_| Some(1), |_| Some(1));
        let used = used.into_values().map(|used| ("lab".into(), used)).collect();
        charges.set_counted(Some(Counted { until: at(now), used }));
    }

    #[test]
    fn an_average_comes_half_the_way_in_a_half_life_and_loses_half_in_another() {
        let mut charges = counting(0);
        charges.see(&key("a"), &"u".into(), holding(1, 8, 0, None));
        assert!((used(&charges, 3600) - 4.0).abs() < 1e-9);
        assert!((used(&charges, 7200) - 6.0).abs() < 1e-9);
        charges.see(&key("a"), &"u".into(), holding(1, 8, 0, Some(3600)));
        assert!((used(&charges, 7200) - 2.0).abs() < 1e-9);
    }

    #[test]
    fn what_is_written_down_in_between_changes_nothing() {
        let attempts =
            [holding(1, 3, -100, Some(500)), holding(2, 2, 700, Some(4000)), holding(3, 5, 4100, None)];
        let (mut often, mut never) = (counting(0), counting(0));
        for (name, stretch) in ["a", "b", "c"].iter().zip(&attempts) {
            for charges in [&mut often, &mut never] {
                charges.see(&key(name), &"u".into(), stretch.clone());
            }
        }
        // At the last of these times nobody is left of those that have ended.
        for time in [100, 600, 1500, 4050] {
            written(&mut often, time);
        }
        assert!((used(&often, 9000) - used(&never, 9000)).abs() < 1e-9);
        let is_counted = |name| often.is_counted(&key(name), None);
        assert!(is_counted("a") && is_counted("b") && !is_counted("c"));
    }

    #[test]
    fn what_a_planner_sees_again_counts_once_and_a_deletion_takes_nothing_back() {
        let mut charges = counting(0);
        for _ in 0..3 {
            charges.see(&key("a"), &"u".into(), holding(1, 4, 0, Some(1800)));
        }
        let before = used(&charges, 3600);
        assert!(!charges.is_counted(&key("a"), None), "its finalizer stays");
        written(&mut charges, 3600);
        assert!(charges.is_counted(&key("a"), None));
        charges.forget(&key("a"));
        assert!((used(&charges, 3600) - before).abs() < 1e-12);
        // Seen again with a list, it is not charged twice.
        charges.see(&key("a"), &"u".into(), holding(1, 4, 0, Some(1800)));
        assert!((used(&charges, 3600) - before).abs() < 1e-12);
    }

    #[test]
    fn what_ends_without_a_word_in_its_status_counts_until_it_is_gone() {
        let mut charges = counting(0);
        charges.see(&key("a"), &"u".into(), holding(1, 4, 0, None));
        let is_counted = |charges: &Charges| charges.is_counted(&key("a"), Some(at(1800)));
        written(&mut charges, 1799);
        assert!(!is_counted(&charges));
        written(&mut charges, 1800);
        assert!(is_counted(&charges));
        // Another of its name is another one.
        charges.see(&key("a"), &"u".into(), holding(1, 4, 0, None));
        charges.see(&key("a"), &"v".into(), holding(1, 1, 1800, None));
        assert!(used(&charges, 5400) < 1.2);
    }

    #[test]
    fn nothing_is_counted_before_something_is_written_down() {
        let mut charges = Charges::default();
        charges.see(&key("a"), &"u".into(), holding(1, 8, 0, None));
        assert!(charges.used(HOUR, at(3600), |_| Some(1), |_| Some(1)).is_empty());
    }
}
