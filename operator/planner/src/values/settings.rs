//! Settings of the pool, and which thresholds hold when and on which node.
//!
//! In a pool with groups start thresholds hold on each node, that of its group or the pool's: the planner chooses the node then.
//! Windows of time concern the nodes without a group.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::{
    Budget, Calendar, Filling, Headroom, Name, Node, RuntimeClass, Sharing, Supervisor, Toleration,
    UsageRules,
    placement::may_tolerate,
    resources::{Share, Thresholds, Weights},
};

/// Settings of the pool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// `metadata.generation` of the pool, which its status repeats.
    #[serde(default)]
    pub generation: i64,
    /// Labels that a node of the pool must have.
    pub node_selector: BTreeMap<Name, Name>,
    /// Keys of taints that a node of the pool may have.
    pub tolerated_taints: Vec<Name>,
    /// RuntimeClasses that may have a say in where pods go.
    #[serde(default)]
    pub allowed_runtime_classes: Vec<Name>,
    /// Up to where ScavengerJobs may fill the pool now.
    pub start_thresholds: Thresholds,
    /// How many may be starting at the same time.
    pub max_concurrent_starts: usize,
    /// How long a pod may stay unscheduled.
    pub pending_timeout: SignedDuration,
    /// How long a container may fail to be created.
    pub start_deadline: SignedDuration,
    /// How long a missing reference may be missing.
    pub reference_grace: SignedDuration,
    /// How long each start may be refused by admission.
    #[serde(default)]
    pub refusal_grace: SignedDuration,
    /// Wait after an interruption.
    pub interruption_backoff: SignedDuration,
    /// After this time of waiting capacity is kept for a ScavengerJob.
    pub reserve_after: SignedDuration,
    /// Steps of the running priority.
    pub priority_steps: i32,
    /// What a second of each resource is worth.
    pub weights: Weights,
    /// When ScavengerJobs free capacity before anybody asks for it, as it holds now.
    pub headroom: Headroom,
    /// Windows of time with other thresholds; none if the same hold all the time.
    #[serde(default)]
    pub calendar: Option<Box<Calendar>>,
    /// The window whose thresholds hold now.
    #[serde(default)]
    pub window: Option<Name>,
    /// Nodes with thresholds of their own: the first group whose labels a node has.
    #[serde(default)]
    pub node_groups: Vec<NodeGroup>,
    /// How many may be interrupted in a time for causes that can wait; what is usual if none.
    #[serde(default)]
    pub budgets: Vec<Budget>,
    /// Attempts that have run for less go last where others may go in their place.
    #[serde(default)]
    pub minimum_run: SignedDuration,
    /// How tenants share the pool; none if nothing is said of that.
    #[serde(default)]
    pub sharing: Option<Box<Sharing>>,
    /// Who frees capacity for an ordinary pod that finds none.
    pub preemption_mode: PreemptionMode,
    /// True while nothing starts.
    pub paused: bool,
    /// True while everything is interrupted; nothing starts either.
    pub drain: bool,
    /// The program under which workloads run; none if the pool has none.
    #[serde(default)]
    pub supervisor: Option<Supervisor>,
    /// How ScavengerJobs take what is reserved but not used; none if capacity is counted by requests.
    #[serde(default)]
    pub usage: Option<Box<UsageRules>>,
}

impl Settings {
    /// True if the node belongs to the pool, whether it is ready and schedulable at the moment or not.
    #[must_use]
    pub fn include(&self, node: &Node) -> bool {
        self.lacks(node).is_none()
    }

    /// What keeps the node out of the pool.
    #[must_use]
    pub fn lacks(&self, node: &Node) -> Option<String> {
        let label = self.node_selector.iter().find(|(key, value)| node.labels.get(*key) != Some(value));
        if let Some((key, value)) = label {
            return Some(format!("it lacks label {key}={value}"));
        }
        let mut taints = node.taints.iter().filter(|taint| taint.repels() && !taint.passes());
        let taint = taints.find(|taint| !self.tolerated_taints.contains(&taint.key))?;
        Some(format!("it has taint {}:{}", taint.key, taint.effect))
    }

    /// Why ScavengerJobs of this RuntimeClass do not start. The API server adds its tolerations to the pods, whatever
    /// their Job says, so those would open nodes outside the pool.
    #[must_use]
    pub fn refuses(&self, class: &RuntimeClass) -> Option<String> {
        let name = &*class.name;
        if class.has_scheduling() && !self.allowed_runtime_classes.contains(&class.name) {
            return Some(format!(
                "the ScavengerPool does not allow RuntimeClass {name:?}, which has a say in where pods go \
                 (scheduling); an admin must name it in limits.allowedRuntimeClasses"
            ));
        }
        let is_beyond = |toleration: &&Toleration| {
            toleration.key.as_ref().is_none_or(|key| !may_tolerate(&self.tolerated_taints, key))
        };
        let beyond = class.tolerations.iter().find(is_beyond)?;
        Some(match &beyond.key {
            Some(key) => format!(
                "RuntimeClass {name:?} tolerates taint {key}, which is not among toleratedTaints of the ScavengerPool"
            ),
            None => format!(
                "RuntimeClass {name:?} tolerates taints of every key, and so nodes outside the ScavengerPool; its \
                 tolerations must name keys of toleratedTaints"
            ),
        })
    }
}

/// Who frees capacity for a pending ordinary pod.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum PreemptionMode {
    /// kube-scheduler, by priority and age.
    #[default]
    Scheduler,
    /// The operator, by expected loss, for pods that do not preempt by themselves.
    Operator,
}

impl Settings {
    /// The settings with the thresholds that hold at a time.
    #[must_use]
    pub fn at(mut self, now: Timestamp) -> Self {
        if let Some(calendar) = &self.calendar {
            let (window, filling) = calendar.at(now);
            let (window, filling) = (window.cloned(), filling.clone());
            self.window = window;
            (self.start_thresholds, self.headroom) = (filling.start_thresholds, filling.headroom);
        }
        self
    }

    /// When other thresholds may hold; never without a calendar.
    #[must_use]
    pub fn turn_at(&self, now: Timestamp) -> Option<Timestamp> {
        self.calendar.as_ref().and_then(|calendar| calendar.turns_at(now))
    }

    /// Up to where ScavengerJobs start when they may fill the most: what is below that can start some day.
    #[must_use]
    pub fn highest_thresholds(&self) -> &Thresholds {
        self.calendar.as_ref().map_or(&self.start_thresholds, |calendar| calendar.highest())
    }

    /// The number of the group of a node: the first one whose labels it has; none if the pool's thresholds hold for it.
    #[must_use]
    pub fn group_of(&self, node: &Node) -> Option<usize> {
        let has = |(key, value): (&Name, &Name)| node.labels.get(key) == Some(value);
        self.node_groups.iter().position(|group| group.node_selector.iter().all(has))
    }

    fn filling_of(&self, node: &Node) -> Option<&Filling> {
        Some(&self.node_groups[self.group_of(node)?].filling)
    }

    /// Up to where ScavengerJobs may fill a node now.
    #[must_use]
    pub fn start_thresholds_of(&self, node: &Node) -> &Thresholds {
        self.filling_of(node).map_or(&self.start_thresholds, |filling| &filling.start_thresholds)
    }

    /// Up to where ScavengerJobs may fill a node when they may fill it the most.
    #[must_use]
    pub fn highest_thresholds_of(&self, node: &Node) -> &Thresholds {
        self.filling_of(node).map_or_else(|| self.highest_thresholds(), |filling| &filling.start_thresholds)
    }

    /// When ScavengerJobs go from a node, or from those like it.
    #[must_use]
    pub fn headroom_of(&self, node: &Node) -> &Headroom {
        self.filling_of(node).map_or(&self.headroom, |filling| &filling.headroom)
    }

    /// True if the planner chooses the nodes of ScavengerJobs that have one pod, and not kube-scheduler: by what is really
    /// used, or because nodes have limits of their own.
    #[must_use]
    pub fn chooses_nodes(&self) -> bool {
        self.places_by_use() || !self.node_groups.is_empty()
    }
}

/// Nodes with thresholds of their own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeGroup {
    /// What people call it.
    pub name: Name,
    /// Labels that each of its nodes has.
    pub node_selector: BTreeMap<Name, Name>,
    /// What holds on them.
    pub filling: Filling,
}

impl Settings {
    /// True if the planner chooses the nodes of ScavengerJobs that have one pod.
    #[must_use]
    pub fn places_by_use(&self) -> bool {
        self.usage.as_ref().is_some_and(|rules| !rules.dry_run)
    }

    /// Above which share of the memory or cpu of a node that is counted by use ScavengerJobs go.
    #[must_use]
    pub(crate) fn interrupts_above(&self, node: &Node, resource: &str) -> Share {
        self.headroom_of(node).threshold(resource).unwrap_or_else(|| self.runs_short_above(node, resource))
    }

    /// Above which share hardly anything is left of it, whatever threshold somebody sets.
    pub(crate) fn runs_short_above(&self, node: &Node, resource: &str) -> Share {
        self.start_thresholds_of(node).share(resource).max(Share::from_fraction(0.95))
    }
}
