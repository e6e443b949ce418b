//! What mdrun refuses of a configuration, and which others it would refuse for the same reason.

use scavenger_schema::tuning::{Device, Layout};

use super::{Meaning, Part, of_gromacs};

/// True if mdrun, having refused `refused` in these `words`, will refuse `candidate` as well. What a GPU or its node did is for
/// [`crate::advance::without_refused`] to judge, which knows what other nodes say.
#[must_use]
pub fn rules_out(words: &str, refused: &Layout, candidate: &Layout) -> bool {
    let domains = |layout: &Layout| layout.ntmpi.saturating_sub(layout.npme);
    match of_gromacs(words) {
        Meaning::Refuses(Part::Domains) => domains(candidate) >= domains(refused),
        Meaning::Refuses(Part::Ranks) => candidate.ntmpi > 1,
        Meaning::Refuses(Part::Gpu) => on_gpu(refused)
            .into_iter()
            .zip(on_gpu(candidate))
            .all(|(refused, candidate)| candidate || !refused),
        Meaning::Gpu => uses_gpu(refused) && uses_gpu(candidate),
        // Nobody knows what they are about.
        Meaning::Unknown => candidate == refused || !is_plainest(candidate),
        _ => candidate == refused,
    }
}

/// True for one rank on the CPU: every input that GROMACS can run at all runs so.
#[must_use]
pub fn is_plainest(layout: &Layout) -> bool {
    layout.ntmpi == 1 && !uses_gpu(layout)
}

/// True if a part of the step is computed on a GPU.
#[must_use]
pub fn uses_gpu(layout: &Layout) -> bool {
    on_gpu(layout).contains(&true)
}

fn on_gpu(layout: &Layout) -> [bool; 4] {
    [layout.nb, layout.pme, layout.bonded, layout.update].map(|device| device == Device::Gpu)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::faults::tests::seen;

    #[test]
    fn a_refusal_rules_out_what_would_meet_it_as_well() {
        let words = seen("too many ranks");
        let ranks = |ntmpi, npme| Layout { npme, ..Layout::cpu(ntmpi, 1) };
        assert!(rules_out(&words, &ranks(16, 4), &ranks(12, 0)), "12 domains each");
        assert!(rules_out(&words, &ranks(16, 4), &ranks(32, 0)));
        assert!(!rules_out(&words, &ranks(16, 4), &ranks(8, 0)));
        let alone = seen("one rank alone");
        assert!(
            rules_out(&alone, &ranks(8, 0), &ranks(2, 0)) && !rules_out(&alone, &ranks(8, 0), &ranks(1, 0))
        );
        let prime = seen("a large prime");
        assert!(rules_out(&prime, &ranks(14, 0), &ranks(14, 0)));
        assert!(!rules_out(&prime, &ranks(14, 0), &ranks(16, 0)));
        let gpu = Layout::water(1, 8, 1);
        let words = seen("a build without GPUs");
        assert!(rules_out(&words, &gpu, &Layout::water(1, 4, 1)));
        assert!(!rules_out(&words, &gpu, &Layout { pme: Device::Cpu, ..gpu }), "less of it is on the GPU");
        assert!(!rules_out(&words, &gpu, &Layout::cpu(1, 8)));
        let unknown = "some new words";
        assert!(
            rules_out(unknown, &gpu, &Layout::cpu(2, 4)) && !rules_out(unknown, &gpu, &Layout::cpu(1, 4))
        );
        assert!(rules_out(unknown, &Layout::cpu(1, 4), &Layout::cpu(1, 4)));
    }

    #[test]
    fn a_broken_gpu_says_nothing_of_cpus_whatever_it_computed() {
        let (gpu, words) = (Layout::water(1, 8, 1), "CUDA error #999 (cudaErrorUnknown): unknown error.");
        assert!(rules_out(words, &gpu, &Layout { pme: Device::Cpu, ..gpu }));
        assert!(!rules_out(words, &gpu, &Layout::cpu(1, 8)));
        assert!(!rules_out(words, &Layout::cpu(1, 8), &Layout::cpu(1, 8)), "it did not use one");
    }
}
