//! Benchmarks that would tell most about a kind of node.

use serde::{Deserialize, Serialize};

use super::{Build, Interval, Layout, NodeShape, Resources, SystemDescription};
#[cfg(feature = "openapi")]
use crate::bounds;
use crate::strict;

/// Asks which short benchmarks would tell most about a kind of node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CalibrationRequest {
    /// The kind of node.
    #[serde(deserialize_with = "strict::object")]
    pub node: NodeShape,
    /// Version of GROMACS in the image.
    #[cfg_attr(feature = "openapi", schemars(length(max = bounds::VERSION_LENGTH.max)))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gromacs_version: Option<String>,
    /// How that GROMACS was built. Missing: for the processor, in mixed precision.
    #[serde(default, skip_serializing_if = "Build::is_unknown", deserialize_with = "strict::object")]
    pub build: Build,
    /// Most benchmarks to propose.
    #[cfg_attr(feature = "openapi", schemars(range(min = bounds::BENCHMARKS.min, max = bounds::BENCHMARKS.max)))]
    #[serde(default = "three", deserialize_with = "strict::integer")]
    pub max_benchmarks: u32,
    /// Most CPU that a benchmark may take, in thousandths of a core. Missing: the node decides.
    #[cfg_attr(feature = "openapi", schemars(range(min = bounds::BENCHMARK_CPU_MILLICORES.min, max = bounds::BENCHMARK_CPU_MILLICORES.max)))]
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "strict::optional_integer")]
    pub max_cpu_millicores: Option<u32>,
    /// Most atoms that a benchmark may have. Missing: about 784,000.
    #[cfg_attr(feature = "openapi", schemars(range(min = bounds::BENCHMARK_ATOMS.min, max = bounds::BENCHMARK_ATOMS.max)))]
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "strict::optional_integer")]
    pub max_atoms: Option<u64>,
    /// Seconds that a benchmark should take at the predicted p50 speed. Half of it is measured; runs of
    /// less than 5 seconds are not learned from, and unknown hardware may be twice as fast as predicted.
    #[cfg_attr(feature = "openapi", schemars(range(min = bounds::BENCHMARK_SECONDS.min, max = bounds::BENCHMARK_SECONDS.max)))]
    #[serde(default = "one_minute")]
    pub seconds: f64,
}

/// Benchmarks that would tell most about a kind of node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct CalibrationReply {
    /// Version of the model, as in `modelVersion` of a ladder.
    pub model_version: String,
    /// Hardware class recognised from the labels, `unknown` if none.
    pub hardware_class: String,
    /// Half-width of the 80% interval without them, as a factor above 1, on average over systems of 10,000 to
    /// 1,000,000 atoms.
    #[cfg_attr(feature = "openapi", schemars(range(min = 1.0)))]
    pub half_width: f64,
    /// What to run, the most telling one first.
    #[cfg_attr(feature = "openapi", schemars(length(min = bounds::BENCHMARKS.min, max = bounds::BENCHMARKS.max)))]
    pub benchmarks: Vec<Benchmark>,
}

/// A short run that measures speed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Benchmark {
    /// A cube of water, with the number of steps.
    pub system: SystemDescription,
    /// How mdrun divides its resources.
    pub layout: Layout,
    /// Requests of the pod; its limits are the same.
    pub resources: Resources,
    /// Predicted peak memory in bytes.
    pub memory_bytes: u64,
    /// Arguments of mdrun: the layout, the steps, no tuning of PME, and counters reset at half of the steps.
    pub mdrun_args: Vec<String>,
    /// Predicted speed in ns of simulated time per day.
    pub ns_per_day: Interval,
    /// Seconds it takes at the predicted p50 speed.
    #[cfg_attr(feature = "openapi", schemars(range(min = 0.0)))]
    pub seconds: f64,
    /// Half-width as in `halfWidth` of the reply after this and the benchmarks before it.
    #[cfg_attr(feature = "openapi", schemars(range(min = 1.0)))]
    pub half_width_after: f64,
}

fn three() -> u32 {
    3
}

fn one_minute() -> f64 {
    60.0
}
