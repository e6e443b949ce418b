//! What a recording says already, and so which lines are missing from it. It is made of the lines themselves: a recorder that
//! goes on after another reads the file.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use scavenger_recording::{Event, Line, Node};

use crate::observe::history::Seen;

/// Use is written again once it differs by so much from what was written last: a tenth, and at least this many millicores or
/// MiB. Most pods use about the same all day, and a line for each of them every few minutes would fill the file.
const LEAST_CPU_MILLI: i64 = 50;
/// See [`LEAST_CPU_MILLI`].
const LEAST_MEMORY_MIB: i64 = 64;

/// What was written.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    /// When the recording began.
    begun: Option<Timestamp>,
    /// Nodes that are there, as they are.
    nodes: BTreeMap<String, Node>,
    /// Pods that have not ended.
    pods: BTreeMap<String, Written>,
    /// Pods that have ended, and may still be objects.
    ended: BTreeSet<String>,
}

/// What was written of a pod beside its arrival.
#[derive(Debug, Clone, Copy, Default)]
struct Written {
    bound: bool,
    started: bool,
    /// Millicores and MiB.
    used: Option<(i64, i64)>,
}

impl Ledger {
    /// A line was written.
    pub(super) fn take(&mut self, line: &Line) {
        match &line.event {
            Event::Begin => {
                self.begun.get_or_insert(line.time);
            }
            Event::Mark | Event::Full => {}
            Event::Node(node) => {
                self.nodes.insert(node.name.clone(), node.clone());
            }
            Event::NodeGone { name } => {
                self.nodes.remove(name);
            }
            Event::Pod(pod) => {
                self.pods.insert(pod.name.clone(), Written::default());
            }
            Event::Bound { name, .. } => self.of_pod(name, |pod| pod.bound = true),
            Event::Started { name } => self.of_pod(name, |pod| pod.started = true),
            Event::Use { name, cpu_milli, memory_mib } => {
                self.of_pod(name, |pod| pod.used = Some((*cpu_milli, *memory_mib)));
            }
            Event::Ended { name } => {
                self.pods.remove(name);
                self.ended.insert(name.clone());
            }
        }
    }

    fn of_pod(&mut self, name: &str, change: impl FnOnce(&mut Written)) {
        if let Some(pod) = self.pods.get_mut(name) {
            change(pod);
        }
    }

    /// How many nodes are there, and how many pods have not ended.
    pub(super) fn counts(&self) -> (usize, usize) {
        (self.nodes.len(), self.pods.len())
    }

    /// A node was seen.
    pub(super) fn node(&self, node: Node, now: Timestamp) -> Option<Line> {
        let is_news = self.nodes.get(&node.name) != Some(&node);
        is_news.then_some(Line { time: now, event: Event::Node(node) })
    }

    /// These nodes are all that there are.
    pub(super) fn nodes_listed(&self, there: &BTreeSet<String>, now: Timestamp) -> Vec<Line> {
        let gone = self.nodes.keys().filter(|name| !there.contains(*name)).cloned();
        gone.map(|name| Line { time: now, event: Event::NodeGone { name } }).collect()
    }

    /// A node is gone.
    pub(super) fn node_gone(&self, name: &str, now: Timestamp) -> Option<Line> {
        let event = || Event::NodeGone { name: name.to_owned() };
        self.nodes.contains_key(name).then(|| Line { time: now, event: event() })
    }

    /// A pod was seen. `node` is the name in the recording of the node to which it is bound; none if that node was not seen
    /// yet: then the next look at the pod says it.
    pub(super) fn pod(&self, seen: &Seen, node: Option<&str>) -> Vec<Line> {
        let name = &seen.pod.name;
        // What ended before the recording began is no part of it.
        let is_over = seen.ended.is_some_and(|ended| self.begun.is_none_or(|begun| ended <= begun));
        let known = self.pods.get(name).copied();
        if self.ended.contains(name) || known.is_none() && is_over {
            return Vec::new();
        }
        let written = known.unwrap_or_default();
        let name = || name.clone();
        let arrival = known.is_none().then(|| (seen.created, Event::Pod(seen.pod.clone())));
        let bound = seen.bound.as_ref().zip(node).filter(|_| !written.bound);
        let bound =
            bound.map(|((_, time), node)| (*time, Event::Bound { name: name(), node: node.to_owned() }));
        let started = seen.started.filter(|_| !written.started);
        let started = started.map(|time| (time, Event::Started { name: name() }));
        let ended = seen.ended.map(|time| (time, Event::Ended { name: name() }));
        let lines = [arrival, bound, started, ended].into_iter().flatten();
        lines.map(|(time, event)| Line { time, event }).collect()
    }

    /// These pods are all that there are. Those that went meanwhile are gone now, as far as anybody knows.
    pub(super) fn pods_listed(&mut self, there: &BTreeSet<String>, now: Timestamp) -> Vec<Line> {
        self.ended.retain(|name| there.contains(name));
        let gone = self.pods.keys().filter(|name| !there.contains(*name)).cloned();
        gone.map(|name| Line { time: now, event: Event::Ended { name } }).collect()
    }

    /// A pod is gone, and had ended then.
    pub(super) fn pod_gone(&self, name: &str, ended: Timestamp) -> Option<Line> {
        let event = || Event::Ended { name: name.to_owned() };
        self.pods.contains_key(name).then(|| Line { time: ended, event: event() })
    }

    /// The object of a pod is gone: nobody will see it again.
    pub(super) fn forget(&mut self, name: &str) {
        self.ended.remove(name);
    }

    /// What a pod uses was measured.
    pub(super) fn used(
        &self,
        name: &str,
        (cpu_milli, memory_mib): (i64, i64),
        time: Timestamp,
    ) -> Option<Line> {
        let before = self.pods.get(name)?.used;
        let differs = |now: i64, before: i64, least: i64| (now - before).abs() >= least.max(before / 10);
        let is_news = before.is_none_or(|(cpu, memory)| {
            differs(cpu_milli, cpu, LEAST_CPU_MILLI) || differs(memory_mib, memory, LEAST_MEMORY_MIB)
        });
        let event = || Event::Use { name: name.to_owned(), cpu_milli, memory_mib };
        is_news.then(|| Line { time, event: event() })
    }
}
