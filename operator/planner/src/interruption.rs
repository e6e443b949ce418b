//! One interruption by the planner, and the causes for which there is one: headroom, a pending ordinary pod,
//! and pressure on a node, reported or (see `measured`) measured. (Drain is a setting, looked at with every ScavengerJob.)
//!
//! An interruption takes three steps, each of which may be the last one before a crash:
//!
//! 1. The reason is written into the status, as the active attempt's disruption. From then on the attempt is going,
//!    whoever plans next.
//! 2. Its pods are evicted ([`Task::Interrupt`]): the same path as for anybody else who evicts.
//! 3. The pods show it, and the attempt ends as any other that was taken away, with the reason of step 1.
//!
//! A workload that ends by itself before step 2 has ended by itself.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use jiff::{SignedDuration, Timestamp};

use crate::{
    Attachments, Entry, Planner,
    action::{Action, Task},
    headroom::{self, Holder},
    lifecycle::{self, Known, Next},
    loss::Loss,
    owner,
    preemption::{self, Place, Victim},
    resources::Resources,
    snapshot::{Attempt, Disruption, Key, Name, Node, Outcome, Pod, PreemptionMode, Reason, Settings},
    verdict::{self, Ending},
};

/// True for a disruption that the planner decided, and that no pod may show yet.
#[must_use]
pub fn is_decision(disruption: &Disruption) -> bool {
    disruption.reason.is_operators_decision()
}

/// A decision to interrupt.
#[must_use]
pub fn decision(reason: Reason, message: String, now: Timestamp) -> Disruption {
    Disruption { time: now, reason, message, pod: "".into() }
}

/// The decision about the active attempt that is written down already.
fn decided(attempt: &Attempt) -> Option<&Disruption> {
    attempt.disruption.as_ref().filter(|disruption| is_decision(disruption))
}

/// What comes next for an attempt that the pods do not show to have ended: none if nobody wants to interrupt it.
#[must_use]
pub fn next(
    known: &Known<'_>,
    attempt: &Attempt,
    pods: &BTreeMap<Name, Arc<Pod>>,
    settings: &Result<Settings, String>,
    now: Timestamp,
) -> Option<Next> {
    let Some(decided) = decided(attempt) else {
        let drained = settings
            .as_ref()
            .is_ok_and(|settings| settings.drain)
            .then(|| decision(Reason::Drained, "the ScavengerPool is being drained".to_owned(), now));
        let decision = known.sentence.cloned().or(drained)?;
        let mut status = known.job.status.clone();
        status.message = format!("attempt {} is being interrupted: {}", attempt.number, decision.message);
        status.attempt = Some(Box::new(Attempt { disruption: Some(decision), ..attempt.clone() }));
        return Some(Next::Do(lifecycle::write(known, status, None, None)));
    };
    let there: Vec<(Key, Name)> = pods
        .values()
        .filter(|pod| evictable(pod))
        .filter(|pod| !known.memory.evicted.contains(&pod.uid))
        .map(|pod| (pod.key.clone(), pod.uid.clone()))
        .collect();
    if !there.is_empty() {
        return Some(Next::Do(Task::Interrupt { pods: there }));
    }
    if !pods.is_empty() {
        // Their next versions end the attempt.
        return Some(Next::Wait(None));
    }
    // There is nothing to evict; should the Job be there and make pods yet, it goes with them.
    let ending = Ending {
        outcome: verdict::taken_away(attempt, known.evidence),
        reason: decided.reason.clone(),
        message: decided.message.clone(),
        disruption: None,
    };
    Some(Next::Do(lifecycle::end(known, attempt, ending, settings, now)))
}

/// An ending in the light of what was decided before: the reason of an interruption is the planner's own, and a
/// workload that came to its end first was not interrupted.
#[must_use]
pub fn explained(attempt: &Attempt, mut ending: Ending) -> (Attempt, Ending) {
    let mut attempt = attempt.clone();
    if let Some(decided) = decided(&attempt) {
        if matches!(ending.outcome, Outcome::Interrupted | Outcome::Withdrawn) {
            ending.reason.clone_from(&decided.reason);
            ending.message.clone_from(&decided.message);
        } else {
            attempt.disruption = None;
        }
    }
    (attempt, ending)
}

/// Which ScavengerJobs hold room on which nodes, and which nodes are under pressure; kept up to date change by change.
#[derive(Debug, Default)]
pub(crate) struct Holders {
    nodes: BTreeMap<Key, BTreeSet<Name>>,
    pressed: BTreeMap<Name, Name>,
    /// Rises with every change of who is where.
    version: u64,
}

impl Holders {
    /// Takes in on which nodes a ScavengerJob's pods are.
    pub(crate) fn set(&mut self, job: &Key, nodes: BTreeSet<Name>) {
        let changed = if nodes.is_empty() {
            self.nodes.remove(job).is_some()
        } else if self.nodes.get(job) == Some(&nodes) {
            false
        } else {
            self.nodes.insert(job.clone(), nodes);
            true
        };
        self.version += u64::from(changed);
    }

    /// Takes in whether a node is under pressure.
    pub(crate) fn set_node(&mut self, node: &Node) {
        match &node.pressure {
            Some(pressure) => _ = self.pressed.insert(node.name.clone(), pressure.clone()),
            None => _ = self.pressed.remove(&node.name),
        }
    }

    /// Forgets a node.
    pub(crate) fn remove_node(&mut self, node: &Name) {
        self.pressed.remove(node);
    }
}

/// Pods that hold room on a node.
pub(crate) fn bound(pods: &BTreeMap<Name, Arc<Pod>>) -> impl Iterator<Item = (&Name, &Pod)> {
    let alive = pods.values().filter(|pod| !pod.phase.is_terminal());
    alive.filter_map(|pod| Some((pod.node.as_ref()?, &**pod)))
}

/// True for a pod that holds room and is not going yet.
pub(crate) fn evictable(pod: &Pod) -> bool {
    !pod.phase.is_terminal() && pod.deletion_requested.is_none()
}

/// A pending ordinary pod, and what was chosen for it: the node and who goes there; none if nothing helps.
#[derive(Debug)]
pub(crate) struct Served {
    pub(crate) pod: Key,
    pub(crate) choice: Option<(Name, Vec<Key>)>,
}

/// How long what is going may take beyond the grace period of its pods, or until their deletion is requested. A
/// deletion takes a second and the kubelet a few more to clean up; what takes longer hangs (a mount that does not
/// answer, a webhook that refuses every eviction), nobody knows for how long. Room that is given back so late is no room
/// that anybody should wait for, however it was promised.
const PATIENCE: SignedDuration = SignedDuration::from_secs(30);

/// How a ScavengerJob holds its room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It stays unless it is interrupted.
    Stays,
    /// It is giving its room back, by this time at the latest.
    Goes(Timestamp),
    /// It should have given its room back long ago, and nobody knows when it will.
    Hangs,
}

/// Whether a ScavengerJob that holds room is giving it back.
fn standing(entry: &Entry, attachments: &Attachments, drain: bool, now: Timestamp) -> Standing {
    if !is_going(entry, attachments, drain) {
        return Standing::Stays;
    }
    let attempt = entry.job.status.attempt.as_deref();
    let decided = entry.sentence.as_ref().map(|sentence| &sentence.1);
    let decided = decided.or(attempt.and_then(|attempt| attempt.disruption.as_ref()));
    let ended = attempt.and_then(|attempt| attempt.end_time);
    let since = decided.map(|decided| decided.time).max(ended).max(entry.memory.deleting_since);
    let due = |pod: &Pod| pod.deletion_due.or(pod.deletion_requested).or(since).unwrap_or(now);
    let last = bound(&attachments.pods).map(|(_, pod)| due(pod)).max();
    match lifecycle::later(last.unwrap_or(now), PATIENCE) {
        until if until > now => Standing::Goes(until),
        _ => Standing::Hangs,
    }
}

/// True if nobody has to be interrupted to make the ScavengerJob give its room back.
fn is_going(entry: &Entry, attachments: &Attachments, drain: bool) -> bool {
    let Some(attempt) = entry.job.status.active_attempt() else { return true };
    let sentenced = entry.sentence.as_ref().is_some_and(|sentence| sentence.0 == attempt.number);
    entry.job.deleting
        || drain
        || sentenced
        || attempt.disruption.is_some()
        || attachments.pods.values().any(|pod| {
            pod.owner.as_ref().is_some_and(|(_, number)| *number == attempt.number)
                && (pod.deletion_requested.is_some() || pod.disruption_target.is_some())
        })
}

impl Planner {
    /// Interrupts whom room, pressure or a waiting ordinary pod demands. Comes after every ScavengerJob about which
    /// something was seen was looked at, and before anybody starts.
    pub(crate) fn make_room(&mut self, now: Timestamp, actions: &mut Vec<Action>) {
        self.look_again = None;
        let Ok(settings) = &self.settings else { return };
        // Most plans end here.
        if self.holders.pressed.is_empty()
            && self.measured.is_idle()
            && self.preemption.is_idle(settings.preemption_mode)
            && settings.headroom.suffices(self.capacity.used_by_pods(), self.capacity.allocatable())
        {
            return;
        }
        let settings = settings.clone();
        self.relieve_pressure(&settings, now, actions);
        self.relieve_memory(&settings, now, actions);
        // First whom somebody waits for: it may make the headroom, too.
        let _served = self.serve_pending_pods(&settings, now, actions);
        self.keep_headroom(&settings, now, actions);
        self.look_again = self.last_hope(settings.drain, now);
    }

    /// When to look again at nodes where somebody counts on what is going.
    fn last_hope(&self, drain: bool, now: Timestamp) -> Option<Timestamp> {
        let reserved = self.preemption.reserved_nodes();
        let nodes: BTreeSet<&Name> = reserved.chain(self.measured.relieving()).collect();
        let jobs = nodes.into_iter().flat_map(|node| self.jobs_on(node).into_keys());
        let until = jobs.filter_map(|job| match self.standing_of(job, drain, now) {
            Standing::Goes(until) => Some(until),
            Standing::Stays | Standing::Hangs => None,
        });
        until.min()
    }

    pub(crate) fn standing_of(&self, job: &Key, drain: bool, now: Timestamp) -> Standing {
        let entry = self.jobs.get(job);
        let attachments = entry.and_then(|entry| self.attachments.get(&owner(&entry.job.uid, job)));
        match entry.zip(attachments) {
            Some((entry, attachments)) => standing(entry, attachments, drain, now),
            None => Standing::Hangs,
        }
    }

    fn relieve_pressure(&mut self, settings: &Settings, now: Timestamp, actions: &mut Vec<Action>) {
        let mut victims: Vec<(Loss, Key, String)> = Vec::new();
        for (node, pressure) in &self.holders.pressed {
            for job in self.jobs_on(node).into_keys() {
                if let Some(loss) = self.loss_of(job, settings, now) {
                    victims.push((loss, job.clone(), format!("node {node} reports {pressure}")));
                }
            }
        }
        victims.sort();
        victims.dedup_by(|a, b| a.1 == b.1);
        for (_, job, message) in victims {
            self.sentence(&job, Reason::NodePressure, message, now, actions);
        }
    }

    fn keep_headroom(&mut self, settings: &Settings, now: Timestamp, actions: &mut Vec<Action>) {
        let mut used = self.capacity.used_by_bound();
        if settings.headroom.suffices(&used, self.capacity.allocatable()) {
            return;
        }
        let mut holders = Vec::new();
        for job in self.holders.nodes.keys() {
            let held = self.held_in_pool(job);
            match self.loss_of(job, settings, now) {
                Some(loss) => holders.push(Holder { job: job.clone(), held, loss }),
                None if self.standing_of(job, settings.drain, now) == Standing::Hangs => {}
                None => used.subtract(&held),
            }
        }
        for (job, message) in
            headroom::choose(&used, self.capacity.allocatable(), &settings.headroom, holders)
        {
            self.sentence(&job, Reason::Headroom, message, now, actions);
        }
    }

    /// What a ScavengerJob's pods hold on nodes of the pool.
    fn held_in_pool(&self, job: &Key) -> Resources {
        let mut held = Resources::default();
        let attachments =
            self.jobs.get(job).and_then(|entry| self.attachments.get(&owner(&entry.job.uid, job)));
        let pods = attachments.into_iter().flat_map(|all| bound(&all.pods));
        for (_, pod) in pods.filter(|(node, _)| self.capacity.is_in_pool(node)) {
            held.add(&pod.requests);
        }
        held
    }

    /// The ScavengerJobs that have pods on a node, and what these hold there.
    pub(crate) fn jobs_on(&self, node: &Name) -> BTreeMap<&Key, Resources> {
        let mut jobs: BTreeMap<&Key, Resources> = BTreeMap::new();
        for pod in self.capacity.scavenger_pods(node) {
            // Anybody may write a foreign UID onto a pod of his own; in another namespace it belongs to nobody.
            let job = self.keys.get(pod.owner).filter(|job| job.namespace == pod.key.namespace);
            if let Some(job) = job {
                jobs.entry(job).or_default().add(pod.requests);
            }
        }
        jobs
    }

    /// What is lost if a ScavengerJob is interrupted; none if it is going anyway.
    pub(crate) fn loss_of(&self, job: &Key, settings: &Settings, now: Timestamp) -> Option<Loss> {
        let entry = self.jobs.get(job)?;
        let attachments = self.attachments.get(&owner(&entry.job.uid, job))?;
        let stays = !is_going(entry, attachments, settings.drain);
        stays.then(|| Loss::of(&entry.job, &settings.weights, settings.priority_steps, now))
    }

    pub(crate) fn sentence(
        &mut self,
        job: &Key,
        reason: Reason,
        message: String,
        now: Timestamp,
        actions: &mut Vec<Action>,
    ) {
        let Some(entry) = self.jobs.get_mut(job) else { return };
        let Some(attempt) = entry.job.status.active_attempt() else { return };
        entry.sentence = Some(Box::new((attempt.number, decision(reason, message, now))));
        self.visit(job, now, actions);
    }

    /// Reserves room for every pod that was not served yet and can be helped, and has interrupted who is in the way.
    pub(crate) fn serve_pending_pods(
        &mut self,
        settings: &Settings,
        now: Timestamp,
        actions: &mut Vec<Action>,
    ) -> Vec<Served> {
        if settings.preemption_mode != PreemptionMode::Operator {
            for pod in self.preemption.release_all() {
                self.capacity.set_pod(&pod);
            }
            return Vec::new();
        }
        for pod in self.preemption.reserved() {
            if !self.is_kept(&pod, now) {
                self.preemption.release(&pod.key);
                self.capacity.set_pod(&Pod { nominated_node: None, ..pod });
            }
        }
        let stamp = (self.capacity.epoch(), self.capacity.version(), self.holders.version);
        let mut hopeless = BTreeSet::new();
        let mut served = Vec::new();
        for pod in self.preemption.unserved(stamp) {
            let shape = (pod.requests.clone(), pod.placement.clone());
            let choice = if hopeless.contains(&shape) {
                None
            } else {
                preemption::choose(&pod.requests, self.places(&pod, settings, now))
            };
            served.push(Served { pod: pod.key.clone(), choice: choice.clone() });
            let Some((node, victims)) = choice else {
                hopeless.insert(shape);
                self.preemption.nothing_helps(&pod.key, stamp);
                continue;
            };
            let pod = self.preemption.reserve(pod, &node);
            self.capacity.set_pod(&pod);
            for job in victims {
                let message = format!("makes room for pod {} on node {node}", pod.uid);
                self.sentence(&job, Reason::PreemptedByOperator, message, now, actions);
            }
        }
        served
    }

    /// True if the room that is reserved for a pod is there, or will be when all that is going is gone. Somebody else
    /// may have been faster, what was going may hang, or the node went.
    fn is_kept(&self, pod: &Pod, now: Timestamp) -> bool {
        let Some(node) = &pod.nominated_node else { return false };
        // What it uses itself is part of what is used.
        self.room_on(node, pod, now)
            .is_some_and(|(free, _)| pod.requests.exceeds(&free.plus(&pod.requests)).is_none())
    }

    /// The nodes that would take a pod, with what is free there and who could be interrupted.
    fn places(&self, pod: &Pod, settings: &Settings, now: Timestamp) -> Vec<Place> {
        let mut places = Vec::new();
        for node in self.capacity.nodes() {
            let Some((free, staying)) = self.room_on(&node.name, pod, now) else { continue };
            let fits = pod.requests.exceeds(&free).is_none();
            let mut place = Place { node: node.name.clone(), free, victims: Vec::new() };
            if fits {
                // Nobody has to go.
                return vec![place];
            }
            let victims = staying.into_iter().filter_map(|(job, held)| {
                let loss = self.loss_of(job, settings, now)?;
                Some(Victim { job: job.clone(), held, loss })
            });
            place.victims = victims.collect();
            places.push(place);
        }
        places
    }

    /// What is free on a node that takes this pod, once all that is going is gone, and the ScavengerJobs there that
    /// stay, with what they hold there.
    fn room_on(
        &self,
        node: &Name,
        pod: &Pod,
        now: Timestamp,
    ) -> Option<(Resources, BTreeMap<&Key, Resources>)> {
        let room = self.capacity.node(node).filter(|room| room.node.usable)?;
        if !pod.placement.admits(room.node) {
            return None;
        }
        let drain = self.settings.as_ref().is_ok_and(|settings| settings.drain);
        let mut free = room.node.allocatable.minus(room.used);
        if let Some(promised) = self.ledger.promised(node) {
            free.subtract(promised);
        }
        let mut jobs = self.jobs_on(node);
        jobs.retain(|job, held| {
            let standing = self.standing_of(job, drain, now);
            if matches!(standing, Standing::Goes(_)) {
                free.add(held);
            }
            standing == Standing::Stays
        });
        Some((free, jobs))
    }
}
