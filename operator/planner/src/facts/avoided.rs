//! The nodes that each ScavengerJob is kept off: for a while those on which it got next to no processor time, and those that leave
//! the pool before it could save.

use jiff::{SignedDuration, Timestamp};

use super::leaving::LeavingNodes;
use crate::{
    backoff::timed::{Rule, Timed},
    values::{Key, Name, ScavengerJob},
};

/// Which ScavengerJobs are kept off which nodes.
#[derive(Debug)]
pub(super) struct AvoidedNodes {
    /// Those that a ScavengerJob left since it was starved there. It is memory: a planner that is started again finds out again.
    left: Timed<Key, Vec<Name>>,
    /// Those that leave the pool.
    pub(super) leaving: LeavingNodes,
}

impl Default for AvoidedNodes {
    fn default() -> Self {
        let longest = SignedDuration::from_hours(8);
        let rule = Rule { first: SignedDuration::from_hours(1), longest, forgotten_after: Some(longest) };
        Self { left: Timed::new(rule), leaving: LeavingNodes::default() }
    }
}

impl AvoidedNodes {
    /// The nodes that a ScavengerJob is kept off.
    pub(super) fn of(&self, sj: &ScavengerJob) -> Vec<Name> {
        let mut avoided = self.left.get(&sj.key).map_or(Vec::new(), |pause| pause.why.clone());
        let leaving = self.leaving.avoided_by(sj);
        let leaving: Vec<Name> = leaving.filter(|node| !avoided.contains(node)).cloned().collect();
        avoided.extend(leaving);
        avoided
    }

    /// A ScavengerJob has left these nodes.
    pub(super) fn leave(&mut self, sj: &Key, nodes: Vec<Name>, now: Timestamp) {
        self.left.begin(sj.clone(), now, |_| nodes);
    }

    /// Those that may go back to nodes that they left.
    pub(super) fn take_over(&mut self, now: Timestamp) -> Vec<Key> {
        self.left.take_over(now).into_iter().collect()
    }

    /// When the next of them may.
    pub(super) fn wake_at(&self) -> Option<Timestamp> {
        self.left.wake_at()
    }

    /// A ScavengerJob is gone.
    pub(super) fn forget(&mut self, sj: &Key) {
        self.left.end(sj);
    }
}
