//! What is simulated.

use serde::{Deserialize, Serialize};

use super::Settings;
use crate::bounds;
use crate::strict;

/// What is simulated: the part of a run input file that decides the cost of a step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SystemDescription {
    /// Number of atoms.
    #[cfg_attr(feature = "openapi", schemars(range(min = bounds::ATOMS.min, max = bounds::ATOMS.max)))]
    #[serde(deserialize_with = "strict::integer")]
    pub atoms: u64,
    /// Diagonal of the GROMACS box matrix in nm. Its product is the volume, for triclinic boxes too, because
    /// the matrix is triangular. Missing: a cube with the density of water (100 atoms per nm³).
    #[cfg_attr(feature = "openapi", schemars(inner(range(min = bounds::BOX_NM.min, max = bounds::BOX_NM.max))))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub box_nm: Option<[f64; 3]>,
    /// Steps to do; -1 is a run without an end.
    #[cfg_attr(feature = "openapi", schemars(range(min = bounds::NSTEPS.min, max = bounds::NSTEPS.max)))]
    #[serde(default = "endless", deserialize_with = "strict::integer")]
    pub nsteps: i64,
    /// Time step in ps.
    #[cfg_attr(feature = "openapi", schemars(range(min = bounds::DT_PS.min, max = bounds::DT_PS.max)))]
    #[serde(default = "default_dt_ps")]
    pub dt_ps: f64,
    /// The larger of `rcoulomb` and `rvdw` in nm.
    #[cfg_attr(feature = "openapi", schemars(range(min = bounds::CUTOFF_NM.min, max = bounds::CUTOFF_NM.max)))]
    #[serde(default = "default_cutoff_nm")]
    pub cutoff_nm: f64,
    /// Radius of the pair list (`rlist`) in nm, at least the cut-off (less 1%, for rounding). Missing: estimated.
    #[cfg_attr(feature = "openapi", schemars(range(min = bounds::RLIST_NM.min, max = bounds::RLIST_NM.max)))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rlist_nm: Option<f64>,
    /// Steps between pair searches (`nstlist`). Missing: what mdrun would choose.
    #[cfg_attr(feature = "openapi", schemars(range(min = bounds::NSTLIST.min, max = bounds::NSTLIST.max)))]
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "strict::optional_integer")]
    pub nstlist: Option<u32>,
    /// Particle-mesh Ewald, if the simulation uses it. Missing: reaction field or a plain cut-off.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "strict::optional_object")]
    pub pme: Option<PmeDescription>,
    /// Bonded interactions (bonds, angles, dihedrals) evaluated per step. Missing: a typical solvated
    /// biomolecule.
    #[cfg_attr(feature = "openapi", schemars(range(min = bounds::INTERACTIONS.min, max = bounds::INTERACTIONS.max)))]
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "strict::optional_integer")]
    pub bonded_interactions: Option<u64>,
    /// Constraints, three per rigid water molecule included. Missing: typical.
    #[cfg_attr(feature = "openapi", schemars(range(min = bounds::INTERACTIONS.min, max = bounds::INTERACTIONS.max)))]
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "strict::optional_integer")]
    pub constraints: Option<u64>,
    /// What the settings of the run allow on a GPU.
    #[serde(default, deserialize_with = "strict::object")]
    pub gpu_offload: GpuOffload,
    /// Settings that make a step dearer or cheaper. Missing: plain molecular dynamics.
    #[serde(default, skip_serializing_if = "Settings::is_plain", deserialize_with = "strict::object")]
    pub settings: Settings,
}

impl SystemDescription {
    /// [`Self::cutoff_nm`] of a run input file. In a vacuum a cut-off may be 0, which is none, or far longer than the system:
    /// each atom then sees nearly all others, as with the longest one that a request may have.
    #[must_use]
    pub fn cutoff_of(rcoulomb: f64, rvdw: f64) -> f64 {
        let longest = bounds::CUTOFF_NM.max;
        Some(rcoulomb.max(rvdw)).filter(|cutoff| *cutoff > 0.0).map_or(longest, |cutoff| cutoff.min(longest))
    }

    /// [`Self::rlist_nm`] and [`Self::nstlist`] of a run input file that fixes them. In a vacuum they may be 0 or out of all
    /// bounds; they are estimated then.
    #[must_use]
    pub fn list_of(rlist: f64, nstlist: i64) -> (Option<f64>, Option<u32>) {
        let steps = u32::try_from(nstlist).ok().filter(|steps| bounds::NSTLIST.contain(steps));
        (Some(rlist).filter(|rlist| bounds::RLIST_NM.contain(rlist)), steps)
    }
}

/// Particle-mesh Ewald electrostatics.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PmeDescription {
    /// Grid points along x, y and z.
    #[cfg_attr(feature = "openapi", schemars(inner(range(min = bounds::PME_GRID.min, max = bounds::PME_GRID.max))))]
    #[serde(deserialize_with = "strict::three_integers")]
    pub grid: [u32; 3],
    /// Interpolation order (`pme-order`).
    #[cfg_attr(feature = "openapi", schemars(range(min = bounds::PME_ORDER.min, max = bounds::PME_ORDER.max)))]
    #[serde(default = "default_pme_order", deserialize_with = "strict::integer")]
    pub order: u32,
}

/// Which parts of a step the settings of the run allow on a GPU.
///
/// `update` excludes many features (virtual sites on old versions, pull code, Nosé-Hoover, free energy with
/// constraints), so it is off unless the inspection found the run eligible.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct GpuOffload {
    /// Short-range nonbonded interactions; without it no GPU is proposed at all.
    pub nonbonded: bool,
    /// PME; needs order 4 and `nonbonded`.
    pub pme: bool,
    /// Bonded interactions; needs `nonbonded`.
    pub bonded: bool,
    /// Update and constraints; needs `nonbonded`.
    pub update: bool,
}

impl Default for GpuOffload {
    fn default() -> Self {
        Self { nonbonded: true, pme: true, bonded: true, update: false }
    }
}

fn endless() -> i64 {
    -1
}

fn default_dt_ps() -> f64 {
    0.002
}

fn default_cutoff_nm() -> f64 {
    1.0
}

fn default_pme_order() -> u32 {
    4
}
