//! What a pool says about the configurations in which a job could run.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What decides which configurations are tried, and with which one a job begins.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Configurations {
    /// A job begins with the fastest configuration that has at least this share of the best speed per price. Without a GPU
    /// that is the parallel efficiency.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.01, max = 1.0))]
    pub min_efficiency: Option<f64>,

    /// Most configurations that are tried of a job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 32))]
    pub max_configurations: Option<i32>,
}
