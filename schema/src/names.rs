//! Names that more than one place must spell the same way.

/// API group of ScavengerJobs and ScavengerPools, and prefix of labels and annotations.
pub const GROUP: &str = "scavenger.dev";

/// The one ScavengerPool that is read for now.
pub const DEFAULT_POOL: &str = "default";

/// Label on a Job and its pods: name of the ScavengerJob they belong to.
pub const LABEL_JOB: &str = "scavenger.dev/job";

/// Label on a Job and its pods: UID of the ScavengerJob. A ScavengerJob that was deleted and made again under
/// the same name has another UID, so pods of the old one are never taken for pods of the new one.
pub const LABEL_JOB_UID: &str = "scavenger.dev/job-uid";

/// Label on a ScavengerJob, and on the Jobs and pods that the operator makes of it: the folder that it works in. No two
/// ScavengerJobs of a namespace with the same value work at the same time. Any value will do; the submitter writes a
/// hash of claim, subPath and folder.
pub const LABEL_FOLDER: &str = "scavenger.dev/folder";

/// Annotation on a ScavengerJob that its submitter has suspended for a moment, to go on with another configuration. It is
/// set together with `spec.suspend` and goes with it; without it the suspension is a person's.
pub const ANNOTATION_SUSPENDED_TO_GROW: &str = "scavenger.dev/suspended-to-grow";

/// Annotation with which an admin closes a node to ScavengerJobs. The value says why.
pub const ANNOTATION_CLOSED: &str = "scavenger.dev/closed";

/// Annotation with which an admin says until when a node is in the pool, as a time of RFC 3339.
pub const ANNOTATION_UNTIL: &str = "scavenger.dev/until";

/// Label on a Job and its pods: number of the attempt, counted from 1.
pub const LABEL_ATTEMPT: &str = "scavenger.dev/attempt";

/// Label on a pod: how its capacity is counted, if that is not by its requests.
pub const LABEL_ACCOUNTING: &str = "scavenger.dev/accounting";

/// Finalizer on a ScavengerJob: holds its name until its pods are gone.
pub const FINALIZER: &str = "scavenger.dev/pods-gone";

/// Field manager and event source of the operator.
pub const OPERATOR: &str = "scavenger-operator";

/// Who frees capacity while no operator works, as it names itself.
pub const GUARD: &str = "scavenger-guard";

/// Service account of the agents of nodes, and the usual name of their namespace.
pub const NODE_AGENT: &str = "scavenger-node-agent";

/// ConfigMap in the operator's namespace: what is known of the use of nodes (accounting Usage).
pub const NODE_USE: &str = "scavenger-node-use";

/// Field manager of the submitter.
pub const SUBMITTER: &str = "gromacs-submitter";

/// Number of PriorityClasses `scavenger-0` to `scavenger-9`.
pub const PRIORITY_CLASSES: u32 = 10;

/// Name of the Job that runs attempt `number` of ScavengerJob `sj`.
///
/// ```
/// assert_eq!(scavenger_schema::names::job("water", 3), "water-3");
/// ```
#[must_use]
pub fn job(sj: &str, number: u32) -> String {
    format!("{sj}-{number}")
}

/// PriorityClass of an attempt, by how often its ScavengerJob was interrupted before: the more often, the
/// higher the class, up to `scavenger-9`.
///
/// ```
/// assert_eq!(scavenger_schema::names::priority_class(0), "scavenger-0");
/// assert_eq!(scavenger_schema::names::priority_class(42), "scavenger-9");
/// ```
#[must_use]
pub fn priority_class(interruptions: u32) -> String {
    format!("scavenger-{}", interruptions.min(PRIORITY_CLASSES - 1))
}

/// True for the PriorityClasses of ScavengerJobs.
///
/// ```
/// assert!(scavenger_schema::names::is_priority_class("scavenger-0"));
/// assert!(!scavenger_schema::names::is_priority_class("scavenger-10"));
/// ```
#[must_use]
pub fn is_priority_class(name: &str) -> bool {
    name.strip_prefix("scavenger-")
        .is_some_and(|rank| rank.len() == 1 && rank.bytes().all(|digit| digit.is_ascii_digit()))
}

/// Names of the variables that every pod of a ScavengerJob gets.
pub mod env {
    /// Number of pods of the ScavengerJob.
    pub const POD_COUNT: &str = "SCAVENGER_POD_COUNT";
    /// Host name of a pod of the attempt, with `{index}` in place of its index; `localhost` for a single pod.
    pub const HOST_TEMPLATE: &str = "SCAVENGER_HOST_TEMPLATE";
    /// Host names of all pods of the attempt in index order, separated by commas; only for 64 pods at most.
    pub const HOSTS: &str = "SCAVENGER_HOSTS";
    /// Number of the attempt, counted from 1.
    pub const ATTEMPT: &str = "SCAVENGER_ATTEMPT";
}
