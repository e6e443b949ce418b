//! Nodes of the pool that look alike.

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};

use scavenger_schema::scavenger_job::Quantity;
use scavenger_schema::scavenger_pool::{Limits, NodeShape};
use scavenger_schema::{quantity, tuning};

use crate::gpus;

/// Nodes that look alike. Those that have GPUs of several resources, such as slices of two sizes, are several of these: a pod
/// asks for one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolNode {
    /// As the tuner knows them.
    pub shape: tuning::NodeShape,
    /// The resource that their GPUs are; none without any.
    pub gpu_resource: Option<String>,
}

impl Deref for PoolNode {
    type Target = tuning::NodeShape;

    fn deref(&self) -> &Self::Target {
        &self.shape
    }
}

impl DerefMut for PoolNode {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.shape
    }
}

impl PoolNode {
    /// Reads a shape of the pool's status; `free` is what is left below the threshold.
    pub(super) fn read(shape: &NodeShape, free: &BTreeMap<String, Quantity>, limits: &Limits) -> Vec<Self> {
        let count = |name: &str, list: &BTreeMap<String, Quantity>| {
            list.get(name).and_then(|count| quantity::parse_units(&count.0).ok())
        };
        let has = |name: &&String| gpus::is_gpu(name) && count(name, &shape.allocatable) > Some(0);
        let found: Vec<&String> = shape.allocatable.keys().filter(has).collect();
        let one = |resource: Option<&String>| -> Option<Self> {
            // No more than the pool lets a pod ask for.
            let most = resource.and_then(|name| count(name, &limits.max_resources));
            let bounded = |room: tuning::Resources| tuning::Resources {
                gpus: most
                    .and_then(|most| most.try_into().ok())
                    .map_or(room.gpus, |most| room.gpus.min(most)),
                ..room
            };
            let under_threshold = resources(free, resource);
            let mut labels = shape.labels.clone();
            if let Some(name) = resource {
                gpus::label_by_resource(&mut labels, name);
            }
            let shape = tuning::NodeShape {
                count: u32::try_from(shape.count).ok().filter(|count| *count > 0)?,
                allocatable: resources(&shape.allocatable, resource)
                    .filter(|room| room.cpu_millicores > 0 && room.memory_bytes > 0)
                    .map(bounded)?,
                largest_free: resources(&shape.largest_free, resource)
                    .map(|free| under_threshold.map_or(free, |room| smaller(free, room)))
                    .map(bounded),
                labels,
            };
            Some(Self { shape, gpu_resource: resource.cloned() })
        };
        if found.is_empty() {
            return one(None).into_iter().collect();
        }
        found.into_iter().filter_map(|name| one(Some(name))).collect()
    }

    /// Without GPUs, if a build of GROMACS can use none of them.
    pub(super) fn for_build(mut self, build: &tuning::Build) -> Self {
        if self.gpu_resource.as_deref().is_some_and(|resource| !gpus::is_used_by(resource, build)) {
            self.shape.allocatable.gpus = 0;
            self.shape.largest_free =
                self.shape.largest_free.map(|free| tuning::Resources { gpus: 0, ..free });
        }
        self
    }

    /// What is free on the one with the most.
    pub(super) fn free(&self) -> &tuning::Resources {
        self.largest_free.as_ref().unwrap_or(&self.allocatable)
    }
}

fn smaller(one: tuning::Resources, other: tuning::Resources) -> tuning::Resources {
    tuning::Resources {
        cpu_millicores: one.cpu_millicores.min(other.cpu_millicores),
        memory_bytes: one.memory_bytes.min(other.memory_bytes),
        // GPUs have thresholds only where the pool names one; a pool without GPUs lists none.
        gpus: one.gpus.min(other.gpus),
    }
}

/// Amounts, the GPUs being those of one resource.
fn resources(list: &BTreeMap<String, Quantity>, gpu_resource: Option<&String>) -> Option<tuning::Resources> {
    Some(tuning::Resources {
        cpu_millicores: quantity::parse_milli(&list.get("cpu")?.0).ok()?.try_into().ok()?,
        memory_bytes: quantity::parse_units(&list.get("memory")?.0).ok()?.try_into().ok()?,
        gpus: gpu_resource
            .and_then(|name| list.get(name))
            .and_then(|gpus| quantity::parse_units(&gpus.0).ok()?.try_into().ok())
            .unwrap_or(0),
    })
}
