//! What the tuner is asked and what it answers.
//!
//! JSON in camel case, like the Kubernetes objects beside it. Integers carry their unit in the name, so that
//! nothing here parses a Kubernetes quantity. Requests refuse unknown fields: a misspelt limit would otherwise
//! be no limit. What is accepted of each field stands in [`bounds`](crate::bounds); the tuner answers everything else with 422 and an
//! [`ErrorReply`].
//!
//! | module | holds |
//! |---|---|
//! | `system` | what is simulated |
//! | `settings` | settings that make a step dearer or cheaper |
//! | `build` | how GROMACS was built |
//! | `nodes` | where it may run |
//! | `ladder` | the ladder: request and reply |
//! | `predict` | the prediction for one layout |
//! | `calibration` | benchmarks to run |
//! | `hardware` | classes, and what was learned of them |

mod build;
mod calibration;
mod hardware;
mod ladder;
mod nodes;
mod predict;
mod settings;
mod system;

use serde::{Deserialize, Serialize};

pub use crate::layout::{BONDED_ON_GPU, Device, Layout, PME_ON_GPU, UPDATE_ON_GPU, release_year};
pub use build::{Build, MPI, PRECISION, SIMD};
pub use calibration::{Benchmark, CalibrationReply, CalibrationRequest};
pub use hardware::{ClassResidual, DroppedRuns, ModelClass, ModelReply};
pub use ladder::{
    Alternative, EFFICIENCY, Explore, HardwareSpeed, LadderReply, LadderRequest, Limits, MeasuredRun,
    PriceWeights, Rung, SharedGpu,
};
pub use nodes::{NodeShape, Resources};
pub use predict::{PredictReply, PredictRequest, StepCost};
pub use settings::{COST_SETTINGS, LjPme, MODULES, PERTURBED_ATOMS, Settings, VdwModifier};
pub use system::{GpuOffload, PmeDescription, SystemDescription};

/// Path of the ladder of configurations.
pub const LADDER_PATH: &str = "/v1/ladder";
/// Path of the prediction for one given layout.
pub const PREDICT_PATH: &str = "/v1/predict";
/// Path of the benchmarks for one kind of node.
pub const CALIBRATE_PATH: &str = "/v1/calibrate";
/// Path of the description of the model in use.
pub const MODEL_PATH: &str = "/v1/model";

/// A mebibyte; memory is requested in multiples of it.
pub const MIB: u64 = 1 << 20;

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
    /// 422: each field alone is right but not together with others, such as a box that is too small for its atoms
    /// or a layout that mdrun refuses for the system; the same request will always fail.
    Inconsistent,
    /// 422: the request is well formed, but no node and no layout can run the system within the limits;
    /// other nodes or limits may.
    NothingFits,
    /// 5xx or 408: nothing wrong with the request; ask again later.
    Unavailable,
}
