//! What people and programs ask the planner.

use jiff::{SignedDuration, Timestamp};

use super::Planner;
use crate::{
    capacity::NodeStanding,
    causes::{left_pool, rounds::Allowance},
    lifecycle::{loss, priority},
    queue::{QueueEntry, SharesReport},
    report::{GroupReport, HeldBack, NodeReport, PoolReport},
    values::{Key, Name, PreemptionMode, Reason, RememberedUse, resources::Resources},
};

impl Planner {
    /// How the pool stands. Looks at every node: for the pool's status and for people who ask.
    #[must_use]
    pub fn pool_report(&self, now: Timestamp) -> PoolReport<'_> {
        let ledger = self.promises.ledger();
        let settings = self.settings.as_ref().map_err(String::as_str);
        let allocatable = self.capacity.allocatable();
        let nodes = self.capacity.pool_nodes().map(|(node, _)| {
            let free = self.capacity.free_for_one_pod(&node.name, ledger);
            let used = self.capacity.taken_of(&node.name, ledger);
            NodeReport {
                name: &node.name,
                labels: &node.labels,
                allocatable: &node.allocatable,
                used,
                free,
                has_agent: self.node_use.agents().contains(&node.name),
            }
        });
        let groups = self.capacity.groups().map(|group| GroupReport {
            taints: group.taints(),
            allocatable: group.allocatable,
            used: group.used,
            limit: settings.map(|pool| group.limit(pool)).unwrap_or_default(),
        });
        let serves = settings.is_ok_and(|pool| pool.preemption_mode == PreemptionMode::Operator);
        let unsupported = self.causes.pending_pods.unjudged(&self.capacity);
        let is_overdue = |node: &Name, until: Timestamp| {
            until <= now && self.capacity.scavenger_pods(node).next().is_some()
        };
        // May look at every node for each pending pod, so once.
        let pending_requests = self.capacity.held_for_pending();
        PoolReport {
            settings,
            allocatable,
            used: self.capacity.used_without_pending(ledger).plus(&pending_requests),
            pending_requests,
            limit: settings.map(|pool| self.capacity.limit(pool)).unwrap_or_default(),
            nodes: nodes.collect(),
            groups: groups.collect(),
            counts: self.seen.counts(),
            oldest_ready: self.queue.oldest_ready(),
            longest_deletion: self.seen.longest_deletion(),
            starved: self.seen.starved().len(),
            unsupported_pods: unsupported.filter(|_| serves).collect(),
            closed_nodes: self.capacity.closed().collect(),
            leaving_nodes: self.capacity.leaving().collect(),
            overdue_nodes: self.capacity.leaving().filter(|(node, until)| is_overdue(node, *until)).count(),
            without_supervisor: settings
                .ok()
                .and_then(|settings| settings.supervisor.as_ref())
                .map(|_| self.supervisors.all().collect()),
            measuring_memory: self.causes.short_nodes.measured.measuring(),
            usage: settings.ok().and_then(|settings| self.node_use.report(settings, &self.capacity, now)),
            held_back: self.held_back(now),
            shares: self.shares(now),
        }
    }

    /// How tenants stand, and what is to be written down of them; none if the pool says nothing of tenants. Looks at every
    /// ScavengerJob.
    #[must_use]
    pub fn shares(&self, now: Timestamp) -> Option<SharesReport> {
        let scavenger_jobs = self.seen.iter().map(|(_, tracked)| tracked.sj());
        self.shares.report(scavenger_jobs, &self.capacity, self.promises.ledger(), now)
    }

    /// The tenant of a namespace with ScavengerJobs; none if the pool says nothing of tenants.
    #[must_use]
    pub fn tenant_of(&self, namespace: &Name) -> Option<Name> {
        self.shares.known_tenant_of(namespace)
    }

    /// Interruptions that budgets hold back, by reason.
    #[must_use]
    pub fn held_back(&self, now: Timestamp) -> Vec<HeldBack<'_>> {
        let held = self.rounds.held().map(|(reason, jobs)| {
            let allowance = self.allowance(reason, now);
            let next = if allowance.more > 0 { Some(now) } else { allowance.again };
            HeldBack { reason, jobs, next }
        });
        held.collect()
    }

    /// How many more may be interrupted now for a reason.
    pub(super) fn allowance(&self, reason: &Reason, now: Timestamp) -> Allowance {
        let budgets = self.settings.as_ref().map_or(&[][..], |settings| &settings.budgets);
        self.rounds.allowance(reason, budgets, self.occupancy.len(), now)
    }

    /// How a node stands: whether ScavengerJobs may be added to it, and else why not. None if there is no such node.
    #[must_use]
    pub fn node_standing(&self, node: &Name) -> Option<NodeStanding> {
        self.capacity.standing(node, self.settings.as_ref().ok())
    }

    /// Why a ScavengerJob is interrupted soon although it is not its turn: one of its pods is on a node that left the pool, or that
    /// leaves it.
    #[must_use]
    pub fn node_that_left(&self, sj: &Key) -> Option<String> {
        let settings = self.settings.as_ref().ok()?;
        let attachments = self.seen.attachments(sj)?;
        let outside = attachments.bound().find(|(node, _)| self.capacity.outside().contains(*node));
        let Some((node, _)) = outside else {
            let until = |node| Some((self.capacity.node(node)?.node.until?, node));
            let (until, node) = attachments.bound().filter_map(|(node, _)| until(node)).min()?;
            let message = left_pool::message_before(node, until);
            return Some(format!("{message}; interrupted before, as far as disruptionBudgets allow it"));
        };
        let why = left_pool::message(self.capacity.node(node)?.node, settings);
        let grace = left_pool::GRACE.as_secs();
        Some(format!("{why}; interrupted in turn, once the node was outside for {grace} s"))
    }

    /// The run time that a ScavengerJob would lose if it were interrupted now; none unless it has an attempt under way.
    #[must_use]
    pub fn expected_loss(&self, sj: &Key, now: Timestamp) -> Option<SignedDuration> {
        let sj = self.seen.get(sj)?.sj();
        sj.status.active_attempt().map(|_| loss::expected(sj, now))
    }

    /// Namespaces of ScavengerJobs that may run under the supervisor: its pods there need to know whom to trust. None if the
    /// pool has no supervisor. Costs one look for each namespace.
    #[must_use]
    pub fn supervised_namespaces(&self) -> Vec<&Name> {
        match self.settings.as_ref().ok().and_then(|settings| settings.supervisor.as_ref()) {
            Some(_) => self.seen.namespaces().collect(),
            None => Vec::new(),
        }
    }

    /// UIDs of the pods that are asked for a checkpoint, each with the time after which one answers.
    pub fn asked_for_checkpoint(&self) -> impl Iterator<Item = (&Name, Timestamp)> {
        self.asked.values().flat_map(|request| request.pods.iter().map(|pod| (pod, request.since)))
    }

    /// What is known of the use of nodes, for the planner after this one; none if nothing is counted by use.
    #[must_use]
    pub fn remembered_use(&self) -> Option<RememberedUse> {
        let known = self.node_use.remember(|node| self.capacity.node(node).is_some())?;
        Some(RememberedUse { by_requests: self.by_requests.remember(), ..known })
    }

    /// The last checkpoint that is known of the ScavengerJob of whose active attempt this is a pod; none for any other pod.
    #[must_use]
    pub fn checkpoint_of(&self, pod: &Key, uid: &Name) -> Option<Timestamp> {
        let (key, _) = self.seen.reporter(pod, uid)?;
        self.seen.get(&key)?.sj().status.last_checkpoint
    }

    /// How many are before a ScavengerJob in the queue of those that may start, and how many there are; none if it is
    /// not in it. Walks over the whole queue: for people who ask.
    #[must_use]
    pub fn place_in_queue(&self, sj: &Key) -> Option<(usize, usize)> {
        self.queue.place(sj, &self.shares)
    }

    /// The queue of those that may start, in its order. Sorts the whole queue: for people who ask.
    #[must_use]
    pub fn queue(&self) -> Vec<QueueEntry<'_>> {
        self.queue.in_order(&self.capacity, self.promises.ledger(), &self.shares)
    }

    /// Ordinary pods that wait for a node and hold capacity of the pool, and what they request. Looks at every node for each
    /// of them: for people who ask.
    pub fn pods_that_hold_capacity(&self) -> impl Iterator<Item = (&Key, &Resources)> {
        self.capacity.holders()
    }

    /// The step of a ScavengerJob's running priority, and how many steps there are; none unless it runs.
    #[must_use]
    pub fn running_priority(&self, sj: &Key, now: Timestamp) -> Option<(i32, i32)> {
        let settings = self.settings.as_ref().ok()?;
        Some((priority::level(self.seen.get(sj)?.sj(), settings, now)?, settings.priority_steps))
    }
}
