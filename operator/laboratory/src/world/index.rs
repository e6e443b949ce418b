//! The nodes by what is free on them, so that a pod finds the best one without a look at all of them.

use std::collections::BTreeSet;

use crate::values::{Amounts, NodeId};

/// So many nodes with the best score are tried before those are looked for that have enough cpu at all.
const TRIES: usize = 24;

/// Score of a node that is empty: the least allocated one is best.
const FULL_SCORE: i64 = 1_000_000;

/// Nodes of the same capacity.
#[derive(Debug)]
struct Kind {
    capacity: Amounts,
    by_score: BTreeSet<(i64, NodeId)>,
    by_cpu: BTreeSet<(i64, NodeId)>,
}

/// All nodes.
#[derive(Debug)]
pub(super) struct Index {
    kinds: Vec<Kind>,
    of_node: Vec<usize>,
    free: Vec<Amounts>,
}

/// As kube-scheduler's LeastAllocated scores a node with this much free: the mean of cpu and memory, in millionths. It counts in
/// hundredths and draws one of the best; here each difference counts, and equals go by number.
fn score(free: Amounts, capacity: Amounts) -> i64 {
    let part = |free: i64, of: i64| free.max(0) * FULL_SCORE / of.max(1);
    (part(free.cpu, capacity.cpu) + part(free.memory, capacity.memory)) / 2
}

impl Index {
    pub(super) fn new(capacities: impl Iterator<Item = Amounts>) -> Self {
        let mut index = Self { kinds: Vec::new(), of_node: Vec::new(), free: Vec::new() };
        for (number, capacity) in capacities.enumerate() {
            let known = index.kinds.iter().position(|kind| kind.capacity == capacity);
            let kind = known.unwrap_or_else(|| {
                index.kinds.push(Kind { capacity, by_score: BTreeSet::new(), by_cpu: BTreeSet::new() });
                index.kinds.len() - 1
            });
            index.of_node.push(kind);
            index.free.push(capacity);
            index.insert(NodeId::at(number));
        }
        index
    }

    fn insert(&mut self, node: NodeId) {
        let free = self.free[node.index()];
        let kind = &mut self.kinds[self.of_node[node.index()]];
        kind.by_score.insert((score(free, kind.capacity), node));
        kind.by_cpu.insert((free.cpu, node));
    }

    /// What is free on a node.
    pub(super) fn free(&self, node: NodeId) -> Amounts {
        self.free[node.index()]
    }

    /// What is free on a node changes.
    pub(super) fn add(&mut self, node: NodeId, amounts: Amounts) {
        let free = self.free[node.index()];
        let kind = &mut self.kinds[self.of_node[node.index()]];
        kind.by_score.remove(&(score(free, kind.capacity), node));
        kind.by_cpu.remove(&(free.cpu, node));
        self.free[node.index()] = free.plus(amounts);
        self.insert(node);
    }

    /// The node that is the least allocated with the pod on it, among those that take it.
    pub(super) fn best(&self, requests: Amounts, takes: impl Fn(NodeId) -> bool) -> Option<NodeId> {
        let found = self.kinds.iter().filter_map(|kind| {
            let node = kind.best(&self.free, requests, &takes)?;
            let after = self.free[node.index()].minus(requests);
            Some((score(after, kind.capacity), std::cmp::Reverse(node)))
        });
        found.max().map(|(_, node)| node.0)
    }

    /// The same among a few nodes.
    pub(super) fn best_of(
        &self,
        nodes: &[NodeId],
        requests: Amounts,
        takes: impl Fn(NodeId) -> bool,
    ) -> Option<NodeId> {
        let found = nodes.iter().copied().filter(|node| takes(*node));
        found.max_by_key(|node| {
            let capacity = self.kinds[self.of_node[node.index()]].capacity;
            (score(self.free[node.index()].minus(requests), capacity), std::cmp::Reverse(*node))
        })
    }
}

impl Kind {
    /// Within a kind the best node before the pod is the best one with it.
    fn best(&self, free: &[Amounts], requests: Amounts, takes: &impl Fn(NodeId) -> bool) -> Option<NodeId> {
        let most = self.by_cpu.last().map(|(cpu, _)| *cpu)?;
        if !requests.fits(self.capacity) || most < requests.cpu {
            return None;
        }
        let mut by_score = self.by_score.iter().rev().map(|(_, node)| *node);
        if let Some(node) = by_score.by_ref().take(TRIES).find(|node| takes(*node)) {
            return Some(node);
        }
        // Those with the best scores are full in some way: the others are worth a look only where the cpu suffices.
        let enough = self.by_cpu.range((requests.cpu, NodeId(0))..).count();
        if enough < self.by_score.len() / 4 {
            let with_cpu = self.by_cpu.range((requests.cpu, NodeId(0))..).map(|(_, node)| *node);
            let takers = with_cpu.filter(|node| takes(*node));
            return takers.max_by_key(|node| (score(free[node.index()], self.capacity), *node));
        }
        by_score.find(|node| takes(*node))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chance::Chance;

    #[test]
    fn it_finds_what_a_look_at_every_node_finds() {
        let mut chance = Chance::new(5, 0);
        let capacities: Vec<Amounts> = (0..200)
            .map(|number| Amounts {
                cpu: 16_000 << (number % 2),
                memory: 65_536,
                pods: 110,
                gpus: number % 3,
            })
            .collect();
        let mut index = Index::new(capacities.iter().copied());
        for _ in 0..3000 {
            let requests =
                Amounts::of_pod(chance.below(9000), chance.below(30_000), i64::from(chance.percent(20)));
            let takes = |node: NodeId| requests.fits(index.free(node));
            let all = (0..200).map(NodeId).filter(|node| takes(*node));
            let slow = all.max_by_key(|node| {
                let after = index.free(*node).minus(requests);
                (score(after, capacities[node.index()]), std::cmp::Reverse(*node))
            });
            let fast = index.best(requests, takes);
            let after = |node: Option<NodeId>| {
                node.map(|node| score(index.free(node).minus(requests), capacities[node.index()]))
            };
            assert_eq!(fast.is_some(), slow.is_some());
            // Rounding to millionths can order two nodes differently before and with the pod.
            let differs = after(fast).zip(after(slow)).map_or(0, |(a, b)| (a - b).abs());
            assert!(differs <= 2, "{fast:?} {slow:?}: {differs}");
            match fast {
                Some(node) => index.add(node, requests.times(-1)),
                None => {
                    let node = NodeId::at(usize::try_from(chance.below(200)).unwrap());
                    index.add(node, capacities[node.index()].minus(index.free(node)));
                }
            }
        }
    }
}
