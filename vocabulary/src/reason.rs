//! Why an attempt was interrupted or ended, or why a ScavengerJob failed.

use std::{fmt, sync::Arc};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::WaitingReason;

macro_rules! reasons {
    ($($(#[$meta:meta])* $variant:ident,)+) => {
        /// Why an attempt was interrupted or ended, or why a ScavengerJob failed: one word.
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Reason {
            $($(#[$meta])* $variant,)+
            /// A word of Kubernetes that is not known here.
            Other(Arc<str>),
        }

        impl Reason {
            /// Every known reason.
            pub const ALL: [Self; [$(stringify!($variant)),+].len()] = [$(Self::$variant),+];

            /// The name, as it is written everywhere.
            #[must_use]
            pub fn name(&self) -> &str {
                match self {
                    $(Self::$variant => stringify!($variant),)+
                    Self::Other(word) => word,
                }
            }

            /// The one of this name; [`Reason::Other`] if it is not known.
            #[must_use]
            pub fn from_name(name: &str) -> Self {
                match name {
                    $(stringify!($variant) => Self::$variant,)+
                    other => Self::Other(other.into()),
                }
            }
        }
    };
}

reasons! {
    /// The workload succeeded.
    Completed,

    /// A container ended on its own with an exit code other than 0.
    ContainerFailed,
    /// A container used more memory than its limit.
    OOMKilled,
    /// The kubelet evicted the pod because it exceeded a limit of its own.
    LimitExceeded,
    /// A PersistentVolumeClaim, ConfigMap or service account that the spec names does not exist.
    ReferenceMissing,
    /// The kubelet could not create the container (image, Secret, ConfigMap, command) within `startDeadline`.
    ContainerNotCreated,
    /// It ran for as long as `spec.activeDeadlineSeconds` allows.
    DeadlineExceeded,
    /// Withdrawn: the API server refuses the Job or its pods (Pod Security, LimitRange, an admission policy or webhook). The
    /// ScavengerJob fails once each start was refused for `refusalGrace`.
    Refused,
    /// A Job of the attempt's name exists that is not the operator's.
    NameTaken,
    /// The spec holds something that only the operator could find wrong.
    InvalidSpec,

    /// The operator: more of the pool is used than `interruptThreshold` allows.
    Headroom,
    /// The operator: a pending ordinary pod needed the capacity (preemption mode Operator).
    PreemptedByOperator,
    /// The operator: the pool is being drained.
    Drained,
    /// The operator: the node reports a pressure condition, or was measured to use too much memory.
    NodePressure,
    /// The operator: ordinary pods really use so much memory of the node that too little is left for the ScavengerJobs there
    /// (accounting Usage).
    NodeMemoryShort,
    /// The operator: the same of cpu, for longer than `usage.linger`.
    NodeCPUShort,
    /// The operator: nobody has measured for long what the node uses (accounting Usage).
    NodeNotMeasured,
    /// The operator: an ordinary container was killed, or an ordinary pod evicted, because the node had no memory left. What was
    /// started there by what is used ends (accounting Usage).
    OrdinaryPodKilled,
    /// The operator: the node does not belong to the pool any more, or leaves it at a time that an admin has announced.
    NodeLeftPool,
    /// The operator: for an hour the attempt got next to none of the processor time that it could use, and there is another node
    /// for it.
    Starved,
    /// `spec.suspend` was set.
    Suspended,

    /// A pod or the Job was deleted from outside.
    Deleted,
    /// The node failed under the pod, or refused it.
    NodeFailure,
    /// A container was killed for memory although it used less than its limit: the node had none left.
    NodeOutOfMemory,
    /// The pods ended without saying whether the workload or the cluster ended them. One more attempt is made. A second
    /// end of this kind in a row fails the ScavengerJob.
    Unknown,

    /// Reason of a pod's condition DisruptionTarget: kube-scheduler preempted the pod for one of higher priority.
    PreemptionByScheduler,
    /// Reason of a pod's condition DisruptionTarget: the eviction API was used (kubectl drain, the operator itself).
    EvictionByEvictionAPI,
    /// Reason of a pod's condition DisruptionTarget: the pod does not tolerate a taint of its node.
    DeletionByTaintManager,
    /// Reason of a pod's condition DisruptionTarget: the node is gone.
    DeletionByPodGC,
    /// Reason of a pod's condition DisruptionTarget: the kubelet ended the pod (node pressure, shutdown of the node).
    TerminationByKubelet,
    /// Reason of the condition DisruptionTarget that the operator sets on a pod before it deletes it, where a
    /// PodDisruptionBudget, or an admission webhook or policy, keeps the pod from being evicted.
    InterruptedByScavenger,
    /// The Job controller saw the condition DisruptionTarget; its reason is not known, since the pod is gone.
    DisruptionTarget,

    /// Withdrawn: the scheduler found no node for a pod within the pool's `pendingTimeout`.
    Unscheduled,
    /// Withdrawn: a claim that it mounts has no volume yet.
    VolumeUnbound,
    /// Withdrawn: the quota of the namespace is used up.
    QuotaExceeded,
    /// Withdrawn: the namespace is being terminated and takes no new objects.
    NamespaceTerminating,
    /// Withdrawn: the supervisor's image cannot be pulled, or its program cannot be run on the node. The next attempt starts
    /// without it.
    SupervisorNotStarted,
}

impl Reason {
    /// True if an interruption for this reason can advance a ScavengerJob in the queue and raise its PriorityClass: those
    /// by the scheduler, the eviction API, the taint manager, a node that fails or the operator. Otherwise users could buy a
    /// higher rank by deleting their own pods. Nor does pressure on a node count, which a pod can bring about that fills the
    /// node's disk or starts many processes, nor the kill of an ordinary pod, which may be their own. An interruption for an
    /// unknown reason does not count either. They may evict their own pods, too: an eviction counts
    /// only where the planner knows that it was not their doing.
    #[must_use]
    pub fn advances_in_queue(&self) -> bool {
        match self {
            // What it reported itself decided that.
            Self::Starved => false,
            Self::Deleted | Self::Unknown | Self::Suspended => false,
            // Its own pods may have put the node under pressure, or been killed on purpose.
            Self::NodePressure
            | Self::TerminationByKubelet
            | Self::NodeOutOfMemory
            | Self::OrdinaryPodKilled => false,
            Self::Completed
            | Self::ContainerFailed
            | Self::OOMKilled
            | Self::LimitExceeded
            | Self::ReferenceMissing
            | Self::ContainerNotCreated
            | Self::DeadlineExceeded
            | Self::Refused
            | Self::NameTaken
            | Self::InvalidSpec
            | Self::Headroom
            | Self::PreemptedByOperator
            | Self::Drained
            | Self::NodeMemoryShort
            | Self::NodeCPUShort
            | Self::NodeNotMeasured
            | Self::NodeLeftPool
            | Self::NodeFailure
            | Self::PreemptionByScheduler
            | Self::EvictionByEvictionAPI
            | Self::DeletionByTaintManager
            | Self::DeletionByPodGC
            | Self::InterruptedByScavenger
            | Self::DisruptionTarget
            | Self::Unscheduled
            | Self::VolumeUnbound
            | Self::QuotaExceeded
            | Self::NamespaceTerminating
            | Self::SupervisorNotStarted
            | Self::Other(_) => true,
        }
    }

    /// True if the containers of an attempt that was interrupted for this reason got SIGTERM before they were killed. A
    /// node that fails, or that is gone when the garbage collector finds its pods, sends no signal. Most pods that the
    /// taint manager deletes are on nodes that do not answer. Of an unknown reason the worst is assumed.
    #[must_use]
    pub fn got_sigterm(&self) -> bool {
        match self {
            Self::DeletionByPodGC
            | Self::DeletionByTaintManager
            | Self::NodeFailure
            | Self::NodeOutOfMemory
            | Self::Unknown => false,
            Self::Completed
            | Self::ContainerFailed
            | Self::OOMKilled
            | Self::LimitExceeded
            | Self::ReferenceMissing
            | Self::ContainerNotCreated
            | Self::DeadlineExceeded
            | Self::Refused
            | Self::NameTaken
            | Self::InvalidSpec
            | Self::Headroom
            | Self::PreemptedByOperator
            | Self::Drained
            | Self::NodePressure
            | Self::NodeMemoryShort
            | Self::NodeCPUShort
            | Self::NodeNotMeasured
            | Self::OrdinaryPodKilled
            | Self::NodeLeftPool
            | Self::Starved
            | Self::Suspended
            | Self::Deleted
            | Self::PreemptionByScheduler
            | Self::EvictionByEvictionAPI
            | Self::TerminationByKubelet
            | Self::InterruptedByScavenger
            | Self::DisruptionTarget
            | Self::Unscheduled
            | Self::VolumeUnbound
            | Self::QuotaExceeded
            | Self::NamespaceTerminating
            | Self::SupervisorNotStarted
            | Self::Other(_) => true,
        }
    }

    /// True if the Job of an attempt that ended for this reason ends on its own. Such a Job can stay, so that its log can
    /// be read.
    #[must_use]
    pub fn job_ends_on_its_own(&self) -> bool {
        match self {
            Self::Completed
            | Self::ContainerFailed
            | Self::OOMKilled
            | Self::LimitExceeded
            | Self::NodeOutOfMemory
            | Self::Unknown => true,
            Self::ReferenceMissing
            | Self::ContainerNotCreated
            | Self::DeadlineExceeded
            | Self::Refused
            | Self::NameTaken
            | Self::InvalidSpec
            | Self::Headroom
            | Self::PreemptedByOperator
            | Self::Drained
            | Self::NodePressure
            | Self::NodeMemoryShort
            | Self::NodeCPUShort
            | Self::NodeNotMeasured
            | Self::OrdinaryPodKilled
            | Self::NodeLeftPool
            | Self::Starved
            | Self::Suspended
            | Self::Deleted
            | Self::NodeFailure
            | Self::PreemptionByScheduler
            | Self::EvictionByEvictionAPI
            | Self::DeletionByTaintManager
            | Self::DeletionByPodGC
            | Self::TerminationByKubelet
            | Self::InterruptedByScavenger
            | Self::DisruptionTarget
            | Self::Unscheduled
            | Self::VolumeUnbound
            | Self::QuotaExceeded
            | Self::NamespaceTerminating
            | Self::SupervisorNotStarted
            | Self::Other(_) => false,
        }
    }

    /// True if the operator decided on an interruption for this reason. The pods may not show it yet.
    #[must_use]
    pub fn is_operators_decision(&self) -> bool {
        match self {
            Self::Headroom
            | Self::PreemptedByOperator
            | Self::Drained
            | Self::NodePressure
            | Self::NodeMemoryShort
            | Self::NodeCPUShort
            | Self::NodeNotMeasured
            | Self::OrdinaryPodKilled
            | Self::NodeLeftPool
            | Self::Starved => true,
            Self::Completed
            | Self::ContainerFailed
            | Self::OOMKilled
            | Self::LimitExceeded
            | Self::ReferenceMissing
            | Self::ContainerNotCreated
            | Self::DeadlineExceeded
            | Self::Refused
            | Self::NameTaken
            | Self::InvalidSpec
            | Self::Suspended
            | Self::Deleted
            | Self::NodeFailure
            | Self::NodeOutOfMemory
            | Self::Unknown
            | Self::PreemptionByScheduler
            | Self::EvictionByEvictionAPI
            | Self::DeletionByTaintManager
            | Self::DeletionByPodGC
            | Self::TerminationByKubelet
            | Self::InterruptedByScavenger
            | Self::DisruptionTarget
            | Self::Unscheduled
            | Self::VolumeUnbound
            | Self::QuotaExceeded
            | Self::NamespaceTerminating
            | Self::SupervisorNotStarted
            | Self::Other(_) => false,
        }
    }

    /// True if budgets of the pool can delay an interruption for this reason: no ordinary pod waits for the capacity, and no node
    /// has hardly anything left.
    #[must_use]
    pub fn is_planned(&self) -> bool {
        matches!(
            self,
            Self::Headroom
                | Self::NodeMemoryShort
                | Self::NodeCPUShort
                | Self::NodeNotMeasured
                | Self::NodeLeftPool
        )
    }

    /// True if the operator plans an interruption for this reason, and nobody waits for the capacity meanwhile: there is time
    /// for one more checkpoint.
    #[must_use]
    pub fn leaves_time(&self) -> bool {
        matches!(
            self,
            Self::Headroom
                | Self::Drained
                | Self::NodeLeftPool
                | Self::Starved
                | Self::NodeCPUShort
                | Self::NodeNotMeasured
        )
    }
}

/// An attempt is withdrawn for the reason for which the ScavengerJob waits from then on.
impl From<WaitingReason> for Reason {
    fn from(reason: WaitingReason) -> Self {
        Self::from_name(reason.name())
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

impl Serialize for Reason {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for Reason {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self::from_name(&String::deserialize(deserializer)?))
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for Reason {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        String::schema_name()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        String::json_schema(generator)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_written_as_its_name_and_read_back() {
        for reason in
            Reason::ALL.into_iter().chain([Reason::Other("Foreign".into()), Reason::Other("".into())])
        {
            assert_eq!(Reason::from_name(reason.name()), reason);
            let json = serde_json::to_value(&reason).unwrap();
            assert_eq!(json, reason.name());
            assert_eq!(serde_json::from_value::<Reason>(json).unwrap(), reason);
        }
        assert_eq!(Reason::OOMKilled.to_string(), "OOMKilled");
    }

    #[test]
    fn a_withdrawn_attempt_has_the_reason_for_waiting() {
        for reason in WaitingReason::ALL {
            assert_eq!(Reason::from(reason).name(), reason.name());
        }
        assert_eq!(Reason::from(WaitingReason::Unscheduled), Reason::Unscheduled);
        assert_eq!(Reason::from(WaitingReason::QuotaExceeded), Reason::QuotaExceeded);
        assert_eq!(Reason::from(WaitingReason::Suspended), Reason::Suspended);
    }

    #[test]
    fn predicates_hold_for_these_reasons() {
        use Reason::{
            Completed, ContainerFailed, Deleted, DeletionByPodGC, DeletionByTaintManager, Drained, Headroom,
            LimitExceeded, NodeCPUShort, NodeFailure, NodeLeftPool, NodeMemoryShort, NodeNotMeasured,
            NodeOutOfMemory, NodePressure, OOMKilled, OrdinaryPodKilled, PreemptedByOperator, Starved,
            Suspended, TerminationByKubelet, Unknown,
        };
        let of = |is: &dyn Fn(&Reason) -> bool| Reason::ALL.into_iter().filter(is).collect::<Vec<_>>();
        assert_eq!(
            of(&|reason| !reason.advances_in_queue()),
            [
                NodePressure,
                OrdinaryPodKilled,
                Starved,
                Suspended,
                Deleted,
                NodeOutOfMemory,
                Unknown,
                TerminationByKubelet
            ]
        );
        assert_eq!(
            of(&|reason| !reason.got_sigterm()),
            [NodeFailure, NodeOutOfMemory, Unknown, DeletionByTaintManager, DeletionByPodGC]
        );
        assert_eq!(
            of(&Reason::job_ends_on_its_own),
            [Completed, ContainerFailed, OOMKilled, LimitExceeded, NodeOutOfMemory, Unknown]
        );
        assert_eq!(
            of(&Reason::is_operators_decision),
            [
                Headroom,
                PreemptedByOperator,
                Drained,
                NodePressure,
                NodeMemoryShort,
                NodeCPUShort,
                NodeNotMeasured,
                OrdinaryPodKilled,
                NodeLeftPool,
                Starved
            ]
        );
        assert_eq!(
            of(&Reason::leaves_time),
            [Headroom, Drained, NodeCPUShort, NodeNotMeasured, NodeLeftPool, Starved]
        );
        assert_eq!(
            of(&Reason::is_planned),
            [Headroom, NodeMemoryShort, NodeCPUShort, NodeNotMeasured, NodeLeftPool]
        );
        let foreign = Reason::Other("Foreign".into());
        assert!(foreign.advances_in_queue() && foreign.got_sigterm());
        assert!(!foreign.job_ends_on_its_own() && !foreign.is_operators_decision());
    }
}
