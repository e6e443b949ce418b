//! The scheduler, and its preemption.

use std::collections::BTreeMap;

use super::{
    api::stored,
    cluster::{Cluster, Event},
};
use scavenger_planner::{
    resources::Resources,
    values::{Key, Name, Pod},
};

impl Cluster {
    /// The scheduler looks soon. In a cluster that was resumed, which may be large, one look is enough for all that changes before.
    pub(super) fn schedule_soon(&mut self) {
        if !(self.is_resumed && std::mem::replace(&mut self.will_schedule, true)) {
            self.after(self.delays.scheduler, Event::Schedule);
        }
    }

    /// Places every pod for which there is room on the emptiest node, ordinary pods first; an ordinary pod that finds
    /// none preempts.
    pub(super) fn schedule(&mut self) {
        if !self.scheduler_works {
            return;
        }
        self.resize_what_fits();
        let mut free = self.free();
        let mut waiting: Vec<Pod> = self
            .pods
            .values()
            .filter(|pod| {
                pod.node.is_none()
                    && !pod.gated
                    && !self.unplaceable.contains(&pod.uid)
                    && !self.workload_of(pod).never_scheduled
                    && pod.deletion_requested.is_none()
                    && !pod.phase.is_terminal()
            })
            .cloned()
            .collect();
        waiting.sort_by_key(|pod| (pod.owner.is_some(), pod.resource_version));
        for pod in waiting {
            if let Some(room) = pod.nominated_node.as_ref().and_then(|node| free.get_mut(node)) {
                room.add(&pod.requests);
            }
            let mounts = |claim: &Name| Key::new(pod.key.namespace.clone(), claim.clone());
            let lacks_volume = pod.claims.iter().any(|claim| self.unbound_claims.contains(&mounts(claim)));
            let fitting = if lacks_volume { None } else { self.fitting(&pod, &free) };
            if let Some(node) = fitting {
                if let Some(owner) = &pod.owner {
                    self.placed.entry(owner.clone()).or_default().insert(node.clone());
                }
                self.check_placed(&pod, &node);
                self.check_mounted(&pod, &node);
                if let Some(room) = free.get_mut(&node) {
                    room.subtract(&pod.requests);
                }
                let now = stored(self.now);
                self.change_pod(&pod.key, |pod| {
                    pod.node = Some(node);
                    pod.scheduled = Some(now);
                    pod.nominated_node = None;
                    pod.unschedulable = None;
                });
                self.after(self.delays.kubelet, Event::StartContainer(pod.key.clone(), pod.uid.clone()));
                continue;
            }
            let why = match lacks_volume {
                true => "pod has unbound immediate PersistentVolumeClaims",
                false => "Insufficient cpu",
            };
            let message = format!("0/{} nodes are available: {why}.", self.nodes.len());
            if pod.unschedulable.as_ref() != Some(&message) {
                self.change_pod(&pod.key, |pod| pod.unschedulable = Some(message));
            }
            if pod.owner.is_none() && pod.nominated_node.is_none() && self.preempts && pod.preempts {
                self.make_room(&pod, &free);
            } else if let Some(room) = pod.nominated_node.as_ref().and_then(|node| free.get_mut(node)) {
                room.subtract(&pod.requests);
            }
        }
    }

    /// What each node has that nobody holds.
    pub(super) fn free(&self) -> BTreeMap<Name, Resources> {
        let mut free: BTreeMap<Name, Resources> =
            self.nodes.iter().map(|(name, node)| (name.clone(), node.allocatable.clone())).collect();
        for pod in self.pods.values().filter(|pod| !pod.phase.is_terminal()) {
            if let Some(room) =
                pod.node.as_ref().or(pod.nominated_node.as_ref()).and_then(|n| free.get_mut(n))
            {
                room.subtract(&pod.requests);
            }
        }
        free
    }

    /// The emptiest node that takes a pod.
    pub(super) fn fitting(&self, pod: &Pod, free: &BTreeMap<Name, Resources>) -> Option<Name> {
        let nodes = self.nodes.values().filter(|node| node.usable && pod.placement.admits(node));
        nodes
            .filter(|node| pod.requests.exceeds(&free[&node.name]).is_none())
            .max_by_key(|node| (free[&node.name].cpu_milli, std::cmp::Reverse(node.name.clone())))
            .map(|node| node.name.clone())
    }

    /// Preempts the youngest pods of ScavengerJobs on the first node where that helps.
    fn make_room(&mut self, pod: &Pod, free: &BTreeMap<Name, Resources>) {
        for node in self.nodes.values().filter(|node| node.usable && pod.placement.admits(node)) {
            let mut room = free[&node.name].clone();
            let mut candidates: Vec<&Pod> = self
                .pods
                .values()
                .filter(|other| other.node.as_ref() == Some(&node.name) && other.owner.is_some())
                .filter(|other| !other.phase.is_terminal() && other.deletion_requested.is_none())
                .collect();
            candidates.sort_by_key(|other| std::cmp::Reverse(other.resource_version));
            let mut victims = Vec::new();
            for victim in candidates {
                if pod.requests.exceeds(&room).is_none() {
                    break;
                }
                room.add(&victim.requests);
                victims.push(victim.key.clone());
            }
            if pod.requests.exceeds(&room).is_none() {
                let node = node.name.clone();
                self.change_pod(&pod.key, |pod| pod.nominated_node = Some(node));
                for victim in victims {
                    self.preempt(&victim);
                }
                return;
            }
        }
    }
}
