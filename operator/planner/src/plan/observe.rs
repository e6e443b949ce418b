//! How one observation reaches those who own the state that it changes.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::Planner;
use crate::{
    backoff::Wake,
    facts::seen::SeenPod,
    values::{
        Access, Closed, Counted, Key, KillReport, LiveReport, Name, Node, Observation, Phase, Pod, PodUsage,
        RememberedUse, ScavengerJob, Settings,
    },
};

impl Planner {
    /// Takes in one thing that was seen at `now`.
    pub fn observe(&mut self, observation: Observation, now: Timestamp) {
        match observation {
            Observation::ScavengerJob(sj) => self.see_sj(*sj),
            Observation::ScavengerJobGone(key) => self.forget_sj(&key),
            Observation::EndedAttempts(key, uid, ended) => self.shares.see_ended(&key, &uid, ended),
            Observation::Namespace(name, labels) => self.see_namespace(&name, Some(labels)),
            Observation::NamespaceGone(name) => self.see_namespace(&name, None),
            Observation::NamespacesKnown(known) => self.shares.set_namespaces_known(known),
            Observation::Job(job) => {
                let key = self.seen.watch_job(job);
                self.agenda.add_all(key.iter());
            }
            Observation::JobGone { namespace, owner, uid } => {
                self.queue.freed(&namespace, true);
                let key = self.seen.remove_job(&(owner, namespace), &uid);
                self.agenda.add_all(key.iter());
            }
            Observation::Pod(pod) => self.watch_pod(pod, now),
            Observation::PodGone(key) => {
                self.note_end(&key, now);
                self.forget_pod(&key);
            }
            Observation::PodsRelisted => {
                for pod in self.seen.relist_pods() {
                    self.forget_pod(&pod);
                }
            }
            Observation::Node(node) => self.see_node(node),
            Observation::NodeGone(name) => self.forget_node(&name),
            Observation::Volume(volume) => {
                if let Some(claim) = &volume.claim {
                    self.queue.bound(claim, &self.capacity);
                }
                let (scavenger_jobs, pods) = self.seen.set_volume(volume);
                self.replace(&scavenger_jobs, pods);
            }
            Observation::VolumeGone(name) => {
                let (scavenger_jobs, pods) = self.seen.remove_volume(&name);
                self.replace(&scavenger_jobs, pods);
            }
            Observation::VolumesKnown(known) => {
                let mounting = self.seen.set_volumes_known(known);
                self.agenda.add_all(mounting.iter());
            }
            Observation::RuntimeClass(class) => {
                self.agenda.add_all(self.seen.set_runtime_class(class).iter());
            }
            Observation::RuntimeClassGone(name) => {
                let users = self.seen.remove_runtime_class(&name);
                self.agenda.add_all(users.iter());
            }
            Observation::RuntimeClassesKnown(known) => {
                let users = self.seen.set_runtime_classes_known(known);
                self.agenda.add_all(users.iter());
            }
            Observation::Usage(usage) => {
                self.node_use.set_nodes(usage.as_deref());
                let changed = self.causes.short_nodes.measured.set(usage, &self.capacity, now);
                self.close_or_open(&changed);
            }
            Observation::UsageNotServed => {
                self.node_use.set_nodes(None);
                let changed = self.causes.short_nodes.measured.forget();
                self.close_or_open(&changed);
            }
            Observation::PodUsage(usage) => {
                self.node_use.set_pods(&usage, &self.capacity, now);
                self.see_usage(&usage);
            }
            Observation::RememberedUse(remembered) => self.recall_use(*remembered, now),
            Observation::Report(report) => self.see_report(&report, now),
            Observation::Kill(kill) => self.see_kill(kill),
            Observation::NodeAgents(nodes) => self.node_use.set_agents(nodes),
            Observation::Pool(settings) => self.set_settings(*settings, now),
            Observation::Counted(counted) => self.see_counted(counted.map(|counted| *counted)),
            Observation::Done(result) => self.done(result),
        }
        let (scavenger_jobs, pods) = self.seen.take_moved();
        self.replace(&scavenger_jobs, pods);
    }

    fn watch_pod(&mut self, mut pod: Box<Pod>, now: Timestamp) {
        self.share_node(&mut pod);
        let seen = self.seen.watch_pod(pod, now);
        match &seen {
            SeenPod::Ordinary(pod) => self.note_use(pod, now),
            SeenPod::Own(pod, _) if pod.phase.is_terminal() => self.note_end(&pod.key, now),
            SeenPod::Own(..) | SeenPod::Stale => {}
        }
        self.see_pod(seen);
    }

    fn see_node(&mut self, node: Node) {
        self.node_use.touch(&node.name);
        self.causes.node_pressure.set_node(&node);
        if self.capacity.is_ready(&node.name) != node.ready {
            self.look_at_those_on(&node.name);
        }
        let name = node.name.clone();
        self.capacity.set_node(node, self.settings.as_ref().ok());
        self.close_or_open(&[name]);
    }

    fn forget_node(&mut self, name: &Name) {
        self.node_use.forget_node(name);
        self.causes.short_nodes.remove_node(name);
        self.causes.node_pressure.remove_node(name);
        self.look_at_those_on(name);
        self.capacity.remove_node(name);
    }

    /// Settings of the pool, of which those thresholds hold that its calendar gives.
    fn set_settings(&mut self, settings: Result<Settings, String>, now: Timestamp) {
        let settings = settings.map(|settings| settings.at(now));
        let turns_at = settings.as_ref().ok().and_then(|settings| settings.turn_at(now));
        self.agenda.set_wake(Wake::Calendar, turns_at);
        if self.settings == settings {
            return;
        }
        if let Ok(settings) = &settings {
            self.supervisors.set(settings.supervisor.as_ref());
        }
        self.settings = settings;
        self.capacity.set_settings(self.settings.as_ref().ok());
        self.node_use.set_settings(self.settings.as_ref().ok(), &self.capacity);
        if self.shares.set_settings(self.settings.as_ref().ok()) {
            for (_, tracked) in self.seen.iter() {
                self.shares.see(tracked.sj());
            }
            self.queue.sort_by_tenant(&self.shares);
        }
        self.agenda.add_all(self.seen.keys());
    }

    /// What the planner before this one learned of the use of nodes.
    fn recall_use(&mut self, mut remembered: RememberedUse, now: Timestamp) {
        for namespace in self.by_requests.recall(std::mem::take(&mut remembered.by_requests), now) {
            self.set_by_requests(&namespace, true);
        }
        self.node_use.recall(remembered, now);
    }

    /// Those that are being deleted may wait until this counts what they held.
    fn see_counted(&mut self, counted: Option<Counted>) {
        let leaving = self.shares.set_counted(counted);
        self.agenda.add_all(leaving.iter());
    }

    /// A namespace may be of another tenant than before.
    fn see_namespace(&mut self, name: &Name, labels: Option<BTreeMap<Name, Name>>) {
        if self.shares.set_namespace(name, labels) {
            self.queue.sort_by_tenant(&self.shares);
            self.agenda.add_all(self.seen.keys().filter(|key| key.namespace == *name));
        }
    }

    /// A window of the pool's calendar may have opened or closed.
    pub(super) fn follow_calendar(&mut self, now: Timestamp) {
        if self.agenda.is_due(Wake::Calendar, now) {
            self.set_settings(self.settings.clone(), now);
        }
    }

    /// A version of a ScavengerJob, from a watch or an answer.
    pub(super) fn see_sj(&mut self, sj: ScavengerJob) {
        if self.seen.is_another(&sj) {
            // Deleted and created again while nobody watched.
            self.forget_sj(&sj.key);
        }
        let attempt = sj.status.attempt.as_deref();
        if let Some(decided) = attempt.and_then(|attempt| attempt.decided()) {
            let budgets = self.settings.as_ref().ok().map(|settings| &*settings.budgets);
            self.rounds.note(&sj, &decided.reason, decided.time, budgets);
        }
        let key = sj.key.clone();
        self.shares.see(&sj);
        let Some(strangers) = self.seen.set_sj(sj) else { return };
        self.agenda.add(key);
        for pod in strangers {
            self.see_ordinary_pod(pod);
        }
    }

    fn forget_sj(&mut self, key: &Key) {
        if let Some(mut tracked) = self.seen.remove_sj(key) {
            self.agenda.forget(key, &mut tracked.turn);
            self.informing.remove(key, &mut tracked.reported);
            // Nobody learns from what is gone whether its nodes were to blame.
            let _unchanged = self.start_failures.forget(&tracked.sj().uid, false, Timestamp::MIN);
        }
        self.agenda.add_all(self.folders.forget(key).iter());
        self.queue.remove(key, &mut self.capacity);
        self.queue.forget_denied(key);
        self.shares.forget(key);
        self.occupancy.set(key, BTreeSet::new());
        self.promises.release(key);
        self.asked.remove(key);
    }

    /// Nodes leave the pool: fewer ScavengerJobs may start there as their time comes, and those that are there are to save.
    pub(super) fn follow_leaving(&mut self, now: Timestamp) {
        let (nodes, scavenger_jobs) = self.seen.follow_leaving(self.capacity.leaving(), now);
        self.agenda.set_wake(Wake::LeavingNodes, self.seen.leaving().wake_at());
        if !nodes.is_empty() {
            self.close_or_open(&nodes);
            nodes.iter().for_each(|node| self.look_at_those_on(node));
            self.agenda.add_all(scavenger_jobs.iter());
        }
    }

    /// Takes in that these nodes are closed to ScavengerJobs now, or not any more.
    pub(super) fn close_or_open(&mut self, nodes: &[Name]) {
        for node in nodes {
            let by_admin = self.capacity.node(node).and_then(|node| node.node.closed.clone());
            let starts = self.start_failures.why_closed(node).map(|why| Closed::Starts(why.to_owned()));
            if starts.is_some() {
                // Those that wait there for their containers need not wait any longer.
                self.look_at_those_on(node);
            }
            let memory = || self.causes.short_nodes.measured.is_full(node).then_some(Closed::Memory);
            let until = self.capacity.node(node).and_then(|node| node.node.until);
            let takes_none = |until: &Timestamp| {
                self.seen.leaving().takes_none(node) || self.causes.left_pool.closes(node, *until)
            };
            let leaves = until.filter(takes_none).map(Closed::Leaves);
            let closed = by_admin.map(Closed::ByAdmin).or(leaves).or(starts).or_else(memory);
            self.capacity.set_closed(node, closed.as_ref(), self.settings.as_ref().ok());
        }
        self.agenda.set_wake(Wake::ClosedNodes, self.start_failures.wake_at());
    }

    /// Whether a node is lost decides how the attempts on it are judged.
    fn look_at_those_on(&mut self, node: &Name) {
        let pods = self.capacity.scavenger_pods(node);
        let keys = pods.filter_map(|pod| self.seen.key_of(pod.owner, &pod.key.namespace));
        self.agenda.add_all(keys);
    }

    /// All pods of a node share its name.
    pub(super) fn share_node(&self, pod: &mut Pod) {
        if let Some(node) = &mut pod.node
            && let Some(known) = self.capacity.shared_name(node)
        {
            node.clone_from(known);
        }
    }

    /// A version of a pod, from the watch or an answer.
    pub(super) fn see_pod(&mut self, seen: SeenPod) {
        let pod: Option<&Pod> = match &seen {
            SeenPod::Own(pod, _) => Some(pod),
            SeenPod::Ordinary(pod) => Some(pod),
            SeenPod::Stale => None,
        };
        // Pods that ended come in many more versions: only the first of them gives something back. Nothing is given back
        // by those of a start that was withdrawn: a gang that was refused in part is as large as what it leaves.
        let ends = |pod: &&Pod| {
            pod.phase.is_terminal() && self.capacity.is_occupied_by(&pod.key) && !self.is_withdrawn(pod)
        };
        if let Some(pod) = pod.filter(ends) {
            self.queue.freed(&pod.key.namespace, false);
        }
        match seen {
            SeenPod::Stale => {}
            SeenPod::Ordinary(pod) => self.see_ordinary_pod(*pod),
            SeenPod::Own(pod, sj) => {
                if let Some(node) = &pod.node {
                    self.node_use.touch(node);
                }
                self.capacity.set_pod(&pod);
                self.agenda.add_all(sj.iter());
            }
        }
    }

    /// True for a pod of a start that did not come about.
    fn is_withdrawn(&self, pod: &Pod) -> bool {
        let owner = pod.owner.as_ref().and_then(|(owner, _)| self.seen.key_of(owner, &pod.key.namespace));
        let tracked = owner.and_then(|owner| self.seen.get(owner));
        tracked.is_some_and(|tracked| match tracked.sj().status.phase {
            Phase::Waiting => true,
            Phase::Interrupted => tracked.sj().status.failed_starts > 0,
            _ => false,
        })
    }

    fn see_ordinary_pod(&mut self, mut pod: Pod) {
        self.seen.place_ordinary_pod(&mut pod);
        self.causes.pending_resizes.note(&pod);
        match self.causes.pending_pods.note(&pod) {
            reserved @ Some(_) => self.capacity.set_pod(&Pod { nominated_node: reserved, ..pod }),
            None => self.capacity.set_pod(&pod),
        }
    }

    /// What the end of a ScavengerJob's pod means for how its node is counted.
    fn note_end(&mut self, pod: &Key, now: Timestamp) {
        if self.node_use.is_on()
            && let Some((node, held)) = self.capacity.held_by(pod)
        {
            self.node_use.left(pod, node, held, now);
        }
    }

    /// What an ordinary pod means for how its node is counted.
    fn note_use(&mut self, pod: &Pod, now: Timestamp) {
        if !self.node_use.is_on() {
            return;
        }
        let shares = pod.node.as_ref().is_some_and(|node| self.capacity.is_shared_by_use(node));
        self.node_use.see_ordinary(pod, shares, now);
    }

    pub(crate) fn forget_pod(&mut self, key: &Key) {
        self.node_use.forget_pod(key);
        self.causes.pending_pods.forget(key);
        self.causes.pending_resizes.forget(key);
        self.capacity.remove_pod(key);
        let sj = self.seen.remove_pod(key);
        self.agenda.add_all(sj.iter());
    }

    /// Takes in a report of a supervisor. One for a pod that is not of the active attempt, or that was replaced by another of
    /// its name, is void.
    fn see_report(&mut self, report: &LiveReport, now: Timestamp) {
        let Some((key, index)) = self.seen.reporter(&report.pod, &report.uid) else { return };
        self.seen.report(&key, index, report, now);
        self.agenda.add(key);
    }

    /// Takes in why a container was killed for memory: of a pod of an active attempt, or of an ordinary pod.
    fn see_kill(&mut self, kill: KillReport) {
        let Some(key) = self.seen.worker_with(&kill.pod, &kill.uid) else {
            return self.node_use.see_kill(&kill);
        };
        if let Some(tracked) = self.seen.get_mut(&key) {
            tracked.memory.killed_by.insert(kill.uid, kill.cause);
            self.agenda.add(key);
        }
    }

    /// Takes in what pods of ScavengerJobs use. Those that are not of an active attempt count for nobody, and an attempt of
    /// which a pod is missing has no sample.
    fn see_usage(&mut self, usage: &[PodUsage]) {
        let mut sums: BTreeMap<Key, (u32, Timestamp, i64, i64)> = BTreeMap::new();
        for pod in usage {
            let Some(key) = self.seen.worker(&pod.pod) else { continue };
            let (pods, time, cpu, memory) = sums.entry(key).or_insert((0, Timestamp::MAX, 0, 0));
            *pods += 1;
            *time = pod.time.min(*time);
            *cpu = cpu.saturating_add(pod.cpu_milli.max(0));
            *memory = memory.saturating_add(pod.memory_bytes.max(0));
        }
        for (key, (pods, time, cpu, memory)) in sums {
            let Some(tracked) = self.seen.get_mut(&key) else { continue };
            if tracked.measure(pods, time, cpu, memory) {
                self.agenda.add(key);
            }
        }
    }

    /// ScavengerJobs of a namespace are counted by requests, whatever the pool says, or no longer.
    pub(crate) fn set_by_requests(&mut self, namespace: &Name, by_requests: bool) {
        let concerned = self.seen.set_by_requests(namespace, by_requests);
        self.agenda.add_all(concerned.iter());
    }

    /// What claims ask for that have no volume yet.
    pub(super) fn see_claims(&mut self, namespace: &Name, claims: Vec<(Name, Access)>) {
        let (scavenger_jobs, pods) = self.seen.set_fresh_claims(namespace, claims);
        self.replace(&scavenger_jobs, pods);
    }

    /// The nodes that these may go to have changed.
    fn replace(&mut self, scavenger_jobs: &[Key], pods: Vec<Pod>) {
        self.agenda.add_all(scavenger_jobs.iter());
        for pod in pods {
            self.see_ordinary_pod(pod);
        }
    }
}
