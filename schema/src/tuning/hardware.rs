//! What the tuner knows of hardware.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The model in use.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ModelReply {
    /// Version, as in `modelVersion` of a ladder.
    pub model_version: String,
    /// Measured runs of this cluster that it knows.
    pub runs: u64,
    /// Every hardware class: its constants, and what was learned about it.
    pub classes: Vec<ModelClass>,
    /// Measured runs that were read and not used, by reason.
    pub dropped: Vec<DroppedRuns>,
}

/// What the model knows of a hardware class.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ModelClass {
    /// Name of the class, as in `hardwareClass` of a configuration.
    pub class: String,
    /// `cpu` or `gpu`.
    pub kind: String,
    /// Vector instructions of a CPU, as GROMACS names them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub simd: Option<String>,
    /// Its constants by name, with the unit in the name.
    pub constants: BTreeMap<String, f64>,
    /// Half-width of the 80% interval without a measurement, as a factor above 1.
    #[cfg_attr(feature = "openapi", schemars(range(min = 1.0)))]
    pub half_width: f64,
    /// Where the constants are published.
    pub source: String,
    /// Measured runs of this cluster on it.
    pub runs: u64,
    /// How far these were from the physics, if there are any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub residual: Option<ClassResidual>,
}

/// Measured runs that were not used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct DroppedRuns {
    /// Why, in one word, as in the metric `scavenger_tuner_dropped_runs`.
    pub kind: String,
    /// Why, for a person.
    pub reason: String,
    /// How many.
    pub runs: u64,
}

/// How far measured runs of a hardware class were from the physics.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ClassResidual {
    /// Name of the class.
    pub class: String,
    /// Measured runs of it.
    pub runs: u64,
    /// Median of measured over predicted time.
    #[cfg_attr(feature = "openapi", schemars(range(min = 0.0)))]
    pub median_ratio: f64,
    /// Median absolute deviation of its logarithm.
    #[cfg_attr(feature = "openapi", schemars(range(min = 0.0)))]
    pub spread: f64,
}
