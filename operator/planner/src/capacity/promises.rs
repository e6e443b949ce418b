//! What is promised to starts in flight: capacity that was given to ScavengerJobs whose pods the watch does not show on
//! nodes yet, and the places among those that start at the same time.
//!
//! | a ScavengerJob | holds capacity | holds a start slot |
//! |---|---|---|
//! | is admitted: it is prepared, its status is written, its pods come | for all pods that were not seen on a node | until all of its pods are on nodes |
//! | may have been started: the status was written, but no answer came ("unsure") | yes | no |
//! | whose attempt has ended, but whose pods may still be placed | for those pods | no |
//!
//! Whatever is given back makes admission look again ([`Promises::take_freed`]).
//!
//! # The ledger
//!
//! A reservation is made when a ScavengerJob is admitted, shrinks as its pods are seen bound (or ended), and goes
//! when the attempt has ended or was given up. So the same capacity is never given twice, and none is held for longer
//! than it is promised to somebody. Where nobody knows whether a start was written, it goes after a time and is counted.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use jiff::{SignedDuration, Timestamp};

use crate::values::{Attempt, Job, Key, Name, Outcome, Pod, resources::Resources};

/// How much longer than pods may stay unscheduled capacity is held for a start whose status write got no answer.
const UNSURE_SLACK: SignedDuration = SignedDuration::from_secs(30);

/// What is promised, and to whom.
#[derive(Debug, Default)]
pub struct Promises {
    ledger: Ledger,
    /// ScavengerJobs that are admitted and whose pods do not all have a node yet.
    starting: BTreeSet<Key>,
    /// ScavengerJobs whose status may say Starting: it was written, but no answer came. They keep their capacity, not
    /// their slot, until a live read or the watch tells, or for [`Promises::expire`]. Each with the time since when.
    unsure: BTreeMap<Key, Timestamp>,
    /// Promises that were given back because no answer came for too long.
    expired: u64,
    /// True if something was given back since admission looked last.
    freed: bool,
}

impl Promises {
    /// What is in flight, by node.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// The same for [`Capacity::settle`](crate::capacity::Capacity::settle), which takes in what changed.
    pub(crate) fn ledger_mut(&mut self) -> &mut Ledger {
        &mut self.ledger
    }

    /// True if something was given back since this was called last.
    pub(crate) fn take_freed(&mut self) -> bool {
        std::mem::take(&mut self.freed)
    }

    /// How many promises were given back because no answer came for too long.
    pub(crate) fn expired(&self) -> u64 {
        self.expired
    }

    /// The ScavengerJobs that hold a start slot.
    pub fn starting(&self) -> &BTreeSet<Key> {
        &self.starting
    }

    /// True if the ScavengerJob holds a start slot.
    pub(crate) fn has_slot(&self, key: &Key) -> bool {
        self.starting.contains(key)
    }

    /// True while capacity is held for a ScavengerJob that is to start, or may have been started.
    pub(crate) fn is_made(&self, key: &Key) -> bool {
        self.starting.contains(key) || self.unsure.contains_key(key)
    }

    /// Admits a ScavengerJob: a start slot, and capacity for one pod on each of these nodes.
    pub fn admit(&mut self, key: &Key, per_pod: &Resources, nodes: Vec<Name>) {
        self.ledger.reserve(key, per_pod, nodes.into_iter().map(Some).collect());
        self.starting.insert(key.clone());
    }

    /// Brings what is promised to an active attempt in line with the pods that have turned up. `nodes` says where its
    /// pods would be placed now; it is asked once, after a restart, when nobody remembers what was promised: `recovered` is the
    /// attempt for which that was done.
    pub(crate) fn follow(
        &mut self,
        key: &Key,
        recovered: &mut Option<u32>,
        attempt: &Attempt,
        pods: &BTreeMap<Name, Arc<Pod>>,
        is_starting: bool,
        nodes: impl FnOnce(&Ledger) -> Option<Vec<Name>>,
    ) {
        // Its status says that it was started.
        self.unsure.remove(key);
        let (seen, left) = expected_pods(attempt, pods);
        if *recovered != Some(attempt.number) {
            *recovered = Some(attempt.number);
            if self.ledger.reserved_pods(key) == 0 && left > 0 {
                let places = match nodes(&self.ledger) {
                    Some(nodes) => nodes.into_iter().take(left).map(Some).collect(),
                    None => vec![None; left],
                };
                self.ledger.reserve(key, &attempt.demand.per_pod, places);
            }
        }
        self.shrink(key, left, &seen);
        // Once its pods have their nodes, the rest is the kubelet's: an image that cannot be pulled must not hold up
        // the starts of others.
        if is_starting && left > 0 {
            self.starting.insert(key.clone());
        } else {
            self.leave_slot(key);
        }
    }

    /// Gives back the slot and all capacity of a ScavengerJob without an active attempt, but for what pods of its last
    /// attempt may still take.
    pub(crate) fn end(&mut self, key: &Key, attempt: Option<&Attempt>, lingering: (Vec<Name>, usize)) {
        let (seen, left) = lingering;
        self.unsure.remove(key);
        if let Some(attempt) = attempt
            && left > 0
            && self.ledger.reserved_pods(key) == 0
        {
            // After a restart nobody remembers what was promised, and where.
            self.ledger.reserve(key, &attempt.demand.per_pod, vec![None; left]);
        }
        self.shrink(key, left, &seen);
        self.leave_slot(key);
    }

    /// Gives back everything.
    pub fn release(&mut self, key: &Key) {
        self.unsure.remove(key);
        self.starting.remove(key);
        self.ledger.release(key);
        self.freed = true;
    }

    /// The write of a start got no answer: if it was made, its status says Starting, the attempt goes on, and its
    /// capacity must not be given to somebody else. The slot is given back.
    pub(crate) fn doubt(&mut self, key: &Key, since: Timestamp) {
        self.unsure.entry(key.clone()).or_insert(since);
        self.leave_slot(key);
    }

    /// A live read shows that a start whose write got no answer was not written: it waits for its turn like all others.
    /// False if there was no doubt.
    pub(crate) fn settle_doubt(&mut self, key: &Key, is_written: bool) -> bool {
        let was_unsure = self.unsure.remove(key).is_some();
        if was_unsure && !is_written {
            self.ledger.release(key);
            self.freed = true;
            return true;
        }
        false
    }

    /// Gives back what is held for a start whose write got no answer, once its pods would have been given up, too.
    /// Should it turn out to be written after all, its capacity is reserved again, as after a restart.
    pub(crate) fn expire(&mut self, key: &Key, pending_timeout: SignedDuration, now: Timestamp) {
        let Some(since) = self.unsure.get(key) else { return };
        if now.duration_since(*since) < pending_timeout.saturating_add(UNSURE_SLACK) {
            return;
        }
        self.release(key);
        self.expired += 1;
    }

    fn leave_slot(&mut self, key: &Key) {
        self.freed |= self.starting.remove(key);
    }

    fn shrink(&mut self, key: &Key, left: usize, seen: &[Name]) {
        if self.ledger.reserved_pods(key) > left {
            self.ledger.shrink(key, left, seen);
            self.freed = true;
        }
    }

    /// Promises something to nobody, for tests of the check.
    #[cfg(test)]
    pub(crate) fn spoil(&mut self, key: &Key) {
        self.ledger.reserve(key, &Resources::default(), vec![None]);
    }
}

/// The nodes on which pods of the active attempt turned up (or had turned up before they ended), and how many of its
/// pods are still to be expected.
fn expected_pods(attempt: &Attempt, pods: &BTreeMap<Name, Arc<Pod>>) -> (Vec<Name>, usize) {
    let mut seen = Vec::new();
    let mut arrived = 0_usize;
    for pod in pods.values() {
        if pod.is_of(attempt.number) && (pod.node.is_some() || pod.phase.is_terminal()) {
            arrived += 1;
            seen.extend(pod.node.clone());
        }
    }
    (seen, (attempt.demand.pod_count as usize).saturating_sub(arrived))
}

/// The nodes on which pods of an attempt that has ended turned up, and how many of its pods may still be bound to a
/// node: its Job may not have been deleted yet, and kube-scheduler may be about to place a pod. `pods_seen` of them were ever
/// seen.
pub(crate) fn lingering_pods(
    attempt: &Attempt,
    jobs: &BTreeMap<Name, Arc<Job>>,
    pods: &BTreeMap<Name, Arc<Pod>>,
    pods_seen: usize,
) -> (Vec<Name>, usize) {
    let (seen, left) = expected_pods(attempt, pods);
    let unbound = pods.values().filter(|pod| pod.node.is_none() && !pod.phase.is_terminal()).count();
    let taken_away = matches!(attempt.outcome, Some(Outcome::Interrupted | Outcome::Withdrawn));
    match jobs.values().find(|job| job.attempt == attempt.number) {
        Some(job) if !job.deleting && !job.is_over() => (seen, left),
        // It is deleted and stays until its pods are gone; the watch of pods can be behind and not have shown one of
        // them yet.
        Some(job) if job.deleting || taken_away => {
            (seen, unbound + (attempt.demand.pod_count as usize).saturating_sub(pods_seen))
        }
        Some(_) | None => (seen, unbound),
    }
}

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
    /// Reserves capacity for one pod of `per_pod` on each of `places`, instead of what was reserved before.
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
    pub fn reserved_pods(&self, sj: &Key) -> usize {
        self.reservations.get(sj).map_or(0, |reservation| reservation.places.len())
    }

    /// What is reserved for each pod of a ScavengerJob that was not seen yet, and the node, where one is known.
    pub(crate) fn reserved_for(&self, sj: &Key) -> impl Iterator<Item = (Option<&Name>, &Resources)> {
        let reservation = self.reservations.get(sj).into_iter();
        reservation.flat_map(|one| one.places.iter().map(|place| (place.as_ref(), &one.per_pod)))
    }

    /// Everything that is reserved.
    pub fn total(&self) -> &Resources {
        &self.total
    }

    /// What is reserved on a node.
    pub fn promised(&self, node: &Name) -> Option<&Resources> {
        self.promised.get(node)
    }

    /// What is reserved for the ScavengerJobs of a namespace.
    pub fn promised_to(&self, namespace: &Name) -> Option<&Resources> {
        self.namespaces.get(namespace)
    }

    /// The nodes on which something changed since this was called last.
    pub(super) fn take_touched(&mut self) -> Vec<Name> {
        std::mem::take(&mut self.touched)
    }

    /// Every reservation: for whom, how much for each pod, and where.
    pub fn iter(&self) -> impl Iterator<Item = (&Key, &Resources, &[Option<Name>])> {
        self.reservations.iter().map(|(key, one)| (key, &one.per_pod, one.places.as_slice()))
    }

    /// Number of nodes on which something is reserved.
    pub fn promised_nodes(&self) -> usize {
        self.promised.len()
    }
}
