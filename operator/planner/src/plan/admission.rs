//! Admission: who starts, for which the queue is walked along.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::Planner;
use crate::{
    backoff::{self, needs::Needs, start_failures::Doubt},
    facts::tracked::Tracked,
    faults::supervisor,
    lifecycle::starting,
    queue::{Context, Started, Starting},
    values::{
        Ending, Key, Reason, Waiting, WaitingReason,
        action::{Action, Task},
    },
};

impl Planner {
    /// Starts whom there is capacity for, and informs the others why they wait.
    pub(crate) fn admit(&mut self, now: Timestamp, actions: &mut Vec<Action>) -> Vec<Key> {
        let changed = self.seen_version != self.capacity.version();
        self.seen_version = self.capacity.version();
        self.follow_probes(now);
        let is_due = self.walk_due
            | self.promises.take_freed()
            | self.queue.take_changed()
            | self.queue.opens(now)
            | changed;
        // Others ask for the capacity there is, whether anybody may start or not.
        self.capacity.settle(self.promises.ledger_mut());
        self.walk_due = is_due;
        let Ok(settings) = &self.settings else { return Vec::new() };
        if !is_due {
            return Vec::new();
        }
        self.walk_due = false;
        let failed = |key: &&Key| {
            self.seen.get(key).is_some_and(|tracked| tracked.sj().status.failed_starts > 0)
                || self.queue.is_probe(key)
        };
        let starting = self.promises.starting();
        let starting = Starting { all: starting.len(), failed: starting.iter().filter(failed).count() };
        let (capacity, promises, shares) = (&mut self.capacity, &mut self.promises, &mut self.shares);
        let mut context = Context { capacity, promises, shares, settings, now };
        let walk = self.queue.walk(&mut context, starting);
        let mut admitted = Vec::new();
        let is_new = |key: &&Key| walk.started.iter().any(|started| started.sj == **key);
        let before = self.promises.starting().iter().filter(|key| !is_new(key));
        let mut taken: BTreeSet<Key> = match walk.started.is_empty() {
            true => BTreeSet::new(),
            false => before.flat_map(|key| self.seen.claims_to_attach(key)).collect(),
        };
        for Started { sj: key, demand } in walk.started {
            // The walk knows nothing of claims and folders: of those that share a claim that is mounted nowhere yet, or a
            // folder, the first starts.
            let claims = self.seen.claims_to_attach(&key);
            if claims.iter().any(|claim| taken.contains(claim)) || self.folders.user_beside(&key).is_some() {
                self.promises.release(&key);
                self.visit(&key, now, actions);
                continue;
            }
            taken.extend(claims);
            self.follow_folder(&key);
            if let Some(tracked) = self.seen.get_mut(&key) {
                tracked.memory.prepared = None;
                tracked.promise.made_for(demand);
                // Being informed why it waits: it is prepared when that answer comes.
                if !tracked.turn.is_under_way() {
                    let resource_version = tracked.sj().resource_version;
                    self.dispatch(&key, Task::Prepare { resource_version }, actions);
                }
            }
            admitted.push(key);
        }
        for key in walk.to_report {
            if let Some(tracked) = self.seen.get_mut(&key) {
                self.informing.add(&key, &mut tracked.reported, now);
            }
        }
        admitted
    }

    /// The active attempt is to be withdrawn: what that says of others in its namespace.
    pub(super) fn note_withdrawal(&mut self, key: &Key, ending: &Ending, waiting: &Waiting, now: Timestamp) {
        self.note_pods_not_started(key, ending, now);
        let Some(sj) = self.seen.get(key).map(Tracked::sj) else { return };
        let Some(attempt) = sj.ongoing_attempt() else { return };
        let must_request = starting::must_request(attempt, &ending.message);
        if waiting.reason == WaitingReason::Refused {
            self.queue.deny(key, sj.spec_hash, waiting, &self.capacity, now);
        } else if backoff::blocks_others(waiting.reason) {
            let claims = self.seen.claims_without_volume(sj);
            self.queue.refuse(key, (&attempt.demand, &claims), waiting, &self.capacity, now);
        }
        if must_request {
            self.by_requests.refused(&key.namespace, now);
            self.set_by_requests(&key.namespace, true);
        }
    }

    /// The active attempt is to be withdrawn: what the pods that were not started say of their nodes, or of the
    /// supervisor in their namespace.
    fn note_pods_not_started(&mut self, key: &Key, ending: &Ending, now: Timestamp) {
        let Self { seen, start_failures, supervisors, .. } = self;
        let Some((tracked, attachments)) = seen.get(key).zip(seen.attachments(key)) else { return };
        let sj = tracked.sj();
        let Some((attempt, needs)) = sj.ongoing_attempt().zip(Needs::of(sj)) else { return };
        let waiting = attachments.pods.values().filter(|pod| pod.is_of(attempt.number) && pod.waits());
        let is_of_node = match ending.reason {
            Reason::SupervisorNotStarted => false,
            Reason::ContainerNotCreated | Reason::NodeFailure => true,
            _ => return,
        };
        let has_run = sj.has_run_as_specified();
        let of_supervisor = Needs::of_supervisor(&key.namespace);
        let mut changed = Vec::new();
        for (pod, node) in waiting.filter_map(|pod| Some((pod, pod.node.as_ref()?))) {
            let why = supervisor::not_created(pod);
            let needs = if why.is_some() { &of_supervisor } else { &needs };
            match why {
                Some(why) if start_failures.doubt(node, needs, now) == Doubt::None => {
                    supervisors.failed(pod, &why, now);
                }
                None if !is_of_node => {}
                _ => changed.extend(start_failures.withdrawn(pod, &ending.message, (needs, has_run), now)),
            }
        }
        self.close_or_open(&changed);
    }

    /// Tells the queue of the probes that are over: their namespaces took all of their pods, or something else came in
    /// between. (Refusals are reported at once.)
    fn follow_probes(&mut self, now: Timestamp) {
        let over = |sj: &&Key| !self.promises.has_slot(sj);
        let over: Vec<Key> = self.queue.probes().filter(over).cloned().collect();
        for sj in over {
            let is_active =
                self.seen.get(&sj).is_some_and(|tracked| tracked.sj().ongoing_attempt().is_some());
            self.queue.probed(&sj, is_active, now);
        }
    }
}
