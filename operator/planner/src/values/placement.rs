//! Nodes, volumes, and which nodes a pod may go to, as its spec and its volumes say.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::{Key, Name, later, resources::Resources};

/// Where a pod may go.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Placement {
    /// Labels that the node must have.
    pub node_selector: BTreeMap<Name, Name>,
    /// Taints that are tolerated.
    pub tolerations: Vec<Toleration>,
    /// Required node affinity: one of these terms must match. Every node matches if there is none.
    pub affinity: Vec<NodeTerm>,
    /// Of each PersistentVolume that is bound to nodes, its terms: one of them must match. The planner fills it in.
    #[serde(default)]
    pub volumes: Vec<Vec<NodeTerm>>,
    /// The nodes to which a volume is attached that one node at a time can mount. The planner fills it in.
    #[serde(default)]
    pub attached: Option<NodeTerm>,
    /// True if the pods of a gang must all be on one node: they mount a volume that one node at a time can mount. The
    /// planner fills it in.
    #[serde(default)]
    pub one_node: bool,
    /// The nodes that it is kept off for a while, since it got no processor time there, or could not save before they leave the
    /// pool. The planner fills it in.
    #[serde(default)]
    pub avoided: Vec<Name>,
    /// True if its namespace takes no pods that request less than they hold, so that it is counted by requests wherever it
    /// goes. The planner fills it in.
    #[serde(default)]
    pub by_requests: bool,
}

/// A term of a required node affinity: all of its expressions must match.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct NodeTerm {
    /// About labels.
    pub labels: Vec<Expression>,
    /// About the node's name.
    pub names: Vec<Expression>,
}

/// An expression over labels or the name of a node; see the Kubernetes API.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Expression {
    /// Key of the label; for the node's name `metadata.name`.
    pub key: Name,
    /// How it is compared.
    pub operator: Operator,
    /// With what.
    pub values: Vec<Name>,
}

/// How an [`Expression`] compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Operator {
    /// The value is one of these.
    In,
    /// It is none of these, or there is no such label.
    NotIn,
    /// There is such a label.
    Exists,
    /// There is none.
    DoesNotExist,
    /// The value is a number above this.
    Gt,
    /// The value is a number below this.
    Lt,
}

impl Expression {
    fn matches(&self, value: Option<&Name>) -> bool {
        let number = |text: &Name| text.parse::<i64>().ok();
        let compared = |holds: fn(i64, i64) -> bool| {
            value.and_then(number).zip(self.values.first().and_then(number)).is_some_and(|(a, b)| holds(a, b))
        };
        match self.operator {
            Operator::In => value.is_some_and(|value| self.values.contains(value)),
            Operator::NotIn => value.is_none_or(|value| !self.values.contains(value)),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            Operator::Gt => compared(|a, b| a > b),
            Operator::Lt => compared(|a, b| a < b),
        }
    }
}

impl NodeTerm {
    /// A term without any expression matches no node.
    fn matches(&self, node: &Node) -> bool {
        !(self.labels.is_empty() && self.names.is_empty())
            && self.labels.iter().all(|expression| expression.matches(node.labels.get(&expression.key)))
            && self.names.iter().all(|expression| expression.matches(Some(&node.name)))
    }
}

/// A toleration; see the Kubernetes API.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Toleration {
    /// Key; every key if none.
    pub key: Option<Name>,
    /// Value that must be equal; every value if none.
    pub value: Option<Name>,
    /// Effect; every effect if none.
    pub effect: Option<Name>,
}

impl NodeTerm {
    /// The nodes of these names.
    #[must_use]
    pub fn nodes(names: Vec<Name>) -> Self {
        let key = "metadata.name".into();
        Self { labels: Vec::new(), names: vec![Expression { key, operator: Operator::In, values: names }] }
    }
}

/// What a placement names of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Named<'a> {
    /// A label and its value.
    Label(&'a Name, &'a Name),
    /// The node's name.
    Node(&'a Name),
}

impl NodeTerm {
    /// A list of which a node that matches has one; none if the term names no values.
    fn named(&self) -> Option<impl Iterator<Item = Named<'_>>> {
        let is_in = |expression: &&Expression| expression.operator == Operator::In;
        let of_name = self.names.iter().find(is_in);
        let found = of_name.or_else(|| self.labels.iter().find(is_in))?;
        Some(found.values.iter().map(move |value| match of_name {
            Some(_) => Named::Node(value),
            None => Named::Label(&found.key, value),
        }))
    }
}

impl Placement {
    /// Lists of each of which a node has one if it admits the pod now, or once it is ready. What is required may be more.
    pub(crate) fn requirements(&self) -> impl Iterator<Item = Vec<Named<'_>>> {
        let selected = self.node_selector.iter().map(|(key, value)| vec![Named::Label(key, value)]);
        let affinity = Some(&self.affinity).filter(|terms| !terms.is_empty());
        let one_of = affinity.into_iter().chain(&self.volumes).filter_map(|terms| {
            let terms: Option<Vec<_>> = terms.iter().map(NodeTerm::named).collect();
            Some(terms?.into_iter().flatten().collect())
        });
        selected.chain(one_of)
    }

    /// The nodes to which a volume of the pod is attached, if it can be mounted nowhere else.
    #[must_use]
    pub fn attached_to(&self) -> Option<&[Name]> {
        let terms = self.attached.as_ref()?;
        terms.names.first().map(|expression| expression.values.as_slice())
    }

    /// True if the node's labels, name and taints let the pod in.
    #[must_use]
    pub fn admits(&self, node: &Node) -> bool {
        !self.avoided.contains(&node.name)
            && self.attached.iter().all(|term| term.matches(node))
            && self.admits_past(node, Taint::repels)
    }

    /// True if they will let it in once the node is ready and not cordoned, and its volumes are attached to no other.
    #[must_use]
    pub fn admits_when_ready(&self, node: &Node) -> bool {
        self.admits_past(node, |taint| taint.repels() && !taint.passes())
    }

    fn admits_past(&self, node: &Node, counts: fn(&Taint) -> bool) -> bool {
        self.matches(node)
            && node.taints.iter().filter(|taint| counts(taint)).all(|taint| self.tolerates(taint))
    }

    /// True if the node's labels and name let the pod and its volumes in, whatever taints it has.
    pub(crate) fn matches(&self, node: &Node) -> bool {
        self.node_selector.iter().all(|(key, value)| node.labels.get(key) == Some(value))
            && (self.affinity.is_empty() || self.affinity.iter().any(|term| term.matches(node)))
            && self.volumes.iter().all(|terms| terms.iter().any(|term| term.matches(node)))
    }

    /// True if the pod tolerates a taint.
    pub(crate) fn tolerates(&self, taint: &Taint) -> bool {
        self.tolerations.iter().any(|toleration| {
            toleration.key.as_ref().is_none_or(|key| *key == taint.key)
                && toleration.value.as_ref().is_none_or(|value| *value == taint.value)
                && toleration.effect.as_ref().is_none_or(|effect| *effect == taint.effect)
        })
    }
}

/// A node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Node {
    /// Name.
    pub name: Name,
    /// What it has for pods.
    pub allocatable: Resources,
    /// Labels.
    pub labels: BTreeMap<Name, Name>,
    /// Taints.
    pub taints: Vec<Taint>,
    /// True if it is ready, schedulable and under no pressure.
    pub usable: bool,
    /// The pressure condition that it has: MemoryPressure, DiskPressure or PIDPressure.
    pub pressure: Option<Name>,
    /// True if its kubelet is there and says that it is ready, be the node cordoned or not.
    pub ready: bool,
    /// Why an admin has closed it to ScavengerJobs, in the admin's words, which may be none; none if nobody has.
    pub closed: Option<Name>,
    /// Until when it is in the pool, as an admin has announced; none if nobody has.
    pub until: Option<Timestamp>,
}

/// So long before a node leaves the pool its workloads are asked for a checkpoint. What saves later than that has not saved in time.
pub(crate) const ASKED_BEFORE: SignedDuration = SignedDuration::from_mins(2);

impl Node {
    /// From when on its workloads are to save, if it leaves the pool.
    pub(crate) fn saves_from(&self) -> Option<Timestamp> {
        self.until.map(|until| later(until, -ASKED_BEFORE))
    }

    /// True if nothing keeps new pods off it but pressure, if anything does: what pods can bring about. It is ready and not
    /// cordoned.
    #[must_use]
    pub fn is_open_but_for_pressure(&self) -> bool {
        let is_cordoned =
            || self.taints.iter().any(|taint| &*taint.key == "node.kubernetes.io/unschedulable");
        self.usable || self.ready && self.pressure.is_some() && !is_cordoned()
    }
}

/// Why a node is closed to ScavengerJobs for now, although other pods go there. The first that holds counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Closed {
    /// An admin has closed it, for this reason.
    ByAdmin(Name),
    /// It leaves the pool at this time, so soon that nothing can save there before, or that it is being cleared.
    Leaves(Timestamp),
    /// Containers could not be started there; the message says which.
    Starts(String),
    /// Its memory is short, or was not measured for too long.
    Memory,
}

impl Closed {
    /// Every cause, as metrics spell it.
    pub const CAUSES: [&'static str; 4] = ["Admin", "Leaves", "StartFailures", "Memory"];

    /// The cause, as metrics spell it.
    #[must_use]
    pub fn cause(&self) -> &'static str {
        let [admin, leaves, starts, memory] = Self::CAUSES;
        match self {
            Self::ByAdmin(_) => admin,
            Self::Leaves(_) => leaves,
            Self::Starts(_) => starts,
            Self::Memory => memory,
        }
    }

    /// The same as a sentence about the node.
    #[must_use]
    pub fn message(&self, node: &Name) -> String {
        match self {
            Self::ByAdmin(why) if why.is_empty() => format!("node {node} is closed by an admin"),
            Self::ByAdmin(why) => format!("node {node} is closed by an admin: {why}"),
            Self::Leaves(until) => {
                format!("node {node} is in the pool until {until:.0}, too soon for anything to start there")
            }
            Self::Starts(why) => why.clone(),
            Self::Memory => format!("the memory of node {node} is measured to be full"),
        }
    }
}

/// A taint of a node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Taint {
    /// Key.
    pub key: Name,
    /// Value, or nothing.
    pub value: Name,
    /// NoSchedule, PreferNoSchedule or NoExecute.
    pub effect: Name,
}

/// True if pods may tolerate taints of this key in a pool that tolerates these.
pub(super) fn may_tolerate(tolerated: &[Name], key: &str) -> bool {
    Taint::is_passing(key) || tolerated.iter().any(|tolerated| **tolerated == *key)
}

impl Taint {
    /// True if pods that do not tolerate it cannot go there.
    #[must_use]
    pub fn repels(&self) -> bool {
        matches!(&*self.effect, "NoSchedule" | "NoExecute")
    }

    /// True for a taint that Kubernetes itself sets while a node is cordoned, not ready or under pressure, and takes
    /// away again. [`Node::usable`] stands for all of them.
    #[must_use]
    pub fn passes(&self) -> bool {
        Self::is_passing(&self.key)
    }

    /// The same of every taint with this key.
    #[must_use]
    pub fn is_passing(key: &str) -> bool {
        key.starts_with("node.kubernetes.io/")
    }
}

/// What a node really uses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// The node.
    pub node: Name,
    /// CPU: the mean over the time before, usually 15 s, in millicores.
    #[serde(default)]
    pub cpu_milli: i64,
    /// Working set, in bytes.
    pub memory_bytes: i64,
    /// When it was measured.
    pub time: Timestamp,
}

/// A PersistentVolume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Volume {
    /// Name.
    pub name: Name,
    /// The PersistentVolumeClaim that it is bound to.
    pub claim: Option<Key>,
    /// Required node affinity: one of these terms must match. Every node matches if there is none.
    pub affinity: Vec<NodeTerm>,
    /// How many may mount it at a time.
    #[serde(default)]
    pub access: Access,
}

/// How many may mount a PersistentVolume at a time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Access {
    /// Pods on any number of nodes.
    #[default]
    ManyNodes,
    /// The pods of one node: it is attached there.
    OneNode,
    /// One pod.
    OnePod,
}
