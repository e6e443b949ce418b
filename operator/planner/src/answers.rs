//! How the answers of actions enter the view: what an action found out or changed, and what it means that it failed.

use std::{collections::BTreeSet, sync::Arc};

use jiff::{SignedDuration, Timestamp};

use crate::{
    Pause, Planner,
    action::{ActionResult, Answer, Failure},
    memory::{CreateFailure, Prepared},
    owner, refusal,
    snapshot::{Key, Name, Phase, Pod},
    verdict::Evidence,
};

impl Planner {
    pub(super) fn done(&mut self, result: ActionResult) {
        let ActionResult { job: key, uid, time, answer } = result;
        let Some(entry) = self.jobs.get_mut(&key).filter(|entry| entry.job.uid == uid) else { return };
        entry.under_way = false;
        self.telling.remove(&key);
        self.dirty.insert(key.clone());
        match answer {
            Ok(answer) => {
                // A pause after failures is over; one that was asked for is not.
                entry.pause = entry.pause.filter(|pause| pause.failures == 0);
                self.answered(&key, &uid, answer, time);
            }
            Err(failure) => self.failed(&key, failure, time),
        }
    }

    fn answered(&mut self, key: &Key, uid: &Name, answer: Answer, time: Timestamp) {
        match answer {
            Answer::Prepared { job, pods_left, missing } => {
                let generation = job.generation;
                let may_start = job.status.active_attempt().is_some();
                self.set_job(*job);
                if self.unsure.remove(key).is_some() && !may_start {
                    // It was not written after all: this one waits for its turn like everybody else.
                    self.ledger.release(key);
                    self.walk_due = true;
                    return;
                }
                if let Some(entry) = self.jobs.get_mut(key).filter(|entry| entry.job.generation == generation)
                {
                    if missing.is_empty() {
                        entry.memory.missing_since = None;
                    } else {
                        entry.memory.missing_since.get_or_insert(time);
                    }
                    entry.memory.prepared = Some(Prepared { pods_left, missing });
                }
            }
            Answer::Job(job) => {
                if let Some(attempt) =
                    job.status.attempt.as_ref().filter(|_| job.status.phase == Phase::Starting)
                    && let Some(entry) = self.jobs.get_mut(key)
                {
                    // This planner wrote Starting just now, so nobody can have made the Job before.
                    entry.memory.may_create = Some(attempt.number);
                    let evidence = &mut self.attachments.entry(owner(uid, key)).or_default().evidence;
                    evidence
                        .entry(attempt.number)
                        .or_insert_with(|| Evidence::from_the_start(self.pod_epoch).into());
                }
                self.set_job(*job);
                if let Some(entry) = self.jobs.get_mut(key) {
                    entry.told = Some(time);
                }
            }
            Answer::Child(child) => {
                let attachments = self.attachments.entry(owner(&child.owner, &child.key)).or_default();
                if !attachments.children.contains_key(&child.uid) || attachments.is_unwatched(&child.uid) {
                    attachments.unwatched_child = Some((child.uid.clone(), time));
                }
                self.set_child(*child);
            }
            Answer::Deleted { uid: child } => {
                let owner = owner(uid, key);
                let Some(attachments) = self.attachments.get_mut(&owner) else { return };
                if attachments.is_unwatched(&child) {
                    // Maybe it was gone already. If it is not, its pods still hold the next attempt.
                    self.remove_child(&owner, &child);
                } else if let Some(child) = attachments.children.get_mut(&child) {
                    Arc::make_mut(child).deleting = true;
                }
            }
            Answer::ChildGone { uid: child } => self.remove_child(&owner(uid, key), &child),
            Answer::Interrupted { pods } => {
                if let Some(entry) = self.jobs.get_mut(key) {
                    entry.memory.evicted.extend(pods);
                }
            }
            Answer::Pods { pods, resource_version, create_failure } => {
                self.listed(key, uid, pods, resource_version, create_failure, time);
            }
            Answer::PodEvents(events) => {
                if let Some(entry) = self.jobs.get_mut(key) {
                    entry.memory.pod_events = Some((time, events));
                }
            }
            Answer::JobDeleted => {
                // The watch shows it later, or that it is gone.
                if let Some(entry) = self.jobs.get_mut(key) {
                    entry.job.deleting = true;
                }
            }
            Answer::Released { pods_left } => {
                if let Some(entry) = self.jobs.get_mut(key) {
                    if pods_left == 0 {
                        entry.job.has_finalizer = false;
                    } else {
                        // The watch does not show them yet.
                        let until = time + SignedDuration::from_secs(2);
                        entry.pause = Some(Pause { failures: 0, until, ends_with_change: false });
                    }
                }
            }
        }
    }

    fn listed(
        &mut self,
        key: &Key,
        uid: &Name,
        pods: Vec<Pod>,
        resource_version: u64,
        create_failure: Option<String>,
        time: Timestamp,
    ) {
        let owner = owner(uid, key);
        for evidence in self.attachments.entry(owner.clone()).or_default().evidence.values_mut() {
            evidence.relisted(resource_version);
        }
        let listed: BTreeSet<Name> = pods.iter().map(|pod| pod.key.name.clone()).collect();
        for pod in pods {
            if !self.pod_owners.contains_key(&pod.key) {
                self.unwatched_pods.insert(pod.key.clone());
            }
            self.set_pod(pod, time);
        }
        let attachments = self.attachments.entry(owner.clone()).or_default();
        let gone: Vec<Key> = attachments
            .pods
            .values()
            .filter(|pod| pod.resource_version <= resource_version && !listed.contains(&pod.key.name))
            .map(|pod| pod.key.clone())
            .collect();
        for pod in &gone {
            self.remove_pod(pod);
        }
        let attachments = self.attachments.entry(owner).or_default();
        let Some(entry) = self.jobs.get_mut(key) else { return };
        let Some(number) = entry.job.status.attempt.as_ref().map(|attempt| attempt.number) else { return };
        let of_attempt = |pod: &Pod| pod.owner.as_ref().is_some_and(|(_, attempt)| *attempt == number);
        match attachments.children.values().find(|child| child.attempt == number) {
            Some(child) if !child.is_over() && !child.deleting => {
                if entry.memory.asks_why {
                    entry.memory.create_failure = Some(CreateFailure { asked: time, said: create_failure });
                }
            }
            Some(_) => entry.memory.listed = Some(number),
            None if attachments.pods.values().any(|pod| of_attempt(pod)) => {
                entry.memory.lost_child = Some(number);
                entry.memory.listed = Some(number);
            }
            None if entry.memory.lost_child == Some(number)
                || entry.job.status.attempt.as_ref().is_some_and(|attempt| attempt.child_uid.is_some()) =>
            {
                entry.memory.listed = Some(number);
            }
            None => {
                entry.memory.may_create = Some(number);
                let epoch = self.pod_epoch;
                attachments.evidence.entry(number).or_insert_with(|| Evidence::from_the_start(epoch).into());
            }
        }
    }

    fn failed(&mut self, key: &Key, failure: Failure, time: Timestamp) {
        let Some(entry) = self.jobs.get_mut(key) else { return };
        let failures = entry.pause.map_or(0, |pause| pause.failures) + 1;
        // Only what was prepared is written. Without an answer nobody knows whether it was: then the status says
        // Starting, the attempt goes on by itself, and its room would have been given to somebody else.
        let may_be_written = matches!(failure, Failure::Transient(_)) && entry.memory.prepared.is_some();
        let active = entry.job.status.active_attempt().map(|attempt| attempt.number);
        if let Failure::Transient(sentence) = &failure
            && active.is_some()
            && entry.memory.may_create == active
            && refusal::is_refusal(sentence)
        {
            let since = entry.memory.not_made.as_ref().map_or(time, |(since, _)| *since);
            entry.memory.not_made = Some((since, sentence.clone()));
        } else if matches!(failure, Failure::Transient(_)) && entry.memory.may_create == active {
            // Maybe the Job was made, and by the next try somebody has deleted it: its pods may be there still, and are
            // looked for first.
            entry.memory.may_create = None;
        }
        match failure {
            Failure::NameTaken(_) | Failure::Refused(_) | Failure::QuotaExceeded(_) => {
                entry.refused = Some(failure);
            }
            // Gone: the child Job of a delete, or the ScavengerJob itself; the watch will say so.
            Failure::Gone | Failure::Conflict | Failure::Transient(_) => {
                // 100 ms, doubled up to 25 s.
                let delay = SignedDuration::from_millis(100 << failures.min(8));
                let ends_with_change = failure == Failure::Conflict;
                entry.pause = Some(Pause { failures, until: time + delay, ends_with_change });
            }
        }
        if entry.job.status.active_attempt().is_none() && self.starting.remove(key) {
            // A start that failed gives its slot back; it is prepared anew when its turn comes again.
            entry.memory.prepared = None;
            if may_be_written {
                self.unsure.entry(key.clone()).or_insert(time);
            } else {
                self.ledger.release(key);
            }
            self.walk_due = true;
        }
    }
}
