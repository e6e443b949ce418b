//! The Job controller.

use super::{
    api::stored,
    cluster::{Cluster, Event},
    kubernetes::gone,
    millis, seconds,
    watches::Stream,
};
use scavenger_planner::snapshot::{Child, Key, Pod, PodPhase};

impl Cluster {
    pub(super) fn sync_child(&mut self, key: &Key) {
        let Some(child) = self.children.get(key).cloned() else { return };
        let pods = self.pods_of_child(&child);
        if child.deleting {
            for pod in &pods {
                self.delete_pod(pod);
            }
            if self.pods_of_child(&child).is_empty() {
                self.children.remove(key);
                self.next_version();
                self.emit(Stream::Children, gone(&child));
            } else {
                self.after(millis(200), Event::SyncChild(key.clone()));
            }
            return;
        }
        if child.is_over() {
            return;
        }
        if !self.pods_made.contains(&child.uid) {
            if self.create_failure.is_some() {
                return self.exactly_after(seconds(5), Event::SyncChild(key.clone()));
            }
            return self.make_pods(&child);
        }
        let now = stored(self.now);
        let there: Vec<&Pod> = pods.iter().filter_map(|pod| self.pods.get(pod)).collect();
        let ended = there.iter().filter(|pod| pod.phase.is_terminal()).map(|pod| pod.uid.clone());
        self.counted.extend(ended.collect::<Vec<_>>());
        let wanted = self.pod_count(&child);
        let failed = there.iter().find(|pod| pod.phase == PodPhase::Failed);
        let succeeded = there.iter().filter(|pod| pod.phase == PodPhase::Succeeded).count()
            + self.succeeded.get(&(child.owner.clone(), child.attempt)).map_or(0, |n| *n as usize);
        let vanished = there.len()
            + self.succeeded.get(&(child.owner.clone(), child.attempt)).map_or(0, |n| *n as usize)
            < wanted;
        let over = match failed {
            Some(pod) if pod.disruption_target.is_some() => {
                Some(("PodFailurePolicy", format!("pod {} had DisruptionTarget", pod.key.name)))
            }
            Some(_) => Some(("BackoffLimitExceeded", "Job has reached the limit".to_owned())),
            None if vanished => Some(("BackoffLimitExceeded", "Job has reached the limit".to_owned())),
            None => None,
        };
        if let Some((reason, message)) = over {
            self.change_child(key, |child| {
                child.failed = Some((reason.to_owned(), message));
                child.over_since = Some(now);
            });
            for pod in pods {
                if self.pods.get(&pod).is_some_and(|pod| !pod.phase.is_terminal()) {
                    self.delete_pod(&pod);
                }
            }
        } else if succeeded >= wanted {
            self.change_child(key, |child| (child.complete, child.over_since) = (true, Some(now)));
        }
    }

    fn pod_count(&self, child: &Child) -> usize {
        let owner = self.jobs.values().find(|job| job.uid == child.owner);
        owner
            .and_then(|job| job.status.attempt.as_ref())
            .map_or(1, |attempt| attempt.demand.pod_count as usize)
    }

    fn make_pods(&mut self, child: &Child) {
        let Some(job) = self.jobs.values().find(|job| job.uid == child.owner).cloned() else { return };
        let (Ok(spec), Some(attempt)) = (&job.spec, &job.status.attempt) else { return };
        let earlier = self.pods_of(&child.owner).find(|pod| {
            !pod.phase.is_terminal() && pod.owner.as_ref().is_some_and(|(_, n)| *n != child.attempt)
        });
        assert!(
            earlier.is_none(),
            "{}: pods of two attempts of {} meet\n{}",
            self.now,
            job.key,
            self.history()
        );
        self.pods_made.insert(child.uid.clone());
        for index in 0..attempt.demand.pod_count {
            self.serial += 1;
            let name = format!("{}-{index}", child.key.name);
            let mut pod = super::pod(&name, 0).of(&child.owner, child.attempt);
            pod.uid = format!("pod-{}", self.serial).into();
            pod.requests = attempt.demand.per_pod.clone();
            pod.placement = spec.demand.placement.clone();
            self.add_pod(pod);
        }
    }
}
