//! Everything that the rules about one ScavengerJob may know.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use jiff::Timestamp;

use crate::{
    Planner,
    capacity::Capacity,
    evidence::Evidence,
    memory::Memory,
    seen::{Attachments, Tracked},
    values::{Disruption, Job, Key, Name, Pod, ScavengerJob, Settings},
    volumes::ClaimHold,
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

impl Planner {
    /// True while neither the pool nor the cluster keeps a ScavengerJob from starting, but its user: it is suspended, or others
    /// work in its folder or with its volume. That is no time for which it has waited for capacity.
    pub(crate) fn is_held_back(&self, key: &Key) -> bool {
        let Some(sj) = self.seen.get(key).map(Tracked::sj) else { return false };
        let is_held = || self.folders.user_beside(key).is_some() || self.claim_hold(key).is_some();
        sj.status.active_attempt().is_none() && (sj.controls.suspend || is_held())
    }

    fn claim_hold(&self, key: &Key) -> Option<ClaimHold> {
        self.seen.claim_hold(key, self.promises.starting(), self.promises.is_made(key))
    }

    /// What is known of a ScavengerJob at `now`.
    pub(crate) fn known(&self, key: &Key, now: Timestamp) -> Option<Known<'_>> {
        let tracked = self.seen.get(key)?;
        let attachments = self.seen.attachments(key).unwrap_or(Attachments::none());
        let sj = tracked.sj();
        let alive = attachments.pods.values().filter(|pod| !pod.phase.is_terminal());
        let evidence = attachments.evidence(sj.status.attempt.as_deref());
        let runs = sj.status.active_attempt().is_some() && evidence.container_started;
        let has_run = runs || sj.has_run_as_specified();
        Some(Known {
            sj,
            jobs: &attachments.jobs,
            unwatched_job: attachments.unwatched_job.as_ref(),
            pods: &attachments.pods,
            evidence,
            memory: &tracked.memory,
            has_reservation: self.promises.is_made(key)
                && sj.ongoing_attempt().is_none()
                && sj.spec.as_ref().is_ok_and(|spec| tracked.promise.is_for(&spec.demand)),
            chosen_node: sj
                .spec
                .as_ref()
                .is_ok_and(|spec| self.capacity.chooses_node(&spec.demand))
                .then(|| self.promises.ledger().reserved_for(key).find_map(|(node, _)| node))
                .flatten(),
            promised_nodes: match self.capacity.are_too_many_closed() {
                true => self.promises.ledger().reserved_for(key).filter_map(|(node, _)| node).collect(),
                false => BTreeSet::new(),
            },
            lent_by: tracked.promise.lent_by(),
            folder_user: self.folders.user_beside(key),
            lost_node: alive.filter_map(|pod| pod.node.as_ref()).find(|node| !self.capacity.is_ready(node)),
            capacity: &self.capacity,
            claim_hold: self.claim_hold(key),
            has_run,
            is_to_blame: !has_run
                && self.start_failures.blames(&sj.uid, |node| {
                    let placement = sj.spec.as_ref().map(|spec| &spec.demand.placement);
                    // One that is cordoned, closed or not ready may be its node later.
                    let mut others = self.capacity.all_pool_nodes().filter(|other| other.name != *node);
                    !others.any(|other| placement.is_ok_and(|placement| placement.admits_when_ready(other)))
                }),
            supervisor_hold: self.supervisors.hold(&key.namespace, now),
            has_news: tracked.has_news(),
            is_heard: tracked.is_heard(),
            written: tracked.reported.time,
            order: tracked.ordered(),
            settings: self.settings.as_ref().map_err(String::as_str),
            now,
        })
    }
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
