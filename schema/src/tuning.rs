//! What the tuner is asked and what it answers.
//!
//! JSON in camel case, like the Kubernetes objects beside it. Integers carry their unit in the name, so that
//! nothing here parses a Kubernetes quantity. Requests refuse unknown fields: a misspelt limit would otherwise
//! be no limit. What is accepted of each field stands in [`bounds`]; the tuner answers everything else with 422 and an
//! [`ErrorReply`].

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

#[cfg(feature = "openapi")]
use crate::bounds;
pub use crate::layout::{BONDED_ON_GPU, Device, Layout, PME_ON_GPU, UPDATE_ON_GPU, release_year};
use crate::strict;

/// Path of the ladder of configurations.
pub const LADDER_PATH: &str = "/v1/ladder";
/// Path of the prediction for one given layout.
pub const PREDICT_PATH: &str = "/v1/predict";
/// Path of the benchmarks for one kind of node.
pub const CALIBRATE_PATH: &str = "/v1/calibrate";
/// Path of the table of hardware classes.
pub const HARDWARE_PATH: &str = "/v1/hardware";
/// Path of the description of the model in use.
pub const MODEL_PATH: &str = "/v1/model";

/// A mebibyte; memory is requested in multiples of it.
pub const MIB: u64 = 1 << 20;

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
    /// Whose simulation it is, by the name that their measured runs bear: these are believed before those of others.
    /// Missing: what all runs say together.
    #[cfg_attr(feature = "openapi", schemars(length(min = bounds::OWNER_LENGTH.min, max = bounds::OWNER_LENGTH.max)))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// The shapes of nodes the pod may run on.
    #[cfg_attr(feature = "openapi", schemars(length(min = bounds::NODE_SHAPES.min, max = bounds::NODE_SHAPES.max)))]
    #[serde(deserialize_with = "strict::objects")]
    pub nodes: Vec<NodeShape>,
    /// Seconds until the pods of a node have been replaced by others, on average. With it, and `largestFree` of all nodes,
    /// the wait for capacity is estimated, and the ladder is ordered by the expected finish: wait and run together.
    /// Missing: ordered by speed.
    #[cfg_attr(feature = "openapi", schemars(range(min = bounds::TURNOVER_SECONDS.min, max = bounds::TURNOVER_SECONDS.max)))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turnover_seconds: Option<f64>,
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
    /// Particle-mesh Ewald, if the simulation uses it.
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
    #[cfg_attr(feature = "openapi", schemars(range(min = bounds::MAX_RUNGS.min, max = bounds::MAX_RUNGS.max)))]
    #[serde(deserialize_with = "strict::integer")]
    pub max_rungs: u32,
    /// The first configuration of each kind of hardware is the largest that pays: the fastest whose speed per price is at
    /// least this share of the best on that hardware. Without a GPU that is the parallel efficiency.
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
            max_rungs: 12,
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

/// Nodes that look alike.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NodeShape {
    /// How many there are.
    #[cfg_attr(feature = "openapi", schemars(range(min = bounds::NODES.min, max = bounds::NODES.max)))]
    #[serde(default = "one", deserialize_with = "strict::integer")]
    pub count: u32,
    /// What one node offers to pods in all. Bounds every rung.
    #[serde(deserialize_with = "strict::object")]
    pub allocatable: Resources,
    /// What is free at this moment on the node of this shape with the most free CPU. Decides
    /// [`Rung::fits_now`] and nothing else. Missing: all of `allocatable`.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "strict::optional_object")]
    pub largest_free: Option<Resources>,
    /// Labels that all nodes of the shape share. Node Feature Discovery's CPU labels and `nvidia.com/gpu.product`
    /// tell the hardware class; without them the hardware is unknown and the interval wide.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "strict::unique_keys")]
    #[cfg_attr(feature = "openapi", schemars(schema_with = "bounds::labels_schema"))]
    pub labels: BTreeMap<String, String>,
}

/// An amount of each resource.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Resources {
    /// CPU in thousandths of a core.
    #[cfg_attr(feature = "openapi", schemars(range(min = bounds::CPU_MILLICORES.min, max = bounds::CPU_MILLICORES.max)))]
    #[serde(deserialize_with = "strict::integer")]
    pub cpu_millicores: u32,
    /// Memory in bytes.
    #[cfg_attr(feature = "openapi", schemars(range(min = bounds::MEMORY_BYTES.min, max = bounds::MEMORY_BYTES.max)))]
    #[serde(deserialize_with = "strict::integer")]
    pub memory_bytes: u64,
    /// Whole GPUs.
    #[cfg_attr(feature = "openapi", schemars(range(min = bounds::GPUS.min, max = bounds::GPUS.max)))]
    #[serde(default, deserialize_with = "strict::integer")]
    pub gpus: u32,
}

impl Resources {
    /// True if `self` fits into `room` in every resource.
    #[must_use]
    pub fn fits_in(&self, room: &Self) -> bool {
        self.cpu_millicores <= room.cpu_millicores
            && self.memory_bytes <= room.memory_bytes
            && self.gpus <= room.gpus
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
    #[cfg_attr(feature = "openapi", schemars(length(min = bounds::MAX_RUNGS.min, max = bounds::MAX_RUNGS.max)))]
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
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
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
    /// Parallel efficiency. Without a GPU: speed per core relative to the best speed per core on the same hardware. With a
    /// GPU: speed relative to the best with that GPU, whatever the cores beside it.
    #[cfg_attr(feature = "openapi", schemars(range(min = 0.0, max = 1.0)))]
    pub efficiency: f64,
    /// Predicted peak memory in bytes, without the margin that is in `resources`.
    pub memory_bytes: u64,
    /// Hardware class the prediction was made for (`unknown` if no label told); the slowest of those it fits.
    pub hardware_class: String,
    /// The prediction on each class of hardware that can hold it, if there are several: the pod may land on any of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub on_hardware: Vec<HardwareSpeed>,
    /// True if some node had the capacity free when the request was made.
    pub fits_now: bool,
    /// Expected wait for capacity in seconds, if the request tells enough to estimate it.
    #[cfg_attr(feature = "openapi", schemars(range(min = 0.0)))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_seconds: Option<f64>,
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

/// A predictive interval: the truth lies below `p10` one time in ten, and above `p90` one time in ten.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Interval {
    /// Lower end.
    #[cfg_attr(feature = "openapi", schemars(range(min = 0.0)))]
    pub p10: f64,
    /// Median.
    #[cfg_attr(feature = "openapi", schemars(range(min = 0.0)))]
    pub p50: f64,
    /// Upper end.
    #[cfg_attr(feature = "openapi", schemars(range(min = 0.0)))]
    pub p90: f64,
}

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
    /// Whose simulation it is, by the name that their measured runs bear: these are believed before those of others.
    /// Missing: what all runs say together.
    #[cfg_attr(feature = "openapi", schemars(length(min = bounds::OWNER_LENGTH.min, max = bounds::OWNER_LENGTH.max)))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
}

/// The prediction for one layout.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct PredictReply {
    /// Version of the model, as in [`LadderReply::model_version`].
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
    /// Version of the model, as in [`LadderReply::model_version`].
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
    /// Half-width as in [`CalibrationReply::half_width`] after this and the benchmarks before it.
    #[cfg_attr(feature = "openapi", schemars(range(min = 1.0)))]
    pub half_width_after: f64,
}

/// The table of hardware classes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct HardwareReply {
    /// Micro-architectures of CPUs.
    pub cpus: Vec<CpuHardware>,
    /// GPU products.
    pub gpus: Vec<GpuHardware>,
}

/// A micro-architecture.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct CpuHardware {
    /// Name of the class, as in [`Rung::hardware_class`].
    pub class: String,
    /// Products it stands for.
    pub products: String,
    /// Vector instructions, as GROMACS names its builds.
    pub simd: String,
    /// Typical all-core clock under vector load in GHz.
    #[cfg_attr(feature = "openapi", schemars(range(min = 0.0)))]
    pub clock_ghz: f64,
    /// Half-width of the 80% interval without a measurement, as a factor above 1.
    #[cfg_attr(feature = "openapi", schemars(range(min = 1.0)))]
    pub half_width: f64,
    /// Where the figures are published.
    pub source: String,
}

/// A GPU product.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct GpuHardware {
    /// Name of the class, as in [`Rung::hardware_class`].
    pub class: String,
    /// Peak single precision in TFLOP/s of one device.
    #[cfg_attr(feature = "openapi", schemars(range(min = 0.0)))]
    pub teraflops: f64,
    /// Memory bandwidth in GB/s.
    #[cfg_attr(feature = "openapi", schemars(range(min = 0.0)))]
    pub bandwidth_gb_per_second: f64,
    /// Device memory in GiB.
    #[cfg_attr(feature = "openapi", schemars(range(min = 0.0)))]
    pub memory_gib: f64,
    /// Half-width of the 80% interval without a measurement, as a factor above 1.
    #[cfg_attr(feature = "openapi", schemars(range(min = 1.0)))]
    pub half_width: f64,
    /// Where the figures are published.
    pub source: String,
}

/// The model in use.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ModelReply {
    /// Version, as in [`LadderReply::model_version`].
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
    /// Name of the class, as in [`Rung::hardware_class`].
    pub class: String,
    /// `cpu` or `gpu`.
    pub kind: String,
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

/// Body of every reply that is neither 2xx nor from /readyz.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ErrorReply {
    /// What went wrong, for a program.
    pub code: ErrorCode,
    /// What went wrong and what to do, one sentence for a person.
    pub error: String,
    /// The field of the request to change, as a path (`system.atoms`, `nodes[2].allocatable.gpus`), if it is
    /// one field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
}

/// Why there is no reply; decides whether asking again can help.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum ErrorCode {
    /// 4xx: the request is not what the OpenAPI document asks for; the same request will always fail.
    Invalid,
    /// 422: each field is right by itself but not together with others, such as a box that is too small for its atoms
    /// or a layout that mdrun refuses for the system; the same request will always fail.
    Inconsistent,
    /// 422: the request is well formed, but no node and no layout can run the system within the limits;
    /// other nodes or limits may.
    NothingFits,
    /// 5xx or 408: nothing wrong with the request; ask again later.
    Unavailable,
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

fn three() -> u32 {
    3
}

fn one_minute() -> f64 {
    60.0
}

fn default_pme_order() -> u32 {
    4
}

fn one() -> u32 {
    1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resources_fit_only_if_every_one_does() {
        let room = Resources { cpu_millicores: 2000, memory_bytes: 4 * MIB, gpus: 0 };
        assert!(room.fits_in(&room));
        assert!(!Resources { cpu_millicores: 2001, ..room }.fits_in(&room));
        assert!(!Resources { memory_bytes: 4 * MIB + 1, ..room }.fits_in(&room));
        assert!(!Resources { gpus: 1, ..room }.fits_in(&room));
    }
}
