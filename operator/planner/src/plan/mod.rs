//! The planner as a whole: what is seen goes in, and each plan brings together what the others know.

mod admission;
mod answers;
pub mod check;
pub mod guard;
mod inform;
mod known;
mod observe;
mod report;

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::{
    backoff::{
        Agenda, Wake,
        namespaces::{ByRequests, Supervisors},
        needs::Needs,
        start_failures::{Start, StartFailures},
    },
    capacity::{
        Capacity,
        promises::{self, Ledger, Promises},
    },
    causes::{
        Causes, drain,
        pool::{Occupancy, Pool},
        rounds::Rounds,
    },
    facts::{
        seen::Seen,
        volumes::{Folders, Use},
    },
    lifecycle::{
        self, attempt,
        known::{Next, Transition},
        transition,
    },
    node_use::NodeUse,
    queue::{Queue, Shares},
    report::{Informing, Report},
    values::{
        CheckpointRequest, Key, Phase, Pod, Reason, Settings,
        action::{Action, Ordered, Task},
    },
};

/// What is to be done now.
#[derive(Debug, Default)]
pub struct Plan {
    /// Actions, at most one per ScavengerJob.
    pub actions: Vec<Action>,
    /// What each step did.
    pub report: Report,
    /// When to plan again if nothing is seen until then.
    pub wake_at: Option<Timestamp>,
}

/// The view of the cluster and the rules over it.
#[derive(Debug)]
pub struct Planner {
    settings: Result<Settings, String>,
    seen: Seen,
    capacity: Capacity,
    promises: Promises,
    agenda: Agenda,
    queue: Queue,
    shares: Shares,
    informing: Informing,
    occupancy: Occupancy,
    rounds: Rounds,
    folders: Folders,
    causes: Causes,
    node_use: NodeUse,
    start_failures: StartFailures,
    by_requests: ByRequests,
    supervisors: Supervisors,
    /// Who is asked for a checkpoint.
    asked: BTreeMap<Key, CheckpointRequest>,
    seen_version: u64,
    /// True if the queue is to be walked along as soon as there are settings.
    walk_due: bool,
}

impl Default for Planner {
    fn default() -> Self {
        Self {
            settings: Err("the ScavengerPool \"default\" does not exist; an admin must create it".to_owned()),
            seen: Seen::default(),
            capacity: Capacity::default(),
            promises: Promises::default(),
            agenda: Agenda::default(),
            queue: Queue::default(),
            shares: Shares::default(),
            informing: Informing::default(),
            occupancy: Occupancy::default(),
            rounds: Rounds::default(),
            folders: Folders::default(),
            causes: Causes::default(),
            node_use: NodeUse::default(),
            start_failures: StartFailures::default(),
            by_requests: ByRequests::default(),
            supervisors: Supervisors::default(),
            asked: BTreeMap::new(),
            seen_version: 0,
            walk_due: false,
        }
    }
}

impl Planner {
    /// Says what is to be done now.
    pub fn plan(&mut self, now: Timestamp) -> Plan {
        let mut actions = Vec::new();
        let expired = self.promises.expired();
        // 1. Timers that are due bring their ScavengerJobs back on the agenda, a turn of the calendar all of them.
        self.follow_calendar(now);
        self.agenda.wake(now);
        let open = self.start_failures.open(now);
        self.close_or_open(&open);
        self.follow_leaving(now);
        self.agenda.add_all(self.seen.end_avoiding(now).iter());
        for namespace in self.by_requests.take_over(now) {
            self.set_by_requests(&namespace, false);
        }
        self.follow_use(now);
        // 2. Each ScavengerJob on the agenda: what it holds, and what is next for it.
        let mut looked_at = self.follow_up(now, &mut actions);
        // 3. Who must go, cause by cause: before anybody starts.
        let ordered = self.interrupt(now, &mut actions);
        // 4. Who starts.
        let admitted = self.admit(now, &mut actions);
        // Those that share a folder with one that starts wait for it from now on.
        looked_at += self.follow_up(now, &mut actions);
        self.agenda.set_wake(Wake::Refusals, self.queue.wake_at(now));
        self.agenda.set_wake(Wake::AvoidedNodes, self.seen.avoiding_until());
        // 5. Whose status says why it waits: last, since it helps nobody to start.
        let informed = self.inform(now, &mut actions);
        let expired = self.promises.expired() - expired;
        // 6. When to plan again if nothing is seen until then.
        let wake_at = self.agenda.wake_at();
        Plan { actions, report: Report { looked_at, ordered, admitted, informed, expired }, wake_at }
    }

    /// Brings up to date how nodes are counted, after pods and samples were seen. What is bound counts already. Without
    /// settings all stays as it is.
    fn follow_use(&mut self, now: Timestamp) {
        self.agenda.set_wake(Wake::NodeUse, None);
        let Ok(settings) = &self.settings else { return };
        let lacking = self.node_use.follow(settings, &mut self.capacity, now);
        self.causes.short_nodes.set_lacking(lacking);
        self.agenda.set_wake(Wake::NodeUse, self.node_use.wake_at());
    }

    /// Looks at every ScavengerJob on the agenda, and says how many these were.
    fn follow_up(&mut self, now: Timestamp, actions: &mut Vec<Action>) -> usize {
        let mut looked_at = 0;
        while let Some(key) = self.agenda.next() {
            self.visit(&key, now, actions);
            looked_at += 1;
        }
        looked_at
    }

    /// Settings in force, or why nothing is admitted.
    ///
    /// # Errors
    /// A message for people.
    pub fn settings(&self) -> Result<&Settings, &str> {
        self.settings.as_ref().map_err(String::as_str)
    }

    /// Decides about one ScavengerJob.
    fn visit(&mut self, key: &Key, now: Timestamp, actions: &mut Vec<Action>) {
        self.follow(key, now);
        self.follow_folder(key);
        if let Some((next, keeps_promise)) = self.decide(key, now) {
            self.carry_out(key, next, keeps_promise, now, actions);
            self.follow_folder(key);
        }
    }

    /// Brings what a ScavengerJob holds in line with what is known of it, whatever comes next.
    fn follow(&mut self, key: &Key, now: Timestamp) {
        if let Ok(settings) = &self.settings {
            self.promises.expire(key, settings.pending_timeout, now);
        }
        let Some((tracked, attachments)) = self.seen.whole_mut(key) else { return };
        tracked.turn.begin(now);
        if tracked.sj().deleting {
            tracked.memory.deleting_since.get_or_insert(now);
            if attachments.all_ended() {
                self.shares.end(key, now);
            }
        }
        let nodes = attachments.bound().map(|(node, _)| node.clone()).collect();
        self.occupancy.set(key, nodes);
        if let Some(attempt) = tracked.sj().ongoing_attempt() {
            let attempt = tracked.sj().as_held(attempt).into_owned();
            let is_starting = tracked.sj().status.phase == Phase::Starting;
            let nodes = |ledger: &Ledger| match &attempt.node {
                Some(node) => Some(vec![node.clone(); attempt.demand.pod_count as usize]),
                None => self.capacity.nodes_for(&attempt.demand, ledger).ok(),
            };
            let pods = &attachments.pods;
            let recovered = &mut tracked.promise.recovered;
            self.promises.follow(key, recovered, &attempt, pods, is_starting, nodes);
            let pods_seen = attachments.evidence(Some(&attempt)).pods_seen();
            let was_taken = is_starting && pods_seen >= attempt.demand.pod_count as usize;
            if was_taken && tracked.memory.taken.replace(attempt.number) != Some(attempt.number) {
                self.queue.taken(&key.namespace, &self.capacity);
            }
            let of_attempt = pods.values().filter(|pod| pod.is_of(attempt.number));
            // What the pool adds closes no node, and is not the user's command.
            let own = of_attempt.filter(|pod| !self.supervisors.see(pod, now));
            let changed = match Needs::of(tracked.sj()) {
                None => Vec::new(),
                Some(needs) => {
                    let evidence = attachments.evidence(Some(&attempt));
                    let has_run = tracked.sj().has_run_as_specified();
                    let start = |pod: &Pod| Start {
                        needs: &needs,
                        has_run,
                        had_started: attempt.start_time.is_some() || evidence.has_started(&pod.key.name),
                    };
                    own.flat_map(|pod| self.start_failures.see(pod, &start(pod), now)).collect()
                }
            };
            self.close_or_open(&changed);
        } else if tracked.sj().status.phase == Phase::Failed {
            let is_to_blame = tracked.sj().status.failure == Some(Reason::ContainerNotCreated);
            let changed = self.start_failures.forget(&tracked.sj().uid, is_to_blame, now);
            self.close_or_open(&changed);
        }
    }

    /// Brings in line how far a ScavengerJob has come with its folder. Those that name the same one are looked at again.
    fn follow_folder(&mut self, key: &Key) {
        let Some((tracked, attachments)) = self.seen.whole_mut(key) else { return };
        let is_active = tracked.sj().status.phase.is_active() || !attachments.all_ended();
        let uses = match self.promises.is_made(key) {
            _ if is_active => Use::Active,
            true => Use::Promised,
            false => Use::None,
        };
        self.agenda.add_all(self.folders.set(key, tracked.sj().folder.as_ref(), uses).iter());
    }

    /// What is next for a ScavengerJob, and whether it keeps what it is promised; none while something is under way, or
    /// not to be done yet.
    fn decide(&mut self, key: &Key, now: Timestamp) -> Option<(Next, bool)> {
        let (tracked, _) = self.seen.whole_mut(key)?;
        if tracked.turn.is_under_way() {
            return None;
        }
        if let Some(until) = tracked.turn.paused_until(now) {
            self.agenda.set_timer(key, &mut tracked.turn, Some(until));
            self.queue.remove(key, &mut self.capacity);
            return None;
        }
        // The order comes first, so that nothing more is begun for an attempt that is to end.
        if self.settings.as_ref().is_ok_and(|settings| settings.drain) && drain::concerns(tracked) {
            return None;
        }
        let refusal = tracked.refused.take();
        let (held_back, was_ready) = (self.is_held_back(key), self.queue.contains(key));
        self.seen.get_mut(key)?.set_held_back(held_back, was_ready, now);
        let known = self.known(key, now)?;
        let next = match refusal {
            Some(refusal) => lifecycle::after_refusal(&known, refusal),
            None => lifecycle::next(&known),
        };
        // A started attempt keeps what it is promised until its pods are seen; preparing needs it, too.
        let keeps_promise = known.sj.ongoing_attempt().is_some()
            || matches!(next, Next::Do(Task::Prepare { .. }) | Next::Change(Transition::Start));
        let withdrawn = match &next {
            Next::Change(Transition::Withdraw(ending, waiting)) => Some((ending.clone(), waiting.clone())),
            _ => None,
        };
        let is_start = matches!(next, Next::Change(Transition::Start));
        let starts_supervised = is_start && attempt::is_supervised(&known);
        let next = match next {
            Next::Change(transition) => Next::Do(transition::apply(&known, transition)),
            next => next,
        };
        if let Some((ending, waiting)) = withdrawn {
            self.note_withdrawal(key, &ending, &waiting, now);
        }
        if starts_supervised {
            self.supervisors.starts_with(&key.namespace, now);
        }
        Some((next, keeps_promise))
    }

    /// Does what is next for a ScavengerJob: the queue, what is promised to it, its timer and its action.
    fn carry_out(
        &mut self,
        key: &Key,
        next: Next,
        keeps_promise: bool,
        now: Timestamp,
        actions: &mut Vec<Action>,
    ) {
        let request = match &next {
            Next::Ask(request, _) => Some(request.clone()),
            _ => self.asked_before_its_node_leaves(key, now),
        };
        let Some((tracked, attachments)) = self.seen.whole_mut(key) else { return };
        match request {
            Some(request) => _ = self.asked.insert(key.clone(), request),
            None => _ = self.asked.remove(key),
        }
        if let Next::GiveBack(_, time) = next {
            tracked.memory.prepared = None;
            // Until then it is no candidate.
            tracked.turn.pause_until(time);
        }
        match (&next, &tracked.sj().spec) {
            (Next::Candidate, Ok(spec)) => {
                self.queue.insert(tracked.sj(), &spec.demand, &mut self.capacity, &self.shares);
                self.informing.add(key, &mut tracked.reported, now);
            }
            _ => {
                self.queue.remove(key, &mut self.capacity);
                self.informing.remove(key, &mut tracked.reported);
            }
        }
        if !keeps_promise {
            let attempt = tracked.sj().status.attempt.as_deref();
            let lingering = attempt.map_or((Vec::new(), 0), |attempt| {
                let pods_seen = attachments.evidence(Some(attempt)).pods_seen();
                promises::lingering_pods(attempt, &attachments.jobs, &attachments.pods, pods_seen)
            });
            self.promises.end(
                key,
                attempt.map(|attempt| tracked.sj().as_held(attempt)).as_deref(),
                lingering,
            );
        }
        let (task, timer) = match next {
            Next::Do(task) => (Some(task), None),
            Next::Wait(timer) => (None, timer),
            Next::Ask(_, until) => (None, Some(until)),
            Next::Change(_) | Next::Candidate => (None, None),
            Next::Inform(transition, timer) => {
                match transition {
                    Transition::Report => self.informing.add_last(key, &mut tracked.reported, now),
                    _ => self.informing.add(key, &mut tracked.reported, now),
                }
                (None, timer)
            }
            Next::NotReady(waiting, timer) => (None, self.informing.wait(key, tracked, waiting, timer, now)),
            Next::GiveBack(waiting, time) => {
                tracked.memory.given_back = Some((waiting.clone(), now));
                (None, self.informing.wait(key, tracked, waiting, Some(time), now))
            }
        };
        match task {
            Some(task) => self.dispatch(key, task, actions),
            None => self.agenda.set_timer(key, &mut tracked.turn, timer),
        }
    }

    /// Interrupts those that must go. Comes after every ScavengerJob about which something was seen was looked at, and
    /// before any starts.
    fn interrupt(&mut self, now: Timestamp, actions: &mut Vec<Action>) -> Vec<Ordered> {
        self.agenda.set_wake(Wake::Causes, None);
        let Self { settings: Ok(settings), seen, capacity, promises, occupancy, rounds, causes, .. } = self
        else {
            return Vec::new();
        };
        let (ordered, hurried) = (Vec::new(), Vec::new());
        let mut pool = Pool { seen, capacity, promises, occupancy, rounds, settings, now, ordered, hurried };
        let wake_at = causes.order(&mut pool);
        let Pool { ordered, hurried, .. } = pool;
        self.agenda.set_wake(Wake::Causes, wake_at);
        let closed = self.causes.left_pool.take_changed();
        self.close_or_open(&closed);
        for sj in ordered.iter().map(|order| &order.sj).chain(&hurried) {
            self.visit(sj, now, actions);
        }
        ordered
    }

    fn dispatch(&mut self, key: &Key, task: Task, actions: &mut Vec<Action>) {
        let Some(tracked) = self.seen.get_mut(key) else { return };
        self.agenda.set_timer(key, &mut tracked.turn, None);
        tracked.turn.act();
        let asks_why = matches!(task, Task::ListPods { job: Some(_) });
        if tracked.memory.asks_why != asks_why {
            tracked.memory.asks_why = asks_why;
        }
        actions.push(Action { sj: key.clone(), uid: tracked.sj().uid.clone(), task });
    }
}

#[cfg(any(test, feature = "fixtures"))]
/// What tests may look at beyond the report.
impl Planner {
    /// The capacity there is.
    pub fn capacity(&self) -> &Capacity {
        &self.capacity
    }

    /// What is in flight.
    pub fn ledger(&self) -> &Ledger {
        self.promises.ledger()
    }
}
