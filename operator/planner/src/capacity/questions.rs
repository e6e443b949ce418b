//! What the queue asks: does a demand fit now, would it if no ScavengerJob were there, can it ever, and why not?

use std::collections::BTreeSet;

use scavenger_vocabulary::number_of;

use super::{
    Capacity,
    index::{Ask, Places},
    promises::Ledger,
    state,
    sums::{Own, Sums},
    table::View,
};
use crate::values::{
    Demand, Name, Node, Settings, Shortage,
    resources::{Amount, Resources},
};

/// What all pods of a demand ask for together, of what everybody asks for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) cpu_milli: i64,
    pub(crate) memory_bytes: i64,
}

/// How many nodes that match a demand take no pod of it now.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct KeptOff {
    /// They are closed to ScavengerJobs.
    closed: usize,
    /// They leave the pool too soon for it.
    leaving: usize,
}

/// What a demand is found by.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Traits {
    pub(crate) size: Size,
    /// Equal for demands that ask for the same extended resources.
    pub(crate) kind: u64,
}

impl Capacity {
    /// What pods of a namespace's ScavengerJobs occupy, or are promised.
    pub(crate) fn held_in(&self, namespace: &Name, ledger: &Ledger) -> Resources {
        let mut held = self.namespaces.get(namespace).cloned().unwrap_or_default();
        if let Some(promised) = ledger.promised_to(namespace) {
            held.add(promised);
        }
        held
    }

    /// The largest share of any of the pool's resources that an amount is, in millionths.
    pub(crate) fn dominant_share(&self, held: &Resources) -> i128 {
        let share = |(name, amount): (&str, i64)| {
            let whole = self.totals.pool.allocatable.get(name);
            // What nobody has nobody has a share of.
            if whole <= 0 || amount <= 0 { 0 } else { i128::from(amount) * 1_000_000 / i128::from(whole) }
        };
        held.iter().map(share).max().unwrap_or(0)
    }

    /// What ScavengerJobs may use of the pool now, those that run included.
    pub(crate) fn usable(&self, settings: &Settings) -> Resources {
        let mut usable = self.limit(settings).minus(&self.totals.pool.ordinary);
        if let Some(takeable) = self.places.takeable() {
            usable.subtract(takeable);
        }
        usable
    }

    /// Why a demand would not fit even if nothing else ran and every node of the pool were ready; none if it would.
    /// Nodes that are not usable at the moment count here: that a node restarts is no reason to give up.
    pub(crate) fn never_fits(&mut self, ask: Ask, settings: &Settings) -> Option<Shortage> {
        let demand = self.places.demand(ask);
        let part = self.part_of(ask);
        let exceeds_part = |(sums, _): &(Sums, _)| {
            exceeds_all(demand, (&sums.eligible, &sums.own_eligible), WHERE, settings)
        };
        let shortage = self.exceeds_pool(demand, settings).or_else(|| part.as_ref().and_then(exceeds_part));
        if shortage.is_some() {
            return shortage;
        }
        if self.eligible_nodes == 0 || self.places.fits(ask, View::Empty) {
            return None;
        }
        let placed = u32::try_from(self.places.count(ask, View::Empty)).unwrap_or(u32::MAX);
        let suitable = self.places.suitable(ask);
        Some(self.not_placed(
            self.places.demand(ask),
            placed,
            suitable,
            KeptOff::default(),
            "even if nothing else ran",
        ))
    }

    /// What a demand may ask for at most so that it can ever be within the threshold, for [`Self::can_fit`].
    pub(crate) fn most_row(&self, settings: &Settings) -> Vec<i64> {
        let pool = self.totals.pool.highest_limit(settings);
        self.places.row_of_parts(&pool, |_, reach| self.totals.taints.sums(reach).highest_limit(settings))
    }

    /// False if [`Self::never_fits`] gives a reason.
    pub(crate) fn can_fit(&mut self, ask: Ask, most: &[i64], settings: &Settings) -> bool {
        if self.eligible_nodes == 0 {
            return self.never_fits(ask, settings).is_none();
        }
        self.places.is_within(ask, most) && self.places.fits(ask, View::Empty)
    }

    pub(super) fn exceeds_pool(&self, demand: &Demand, settings: &Settings) -> Option<Shortage> {
        if self.eligible_nodes == 0 {
            return None;
        }
        let pool = &self.totals.pool;
        let exceeds = || exceeds_all(demand, (&pool.eligible, &pool.own_eligible), "the pool", settings);
        self.lacks_resource(demand, settings).or_else(exceeds)
    }

    /// What is left below the threshold, for [`Self::fits`].
    pub(crate) fn free_row(&self, ledger: &Ledger, settings: &Settings) -> Vec<i64> {
        let free = self.free(ledger, settings);
        self.row_of_parts(&free, |sums| free_in(&sums, None, settings))
    }

    /// True if there is capacity for a demand now.
    pub(crate) fn fits(&mut self, ask: Ask, free: &[i64]) -> bool {
        self.places.is_within(ask, free) && self.places.fits(ask, View::Now)
    }

    /// What would be left below the threshold if no ScavengerJob were there.
    pub(crate) fn free_row_without_scavengers(&self, settings: &Settings) -> Vec<i64> {
        self.row_of_parts(&self.usable(settings), |sums| sums.limit(settings).minus(&sums.ordinary))
    }

    /// True if there would be capacity if no ScavengerJob were there.
    pub(crate) fn fits_without_scavengers(&mut self, ask: Ask, free: &[i64]) -> bool {
        self.places.is_within(ask, free) && self.places.fits(ask, View::WithoutScavengers)
    }

    /// What every demand finds on the nodes.
    pub(crate) fn places(&self) -> &Places {
        &self.places
    }

    /// What to find a demand by.
    pub(crate) fn traits(&self, ask: Ask) -> Traits {
        let total = self.places.demand(ask).total();
        let size = Size { cpu_milli: total.cpu_milli, memory_bytes: total.memory_bytes };
        Traits { size, kind: self.places.kind(ask) }
    }

    /// Of what [`Self::free_row`] gave, how large a demand may be at most to be within it.
    pub(crate) fn size(&self, free: &[i64]) -> Size {
        let (cpu_milli, memory_bytes) = self.places.cpu_and_memory(free);
        Size { cpu_milli, memory_bytes }
    }

    /// Nodes for the pods of a demand after so many starts that failed: all of them if [`Self::fits`].
    pub(crate) fn nodes_to_take(&self, ask: Ask, failed: u32) -> Vec<Name> {
        let slots = self.places.nodes_for(ask, failed).into_iter();
        slots.filter_map(|slot| self.slots.get(slot).cloned().flatten()).collect()
    }

    /// Why there is no capacity for a demand now.
    pub(crate) fn shortage(&mut self, ask: Ask, ledger: &Ledger, settings: &Settings) -> Shortage {
        let demand = self.places.demand(ask);
        if let Some(shortage) = self.exceeds_free(demand, ledger, settings) {
            return shortage;
        }
        if let Some((sums, takeable)) = self.part_of(ask) {
            let free = free_in(&sums, takeable, settings);
            let left = (&sums.allocatable, &sums.own);
            if let Some(shortage) = self.exceeds_left(demand, &free, left, OF_PART, settings) {
                return shortage;
            }
        }
        let placed = u32::try_from(self.places.count(ask, View::Now)).unwrap_or(u32::MAX);
        let suitable = self.places.suitable(ask);
        let demand = self.places.demand(ask);
        self.not_placed(demand, placed, suitable, self.kept_off_by(demand), "now")
    }

    /// How many nodes that match a demand take no pod of it now.
    pub(super) fn kept_off_by(&self, demand: &Demand) -> KeptOff {
        let closed = self.nodes_to_avoid();
        let leave = |node: &&Name| self.borders.leaving.contains(*node) && !closed.contains(*node);
        let count = |names: &mut dyn Iterator<Item = &Name>| {
            let nodes = names.filter_map(|name| self.nodes.get(name)?.node.as_ref());
            nodes.filter(|node| View::Empty.admits(&demand.placement, node)).count()
        };
        KeptOff {
            closed: count(&mut closed.iter()),
            leaving: count(&mut demand.placement.avoided.iter().filter(leave)),
        }
    }

    /// What ScavengerJobs may still take below the threshold.
    fn free(&self, ledger: &Ledger, settings: &Settings) -> Resources {
        self.limit(settings).minus(&self.used(ledger))
    }

    pub(super) fn exceeds_free(
        &self,
        demand: &Demand,
        ledger: &Ledger,
        settings: &Settings,
    ) -> Option<Shortage> {
        let pool = &self.totals.pool;
        let free = self.free(ledger, settings);
        let shortage = self.exceeds_left(demand, &free, (&pool.allocatable, &pool.own), "", settings)?;
        if self.eligible_nodes > 0 {
            return Some(shortage);
        }
        let message =
            "no node belongs to the pool (nodeSelector and toleratedTaints of the ScavengerPool)".to_owned();
        Some(Shortage { message, ..shortage })
    }

    /// Nodes for the pods of a demand, whatever the threshold; or how many pods found one.
    ///
    /// # Errors
    /// The number of pods for which there is a node.
    pub fn nodes_for(&self, demand: &Demand, ledger: &Ledger) -> Result<Vec<Name>, u32> {
        self.nodes_without(demand, ledger, &BTreeSet::new())
    }

    /// The same without some nodes.
    ///
    /// # Errors
    /// The number of pods for which there is a node.
    pub(crate) fn nodes_without(
        &self,
        demand: &Demand,
        ledger: &Ledger,
        without: &BTreeSet<Name>,
    ) -> Result<Vec<Name>, u32> {
        let rows = self.places.rows(demand, View::Now);
        let nodes = self.nodes.iter().filter(|(name, _)| !without.contains(*name));
        let frees = nodes.filter_map(|(name, entry)| {
            let frees = entry.free_by_view(ledger.promised(name), self.chooses_nodes);
            Some((entry.node.as_ref()?, frees.into_iter().nth(rows).flatten()?))
        });
        place(demand, View::Now, frees)
    }
}

/// The part of the pool that a ScavengerJob reaches, for messages.
pub(super) const WHERE: &str = "the nodes that it can go to";
/// The same after a threshold.
pub(super) const OF_PART: &str = " on the nodes that it can go to";

/// What is left of a part of the pool below the threshold, if pending pods are about to take this.
pub(super) fn free_in(sums: &Sums, takeable: Option<&Resources>, settings: &Settings) -> Resources {
    let mut free = sums.limit(settings).minus(&sums.used);
    free.subtract(&sums.promised);
    if let Some(takeable) = takeable {
        free.subtract(takeable);
    }
    free
}

/// Why a demand can never be below the threshold of these nodes, whatever else runs there.
pub(super) fn exceeds_all(
    demand: &Demand,
    (eligible, limits): (&Resources, &Own),
    nodes: &str,
    settings: &Settings,
) -> Option<Shortage> {
    let total = demand.total();
    let limit = limits.most(settings, eligible);
    let resource = total.exceeds(&limit)?;
    Some(Shortage {
        message: format!(
            "asks for {} in all, but ScavengerJobs may fill {nodes} only up to {} of {}",
            Amount(resource, total.get(resource)),
            state::share(settings.highest_thresholds(), &limit, eligible, resource),
            Amount(resource, eligible.get(resource)),
        ),
        left: limit.get(resource),
        whole: eligible.get(resource),
        resource: Some(resource.to_owned()),
    })
}

impl Capacity {
    /// Why a demand is not below the threshold of nodes that have this free.
    pub(super) fn exceeds_left(
        &self,
        demand: &Demand,
        free: &Resources,
        (allocatable, limits): (&Resources, &Own),
        nodes: &str,
        settings: &Settings,
    ) -> Option<Shortage> {
        let total = demand.total();
        let resource = total.exceeds(free)?;
        let asked = Amount(resource, total.get(resource));
        let message = if allocatable.get(resource) > 0 {
            let left = Amount(resource, free.get(resource).max(0));
            let limit = limits.limit(settings, allocatable);
            let share = state::share(&settings.start_thresholds, &limit, allocatable, resource);
            format!("needs {asked}, but only {left} are left below the threshold of {share}{nodes}")
        } else {
            format!("needs {asked}; {}", self.why_none_gives(resource, &demand.placement))
        };
        Some(Shortage {
            message,
            left: free.get(resource).max(0),
            whole: allocatable.get(resource),
            resource: Some(resource.to_owned()),
        })
    }

    /// Why no node has capacity for a demand, of so many that match it, some of them closed to ScavengerJobs.
    pub(super) fn not_placed(
        &self,
        demand: &Demand,
        placed: u32,
        suitable: usize,
        KeptOff { closed, leaving }: KeptOff,
        when: &str,
    ) -> Shortage {
        let mut looked_at = format!("{} looked at", number_of(suitable, "node"));
        if closed > 0 {
            looked_at.push_str(&format!(", {closed} of them closed to ScavengerJobs"));
        }
        if leaving > 0 {
            looked_at
                .push_str(&format!(", {leaving} of them in the pool for too short a time for it to save"));
        }
        if closed + leaving == 0
            && let Some(lacks) = self.beyond_every_node(demand)
        {
            looked_at.push_str(&format!("; {lacks}"));
        }
        let message = if suitable == 0 {
            self.why_none_admits(&demand.placement)
        } else if demand.pod_count == 1 {
            format!("no node has capacity for {} {when} ({looked_at})", demand.per_pod)
        } else if demand.placement.one_node {
            format!(
                "no node has capacity for all {} pods with {} each {when} ({looked_at}), and they mount a volume \
                 that one node at a time can mount",
                demand.pod_count, demand.per_pod
            )
        } else {
            format!(
                "nodes have capacity for {placed} of {} pods with {} each {when} ({looked_at})",
                demand.pod_count, demand.per_pod
            )
        };
        let message = match demand.placement.attached_to() {
            Some([]) => format!("{message}; its volumes are attached to different nodes"),
            Some(nodes) => format!("{message}; its volume is attached to node {}", nodes.join(", ")),
            None => message,
        };
        let whole = i64::try_from(suitable).unwrap_or(i64::MAX);
        Shortage { resource: None, left: placed.into(), whole, message }
    }
}

/// First fit over the nodes in the order of their names. All pods of a demand are alike, so a node takes as many as
/// it can before the next is asked, and no other order could place more.
pub(super) fn place<'a>(
    demand: &Demand,
    view: View,
    frees: impl Iterator<Item = (&'a Node, Resources)>,
) -> Result<Vec<Name>, u32> {
    let (unit, _) = demand.units();
    let mut places = Vec::with_capacity(demand.pod_count as usize);
    for (node, mut free) in frees {
        if !view.admits(&demand.placement, node) {
            continue;
        }
        while unit.exceeds(&free).is_none() {
            places.extend(std::iter::repeat_n(node.name.clone(), demand.pods_per_unit() as usize));
            if places.len() == demand.pod_count as usize {
                return Ok(places);
            }
            free.subtract(&unit);
        }
    }
    Err(u32::try_from(places.len()).unwrap_or(u32::MAX))
}
