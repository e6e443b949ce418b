//! How a node stands: what it counts for, whether ScavengerJobs may be added to it, and up to where it may be filled. That is
//! decided in one function, [`NodeState::of`]; everything else asks for it.

use super::own::OwnLimit;
use crate::values::{Node, Settings};

/// See the module. The default is that of a node that is gone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct NodeState {
    /// True if it belongs to the pool whenever it is ready: it counts in what can ever fit.
    pub(super) eligible: bool,
    /// True if it belongs to the pool now: ordinary pods can go there, so it counts in the sums of the pool, whether it takes
    /// ScavengerJobs or not.
    pub(super) in_pool: bool,
    /// Whether ScavengerJobs may be added to it.
    pub(super) takes: Takes,
    /// True if a new pod of a ScavengerJob must not go there, although kube-scheduler might choose it.
    pub(super) is_to_avoid: bool,
    /// Up to where it may be filled, if that is its own.
    pub(super) limit: Option<Box<OwnLimit>>,
}

/// Whether ScavengerJobs may be added to a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Takes {
    /// They may.
    Open,
    /// They may not.
    Closed(Why),
}

/// Why no ScavengerJob may be added to a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Why {
    /// It is gone, or does not belong to the pool.
    Outside,
    /// It takes no pods: it is cordoned, not ready or under pressure.
    Unusable,
    /// It is closed to ScavengerJobs alone ([`Closed`]).
    Closed,
}

/// Why a node is closed to ScavengerJobs for now, although other pods go there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Closed {
    /// Its memory is short, or was not measured for too long.
    Memory,
    /// Containers could not be started there; the message says which.
    Starts(String),
}

impl Default for Takes {
    fn default() -> Self {
        Self::Closed(Why::Outside)
    }
}

impl NodeState {
    /// That of a node in a pool with these settings, which may be closed to ScavengerJobs.
    pub(super) fn of(node: &Node, settings: Option<&Settings>, is_closed: bool) -> Self {
        let Some(settings) = settings.filter(|settings| settings.include(node)) else {
            return Self::default();
        };
        Self {
            eligible: true,
            in_pool: node.usable,
            takes: match (node.usable, is_closed) {
                (true, false) => Takes::Open,
                (true, true) => Takes::Closed(Why::Closed),
                (false, _) => Takes::Closed(Why::Unusable),
            },
            // One that is not ready or cordoned has a taint that keeps pods away: however many of them are closed as well, no
            // Job names them. The taint of memory pressure keeps no pod away where an admission plugin lets pods with requests
            // tolerate it.
            is_to_avoid: is_closed && (node.usable || node.ready && node.pressure.is_some()),
            limit: OwnLimit::of(node, settings),
        }
    }

    /// True if ScavengerJobs may be added to it.
    pub(super) fn is_open(&self) -> bool {
        self.takes == Takes::Open
    }
}
