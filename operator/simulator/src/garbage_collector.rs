//! The garbage collector: it deletes what belongs to an object that is gone, and an object that is deleted in the
//! foreground once nothing belongs to it any more. It acts late, and what it knows of pods may be old.

use super::{
    cluster::{Cluster, Event},
    kubernetes::gone,
    millis,
    watches::Stream,
};
use scavenger_planner::snapshot::{Child, Key, Name};

impl Cluster {
    /// Deletes a child Job in the foreground: it stays until its pods are gone.
    pub(super) fn delete_child(&mut self, key: &Key) {
        let Some(child) = self.children.get(key).filter(|child| !child.deleting).cloned() else { return };
        self.deleted_children.insert(child.uid.clone(), (child.clone(), self.now));
        self.change_child(key, |child| child.deleting = true);
        self.after(self.delays.garbage_collector, Event::CollectChild(key.clone(), child.uid));
    }

    /// Deletes a child Job in the background: it is gone, and its pods follow.
    pub(super) fn remove_child(&mut self, key: &Key) {
        let Some(child) = self.children.remove(key) else { return };
        self.deleted_children.entry(child.uid.clone()).or_insert((child.clone(), self.now));
        self.next_version();
        self.emit(Stream::Children, gone(&child));
        self.after(self.delays.garbage_collector, Event::CollectPods(child.into()));
    }

    /// A child Job that is deleted in the foreground goes once no pod of it is known.
    pub(super) fn collect_child(&mut self, key: &Key, uid: &Name) {
        let Some(child) = self.children.get(key).filter(|child| child.uid == *uid).cloned() else { return };
        let known = self.known_pods(&child);
        for pod in &known {
            self.delete_pod(pod);
        }
        if self.known_pods(&child).is_empty() {
            self.remove_child(key);
        } else {
            self.after(millis(200), Event::CollectChild(key.clone(), uid.clone()));
        }
    }

    /// Pods whose child Job is gone go, unless it left them on purpose.
    pub(super) fn collect_pods(&mut self, child: &Child) {
        if self.children.get(&child.key).is_some_and(|there| there.uid == child.uid) {
            return;
        }
        for pod in self.known_pods(child) {
            self.delete_pod(&pod);
        }
        if self.pods_of_child(child).iter().any(|pod| self.pods[pod].deletion_requested.is_none()) {
            self.after(millis(200), Event::CollectPods(child.clone().into()));
        }
    }

    /// Child Jobs whose ScavengerJob is gone go.
    pub(super) fn collect_children(&mut self, owner: &Name) {
        if self.jobs.values().any(|job| job.uid == *owner) {
            return;
        }
        let children = self.children.values();
        let children = children.filter(|child| child.owner == *owner && !self.ownerless.contains(&child.uid));
        for child in children.map(|child| child.key.clone()).collect::<Vec<_>>() {
            self.remove_child(&child);
        }
    }

    /// Pods of a child Job that the garbage collector has heard of.
    fn known_pods(&self, child: &Child) -> Vec<Key> {
        let mut pods = self.pods_of_child(child);
        let heard_of = |pod: &Key| self.pod_times.get(&self.pods[pod].uid).copied().unwrap_or(self.now);
        pods.retain(|pod| heard_of(pod) + self.delays.garbage_collector_view <= self.now);
        pods
    }
}

#[cfg(test)]
mod tests {
    use scavenger_planner::fixtures::{job, key, node, seconds};

    use super::*;
    use crate::Workload;

    #[test]
    fn a_pod_it_has_not_heard_of_stays_behind_and_goes_later() {
        let mut cluster = Cluster::default().with_nodes([node("n1", 10_000)]);
        cluster.delays.garbage_collector_view = seconds(5);
        cluster.submit(job("a"), Workload::default());
        cluster.run_until("it has a pod", |cluster| cluster.pod("a-1-0").is_some());
        cluster.delete_child(&key("a-1"));
        cluster.run_for(seconds(1));
        assert!(cluster.children_of("a").is_empty());
        assert!(cluster.pod("a-1-0").is_some_and(|pod| pod.deletion_requested.is_none()));
        cluster.run_for(seconds(10));
        assert!(cluster.pod("a-1-0").is_none(), "{}", cluster.history());
    }
}
