//! The room there is: nodes of the pool, what their pods occupy, and what is promised to attempts whose pods are not
//! bound yet. Kept up to date change by change; nothing here walks over all pods.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    ledger::Ledger,
    resources::Resources,
    snapshot::{Demand, Key, Name, Node, Placement, Pod, Settings},
};

/// A node and what is on it.
#[derive(Debug, Clone, Default)]
struct Entry {
    node: Option<Node>,
    in_pool: bool,
    /// Requests of non-terminal pods bound to it, or nominated for it.
    used: Resources,
    /// Those of them that belong to no ScavengerJob.
    ordinary: Resources,
}

/// The room there is.
#[derive(Debug, Clone, Default)]
pub struct Capacity {
    nodes: BTreeMap<Name, Entry>,
    /// What each pod occupies, and where; pods that wait for a node without being nominated for one have none.
    occupants: BTreeMap<Key, Occupant>,
    /// Those of them that are not bound yet.
    nominated: BTreeSet<Key>,
    allocatable: Resources,
    used: Resources,
    /// Ordinary pods that wait for a node.
    pending: BTreeMap<Key, (Resources, Placement)>,
    /// Rises when something changes that an answer "never fits" depends on.
    epoch: u64,
    /// Rises when room may have appeared.
    version: u64,
}

#[derive(Debug, Clone, PartialEq)]
struct Occupant {
    node: Name,
    requests: Resources,
    ordinary: bool,
}

/// Why a demand can not be placed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shortage {
    /// The resource that lacks, if it is one.
    pub resource: Option<String>,
    /// A sentence for people.
    pub message: String,
}

impl Capacity {
    /// Takes in a node.
    pub fn set_node(&mut self, node: Node, settings: Option<&Settings>) {
        let entry = self.nodes.entry(node.name.clone()).or_default();
        if entry.node.as_ref() == Some(&node) {
            return;
        }
        let was = entry.in_pool.then(|| {
            (entry.node.as_ref().map(|n| n.allocatable.clone()).unwrap_or_default(), entry.used.clone())
        });
        entry.in_pool = settings.is_some_and(|settings| belongs(&node, settings));
        let is = entry.in_pool.then(|| (node.allocatable.clone(), entry.used.clone()));
        entry.node = Some(node);
        self.move_totals(was, is);
        // Labels, taints, and nodes that are not usable yet decide about "never fits", too.
        self.epoch += 1;
        self.version += 1;
    }

    /// Takes a node away. Pods that are still bound to it keep their entry until they go.
    pub fn remove_node(&mut self, name: &Name) {
        let Some(entry) = self.nodes.get_mut(name) else { return };
        let was = entry.in_pool.then(|| {
            (entry.node.as_ref().map(|n| n.allocatable.clone()).unwrap_or_default(), entry.used.clone())
        });
        entry.in_pool = false;
        if entry.node.take().is_some() {
            self.epoch += 1;
            self.version += 1;
        }
        if entry.used == Resources::default() {
            self.nodes.remove(name);
        }
        self.move_totals(was, None);
    }

    fn move_totals(&mut self, was: Option<(Resources, Resources)>, is: Option<(Resources, Resources)>) {
        if was == is {
            return;
        }
        if let Some((allocatable, used)) = was {
            self.allocatable.subtract(&allocatable);
            self.used.subtract(&used);
        }
        if let Some((allocatable, used)) = is {
            self.allocatable.add(&allocatable);
            self.used.add(&used);
        }
    }

    /// Other settings of the pool: which nodes belong to it is decided anew.
    pub fn set_settings(&mut self, settings: Option<&Settings>) {
        self.allocatable = Resources::default();
        self.used = Resources::default();
        for entry in self.nodes.values_mut() {
            entry.in_pool = match (&entry.node, settings) {
                (Some(node), Some(settings)) => belongs(node, settings),
                _ => false,
            };
            if let (true, Some(node)) = (entry.in_pool, &entry.node) {
                self.allocatable.add(&node.allocatable);
                self.used.add(&entry.used);
            }
        }
        self.epoch += 1;
        self.version += 1;
    }

    /// Takes in a version of a pod.
    pub fn set_pod(&mut self, pod: &Pod) {
        let alive = !pod.phase.is_terminal();
        let ordinary = pod.owner.is_none();
        // The room a preemptor waits for looks free and is not. Room of a ScavengerJob's pod is in the ledger until
        // it is bound.
        let place = pod.node.as_ref().or(pod.nominated_node.as_ref().filter(|_| ordinary));
        let occupant = place.filter(|_| alive).map(|node| Occupant {
            node: node.clone(),
            requests: pod.requests.clone(),
            ordinary,
        });
        self.occupy(&pod.key, occupant);
        if alive && place.is_some() && pod.node.is_none() {
            self.nominated.insert(pod.key.clone());
        } else {
            self.nominated.remove(&pod.key);
        }
        if alive && place.is_none() && ordinary && !pod.gated && pod.deletion_requested.is_none() {
            self.pending.insert(pod.key.clone(), (pod.requests.clone(), pod.placement.clone()));
        } else if self.pending.remove(&pod.key).is_some() {
            self.version += 1;
        }
    }

    /// Takes a pod away.
    pub fn remove_pod(&mut self, key: &Key) {
        self.occupy(key, None);
        self.nominated.remove(key);
        if self.pending.remove(key).is_some() {
            self.version += 1;
        }
    }

    fn occupy(&mut self, key: &Key, occupant: Option<Occupant>) {
        if self.occupants.get(key) == occupant.as_ref() {
            return;
        }
        if let Some(old) = self.occupants.remove(key) {
            if let Some(entry) = self.nodes.get_mut(&old.node) {
                entry.used.subtract(&old.requests);
                if old.ordinary {
                    entry.ordinary.subtract(&old.requests);
                }
                if entry.in_pool {
                    self.used.subtract(&old.requests);
                }
                if entry.node.is_none() && entry.used == Resources::default() {
                    self.nodes.remove(&old.node);
                }
            }
            self.version += 1;
        }
        if let Some(new) = occupant {
            // A pod may be seen before its node.
            let entry = self.nodes.entry(new.node.clone()).or_default();
            entry.used.add(&new.requests);
            if new.ordinary {
                entry.ordinary.add(&new.requests);
            }
            if entry.in_pool {
                self.used.add(&new.requests);
            }
            self.occupants.insert(key.clone(), new);
        }
    }

    /// Rises when an answer of [`Self::never_fits`] may have changed.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Rises when room may have appeared.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version
    }

    /// What the pool's nodes have for pods.
    #[must_use]
    pub fn allocatable(&self) -> &Resources {
        &self.allocatable
    }

    /// What is used or promised: bound pods, pending ordinary pods that would fit some node of the pool if no
    /// ScavengerJob were there, and what is in flight.
    #[must_use]
    pub fn used(&self, ledger: &Ledger) -> Resources {
        let mut used = self.used.plus(ledger.total());
        for (requests, placement) in self.pending.values() {
            let could_be_taken = self.nodes.values().filter(|entry| entry.in_pool).any(|entry| {
                entry.node.as_ref().is_some_and(|node| {
                    placement.admits(node) && requests.fits_beside(&entry.ordinary, &node.allocatable)
                })
            });
            if could_be_taken {
                used.add(requests);
            }
        }
        used
    }

    /// What pods that are bound to the pool's nodes use; those that only wait for a node are not among them.
    #[must_use]
    pub fn used_by_bound(&self) -> Resources {
        let mut used = self.used.clone();
        for occupant in self.nominated.iter().filter_map(|pod| self.occupants.get(pod)) {
            if self.is_in_pool(&occupant.node) {
                used.subtract(&occupant.requests);
            }
        }
        used
    }

    /// True if the node belongs to the pool now.
    #[must_use]
    pub fn is_in_pool(&self, name: &Name) -> bool {
        self.nodes.get(name).is_some_and(|entry| entry.in_pool)
    }

    /// A node with what pods use on it, whether it belongs to the pool or not.
    #[must_use]
    pub fn node(&self, name: &Name) -> Option<(&Node, &Resources)> {
        let entry = self.nodes.get(name)?;
        Some((entry.node.as_ref()?, &entry.used))
    }

    /// Every node with what pods use on it.
    pub fn nodes(&self) -> impl Iterator<Item = (&Node, &Resources)> {
        self.nodes.values().filter_map(|entry| Some((entry.node.as_ref()?, &entry.used)))
    }

    /// True if the node is there, ready and schedulable, whether it belongs to the pool or not.
    #[must_use]
    pub fn is_usable(&self, name: &Name) -> bool {
        self.nodes.get(name).and_then(|entry| entry.node.as_ref()).is_some_and(|node| node.usable)
    }

    /// Nodes of the pool with what pods use on each.
    pub fn pool_nodes(&self) -> impl Iterator<Item = (&Node, &Resources)> {
        self.nodes
            .values()
            .filter(|entry| entry.in_pool)
            .filter_map(|entry| Some((entry.node.as_ref()?, &entry.used)))
    }

    /// Why a demand would not fit even if nothing else ran and every node of the pool were ready; none if it would.
    /// Nodes that are not usable at the moment count here: that a node restarts is no reason to give up.
    #[must_use]
    pub fn never_fits(&self, demand: &Demand, settings: &Settings) -> Option<Shortage> {
        let total = demand.total();
        let eligible: Vec<&Node> = self
            .nodes
            .values()
            .filter_map(|entry| entry.node.as_ref())
            .filter(|node| eligible(node, settings))
            .collect();
        if eligible.is_empty() {
            return None;
        }
        let mut whole = Resources::default();
        for node in &eligible {
            whole.add(&node.allocatable);
        }
        let limit = settings.start_thresholds.of(&whole);
        if let Some(resource) = total.exceeds(&limit) {
            let share = settings.start_thresholds.share(resource);
            return Some(Shortage {
                message: format!(
                    "asks for {} in all, but ScavengerJobs may fill the pool only up to {share} of {}",
                    crate::resources::Amount(resource, total.get(resource)),
                    crate::resources::Amount(resource, whole.get(resource)),
                ),
                resource: Some(resource.to_owned()),
            });
        }
        let rooms = eligible.into_iter().map(|node| (node, node.allocatable.clone()));
        place(demand, rooms).err().map(|placed| self.not_placed(demand, placed, "even if nothing else ran"))
    }

    /// Nodes for the pods of a demand in the room there is now, or why there is none.
    ///
    /// # Errors
    /// [`Shortage`] naming the threshold or the nodes.
    pub fn fit(&self, demand: &Demand, ledger: &Ledger, settings: &Settings) -> Result<Vec<Name>, Shortage> {
        let total = demand.total();
        let limit = settings.start_thresholds.of(&self.allocatable);
        let free = limit.minus(&self.used(ledger));
        if let Some(resource) = total.exceeds(&free) {
            let share = settings.start_thresholds.share(resource);
            return Err(Shortage {
                message: format!(
                    "needs {}, but only {} are left below the threshold of {share}",
                    crate::resources::Amount(resource, total.get(resource)),
                    crate::resources::Amount(resource, free.get(resource).max(0)),
                ),
                resource: Some(resource.to_owned()),
            });
        }
        self.nodes_for(demand, ledger).map_err(|placed| self.not_placed(demand, placed, "now"))
    }

    /// Nodes for the pods of a demand, whatever the threshold; or how many pods found one.
    ///
    /// # Errors
    /// The number of pods for which there is a node.
    pub fn nodes_for(&self, demand: &Demand, ledger: &Ledger) -> Result<Vec<Name>, u32> {
        let rooms = self.pool_nodes().map(|(node, used)| {
            let mut free = node.allocatable.minus(used);
            if let Some(promised) = ledger.promised(&node.name) {
                free.subtract(promised);
            }
            (node, free)
        });
        place(demand, rooms)
    }

    fn not_placed(&self, demand: &Demand, placed: u32, when: &str) -> Shortage {
        let suitable = self.pool_nodes().filter(|(node, _)| demand.placement.admits(node)).count();
        let message = if suitable == 0 {
            "no node of the pool matches its nodeSelector and tolerations".to_owned()
        } else if demand.pod_count == 1 {
            format!("no node has room for {} {when} ({suitable} nodes looked at)", demand.per_pod)
        } else {
            format!(
                "nodes have room for {placed} of {} pods with {} each {when} ({suitable} nodes looked at)",
                demand.pod_count, demand.per_pod
            )
        };
        Shortage { resource: None, message }
    }
}

/// First fit over the nodes in the order of their names. All pods of a demand are alike, so a node takes as many as
/// it can before the next is asked, and no other order could place more.
fn place<'a>(demand: &Demand, rooms: impl Iterator<Item = (&'a Node, Resources)>) -> Result<Vec<Name>, u32> {
    let mut places = Vec::with_capacity(demand.pod_count as usize);
    for (node, mut free) in rooms {
        if !demand.placement.admits(node) {
            continue;
        }
        while demand.per_pod.exceeds(&free).is_none() {
            places.push(node.name.clone());
            if places.len() == demand.pod_count as usize {
                return Ok(places);
            }
            free.subtract(&demand.per_pod);
        }
    }
    Err(u32::try_from(places.len()).unwrap_or(u32::MAX))
}

/// True if ScavengerJobs may use the node now.
fn belongs(node: &Node, settings: &Settings) -> bool {
    node.usable && eligible(node, settings)
}

/// True if ScavengerJobs may use the node when it is ready. Taints that Kubernetes itself sets on nodes
/// (`node.kubernetes.io/not-ready` and so on) pass; [`Node::usable`] stands for them.
fn eligible(node: &Node, settings: &Settings) -> bool {
    settings.node_selector.iter().all(|(key, value)| node.labels.get(key) == Some(value))
        && node
            .taints
            .iter()
            .filter(|taint| taint.repels() && !taint.key.starts_with("node.kubernetes.io/"))
            .all(|taint| settings.tolerated_taints.contains(&taint.key))
}
