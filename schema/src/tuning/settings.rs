//! Settings of a run that make a step dearer or cheaper than plain molecular dynamics.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

#[cfg(feature = "openapi")]
use crate::bounds;
use crate::strict;

/// Key of the number of atoms with two states, among what an inspection found.
pub const PERTURBED_ATOMS: &str = "perturbed-atoms";
/// Settings that [`Settings::of`] looks at, under the names that `gmx dump` gives them.
pub const COST_SETTINGS: [&str; 15] = [
    "free-energy",
    "vdw-type",
    "lj-pme-comb-rule",
    "vdw-modifier",
    "mts",
    "mts-level2-forces",
    "mts-level2-factor",
    "nstxout",
    "nstvout",
    "nstfout",
    "nstxout-compressed",
    "pull",
    "awh",
    "rotation",
    "swapcoords",
];
/// Key of the modules that are active, such as QM/MM or Colvars, among what an inspection found.
pub const MODULES: &str = "modules";

/// Settings that make a step dearer or cheaper. Few or no runs with them were measured, so they widen the interval.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Settings {
    /// Free energy with two states (`free-energy`): perturbed pairs have a kernel of their own, and PME is done twice.
    pub free_energy: bool,
    /// Atoms that differ in the two states. Missing: those of a small molecule.
    #[cfg_attr(feature = "openapi", schemars(range(min = bounds::PERTURBED_ATOMS.min, max = bounds::PERTURBED_ATOMS.max)))]
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "strict::optional_integer")]
    pub perturbed_atoms: Option<u64>,
    /// PME for Lennard-Jones interactions (`vdwtype = PME`), by its rule for the grid.
    #[serde(deserialize_with = "strict::word")]
    pub lj_pme: LjPme,
    /// What brings Lennard-Jones interactions to zero at the cut-off (`vdw-modifier`).
    #[serde(deserialize_with = "strict::word")]
    pub vdw_modifier: VdwModifier,
    /// Steps between evaluations of long-range forces (`mts-level2-factor`); 1 without multiple time steps.
    #[cfg_attr(feature = "openapi", schemars(range(min = bounds::MTS_INTERVAL.min, max = bounds::MTS_INTERVAL.max)))]
    #[serde(deserialize_with = "strict::integer")]
    pub mts_interval: u32,
    /// Bytes of trajectory that a step writes, on average.
    #[cfg_attr(feature = "openapi", schemars(range(min = bounds::OUTPUT_BYTES.min, max = bounds::OUTPUT_BYTES.max)))]
    pub output_bytes_per_step: f64,
    /// Something whose cost the tuner does not know: a module (QM/MM, Colvars, a neural network potential, fitting to a
    /// density), pulling, AWH, enforced rotation or swapping. Such runs say nothing of others.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unmodelled: bool,
}

/// PME for Lennard-Jones interactions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum LjPme {
    /// Not used.
    #[default]
    None,
    /// One further grid.
    Geometric,
    /// Seven further grids, on CPUs only.
    LorentzBerthelot,
}

/// What brings Lennard-Jones interactions to zero at the cut-off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum VdwModifier {
    /// Nothing, or a shift of the potential, which costs nothing.
    #[default]
    None,
    /// A switch of the potential.
    PotentialSwitch,
    /// A switch of the force.
    ForceSwitch,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            free_energy: false,
            perturbed_atoms: None,
            lj_pme: LjPme::None,
            vdw_modifier: VdwModifier::None,
            mts_interval: 1,
            output_bytes_per_step: 0.0,
            unmodelled: false,
        }
    }
}

impl Settings {
    /// True if they are those of plain molecular dynamics.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        *self == Self::default()
    }

    /// The settings that an inspection of a system of so many atoms found, from its values by key.
    #[must_use]
    pub fn of(values: &BTreeMap<String, String>, atoms: u64) -> Self {
        let word = |key: &str| values.get(key).map(|value| value.to_ascii_lowercase()).unwrap_or_default();
        let is_on = |key: &str| !matches!(word(key).as_str(), "" | "no" | "false" | "none" | "0");
        let lj_pme = match (word("vdw-type").as_str(), word("lj-pme-comb-rule").as_str()) {
            ("pme", "geometric") => LjPme::Geometric,
            ("pme", _) => LjPme::LorentzBerthelot,
            _ => LjPme::None,
        };
        let vdw_modifier = match (word("vdw-modifier").as_str(), word("vdw-type").as_str()) {
            ("potential-switch", _) | (_, "switch") => VdwModifier::PotentialSwitch,
            ("force-switch", _) | (_, "shift") => VdwModifier::ForceSwitch,
            _ => VdwModifier::None,
        };
        let factor = word("mts-level2-factor").parse().ok().filter(|factor| MTS.contains(factor));
        let long_range = word("mts-level2-forces").contains("longrange-nonbonded");
        // Three coordinates of 4 bytes each; the compressed ones take about a third of that.
        let written = |key: &str, bytes: f64| {
            let every = word(key).parse().ok().filter(|steps: &u32| *steps > 0);
            every.map_or(0.0, |steps| bytes / f64::from(steps))
        };
        let per_atom = written("nstxout", 12.0)
            + written("nstvout", 12.0)
            + written("nstfout", 12.0)
            + written("nstxout-compressed", 4.0);
        let free_energy = is_on("free-energy");
        Self {
            free_energy,
            perturbed_atoms: word(PERTURBED_ATOMS).parse().ok().filter(|_| free_energy),
            lj_pme,
            vdw_modifier,
            mts_interval: factor.filter(|_| is_on("mts") && long_range).unwrap_or(1),
            output_bytes_per_step: (per_atom * atoms as f64).min(crate::bounds::OUTPUT_BYTES.max),
            unmodelled: [MODULES, "pull", "awh", "rotation", "swapcoords"].into_iter().any(is_on),
        }
    }
}

/// Intervals of multiple time steps that are sent.
const MTS: std::ops::RangeInclusive<u32> = crate::bounds::MTS_INTERVAL.min..=crate::bounds::MTS_INTERVAL.max;

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[(&str, &str)]) -> Settings {
        let values = values.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        Settings::of(&values, 1000)
    }

    #[test]
    fn plain_dynamics_is_plain() {
        assert!(of(&[]).is_plain());
        let usual = [
            ("free-energy", "no"),
            ("vdw-type", "Cut-off"),
            ("vdw-modifier", "Potential-shift"),
            ("mts", "false"),
        ];
        assert!(of(&usual).is_plain());
    }

    #[test]
    fn each_setting_is_found() {
        let free = of(&[("free-energy", "yes"), (PERTURBED_ATOMS, "30")]);
        assert_eq!((free.free_energy, free.perturbed_atoms), (true, Some(30)));
        assert_eq!(
            of(&[(PERTURBED_ATOMS, "30")]).perturbed_atoms,
            None,
            "only with free energy they cost anything"
        );
        assert_eq!(of(&[("vdw-type", "PME"), ("lj-pme-comb-rule", "Geometric")]).lj_pme, LjPme::Geometric);
        assert_eq!(of(&[("vdw-type", "PME"), ("lj-pme-comb-rule", "LB")]).lj_pme, LjPme::LorentzBerthelot);
        assert_eq!(of(&[("vdw-modifier", "Potential-switch")]).vdw_modifier, VdwModifier::PotentialSwitch);
        assert_eq!(of(&[("vdw-modifier", "Force-switch")]).vdw_modifier, VdwModifier::ForceSwitch);
        let mts = [("mts", "true"), ("mts-level2-forces", "longrange-nonbonded"), ("mts-level2-factor", "2")];
        assert_eq!(of(&mts).mts_interval, 2);
        assert_eq!(of(&[("mts-level2-factor", "2")]).mts_interval, 1);
        for (key, value) in [(MODULES, "colvars"), ("pull", "true"), ("awh", "true"), ("swapcoords", "X")] {
            assert!(of(&[(key, value)]).unmodelled, "{key}");
        }
        assert!(!of(&[("pull", "false"), ("rotation", "no")]).unmodelled);
        let output = of(&[("nstxout", "100"), ("nstvout", "0"), ("nstxout-compressed", "10")]);
        assert!((output.output_bytes_per_step - 1000.0 * (12.0 / 100.0 + 4.0 / 10.0)).abs() < 1e-9);
    }
}
