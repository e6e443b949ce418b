//! This operator: its own planner, by requests, between watches that are late and an API server that answers.
//!
//! What the real operator does around its planner is here as far as time and correctness need it: objects with versions, a line
//! of actions (the planner's own), a few of them under way at a time, their requests and answers, and watches. Nothing
//! fails, nobody else changes objects, and there is one replica: what can go wrong is played by the simulator.

mod api;
mod checkpoints;
mod objects;

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap, HashMap, VecDeque},
};

use scavenger_planner::{
    Planner,
    action::{Action, ActionResult, Line},
    values::{Confinement, Job, Key, Node, Observation, ScavengerJob, Settings},
};

use super::rule::Policy;
use crate::{
    values::{AttemptId, MINUTE, PodId, SECOND, SjId, Time, stamp, time_of},
    world::{Allowed, Change, Order, Owner, World},
};
use checkpoints::Checkpoints;
use objects::Seen;

/// As many actions are under way at a time as with the operator's own default.
const CONCURRENCY: usize = 32;

/// From a plan to the write, and from the write to its answer: as in the simulator.
const REQUEST: Time = 3;
/// See [`REQUEST`].
const ANSWER: Time = 3;

/// How often the operator hears what nodes and pods use, and how old that is then. A real one reads it every 15 seconds; here it
/// changes once a minute.
const MEASURE_EVERY: Time = MINUTE;
/// See [`MEASURE_EVERY`].
const MEASURED_BEFORE: Time = 15 * SECOND;

/// What is on its way between the operator and the API server.
#[derive(Debug)]
enum Message {
    Request(Box<Action>),
    Answer(Box<ActionResult>),
}

/// What a watch will show.
#[derive(Debug)]
enum Event {
    ScavengerJob(Box<ScavengerJob>),
    ScavengerJobGone(Key),
    Job(Box<Job>),
    JobGone(Box<Job>),
    Pod(PodId, Box<Seen>),
    PodGone(PodId),
    /// The supervisors of an attempt report a checkpoint that was written at a time.
    Checkpoint(AttemptId, Time),
    /// What is shown as it is: measurements, and what agents of nodes say.
    Told(Box<Observation>),
}

/// The operator.
pub(super) struct Operator {
    planner: Planner,
    late: Time,
    /// What watches will show, and when.
    watched: VecDeque<(Time, Event)>,
    /// Requests and answers, by when they arrive.
    messages: BinaryHeap<Reverse<(Time, u64)>>,
    contents: HashMap<u64, Message>,
    serial: u64,
    line: Line,
    under_way: usize,
    wake_at: Option<Time>,
    /// When the use of nodes is measured next; none where it does not matter.
    measured_at: Option<Time>,
    /// The ScavengerJobs as the API server has them.
    objects: Vec<Option<ScavengerJob>>,
    /// The Job of each attempt, and the attempt of each ScavengerJob by its number.
    jobs: HashMap<AttemptId, Job>,
    attempts: HashMap<(SjId, u32), AttemptId>,
    known_attempts: usize,
    checkpoints: Checkpoints,
    /// How often it ordered an interruption, by reason.
    ordered: BTreeMap<String, u64>,
    version: u64,
    nodes: Vec<Node>,
    /// Where pods may go, by what the pool adds to their Job.
    allowed: Vec<(Confinement, Allowed)>,
    orders: Vec<Order>,
}

impl Operator {
    pub(super) fn new(settings: Settings, late: Time, world: &World<'_>) -> Self {
        let nodes: Vec<Node> = world.workload.nodes.iter().map(objects::node).collect();
        let measured_at = world.workload.uses.as_ref().and(settings.usage.as_ref()).map(|_| MEASURED_BEFORE);
        let mut planner = Planner::default();
        if measured_at.is_some() {
            let agents = nodes.iter().map(|node| node.name.clone()).collect();
            planner.observe(Observation::NodeAgents(agents), stamp(0));
        }
        planner.observe(Observation::Pool(Box::new(Ok(settings))), stamp(0));
        for node in &nodes {
            planner.observe(Observation::Node(node.clone()), stamp(0));
        }
        Self {
            planner,
            late,
            watched: VecDeque::new(),
            messages: BinaryHeap::new(),
            contents: HashMap::new(),
            serial: 0,
            line: Line::default(),
            under_way: 0,
            wake_at: Some(0),
            measured_at,
            objects: vec![None; world.workload.scavengers.len()],
            jobs: HashMap::new(),
            attempts: HashMap::new(),
            known_attempts: 0,
            checkpoints: Checkpoints::default(),
            ordered: BTreeMap::new(),
            version: 0,
            nodes,
            allowed: Vec::new(),
            orders: Vec::new(),
        }
    }

    /// A watch will show something. The operator takes in at once what arrives close together, so it looks at watches once in
    /// each `late`.
    fn show(&mut self, now: Time, event: Event) {
        let late = self.late.max(1);
        let time = (now + 2 * late - 1) / late * late;
        self.watched.push_back((time, event));
    }

    fn send(&mut self, time: Time, message: Message) {
        self.serial += 1;
        self.messages.push(Reverse((time, self.serial)));
        self.contents.insert(self.serial, message);
    }

    fn next_version(&mut self) -> u64 {
        self.version += 1;
        self.version
    }

    /// Requests reach the API server, answers reach the operator. True if there was an answer.
    fn deliver(&mut self, world: &World<'_>) -> bool {
        let mut is_answered = false;
        while let Some(Reverse((time, serial))) = self.messages.peek().copied()
            && time <= world.now
        {
            self.messages.pop();
            match self.contents.remove(&serial) {
                Some(Message::Request(action)) => self.execute(*action, world),
                Some(Message::Answer(result)) => {
                    self.under_way -= 1;
                    self.planner.observe(Observation::Done(*result), stamp(world.now));
                    is_answered = true;
                }
                None => {}
            }
        }
        is_answered
    }

    /// Watches show what is due. True if there was something.
    fn watch(&mut self, world: &World<'_>) -> bool {
        let due = self.watched.iter().take_while(|(time, _)| *time <= world.now).count();
        let events: Vec<Event> = self.watched.drain(..due).map(|(_, event)| event).collect();
        // Of several versions that arrive together only the newest says anything.
        let mut newest: HashMap<PodId, usize> = HashMap::new();
        for (place, event) in events.iter().enumerate() {
            if let Event::Pod(pod, _) = event {
                newest.insert(*pod, place);
            }
        }
        for (place, event) in events.into_iter().enumerate() {
            if let Event::Pod(pod, _) = &event
                && newest.get(pod) != Some(&place)
            {
                continue;
            }
            if let Some(observation) = self.observation(event, world) {
                self.planner.observe(observation, stamp(world.now));
            }
        }
        due > 0
    }

    fn observation(&self, event: Event, world: &World<'_>) -> Option<Observation> {
        Some(match event {
            Event::ScavengerJob(sj) => Observation::ScavengerJob(sj),
            Event::ScavengerJobGone(key) => Observation::ScavengerJobGone(key),
            Event::Job(job) => Observation::Job(*job),
            Event::JobGone(job) => Observation::JobGone {
                namespace: job.key.namespace.clone(),
                owner: job.owner.clone(),
                uid: job.uid,
            },
            Event::Pod(pod, seen) => Observation::Pod(Box::new(objects::pod(world, pod, &seen, &self.nodes))),
            Event::PodGone(pod) => Observation::PodGone(objects::pod_key(world, pod)),
            Event::Told(observation) => *observation,
            Event::Checkpoint(attempt, time) => {
                // The first pod counts, as where all of a gang mount one claim.
                let first = world.attempts[attempt.index()].pods.first();
                objects::report(world, *first?, time)
            }
        })
    }

    /// Checkpoints that are written by now are reported.
    fn report_checkpoints(&mut self, world: &World<'_>) {
        for (attempt, time) in self.checkpoints.written_by_now(world) {
            self.show(world.now, Event::Checkpoint(attempt, time));
        }
    }

    /// What nodes and pods use is measured by the clock.
    fn measure(&mut self, world: &World<'_>) {
        if self.measured_at.is_none_or(|time| time > world.now) {
            return;
        }
        self.measured_at = Some(world.now + MEASURE_EVERY);
        let time = stamp(world.now - MEASURED_BEFORE);
        let (nodes, pods) = objects::uses(world, &self.nodes, time);
        for told in [Observation::Usage(Some(nodes)), Observation::PodUsage(pods)] {
            self.show(world.now, Event::Told(Box::new(told)));
        }
    }

    fn plan(&mut self, world: &World<'_>) {
        let plan = self.planner.plan(stamp(world.now));
        self.wake_at = plan.wake_at.map(|time| time_of(time).max(world.now + 1));
        for order in &plan.report.ordered {
            *self.ordered.entry(order.reason.to_string()).or_default() += 1;
        }
        for action in plan.actions {
            self.line.join(action);
        }
    }

    fn begin(&mut self, now: Time) {
        while self.under_way < CONCURRENCY
            && let Some(action) = self.line.take()
        {
            self.under_way += 1;
            self.send(now + REQUEST, Message::Request(Box::new(action)));
        }
    }
}

impl Policy for Operator {
    fn see(&mut self, change: Change, world: &World<'_>) {
        self.follow_attempts(world);
        let now = world.now;
        match change {
            Change::Submitted(sj) => {
                let spec = &world.workload.scavengers[sj.index()];
                let object = objects::scavenger_job(sj, spec);
                self.store(object, now);
            }
            Change::Pod(pod) => {
                let state = &world.pods[pod.index()];
                // The last version of an ordinary pod comes with its deletion.
                if matches!(state.owner, Owner::Ordinary(_)) && state.is_over() {
                    return;
                }
                let mut seen = Seen::of(state, self.next_version());
                if let Owner::Attempt(attempt, _) = state.owner {
                    self.checkpoints.follow(attempt, world);
                    seen.supervision = self.checkpoints.of(attempt);
                }
                self.show(now, Event::Pod(pod, Box::new(seen)));
                if state.is_killed {
                    self.show(now, Event::Told(Box::new(objects::kill(world, pod))));
                }
                self.collect_pod(pod, world);
            }
            Change::PodGone(pod) => {
                self.next_version();
                self.show(now, Event::PodGone(pod));
                if let Owner::Attempt(attempt, _) = world.pods[pod.index()].owner {
                    self.collect(attempt, world);
                }
            }
            Change::Job(attempt) => self.job_changed(attempt, world),
            Change::Over(_) => {}
        }
    }

    fn act(&mut self, world: &World<'_>) -> Vec<Order> {
        self.follow_attempts(world);
        self.report_checkpoints(world);
        self.measure(world);
        let is_answered = self.deliver(world);
        let is_shown = self.watch(world);
        if is_answered || is_shown || self.wake_at.is_some_and(|time| time <= world.now) {
            self.plan(world);
        }
        self.begin(world.now);
        std::mem::take(&mut self.orders)
    }

    fn wake_at(&self) -> Option<Time> {
        let message = self.messages.peek().map(|Reverse((time, _))| *time);
        let watched = self.watched.front().map(|(time, _)| *time);
        let checkpoint = self.checkpoints.next();
        message.into_iter().chain(watched).chain(checkpoint).chain(self.measured_at).chain(self.wake_at).min()
    }

    fn ordered(&self) -> BTreeMap<String, u64> {
        self.ordered.clone()
    }
}
