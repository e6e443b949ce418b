//! Everything that the rules about one ScavengerJob may know, and what they answer: values, which nobody but
//! [`crate::lifecycle::transition`] turns into a status.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use jiff::Timestamp;

use crate::{
    backoff::start_failures::Doubt,
    capacity::Capacity,
    facts::{evidence::Evidence, runtime_classes::Class, tracked::Memory, volumes::ClaimWait},
    values::{
        CheckpointRequest, Disruption, Ending, Job, Key, Measured, Name, ObservedSaves, Outcome, Pod, Reason,
        ScavengerJob, Settings, Waiting, WaitingReason, action::Task,
    },
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
    /// Another ScavengerJob that works in the same folder, or is about to.
    pub folder_user: Option<&'a Key>,
    /// A node that is gone or not ready and to which one of its pods is bound that has not ended.
    pub lost_node: Option<&'a Name>,
    /// The nodes, and what is on them.
    pub(crate) capacity: &'a Capacity,
    /// Why it cannot start yet because of a claim that it mounts.
    pub claim_wait: Option<ClaimWait>,
    /// Its tenant, if that is paused.
    pub paused_tenant: Option<&'a Name>,
    /// False while it is not written down yet what its last attempt held.
    pub is_counted: bool,
    /// What is known of its RuntimeClass; none if it names none.
    pub runtime_class: Option<Class<'a>>,
    /// True if a container of it has started with the spec that it has: in an earlier attempt, or in this one. What keeps its
    /// containers from being created is then nothing that the spec names.
    pub has_run: bool,
    /// True if its containers cannot be started because of what it asks for, and not because of a node.
    pub is_to_blame: bool,
    /// What speaks against the node on which a pod of its start waits.
    pub doubt: Doubt,
    /// Why starts in its namespace go without the supervisor now.
    pub no_supervisor: Option<&'a str>,
    /// True if its supervisor reported something that its status does not tell yet.
    pub has_news: bool,
    /// True if the supervisor of the active attempt has reported to this planner.
    pub is_heard: bool,
    /// Since when it is to have saved, since a node that one of its pods is on leaves the pool.
    pub saves_from: Option<Timestamp>,
    /// The nodes whose agent is live.
    pub node_agents: &'a BTreeSet<Name>,
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
    pub(super) fn first_pod_left(&self) -> Option<&'a Pod> {
        self.pods.values().find(|pod| !pod.phase.is_terminal()).map(|pod| &**pod)
    }

    /// Names of a pod that has not ended and of its node, which is gone or not ready.
    pub(super) fn pod_on_lost_node(&self) -> Option<(&'a Name, &'a Name)> {
        let node = self.lost_node?;
        let mut pods = self.pods.values().filter(|pod| !pod.phase.is_terminal());
        pods.find(|pod| pod.node.as_ref() == Some(node)).map(|pod| (&pod.key.name, node))
    }
}

/// What is to be done about one ScavengerJob.
#[derive(Debug, Clone, PartialEq)]
pub enum Next {
    /// Something that leaves its status as it is.
    Do(Task),
    /// A change of its status.
    Change(Transition),
    /// A change of its status that only informs: it waits for its turn in the budget of such writes. Whatever comes first,
    /// it is looked at again at this time.
    Inform(Transition, Option<Timestamp>),
    /// Nothing until something is seen, or until this time.
    Wait(Option<Timestamp>),
    /// The supervisors of its pods ask for a checkpoint; it is looked at again at this time.
    Ask(CheckpointRequest, Timestamp),
    /// It may start as soon as there is capacity for it.
    Candidate,
    /// It waits for another reason than capacity; to be reported if its status does not say so yet.
    NotReady(Waiting, Option<Timestamp>),
    /// The capacity that is reserved for it is of no use now: give it back and look again at this time.
    GiveBack(Waiting, Timestamp),
}

/// One step in the life of a ScavengerJob, as its status tells it.
#[derive(Debug, Clone, PartialEq)]
pub enum Transition {
    /// An attempt starts: the status says so before the Job is created.
    Start,
    /// All pods of the attempt run, or have run.
    Run {
        /// UID of its Job.
        job_uid: Name,
    },
    /// The active attempt is to be interrupted: the reason is on record before its pods are evicted.
    OrderInterruption(Disruption),
    /// The attempt ended: what that makes of the ScavengerJob follows from the outcome.
    End(Ending),
    /// The attempt was taken away after a container had started.
    Interrupt(Ending, Waiting),
    /// The attempt ended because not all of its pods could start.
    Withdraw(Ending, Waiting),
    /// The ScavengerJob is completed, or failed.
    Finish(Ending),
    /// What the supervisor reported is put on record.
    Report,
    /// What was found out about the work of the last attempt is put on record.
    Measure(Measured, Option<ObservedSaves>),
    /// What holds its deletion.
    ExplainDeletion(String),
    /// A spec that changes nothing was seen.
    Observe,
}

impl Transition {
    /// A start that did not come off for a reason for which the ScavengerJob waits.
    pub fn withdraw(reason: WaitingReason, message: String) -> Self {
        let ending = Ending::new(Outcome::Withdrawn, Reason::from(reason), message.clone());
        Self::Withdraw(ending, Waiting { reason, message })
    }

    /// A start that failed for a reason that may pass and is not the workload's own; it is tried again after a delay.
    pub fn give_up(reason: Reason, message: String) -> Self {
        let waiting = Waiting { reason: WaitingReason::BackingOff, message: message.clone() };
        Self::Withdraw(Ending::new(Outcome::Withdrawn, reason, message), waiting)
    }

    /// The ScavengerJob failed.
    pub fn fail(reason: Reason, message: String) -> Self {
        Self::Finish(Ending::failed(reason, message))
    }
}
