//! The pure planner of ScavengerJobs: what is seen goes in, actions come out.
//!
//! [`Planner::observe`] takes in one thing that was seen, [`Planner::plan`] says what is to be done now. There is no
//! I/O, no clock, no randomness and no concurrency in here, so the same code runs in the operator, in tests and in a
//! simulator. The rules, each in one place:
//!
//! | rule | where |
//! |---|---|
//! | how what is seen enters the view | `view` |
//! | how the answers of actions do | `answers` |
//! | what is next for one ScavengerJob; which outcome leads to which phase | [`lifecycle`] |
//! | what can keep an attempt from starting, and whose fault that is | `starting` |
//! | whether the workload ended an attempt or was taken away | [`verdict`] |
//! | what the API server's refusals mean | [`refusal`] |
//! | how long to wait before the next attempt | [`backoff`] |
//! | who starts next | [`admission`] |
//! | what room there is | [`capacity`], with an index over all nodes in `places` |
//! | where volumes let pods go | `volumes` |
//! | what is in flight | [`ledger`] |
//! | the running priority | [`priority`] |
//! | what an interruption would throw away: the order in which they go | [`loss`] |
//! | how an attempt is interrupted | [`interruption`] |
//! | who goes before others need the room | [`headroom`] |
//! | who goes when a node really uses too much memory | `measured` |
//! | who goes for a pending ordinary pod | [`preemption`] |
//! | who goes for it while no operator works | [`guard`] |
//! | which action goes first while many wait | [`urgency`] |
//!
//! Work is proportional to what changed: a plan looks at ScavengerJobs about which something was seen, at timers that
//! are due, and at the heads of the queue's lines. At most one action per ScavengerJob is under way; until its result
//! is observed nothing else is planned for it, so a stale view can not make the planner act twice.

pub mod action;
pub mod admission;
mod answers;
pub mod backoff;
pub mod capacity;
pub mod check;
#[cfg(any(test, feature = "fixtures"))]
pub mod fixtures;
pub mod guard;
pub mod headroom;
pub mod interruption;
pub mod ledger;
pub mod lifecycle;
pub mod loss;
mod measured;
pub mod memory;
mod places;
pub mod preemption;
pub mod priority;
pub mod refusal;
pub mod resources;
mod shared;
pub mod snapshot;
mod starting;
pub mod urgency;
pub mod verdict;
mod view;
mod volumes;
mod wording;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use jiff::{SignedDuration, Timestamp};

use action::{Action, Failure, Task};
use admission::{Queue, Room, Starting};
use capacity::Capacity;
use interruption::Holders;
use ledger::Ledger;
use lifecycle::{Known, Next, Telling};
use measured::Measured;
use memory::Remembered;
use preemption::Preemption;
use shared::Shared;
use snapshot::{
    Child, Demand, Disruption, Job, Key, Name, Observation, Phase, Pod, Settings, WaitReason, Waiting,
};
use verdict::Evidence;
use volumes::Volumes;

/// So many ScavengerJobs are told at the same time why they wait, those aside that are first of their line.
const TOLD_AT_ONCE: usize = 16;

/// So much longer than pods may stay unscheduled is room held for a start of which nobody knows whether it was written.
const UNSURE_SLACK: SignedDuration = SignedDuration::from_secs(30);

/// What is to be done now.
#[derive(Debug, Default)]
pub struct Plan {
    /// Actions, at most one per ScavengerJob.
    pub actions: Vec<Action>,
    /// When to plan again if nothing is seen until then.
    pub wake_at: Option<Timestamp>,
}

/// How many ScavengerJobs are where.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    /// By phase.
    pub phases: BTreeMap<Phase, usize>,
    /// Those that wait, by reason.
    pub waiting: BTreeMap<WaitReason, usize>,
}

/// One ScavengerJob in the view.
#[derive(Debug)]
struct Entry {
    job: Job,
    memory: Remembered,
    /// When its status was last written by this planner, or first found to have grown old.
    told: Option<Timestamp>,
    /// True while an action for it is under way.
    under_way: bool,
    /// Why nothing may be done right now, although something could be.
    pause: Option<Pause>,
    timer: Option<Timestamp>,
    /// The attempt for which room was reserved after a restart, so that it is done once.
    recovered: Option<u32>,
    /// What it asked for when room was reserved; the spec may be replaced until the start is written.
    reserved_for: Option<Box<Demand>>,
    /// A status that must be written because an action was refused for good.
    refused: Option<Failure>,
    counted: Option<(Phase, Option<WaitReason>)>,
    /// Why an attempt of this number is to be interrupted, until the status says so.
    sentence: Option<Box<(u32, Disruption)>>,
}

/// A wait that is not part of the ScavengerJob's own life.
#[derive(Debug, Clone, Copy)]
struct Pause {
    /// Failed actions in a row.
    failures: u32,
    until: Timestamp,
    /// True after a conflict: the version that caused it ends the pause.
    ends_with_change: bool,
}

/// UID and namespace of a ScavengerJob, as its child Jobs and pods tell them. Anybody may write a foreign UID onto a pod
/// of his own; in another namespace it belongs to nobody.
type Owner = (Name, Name);

/// Child Jobs and pods of one ScavengerJob; they may be seen before it.
#[derive(Debug, Default)]
struct Attachments {
    children: BTreeMap<Name, Arc<Child>>,
    pods: BTreeMap<Name, Arc<Pod>>,
    evidence: BTreeMap<u32, Box<Evidence>>,
    /// UID of the child Job that was last seen to go: a late answer must not bring it back.
    gone_child: Option<Name>,
    /// UID of a child Job that an answer showed and the watch did not yet, and when. If it goes in a gap of the watch,
    /// nobody will ever say so.
    unwatched_child: Option<(Name, Timestamp)>,
}

impl Attachments {
    /// True if only answers showed this child Job so far.
    fn is_unwatched(&self, child: &Name) -> bool {
        self.unwatched_child.as_ref().is_some_and(|(uid, _)| uid == child)
    }
}

/// The view of the cluster and the rules over it.
#[derive(Debug)]
pub struct Planner {
    settings: Result<Settings, String>,
    capacity: Capacity,
    ledger: Ledger,
    holders: Holders,
    preemption: Preemption,
    volumes: Volumes,
    measured: Measured,
    queue: Queue,
    /// Boxed, as what is large and one of many: a tree keeps room for several in each node.
    jobs: BTreeMap<Key, Box<Entry>>,
    keys: BTreeMap<Name, Key>,
    attachments: BTreeMap<Owner, Box<Attachments>>,
    namespaces: Shared<str>,
    demands: Shared<Demand>,
    /// UID of the ScavengerJob of each pod that belongs to one.
    pod_owners: BTreeMap<Key, Name>,
    pod_epoch: u64,
    /// Pods that a live list showed and the watch did not yet. If they go in a gap of the watch, nobody will ever say
    /// so; its next list is what counts.
    unwatched_pods: BTreeSet<Key>,
    dirty: BTreeSet<Key>,
    timers: BTreeSet<(Timestamp, Key)>,
    /// ScavengerJobs that are admitted and whose pods do not all have a node yet.
    starting: BTreeSet<Key>,
    /// ScavengerJobs whose status may say Starting: it was written, but no answer came. They keep their room, not their
    /// turn, until a live read or the watch tells, or for [`Planner::expire`]. Each with the time since when.
    unsure: BTreeMap<Key, Timestamp>,
    /// Reservations that were given back because nobody told.
    expired: u64,
    /// Newcomers of the queue that were not told yet why they wait.
    untold: BTreeSet<Key>,
    /// ScavengerJobs that are being told.
    telling: BTreeSet<Key>,
    counts: Counts,
    seen_version: u64,
    walk_due: bool,
    /// When what is going, and somebody counts on, should be gone at the latest.
    look_again: Option<Timestamp>,
}

impl Default for Planner {
    fn default() -> Self {
        Self {
            settings: Err("the ScavengerPool \"default\" does not exist; an admin must create it".to_owned()),
            capacity: Capacity::default(),
            ledger: Ledger::default(),
            holders: Holders::default(),
            preemption: Preemption::default(),
            volumes: Volumes::default(),
            measured: Measured::default(),
            queue: Queue::default(),
            jobs: BTreeMap::new(),
            keys: BTreeMap::new(),
            attachments: BTreeMap::new(),
            namespaces: Shared::default(),
            demands: Shared::default(),
            pod_owners: BTreeMap::new(),
            pod_epoch: 0,
            unwatched_pods: BTreeSet::new(),
            dirty: BTreeSet::new(),
            timers: BTreeSet::new(),
            starting: BTreeSet::new(),
            unsure: BTreeMap::new(),
            expired: 0,
            untold: BTreeSet::new(),
            telling: BTreeSet::new(),
            counts: Counts::default(),
            seen_version: 0,
            walk_due: false,
            look_again: None,
        }
    }
}

impl Planner {
    /// Takes in one thing that was seen at `now`.
    pub fn observe(&mut self, observation: Observation, now: Timestamp) {
        match observation {
            Observation::Job(job) => self.set_job(*job),
            Observation::JobGone(key) => self.remove_job(&key),
            Observation::Child(child) => {
                let attachments = self.attachments.entry(owner(&child.owner, &child.key)).or_default();
                attachments.unwatched_child.take_if(|(uid, _)| *uid == child.uid);
                self.set_child(child);
            }
            Observation::ChildGone { namespace, owner, uid } => self.remove_child(&(owner, namespace), &uid),
            Observation::Pod(pod) => {
                self.unwatched_pods.remove(&pod.key);
                self.set_pod(*pod, now);
            }
            Observation::PodGone(key) => self.remove_pod(&key),
            Observation::PodsRelisted => {
                self.pod_epoch += 1;
                for pod in std::mem::take(&mut self.unwatched_pods) {
                    self.remove_pod(&pod);
                }
            }
            Observation::Node(mut node) => {
                node.full = self.measured.is_full(&node.name);
                self.holders.set_node(&node);
                self.capacity.set_node(node, self.settings.as_ref().ok());
            }
            Observation::NodeGone(name) => {
                self.holders.remove_node(&name);
                self.capacity.remove_node(&name);
            }
            Observation::Volume(volume) => self.set_volume(volume),
            Observation::VolumeGone(name) => self.remove_volume(&name),
            Observation::Usage(usage) => self.set_usage(usage),
            Observation::Pool(settings) => {
                if self.settings != *settings {
                    self.settings = *settings;
                    self.capacity.set_settings(self.settings.as_ref().ok());
                    self.dirty.extend(self.jobs.keys().cloned());
                }
            }
            Observation::Done(result) => self.done(result),
        }
    }

    /// Says what is to be done now.
    pub fn plan(&mut self, now: Timestamp) -> Plan {
        let mut plan = Plan::default();
        while let Some((time, key)) = self.timers.first().cloned() {
            if time > now {
                break;
            }
            self.timers.remove(&(time, key.clone()));
            if let Some(entry) = self.jobs.get_mut(&key) {
                entry.timer = None;
            }
            self.dirty.insert(key);
        }
        while let Some(key) = self.dirty.pop_first() {
            self.visit(&key, now, &mut plan.actions);
        }
        self.make_room(now, &mut plan.actions);
        self.admit(now, &mut plan.actions);
        self.tell_newcomers(now, &mut plan.actions);
        plan.wake_at = self.timers.first().map(|(time, _)| *time).into_iter().chain(self.look_again).min();
        plan
    }

    /// How many ScavengerJobs are where.
    #[must_use]
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// How many are before a ScavengerJob in the queue of those that may start, and how many there are; none if it is
    /// not in it.
    #[must_use]
    pub fn place_in_queue(&self, job: &Key) -> Option<(usize, usize)> {
        self.queue.place(job)
    }

    /// The room there is.
    #[must_use]
    pub fn capacity(&self) -> &Capacity {
        &self.capacity
    }

    /// What is in flight.
    #[must_use]
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Pending ordinary pods and the room that is made for them.
    #[must_use]
    pub fn preemption(&self) -> &Preemption {
        &self.preemption
    }

    /// Settings in force, or why nothing is admitted.
    ///
    /// # Errors
    /// A sentence for people.
    pub fn settings(&self) -> Result<&Settings, &str> {
        self.settings.as_ref().map_err(String::as_str)
    }

    /// How many reservations were given back because it was not known for too long whether they were needed.
    #[must_use]
    pub fn expired_reservations(&self) -> u64 {
        self.expired
    }

    /// Gives back what is held for a start of which nobody knows whether it was written, once its pods would have been
    /// given up, too. Should it turn out to be written after all, its room is reserved anew, as after a restart.
    fn expire(&mut self, key: &Key, now: Timestamp) {
        let (Some(since), Ok(settings)) = (self.unsure.get(key), &self.settings) else { return };
        if now < lifecycle::later(lifecycle::later(*since, settings.pending_timeout), UNSURE_SLACK) {
            return;
        }
        self.unsure.remove(key);
        self.ledger.release(key);
        self.expired += 1;
        self.walk_due = true;
    }

    /// Decides about one ScavengerJob.
    fn visit(&mut self, key: &Key, now: Timestamp, actions: &mut Vec<Action>) {
        self.expire(key, now);
        let Some(entry) = self.jobs.get_mut(key) else { return };
        if entry.job.deleting {
            entry.memory.deleting_since.get_or_insert(now);
        }
        let none = Attachments::default();
        let no_evidence = Evidence::default();
        let attachments =
            self.attachments.get(&owner(&entry.job.uid, key)).map_or(&none, |attachments| attachments);
        let number = entry.job.status.attempt.as_ref().map(|attempt| attempt.number);
        let evidence = number
            .and_then(|number| attachments.evidence.get(&number))
            .map_or(&no_evidence, |evidence| evidence);

        let nodes = interruption::bound(&attachments.pods).map(|(node, _)| node.clone()).collect();
        self.holders.set(key, nodes);
        // Room first: what is reserved follows from what is known, whatever comes next.
        let active = entry.job.status.active_attempt().is_some() && !entry.job.deleting;
        if let Some(attempt) = entry.job.status.attempt.as_ref().filter(|_| active) {
            self.unsure.remove(key);
            let (seen, left) = lifecycle::expected_pods(attempt, &attachments.pods);
            if entry.recovered != Some(attempt.number) {
                entry.recovered = Some(attempt.number);
                if self.ledger.reserved_pods(key) == 0 && left > 0 {
                    // After a restart: promised, but nobody remembers where.
                    let places = match self.capacity.nodes_for(&attempt.demand, &self.ledger) {
                        Ok(nodes) => nodes.into_iter().take(left).map(Some).collect(),
                        Err(_) => vec![None; left],
                    };
                    self.ledger.reserve(key, &attempt.demand.per_pod, places);
                }
            }
            if self.ledger.reserved_pods(key) > left {
                self.ledger.shrink(key, left, &seen);
                self.walk_due = true;
            }
            // Once its pods have their nodes, the rest is the kubelet's: an image that can not be pulled must not hold up
            // the starts of others.
            if entry.job.status.phase == Phase::Starting && left > 0 {
                self.starting.insert(key.clone());
            } else if self.starting.remove(key) {
                self.walk_due = true;
            }
        }
        if entry.under_way {
            return;
        }
        let reserved = (self.starting.contains(key) || self.unsure.contains_key(key))
            && entry.job.spec.as_ref().is_ok_and(|spec| entry.reserved_for.as_deref() == Some(&*spec.demand));
        let known = Known {
            job: &entry.job,
            children: &attachments.children,
            unwatched_child: attachments.unwatched_child.as_ref(),
            pods: &attachments.pods,
            evidence,
            memory: &entry.memory,
            told: entry.told,
            has_reservation: !active && reserved,
            lost_node: attachments
                .pods
                .values()
                .filter(|pod| !pod.phase.is_terminal())
                .filter_map(|pod| pod.node.as_ref())
                .find(|node| !self.capacity.is_ready(node)),
            sentence: entry
                .sentence
                .as_ref()
                .filter(|sentence| Some(sentence.0) == number)
                .map(|sentence| &sentence.1),
        };
        if let Some(pause) = entry.pause.filter(|pause| pause.until > now) {
            self.queue.remove(key, &mut self.capacity);
            self.set_timer(key, Some(pause.until));
            return;
        }
        let next = next_after(entry.refused.take(), &known, &self.settings, now);
        let hold = |waiting: &Waiting, timer: Option<Timestamp>| match lifecycle::hold(&known, waiting, now) {
            Telling::Said => (None, timer, false),
            Telling::Now(task) => (Some(task), timer, false),
            Telling::Later(time) => (None, timer.into_iter().chain([time]).min(), true),
        };
        let (task, timer, grows_old) = match &next {
            Next::Do(task) => (Some(task.clone()), None, false),
            Next::Wait(timer) => (None, *timer, false),
            Next::Held(waiting, timer) => hold(waiting, *timer),
            Next::GiveBack(waiting, time) => hold(waiting, Some(*time)),
            Next::Candidate => (None, None, false),
        };
        if grows_old {
            entry.told.get_or_insert(now);
        }
        // A started attempt keeps its reservation until its pods are seen; preparing needs it too.
        let keeps = active || matches!(next, Next::Do(Task::Prepare { .. })) || starts(&next);
        if let Next::GiveBack(_, time) = &next {
            entry.memory.prepared = None;
            // Until then it is no candidate.
            entry.pause = Some(Pause { failures: 0, until: *time, ends_with_change: false });
        }
        if matches!(next, Next::Candidate) {
            if let Ok(spec) = &entry.job.spec {
                let (job, demand) = (&entry.job, &spec.demand);
                self.queue.insert(job, demand, &mut self.capacity);
            }
            self.untold.insert(key.clone());
            self.walk_due = true;
        } else {
            self.queue.remove(key, &mut self.capacity);
            self.untold.remove(key);
        }
        if !keeps {
            self.unsure.remove(key);
            // An attempt that ended keeps what its pods may still take.
            let (seen, left) = entry.job.status.attempt.as_ref().map_or((Vec::new(), 0), |attempt| {
                lifecycle::lingering_pods(attempt, &attachments.children, &attachments.pods, evidence)
            });
            let more = self.ledger.reserved_pods(key) > left;
            if more {
                self.ledger.shrink(key, left, &seen);
            }
            if self.starting.remove(key) || more {
                self.walk_due = true;
            }
        }
        match task {
            Some(task) => self.dispatch(key, task, actions),
            None => self.set_timer(key, timer),
        }
    }

    /// Starts whom there is room for, and tells the others why they wait.
    fn admit(&mut self, now: Timestamp, actions: &mut Vec<Action>) {
        if self.seen_version != self.capacity.version() {
            self.seen_version = self.capacity.version();
            self.walk_due = true;
        }
        // Others ask for the room there is, whether anybody may start or not.
        self.capacity.settle(&mut self.ledger);
        let Ok(settings) = &self.settings else { return };
        if !self.walk_due {
            return;
        }
        self.walk_due = false;
        let failed = |key: &&Key| self.jobs.get(*key).is_some_and(|entry| entry.job.status.failed_starts > 0);
        let starting =
            Starting { all: self.starting.len(), failed: self.starting.iter().filter(failed).count() };
        let mut room = Room { capacity: &mut self.capacity, ledger: &mut self.ledger, settings, now };
        let walk = self.queue.walk(&mut room, starting);
        for (key, demand) in walk.started {
            self.starting.insert(key.clone());
            if let Some(entry) = self.jobs.get_mut(&key) {
                entry.memory.prepared = None;
                entry.reserved_for = Some(demand.into());
                // Being told why it waits: it is prepared when that answer comes.
                if !entry.under_way {
                    let resource_version = entry.job.resource_version;
                    self.dispatch(&key, Task::Prepare { resource_version }, actions);
                }
            }
        }
        for key in walk.told {
            self.untold.remove(&key);
            self.tell(&key, now, actions);
        }
    }

    /// Tells those that came into the queue why they wait, a few at a time: it must not take the API server from those
    /// that start, and many start before their turn to be told has come.
    fn tell_newcomers(&mut self, now: Timestamp, actions: &mut Vec<Action>) {
        while self.telling.len() < TOLD_AT_ONCE
            && let Some(key) = self.untold.pop_first()
        {
            self.tell(&key, now, actions);
        }
    }

    fn tell(&mut self, key: &Key, now: Timestamp, actions: &mut Vec<Action>) {
        let Ok(settings) = &self.settings else { return };
        let mut room = Room { capacity: &mut self.capacity, ledger: &mut self.ledger, settings, now };
        let Some(waiting) = &self.queue.waiting(key, &mut room, self.starting.len()) else { return };
        let Some(entry) = self.jobs.get(key).filter(|entry| !entry.under_way) else { return };
        let none = Attachments::default();
        let known = Known {
            job: &entry.job,
            children: &none.children,
            unwatched_child: None,
            pods: &none.pods,
            evidence: &Evidence::default(),
            memory: &entry.memory,
            told: entry.told,
            has_reservation: false,
            lost_node: None,
            sentence: None,
        };
        match lifecycle::hold(&known, waiting, now) {
            // The walk tells only what is new about a line, so the figures of its head are looked at again by the clock.
            Telling::Said if waiting.reason == WaitReason::NoRoom => {
                self.set_timer(key, Some(now + lifecycle::RETELL));
            }
            Telling::Said => {}
            Telling::Now(task) => {
                self.telling.insert(key.clone());
                self.dispatch(key, task, actions);
            }
            Telling::Later(time) => {
                if let Some(entry) = self.jobs.get_mut(key) {
                    entry.told.get_or_insert(now);
                }
                self.set_timer(key, Some(time));
            }
        }
    }

    fn dispatch(&mut self, key: &Key, task: Task, actions: &mut Vec<Action>) {
        self.set_timer(key, None);
        let Some(entry) = self.jobs.get_mut(key) else { return };
        entry.under_way = true;
        let asks_why = matches!(task, Task::ListPods { child: Some(_) });
        if entry.memory.asks_why != asks_why {
            entry.memory.asks_why = asks_why;
        }
        actions.push(Action { job: key.clone(), uid: entry.job.uid.clone(), task });
    }

    fn set_timer(&mut self, key: &Key, time: Option<Timestamp>) {
        let Some(entry) = self.jobs.get_mut(key) else { return };
        if entry.timer == time {
            return;
        }
        if let Some(old) = entry.timer.take() {
            self.timers.remove(&(old, key.clone()));
        }
        if let Some(time) = time {
            entry.timer = Some(time);
            self.timers.insert((time, key.clone()));
        }
    }

    fn count(&mut self, key: &Key) {
        self.uncount(key);
        let Some(entry) = self.jobs.get_mut(key) else { return };
        let status = &entry.job.status;
        let reason = status
            .admitted
            .as_ref()
            .and_then(|admitted| admitted.waiting.as_ref())
            .map(|waiting| waiting.reason);
        entry.counted = Some((status.phase, reason));
        *self.counts.phases.entry(status.phase).or_default() += 1;
        if let Some(reason) = reason {
            *self.counts.waiting.entry(reason).or_default() += 1;
        }
    }

    fn uncount(&mut self, key: &Key) {
        let Some((phase, reason)) = self.jobs.get_mut(key).and_then(|entry| entry.counted.take()) else {
            return;
        };
        if let Some(count) = self.counts.phases.get_mut(&phase) {
            *count = count.saturating_sub(1);
        }
        if let Some(count) = reason.and_then(|reason| self.counts.waiting.get_mut(&reason)) {
            *count = count.saturating_sub(1);
        }
    }
}

/// Whom a child Job or a pod names as its ScavengerJob.
fn owner(uid: &Name, of: &Key) -> Owner {
    (uid.clone(), of.namespace.clone())
}

/// What is next, if an action was refused for good or none was.
fn next_after(
    refused: Option<Failure>,
    known: &Known<'_>,
    settings: &Result<Settings, String>,
    now: Timestamp,
) -> Next {
    match refused {
        Some(Failure::NameTaken(message)) => {
            Next::Do(lifecycle::fail(known, verdict::reason::NAME_TAKEN, message, now))
        }
        Some(Failure::QuotaExceeded(message)) => match lifecycle::quota_exceeded(known, message, now) {
            Some(task) => Next::Do(task),
            None => lifecycle::next(known, settings, now),
        },
        Some(Failure::Refused(message)) => {
            Next::Do(lifecycle::fail(known, verdict::reason::REFUSED, message, now))
        }
        _ => lifecycle::next(known, settings, now),
    }
}

/// True if the next thing is the status write that starts an attempt.
fn starts(next: &Next) -> bool {
    matches!(next, Next::Do(Task::WriteStatus(write)) if write.status.phase == Phase::Starting)
}
