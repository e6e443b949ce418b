//! Phases, outcomes, reasons for waiting, and events.

use serde::{Deserialize, Serialize};

words! {
    /// Where a ScavengerJob is in its life.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
    pub enum Phase {
        /// It has not run yet, and waits. Also what is not seen before.
        #[default]
        Waiting,
        /// An attempt was made; not all of its pods run yet.
        Starting,
        /// All pods of the attempt run.
        Running,
        /// It was interrupted and waits for its next attempt.
        Interrupted,
        /// The workload succeeded.
        Completed,
        /// The workload failed, or cannot run at all.
        Failed,
    }
}

impl Phase {
    /// True while there is an attempt.
    #[must_use]
    pub const fn is_active(self) -> bool {
        match self {
            Self::Starting | Self::Running => true,
            Self::Waiting | Self::Interrupted | Self::Completed | Self::Failed => false,
        }
    }

    /// True once there is no further attempt.
    #[must_use]
    pub const fn is_finished(self) -> bool {
        match self {
            Self::Completed | Self::Failed => true,
            Self::Waiting | Self::Starting | Self::Running | Self::Interrupted => false,
        }
    }
}

words! {
    /// How an attempt ended.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
    pub enum Outcome {
        /// The workload succeeded.
        Completed,
        /// The workload failed on its own.
        Failed,
        /// It was taken away from outside after a container had started.
        Interrupted,
        /// It ended because not all of its pods could start; this is no interruption.
        Withdrawn,
    }
}

words! {
    /// Why a ScavengerJob waits (condition Admitted is False).
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    pub enum WaitingReason {
        /// Its request exceeds what the pool could give even if nothing else ran.
        NeverFits,
        /// There is not enough capacity below the threshold, or on any node, right now.
        NoCapacity,
        /// The scheduler found no node for a pod within the pool's `pendingTimeout`.
        Unscheduled,
        /// ScavengerJobs that come first in the queue take the capacity or the free slot for starting.
        BehindInQueue,
        /// It waits out a delay after an interruption or a failed start.
        BackingOff,
        /// The pool admits nothing (no pool, a bad one, or one that is paused or drained), or its tenant is paused.
        Paused,
        /// The quota of its namespace is used up: its own start was refused, or that of another which asks for no more.
        QuotaExceeded,
        /// Its tenant holds as much of the pool as its `maxShare` allows.
        TenantLimit,
        /// The API server refuses its Job or its pods: an admission policy or webhook, a LimitRange, Pod Security. Its
        /// own start was refused, or all that were tried in its namespace. Or its RuntimeClass is not there, or not
        /// allowed by the pool.
        Refused,
        /// Its namespace is being terminated and takes no new objects.
        NamespaceTerminating,
        /// `spec.suspend` holds it.
        Suspended,
        /// Another ScavengerJob works in the same folder (label `scavenger.dev/folder`).
        FolderInUse,
        /// A claim that it mounts has no volume yet: the scheduler places no pod that mounts it.
        VolumeUnbound,
        /// Somebody else mounts a volume that only one node or one pod can mount.
        VolumeInUse,
        /// The volume of a claim that it mounts is not known: the operator cannot list PersistentVolumes.
        VolumeUnknown,
        /// A pod of its last attempt is on a node that is gone or not ready; two attempts must never run at once.
        NodeUnreachable,
    }
}

words! {
    /// How the cpu and memory of a node are counted for ScavengerJobs.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
    pub enum Accounting {
        /// By what pods request, as kube-scheduler does.
        #[default]
        Requests,
        /// By what ordinary pods really use: capacity that is reserved but not used is free.
        Usage,
    }
}

words! {
    /// Reason of an event that the operator publishes on a ScavengerJob: one for the start of an attempt, and one for its
    /// end. The message is the status message.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    pub enum Event {
        /// An attempt starts. Also the reason of the condition Admitted while it is True.
        Started,
        /// The attempt was taken away.
        Interrupted,
        /// The attempt was withdrawn because it could not start.
        Withdrawn,
        /// The workload succeeded.
        Completed,
        /// The ScavengerJob failed.
        Failed,
    }
}

words! {
    /// Why an attempt runs under the supervisor or without it: reason of the condition Supervised.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    pub enum Supervision {
        /// The supervisor is process 1 of its containers.
        Supervised,
        /// The spec names no command: the operator cannot know the image's ENTRYPOINT.
        NoCommand,
        /// The spec switches it off, or the pool does by default.
        SwitchedOff,
        /// The pool has no supervisor.
        NotInPool,
        /// It could not be started a moment ago: its image cannot be pulled, or the node does not run it.
        NotStarted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_written_as_its_name_and_read_back() {
        fn check<T>(all: &[T], name: fn(T) -> &'static str, from_name: fn(&str) -> Option<T>)
        where
            T: Copy + std::fmt::Debug + PartialEq + Serialize + serde::de::DeserializeOwned,
        {
            for word in all {
                assert_eq!(from_name(name(*word)), Some(*word));
                let json = serde_json::to_value(word).unwrap();
                assert_eq!(json, name(*word));
                assert_eq!(serde_json::from_value::<T>(json).unwrap(), *word);
            }
            assert_eq!(from_name("Other"), None);
        }
        check(&Phase::ALL, Phase::name, Phase::from_name);
        check(&Outcome::ALL, Outcome::name, Outcome::from_name);
        check(&WaitingReason::ALL, WaitingReason::name, WaitingReason::from_name);
        check(&Event::ALL, Event::name, Event::from_name);
        check(&Supervision::ALL, Supervision::name, Supervision::from_name);
        check(&Accounting::ALL, Accounting::name, Accounting::from_name);
    }

    #[test]
    fn a_phase_is_active_or_finished_or_neither() {
        let of =
            |is: fn(Phase) -> bool| Phase::ALL.into_iter().filter(|phase| is(*phase)).collect::<Vec<_>>();
        assert_eq!(of(Phase::is_active), [Phase::Starting, Phase::Running]);
        assert_eq!(of(Phase::is_finished), [Phase::Completed, Phase::Failed]);
        assert_eq!(Phase::default(), Phase::Waiting);
    }
}
