//! Ordinary containers that were killed for memory, on nodes whose agent may yet say why.
//!
//! The agent is asked when a kill is seen, and answers within a second. Until then the kill is not judged: a container that
//! reached its own limit is no harm, and what is interrupted for it would be interrupted for nothing.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::values::{Key, KillCause, KillReport, Name, Pod, later};

/// The kills whose cause may yet be heard of, one for each pod: its newest.
#[derive(Debug, Default)]
pub(super) struct Kills(BTreeMap<Key, Awaited>);

/// A kill that is to be judged.
#[derive(Debug)]
pub(super) struct Awaited {
    pub(super) pod: Box<Pod>,
    /// Whether ScavengerJobs were on the node when it was seen.
    pub(super) is_shared: bool,
    until: Timestamp,
}

impl Kills {
    /// True if the newest kill of a pod is not to be judged yet. To be asked where the agent of its node is live.
    pub(super) fn awaits(&mut self, pod: &Pod, is_shared: bool, now: Timestamp) -> bool {
        let recent = pod.out_of_memory.filter(|time| KillReport::is_recent(*time, now));
        let Some(time) = recent else { return false };
        let until = later(now, KillCause::ANSWERED_WITHIN);
        let first = || Awaited { pod: Box::new(pod.clone()), is_shared, until };
        let awaited = self.0.entry(pod.key.clone()).or_insert_with(first);
        awaited.is_shared |= is_shared;
        // A container that is killed again and again is judged as soon as one that is killed once.
        if awaited.pod.out_of_memory != Some(time) {
            (*awaited.pod).clone_from(pod);
        }
        true
    }

    /// The kill that an answer is about; none if it came too late, or is about an earlier one.
    pub(super) fn explained(&mut self, kill: &KillReport) -> Option<Awaited> {
        let is_meant =
            |awaited: &Awaited| awaited.pod.uid == kill.uid && awaited.pod.out_of_memory == Some(kill.time);
        self.0.get(&kill.pod).filter(|awaited| is_meant(awaited))?;
        self.0.remove(&kill.pod)
    }

    /// The kill of a pod that is gone.
    pub(super) fn take(&mut self, pod: &Key) -> Option<Awaited> {
        self.0.remove(pod)
    }

    /// The kills of which nobody has said in time why.
    pub(super) fn take_unexplained(&mut self, now: Timestamp) -> Vec<Awaited> {
        let over = self.0.extract_if(.., |_, awaited| awaited.until <= now);
        over.map(|(_, awaited)| awaited).collect()
    }

    /// Those on a node that is gone are of no interest.
    pub(super) fn forget_node(&mut self, node: &Name) {
        self.0.retain(|_, awaited| awaited.pod.node.as_ref() != Some(node));
    }

    /// When the first of them is judged without an answer.
    pub(super) fn wake_at(&self) -> Option<Timestamp> {
        self.0.values().map(|awaited| awaited.until).min()
    }
}
