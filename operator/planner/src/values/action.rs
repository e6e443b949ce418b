//! Values in and out: what was seen, what is to be done, which of it goes next while more waits than is carried out at the same
//! time, and what became of it. Nothing is left to choose for those who carry it out.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::{
    Access, Attempt, ByUse, Confinement, Counted, Job, Key, KillReport, LiveReport, Name, Node, Pod,
    PodUsage, Reason, RememberedUse, RuntimeClass, ScavengerJob, ScavengerJobStatus, Settings, Stretch,
    Supervisor, Usage, Volume,
};

pub use scavenger_vocabulary::Event;

/// One thing to do about one ScavengerJob. There is at most one under way for each ScavengerJob.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Action {
    /// The ScavengerJob.
    pub sj: Key,
    /// Its UID: the action is void if another object has the name by now.
    pub uid: Name,
    /// What is to be done.
    pub task: Task,
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Task {
    /// Read the ScavengerJob in this version or a newer one, add the finalizer if it is missing, list live the pods of
    /// every ScavengerJob that had or has its name, and look whether what the spec refers to exists. Answered with
    /// [`Answer::Prepared`].
    Prepare {
        /// Version that was judged. The newest one is not asked for: whatever was read, Starting is written only if it
        /// still is the newest.
        resource_version: u64,
    },
    /// Write the status if the ScavengerJob still has this version. Answered with [`Answer::ScavengerJob`].
    WriteStatus(Box<StatusWrite>),
    /// Create the batch/v1 Job of an attempt; the Job of this attempt counts as made if it is there already, whatever pool
    /// or version of the operator it was made for. Answered with [`Answer::Job`].
    CreateJob {
        /// Number of the attempt.
        attempt: u32,
        /// Index of its PriorityClass.
        priority_class: u32,
        /// What the pool adds to where its pods may go.
        confinement: Box<Confinement>,
        /// The program under which the workload runs, if it runs under one.
        #[serde(default)]
        supervisor: Option<Box<Supervisor>>,
        /// How its pods are made if their capacity is counted by use.
        #[serde(default)]
        by_use: Option<ByUse>,
    },
    /// Read a Job live. Answered with [`Answer::Job`], or [`Answer::JobGone`] if no Job of that name has this
    /// UID.
    ReadJob {
        /// Its namespace and name.
        job: Key,
        /// Its UID.
        uid: Name,
    },
    /// Look live for the Job of an attempt whose pods are left, by its name. Answered with [`Answer::Job`], or
    /// [`Answer::NoJob`] if there is none of that name that is this ScavengerJob's.
    LookForJob {
        /// Number of the attempt.
        attempt: u32,
    },
    /// List the ScavengerJob's pods live. Answered with [`Answer::Pods`].
    ListPods {
        /// Child Job (and its UID) whose events tell why it has no pods.
        job: Option<(Key, Name)>,
    },
    /// Read the newest event of each of these pods (with their UIDs). Answered with [`Answer::PodEvents`].
    ReadPodEvents {
        /// The pods.
        pods: Vec<(Key, Name)>,
    },
    /// Delete a Job in the foreground, if it still has this UID. Answered with [`Answer::Deleted`].
    DeleteJob {
        /// Its namespace and name.
        job: Key,
        /// Its UID.
        uid: Name,
    },
    /// Evict pods that still have these UIDs; where a PodDisruptionBudget or admission stands against that, mark them
    /// with condition DisruptionTarget and delete them. Answered with [`Answer::Interrupted`].
    Interrupt {
        /// Key and UID of each pod.
        pods: Vec<(Key, Name)>,
    },
    /// Delete pods that still have these UIDs and are being deleted, with their own grace period, which is shorter than the
    /// one that somebody gave them. Answered with [`Answer::DeletedAgain`].
    DeleteAgain {
        /// Key, UID and grace period of each pod.
        pods: Vec<(Key, Name, SignedDuration)>,
    },
    /// Delete the ScavengerJob itself, if it still has this version. Answered with [`Answer::ScavengerJobDeleted`].
    DeleteScavengerJob {
        /// Version that was judged.
        resource_version: u64,
    },
    /// Take the finalizer off if a live list shows no pod that has not ended. Answered with [`Answer::Released`].
    RemoveFinalizer {
        /// The ScavengerJob with its last attempt as that ended, if no status says, or will say, what it was worth: it is
        /// counted when the finalizer is off.
        last: Option<Box<ScavengerJob>>,
    },
}

impl Task {
    /// The deletion of a Job.
    #[must_use]
    pub fn delete(job: &Job) -> Self {
        Self::DeleteJob { job: job.key.clone(), uid: job.uid.clone() }
    }
}

/// A status to be written.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StatusWrite {
    /// Version of the ScavengerJob that was judged.
    pub resource_version: u64,
    /// The new status.
    pub status: ScavengerJobStatus,
    /// An attempt that ended and goes into the history, in the place of what is there of the same number.
    pub ended: Option<Attempt>,
    /// Event to be published once the write succeeded.
    pub event: Option<Event>,
}

impl StatusWrite {
    /// True if it puts an interruption on record that the operator decided.
    #[must_use]
    pub fn orders_interruption(&self) -> bool {
        let disruption = self.status.active_attempt().and_then(|attempt| attempt.disruption.as_ref());
        disruption.is_some_and(|disruption| disruption.reason.is_operators_decision())
    }
}

/// An interruption that a plan ordered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ordered {
    /// The ScavengerJob.
    pub sj: Key,
    /// The cause.
    pub reason: Reason,
    /// The cause as a message.
    pub message: String,
}

/// What became of an action.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ActionResult {
    /// The ScavengerJob.
    pub sj: Key,
    /// Its UID when the action was planned.
    pub uid: Name,
    /// When the answer came.
    pub time: Timestamp,
    /// The answer, or why there is none.
    pub answer: Result<Answer, Failure>,
}

/// A successful answer.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Answer {
    /// The ScavengerJob is ready to start, or what is in the way.
    Prepared {
        /// The ScavengerJob with its finalizer.
        sj: Box<ScavengerJob>,
        /// Pods that have not ended, of it or of an earlier ScavengerJob of its name.
        pods_left: u32,
        /// A pod of another ScavengerJob that has not ended and works in the same folder.
        folder_pod: Option<Name>,
        /// What the spec names and does not exist: kind and name.
        missing: Vec<(String, String)>,
        /// The claims that it mounts and that have no volume yet, and how many will be able to mount that at a time.
        claims: Vec<(Name, Access)>,
    },
    /// The ScavengerJob as written.
    ScavengerJob(Box<ScavengerJob>),
    /// The Job as it is now.
    Job(Box<Job>),
    /// There is no such Job any more.
    JobGone {
        /// Its UID.
        uid: Name,
    },
    /// No Job of this attempt exists.
    NoJob {
        /// Number of the attempt.
        attempt: u32,
    },
    /// All pods of the ScavengerJob as they are now.
    Pods {
        /// The pods.
        pods: Vec<Pod>,
        /// Version of the list: a pod that was last seen before it and is not in it is gone.
        resource_version: u64,
        /// Why the Job controller could not create pods, if it says so.
        create_failure: Option<String>,
    },
    /// The pods that were asked about, each with its newest event if it has one.
    PodEvents(Vec<(Name, Option<PodEvent>)>),
    /// The ScavengerJob is being deleted.
    ScavengerJobDeleted,
    /// The Job is being deleted or gone.
    Deleted {
        /// UID of the Job.
        uid: Name,
    },
    /// These pods are being deleted or gone.
    Interrupted {
        /// Their UIDs.
        pods: Vec<Name>,
    },
    /// These pods have no longer grace period than their own.
    DeletedAgain {
        /// Their UIDs.
        pods: Vec<Name>,
    },
    /// The finalizer is off, or pods are left.
    Released {
        /// Pods that have not ended.
        pods_left: u32,
    },
}

/// The newest event of a pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodEvent {
    /// True for type Warning.
    pub warning: bool,
    /// Reason, for example FailedMount or Pulling.
    pub reason: String,
    /// Message.
    pub message: String,
    /// The container that it is about, unless that is the main one.
    #[serde(default)]
    pub other_container: Option<Name>,
}

/// Why an action was not carried out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum Failure {
    /// The object changed since it was seen: look again.
    #[error("the object changed meanwhile")]
    Conflict,
    /// The object is gone.
    #[error("the object is gone")]
    Gone,
    /// A Job of that name exists and is not ours.
    #[error("{0}")]
    NameTaken(String),
    /// The API server will never take this object.
    #[error("{0}")]
    Refused(String),
    /// A quota is used up.
    #[error("{0}")]
    QuotaExceeded(String),
    /// Anything that may pass: to be tried again later.
    #[error("{0}")]
    Transient(String),
}

/// One thing that was seen, or that became of an action.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Observation {
    /// A ScavengerJob is there, in this version.
    ScavengerJob(Box<ScavengerJob>),
    /// A ScavengerJob is gone.
    ScavengerJobGone(Key),
    /// Attempts of a ScavengerJob with this UID that ended before the one that its status speaks of, as far as its status
    /// still has them. It is needed once, by a planner that begins.
    EndedAttempts(Key, Name, Vec<Stretch>),
    /// A namespace is there, with these labels.
    Namespace(Name, BTreeMap<Name, Name>),
    /// A namespace is gone.
    NamespaceGone(Name),
    /// The same of namespaces as of volumes.
    NamespacesKnown(bool),
    /// A Job is there, in this version.
    Job(Job),
    /// A Job is gone: its namespace, its ScavengerJob's UID, and its own.
    JobGone {
        /// Namespace of the Job.
        namespace: Name,
        /// UID of the ScavengerJob.
        owner: Name,
        /// UID of the Job.
        uid: Name,
    },
    /// A pod is there, in this version.
    Pod(Box<Pod>),
    /// A pod is gone.
    PodGone(Key),
    /// The pod watch lists all pods again: versions seen before and after have no order.
    PodsRelisted,
    /// A node is there, in this version.
    Node(Node),
    /// A node is gone.
    NodeGone(Name),
    /// A PersistentVolume is there, in this version.
    Volume(Volume),
    /// A PersistentVolume is gone.
    VolumeGone(Name),
    /// True once all PersistentVolumes were listed, and before anybody says otherwise; false while that fails.
    VolumesKnown(bool),
    /// A RuntimeClass is there, in this version.
    RuntimeClass(RuntimeClass),
    /// A RuntimeClass is gone.
    RuntimeClassGone(Name),
    /// The same of RuntimeClasses as of volumes.
    RuntimeClassesKnown(bool),
    /// How much cpu and memory nodes really use; none if that was asked and not answered.
    Usage(Option<Vec<Usage>>),
    /// Nobody measures what nodes and pods use.
    UsageNotServed,
    /// What pods of ScavengerJobs really use.
    PodUsage(Vec<PodUsage>),
    /// What the planner before this one learned of the use of nodes.
    RememberedUse(Box<RememberedUse>),
    /// The supervisor of a pod reports.
    Report(LiveReport),
    /// The agent of a node says why a container was killed for memory.
    Kill(KillReport),
    /// The nodes whose agent is live.
    NodeAgents(BTreeSet<Name>),
    /// The pool's settings, or why nothing can be admitted.
    Pool(Box<Result<Settings, String>>),
    /// What the pool's status says that tenants used; none if it does not.
    Counted(Option<Box<Counted>>),
    /// An action was carried out, or was not.
    Done(ActionResult),
}

/// How urgent a task is, most urgent first. Each step of a start goes before the one ahead of it, so that those that
/// began are through before others begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Urgency {
    /// Somebody waits for the capacity.
    Stops,
    /// The end of an attempt: it gives capacity back.
    Ends,
    /// The Job of an attempt.
    Creates,
    /// An attempt begins, or is said to run.
    Writes,
    /// What must be known before something is done.
    Reads,
    /// News for people.
    Tells,
}

impl Urgency {
    /// That of a task.
    #[must_use]
    pub fn of(task: &Task) -> Self {
        match task {
            Task::Interrupt { .. } | Task::DeleteAgain { .. } | Task::DeleteJob { .. } => Self::Stops,
            // The order to interrupt: the pods are evicted only after it is on record.
            Task::WriteStatus(write) if write.orders_interruption() => Self::Stops,
            // Without an event it only adds what was found out about an attempt that ended before.
            Task::WriteStatus(write) if write.ended.is_some() && write.event.is_some() => Self::Ends,
            Task::CreateJob { .. } => Self::Creates,
            Task::WriteStatus(write) if write.status.phase.is_active() => Self::Writes,
            Task::Prepare { .. }
            | Task::ReadJob { .. }
            | Task::LookForJob { .. }
            | Task::ListPods { .. }
            | Task::ReadPodEvents { .. }
            | Task::DeleteScavengerJob { .. }
            | Task::RemoveFinalizer { .. } => Self::Reads,
            Task::WriteStatus(_) => Self::Tells,
        }
    }
}

/// So many that came later does an action let past for each degree by which it is less urgent than they are. No action
/// waits without end: while one waits nothing else can be done about its ScavengerJob, not even what is most urgent.
const LET_PAST: u64 = 256;

/// Actions that wait for one of those under way to end.
#[derive(Debug, Default)]
pub struct Line {
    /// By their turn, and by when they came.
    actions: BTreeMap<(u64, u64), Action>,
    joined: u64,
}

impl Line {
    /// An action joins the line.
    pub fn join(&mut self, action: Action) {
        self.joined += 1;
        let turn = match Urgency::of(&action.task) {
            // Somebody waits for the capacity, however many others came before.
            Urgency::Stops => 0,
            urgency => self.joined + LET_PAST * (urgency as u64),
        };
        self.actions.insert((turn, self.joined), action);
    }

    /// True while an action waits.
    #[must_use]
    pub fn waits(&self) -> bool {
        !self.actions.is_empty()
    }

    /// Takes the action that goes next.
    pub fn take(&mut self) -> Option<Action> {
        self.actions.pop_first().map(|(_, action)| action)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::Key;

    fn action(name: &str, task: Task) -> Action {
        Action { sj: Key::new("lab", name), uid: name.into(), task }
    }

    fn creates() -> Action {
        let task = Task::CreateJob {
            attempt: 1,
            priority_class: 0,
            confinement: Box::default(),
            supervisor: None,
            by_use: None,
        };
        action("creates", task)
    }

    fn names(mut line: Line) -> Vec<String> {
        std::iter::from_fn(|| line.take()).map(|action| action.sj.name.to_string()).collect()
    }

    #[test]
    fn what_frees_room_goes_before_what_takes_it() {
        let mut line = Line::default();
        line.join(action("prepares", Task::Prepare { resource_version: 1 }));
        line.join(creates());
        line.join(action("prepares too", Task::Prepare { resource_version: 1 }));
        line.join(action("stops", Task::Interrupt { pods: Vec::new() }));
        assert_eq!(names(line), ["stops", "creates", "prepares", "prepares too"]);
    }

    #[test]
    fn no_action_waits_without_end() {
        let mut line = Line::default();
        line.join(action("prepares", Task::Prepare { resource_version: 1 }));
        for _ in 0..10 * LET_PAST {
            line.join(creates());
        }
        let before = names(line).iter().position(|name| name == "prepares");
        assert!(before.is_some_and(|before| before as u64 <= 2 * LET_PAST), "{before:?} went before it");
    }
}
