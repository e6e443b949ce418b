//! Which runs are kept where there are too many.

use std::collections::{BTreeMap, HashMap};

use super::features::Origin;
use super::{BOUND, Residual, Site};

/// A run that is kept.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kept {
    pub(super) residual: Residual,
    /// Kept runs of builds on its site that are newer than its own.
    pub(super) newer: f64,
}

impl Kept {
    pub(super) fn origin(&self) -> &Origin {
        &self.residual.features.origin
    }
}

/// Merges repetitions and keeps at most `most`: the owners take turns, each with its newest run of the newest
/// build first.
pub(super) fn thinned(residuals: &[&Residual], most: usize) -> Vec<Kept> {
    // By release, and of builds of one release by which was seen first: which was used last says nothing where owners
    // use several at the same time.
    let mut builds: BTreeMap<(u64, u64), ((u32, u32), usize)> = BTreeMap::new();
    for (index, residual) in residuals.iter().enumerate() {
        let Site { machine, build, release } = residual.features.origin.site;
        builds.entry((machine, build)).or_insert((release, index));
    }
    let age = |residual: &Residual| {
        let Site { machine, build, .. } = residual.features.origin.site;
        let own = builds[&(machine, build)];
        builds.range((machine, 0)..=(machine, u64::MAX)).filter(|(_, other)| **other > own).count()
    };
    let mut by_owner: BTreeMap<u64, Vec<(usize, Kept, Vec<f64>)>> = BTreeMap::new();
    let mut place_of: HashMap<(u64, u64), usize> = HashMap::new();
    for residual in residuals.iter().rev() {
        let kept = by_owner.entry(residual.owner).or_default();
        let value = residual.value.clamp(-BOUND, BOUND);
        match place_of.get(&(residual.owner, residual.features.key)) {
            Some(place) => {
                let (_, first, values) = &mut kept[*place];
                first.residual.count += residual.count;
                first.residual.noise = first.residual.noise.min(residual.noise);
                values.push(value);
            }
            None if kept.len() < 4 * most => {
                place_of.insert((residual.owner, residual.features.key), kept.len());
                kept.push((age(residual), Kept { residual: **residual, newer: 0.0 }, vec![value]));
            }
            None => {}
        }
    }
    let mut queues: Vec<_> = by_owner
        .into_values()
        .map(|mut kept| {
            kept.sort_by_key(|(age, ..)| *age);
            kept.into_iter().map(|(age, kept, values)| {
                let residual = Residual { value: median(values), ..kept.residual };
                (age, Kept { residual, ..kept })
            })
        })
        .collect();
    let mut chosen: Vec<(usize, Kept)> = Vec::new();
    while chosen.len() < most {
        let turn: Vec<_> = queues.iter_mut().filter_map(Iterator::next).take(most - chosen.len()).collect();
        if turn.is_empty() {
            break;
        }
        chosen.extend(turn);
    }
    let ages: Vec<(u64, usize)> =
        chosen.iter().map(|(age, kept)| (kept.residual.features.origin.site.machine, *age)).collect();
    chosen
        .into_iter()
        .map(|(age, kept)| {
            let machine = kept.residual.features.origin.site.machine;
            let newer = ages.iter().filter(|(other, younger)| *other == machine && *younger < age).count();
            Kept { newer: newer as f64, ..kept }
        })
        .collect()
}

/// The middle of the values of repetitions: one that hung or was disturbed does not move it.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len().is_multiple_of(2) { (values[middle - 1] + values[middle]) / 2.0 } else { values[middle] }
}
