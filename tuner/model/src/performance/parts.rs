//! A step in parts, and the step from its parts.

/// Where the time of a step goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Pair interactions.
    Pair,
    /// PME spread and gather.
    Spread,
    /// PME FFT and solve, and all of PME on a GPU.
    Mesh,
    /// Bonded interactions, constraints, update, pair search.
    Other,
    /// Threads that wait for each other and for the work of one of them.
    Threads,
    /// Exchange of atoms between domains.
    Halo,
    /// Domains that wait for the slowest.
    Imbalance,
    /// Transposes of the PME grid.
    Transpose,
    /// Atoms on their way to PME ranks and back.
    Redistribution,
    /// The network between nodes.
    Network,
    /// Launches of work on a GPU, and copies to and from it.
    Launch,
    /// Work of the host beside a GPU.
    Host,
}

impl Part {
    /// How many there are.
    pub const COUNT: usize = 12;
}

/// One number for each [`Part`].
pub type PerPart = [f64; Part::COUNT];

/// How two sides of a step overlap.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Overlap {
    /// Not at all: one after the other.
    None,
    /// Ranks for PME work beside the others, and mdrun tunes the cut-off between them.
    PmeRanks,
    /// A GPU works beside the host.
    Gpu,
}

/// The seconds of a step by part.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parts {
    /// One side: ranks of domains, or the GPU.
    pub first: PerPart,
    /// The other side: PME ranks, or the host while the GPU works.
    pub second: PerPart,
    /// What neither side does while the other works.
    pub after: PerPart,
    /// How the sides overlap.
    pub overlap: Overlap,
}

/// The time of a step and where it comes from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Total {
    /// Seconds.
    pub seconds: f64,
    /// By how much the logarithm of the time grows with the logarithm of each part; the sum is 1.
    pub shares: PerPart,
}

/// Largest factor on the volume of the cut-off that mdrun's tuning of PME goes to: 1.4 in its radius.
const MOST_TUNED: f64 = 2.7;

impl Parts {
    /// A step without any time, to be filled in.
    #[must_use]
    pub fn new(overlap: Overlap) -> Self {
        let none = [0.0; Part::COUNT];
        Self { first: none, second: none, after: none, overlap }
    }

    /// All parts times a common factor.
    #[must_use]
    pub fn scaled(&self, factor: f64) -> Self {
        // The usual factor: all steps of a ladder come through here.
        if factor == 1.0 {
            return *self;
        }
        let times = |side: &PerPart| side.map(|time| time * factor);
        let (first, second, after) = (times(&self.first), times(&self.second), times(&self.after));
        Self { first, second, after, overlap: self.overlap }
    }

    /// Time of the step.
    ///
    /// The step is homogeneous in the times of its parts, so it is the sum of each part times its derivative, and
    /// that product is the share of the part.
    #[must_use]
    pub fn total(&self) -> Total {
        let times = self.times();
        let seconds: f64 = times.iter().sum();
        Total { seconds, shares: times.map(|time| if seconds > 0.0 { time / seconds } else { 0.0 }) }
    }

    /// The time of [`Self::total`] alone.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        self.times().iter().sum()
    }

    /// What each part adds to the time of the step.
    fn times(&self) -> PerPart {
        let first: f64 = self.first.iter().sum();
        let second: f64 = self.second.iter().sum();
        // Weight of each side, and factors on what the tuning of PME makes longer and shorter.
        let (of_first, of_second, tuned) = match self.overlap {
            Overlap::None => (1.0, 1.0, 1.0),
            Overlap::Gpu if first >= second => (1.0, 0.0, 1.0),
            Overlap::Gpu => (0.0, 1.0, 1.0),
            Overlap::PmeRanks => {
                let movable = self.second[Part::Mesh as usize]
                    + self.second[Part::Transpose as usize]
                    + self.second[Part::Network as usize];
                tuned(first, self.first[Part::Pair as usize], second, movable)
            }
        };
        let shorter = [Part::Mesh as usize, Part::Transpose as usize, Part::Network as usize];
        let mut times = [0.0; Part::COUNT];
        for (part, time) in times.iter_mut().enumerate() {
            let longer = if part == Part::Pair as usize { tuned } else { 1.0 };
            let shorter = if shorter.contains(&part) { 1.0 / tuned } else { 1.0 };
            *time = of_first * self.first[part] * longer
                + of_second * self.second[part] * shorter
                + self.after[part];
        }
        times
    }
}

/// What mdrun's tuning of PME does while the PME ranks are the slower ones: weights of the two sides in the time of
/// both together, and the factor on the volume of the cut-off.
///
/// The tuning makes the cut-off longer and the grid coarser by the same factor: with `u` the volume of the cut-off
/// relative to the input, `pair` grows as u and the `movable` part of PME shrinks as 1/u. It never makes the cut-off
/// shorter, so PME ranks that have too little to do stay idle.
fn tuned(particles: f64, pair: f64, mesh: f64, movable: f64) -> (f64, f64, f64) {
    if particles >= mesh {
        return (1.0, 0.0, 1.0);
    }
    if pair <= 0.0 || movable <= 0.0 {
        return (0.0, 1.0, 1.0);
    }
    // particles + pair (u - 1) = mesh - movable + movable / u
    let half = 0.5 * (particles - pair - mesh + movable);
    let u = ((half * half + pair * movable).sqrt() - half) / pair;
    if u >= MOST_TUNED {
        return (0.0, 1.0, MOST_TUNED);
    }
    // Both sides take equally long; a side that gets slower by dt moves the balance by its weight times dt.
    let weight = movable / (u * u) / (pair + movable / (u * u));
    (weight, 1.0 - weight, u)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pme_ranks(pair: f64, mesh: f64) -> Parts {
        let mut parts = Parts::new(Overlap::PmeRanks);
        parts.first[Part::Pair as usize] = pair;
        parts.first[Part::Other as usize] = 0.2;
        parts.second[Part::Mesh as usize] = mesh;
        parts.second[Part::Spread as usize] = 0.3;
        parts.after[Part::Threads as usize] = 0.1;
        parts
    }

    #[test]
    fn shares_are_the_derivatives_of_the_logarithm() {
        let mut gpu = pme_ranks(1.0, 0.4);
        gpu.overlap = Overlap::Gpu;
        let mut plain = gpu;
        plain.overlap = Overlap::None;
        for parts in [pme_ranks(1.0, 0.4), pme_ranks(1.0, 1.5), pme_ranks(0.1, 9.0), gpu, plain] {
            let total = parts.total();
            assert!((total.shares.iter().sum::<f64>() - 1.0).abs() < 1e-12);
            for part in 0..Part::COUNT {
                let mut slower = parts;
                for side in [&mut slower.first, &mut slower.second, &mut slower.after] {
                    side[part] *= 1e-6_f64.exp();
                }
                let slope = (slower.total().seconds / total.seconds).ln() / 1e-6;
                assert!((slope - total.shares[part]).abs() < 1e-4, "{parts:?} {part}: {slope}");
            }
        }
    }

    #[test]
    fn tuning_moves_work_to_the_faster_side() {
        let slow = pme_ranks(1.0, 1.5).total().seconds;
        assert!(1.3 < slow && slow < 1.9, "{slow}");
        assert_eq!(pme_ranks(1.0, 0.4).total().seconds, 1.3);
    }
}
