//! Where it may run.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

#[cfg(feature = "openapi")]
use crate::bounds;
use crate::strict;

/// Nodes that look alike.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NodeShape {
    /// How many there are.
    #[cfg_attr(feature = "openapi", schemars(range(min = bounds::NODES.min, max = bounds::NODES.max)))]
    #[serde(default = "one", deserialize_with = "strict::integer")]
    pub count: u32,
    /// What one node offers to pods in all. Bounds every configuration.
    #[serde(deserialize_with = "strict::object")]
    pub allocatable: Resources,
    /// What is free at this moment on one node of this shape: the one with the most free GPUs, then the most free CPU, then
    /// the most free memory. Decides `fitsNow` and the expected wait. Missing: all of `allocatable`.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "strict::optional_object")]
    pub largest_free: Option<Resources>,
    /// Labels that all nodes of the shape share. Node Feature Discovery's CPU labels, the instance type and the labels of
    /// GPU products tell the hardware class; without them the hardware is unknown and the interval wide.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "strict::unique_keys")]
    #[cfg_attr(feature = "openapi", schemars(schema_with = "bounds::labels_schema"))]
    pub labels: BTreeMap<String, String>,
}

impl NodeShape {
    /// True if its nodes have all of these labels.
    #[must_use]
    pub fn has(&self, labels: &BTreeMap<String, String>) -> bool {
        labels.iter().all(|(name, value)| self.labels.get(name) == Some(value))
    }
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

fn one() -> u32 {
    1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tuning::MIB;

    #[test]
    fn resources_fit_only_if_every_one_does() {
        let room = Resources { cpu_millicores: 2000, memory_bytes: 4 * MIB, gpus: 0 };
        assert!(room.fits_in(&room));
        assert!(!Resources { cpu_millicores: 2001, ..room }.fits_in(&room));
        assert!(!Resources { memory_bytes: 4 * MIB + 1, ..room }.fits_in(&room));
        assert!(!Resources { gpus: 1, ..room }.fits_in(&room));
    }
}
