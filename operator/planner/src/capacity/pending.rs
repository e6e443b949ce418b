//! Ordinary pods that wait for a node, and what they hold meanwhile: as much as they request, so that no ScavengerJob
//! takes what they are about to use.
//!
//! A pod that waits for something else than capacity (a claim that is not bound, affinity, a host port) may wait forever,
//! so it holds nothing. kube-scheduler says what a pod waits for (`faults::scheduler`): where it names no lack of capacity for
//! any node, every node that the pod may go to has enough.

use super::{Capacity, index::Whose, node::Occupant, table::View};
use crate::values::{Demand, Key, Placement, Pod, resources::Resources};

/// True if a pending ordinary pod holds capacity.
///
/// A pod that was not judged yet holds some, unless it has another scheduler: nobody knows whether that one exists, what
/// it waits for, or when it will look. Once it says that capacity lacks, it counts like kube-scheduler.
pub fn holds_capacity(pod: &Pod) -> bool {
    if pod.unschedulable.is_none() { pod.scheduler.is_none() } else { pod.refused.lacks_capacity }
}

impl Capacity {
    /// Takes in a version of a pod.
    pub fn set_pod(&mut self, pod: &Pod) {
        let alive = !pod.phase.is_terminal();
        let ordinary = pod.owner.is_none();
        // The capacity a preemptor waits for looks free and is not. Capacity of a ScavengerJob's pod is in the ledger until
        // it is bound.
        let place = pod.node.as_ref().or(pod.nominated_node.as_ref().filter(|_| ordinary));
        let occupant = place.filter(|_| alive).map(|node| Occupant {
            node: node.clone(),
            requests: pod.requests.clone(),
            holds: pod.limits.clone().filter(|_| !ordinary),
            exclusive_milli: pod.exclusive_milli,
            owner: pod.owner.as_ref().map(|(owner, _)| owner.clone()),
            bound_since: pod.bound_since(),
            deferred_resize: pod.deferred_resize.clone().map(Box::new),
        });
        self.occupy(&pod.key, occupant);
        if alive && place.is_some() && pod.node.is_none() {
            self.nominated.insert(pod.key.clone());
        } else {
            self.nominated.remove(&pod.key);
        }
        let waits = alive
            && place.is_none()
            && ordinary
            && !pod.gated
            && pod.deletion_requested.is_none()
            && holds_capacity(pod);
        self.set_pending(&pod.key, waits.then_some((&pod.requests, &pod.placement)));
    }

    /// A pod waits for a node with these requests, or waits no longer.
    pub(super) fn set_pending(&mut self, key: &Key, asks_for: Option<(&Resources, &Placement)>) {
        if asks_for.is_none() && !self.pending.contains_key(key) {
            return;
        }
        let demand = asks_for.map(|(requests, placement)| Demand {
            per_pod: requests.clone(),
            pod_count: 1,
            placement: placement.clone(),
        });
        if let Some(ask) = self.pending.get(key).copied() {
            if Some(self.places.demand(ask)) == demand.as_ref() {
                return;
            }
            self.pending.remove(key);
            self.places.change_pending(ask, -1);
            self.places.remove_user(ask);
            self.version += 1;
        }
        if let Some(demand) = demand {
            let ask = self.ask_for(&demand, Whose::Ordinary);
            self.places.change_pending(ask, 1);
            self.pending.insert(key.clone(), ask);
        }
    }

    /// What those of them request that would fit some node of the pool if no ScavengerJob were there.
    pub(super) fn takeable(&self) -> Resources {
        let mut takeable = Resources::default();
        for (_, requests) in self.holders() {
            takeable.add(requests);
        }
        takeable
    }

    /// Ordinary pods that wait for a node and hold capacity of the pool, and what they request. May look at every node for
    /// each of them: for people who ask.
    pub(crate) fn holders(&self) -> impl Iterator<Item = (&Key, &Resources)> {
        self.pending()
            .filter(|(_, requests, placement)| self.is_takeable(requests, placement))
            .map(|(key, requests, _)| (key, requests))
    }

    /// True if a pod with these requests would fit some node of the pool if no ScavengerJob were there.
    pub(super) fn is_takeable(&self, requests: &Resources, placement: &Placement) -> bool {
        self.nodes.values().filter(|entry| entry.is_open()).any(|entry| {
            entry.node.as_ref().is_some_and(|node| {
                placement.admits(node) && requests.fits_beside(&entry.ordinary, &node.allocatable)
            })
        })
    }

    /// True if a pending ordinary pod may find capacity on some node once ScavengerJobs are interrupted; false if none
    /// would do. Costs no look at any node of the pool: what each demand would find there is kept up by the index.
    pub(crate) fn may_be_helped(&mut self, pod: &Pod) -> bool {
        // Where no node lacks capacity, nobody's end helps.
        let Some(ask) = self.pending.get(&pod.key).copied() else { return false };
        self.places.fits(ask, View::WithoutScavengers)
            || self.not_open.iter().filter_map(|name| self.nodes.get(name)).any(|entry| {
                entry.node.as_ref().is_some_and(|node| {
                    pod.placement.admits(node) && pod.requests.fits_beside(&entry.ordinary, &node.allocatable)
                })
            })
    }

    /// Ordinary pods that wait for a node and hold capacity, what they ask for and where they may go.
    pub fn pending(&self) -> impl Iterator<Item = (&Key, &Resources, &Placement)> {
        self.pending.iter().map(|(key, ask)| {
            let demand = self.places.demand(*ask);
            (key, &demand.per_pod, &demand.placement)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{fixtures::pod, values::Refused};

    #[test]
    fn a_pod_that_was_not_judged_holds_some_unless_nobody_may_ever_judge_it() {
        let holds = |lacks_capacity: Option<bool>, scheduler: Option<&str>| {
            let mut pod = pod("shop", 1000);
            pod.unschedulable = lacks_capacity.map(|_| "it says why".to_owned());
            pod.refused = Refused { lacks_capacity: lacks_capacity == Some(true), unjudged: None };
            pod.scheduler = scheduler.map(Into::into);
            holds_capacity(&pod)
        };
        assert!(holds(None, None));
        assert!(!holds(None, Some("volcano")));
        for scheduler in [None, Some("volcano")] {
            assert!(holds(Some(true), scheduler) && !holds(Some(false), scheduler));
        }
    }
}
