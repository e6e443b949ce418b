//! What the settings of a run and the build of GROMACS allow on a GPU.
//!
//! The submitter and the tuner's command line both ask here, so that the rules stand in one place. They follow mdrun's own
//! checks (`decideWhetherToUseGpusFor...`, `pme_gpu_supports_input`, `inputSupportsListedForcesGpu`), and where what is known
//! does not tell, they say no: a part that stays on the CPU costs time, one that mdrun refuses costs the run.

use std::collections::BTreeMap;

use crate::tuning::release_year;

/// Integrators that minimise an energy. They write no checkpoints: what is interrupted begins again.
pub const MINIMISERS: [&str; 3] = ["steep", "cg", "l-bfgs"];

/// Key of the version, as `gmx --version` prints it.
pub const VERSION: &str = "gromacs-version";
/// Key of the first word of the line `GPU support:` of `gmx --version`.
pub const GPU_SUPPORT: &str = "gpu-support";
/// Key of the number of groups whose energies are kept apart.
pub const ENERGY_GROUPS: &str = "energy-groups";
/// Key of what else in the file keeps the update off a GPU: words joined by commas, or [`NO_OBSTACLES`].
pub const OBSTACLES: &str = "update-obstacles";
/// Value of [`OBSTACLES`] if there are none.
pub const NO_OBSTACLES: &str = "none";
/// What may run on a GPU; none where neither settings nor build say anything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Allowed {
    /// Short-range nonbonded interactions.
    pub nonbonded: Option<bool>,
    /// PME.
    pub pme: Option<bool>,
    /// Bonded interactions.
    pub bonded: Option<bool>,
    /// Update and constraints.
    pub update: Option<bool>,
}

/// Applies the rules to settings and to what is known of the build.
#[must_use]
pub fn allowed(values: &BTreeMap<String, String>) -> Allowed {
    let word = |key: &str| values.get(key).map(|value| value.to_ascii_lowercase()).unwrap_or_default();
    // What an old release does not print is a feature that it does not have.
    let off = |key: &str| matches!(word(key).as_str(), "" | "no" | "false" | "none" | "0");
    let year = values.get(VERSION).and_then(|version| release_year(version));
    let since = |first: u32| year.is_some_and(|year| year >= first);

    let backend = word(GPU_SUPPORT);
    let no_gpu = matches!(backend.as_str(), "disabled" | "none");
    let (opencl, hip) = (backend == "opencl", backend == "hip");
    // With Lorentz-Berthelot rules for the grid part mdrun falls back to CPUs.
    let lj_pme = word("vdw-type") == "pme";
    let mixed_rules = lj_pme && word("lj-pme-comb-rule") != "geometric";
    // `-nb gpu` ends mdrun where energies of groups are kept apart, and with most schemes of multiple time steps. A wall
    // is a group of its own and does no harm.
    let walls = values.get("nwall").and_then(|walls| walls.parse::<u64>().ok()).unwrap_or(0);
    let one_group = values
        .get(ENERGY_GROUPS)
        .is_none_or(|groups| groups.parse().is_ok_and(|groups: u64| groups <= walls.saturating_add(1)));
    let never = no_gpu || mixed_rules || word("cutoff-scheme") == "group" || !one_group || !off("mts");

    let uses_pme = word("coulombtype").starts_with("pme");
    let perturbed = !off("free-energy");
    // mdrun computes PME and bonded interactions of dynamics alone on a GPU, and ends where it is told to for anything else.
    let is_dynamics = !MINIMISERS.contains(&word("integrator").as_str());
    // Two grids, for the two states of perturbed charges, since 2021. HIP (2025) has pair interactions only.
    let pme =
        is_dynamics && word("pme-order") == "4" && !lj_pme && (!perturbed || since(2021)) && !hip && !never;
    let bonded = is_dynamics && !opencl && !hip && !never;
    // From 2023 on mdrun itself updates on the GPU where it can; before, some of the features below were refused.
    let update = || {
        since(2023)
            && matches!(backend.as_str(), "cuda" | "sycl")
            && word("integrator") == "md"
            && matches!(word("tcoupl").as_str(), "no" | "berendsen" | "v-rescale")
            && matches!(word("pcoupl").as_str(), "no" | "berendsen" | "c-rescale" | "parrinello-rahman")
            && word("constraint-algorithm") == "lincs"
            && ["pull", "awh", "mts", "rotation", "swapcoords", "simulated-tempering", "cos-acceleration"]
                .into_iter()
                .all(off)
            && off("epsilon-surface")
            && !perturbed
            && word(OBSTACLES) == NO_OBSTACLES
            && (pme || !uses_pme)
            && !never
    };
    Allowed {
        nonbonded: never.then_some(false),
        pme: uses_pme.then_some(pme),
        bonded: (!bonded).then_some(false),
        update: values.contains_key(OBSTACLES).then(update),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Water in 2024, with a build for CUDA.
    fn usual() -> BTreeMap<String, String> {
        [
            ("integrator", "md"),
            ("cutoff-scheme", "Verlet"),
            ("coulombtype", "PME"),
            ("vdw-type", "Cut-off"),
            ("lj-pme-comb-rule", "Geometric"),
            ("pme-order", "4"),
            ("epsilon-surface", "0"),
            ("tcoupl", "V-rescale"),
            ("pcoupl", "C-rescale"),
            ("free-energy", "no"),
            ("pull", "false"),
            ("awh", "false"),
            ("mts", "false"),
            ("nwall", "0"),
            ("rotation", "false"),
            ("swapcoords", "no"),
            ("cos-acceleration", "0"),
            ("constraint-algorithm", "Lincs"),
            ("simulated-tempering", "false"),
            (VERSION, "2024.4"),
            (GPU_SUPPORT, "CUDA"),
            (ENERGY_GROUPS, "1"),
            (OBSTACLES, NO_OBSTACLES),
        ]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into()
    }

    fn with(changes: &[(&str, &str)]) -> Allowed {
        let mut values = usual();
        values.extend(changes.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())));
        allowed(&values)
    }

    const ALL: Allowed = Allowed { nonbonded: None, pme: Some(true), bonded: None, update: Some(true) };

    const NOTHING: Allowed =
        Allowed { nonbonded: Some(false), pme: Some(false), bonded: Some(false), update: Some(false) };

    #[test]
    fn usual_settings_may_go_to_the_gpu_as_a_whole() {
        assert_eq!(with(&[]), ALL);
    }

    #[test]
    fn nothing_goes_to_a_gpu_that_the_build_does_not_know() {
        assert_eq!(with(&[(GPU_SUPPORT, "disabled")]), NOTHING);
        let opencl = Allowed { bonded: Some(false), update: Some(false), ..ALL };
        assert_eq!(with(&[(GPU_SUPPORT, "OpenCL")]), opencl);
        assert_eq!(with(&[(GPU_SUPPORT, "HIP")]), Allowed { pme: Some(false), ..opencl });
        assert_eq!(with(&[(GPU_SUPPORT, "SYCL")]), ALL);
    }

    #[test]
    fn what_mdrun_refuses_stays_on_cpus() {
        let pairs_alone = Allowed { pme: Some(false), bonded: Some(false), update: Some(false), ..ALL };
        for (changes, expected) in [
            (&[("integrator", "steep")][..], pairs_alone),
            (&[("integrator", "cg")], pairs_alone),
            (&[("integrator", "l-bfgs")], pairs_alone),
            (
                &[("integrator", "steep"), ("coulombtype", "Reaction-Field")],
                Allowed { pme: None, ..pairs_alone },
            ),
            (&[("integrator", "sd")], Allowed { update: Some(false), ..ALL }),
            (&[("vdw-type", "PME")], Allowed { pme: Some(false), update: Some(false), ..ALL }),
            (&[("pme-order", "6")], Allowed { pme: Some(false), update: Some(false), ..ALL }),
            (&[("mts", "true")], NOTHING),
            (&[(ENERGY_GROUPS, "3")], NOTHING),
            (&[(ENERGY_GROUPS, "3"), ("nwall", "2")], ALL),
            (&[(ENERGY_GROUPS, "4"), ("nwall", "2")], NOTHING),
            (&[("free-energy", "yes")], Allowed { update: Some(false), ..ALL }),
            (
                &[("free-energy", "yes"), (VERSION, "2019.6")],
                Allowed { pme: Some(false), update: Some(false), ..ALL },
            ),
            (&[("coulombtype", "Reaction-Field")], Allowed { pme: None, ..ALL }),
        ] {
            assert_eq!(with(changes), expected, "{changes:?}");
        }
        for changes in [&[("vdw-type", "PME"), ("lj-pme-comb-rule", "LB")][..], &[("cutoff-scheme", "Group")]]
        {
            assert_eq!(with(changes).nonbonded, Some(false), "{changes:?}");
        }
    }

    #[test]
    fn the_update_goes_to_the_gpu_only_if_everything_is_known_to_allow_it() {
        for (key, value) in [
            (VERSION, "2022.5"),
            (VERSION, "unknown"),
            (GPU_SUPPORT, ""),
            ("integrator", "sd"),
            ("tcoupl", "Nose-Hoover"),
            ("pcoupl", "MTTK"),
            ("pull", "true"),
            ("awh", "true"),
            ("rotation", "true"),
            ("swapcoords", "X"),
            ("cos-acceleration", "0.1"),
            ("epsilon-surface", "1"),
            ("constraint-algorithm", "Shake"),
            ("simulated-tempering", "true"),
            (OBSTACLES, "virtual-sites"),
        ] {
            assert_eq!(with(&[(key, value)]), Allowed { update: Some(false), ..ALL }, "{key} {value}");
        }
        let mut values = usual();
        values.remove(OBSTACLES);
        assert_eq!(allowed(&values).update, None, "the file was not read as far as that");
    }
}
