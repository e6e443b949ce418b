//! What measured runs add to the physics: one factor on the time of a step.
//!
//! A run says by how much the logarithm of its predicted time was off: its residual. A question is answered from the
//! residuals on its class of hardware:
//!
//! 1. those with the same build of GROMACS; without any, those with all builds;
//! 2. of these the median of the very system; without any, the median of all systems, each of them counted once.
//!
//! How far a residual is believed follows from what a class, a system and a layout are off by. Other shapes of the same idea,
//! with a parameter for each part of a step, predicted no better ([accuracy](../../../data/accuracy.md)).

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

/// Largest residual that is a speed and not a mistake: a factor of 50.
pub const BOUND: f64 = 3.9;
/// What a system, or a build, is off by on a class, as a standard deviation of ln(time).
const SYSTEM: f64 = 0.12;
/// What a layout of a system is off by.
const LAYOUT: f64 = 0.09;

/// How much of what a question is about was measured before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Known {
    /// Nothing on the class.
    Nothing,
    /// Another system on the class, or another build.
    Class,
    /// The very system on it.
    System,
}

/// FNV-1a: short, and the same with every release of Rust, unlike the hash of its maps.
pub(crate) fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |state, byte| {
        (state ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// The median; 0 of nothing.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => 0.0,
        count if count.is_multiple_of(2) => (values[middle - 1] + values[middle]) / 2.0,
        _ => values[middle],
    }
}

/// Where a run belongs, whatever its layout.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Origin {
    /// Class of hardware. Beside a GPU the GPU is the class.
    pub class: &'static str,
    /// Standard deviation of the class.
    pub sigma: f64,
    /// GPUs that worked together: what several do says nothing of one, nor of another number.
    pub gpus: u32,
    /// Tells the build of GROMACS from others.
    pub build: u64,
    /// Tells the system from others.
    pub system: u64,
}

/// Class, GPUs and build; none for all builds.
type Place = (&'static str, u32, Option<u64>);

impl Origin {
    fn anywhere(&self) -> Place {
        (self.class, self.gpus, None)
    }

    fn place(&self) -> Place {
        (self.class, self.gpus, Some(self.build))
    }
}

/// A run and by how much it was off.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Residual {
    /// Where it was.
    pub origin: Origin,
    /// True if what it teaches may be its own settings or size.
    pub is_doubtful: bool,
    /// ln(measured time / predicted time).
    pub value: f64,
}

/// The values of each system, and whether it is doubtful.
type BySystem = BTreeMap<u64, (bool, Vec<f64>)>;

/// The runs of one place.
#[derive(Clone, Debug, Default, PartialEq)]
struct Runs {
    systems: BTreeMap<u64, f64>,
    /// Of the systems that teach others, and how many they are.
    others: f64,
    count: usize,
}

impl Runs {
    fn of(systems: BySystem) -> Self {
        let is_teaching: Vec<u64> =
            systems.iter().filter(|(_, (is_doubtful, _))| !is_doubtful).map(|(system, _)| *system).collect();
        let systems: BTreeMap<u64, f64> =
            systems.into_iter().map(|(system, (_, values))| (system, median(values))).collect();
        let others = median(is_teaching.iter().map(|system| systems[system]).collect());
        Self { others, count: is_teaching.len(), systems }
    }
}

/// Residuals, ready to be asked.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Knowledge {
    places: BTreeMap<Place, Runs>,
    /// Systems that are supposed to have been measured everywhere.
    supposed: usize,
}

/// What runs tell of one job on one class.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct About {
    /// How much of it was measured before.
    pub known: Known,
    /// Expected residual.
    pub shift: f64,
    /// Standard deviation of what class and system are off by.
    pub sigma: f64,
}

impl Knowledge {
    /// Puts residuals together. Those beyond [`BOUND`] are left out.
    #[must_use]
    pub fn new(residuals: &[Residual]) -> Self {
        let mut grouped: BTreeMap<Place, BySystem> = BTreeMap::new();
        for Residual { origin, is_doubtful, value } in residuals.iter().filter(|one| one.value.abs() <= BOUND)
        {
            for place in [origin.place(), origin.anywhere()] {
                let (doubtful, values) = grouped.entry(place).or_default().entry(origin.system).or_default();
                *doubtful = *is_doubtful;
                values.push(*value);
            }
        }
        let places = grouped.into_iter().map(|(place, systems)| (place, Runs::of(systems))).collect();
        Self { places, supposed: 0 }
    }

    /// The same as if `count` systems more had been measured on all hardware, each exactly as fast as expected.
    #[must_use]
    pub fn supposing(&self, count: usize) -> Self {
        Self { supposed: count, ..self.clone() }
    }

    /// True if there are runs of that system.
    pub(crate) fn has_run(&self, system: u64) -> bool {
        self.places.values().any(|runs| runs.systems.contains_key(&system))
    }

    /// What is known of a job on a class.
    #[must_use]
    pub fn about(&self, origin: &Origin) -> About {
        let (of_class, of_system) = (origin.sigma.powi(2), SYSTEM.powi(2));
        let exact = self.places.get(&origin.place());
        if let Some(own) = exact.and_then(|runs| runs.systems.get(&origin.system)) {
            let both = of_class + of_system;
            let weight = both / (both + LAYOUT.powi(2));
            let (shift, sigma) = (weight * own, (both * (1.0 - weight)).sqrt());
            return About { known: Known::System, shift, sigma };
        }
        let runs = exact.filter(|runs| runs.count > 0).or_else(|| self.places.get(&origin.anywhere()));
        let value = runs.map_or(0.0, |runs| *runs.systems.get(&origin.system).unwrap_or(&runs.others));
        let count = (runs.map_or(0, |runs| runs.count) + self.supposed) as f64;
        let weight = count / (count + of_system / of_class);
        let known = if count > 0.0 { Known::Class } else { Known::Nothing };
        let sigma = (of_class * (1.0 - weight) + of_system).sqrt();
        About { known, shift: weight * value, sigma }
    }
}
