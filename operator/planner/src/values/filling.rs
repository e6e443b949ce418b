//! How far ScavengerJobs fill the pool, or a part of it, at a time.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{
    Name,
    resources::{CPU, MEMORY, PODS, Share, Thresholds},
};

/// How far ScavengerJobs fill the pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Filling {
    /// Up to where they start.
    pub start_thresholds: Thresholds,
    /// When they go before anybody asks for what they hold.
    pub headroom: Headroom,
}

/// When ScavengerJobs go so that others find capacity at once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Headroom {
    /// For cpu, memory and pods: above this share ScavengerJobs go; never if none. A share of 1 is never passed by
    /// what kube-scheduler places.
    pub interrupt_threshold: Option<Share>,
    /// For single resources. Extended resources that are not named here have none: they come in whole units.
    pub interrupt_threshold_overrides: BTreeMap<Name, Share>,
    /// Down to this share.
    pub target: Share,
    /// For single resources.
    pub target_overrides: BTreeMap<Name, Share>,
}

impl Headroom {
    /// Above which share of a resource ScavengerJobs go. All of it is none: also where pods ask for more than their node
    /// has left, which a node that shrank can bring about.
    pub(crate) fn threshold(&self, resource: &str) -> Option<Share> {
        let default = self.interrupt_threshold.filter(|_| matches!(resource, CPU | MEMORY | PODS));
        let named = self.interrupt_threshold_overrides.get(resource).copied();
        named.or(default).filter(|share| *share < Share::from_fraction(1.0))
    }

    /// Down to which share of a resource they go.
    pub(crate) fn target(&self, resource: &str) -> Share {
        self.target_overrides.get(resource).copied().unwrap_or(self.target)
    }
}
