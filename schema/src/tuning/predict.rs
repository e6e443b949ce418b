//! The prediction for one given layout.

use serde::{Deserialize, Serialize};

use super::{Build, Interval, Layout, NodeShape, Resources, SystemDescription};
#[cfg(feature = "openapi")]
use crate::bounds;
use crate::strict;

/// Asks how fast one given layout would be.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PredictRequest {
    /// What is simulated.
    #[serde(deserialize_with = "strict::object")]
    pub system: SystemDescription,
    /// How it would run.
    #[serde(deserialize_with = "strict::object")]
    pub layout: Layout,
    /// The node it would run on; the layout must fit it.
    #[serde(deserialize_with = "strict::object")]
    pub node: NodeShape,
    /// CPU of the pod in thousandths of a core, half a core or whole ones. Missing: one core per thread.
    #[cfg_attr(feature = "openapi", schemars(schema_with = "bounds::pod_cpu_schema"))]
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "strict::optional_integer")]
    pub cpu_millicores: Option<u32>,
    /// Version of GROMACS in the image.
    #[cfg_attr(feature = "openapi", schemars(length(max = bounds::VERSION_LENGTH.max)))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gromacs_version: Option<String>,
    /// How that GROMACS was built. Missing: for the processor, in mixed precision.
    #[serde(default, skip_serializing_if = "Build::is_unknown", deserialize_with = "strict::object")]
    pub build: Build,
}

/// The prediction for one layout.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct PredictReply {
    /// Version of the model, as in `modelVersion` of a ladder.
    pub model_version: String,
    /// Hardware class recognised from the labels, `unknown` if none.
    pub hardware_class: String,
    /// Predicted speed in ns of simulated time per day.
    pub ns_per_day: Interval,
    /// Hours until the last step at the predicted p50 speed; none for a run without an end.
    #[cfg_attr(feature = "openapi", schemars(range(min = 0.0)))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hours_to_finish: Option<f64>,
    /// Predicted peak memory in bytes.
    pub memory_bytes: u64,
    /// What a pod should request for it, limits being the same.
    pub resources: Resources,
    /// Where the time of a step goes.
    pub step: StepCost,
    /// Sentences for the user where the prediction is worth less than usual; the interval is then wider.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// Where the wall time of one step goes, in microseconds at the predicted p50 speed. Parts that overlap (PME
/// on ranks of its own, work on a GPU) do not add up to `total_us`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct StepCost {
    /// Pair interactions, pair search included.
    #[cfg_attr(feature = "openapi", schemars(range(min = 0.0)))]
    pub pair_us: f64,
    /// PME: spread, FFT, solve, gather.
    #[cfg_attr(feature = "openapi", schemars(range(min = 0.0)))]
    pub pme_us: f64,
    /// Bonded interactions, constraints and update.
    #[cfg_attr(feature = "openapi", schemars(range(min = 0.0)))]
    pub other_us: f64,
    /// Threads, halo, PME redistribution, latency.
    #[cfg_attr(feature = "openapi", schemars(range(min = 0.0)))]
    pub overhead_us: f64,
    /// The whole step.
    #[cfg_attr(feature = "openapi", schemars(range(min = 0.0)))]
    pub total_us: f64,
}
