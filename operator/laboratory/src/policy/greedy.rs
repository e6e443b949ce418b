//! A reference: whenever an ordinary pod finds no node, those ScavengerJobs go that lose least together, anywhere, with perfect
//! and instant knowledge of every checkpoint. It looks at one pod at a time, so it is no bound over a month: what is cheapest
//! now can cost more later.
//!
//! The operator's planner says who starts, so what runs is of the same kind: who starts small ones first has less to lose.

use std::{cmp::Reverse, collections::BTreeMap};

use scavenger_planner::{
    internals::{
        Candidate,
        pending_pod::{CandidateNode, choose},
    },
    loss::Loss,
    values::{Key, Name, PreemptionMode, Settings},
};

use super::{operator::Operator, rule::Policy};
use crate::{
    values::{Amounts, AttemptId, NodeId, PodId, Time, stamp},
    world::{Change, Order, Owner, World},
};

/// The cheapest victims anywhere.
pub(super) struct Greedy {
    /// Starts, and interrupts nobody.
    starts: Operator,
    /// Ordinary pods that found no node, with the node that was chosen for each.
    pending: BTreeMap<PodId, Option<NodeId>>,
    /// True if something may help that did not help before.
    is_due: bool,
}

impl Greedy {
    pub(super) fn new(mut settings: Settings, late: Time, world: &World<'_>) -> Self {
        settings.preemption_mode = PreemptionMode::Scheduler;
        settings.headroom.interrupt_threshold = None;
        settings.headroom.interrupt_threshold_overrides.clear();
        let starts = Operator::new(settings, late, world);
        Self { starts, pending: BTreeMap::new(), is_due: false }
    }

    /// Chooses for each pod that nothing was chosen for, the most important first. What one choice takes the next cannot.
    fn serve(&mut self, world: &World<'_>, orders: &mut Vec<Order>) {
        let waits = |(pod, node): (&PodId, &Option<NodeId>)| {
            let is_lost = node.is_some_and(|node| !is_kept(world, *pod, node));
            (node.is_none() || is_lost).then_some(*pod)
        };
        if !std::mem::take(&mut self.is_due) {
            return;
        }
        let mut unserved: Vec<PodId> = self.pending.iter().filter_map(waits).collect();
        if unserved.is_empty() {
            return;
        }
        unserved.sort_by_key(|pod| (Reverse(world.pods[pod.index()].priority), *pod));
        let mut nodes: Vec<View> =
            (0..world.on_node.len()).map(|node| View::of(world, NodeId::at(node))).collect();
        for pod in unserved {
            let requests = world.pods[pod.index()].requests;
            let candidates = nodes.iter().map(|view| view.candidate(world)).collect();
            let Some((node, victims)) = choose(&requests.resources(), candidates) else { continue };
            let node = number(&node);
            let victims: Vec<AttemptId> = victims.iter().map(|key| AttemptId(number(&key.name).0)).collect();
            for view in &mut nodes {
                view.lose(&victims);
            }
            nodes[node.index()].free = nodes[node.index()].free.minus(requests);
            let pods = victims.iter().flat_map(|attempt| world.attempts[attempt.index()].pods.clone());
            orders.push(Order::Preempt(pod, node, pods.collect()));
            self.pending.insert(pod, Some(node));
        }
    }
}

/// Nodes and attempts have their numbers as names.
fn number(name: &Name) -> NodeId {
    NodeId(name.parse().expect("a name that was made of a number should be one"))
}

fn name(number: u32) -> Name {
    // So that their order is that of the numbers.
    format!("{number:010}").into()
}

/// True while the node that was chosen for a pod has, or will have, what it needs.
fn is_kept(world: &World<'_>, pod: PodId, node: NodeId) -> bool {
    let view = View::of(world, node);
    world.pods[pod.index()].nominated == Some(node) && view.free.each().into_iter().all(|free| free >= 0)
}

/// A node as it will be when all that is going is gone.
#[derive(Debug)]
struct View {
    node: NodeId,
    free: Amounts,
    /// Attempts that stay, with what they hold here.
    staying: BTreeMap<AttemptId, Amounts>,
}

impl View {
    fn of(world: &World<'_>, node: NodeId) -> Self {
        let (mut free, mut staying) = (world.free_on(node), BTreeMap::<AttemptId, Amounts>::new());
        for pod in &world.on_node[node.index()] {
            let pod = &world.pods[pod.index()];
            match pod.owner {
                _ if pod.deleted.is_some() => free = free.plus(pod.requests),
                Owner::Attempt(attempt, _) => {
                    let held = staying.entry(attempt).or_default();
                    *held = held.plus(pod.requests);
                }
                Owner::Ordinary(_) => {}
            }
        }
        Self { node, free, staying }
    }

    fn lose(&mut self, victims: &[AttemptId]) {
        for victim in victims {
            self.free = self.free.plus(self.staying.remove(victim).unwrap_or_default());
        }
    }

    fn candidate(&self, world: &World<'_>) -> CandidateNode {
        let candidates = self.staying.iter().map(|(attempt, held)| Candidate {
            sj: Key::new("lab", name(attempt.0)),
            held: held.resources(),
            loss: loss(world, *attempt),
            is_young: false,
        });
        CandidateNode {
            node: name(self.node.0),
            free: self.free.resources(),
            candidates: candidates.collect(),
        }
    }
}

/// What really is lost if an attempt ends now: cpu times the work that no checkpoint holds, and the restart.
fn loss(world: &World<'_>, attempt: AttemptId) -> Loss {
    let spec = world.spec_of(attempt);
    let state = &world.attempts[attempt.index()];
    // The next restart, without what is left of this one. Before it runs nothing is lost.
    let lost = state.run.map_or(0, |(since, restart)| {
        let done = spec.done_after(world.now - since, restart);
        let unsaved = if spec.saves { 0 } else { done.worked - done.saved };
        unsaved + spec.restart - (restart - done.restart)
    });
    let cpu = spec.requests.cpu * i64::from(spec.pods);
    Loss {
        amount: u128::try_from(cpu * lost).unwrap_or(0),
        interrupted_count: world.scavengers[state.start.sj.index()].interruptions,
        began: Reverse(stamp(state.run.map_or(world.now, |(since, _)| since))),
        uid: name(attempt.0),
    }
}

impl Policy for Greedy {
    fn see(&mut self, change: Change, world: &World<'_>) {
        self.starts.see(change, world);
        match change {
            Change::Pod(id) => {
                let pod = &world.pods[id.index()];
                self.is_due |= pod.is_over() || pod.unschedulable;
                if !matches!(pod.owner, Owner::Ordinary(_)) {
                    return;
                }
                if pod.unschedulable && pod.node.is_none() && !pod.is_over() {
                    self.pending.entry(id).or_insert(None);
                } else {
                    self.pending.remove(&id);
                }
            }
            Change::PodGone(id) => _ = self.pending.remove(&id),
            Change::Submitted(_) | Change::Job(_) | Change::Over(_) => {}
        }
    }

    fn act(&mut self, world: &World<'_>) -> Vec<Order> {
        let mut orders = Vec::new();
        self.serve(world, &mut orders);
        orders.extend(self.starts.act(world));
        orders
    }

    fn wake_at(&self) -> Option<Time> {
        self.starts.wake_at()
    }
}
