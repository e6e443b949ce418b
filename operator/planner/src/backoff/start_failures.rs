//! Starts that failed: because of the node, or because of what was to be started there?
//!
//! A broken node (a driver that was upgraded, a full disk, a network without the registry, a kubelet that refuses every
//! pod) starts nothing, so it looks empty, and the next ones are sent there. What is wrong with a ScavengerJob, with a
//! registry or with a volume fails on any node. One failure does not tell which of them it is, so the start is
//! withdrawn and tried again, and this remembers where it failed.
//!
//! A node on which [`CLOSING`] starts failed is closed for a while:
//!
//! - If the runtime could not start a container, each attempt counts for [`WINDOW`].
//! - Whatever else kept a pod from starting (the kubelet refused it, an image was not pulled, a volume was not mounted,
//!   a container was not created) counts for [`RECENT`], and only if it does not happen on other nodes: what needs the
//!   same image and the same claims has started on another one, and failed on no other one since; or two ScavengerJobs
//!   failed so here, and none elsewhere.
//! - A ScavengerJob counts once if it failed on another node, too, if the message names its command, or if, for the
//!   second kind of failure, no container of it ever ran. So no single ScavengerJob closes one node after the other.
//!
//! A container that starts there later shows that the node is well.
//!
//! All of it is memory: a planner that is started again finds out again.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use super::{
    needs::{Latest, Needs, RECENT},
    timed::{Rule, Timed},
};
use crate::{
    faults::kubelet::{self, message_of},
    values::{Container, Name, Pod},
};

/// So many failed starts close a node.
const CLOSING: usize = 3;

/// For how long it counts that a container could not be started.
const WINDOW: SignedDuration = SignedDuration::from_mins(10);

/// How long a node is closed; twice as long each time it is closed again.
const FIRST: SignedDuration = SignedDuration::from_mins(5);

/// The longest time for which a node is closed; after as long without trouble the next time is the first again.
const LONGEST: SignedDuration = SignedDuration::from_mins(60);

/// How long it is remembered where a ScavengerJob failed: it may wait for hours between two attempts.
const MEMORY: SignedDuration = SignedDuration::from_hours(24);

/// What speaks against the node on which a pod waits to be started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Doubt {
    /// Nothing.
    None,
    /// What needs the same starts on other nodes.
    OthersStart,
    /// It was closed, and has started nothing since.
    StartsNothing,
}

/// What is known of starts that failed.
#[derive(Debug)]
pub(crate) struct StartFailures {
    /// By UID of the ScavengerJob.
    failures: BTreeMap<Name, Vec<Failure>>,
    /// When a start failed last on each node that has started no container since.
    newest: BTreeMap<Name, Timestamp>,
    /// Where containers started.
    started: Latest,
    /// Where starts failed for a reason that may lie elsewhere.
    failed: Latest,
    closed: Timed<Name>,
}

impl Default for StartFailures {
    fn default() -> Self {
        let rule = Rule { first: FIRST, longest: LONGEST, forgotten_after: Some(LONGEST) };
        Self {
            failures: BTreeMap::new(),
            newest: BTreeMap::new(),
            started: Latest::default(),
            failed: Latest::default(),
            closed: Timed::new(rule),
        }
    }
}

#[derive(Debug)]
struct Failure {
    attempt: u32,
    pod: Name,
    node: Name,
    time: Timestamp,
    message: String,
    /// What its pod needed, if the reason may lie elsewhere than on the node.
    needs: Option<Needs>,
    /// True if no container of its ScavengerJob ever ran, so that the reason may be its own.
    is_unproven: bool,
    /// False once the node was closed because of it, or has started a container since.
    counts: bool,
}

/// What is known of a ScavengerJob, one of whose pods is looked at.
#[derive(Debug)]
pub(crate) struct Start<'a> {
    /// What its pods need.
    pub(crate) needs: &'a Needs,
    /// True if a container of it has run with the spec that it has.
    pub(crate) has_run: bool,
    /// True if the container of this pod had started.
    pub(crate) had_started: bool,
}

impl StartFailures {
    /// Takes in a pod of an active attempt, and returns the nodes that are closed or open since.
    pub(crate) fn see(&mut self, pod: &Pod, start: &Start<'_>, now: Timestamp) -> Vec<Name> {
        let Some(node) = &pod.node else { return Vec::new() };
        if let Some(Container::Ended { exit_code: 0, time: Some(time), .. }) = pod.supervisor.as_deref() {
            self.started.note(&Needs::of_supervisor(&pod.key.namespace), node, *time, now);
        }
        if pod.container == Container::Running {
            self.starts(node, pod.creation_time);
            let time = pod.started.unwrap_or(pod.creation_time);
            return match self.started.note(start.needs, node, time, now) {
                true => self.judge_all(self.nodes_with(start.needs), now),
                false => Vec::new(),
            };
        }
        if let Some(message) = message_of(pod) {
            return self.note(pod, message, None, false, now);
        }
        match kubelet::refused(pod).filter(|_| !start.had_started) {
            Some(message) => self.note(pod, &message, Some(start.needs), !start.has_run, now),
            None => Vec::new(),
        }
    }

    /// A pod of a start that is withdrawn was not started on its node, for this reason. Returns the nodes that are
    /// closed or open since.
    pub(crate) fn withdrawn(
        &mut self,
        pod: &Pod,
        message: &str,
        (needs, has_run): (&Needs, bool),
        now: Timestamp,
    ) -> Vec<Name> {
        self.note(pod, message, Some(needs), !has_run, now)
    }

    fn note(
        &mut self,
        pod: &Pod,
        message: &str,
        needs: Option<&Needs>,
        is_unproven: bool,
        now: Timestamp,
    ) -> Vec<Name> {
        let (Some((uid, attempt)), Some(node)) = (&pod.owner, &pod.node) else { return Vec::new() };
        let known = self.failures.entry(uid.clone()).or_default();
        if known.iter().any(|failure| failure.attempt == *attempt && failure.pod == pod.key.name) {
            return Vec::new();
        }
        known.push(Failure {
            attempt: *attempt,
            pod: pod.key.name.clone(),
            node: node.clone(),
            time: now,
            message: message.to_owned(),
            needs: needs.cloned(),
            is_unproven,
            counts: true,
        });
        let mut nodes: BTreeSet<Name> = known.iter().map(|failure| failure.node.clone()).collect();
        self.newest.insert(node.clone(), now);
        self.failures.retain(|_, failures| {
            failures.retain(|failure| now.duration_since(failure.time) < failure.remembered());
            !failures.is_empty()
        });
        if let Some(needs) = needs {
            self.failed.note(needs, node, now, now);
            // What fails here, too, is no reason to keep another node closed.
            nodes.extend(self.nodes_with(needs));
            nodes.extend(self.closed.iter().map(|(node, _)| node.clone()));
        }
        self.judge_all(nodes, now)
    }

    /// Nodes on which starts failed that needed this.
    fn nodes_with(&self, needs: &Needs) -> BTreeSet<Name> {
        let same = self.failures.values().flatten().filter(|failure| failure.needs.as_ref() == Some(needs));
        same.map(|failure| failure.node.clone()).collect()
    }

    /// A container was started on a node, in a pod of this time. One that runs since before the last failure says nothing.
    fn starts(&mut self, node: &Name, created: Timestamp) {
        if self.newest.get(node).is_none_or(|newest| *newest >= created) {
            return;
        }
        for failure in self.failures.values_mut().flatten() {
            failure.counts &= failure.node != *node;
        }
        self.newest.remove(node);
        self.closed.forget_times(node);
    }

    /// A ScavengerJob is finished or gone. If it was to blame for its failures, its nodes were not; returns those that are
    /// open again.
    pub(crate) fn forget(&mut self, uid: &Name, is_to_blame: bool, now: Timestamp) -> Vec<Name> {
        let Some(failures) = self.failures.remove(uid).filter(|_| is_to_blame) else { return Vec::new() };
        self.judge_all(failures.into_iter().map(|failure| failure.node).collect(), now)
    }

    fn judge_all(&mut self, nodes: BTreeSet<Name>, now: Timestamp) -> Vec<Name> {
        nodes.into_iter().filter(|node| self.judge(node, now)).collect()
    }

    /// Closes a node, or opens one that was closed because of others; true if it did.
    fn judge(&mut self, node: &Name, now: Timestamp) -> bool {
        let closed = self.closed.get(node).map(|closed| closed.since);
        let suffices = self.weight(node, closed.unwrap_or(now)) >= CLOSING;
        match (closed, suffices) {
            (None, true) => self.close(node, now),
            (Some(_), false) => _ = self.closed.end(node),
            _ => return false,
        }
        true
    }

    fn close(&mut self, node: &Name, now: Timestamp) {
        let newest = self.failures.values().flatten().filter(|failure| failure.node == *node);
        let newest = newest.max_by_key(|failure| failure.time).map_or("", |failure| &failure.message);
        self.closed.begin(node.clone(), now, |until| {
            let until = Timestamp::from_second(until.as_second()).unwrap_or(until);
            format!(
                "node {node} takes no ScavengerJobs until {until}, since containers could not be started there: {newest}"
            )
        });
    }

    /// How many failed starts speak against a node.
    fn weight(&self, node: &Name, now: Timestamp) -> usize {
        let is_alone = self.is_alone(node, now);
        let of_sj = |failures: &Vec<Failure>| {
            let here = failures.iter().filter(|failure| {
                failure.counts && failure.node == *node && self.speaks(failure, is_alone, now)
            });
            let attempts: BTreeSet<u32> = here.clone().map(|failure| failure.attempt).collect();
            let is_suspect = failures.iter().any(|failure| failure.node != *node)
                || here
                    .clone()
                    .any(|failure| failure.is_unproven || kubelet::names_a_bad_command(&failure.message));
            if is_suspect { attempts.len().min(1) } else { attempts.len() }
        };
        self.failures.values().map(of_sj).sum()
    }

    /// True if a failure says something about its node. `is_alone` is true if all that fails fails there.
    fn speaks(&self, failure: &Failure, is_alone: bool, now: Timestamp) -> bool {
        let age = now.duration_since(failure.time);
        match &failure.needs {
            None => age < WINDOW,
            // In a pool whose supervisor cannot be pulled anywhere no node is to blame.
            Some(needs) if is_alone && needs.is_of_workload() => age < RECENT,
            Some(needs) => age < RECENT && self.works_elsewhere(needs, &failure.node, now),
        }
    }

    /// True if what needs this has started on another node, and failed on no other one since.
    fn works_elsewhere(&self, needs: &Needs, node: &Name, now: Timestamp) -> bool {
        let Some(started) = self.started.elsewhere(needs, node) else { return false };
        let fails = self.failed.elsewhere(needs, node).is_some_and(|failed| failed >= started);
        now.duration_since(started) < RECENT && !fails
    }

    /// True if two ScavengerJobs failed on a node for a reason that may lie elsewhere, and none on another node.
    fn is_alone(&self, node: &Name, now: Timestamp) -> bool {
        let counts = |failure: &&Failure| {
            let is_of_workload = failure.needs.as_ref().is_some_and(|needs| needs.is_of_workload());
            is_of_workload && now.duration_since(failure.time) < RECENT
        };
        let mut here = 0;
        for failures in self.failures.values() {
            let mut recent = failures.iter().filter(counts).peekable();
            here += usize::from(recent.peek().is_some());
            if recent.any(|failure| failure.node != *node) {
                return false;
            }
        }
        here >= 2
    }

    /// What speaks against a node on which a pod with these needs waits to be started.
    pub(crate) fn doubt(&self, node: &Name, needs: &Needs, now: Timestamp) -> Doubt {
        if self.closed.last(node).is_some_and(|closed| closed.times > 0) && self.newest.contains_key(node) {
            Doubt::StartsNothing
        } else if self.works_elsewhere(needs, node, now) {
            Doubt::OthersStart
        } else {
            Doubt::None
        }
    }

    /// True if the ScavengerJob itself is to blame: its command could not be executed in two attempts, on two nodes or where
    /// there is no other node for it, or in three attempts.
    pub(crate) fn blames(&self, uid: &Name, is_only_node: impl FnOnce(&Name) -> bool) -> bool {
        let failures = self.failures.get(uid).into_iter().flatten();
        let bad = failures.filter(|failure| kubelet::names_a_bad_command(&failure.message));
        let nodes: BTreeSet<&Name> = bad.clone().map(|failure| &failure.node).collect();
        let attempts: BTreeSet<u32> = bad.map(|failure| failure.attempt).collect();
        match (nodes.first(), attempts.len()) {
            (None, _) | (_, 0 | 1) => false,
            _ if nodes.len() > 1 => true,
            (Some(node), 2) => is_only_node(node),
            (_, attempts) => attempts > 2,
        }
    }

    /// Why no ScavengerJob may be added to a node; none if they may.
    pub(crate) fn why_closed(&self, node: &Name) -> Option<&str> {
        self.closed.get(node).map(|closed| closed.why.as_str())
    }

    /// True while no ScavengerJob may be added to a node.
    #[cfg(test)]
    fn is_closed(&self, node: &Name) -> bool {
        self.closed.get(node).is_some()
    }

    /// Opens the nodes whose time is over, and returns them. What failed there is forgiven.
    pub(crate) fn open(&mut self, now: Timestamp) -> Vec<Name> {
        let over: Vec<Name> = self.closed.take_over(now).into_iter().collect();
        for node in &over {
            for failure in self.failures.values_mut().flatten().filter(|failure| failure.node == *node) {
                failure.counts = false;
            }
        }
        over
    }

    /// When the next node is opened.
    pub(crate) fn wake_at(&self) -> Option<Timestamp> {
        self.closed.wake_at()
    }
}

impl Failure {
    fn remembered(&self) -> SignedDuration {
        if self.needs.is_some() { RECENT } else { MEMORY }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{at, pod, seconds};

    const HOOK: &str = "nvidia-container-cli: driver/library version mismatch";
    const NO_COMMAND: &str =
        "unable to start container process: exec: \"gmx\": executable file not found in $PATH";

    fn failed(sj: &str, attempt: u32, node: &str, message: &str) -> Pod {
        let mut pod = pod(&format!("{sj}-{attempt}-0"), 1).of(sj, attempt).on(node).ended(128, at(0));
        pod.container = Container::Ended {
            exit_code: 128,
            reason: "StartError".to_owned(),
            message: message.to_owned(),
            time: None,
            started: false,
        };
        pod
    }

    fn needs(image: u64) -> Needs {
        let mut sj = crate::fixtures::sj("a");
        sj.spec.as_mut().unwrap().image_hash = image;
        Needs::of(&sj).unwrap()
    }

    fn see(failures: &mut StartFailures, pod: &Pod, second: i64) -> Vec<Name> {
        failures.see(pod, &Start { needs: &needs(1), has_run: false, had_started: false }, at(second))
    }

    fn closes(failures: &mut StartFailures, pod: &Pod, second: i64) -> bool {
        see(failures, pod, second);
        failures.is_closed(pod.node.as_ref().unwrap())
    }

    #[test]
    fn three_failed_starts_close_a_node_for_twice_as_long_each_time() {
        let mut failures = StartFailures::default();
        let mut now = 0;
        for minutes in [5, 10, 20, 40, 60, 60] {
            for (sj, closed) in [("a", false), ("b", false), ("c", true)] {
                let attempt = u32::try_from(now).unwrap();
                assert_eq!(closes(&mut failures, &failed(sj, attempt, "n1", HOOK), now), closed);
                // The same again is no news.
                assert_eq!(closes(&mut failures, &failed(sj, attempt, "n1", HOOK), now), closed);
            }
            assert_eq!(failures.wake_at(), Some(at(now + 60 * minutes)));
            assert!(failures.open(at(now + 60 * minutes - 1)).is_empty());
            now += 60 * minutes;
            assert_eq!(failures.open(at(now)), ["n1".into()]);
        }
        // An hour without trouble.
        now += 3600;
        for sj in ["a", "b", "c"] {
            see(&mut failures, &failed(sj, 1_000_000, "n1", HOOK), now);
        }
        assert_eq!(failures.wake_at(), Some(at(now + 300)));
        assert!(failures.why_closed(&"n1".into()).is_some_and(|message| message.ends_with(HOOK)));
    }

    #[test]
    fn failures_far_apart_and_those_before_a_start_do_not_count() {
        let mut failures = StartFailures::default();
        for (number, second) in [(1, 0), (2, 599), (3, 600)] {
            assert!(!closes(&mut failures, &failed("a", number, "n1", HOOK), second));
        }
        let mut runs = pod("b-1-0", 1).of("b", 1).on("n1").running();
        runs.creation_time = at(610);
        see(&mut failures, &runs, 611);
        assert!(!closes(&mut failures, &failed("a", 4, "n1", HOOK), 620));
        assert!(!closes(&mut failures, &failed("a", 5, "n1", HOOK), 621));
        assert!(closes(&mut failures, &failed("a", 6, "n1", HOOK), 622));
    }

    #[test]
    fn a_container_that_runs_since_before_the_failures_says_nothing() {
        let mut failures = StartFailures::default();
        let mut runs = pod("b-1-0", 1).of("b", 1).on("n1").running();
        runs.creation_time = at(-100);
        for (attempt, closed) in [(1, false), (2, false), (3, true)] {
            assert_eq!(closes(&mut failures, &failed("a", attempt, "n1", HOOK), attempt.into()), closed);
            see(&mut failures, &runs, attempt.into());
        }
        assert!(failures.is_closed(&"n1".into()));
        failures.open(at(303));
        for attempt in 4..=6 {
            see(&mut failures, &failed("a", attempt, "n1", HOOK), 303);
            see(&mut failures, &runs, 303);
        }
        assert_eq!(failures.wake_at(), Some(at(303 + 600)), "twice as long");
    }

    #[test]
    fn one_scavenger_job_does_not_close_one_node_after_the_other() {
        let mut failures = StartFailures::default();
        for attempt in 1..=3 {
            see(&mut failures, &failed("a", attempt, "n1", HOOK), attempt.into());
        }
        assert!(failures.is_closed(&"n1".into()));
        // It fails elsewhere, too: so it is not that node.
        assert_eq!(see(&mut failures, &failed("a", 4, "n2", HOOK), 4), ["n1".into()]);
        assert!(!closes(&mut failures, &failed("a", 5, "n2", HOOK), 5));
        assert!(!closes(&mut failures, &failed("a", 6, "n2", HOOK), 6));
    }

    #[test]
    fn a_bad_command_is_to_blame_on_two_nodes_or_where_there_is_no_other() {
        let mut failures = StartFailures::default();
        let uid = Name::from("a");
        see(&mut failures, &failed("a", 1, "n1", NO_COMMAND), 0);
        assert!(!failures.blames(&uid, |_| true));
        see(&mut failures, &failed("a", 2, "n1", NO_COMMAND), 10);
        assert!(failures.blames(&uid, |node| **node == *"n1"));
        assert!(!failures.blames(&uid, |_| false));
        see(&mut failures, &failed("a", 3, "n2", NO_COMMAND), 20);
        assert!(failures.blames(&uid, |_| false));
        assert!(!failures.blames(&"b".into(), |_| true));
    }

    #[test]
    fn those_that_are_to_blame_close_no_node() {
        let mut failures = StartFailures::default();
        for sj in ["a", "b", "c"] {
            see(&mut failures, &failed(sj, 1, "n1", NO_COMMAND), 0);
        }
        assert!(failures.is_closed(&"n1".into()));
        assert_eq!(failures.forget(&"a".into(), true, at(1)), ["n1".into()]);
        assert!(!failures.is_closed(&"n1".into()));
        assert!(failures.forget(&"b".into(), false, at(1) + seconds(1)).is_empty());
    }
}
