//! The ladder of configurations: its request and its reply.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Build, Interval, Layout, NodeShape, Resources, SystemDescription};
#[cfg(feature = "openapi")]
use crate::bounds;
use crate::strict;

/// What the efficiency of a configuration is, for people.
pub const EFFICIENCY: &str = "speed per core, relative to the best per core on the same hardware, on a node with no other work; with a \
    GPU: speed, relative to the best with that GPU";

/// Asks for the configurations a simulation should try, largest first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LadderRequest {
    /// What is simulated.
    #[serde(deserialize_with = "strict::object")]
    pub system: SystemDescription,
    /// What no configuration may exceed.
    #[serde(default, deserialize_with = "strict::object")]
    pub limits: Limits,
    /// Version of GROMACS in the image, as `gmx --version` prints it (`2022.5-Debian_2022.5_2`, `2024.4`).
    /// Missing: no GPU option is used that some release does not know.
    #[cfg_attr(feature = "openapi", schemars(length(max = bounds::VERSION_LENGTH.max)))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gromacs_version: Option<String>,
    /// How that GROMACS was built. Missing: for the processor, in mixed precision.
    #[serde(default, skip_serializing_if = "Build::is_unknown", deserialize_with = "strict::object")]
    pub build: Build,
    /// The shapes of nodes the pod may run on.
    #[cfg_attr(feature = "openapi", schemars(length(min = bounds::NODE_SHAPES.min, max = bounds::NODE_SHAPES.max)))]
    #[serde(deserialize_with = "strict::objects")]
    pub nodes: Vec<NodeShape>,
    /// For a restart: try the second-best layout now and then. Missing: always the best.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "strict::optional_object")]
    pub explore: Option<Explore>,
}

/// Asks for layouts to be tried at a restart.
///
/// On resources that were measured, the second-best layout is taken with the probability that it is the best. The draw
/// depends on the seed and the resources alone, so the same request always gets the same reply.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Explore {
    /// Decides the draw. Give each restart another one, such as the number of the attempt.
    #[cfg_attr(feature = "openapi", schemars(range(min = bounds::SEED.min, max = bounds::SEED.max)))]
    #[serde(deserialize_with = "strict::integer")]
    pub seed: u64,
    /// What earlier attempts of this simulation measured.
    #[cfg_attr(feature = "openapi", schemars(length(min = bounds::MEASURED_RUNS.min, max = bounds::MEASURED_RUNS.max)))]
    #[serde(deserialize_with = "strict::objects")]
    pub measured: Vec<MeasuredRun>,
}

/// What an attempt measured.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MeasuredRun {
    /// CPU of the pod in thousandths of a core.
    #[cfg_attr(feature = "openapi", schemars(range(min = bounds::MAX_CPU_MILLICORES.min, max = bounds::MAX_CPU_MILLICORES.max)))]
    #[serde(deserialize_with = "strict::integer")]
    pub cpu_millicores: u32,
    /// How mdrun divided it.
    #[serde(deserialize_with = "strict::object")]
    pub layout: Layout,
    /// Measured speed in ns of simulated time per day.
    #[cfg_attr(feature = "openapi", schemars(range(min = bounds::NS_PER_DAY.min, max = bounds::NS_PER_DAY.max)))]
    pub ns_per_day: f64,
}

/// What no configuration may exceed, and how the ladder is cut.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Limits {
    /// Most CPU a pod may request, in thousandths of a core. Missing: the nodes decide.
    #[cfg_attr(feature = "openapi", schemars(range(min = bounds::MAX_CPU_MILLICORES.min, max = bounds::MAX_CPU_MILLICORES.max)))]
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "strict::optional_integer")]
    pub max_cpu_millicores: Option<u32>,
    /// Most memory a pod may request, in bytes. Missing: the nodes decide.
    #[cfg_attr(feature = "openapi", schemars(range(min = bounds::MAX_MEMORY_BYTES.min, max = bounds::MAX_MEMORY_BYTES.max)))]
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "strict::optional_integer")]
    pub max_memory_bytes: Option<u64>,
    /// Most GPUs a pod may request. Missing: the nodes decide.
    #[cfg_attr(feature = "openapi", schemars(range(min = bounds::MAX_GPUS.min, max = bounds::MAX_GPUS.max)))]
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "strict::optional_integer")]
    pub max_gpus: Option<u32>,
    /// Most configurations in the reply. On one kind of hardware each has 0.35 to 0.6 of the speed of the one before, as
    /// far as sizes allow, and less if there would be more configurations than this.
    #[cfg_attr(feature = "openapi", schemars(range(min = bounds::MAX_CONFIGURATIONS.min, max = bounds::MAX_CONFIGURATIONS.max)))]
    #[serde(deserialize_with = "strict::integer")]
    pub max_configurations: u32,
    /// The first configuration of each kind of hardware is the largest that pays: the fastest whose speed per price is at
    /// least this share of the best on that hardware. Without a GPU that is the parallel efficiency. Speeds are compared as
    /// on nodes with no other work.
    #[cfg_attr(feature = "openapi", schemars(range(min = bounds::MIN_EFFICIENCY.min, max = bounds::MIN_EFFICIENCY.max)))]
    pub min_efficiency: f64,
    /// What a resource is worth against another. Decides how many cores pay beside a GPU; it never leaves out a
    /// configuration without a GPU in favour of one with.
    #[serde(deserialize_with = "strict::object")]
    pub weights: PriceWeights,
    /// Most simulations on one GPU at a time. Above 1, the reply lists in `sharedGpu` what several would do together.
    #[cfg_attr(feature = "openapi", schemars(range(min = bounds::SIMULATIONS_PER_GPU.min, max = bounds::SIMULATIONS_PER_GPU.max)))]
    #[serde(deserialize_with = "strict::integer")]
    pub max_simulations_per_gpu: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_cpu_millicores: None,
            max_memory_bytes: None,
            max_gpus: None,
            max_configurations: 12,
            min_efficiency: 0.7,
            weights: PriceWeights::default(),
            max_simulations_per_gpu: 1,
        }
    }
}

/// The price of a resource in any common unit; only ratios matter.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct PriceWeights {
    /// Price of one core.
    #[cfg_attr(feature = "openapi", schemars(range(min = bounds::CORE_PRICE.min, max = bounds::CORE_PRICE.max)))]
    pub core: f64,
    /// Price of one GiB of memory.
    #[cfg_attr(feature = "openapi", schemars(range(min = bounds::PRICE.min, max = bounds::PRICE.max)))]
    pub memory_gib: f64,
    /// Price of one GPU.
    #[cfg_attr(feature = "openapi", schemars(range(min = bounds::PRICE.min, max = bounds::PRICE.max)))]
    pub gpu: f64,
}

impl Default for PriceWeights {
    /// A GPU as ten cores, about the ratio of cloud list prices; memory only breaks ties, because a
    /// simulation of any size needs little of it per core.
    fn default() -> Self {
        Self { core: 1.0, memory_gib: 0.01, gpu: 10.0 }
    }
}

/// The configurations to try, the first one first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct LadderReply {
    /// Version of the model and of what it has learned from; the same request to the same version gives the
    /// same reply.
    pub model_version: String,
    /// At least one configuration, fastest first. On one kind of hardware each asks for less than the one before.
    #[cfg_attr(feature = "openapi", schemars(length(min = bounds::MAX_CONFIGURATIONS.min, max = bounds::MAX_CONFIGURATIONS.max)))]
    #[serde(rename = "configurations")]
    pub rungs: Vec<Rung>,
    /// What several equal simulations on one GPU would do together, if the limits allow several. Predicted, never measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shared_gpu: Vec<SharedGpu>,
    /// Sentences for the user about the ladder as a whole, such as hardware that was not recognised.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// One configuration of the ladder.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema), schemars(rename = "Configuration"))]
#[serde(rename_all = "camelCase")]
pub struct Rung {
    /// Requests of the pod; its limits are the same.
    pub resources: Resources,
    /// How mdrun divides them.
    pub layout: Layout,
    /// Predicted speed in ns of simulated time per day.
    pub ns_per_day: Interval,
    /// Hours until the last step at the predicted p50 speed; none for a run without an end.
    #[cfg_attr(feature = "openapi", schemars(range(min = 0.0)))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hours_to_finish: Option<f64>,
    /// Parallel efficiency. Without a GPU: speed per core relative to the best speed per core on the same hardware, both on
    /// a node with no other work. With a GPU: speed relative to the best with that GPU, whatever the cores beside it.
    #[cfg_attr(feature = "openapi", schemars(range(min = 0.0, max = 1.0)))]
    pub efficiency: f64,
    /// Predicted peak memory in bytes, without the margin that is in `resources`.
    pub memory_bytes: u64,
    /// Hardware class the prediction was made for (`unknown` if no label told); the slowest of those it fits.
    pub hardware_class: String,
    /// The prediction on each class of hardware that can hold it, if there are several: the pod may land on any of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub on_hardware: Vec<HardwareSpeed>,
    /// Labels that the node must have: the configuration is for a kind of node that is much faster than others that hold as
    /// much. Missing: any node may run it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub node_labels: BTreeMap<String, String>,
    /// True if some node that may run it had the capacity free when the request was made.
    pub fits_now: bool,
    /// The other layout of the two best, on resources that were measured; see [`Explore`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alternative: Option<Alternative>,
    /// Why this configuration is on the ladder, one sentence.
    pub reason: String,
}

/// The speed of a configuration on one class of hardware.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct HardwareSpeed {
    /// Name of the class.
    pub hardware_class: String,
    /// Predicted speed in ns of simulated time per day.
    pub ns_per_day: Interval,
}

/// A layout that may be better than the one that is proposed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Alternative {
    /// How mdrun would divide the same resources.
    pub layout: Layout,
    /// Expected speed in ns of simulated time per day.
    #[cfg_attr(feature = "openapi", schemars(range(min = 0.0)))]
    pub ns_per_day: f64,
    /// Probability that it is the faster one.
    #[cfg_attr(feature = "openapi", schemars(range(min = 0.0, max = 1.0)))]
    pub probability: f64,
    /// True if the draw took the second-best layout: this one is then the best.
    pub explored: bool,
}

/// Several equal simulations on one GPU, each a pod that shares it or a part of one run with `-multidir`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct SharedGpu {
    /// How many simulations.
    pub simulations: u32,
    /// What all of them need together: one GPU, and the cores and the memory of each times their number.
    pub resources: Resources,
    /// How mdrun divides the part of each.
    pub layout: Layout,
    /// Predicted speed of all together, in ns of simulated time per day.
    pub ns_per_day_total: Interval,
    /// Predicted p50 speed of each.
    #[cfg_attr(feature = "openapi", schemars(range(min = 0.0)))]
    pub ns_per_day_each: f64,
    /// Total speed relative to the fastest single simulation on the same GPU.
    #[cfg_attr(feature = "openapi", schemars(range(min = 0.0)))]
    pub gain: f64,
    /// Hardware class the prediction was made for.
    pub hardware_class: String,
}
