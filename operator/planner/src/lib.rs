//! The pure planner of ScavengerJobs: what is seen goes in, actions come out.
//!
//! [`Planner::observe`] takes in one thing that was seen, [`Planner::plan`] says what is to be done now. There is no
//! I/O, no clock, no randomness and no concurrency in here, so the same code runs in the operator, in tests and in a
//! simulator. The rules, each in one place:
//!
//! | rule | where |
//! |---|---|
//! | what is next for one ScavengerJob; which outcome leads to which phase | [`lifecycle`] |
//! | what can keep an attempt from starting, and whose fault that is | `starting` |
//! | whether the workload ended an attempt or was taken away | [`verdict`] |
//! | what the API server's refusals mean | [`refusal`] |
//! | how long to wait before the next attempt | [`backoff`] |
//! | who starts next | [`admission`] |
//! | what room there is | [`capacity`], with an index over all nodes in `places` |
//! | what is in flight | [`ledger`] |
//! | the running priority | [`priority`] |
//! | what an interruption would throw away: the order in which they go | [`loss`] |
//! | how an attempt is interrupted | [`interruption`] |
//! | who goes before others need the room | [`headroom`] |
//! | who goes for a pending ordinary pod | [`preemption`] |
//!
//! Work is proportional to what changed: a plan looks at ScavengerJobs about which something was seen, at timers that
//! are due, and at the heads of the queue's lines. At most one action per ScavengerJob is under way; until its result
//! is observed nothing else is planned for it, so a stale view can not make the planner act twice.

pub mod action;
pub mod admission;
pub mod backoff;
pub mod capacity;
#[cfg(any(test, feature = "fixtures"))]
pub mod check;
#[cfg(any(test, feature = "fixtures"))]
pub mod fixtures;
pub mod headroom;
pub mod interruption;
pub mod ledger;
pub mod lifecycle;
pub mod loss;
mod places;
pub mod preemption;
pub mod priority;
pub mod refusal;
pub mod resources;
pub mod snapshot;
mod starting;
pub mod verdict;
mod wording;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use jiff::{SignedDuration, Timestamp};

use action::{Action, ActionResult, Answer, Failure, Task};
use admission::{Queue, Room};
use capacity::Capacity;
use interruption::Holders;
use ledger::Ledger;
use lifecycle::{CreateFailure, Known, Memory, Next, Prepared, Telling};
use preemption::Preemption;
use snapshot::{
    Child, Demand, Disruption, Job, Key, Name, Observation, Phase, Pod, Settings, WaitReason, Waiting,
};
use verdict::Evidence;

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
    memory: Memory,
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
    sentence: Option<(u32, Disruption)>,
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
    /// UID of a child Job that an answer showed and the watch did not yet. If it goes in a gap of the watch, nobody
    /// will ever say so.
    unwatched_child: Option<Name>,
}

/// The view of the cluster and the rules over it.
#[derive(Debug)]
pub struct Planner {
    settings: Result<Settings, String>,
    capacity: Capacity,
    ledger: Ledger,
    holders: Holders,
    preemption: Preemption,
    queue: Queue,
    /// Boxed, as what is large and one of many: a tree keeps room for several in each node.
    jobs: BTreeMap<Key, Box<Entry>>,
    keys: BTreeMap<Name, Key>,
    attachments: BTreeMap<Owner, Box<Attachments>>,
    /// Namespaces that were seen: each object brings its own copy, and one is enough.
    namespaces: BTreeSet<Name>,
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
    /// Newcomers of the queue that were not told yet why they wait.
    untold: BTreeSet<Key>,
    counts: Counts,
    seen_version: u64,
    walk_due: bool,
}

impl Default for Planner {
    fn default() -> Self {
        Self {
            settings: Err("the ScavengerPool \"default\" does not exist; an admin must create it".to_owned()),
            capacity: Capacity::default(),
            ledger: Ledger::default(),
            holders: Holders::default(),
            preemption: Preemption::default(),
            queue: Queue::default(),
            jobs: BTreeMap::new(),
            keys: BTreeMap::new(),
            attachments: BTreeMap::new(),
            namespaces: BTreeSet::new(),
            pod_owners: BTreeMap::new(),
            pod_epoch: 0,
            unwatched_pods: BTreeSet::new(),
            dirty: BTreeSet::new(),
            timers: BTreeSet::new(),
            starting: BTreeSet::new(),
            untold: BTreeSet::new(),
            counts: Counts::default(),
            seen_version: 0,
            walk_due: false,
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
                if attachments.unwatched_child.as_ref() == Some(&child.uid) {
                    attachments.unwatched_child = None;
                }
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
            Observation::Node(node) => {
                self.holders.set_node(&node);
                self.capacity.set_node(node, self.settings.as_ref().ok());
            }
            Observation::NodeGone(name) => {
                self.holders.remove_node(&name);
                self.capacity.remove_node(&name);
            }
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
        plan.wake_at = self.timers.first().map(|(time, _)| *time);
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

    fn set_job(&mut self, mut job: Job) {
        self.share(&mut job.key.namespace);
        let key = job.key.clone();
        if let Some(entry) = self.jobs.get(&key) {
            if entry.job.uid == job.uid {
                // Older than what an answer brought already.
                if entry.job.resource_version >= job.resource_version {
                    return;
                }
            } else {
                // Deleted and made anew while nobody watched.
                self.remove_job(&key);
            }
        }
        self.keys.insert(job.uid.clone(), key.clone());
        self.dirty.insert(key.clone());
        match self.jobs.get_mut(&key) {
            Some(entry) => {
                let attempt = |job: &Job| job.status.attempt.as_ref().map(|attempt| attempt.number);
                if attempt(&entry.job) != attempt(&job) {
                    entry.memory = Memory { may_create: entry.memory.may_create, ..Memory::default() };
                } else if entry.job.generation != job.generation {
                    // Another spec may refer to other things.
                    entry.memory.prepared = None;
                    entry.memory.missing_since = None;
                }
                entry.job = job;
                if entry.pause.is_some_and(|pause| pause.ends_with_change) {
                    entry.pause = None;
                }
                let number = attempt(&entry.job).unwrap_or(0);
                if let Some(attachments) = self.attachments.get_mut(&owner(&entry.job.uid, &key)) {
                    attachments.evidence.retain(|attempt, _| *attempt >= number);
                }
            }
            None => {
                let entry = Entry {
                    job,
                    memory: Memory::default(),
                    under_way: false,
                    pause: None,
                    timer: None,
                    recovered: None,
                    reserved_for: None,
                    refused: None,
                    counted: None,
                    sentence: None,
                };
                self.disown_strangers(&owner(&entry.job.uid, &key));
                self.jobs.insert(key.clone(), Box::new(entry));
            }
        }
        self.count(&key);
    }

    fn remove_job(&mut self, key: &Key) {
        self.set_timer(key, None);
        self.uncount(key);
        if let Some(entry) = self.jobs.remove(key) {
            self.keys.remove(&entry.job.uid);
            self.prune(&owner(&entry.job.uid, key));
        }
        self.queue.remove(key, &mut self.capacity);
        self.holders.set(key, BTreeSet::new());
        self.ledger.release(key);
        self.walk_due = true;
        self.dirty.remove(key);
        self.starting.remove(key);
        self.untold.remove(key);
    }

    /// Pods that were seen before the ScavengerJob which they name, and are in another namespace, are ordinary ones.
    fn disown_strangers(&mut self, (uid, namespace): &Owner) {
        let first = (uid.clone(), Name::from(""));
        let named = self.attachments.range(first..).take_while(|((named, _), _)| named == uid);
        let strangers = named.map(|(owner, _)| owner.clone()).filter(|(_, other)| other != namespace);
        for owner in strangers.collect::<Vec<_>>() {
            let pods = self.attachments.remove(&owner).map(|all| all.pods).unwrap_or_default();
            for pod in pods.into_values() {
                self.pod_owners.remove(&pod.key);
                self.capacity.set_pod(&Pod { owner: None, ..Arc::unwrap_or_clone(pod) });
            }
        }
    }

    /// Forgets attachments of a ScavengerJob that is gone once they are gone too.
    fn prune(&mut self, owner: &Owner) {
        let empty =
            self.attachments.get(owner).is_some_and(|all| all.children.is_empty() && all.pods.is_empty());
        if empty && self.key_of(owner).is_none() {
            self.attachments.remove(owner);
        }
    }

    /// The ScavengerJob that something of its namespace names as its owner.
    fn key_of(&self, (uid, namespace): &Owner) -> Option<&Key> {
        self.keys.get(uid).filter(|key| key.namespace == *namespace)
    }

    fn touch(&mut self, owner: &Owner) {
        if let Some(key) = self.key_of(owner).cloned() {
            self.dirty.insert(key);
        }
    }

    fn set_child(&mut self, child: Child) {
        let owner = owner(&child.owner, &child.key);
        let attachments = self.attachments.entry(owner.clone()).or_default();
        if attachments.gone_child.as_ref() == Some(&child.uid) {
            return;
        }
        match attachments.children.get_mut(&child.uid) {
            Some(known) if known.resource_version >= child.resource_version => return,
            Some(known) => *known = Child { deleting: known.deleting || child.deleting, ..child }.into(),
            None => {
                attachments.children.insert(child.uid.clone(), child.into());
            }
        }
        self.touch(&owner);
    }

    fn remove_child(&mut self, owner: &Owner, uid: &Name) {
        let Some(attachments) = self.attachments.get_mut(owner) else { return };
        attachments.gone_child = Some(uid.clone());
        let child = attachments.children.remove(uid);
        let key = self.key_of(owner).cloned();
        if let Some(child) = child
            && let Some(entry) = key.and_then(|key| self.jobs.get_mut(&key))
        {
            entry.memory.lost_child = Some(child.attempt);
        }
        self.touch(owner);
        self.prune(owner);
    }

    /// Replaces the name of a namespace by the copy that is there already.
    fn share(&mut self, namespace: &mut Name) {
        match self.namespaces.get(namespace) {
            Some(known) => namespace.clone_from(known),
            None => _ = self.namespaces.insert(namespace.clone()),
        }
    }

    fn set_pod(&mut self, mut pod: Pod, now: Timestamp) {
        self.share(&mut pod.key.namespace);
        if let Some(node) = &mut pod.node
            && let Some(known) = self.capacity.shared_name(node)
        {
            node.clone_from(known);
        }
        if let Some((uid, _)) = &mut pod.owner
            && let Some(job) = self.keys.get(uid).and_then(|key| self.jobs.get(key))
        {
            uid.clone_from(&job.job.uid);
        }
        if let Some((uid, attempt)) = pod.owner.clone() {
            if self.keys.get(&uid).is_some_and(|key| key.namespace != pod.key.namespace) {
                // Somebody else's, whatever it says.
                pod.owner = None;
                return self.capacity.set_pod(&pod);
            }
            let owner = owner(&uid, &pod.key);
            let attachments = self.attachments.entry(owner.clone()).or_default();
            let known = attachments.pods.get(&pod.key.name);
            if known
                .is_some_and(|known| known.uid == pod.uid && known.resource_version > pod.resource_version)
            {
                return;
            }
            attachments.evidence.entry(attempt).or_default().note(&pod, self.pod_epoch, now);
            self.pod_owners.insert(pod.key.clone(), uid);
            self.capacity.set_pod(&pod);
            attachments.pods.insert(pod.key.name.clone(), Arc::new(pod));
            self.touch(&owner);
        } else {
            match self.preemption.note(&pod) {
                reserved @ Some(_) => self.capacity.set_pod(&Pod { nominated_node: reserved, ..pod }),
                None => self.capacity.set_pod(&pod),
            }
        }
    }

    fn remove_pod(&mut self, key: &Key) {
        self.unwatched_pods.remove(key);
        self.preemption.forget(key);
        self.capacity.remove_pod(key);
        let Some(uid) = self.pod_owners.remove(key) else { return };
        let owner = owner(&uid, key);
        if let Some(attachments) = self.attachments.get_mut(&owner) {
            attachments.pods.remove(&key.name);
        }
        self.touch(&owner);
        self.prune(&owner);
    }

    fn done(&mut self, result: ActionResult) {
        let ActionResult { job: key, uid, time, answer } = result;
        let Some(entry) = self.jobs.get_mut(&key).filter(|entry| entry.job.uid == uid) else { return };
        entry.under_way = false;
        self.dirty.insert(key.clone());
        match answer {
            Ok(answer) => {
                // A pause after failures is over; one that was asked for is not.
                entry.pause = entry.pause.filter(|pause| pause.failures == 0);
                self.answered(&key, &uid, answer, time);
            }
            Err(failure) => self.failed(&key, failure, time),
        }
    }

    fn answered(&mut self, key: &Key, uid: &Name, answer: Answer, time: Timestamp) {
        match answer {
            Answer::Prepared { job, pods_left, missing } => {
                let generation = job.generation;
                self.set_job(*job);
                if let Some(entry) = self.jobs.get_mut(key).filter(|entry| entry.job.generation == generation)
                {
                    if missing.is_empty() {
                        entry.memory.missing_since = None;
                    } else {
                        entry.memory.missing_since.get_or_insert(time);
                    }
                    entry.memory.prepared = Some(Prepared { pods_left, missing });
                }
            }
            Answer::Job(job) => {
                if let Some(attempt) =
                    job.status.attempt.as_ref().filter(|_| job.status.phase == Phase::Starting)
                    && let Some(entry) = self.jobs.get_mut(key)
                {
                    // This planner wrote Starting just now, so nobody can have made the Job before.
                    entry.memory.may_create = Some(attempt.number);
                    let evidence = &mut self.attachments.entry(owner(uid, key)).or_default().evidence;
                    evidence
                        .entry(attempt.number)
                        .or_insert_with(|| Evidence::from_the_start(self.pod_epoch).into());
                }
                self.set_job(*job);
                if let Some(entry) = self.jobs.get_mut(key) {
                    entry.memory.told = Some(time);
                }
            }
            Answer::Child(child) => {
                let attachments = self.attachments.entry(owner(&child.owner, &child.key)).or_default();
                if !attachments.children.contains_key(&child.uid) {
                    attachments.unwatched_child = Some(child.uid.clone());
                }
                self.set_child(child);
            }
            Answer::Deleted { uid: child } => {
                let owner = owner(uid, key);
                let Some(attachments) = self.attachments.get_mut(&owner) else { return };
                if attachments.unwatched_child.as_ref() == Some(&child) {
                    // Maybe it was gone already. If it is not, its pods still hold the next attempt.
                    self.remove_child(&owner, &child);
                } else if let Some(child) = attachments.children.get_mut(&child) {
                    Arc::make_mut(child).deleting = true;
                }
            }
            Answer::Interrupted { pods } => {
                if let Some(entry) = self.jobs.get_mut(key) {
                    entry.memory.evicted.extend(pods);
                }
            }
            Answer::Pods { pods, resource_version, create_failure } => {
                self.listed(key, uid, pods, resource_version, create_failure, time);
            }
            Answer::PodEvents(events) => {
                if let Some(entry) = self.jobs.get_mut(key) {
                    entry.memory.pod_events = Some((time, events));
                }
            }
            Answer::JobDeleted => {
                // The watch shows it later, or that it is gone.
                if let Some(entry) = self.jobs.get_mut(key) {
                    entry.job.deleting = true;
                }
            }
            Answer::Released { pods_left } => {
                if let Some(entry) = self.jobs.get_mut(key) {
                    if pods_left == 0 {
                        entry.job.has_finalizer = false;
                    } else {
                        // The watch does not show them yet.
                        let until = time + SignedDuration::from_secs(2);
                        entry.pause = Some(Pause { failures: 0, until, ends_with_change: false });
                    }
                }
            }
        }
    }

    fn listed(
        &mut self,
        key: &Key,
        uid: &Name,
        pods: Vec<Pod>,
        resource_version: u64,
        create_failure: Option<String>,
        time: Timestamp,
    ) {
        let owner = owner(uid, key);
        for evidence in self.attachments.entry(owner.clone()).or_default().evidence.values_mut() {
            evidence.relisted();
        }
        let listed: BTreeSet<Name> = pods.iter().map(|pod| pod.key.name.clone()).collect();
        for pod in pods {
            if !self.pod_owners.contains_key(&pod.key) {
                self.unwatched_pods.insert(pod.key.clone());
            }
            self.set_pod(pod, time);
        }
        let attachments = self.attachments.entry(owner.clone()).or_default();
        let gone: Vec<Key> = attachments
            .pods
            .values()
            .filter(|pod| pod.resource_version <= resource_version && !listed.contains(&pod.key.name))
            .map(|pod| pod.key.clone())
            .collect();
        for pod in &gone {
            self.remove_pod(pod);
        }
        let attachments = self.attachments.entry(owner).or_default();
        let Some(entry) = self.jobs.get_mut(key) else { return };
        let Some(number) = entry.job.status.attempt.as_ref().map(|attempt| attempt.number) else { return };
        let of_attempt = |pod: &Pod| pod.owner.as_ref().is_some_and(|(_, attempt)| *attempt == number);
        match attachments.children.values().find(|child| child.attempt == number) {
            Some(child) if !child.is_over() && !child.deleting => {
                if entry.memory.asks_why {
                    entry.memory.create_failure = Some(CreateFailure { asked: time, said: create_failure });
                }
            }
            Some(_) => entry.memory.listed = Some(number),
            None if attachments.pods.values().any(|pod| of_attempt(pod)) => {
                entry.memory.lost_child = Some(number);
                entry.memory.listed = Some(number);
            }
            None if entry.memory.lost_child == Some(number)
                || entry.job.status.attempt.as_ref().is_some_and(|attempt| attempt.child_uid.is_some()) =>
            {
                entry.memory.listed = Some(number);
            }
            None => {
                entry.memory.may_create = Some(number);
                let epoch = self.pod_epoch;
                attachments.evidence.entry(number).or_insert_with(|| Evidence::from_the_start(epoch).into());
            }
        }
    }

    fn failed(&mut self, key: &Key, failure: Failure, time: Timestamp) {
        let Some(entry) = self.jobs.get_mut(key) else { return };
        let failures = entry.pause.map_or(0, |pause| pause.failures) + 1;
        match failure {
            Failure::NameTaken(_) | Failure::Refused(_) | Failure::QuotaExceeded(_) => {
                entry.refused = Some(failure);
            }
            // Gone: the child Job of a delete, or the ScavengerJob itself; the watch will say so.
            Failure::Gone | Failure::Conflict | Failure::Transient(_) => {
                // 100 ms, doubled up to 25 s.
                let delay = SignedDuration::from_millis(100 << failures.min(8));
                let ends_with_change = failure == Failure::Conflict;
                entry.pause = Some(Pause { failures, until: time + delay, ends_with_change });
            }
        }
        if entry.job.status.active_attempt().is_none() && self.starting.remove(key) {
            // A start that failed gives its slot back; it is prepared anew when its turn comes again.
            entry.memory.prepared = None;
            self.ledger.release(key);
            self.walk_due = true;
        }
    }

    /// Decides about one ScavengerJob.
    fn visit(&mut self, key: &Key, now: Timestamp, actions: &mut Vec<Action>) {
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
        let reserved = self.starting.contains(key)
            && entry.job.spec.as_ref().is_ok_and(|spec| entry.reserved_for.as_deref() == Some(&spec.demand));
        let known = Known {
            job: &entry.job,
            children: &attachments.children,
            pods: &attachments.pods,
            evidence,
            memory: &entry.memory,
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
                .filter(|(sentenced, _)| Some(*sentenced) == number)
                .map(|(_, disruption)| disruption),
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
            entry.memory.told.get_or_insert(now);
        }
        // A started attempt keeps its reservation until its pods are seen; preparing needs it too.
        let keeps = active || matches!(next, Next::Do(Task::Prepare)) || starts(&next);
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
            // An attempt that ended keeps what its pods may still take.
            let (seen, left) = entry.job.status.attempt.as_ref().map_or((Vec::new(), 0), |attempt| {
                lifecycle::lingering_pods(attempt, &attachments.children, &attachments.pods)
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
        let mut room = Room { capacity: &mut self.capacity, ledger: &mut self.ledger, settings, now };
        let walk = self.queue.walk(&mut room, self.starting.len());
        let starting = self.starting.len() + walk.started.len();
        let mut told = std::mem::take(&mut self.untold);
        told.extend(walk.told);
        let told: Vec<(Key, Waiting)> = told
            .into_iter()
            .filter_map(|key| {
                let waiting = self.queue.waiting(&key, &mut room, starting)?;
                Some((key, waiting))
            })
            .collect();
        for (key, demand) in walk.started {
            self.starting.insert(key.clone());
            if let Some(entry) = self.jobs.get_mut(&key) {
                entry.memory.prepared = None;
                entry.reserved_for = Some(demand.into());
                // Being told why it waits: it is prepared when that answer comes.
                if !entry.under_way {
                    self.dispatch(&key, Task::Prepare, actions);
                }
            }
        }
        for (key, waiting) in told {
            self.tell(&key, &waiting, now, actions);
        }
    }

    fn tell(&mut self, key: &Key, waiting: &Waiting, now: Timestamp, actions: &mut Vec<Action>) {
        let Some(entry) = self.jobs.get(key).filter(|entry| !entry.under_way) else { return };
        let none = Attachments::default();
        let known = Known {
            job: &entry.job,
            children: &none.children,
            pods: &none.pods,
            evidence: &Evidence::default(),
            memory: &entry.memory,
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
            Telling::Now(task) => self.dispatch(key, task, actions),
            Telling::Later(time) => {
                if let Some(entry) = self.jobs.get_mut(key) {
                    entry.memory.told.get_or_insert(now);
                }
                self.set_timer(key, Some(time));
            }
        }
    }

    fn dispatch(&mut self, key: &Key, task: Task, actions: &mut Vec<Action>) {
        self.set_timer(key, None);
        let Some(entry) = self.jobs.get_mut(key) else { return };
        entry.under_way = true;
        entry.memory.asks_why = matches!(task, Task::ListPods { child: Some(_) });
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
