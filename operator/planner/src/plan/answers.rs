//! How the answers of actions enter the view: what an action found out or changed, and what it means that it failed.

use jiff::{SignedDuration, Timestamp};

use super::Planner;
use crate::{
    facts::{
        seen::owner,
        tracked::{CreateFailure, NoJob, Prepared},
    },
    faults::refusal,
    values::{
        Key, Name, Phase, Pod, ScavengerJob,
        action::{ActionResult, Answer, Failure},
    },
};

/// Longest time between two reads of a Job that count as one finding.
const NO_JOB_COUNTS: SignedDuration = SignedDuration::from_secs(60);

impl Planner {
    pub(super) fn done(&mut self, result: ActionResult) {
        let ActionResult { sj: key, uid, time, answer } = result;
        let Some(tracked) = self.seen.get_mut(&key).filter(|tracked| tracked.sj().uid == uid) else {
            return;
        };
        tracked.turn.answered();
        self.agenda.add(key.clone());
        match answer {
            Ok(answer) => {
                tracked.turn.succeeded();
                self.answered(&key, &uid, answer, time);
            }
            Err(failure) => self.failed(&key, failure, time),
        }
    }

    fn answered(&mut self, key: &Key, uid: &Name, answer: Answer, time: Timestamp) {
        match answer {
            Answer::Prepared { sj, pods_left, folder_pod, missing, claims } => {
                self.see_claims(&key.namespace, claims);
                self.prepared(key, *sj, Prepared { pods_left, folder_pod, missing }, time);
            }
            Answer::ScavengerJob(sj) => self.written(key, *sj, time),
            Answer::Job(job) => {
                let key = self.seen.answer_job(*job, time);
                self.agenda.add_all(key.iter());
            }
            Answer::Deleted { uid: job } => {
                if self.seen.job_deleted(&owner(uid, key), &job) {
                    // Maybe it was gone already. If it is not, its pods still hold the next attempt.
                    self.seen.remove_job(&owner(uid, key), &job);
                }
            }
            Answer::NoJob { attempt } => {
                let Some(tracked) = self.seen.get_mut(key) else { return };
                let before = tracked.memory.no_job.filter(|before| before.attempt == attempt);
                // Reads that are far apart say nothing together: there may have been a Job between them.
                let before = before.filter(|before| time.duration_since(before.last) <= NO_JOB_COUNTS);
                let first = before.map_or(time, |before| before.first);
                tracked.memory.no_job = Some(NoJob { attempt, first, last: time });
            }
            Answer::JobGone { uid: job } => _ = self.seen.remove_job(&owner(uid, key), &job),
            Answer::Pods { pods, resource_version, create_failure } => {
                self.listed(key, uid, pods, resource_version, create_failure, time);
            }
            Answer::ScavengerJobDeleted => self.seen.set_deleting(key),
            Answer::Released { pods_left: 0 } => self.seen.set_released(key),
            Answer::Interrupted { .. }
            | Answer::DeletedAgain { .. }
            | Answer::PodEvents(_)
            | Answer::Released { .. } => {
                let Some(tracked) = self.seen.get_mut(key) else { return };
                match answer {
                    Answer::Interrupted { pods } => {
                        tracked.memory.evicted.extend(pods.into_iter().map(|pod| (pod, time)));
                    }
                    Answer::DeletedAgain { pods } => tracked.memory.deleted_again.extend(pods),
                    Answer::PodEvents(events) => tracked.memory.pod_events = Some((time, events)),
                    // The watch does not show the pods yet that are left.
                    _ => tracked.turn.pause_until(time + SignedDuration::from_secs(2)),
                }
            }
        }
    }

    /// A ScavengerJob that is to start was read live, with what is in its way.
    fn prepared(&mut self, key: &Key, sj: ScavengerJob, prepared: Prepared, time: Timestamp) {
        let generation = sj.generation;
        let is_written = sj.status.active_attempt().is_some();
        self.see_sj(sj);
        if self.promises.settle_doubt(key, is_written) {
            return;
        }
        let tracked = self.seen.get_mut(key).filter(|tracked| tracked.sj().generation == generation);
        let Some(tracked) = tracked else { return };
        if prepared.missing.is_empty() {
            tracked.memory.missing_since = None;
            tracked.memory.given_back = None;
        } else {
            tracked.memory.missing_since.get_or_insert(time);
        }
        tracked.memory.prepared = Some(prepared);
    }

    /// A status was written.
    fn written(&mut self, key: &Key, sj: ScavengerJob, time: Timestamp) {
        let attempt = sj.status.attempt.as_ref().map(|attempt| attempt.number);
        if let Some(attempt) = attempt.filter(|_| sj.status.phase == Phase::Starting)
            && let Some(tracked) = self.seen.get_mut(key)
        {
            // This planner wrote Starting just now, so nobody can have made the Job before.
            tracked.memory.may_create = Some(attempt);
            self.seen.attempt_begins(&owner(&sj.uid, key), attempt);
        }
        self.see_sj(sj);
        if let Some(tracked) = self.seen.get_mut(key) {
            tracked.reported.time = Some(time);
        }
    }

    fn listed(
        &mut self,
        key: &Key,
        uid: &Name,
        mut pods: Vec<Pod>,
        resource_version: u64,
        create_failure: Option<String>,
        time: Timestamp,
    ) {
        let owner = owner(uid, key);
        for pod in &mut pods {
            self.share_node(pod);
        }
        let (seen, gone) = self.seen.list_pods(&owner, pods, resource_version, time);
        for pod in seen {
            self.see_pod(pod);
        }
        for pod in &gone {
            self.forget_pod(pod);
        }
        let Some((tracked, attachments)) = self.seen.whole_mut(key) else { return };
        let Some(attempt) = &tracked.sj().status.attempt else { return };
        let (number, was_made) = (attempt.number, attempt.job_uid.is_some());
        match attachments.jobs.values().find(|job| job.attempt == number) {
            Some(job) if !job.is_over() && !job.deleting => {
                if tracked.memory.asks_why {
                    tracked.memory.create_failure = Some(CreateFailure { asked: time, said: create_failure });
                }
            }
            Some(_) => tracked.memory.listed = Some(number),
            None if attachments.pods.values().any(|pod| pod.is_of(number)) => {
                tracked.memory.lost_job = Some(number);
                tracked.memory.listed = Some(number);
            }
            None if tracked.memory.lost_job == Some(number) || was_made => {
                tracked.memory.listed = Some(number);
            }
            None => {
                tracked.memory.may_create = Some(number);
                self.seen.attempt_begins(&owner, number);
            }
        }
    }

    fn failed(&mut self, key: &Key, failure: Failure, time: Timestamp) {
        let Some(tracked) = self.seen.get_mut(key) else { return };
        // Only what was prepared is written. Without an answer nobody knows whether it was: then the status says
        // Starting, the attempt goes on, and its capacity would have been given to somebody else.
        let may_be_written = matches!(failure, Failure::Transient(_)) && tracked.memory.prepared.is_some();
        let active = tracked.sj().status.active_attempt().map(|attempt| attempt.number);
        if let Failure::Transient(message) = &failure
            && active.is_some()
            && tracked.memory.may_create == active
            && refusal::is_refusal(message)
        {
            let since = tracked.memory.not_made.as_ref().map_or(time, |(since, _)| *since);
            tracked.memory.not_made = Some((since, message.clone()));
        } else if matches!(failure, Failure::Transient(_)) && tracked.memory.may_create == active {
            // Maybe the Job was made, and by the next try somebody has deleted it: its pods may be there still, and are
            // looked for first.
            tracked.memory.may_create = None;
        }
        match failure {
            Failure::NameTaken(_) | Failure::Refused(_) | Failure::QuotaExceeded(_) => {
                tracked.refused = Some(failure);
            }
            // Gone: the Job of a delete, or the ScavengerJob itself; the watch will say so.
            Failure::Gone | Failure::Conflict | Failure::Transient(_) => {
                let uid = tracked.sj().uid.clone();
                tracked.turn.failed(time, failure == Failure::Conflict, &uid);
            }
        }
        if active.is_none() && self.promises.has_slot(key) {
            // A start that failed gives its slot back; it is prepared again when its turn comes again.
            tracked.memory.prepared = None;
            if may_be_written {
                self.promises.doubt(key, time);
            } else {
                self.promises.release(key);
            }
        }
    }
}
