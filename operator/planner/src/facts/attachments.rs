//! The Jobs and pods of one ScavengerJob, and what they showed.

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;

use super::evidence::Evidence;
use crate::values::{Attempt, Job, Name, Pod};

/// Jobs and pods of one ScavengerJob; they may be seen before it.
#[derive(Debug, Default)]
pub(crate) struct Attachments {
    pub(crate) jobs: BTreeMap<Name, Arc<Job>>,
    pub(crate) pods: BTreeMap<Name, Arc<Pod>>,
    pub(super) evidence: BTreeMap<u32, Box<Evidence>>,
    /// UID of the Job that was last seen to go: a late answer must not bring it back.
    pub(super) gone_job: Option<Name>,
    /// UID of a Job that an answer showed and the watch did not yet, and when. If it goes in a gap of the watch,
    /// nobody will ever say so.
    pub(crate) unwatched_job: Option<(Name, Timestamp)>,
}

impl Attachments {
    /// Those of a ScavengerJob that has none.
    pub(crate) fn none() -> &'static Self {
        static NONE: Attachments = Attachments {
            jobs: BTreeMap::new(),
            pods: BTreeMap::new(),
            evidence: BTreeMap::new(),
            gone_job: None,
            unwatched_job: None,
        };
        &NONE
    }

    /// Pods that hold capacity on a node, and which node.
    pub(crate) fn bound(&self) -> impl Iterator<Item = (&Name, &Pod)> {
        let alive = self.pods.values().filter(|pod| !pod.phase.is_terminal());
        alive.filter_map(|pod| Some((pod.node.as_ref()?, &**pod)))
    }

    /// True if no pod is left that has not ended.
    pub(crate) fn all_ended(&self) -> bool {
        self.pods.values().all(|pod| pod.phase.is_terminal())
    }

    /// What the pods of an attempt showed.
    pub(crate) fn evidence(&self, attempt: Option<&Attempt>) -> &Evidence {
        let evidence = attempt.and_then(|attempt| self.evidence.get(&attempt.number));
        evidence.map_or(Evidence::none(), |evidence| evidence)
    }

    /// True if only answers showed this Job so far.
    pub(super) fn is_unwatched(&self, job: &Name) -> bool {
        self.unwatched_job.as_ref().is_some_and(|(uid, _)| uid == job)
    }
}
