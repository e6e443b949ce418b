//! The Job controller. It acts late, and what it knows of Jobs may be old.

use super::{
    api::stored,
    cluster::{Cluster, Event},
    seconds,
};
use scavenger_planner::values::{Demand, Job, Key, Name, Pod, PodPhase, RuntimeClass};

/// What the API server adds to a pod that names a RuntimeClass.
fn add_class(class: &RuntimeClass, pod: &mut Pod) {
    let asked = Demand { per_pod: pod.requests.clone(), pod_count: 1, placement: pod.placement.clone() };
    let Demand { per_pod, placement, .. } = class.added_to(&asked);
    (pod.requests, pod.placement) = (per_pod, placement);
    if let Some(limits) = &mut pod.limits {
        limits.add(&class.overhead);
    }
}

impl Cluster {
    pub(super) fn sync_job(&mut self, key: &Key, uid: &Name) {
        let there = self.jobs.get(key).filter(|there| there.uid == *uid && !there.deleting).cloned();
        let Some(job) = there.or_else(|| self.not_seen_to_go(uid)) else { return };
        let pods = self.pods_of_job(&job);
        if job.is_over() {
            return;
        }
        let there: Vec<&Pod> = pods.iter().filter_map(|pod| self.pods.get(pod)).collect();
        if self.pods_to_make(&job) > 0 && !there.iter().any(|pod| pod.phase == PodPhase::Failed) {
            return self.make_pods(&job);
        }
        let now = stored(self.now);
        let ended = there.iter().filter(|pod| pod.phase.is_terminal()).map(|pod| pod.uid.clone());
        self.counted.extend(ended.collect::<Vec<_>>());
        let wanted = self.pod_count(&job);
        let failed = there.iter().find(|pod| pod.phase == PodPhase::Failed);
        let succeeded = there.iter().filter(|pod| pod.phase == PodPhase::Succeeded).count()
            + self.succeeded.get(&(job.owner.clone(), job.attempt)).map_or(0, |n| *n as usize);
        let vanished = there.len()
            + self.succeeded.get(&(job.owner.clone(), job.attempt)).map_or(0, |n| *n as usize)
            < self.pods_made.get(&job.uid).map_or(0, |made| *made as usize);
        let over = match failed {
            Some(pod) if pod.disruption_target.is_some() => {
                Some(("PodFailurePolicy", format!("pod {} had DisruptionTarget", pod.key.name)))
            }
            Some(_) => Some(("BackoffLimitExceeded", "Job has reached the limit".to_owned())),
            None if vanished => Some(("BackoffLimitExceeded", "Job has reached the limit".to_owned())),
            None => None,
        };
        if let Some((reason, message)) = over {
            self.change_job(key, |job| {
                job.failed = Some((reason.to_owned(), message));
                job.over_since = Some(now);
            });
            for pod in pods {
                if self.pods.get(&pod).is_some_and(|pod| !pod.phase.is_terminal()) {
                    self.delete_pod(&pod);
                }
            }
        } else if succeeded >= wanted {
            self.change_job(key, |job| (job.complete, job.over_since) = (true, Some(now)));
        }
    }

    /// A Job whose deletion the Job controller has not heard of yet.
    fn not_seen_to_go(&self, uid: &Name) -> Option<Job> {
        let (job, time) = self.deleted_jobs.get(uid)?;
        (self.now < *time + self.delays.job_controller_view).then(|| job.clone())
    }

    fn pod_count(&self, job: &Job) -> usize {
        self.pod_templates.get(&job.uid).map_or(1, |template| template.pod_count as usize)
    }

    /// How many pods of a Job the API server has not taken yet.
    pub(super) fn pods_to_make(&self, job: &Job) -> u32 {
        let made = self.pods_made.get(&job.uid).copied().unwrap_or(0);
        self.pod_templates.get(&job.uid).map_or(0, |template| template.pod_count.saturating_sub(made))
    }

    fn make_pods(&mut self, job: &Job) {
        let Some(template) = self.pod_templates.get(&job.uid).cloned() else { return };
        let earlier = self.pods_of(&job.owner).find(|pod| {
            !pod.phase.is_terminal() && pod.owner.as_ref().is_some_and(|(_, n)| *n != job.attempt)
        });
        if earlier.is_some() {
            self.broken(&format!("pods of two attempts of {} meet", job.key));
        }
        let sj = self.scavenger_jobs.values().find(|sj| sj.uid == job.owner);
        let spec = sj.and_then(|sj| sj.spec.as_ref().ok());
        let claims = spec.map(|spec| spec.claims.clone()).unwrap_or_default();
        let class = spec.and_then(|spec| self.runtime_classes.get(&spec.runtime.as_ref()?.class)).cloned();
        let first = template.pod_count - self.pods_to_make(job);
        for index in first..template.pod_count {
            // A quota can be large enough for some of a gang.
            if self.pod_refusal(job).is_some() {
                self.exactly_after(seconds(5), Event::SyncJob(job.key.clone(), job.uid.clone()));
                break;
            }
            *self.pods_made.entry(job.uid.clone()).or_default() += 1;
            self.serial += 1;
            let mut pod = super::pod("", 0).of(&job.owner, job.attempt);
            // A pod of an earlier Job of this name may be left.
            self.supervise(&job.uid, &mut pod, index);
            let mut index = index.to_string();
            pod.key = Key::new(job.key.namespace.clone(), format!("{}-{index}", job.key.name));
            while self.pods.contains_key(&pod.key) {
                index.insert(0, '0');
                pod.key = Key::new(job.key.namespace.clone(), format!("{}-{index}", job.key.name));
            }
            pod.uid = format!("pod-{}", self.serial).into();
            if self.is_resumed {
                pod.creation_time = stored(self.now);
            }
            pod.requests = template.per_pod.clone();
            if self.by_use.contains(&job.uid) {
                pod.limits = Some(pod.requests.clone().into());
                (pod.requests.cpu_milli, pod.requests.memory_bytes) = (0, 8 << 20);
            }
            pod.placement = template.placement.clone();
            let volumes = claims.iter().map(|claim| Key::new(job.key.namespace.clone(), claim.clone()));
            let volumes = volumes.filter_map(|claim| self.volumes.get(&claim).cloned());
            pod.placement.volumes.extend(volumes);
            pod.claims = claims.clone();
            if let Some(class) = &class {
                add_class(class, &mut pod);
            }
            self.add_pod(pod);
        }
        if self.jobs.get(&job.key).is_none_or(|there| there.uid != job.uid) {
            self.after(self.delays.garbage_collector, Event::CollectPods(job.clone().into()));
        }
    }
}
