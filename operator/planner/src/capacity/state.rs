//! How a node stands: what it counts for, whether ScavengerJobs may be added to it and why not, and up to where it may be
//! filled. That is decided in one function, [`NodeState::of`]; everything else asks for it.
//!
//! # Limits of single nodes
//!
//! They are in force in a pool that has groups of nodes with thresholds of their own (`values::NodeGroup`).
//!
//! Each node is then filled up to the threshold of its group, or the pool's if it is in none. One sum over the pool would not
//! do: ScavengerJobs could fill some nodes to the brim on account of others that are empty and may be filled further.
//! kube-scheduler knows none of these limits, so the planner chooses the node of each ScavengerJob that has one pod.

use jiff::Timestamp;

use crate::values::{
    Closed, Node, Settings,
    resources::{Resources, Share, Thresholds},
};

/// How a node stands. The default is that of a node that is gone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct NodeState {
    counts: Counts,
    takes: Takes,
    /// Up to where it may be filled, if that is its own.
    pub(super) limit: Option<Box<OwnLimit>>,
}

/// In which sums of the pool a node counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Counts {
    /// It is gone, or does not belong to the pool.
    #[default]
    Never,
    /// In what can ever fit: it belongs to the pool whenever it is ready.
    WhenReady,
    /// In all of them: ordinary pods can go there, whether it takes ScavengerJobs or not.
    Now,
}

/// Whether ScavengerJobs may be added to a node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
enum Takes {
    /// They may.
    Open,
    /// It is closed to them alone: kube-scheduler might choose it for a new pod all the same, so Jobs keep off it.
    Closed(Closed),
    /// It takes no pods, or is not of the pool.
    #[default]
    Nothing,
}

/// How a node stands, for people: whether ScavengerJobs may be added to it, and else why not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeStanding {
    /// They may.
    Open,
    /// Those may that can save before it leaves the pool, at this time.
    OpenUntil(Timestamp),
    /// It takes none for now, although other pods go there.
    Closed(String),
    /// It takes no pods.
    Unusable(String),
    /// It does not belong to the pool.
    Outside(String),
}

impl NodeState {
    /// That of a node in a pool with these settings, which may be closed to ScavengerJobs.
    pub(crate) fn of(node: &Node, settings: Option<&Settings>, closed: Option<&Closed>) -> Self {
        let Some(settings) = settings.filter(|settings| settings.include(node)) else {
            return Self::default();
        };
        // One that is not ready or cordoned has a taint that keeps pods away: however many of them are closed as well, no Job
        // names them. The taint of memory pressure keeps no pod away where an admission plugin lets pods with requests
        // tolerate it.
        let may_be_chosen = node.is_open_but_for_pressure();
        Self {
            counts: if node.usable { Counts::Now } else { Counts::WhenReady },
            takes: match closed.filter(|_| may_be_chosen) {
                Some(closed) => Takes::Closed(closed.clone()),
                None if node.usable => Takes::Open,
                None => Takes::Nothing,
            },
            limit: OwnLimit::of(node, settings),
        }
    }

    /// True if it belongs to the pool whenever it is ready.
    pub(super) fn is_eligible(&self) -> bool {
        self.counts != Counts::Never
    }

    /// True if it belongs to the pool now, and ordinary pods can go there.
    pub(super) fn is_in_pool(&self) -> bool {
        self.counts == Counts::Now
    }

    /// True if ScavengerJobs may be added to it.
    pub(super) fn is_open(&self) -> bool {
        self.takes == Takes::Open
    }

    /// The same with the words for people.
    pub(super) fn standing(&self, node: &Node, settings: Option<&Settings>) -> NodeStanding {
        if let Some(why) = settings.and_then(|settings| settings.lacks(node)) {
            return NodeStanding::Outside(why);
        }
        if !node.usable {
            return NodeStanding::Unusable(format!("it {}", why_unusable(node)));
        }
        match (self.closed(), node.until) {
            (Some(closed), _) => NodeStanding::Closed(closed.message(&node.name)),
            (None, Some(until)) => NodeStanding::OpenUntil(until),
            (None, None) => NodeStanding::Open,
        }
    }

    /// Why a new pod of a ScavengerJob must not go there, although kube-scheduler might choose it.
    pub(super) fn closed(&self) -> Option<&Closed> {
        match &self.takes {
            Takes::Closed(why) => Some(why),
            Takes::Open | Takes::Nothing => None,
        }
    }
}

/// Why a node takes no pods, as what it does.
pub(super) fn why_unusable(node: &Node) -> String {
    let has_no_network =
        || node.taints.iter().any(|taint| &*taint.key == "node.kubernetes.io/network-unavailable");
    match (&node.pressure, node.ready) {
        (Some(pressure), _) => format!("reports {pressure}"),
        (None, false) => "is not ready".to_owned(),
        (None, true) if has_no_network() => "has no network yet".to_owned(),
        (None, true) => "is cordoned".to_owned(),
    }
}

/// The limit of one node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OwnLimit {
    /// Number of its group in the settings; none if the pool's thresholds hold for it.
    pub(super) group: Option<usize>,
    /// How far it may be filled now.
    pub(super) limit: Resources,
    /// The same whatever window holds.
    pub(super) most: Resources,
}

impl OwnLimit {
    /// None if the pool's thresholds hold for all nodes together.
    pub(super) fn of(node: &Node, settings: &Settings) -> Option<Box<Self>> {
        if settings.node_groups.is_empty() {
            return None;
        }
        let group = settings.group_of(node);
        let limit = settings.start_thresholds_of(node).of(&node.allocatable);
        let most = settings.highest_thresholds_of(node).of(&node.allocatable);
        Some(Box::new(Self { group, limit, most }))
    }
}

/// The share of a resource up to which nodes may be filled, for messages: as it is set, or as it comes out over nodes with
/// different limits.
#[expect(clippy::cast_precision_loss, reason = "for people")]
pub(super) fn share(thresholds: &Thresholds, limit: &Resources, all: &Resources, resource: &str) -> Share {
    match all.get(resource) {
        whole if whole <= 0 || thresholds.share(resource).of(whole) == limit.get(resource) => {
            thresholds.share(resource)
        }
        whole => Share::from_fraction(limit.get(resource) as f64 / whole as f64),
    }
}
