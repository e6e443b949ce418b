//! The garbage collector: it deletes what belongs to an object that is gone, and an object that is deleted in the
//! foreground once nothing belongs to it any more. It acts late, and what it knows of pods may be old.

use super::{
    api::later,
    cluster::{Cluster, Event},
    kubernetes::gone,
    millis,
    watches::Stream,
};
use scavenger_planner::values::{Job, Key, Name};

impl Cluster {
    /// Deletes a Job in the foreground: it stays until its pods are gone.
    pub(super) fn delete_job(&mut self, key: &Key) {
        let Some(job) = self.jobs.get(key).filter(|job| !job.deleting).cloned() else { return };
        self.deleted_jobs.insert(job.uid.clone(), (job.clone(), self.now));
        self.change_job(key, |job| job.deleting = true);
        self.after(self.delays.garbage_collector, Event::CollectJob(key.clone(), job.uid));
    }

    /// Deletes a Job in the background: it is gone, and its pods follow.
    pub(super) fn remove_job(&mut self, key: &Key) {
        let Some(job) = self.jobs.remove(key) else { return };
        self.deleted_jobs.entry(job.uid.clone()).or_insert((job.clone(), self.now));
        self.next_version();
        self.emit(Stream::Jobs, gone(&job));
        self.after(self.delays.garbage_collector, Event::CollectPods(job.into()));
    }

    /// A Job that is deleted in the foreground goes once no pod of it is known.
    pub(super) fn collect_job(&mut self, key: &Key, uid: &Name) {
        let Some(job) = self.jobs.get(key).filter(|job| job.uid == *uid).cloned() else { return };
        let known = self.known_pods(&job);
        for pod in &known {
            self.delete_pod(pod);
        }
        if self.known_pods(&job).is_empty() {
            self.remove_job(key);
        } else {
            self.after(millis(200), Event::CollectJob(key.clone(), uid.clone()));
        }
    }

    /// Pods whose Job is gone go, unless it left them on purpose.
    pub(super) fn collect_pods(&mut self, job: &Job) {
        if self.jobs.get(&job.key).is_some_and(|there| there.uid == job.uid) {
            return;
        }
        for pod in self.known_pods(job) {
            self.delete_pod(&pod);
        }
        if self.pods_of_job(job).iter().any(|pod| self.pods[pod].deletion_requested.is_none()) {
            self.after(millis(200), Event::CollectPods(job.clone().into()));
        }
    }

    /// Child Jobs whose ScavengerJob is gone go.
    pub(super) fn collect_jobs(&mut self, owner: &Name) {
        if self.scavenger_jobs.values().any(|sj| sj.uid == *owner) {
            return;
        }
        let jobs = self.jobs.values();
        let jobs = jobs.filter(|job| job.owner == *owner && !self.ownerless.contains(&job.uid));
        for job in jobs.map(|job| job.key.clone()).collect::<Vec<_>>() {
            self.remove_job(&job);
        }
    }

    /// Pods of a Job that the garbage collector has heard of.
    fn known_pods(&self, job: &Job) -> Vec<Key> {
        let mut pods = self.pods_of_job(job);
        let heard_of = |pod: &Key| self.pod_times.get(&self.pods[pod].uid).copied().unwrap_or(self.now);
        pods.retain(|pod| later(heard_of(pod), self.delays.garbage_collector_view) <= self.now);
        pods
    }
}

#[cfg(test)]
mod tests {
    use scavenger_planner::fixtures::{key, node, seconds, sj};

    use super::*;
    use crate::Workload;

    #[test]
    fn a_pod_it_has_not_heard_of_stays_behind_and_goes_later() {
        let mut cluster = Cluster::default().with_nodes([node("n1", 10_000)]);
        cluster.delays.garbage_collector_view = seconds(5);
        cluster.submit(sj("a"), Workload::default());
        cluster.run_until("it has a pod", |cluster| cluster.pod("a-1-0").is_some());
        cluster.delete_job(&key("a-1"));
        cluster.run_for(seconds(1));
        assert!(cluster.jobs_of("a").is_empty());
        assert!(cluster.pod("a-1-0").is_some_and(|pod| pod.deletion_requested.is_none()));
        cluster.run_for(seconds(10));
        assert!(cluster.pod("a-1-0").is_none(), "{}", cluster.history());
    }
}
