//! What is in flight: room that was given to a ScavengerJob whose pods the watch does not show on nodes yet.
//!
//! A reservation is made when a ScavengerJob is admitted, shrinks as its pods are seen bound (or ended), and goes
//! when the attempt has ended or was given up. So the same room is never given twice, and none is held for longer
//! than it is promised to somebody. Where nobody knows whether a start was written, it goes after a time and is counted
//! (`Planner::expired_reservations`).

use std::collections::BTreeMap;

use crate::values::{Key, Name, resources::Resources};

/// Reservations by ScavengerJob.
#[derive(Debug, Clone, Default)]
pub struct Ledger {
    reservations: BTreeMap<Key, Reservation>,
    promised: BTreeMap<Name, Resources>,
    namespaces: BTreeMap<Name, Resources>,
    total: Resources,
    /// Nodes on which something changed since [`Self::take_touched`].
    touched: Vec<Name>,
}

#[derive(Debug, Clone)]
struct Reservation {
    per_pod: Resources,
    /// A node for each pod that was not seen yet, where one is known.
    places: Vec<Option<Name>>,
}

impl Ledger {
    /// Reserves room for one pod of `per_pod` on each of `places`, instead of what was reserved before.
    pub fn reserve(&mut self, sj: &Key, per_pod: &Resources, places: Vec<Option<Name>>) {
        self.release(sj);
        if !places.is_empty() {
            let count = i64::try_from(places.len()).unwrap_or(i64::MAX);
            self.namespaces.entry(sj.namespace.clone()).or_default().add(&per_pod.times(count));
        }
        for place in &places {
            self.total.add(per_pod);
            if let Some(node) = place {
                self.promised.entry(node.clone()).or_default().add(per_pod);
                self.touched.push(node.clone());
            }
        }
        if !places.is_empty() {
            self.reservations.insert(sj.clone(), Reservation { per_pod: per_pod.clone(), places });
        }
    }

    /// Gives everything back.
    pub fn release(&mut self, sj: &Key) {
        self.shrink(sj, 0, &[]);
    }

    /// Keeps at most `left` pods reserved; first to go are places on the nodes `seen`, where the pods turned up.
    pub fn shrink(&mut self, sj: &Key, left: usize, seen: &[Name]) {
        let Some(reservation) = self.reservations.get_mut(sj) else { return };
        let mut dropped = Vec::new();
        for node in seen {
            if reservation.places.len() <= left {
                break;
            }
            if let Some(index) = reservation.places.iter().position(|place| place.as_ref() == Some(node)) {
                dropped.push(reservation.places.swap_remove(index));
            }
        }
        while reservation.places.len() > left {
            dropped.extend(reservation.places.pop());
        }
        let per_pod = reservation.per_pod.clone();
        if reservation.places.is_empty() {
            self.reservations.remove(sj);
        }
        for place in dropped {
            self.total.subtract(&per_pod);
            if let Some(amount) = self.namespaces.get_mut(&sj.namespace) {
                amount.subtract(&per_pod);
                if *amount == Resources::default() {
                    self.namespaces.remove(&sj.namespace);
                }
            }
            if let Some(node) = place
                && let Some(promised) = self.promised.get_mut(&node)
            {
                promised.subtract(&per_pod);
                if *promised == Resources::default() {
                    self.promised.remove(&node);
                }
                self.touched.push(node);
            }
        }
    }

    /// Number of pods that are reserved for a ScavengerJob.
    #[must_use]
    pub fn reserved_pods(&self, sj: &Key) -> usize {
        self.reservations.get(sj).map_or(0, |reservation| reservation.places.len())
    }

    /// What is reserved for each pod of a ScavengerJob that was not seen yet, and the node, where one is known.
    pub(crate) fn reserved_for(&self, sj: &Key) -> impl Iterator<Item = (Option<&Name>, &Resources)> {
        let reservation = self.reservations.get(sj).into_iter();
        reservation.flat_map(|one| one.places.iter().map(|place| (place.as_ref(), &one.per_pod)))
    }

    /// Everything that is reserved.
    #[must_use]
    pub fn total(&self) -> &Resources {
        &self.total
    }

    /// What is reserved on a node.
    #[must_use]
    pub fn promised(&self, node: &Name) -> Option<&Resources> {
        self.promised.get(node)
    }

    /// What is reserved for the ScavengerJobs of a namespace.
    #[must_use]
    pub fn promised_to(&self, namespace: &Name) -> Option<&Resources> {
        self.namespaces.get(namespace)
    }

    /// The nodes on which something changed since this was called last.
    pub(crate) fn take_touched(&mut self) -> Vec<Name> {
        std::mem::take(&mut self.touched)
    }

    /// Every reservation: for whom, how much for each pod, and where.
    pub fn iter(&self) -> impl Iterator<Item = (&Key, &Resources, &[Option<Name>])> {
        self.reservations.iter().map(|(key, one)| (key, &one.per_pod, one.places.as_slice()))
    }

    /// Number of nodes on which something is reserved.
    #[must_use]
    pub fn promised_nodes(&self) -> usize {
        self.promised.len()
    }
}
