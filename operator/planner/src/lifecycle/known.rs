//! Everything that the rules about one ScavengerJob may know.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use jiff::Timestamp;

use crate::{
    capacity::Capacity,
    facts::{evidence::Evidence, tracked::Memory, volumes::ClaimHold},
    values::{Disruption, Job, Key, Name, Pod, ScavengerJob, Settings},
};

/// Everything that is known of one ScavengerJob.
#[derive(Debug)]
pub struct Known<'a> {
    /// The ScavengerJob.
    pub sj: &'a ScavengerJob,
    /// Its Jobs by UID.
    pub jobs: &'a BTreeMap<Name, Arc<Job>>,
    /// UID of a Job that no watch showed yet, and when an answer showed it last.
    pub unwatched_job: Option<&'a (Name, Timestamp)>,
    /// Its pods by name.
    pub pods: &'a BTreeMap<Name, Arc<Pod>>,
    /// What the pods of the active attempt showed.
    pub evidence: &'a Evidence,
    /// What this planner remembers of what it did.
    pub memory: &'a Memory,
    /// True while capacity is reserved for what it asks for.
    pub has_reservation: bool,
    /// The node that was chosen for it; none while nothing is reserved, or where kube-scheduler chooses.
    pub chosen_node: Option<&'a Name>,
    /// The nodes on which capacity for its pods is promised, where its Job has to name them.
    pub promised_nodes: BTreeSet<&'a Name>,
    /// For which other ScavengerJob the capacity is reserved that it starts on, if it is lent.
    pub lent_by: Option<&'a Key>,
    /// Another ScavengerJob that works in the same folder, or is about to.
    pub folder_user: Option<&'a Key>,
    /// A node that is gone or not ready and to which one of its pods is bound that has not ended.
    pub lost_node: Option<&'a Name>,
    /// The nodes, and what is on them.
    pub(crate) capacity: &'a Capacity,
    /// Why it cannot start yet because of a claim that it mounts.
    pub claim_hold: Option<ClaimHold>,
    /// True if a container of it has started with the spec that it has: in an earlier attempt, or in this one. What keeps its
    /// containers from being created is then nothing that the spec names.
    pub has_run: bool,
    /// True if its containers cannot be started because of what it asks for, and not because of a node.
    pub is_to_blame: bool,
    /// Why starts in its namespace go without the supervisor now.
    pub supervisor_hold: Option<&'a str>,
    /// True if its supervisor reported something that its status does not tell yet.
    pub has_news: bool,
    /// True if the supervisor of the active attempt has reported to this planner.
    pub is_heard: bool,
    /// When this planner last wrote its status.
    pub written: Option<Timestamp>,
    /// Why the active attempt is to be interrupted, if a cause ordered it.
    pub order: Option<&'a Disruption>,
    /// Settings of the pool, or why nothing is admitted.
    pub settings: Result<&'a Settings, &'a str>,
    /// The time.
    pub now: Timestamp,
}

impl<'a> Known<'a> {
    /// A pod that has not ended.
    pub(crate) fn first_pod_left(&self) -> Option<&'a Pod> {
        self.pods.values().find(|pod| !pod.phase.is_terminal()).map(|pod| &**pod)
    }

    /// Names of a pod that has not ended and of its node, which is gone or not ready.
    pub(crate) fn pod_on_lost_node(&self) -> Option<(&'a Name, &'a Name)> {
        let node = self.lost_node?;
        let mut pods = self.pods.values().filter(|pod| !pod.phase.is_terminal());
        pods.find(|pod| pod.node.as_ref() == Some(node)).map(|pod| (&pod.key.name, node))
    }
}
