//! The cluster as a whole: the clock, and pods from their creation to their end.

use std::{cmp::Ordering, collections::BinaryHeap};

use super::{
    attempt::{Attempt, ScavengerState, Start},
    pod::{Allowed, Disruption, Owner, Phase, Pod},
    queue::Queue,
    tally::Tally,
};
use crate::{
    chance::Chance,
    values::{Amounts, AttemptId, NodeId, PodId, SECOND, SjId, Time},
    workload::Workload,
};

/// How long Kubernetes takes, in milliseconds: what the simulator's delays are, which were measured.
#[derive(Debug, Clone, Copy)]
pub struct Delays {
    /// Until kube-scheduler looks at what changed.
    pub scheduler: Time,
    /// From binding to a running container.
    pub kubelet: Time,
    /// From the end of a container to that of its pod's phase.
    pub pod_phase: Time,
    /// Until the Job controller makes the pods of a new Job.
    pub new_pods: Time,
    /// Until the Job controller looks at a Job that changed.
    pub job_controller: Time,
    /// How long a pod takes to go whose container has not started.
    pub unstarted: Time,
    /// By how much each of them differs from one time to the next: up to so many percent, less or more.
    pub spread_percent: i64,
}

impl Default for Delays {
    fn default() -> Self {
        let delays = scavenger_simulator::Delays::default();
        let millis = |span: jiff::SignedDuration| Time::try_from(span.as_millis()).unwrap_or(0);
        Self {
            scheduler: millis(delays.scheduler),
            kubelet: millis(delays.kubelet),
            pod_phase: millis(delays.pod_phase),
            new_pods: millis(delays.new_pods),
            job_controller: millis(delays.job_controller),
            unstarted: 50,
            spread_percent: 0,
        }
    }
}

/// How long an ordinary pod takes to end that is preempted by another one.
const ORDINARY_GRACE: Time = SECOND;

/// What is different about the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// A ScavengerJob was submitted.
    Submitted(SjId),
    /// A pod was created or changed.
    Pod(PodId),
    /// A pod's object is gone.
    PodGone(PodId),
    /// The Job of an attempt is complete or failed.
    Job(AttemptId),
    /// An attempt has ended, and none of its pods holds anything any more.
    Over(AttemptId),
}

/// What is to be done.
#[derive(Debug, Clone)]
pub enum Order {
    /// An attempt of a ScavengerJob begins.
    Start(Start),
    /// These pods of ScavengerJobs are evicted.
    Interrupt(Vec<PodId>),
    /// These pods of ScavengerJobs are deleted without a grace period.
    Kill(Vec<PodId>),
    /// For an ordinary pod, what is free on a node, or will be, is kept, and these pods of ScavengerJobs go as if
    /// kube-scheduler had preempted them.
    Preempt(PodId, NodeId, Vec<PodId>),
}

/// Which pods preempt others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Preempts {
    /// Every ordinary pod.
    All,
    /// Those that name a PriorityClass: others have priority 0 and `preemptionPolicy: Never`.
    ThoseWithPriority,
    /// None.
    None,
}

/// What happens at a time.
#[derive(Debug, Clone, Copy)]
pub(super) enum Event {
    MakePods(AttemptId),
    Schedule,
    StartContainer(PodId),
    EndPod(PodId),
    WorkDone(AttemptId, u32),
    SyncJob(AttemptId),
    LookAtUse,
}

#[derive(Debug)]
struct Due {
    time: Time,
    serial: u64,
    event: Event,
}

impl Ord for Due {
    /// The first is the largest.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.time, other.serial).cmp(&(self.time, self.serial))
    }
}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Due {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Due {}

/// The cluster in virtual time.
#[derive(Debug)]
pub struct World<'a> {
    /// The time.
    pub now: Time,
    /// What is asked of it.
    pub workload: &'a Workload,
    /// Every pod that there was.
    pub pods: Vec<Pod>,
    /// How each ScavengerJob stands.
    pub scavengers: Vec<ScavengerState>,
    /// Every attempt that there was.
    pub attempts: Vec<Attempt>,
    /// What was counted.
    pub tally: Tally,
    /// What ordinary pods ask for that have a node, or that kube-scheduler has not looked at yet.
    pub asked_by_ordinary: Amounts,
    /// Pods that are bound to each node and have not ended.
    pub on_node: Vec<Vec<PodId>>,
    pub(super) delays: Delays,
    chance: Chance,
    preempts: Preempts,
    pub(super) queue: Queue,
    events: BinaryHeap<Due>,
    serial: u64,
    pub(super) changes: Vec<Change>,
    next_ordinary: usize,
    next_scavenger: usize,
}

impl<'a> World<'a> {
    /// The cluster before anything has happened.
    #[must_use]
    pub fn new(workload: &'a Workload, preempts: Preempts, delays: Delays, seed: u64) -> Self {
        let mut world = Self {
            now: 0,
            workload,
            pods: Vec::new(),
            scavengers: vec![ScavengerState::default(); workload.scavengers.len()],
            attempts: Vec::new(),
            tally: Tally::new(workload.ordinary.len()),
            asked_by_ordinary: Amounts::default(),
            on_node: vec![Vec::new(); workload.nodes.len()],
            delays,
            chance: Chance::new(seed, 101),
            preempts,
            queue: Queue::new(&workload.nodes, Chance::new(seed, 100)),
            events: BinaryHeap::new(),
            serial: 0,
            changes: Vec::new(),
            next_ordinary: 0,
            next_scavenger: 0,
        };
        if workload.uses.is_some() {
            world.after(0, Event::LookAtUse);
        }
        world
    }

    /// When something happens next.
    #[must_use]
    pub fn next_time(&self) -> Option<Time> {
        let event = self.events.peek().map(|due| due.time);
        let ordinary = self.workload.ordinary.get(self.next_ordinary).map(|pod| pod.arrival);
        let scavenger = self.workload.scavengers.get(self.next_scavenger).map(|sj| sj.arrival);
        event.into_iter().chain(ordinary).chain(scavenger).min()
    }

    /// Lets everything happen up to a time, and says what changed.
    pub fn advance(&mut self, time: Time) -> Vec<Change> {
        while let Some(next) = self.next_time().filter(|next| *next <= time) {
            self.now = next.max(self.now);
            while let Some(pod) = self.workload.ordinary.get(self.next_ordinary)
                && pod.arrival <= next
            {
                self.create_ordinary(self.next_ordinary, pod.duration);
                self.next_ordinary += 1;
            }
            while let Some(sj) = self.workload.scavengers.get(self.next_scavenger)
                && sj.arrival <= next
            {
                self.changes.push(Change::Submitted(SjId::at(self.next_scavenger)));
                self.next_scavenger += 1;
            }
            while self.events.peek().is_some_and(|due| due.time <= next) {
                let Some(Due { event, .. }) = self.events.pop() else { break };
                self.happen(event);
            }
        }
        self.now = time;
        std::mem::take(&mut self.changes)
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::MakePods(attempt) => self.make_pods(attempt),
            Event::Schedule => self.schedule(),
            Event::StartContainer(pod) => self.start_container(pod),
            Event::EndPod(pod) => self.end_pod(pod),
            Event::WorkDone(attempt, run) => self.work_done(attempt, run),
            Event::SyncJob(attempt) => self.sync_job(attempt),
            Event::LookAtUse => self.look_at_use(),
        }
    }

    /// Carries out an order.
    pub fn carry_out(&mut self, order: Order) {
        match order {
            Order::Start(start) => self.start_attempt(start),
            Order::Interrupt(pods) => {
                for pod in pods {
                    self.delete_pod(pod, Disruption::Evicted);
                }
            }
            Order::Kill(pods) => {
                for pod in pods {
                    self.remove_pod(pod, Disruption::Evicted, false);
                }
            }
            Order::Preempt(pod, node, victims) => {
                for victim in victims {
                    self.delete_pod(victim, Disruption::Preempted);
                }
                self.nominate(pod, node);
            }
        }
    }

    /// The run ends: what is under way is counted as it stands.
    pub fn finish(&mut self) {
        self.settle_tally();
        for attempt in 0..self.attempts.len() {
            self.cut(AttemptId::at(attempt));
        }
        for pod in 0..self.pods.len() {
            self.count_container(PodId::at(pod), self.now);
        }
    }

    /// How long Kubernetes takes this time for what takes so long on average.
    pub(super) fn drawn(&mut self, delay: Time) -> Time {
        let most = delay * self.delays.spread_percent / 100;
        if most == 0 { delay } else { delay - most + self.chance.below(2 * most + 1) }
    }

    pub(super) fn after(&mut self, delay: Time, event: Event) {
        self.serial += 1;
        self.events.push(Due { time: self.now + delay, serial: self.serial, event });
    }

    fn create_ordinary(&mut self, place: usize, left: Time) {
        let ordinary = self.workload.ordinary[place];
        let preempts = match self.preempts {
            Preempts::All => true,
            Preempts::ThoseWithPriority => ordinary.priority != 0,
            Preempts::None => false,
        };
        self.asked_by_ordinary = self.asked_by_ordinary.plus(ordinary.requests);
        let owner =
            Owner::Ordinary(u32::try_from(place).expect("a trace should have fewer than four billion pods"));
        self.create_pod(owner, (ordinary.requests, ordinary.priority, preempts), &None, left);
    }

    pub(super) fn create_pod(
        &mut self,
        owner: Owner,
        (requests, priority, preempts): (Amounts, i32, bool),
        allowed: &Allowed,
        left: Time,
    ) -> PodId {
        let id = PodId::at(self.pods.len());
        let shape = self.queue.shape(requests, priority, preempts, allowed);
        self.pods.push(Pod {
            owner,
            requests,
            priority,
            created: self.now,
            node: None,
            nominated: None,
            unschedulable: false,
            phase: Phase::Pending,
            bound: None,
            started: None,
            deleted: None,
            is_killed: false,
            ended: None,
            is_gone: false,
            shape,
            left,
            idle_since: None,
        });
        self.queue.join(shape, self.now, id);
        self.changed(id);
        self.schedule_soon();
        id
    }

    pub(super) fn changed(&mut self, pod: PodId) {
        self.changes.push(Change::Pod(pod));
    }

    pub(super) fn pod_gone(&mut self, pod: PodId) {
        self.pods[pod.index()].is_gone = true;
        self.changes.push(Change::PodGone(pod));
    }

    fn start_container(&mut self, id: PodId) {
        let now = self.now;
        let pod = &mut self.pods[id.index()];
        if pod.is_over() || pod.deleted.is_some() {
            return;
        }
        (pod.phase, pod.started) = (Phase::Running, Some(now));
        self.changed(id);
        match self.pods[id.index()].owner {
            Owner::Ordinary(place) => {
                let pod = &self.pods[id.index()];
                self.tally.ordinary_starts(place, now - self.workload.ordinary[place as usize].arrival);
                self.after(pod.left, Event::EndPod(id));
            }
            Owner::Attempt(attempt, _) => {
                self.pods[id.index()].idle_since = Some(now);
                self.begin_work(attempt);
            }
        }
    }

    /// Somebody asks for the end of a pod.
    pub(super) fn delete_pod(&mut self, id: PodId, why: Disruption) {
        self.remove_pod(id, why, true);
    }

    /// The end of a pod is asked for, with its grace period or without.
    fn remove_pod(&mut self, id: PodId, why: Disruption, has_grace: bool) {
        let now = self.now;
        let pod = &mut self.pods[id.index()];
        if pod.is_over() || pod.deleted.is_some() {
            return;
        }
        pod.deleted = Some((now, why));
        let (owner, is_bound, runs) = (pod.owner, pod.node.is_some(), pod.phase == Phase::Running);
        self.changed(id);
        if !is_bound {
            self.leave_queue(id);
            return self.end_pod(id);
        }
        let delay = match owner {
            _ if !runs => self.drawn(self.delays.unstarted),
            Owner::Ordinary(_) => ORDINARY_GRACE + self.drawn(self.delays.pod_phase),
            Owner::Attempt(attempt, _) => {
                self.stop_work(attempt, has_grace);
                let grace = if has_grace { self.spec_of(attempt).grace } else { 0 };
                grace + self.drawn(self.delays.pod_phase)
            }
        };
        self.after(delay, Event::EndPod(id));
    }

    /// A pod holds nothing any more.
    pub(super) fn end_pod(&mut self, id: PodId) {
        let now = self.now;
        let pod = &self.pods[id.index()];
        if pod.is_over() {
            return;
        }
        let (owner, requests, node, is_asking) = (pod.owner, pod.requests, pod.node, !pod.unschedulable);
        let has_succeeded = match owner {
            Owner::Ordinary(_) => pod.started.is_some_and(|started| now >= started + pod.left),
            Owner::Attempt(attempt, _) => self.attempts[attempt.index()].work_done.is_some(),
        };
        self.count_container(id, now);
        if let Some(node) = node {
            self.settle_tally();
            self.tally.occupy(owner, -self.cpu_of(id));
            self.release(id, node);
        }
        let pod = &mut self.pods[id.index()];
        pod.phase = if has_succeeded { Phase::Succeeded } else { Phase::Failed };
        pod.ended = Some(now);
        self.changed(id);
        match owner {
            Owner::Ordinary(place) => {
                if is_asking {
                    self.asked_by_ordinary = self.asked_by_ordinary.minus(requests);
                }
                self.pod_gone(id);
                if !has_succeeded {
                    self.replace_ordinary(id, place);
                }
            }
            Owner::Attempt(attempt, _) => self.pod_of_attempt_ended(attempt),
        }
    }

    /// The controller of an ordinary pod that was preempted makes another one for the rest of its time.
    fn replace_ordinary(&mut self, id: PodId, place: u32) {
        let pod = &self.pods[id.index()];
        let ran = pod.started.map_or(0, |started| self.now - started);
        let left = (pod.left - ran).max(1);
        self.tally.ordinary_preempted(place);
        self.create_ordinary(place as usize, left);
    }

    /// The container of a pod of a ScavengerJob has stopped, or the run has: what it ran is counted.
    pub(super) fn count_container(&mut self, id: PodId, now: Time) {
        let cpu = self.cpu_of(id);
        let pod = &mut self.pods[id.index()];
        let (Owner::Attempt(..), Some(started), None) = (pod.owner, pod.started, pod.ended) else { return };
        self.tally.ran += cpu * (now - started);
        if let Some(since) = pod.idle_since.take() {
            self.tally.idle += cpu * (now - since);
        }
    }

    /// The cores that a pod holds: what it requests, or may use if that is more.
    pub(super) fn cpu_of(&self, id: PodId) -> i64 {
        let pod = &self.pods[id.index()];
        match pod.owner {
            Owner::Ordinary(_) => pod.requests.cpu,
            Owner::Attempt(attempt, _) => self.spec_of(attempt).requests.cpu,
        }
    }

    pub(super) fn settle_tally(&mut self) {
        self.tally.settle(self.now);
    }
}
