//! Condition types and reasons, each spelled once.

/// Condition types of a ScavengerJob.
pub mod condition {
    /// True while an attempt exists; False carries the reason why the ScavengerJob waits.
    pub const ADMITTED: &str = "Admitted";
    /// True once the workload ended with success.
    pub const COMPLETE: &str = "Complete";
    /// True once the ScavengerJob failed for good.
    pub const FAILED: &str = "Failed";
}

/// Condition types of a ScavengerPool.
pub mod pool_condition {
    /// True while ScavengerJobs are admitted.
    pub const READY: &str = "Ready";
    /// True while pods wait for which nothing is interrupted, since not all of their constraints can be judged.
    pub const UNJUDGED_PODS: &str = "UnjudgedPods";
    /// False while only pressure conditions of nodes are seen, not the memory that is really used.
    pub const MEMORY_MEASURED: &str = "MemoryMeasured";
}

/// Why a ScavengerJob waits (`Admitted`=False).
pub mod waiting {
    /// Its request exceeds what the pool could give even if nothing else ran.
    pub const NEVER_FITS: &str = "NeverFits";
    /// There is not enough room under the threshold, or on any node, right now.
    pub const NO_ROOM: &str = "NoRoom";
    /// The scheduler found no place for a pod within the pool's `pendingTimeout`.
    pub const UNSCHEDULED: &str = "Unscheduled";
    /// Others that come first in the queue take the room or the free slot for starting.
    pub const BEHIND_IN_QUEUE: &str = "BehindInQueue";
    /// It waits out a delay after an interruption or a failed start.
    pub const BACKING_OFF: &str = "BackingOff";
    /// The pool admits nothing (no pool, a bad one, or one that is paused or drained).
    pub const PAUSED: &str = "Paused";
    /// Its quota is used up.
    pub const QUOTA_EXCEEDED: &str = "QuotaExceeded";
    /// `spec.suspend` holds it.
    pub const SUSPENDED: &str = "Suspended";
    /// A pod of its last attempt is on a node that is gone or not ready; two attempts must never run at once.
    pub const NODE_UNREACHABLE: &str = "NodeUnreachable";
}

/// Why an attempt was interrupted.
pub mod interruption {
    /// kube-scheduler preempted a pod for one of higher priority.
    pub const PREEMPTION_BY_SCHEDULER: &str = "PreemptionByScheduler";
    /// The eviction API was used (kubectl drain, the operator itself).
    pub const EVICTION_BY_EVICTION_API: &str = "EvictionByEvictionAPI";
    /// A pod or the Job was deleted from outside.
    pub const DELETED: &str = "Deleted";
    /// The node failed under the pod, or refused it.
    pub const NODE_FAILURE: &str = "NodeFailure";
    /// The operator: the pool's resources were used beyond `interruptThreshold`.
    pub const HEADROOM: &str = "Headroom";
    /// The operator: a pending ordinary pod needed the room (preemption mode Operator).
    pub const PREEMPTED_BY_OPERATOR: &str = "PreemptedByOperator";
    /// The operator: the pool is being drained.
    pub const DRAINED: &str = "Drained";
    /// The operator: the node reports a pressure condition, or was measured to use too much memory.
    pub const NODE_PRESSURE: &str = "NodePressure";
    /// Reason of the condition DisruptionTarget with which the operator marks a pod that a PodDisruptionBudget keeps
    /// from being evicted, before it deletes it.
    pub const INTERRUPTED_BY_SCAVENGER: &str = "InterruptedByScavenger";
    /// The pods ended without saying whether the workload or the cluster ended them; one more attempt is made, and a
    /// second end of this kind in a row fails the ScavengerJob.
    pub const UNKNOWN: &str = "Unknown";
    /// `spec.suspend` was set.
    pub const SUSPENDED: &str = "Suspended";
}

/// Why a ScavengerJob failed.
pub mod failure {
    /// A container ended by itself with an exit code other than 0.
    pub const CONTAINER_FAILED: &str = "ContainerFailed";
    /// A container used more memory than its limit.
    pub const OOM_KILLED: &str = "OOMKilled";
    /// The kubelet evicted the pod for exceeding a limit of its own.
    pub const LIMIT_EXCEEDED: &str = "LimitExceeded";
    /// A PersistentVolumeClaim, ConfigMap or service account that the spec names does not exist.
    pub const REFERENCE_MISSING: &str = "ReferenceMissing";
    /// The kubelet could not create the container (image, Secret, ConfigMap, command) within `startDeadline`.
    pub const CONTAINER_NOT_CREATED: &str = "ContainerNotCreated";
    /// It ran for as long as `spec.activeDeadlineSeconds` allows.
    pub const DEADLINE_EXCEEDED: &str = "DeadlineExceeded";
    /// The API server refuses the Job or its pods (Pod Security, LimitRange, ...).
    pub const REFUSED: &str = "Refused";
    /// A Job of the attempt's name exists that is not the operator's.
    pub const NAME_TAKEN: &str = "NameTaken";
    /// The spec holds something that only the operator could find wrong.
    pub const INVALID_SPEC: &str = "InvalidSpec";
}

/// Reasons of the events that the operator publishes on a ScavengerJob.
pub mod event {
    /// An attempt was created.
    pub const STARTED: &str = "Started";
    /// All pods of the attempt run.
    pub const RUNNING: &str = "Running";
    /// The attempt was taken away.
    pub const INTERRUPTED: &str = "Interrupted";
    /// The attempt was withdrawn because the scheduler had no place for it.
    pub const WITHDRAWN: &str = "Withdrawn";
    /// The workload ended with success.
    pub const COMPLETED: &str = "Completed";
    /// The ScavengerJob failed.
    pub const FAILED: &str = "Failed";
}
