//! What supervisors report while their workloads run.
//!
//! A report is for one pod of the active attempt. Its checkpoint is taken to be between the start of the attempt and now, and
//! never goes back. Of a gang the pod counts that the spec names ([`Rank`]). A report changes the
//! expected loss of its own ScavengerJob alone, between nothing and that of a run of `interruptionAfter`: one that tells of
//! no checkpoint changes nothing, and one that tells of an old checkpoint does not change what a newer one said.
//!
//! What is reported changes the planner's own view of the status ([`Tracked::sj`](crate::facts::seen::Tracked::sj)), so every rule
//! and every write of the status sees it. It is stored with the next write, or when the budget for information allows
//! ([`crate::report::inform`]). A planner that is started again knows what was stored, until the next report.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::values::{LiveReport, Name, Rank, ScavengerJob};

/// What the pods of one attempt reported.
#[derive(Debug, Default)]
pub(crate) struct Live {
    attempt: u32,
    pods: BTreeMap<Name, Reported>,
    /// The last checkpoint and the progress as they are stored, before what was reported is laid over them.
    stored: (Option<Timestamp>, Option<f64>),
    /// When the newest report came.
    heard: Option<Timestamp>,
}

#[derive(Debug, Clone, Copy)]
struct Reported {
    index: Option<u32>,
    checkpoint: Option<Timestamp>,
    progress: Option<f64>,
}

impl Live {
    /// Takes in what a pod of the active attempt reports.
    pub(crate) fn note(
        &mut self,
        sj: &ScavengerJob,
        index: Option<u32>,
        report: &LiveReport,
        now: Timestamp,
    ) {
        let attempt = sj.status.attempt.as_ref().map_or(0, |attempt| attempt.number);
        if self.attempt != attempt || self.heard.is_none() {
            let stored = (sj.status.last_checkpoint, sj.status.progress);
            *self = Self { attempt, stored, ..Self::default() };
        }
        self.heard = Some(now);
        let checkpoint = report.checkpoint.map(|checkpoint| checkpoint.min(now));
        let progress = report.progress.filter(|progress| (0.0..=1.0).contains(progress));
        let known = self.pods.entry(report.pod.name.clone()).or_insert(Reported {
            index,
            checkpoint: None,
            progress: None,
        });
        known.index = index;
        known.checkpoint = known.checkpoint.max(checkpoint);
        known.progress = progress.or(known.progress);
    }

    /// A new version of the ScavengerJob is stored. What is under way stays reported.
    pub(crate) fn rebase(&mut self, sj: &mut ScavengerJob) {
        if self.heard.is_some() {
            self.stored = (sj.status.last_checkpoint, sj.status.progress);
            self.overlay(sj);
        }
    }

    /// Lays what was reported over the status of the ScavengerJob.
    pub(crate) fn overlay(&self, sj: &mut ScavengerJob) {
        let Some(attempt) = sj.status.active_attempt().filter(|attempt| attempt.number == self.attempt)
        else {
            return;
        };
        let rank = sj.spec.as_ref().map_or(Rank::Oldest, |spec| spec.supervision.rank);
        let pods = usize::try_from(attempt.demand.pod_count).unwrap_or(usize::MAX);
        if let (Some(start), Some(checkpoint)) = (attempt.start_time, self.checkpoint(rank, pods)) {
            sj.status.last_checkpoint = self.stored.0.max(Some(checkpoint.max(start)));
        }
        let counted = self.pods.values().filter(|pod| rank.counts(pod.index));
        let progress = counted.filter_map(|pod| pod.progress).reduce(f64::min);
        sj.status.progress = progress.or(self.stored.1);
    }

    /// The checkpoint that counts: that of one pod, or the oldest once every pod has one.
    fn checkpoint(&self, rank: Rank, pods: usize) -> Option<Timestamp> {
        let counted = || self.pods.values().filter(|pod| rank.counts(pod.index));
        if rank == Rank::Oldest && counted().filter(|pod| pod.checkpoint.is_some()).count() < pods {
            return None;
        }
        counted().filter_map(|pod| pod.checkpoint).min()
    }

    /// True if a pod of the active attempt has reported.
    pub(crate) fn is_heard(&self, sj: &ScavengerJob) -> bool {
        self.heard.is_some() && sj.status.active_attempt().is_some_and(|active| active.number == self.attempt)
    }

    /// True if something was reported that is not stored. Stored stamps have whole seconds.
    pub(crate) fn has_news(&self, sj: &ScavengerJob) -> bool {
        let second = |time: Option<Timestamp>| time.map(Timestamp::as_second);
        self.heard.is_some()
            && (second(sj.status.last_checkpoint) > second(self.stored.0)
                || sj.status.progress != self.stored.1)
    }
}
