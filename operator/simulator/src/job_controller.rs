//! The Job controller. It acts late, and what it knows of Jobs may be old.

use super::{
    api::stored,
    cluster::{Cluster, Event},
    seconds,
};
use scavenger_planner::snapshot::{Child, Key, Name, Pod, PodPhase};

impl Cluster {
    pub(super) fn sync_child(&mut self, key: &Key, uid: &Name) {
        let there = self.children.get(key).filter(|there| there.uid == *uid && !there.deleting).cloned();
        let Some(child) = there.or_else(|| self.not_seen_to_go(uid)) else { return };
        let pods = self.pods_of_child(&child);
        if child.is_over() {
            return;
        }
        if !self.pods_made.contains(&child.uid) {
            if self.create_failure.is_some() {
                return self.exactly_after(seconds(5), Event::SyncChild(key.clone(), uid.clone()));
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

    /// A child Job whose deletion the Job controller has not heard of yet.
    fn not_seen_to_go(&self, uid: &Name) -> Option<Child> {
        let (child, time) = self.deleted_children.get(uid)?;
        (self.now < *time + self.delays.job_controller_view).then(|| child.clone())
    }

    fn pod_count(&self, child: &Child) -> usize {
        self.pod_templates.get(&child.uid).map_or(1, |template| template.pod_count as usize)
    }

    fn make_pods(&mut self, child: &Child) {
        let Some(template) = self.pod_templates.get(&child.uid).cloned() else { return };
        let earlier = self.pods_of(&child.owner).find(|pod| {
            !pod.phase.is_terminal() && pod.owner.as_ref().is_some_and(|(_, n)| *n != child.attempt)
        });
        assert!(
            earlier.is_none(),
            "{}: pods of two attempts of {} meet\n{}",
            self.now,
            child.key,
            self.history()
        );
        self.pods_made.insert(child.uid.clone());
        for index in 0..template.pod_count {
            self.serial += 1;
            let mut pod = super::pod("", 0).of(&child.owner, child.attempt);
            // A pod of an earlier Job of this name may be left.
            let mut index = index.to_string();
            pod.key = Key::new(child.key.namespace.clone(), format!("{}-{index}", child.key.name));
            while self.pods.contains_key(&pod.key) {
                index.insert(0, '0');
                pod.key = Key::new(child.key.namespace.clone(), format!("{}-{index}", child.key.name));
            }
            pod.uid = format!("pod-{}", self.serial).into();
            pod.requests = template.per_pod.clone();
            pod.placement = template.placement.clone();
            self.add_pod(pod);
        }
        if self.children.get(&child.key).is_none_or(|there| there.uid != child.uid) {
            self.after(self.delays.garbage_collector, Event::CollectPods(child.clone().into()));
        }
    }
}
