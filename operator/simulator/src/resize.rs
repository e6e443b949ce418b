//! In-place resizes of ordinary pods: the kubelet makes one as soon as its node has enough, and defers it until then.

use super::cluster::{Cluster, Event};
use scavenger_planner::{
    resources::Resources,
    values::{Key, Name, Pod},
};

/// What the node has allocated to a pod.
fn allocated(pod: &Pod) -> Resources {
    pod.deferred_resize.as_ref().map_or_else(|| pod.requests.clone(), |more| pod.requests.minus(more))
}

impl Cluster {
    /// Somebody asks for another size of a pod that has a node.
    pub fn resize(&mut self, key: &Key, wanted: &Resources) {
        let Some(pod) = self.pods.get(key) else { return };
        let has = allocated(pod);
        let more = wanted.minus(&has).map(|_, amount| amount.max(0));
        self.change_pod(key, |pod| {
            pod.requests = has.larger(wanted);
            pod.deferred_resize = (more != Resources::default()).then_some(more);
        });
        self.after(self.delays.kubelet, Event::Schedule);
    }

    /// The kubelets make every resize for which their nodes have enough.
    pub(super) fn resize_what_fits(&mut self) {
        let deferred: Vec<(Key, Name)> = self
            .pods
            .values()
            .filter(|pod| pod.deferred_resize.is_some())
            .filter_map(|pod| Some((pod.key.clone(), pod.node.clone()?)))
            .collect();
        for (key, name) in deferred {
            let Some(node) = self.nodes.get(&name) else { continue };
            let mut free = node.allocatable.clone();
            for pod in self.pods.values().filter(|pod| pod.node.as_ref() == Some(&name)) {
                if !pod.phase.is_terminal() {
                    free.subtract(&allocated(pod));
                }
            }
            let more = self.pods.get(&key).and_then(|pod| pod.deferred_resize.clone()).unwrap_or_default();
            if more.exceeds(&free).is_none() {
                self.change_pod(&key, |pod| pod.deferred_resize = None);
            }
        }
    }
}
