//! How many PME ranks mdrun takes when it is not told: a candidate for layouts, and what is assumed of runs whose tables
//! do not say.
//!
//! From 19 ranks on mdrun guesses the share of PME in the work and takes the smallest number of ranks with that
//! share that leaves a handy number for pair work (`domdec_setup.cpp`, `perf_est.cpp`). Awkward numbers of ranks get
//! far too many PME ranks by this rule, which is why they are slow.

use crate::hardware::Simd;
use crate::layout::{PME_RANKS_FROM, largest_prime_factor};
use crate::system::System;

/// Pair work of the public systems over the estimate for plain water, so that the guesses are those that the
/// archer-benchmarks logs recorded.
const PAIRS_OVER_WATER: f64 = 1.4;

/// PME ranks of `ranks` in all; 0 if every rank does both.
#[must_use]
pub fn guess(system: &System, simd: Simd, ranks: u32) -> u32 {
    let share = pme_share(system, simd);
    if share == 0.0 {
        return 0;
    }
    if ranks < PME_RANKS_FROM || !is_enough(ranks, ranks / 2, share) {
        return 0;
    }
    let fits = |npme: &u32| is_enough(ranks, *npme, share) && is_handy(ranks - npme, *npme);
    let divisors = (ranks.div_ceil(16)..=ranks / 3).filter(|npme| ranks.is_multiple_of(*npme));
    divisors.chain(1..=ranks / 2).find(fits).unwrap_or(0)
}

/// Share of PME in the work as mdrun estimates it, in cycles of Haswell.
fn pme_share(system: &System, simd: Simd) -> f64 {
    let Some(pme) = system.pme else { return 0.0 };
    let (width, fma) = match simd {
        Simd::Sse => (4.0, false),
        Simd::Neon | Simd::Avx128Fma | Simd::Vsx => (4.0, true),
        Simd::Avx256 => (8.0, false),
        Simd::Avx2On128 => (4.0, true),
        Simd::Avx2 | Simd::Sve | Simd::SveOn128 | Simd::SveOn512 => (8.0, true),
        Simd::Avx512On256 | Simd::Avx512 => (16.0_f64, true),
    };
    let slower = 5.0 / ((2.0 * width).sqrt() * if fma { 1.25 } else { 1.0 });
    let clusters = 0.6 * (10.0 / system.density).cbrt();
    let radius = system.rlist_nm.min(system.cutoff_nm) + clusters;
    let pairs = 2.0 / 3.0 * std::f64::consts::PI * radius.powi(3) * system.density * system.atoms;
    // Two thirds of the atoms of water have no Lennard-Jones interaction: 3.8 cycles instead of 4.2.
    let pair_cycles = PAIRS_OVER_WATER * 3.93 * slower * pairs;
    let half_grid = pme.points() / 2.0;
    let charges = system.atoms * (100.0 + 5.0 * f64::from(pme.order).powi(3));
    let mesh = half_grid * (3.0 * half_grid.log2() + 9.0 * slower);
    (charges + mesh) / (charges + mesh + pair_cycles)
}

fn is_enough(ranks: u32, npme: u32, share: f64) -> bool {
    f64::from(npme) / f64::from(ranks) > 0.95 * share
}

/// No large prime factor in the ranks for pair work, and a common divisor for a division of PME in two dimensions.
fn is_handy(pp_ranks: u32, npme: u32) -> bool {
    let largest = largest_prime_factor(pp_ranks);
    f64::from(largest) <= 3.0 + f64::from(pp_ranks).cbrt().round()
        && 2.0 * f64::from(common_divisor(pp_ranks, npme)) >= f64::from(npme).sqrt().round()
}

/// Not worth a crate: nothing else here is number theory.
fn common_divisor(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { common_divisor(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ladder::fixtures::water;

    #[test]
    fn few_ranks_have_no_pme_ranks() {
        let system = System::check(&water(100_000)).expect("water should be accepted");
        assert_eq!(guess(&system, Simd::Avx2, 18), 0);
        let npme = guess(&system, Simd::Avx2, 24);
        assert!((1..=12).contains(&npme), "{npme}");
    }

    #[test]
    fn without_pme_there_are_no_pme_ranks() {
        let mut raw = water(100_000);
        raw.pme = None;
        let system = System::check(&raw).expect("water should be accepted");
        assert!((1..200).all(|ranks| guess(&system, Simd::Avx2, ranks) == 0));
    }
}
