//! What a ScavengerJob may ask for.

use std::time::Duration;

use scavenger_schema::scavenger_pool::Limits;
use scavenger_schema::{bounds, tuning};

use crate::gpus;

/// What a ScavengerJob may ask for, as far as a row needs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolLimits {
    /// Shortest `interruptionAfter`.
    pub min_interruption_after: Duration,
    /// Longest `interruptionAfter`.
    pub max_interruption_after: Duration,
    /// Longest grace period, seconds.
    pub max_grace_seconds: i64,
    /// Most CPU, millicores.
    pub max_cpu_millicores: Option<u32>,
    /// Most memory, bytes.
    pub max_memory_bytes: Option<u64>,
    /// Most GPUs, of whatever resource has the highest limit. That of each resource bounds its nodes.
    pub max_gpus: Option<u32>,
}

impl PoolLimits {
    pub(super) fn new(limits: &Limits) -> Self {
        let most = |name: &str| limits.max_resources.get(name);
        Self {
            min_interruption_after: limits.min_interruption_after.into(),
            max_interruption_after: limits.max_interruption_after.into(),
            max_grace_seconds: limits.max_termination_grace_period_seconds,
            max_cpu_millicores: most("cpu").and_then(|cpu| cpu.milli().ok()?.try_into().ok()),
            max_memory_bytes: most("memory").and_then(|memory| memory.units().ok()?.try_into().ok()),
            max_gpus: limits
                .max_resources
                .iter()
                .filter(|(name, _)| gpus::is_gpu(name))
                .filter_map(|(_, most)| most.units().ok()?.try_into().ok())
                .max(),
        }
    }

    /// True if a ScavengerJob may ask for it.
    #[must_use]
    pub fn allow(&self, wanted: &tuning::Resources) -> bool {
        self.max_cpu_millicores.is_none_or(|most| wanted.cpu_millicores <= most)
            && self.max_memory_bytes.is_none_or(|most| wanted.memory_bytes <= most)
            && self.max_gpus.is_none_or(|most| wanted.gpus <= most)
    }

    /// What the user allows, and no more than the pool does, or than the tuner takes as a limit.
    #[must_use]
    pub fn bound(&self, limits: &tuning::Limits) -> tuning::Limits {
        fn least<T: Ord>(one: Option<T>, other: Option<T>) -> Option<T> {
            one.into_iter().chain(other).min()
        }
        tuning::Limits {
            max_cpu_millicores: least(limits.max_cpu_millicores, self.max_cpu_millicores)
                .map(|cpu| cpu.min(bounds::MAX_CPU_MILLICORES.max)),
            max_memory_bytes: least(limits.max_memory_bytes, self.max_memory_bytes)
                .map(|memory| memory.min(bounds::MAX_MEMORY_BYTES.max)),
            max_gpus: least(limits.max_gpus, self.max_gpus).map(|gpus| gpus.min(bounds::MAX_GPUS.max)),
            ..limits.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_lower_limit_counts() {
        let limits = json!({ "maxResources": { "cpu": "4", "memory": "1Gi" } });
        let limits = PoolLimits::new(&serde_json::from_value(limits).expect("should be limits"));
        assert_eq!(limits.max_grace_seconds, 60, "the default");
        let own =
            tuning::Limits { max_cpu_millicores: Some(8000), max_gpus: Some(1), ..tuning::Limits::default() };
        let bound = limits.bound(&own);
        assert_eq!(
            (bound.max_cpu_millicores, bound.max_memory_bytes, bound.max_gpus),
            (Some(4000), Some(1 << 30), Some(1))
        );
    }
}
