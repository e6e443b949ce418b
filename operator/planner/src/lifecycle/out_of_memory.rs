//! A container that was killed for memory: did the node have none left, or did the workload outgrow its limit?
//!
//! The Kubernetes API says OOMKilled of both. The agent of a node reads in the kernel's counters which it was, and its answer
//! decides. It is waited for, but not for long. Without an answer what was measured decides: a workload that used nearly all of
//! its limit has outgrown it. Samples are 15 seconds apart, and memory can grow faster. So a workload that is killed on several
//! nodes, or again and again, is to blame, too, unless it made progress in between.
//!
//! With cgroup v1 a container runtime hears of kills within the container's own limit only. What the kernel kills because the
//! node has no memory left shows as exit code 137 (SIGKILL) with the reason Error. Nobody else ends a container in that way
//! before its pod is deleted, except the workload itself. So the same rule holds for it, but here run time is no progress: a
//! workload that always kills itself after some hours would be started forever.
//!
//! Whose capacity is counted by requests is Guaranteed, and the kernel kills others first, unless the supervisor raised the
//! workload's score: then it is the first to go. But nobody overcommits such a node on purpose. So if its use was not
//! measured, the workload's own limit is the likelier cause.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use crate::{
    faults::kubelet::OUT_OF_MEMORY,
    values::{
        Accounting, Attempt, AttemptUsage, Container, Ending, KillCause, Name, Outcome, Pod, Reason,
        resources::{Amount, MEMORY, Share},
    },
};

/// The exit code of a program that SIGKILL ended.
const SIGKILL: i32 = 137;

/// Who used this share of the limit has outgrown it.
const SHARE: f64 = 0.9;

/// On so many different nodes a workload is killed before it is to blame.
const NODES: usize = 3;

/// So often it is killed, wherever that is, before it is to blame.
const KILLS: usize = 5;

/// The attempts of a ScavengerJob that were killed for memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Kills<'a> {
    /// The nodes of earlier ones, one for each kill.
    pub(crate) before: &'a [Name],
    /// True if this one ran for a whole `interruptionAfter`.
    pub(crate) made_progress: bool,
    /// True if a container of this one ended by SIGKILL, and the kubelet does not say that it was for memory.
    pub(crate) unmarked: bool,
    /// Why the containers of this one were killed that the kubelet calls killed for memory; none as long as nobody says.
    pub(crate) cause: Option<KillCause>,
}

impl<'a> Kills<'a> {
    /// The nodes of the kills before this one that count against the workload.
    pub(crate) fn counted(&self) -> &'a [Name] {
        if self.made_progress && !self.unmarked { &[] } else { self.before }
    }

    /// True if the kernel's counters say who is to blame. Then nothing has to be guessed from how often it happened.
    pub(crate) fn is_explained(&self) -> bool {
        matches!(self.cause, Some(KillCause::Limit | KillCause::Node))
    }
}

/// The pods of an attempt whose container was killed for memory, as the kubelet says.
fn killed<'a>(
    pods: impl IntoIterator<Item = &'a Arc<Pod>>,
    attempt: &Attempt,
) -> impl Iterator<Item = &'a Arc<Pod>> {
    let number = attempt.number;
    pods.into_iter().filter(move |pod| {
        let is_marked = matches!(&pod.container, Container::Ended { reason, .. } if reason == OUT_OF_MEMORY);
        is_marked && pod.is_of(number)
    })
}

/// Why containers of these pods of an attempt were killed for memory. One that reached its own limit is the cause for a whole
/// gang; that the nodes are takes an answer about each.
pub(super) fn cause<'a>(
    pods: impl IntoIterator<Item = &'a Arc<Pod>>,
    attempt: &Attempt,
    killed_by: &BTreeMap<Name, KillCause>,
) -> Option<KillCause> {
    let causes: Vec<_> = killed(pods, attempt).map(|pod| killed_by.get(&pod.uid).copied()).collect();
    let [limit, node, unknown] = [KillCause::Limit, KillCause::Node, KillCause::Unknown].map(Some);
    match causes.as_slice() {
        [] => None,
        causes if causes.contains(&limit) => limit,
        causes if causes.contains(&None) => None,
        causes if causes.contains(&unknown) => unknown,
        _ => node,
    }
}

/// True if the agent of a node may still say why a container was killed for memory.
pub(super) fn may_be_explained<'a>(
    pods: impl IntoIterator<Item = &'a Arc<Pod>>,
    attempt: &Attempt,
    killed_by: &BTreeMap<Name, KillCause>,
    node_agents: &BTreeSet<Name>,
) -> bool {
    let mut unexplained = killed(pods, attempt).filter(|pod| !killed_by.contains_key(&pod.uid));
    unexplained.any(|pod| pod.node.as_ref().is_some_and(|node| node_agents.contains(node)))
}

/// True if a container of these pods of an attempt ended by SIGKILL, and the kubelet does not say that it was for memory.
pub(super) fn is_unmarked<'a>(pods: impl IntoIterator<Item = &'a Arc<Pod>>, attempt: &Attempt) -> bool {
    pods.into_iter().any(|pod| {
        let is_of_attempt = pod.is_of(attempt.number);
        let Container::Ended { exit_code, reason, started, .. } = &pod.container else { return false };
        is_of_attempt && *started && *exit_code == SIGKILL && reason != OUT_OF_MEMORY
    })
}

/// What the end of an attempt is that was killed for memory, as far as anybody knows.
pub(crate) fn judge(
    attempt: &Attempt,
    usage: Option<&AttemptUsage>,
    kills: Kills<'_>,
    ending: Ending,
) -> Ending {
    match kills.cause.filter(|_| ending.reason == Reason::OOMKilled) {
        Some(KillCause::Limit) => {
            let message = format!("{} (the kernel's counters say that it reached the limit)", ending.message);
            return Ending { message, ..ending };
        }
        Some(KillCause::Node) => {
            let message = format!(
                "{}: the container was killed, and the kernel's counters say that it had not reached its limit",
                had_none_left(attempt)
            );
            return Ending::new(Outcome::Interrupted, Reason::NodeOutOfMemory, message);
        }
        Some(KillCause::Unknown) | None => {}
    }
    // Of a gang only the sum of all pods is known, which says nothing about the one that was killed.
    let is_of_the_pod =
        |usage: &&AttemptUsage| usage.attempt == attempt.number && attempt.demand.pod_count == 1;
    let measured = usage.filter(is_of_the_pod).map(|usage| usage.memory.peak);
    let may_be_the_nodes = match attempt.accounting {
        Accounting::Usage => true,
        Accounting::Requests => attempt.supervised && measured.is_some(),
    };
    let is_kill = match ending.reason {
        Reason::OOMKilled => true,
        Reason::ContainerFailed => kills.unmarked,
        _ => false,
    };
    if !is_kill || !may_be_the_nodes {
        return ending;
    }
    let limit = attempt.demand.per_pod.memory_bytes;
    if let Some(used) = measured.filter(|used| *used >= Share::from_fraction(SHARE).of(limit)) {
        let numbers = format!("it used {} of its {}", Amount(MEMORY, used), Amount(MEMORY, limit));
        return Ending { message: format!("{} ({numbers})", ending.message), ..ending };
    }
    let node = node(attempt);
    let with_this = with(kills.counted(), node);
    let different: BTreeSet<&Name> = with_this.iter().collect();
    if different.len() >= NODES || with_this.len() >= KILLS {
        let (kills, names) = (with_this.len(), with_this.join(", "));
        let message = format!("{} (it was killed {kills} times, on nodes {names})", ending.message);
        return Ending { message, ..ending };
    }
    let used = measured.map_or_else(
        || "what it used was not measured".to_owned(),
        |used| format!("it was measured to use {} of its {}", Amount(MEMORY, used), Amount(MEMORY, limit)),
    );
    let message = if ending.reason == Reason::OOMKilled {
        format!("{}: the container was killed, and {used}", had_none_left(attempt))
    } else {
        let name = node.map_or("of its pod", |name| name);
        format!(
            "node {name} probably had no memory left: SIGKILL ended the container although nobody had deleted its pod, and \
             {used}"
        )
    };
    Ending::new(Outcome::Interrupted, Reason::NodeOutOfMemory, message)
}

fn had_none_left(attempt: &Attempt) -> String {
    format!("node {} had no memory left", node(attempt).map_or("of its pod", |name| name))
}

/// Where an attempt ran; of a gang that ran on several nodes, one of them.
pub(crate) fn node(attempt: &Attempt) -> Option<&Name> {
    attempt.node.as_ref().or_else(|| attempt.nodes.first().map(|node| &node.name))
}

/// The nodes on which it was killed, one for each time, with one more.
pub(crate) fn with(nodes: &[Name], node: Option<&Name>) -> Vec<Name> {
    nodes.iter().chain(node).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        fixtures::{at, pod, sj},
        values::{Demand, Figures},
    };

    const FIRST: Kills<'_> = Kills { before: &[], made_progress: false, unmarked: false, cause: None };

    fn attempt(accounting: Accounting) -> Attempt {
        let demand = sj("a").asking(1000).spec.unwrap().demand;
        Attempt { accounting, node: Some("n1".into()), ..Attempt::first(demand, at(0)) }
    }

    fn killed() -> Ending {
        Ending::failed(Reason::OOMKilled, "pod a-1-0 was killed".to_owned())
    }

    fn after(before: &[Name]) -> Kills<'_> {
        Kills { before, ..FIRST }
    }

    fn using(attempt: &Attempt, percent: i64) -> AttemptUsage {
        let peak = attempt.demand.per_pod.memory_bytes / 100 * percent;
        AttemptUsage { attempt: 1, memory: Figures { mean: peak, peak }, ..AttemptUsage::default() }
    }

    #[test]
    fn who_used_far_less_than_its_limit_was_killed_by_the_node() {
        let attempt = attempt(Accounting::Usage);
        let ending = judge(&attempt, Some(&using(&attempt, 50)), FIRST, killed());
        assert_eq!((ending.outcome, ending.reason), (Outcome::Interrupted, Reason::NodeOutOfMemory));
        assert!(ending.message.starts_with("node n1 had no memory left"), "{}", ending.message);
        let ending = judge(&attempt, None, FIRST, killed());
        assert_eq!(ending.outcome, Outcome::Interrupted, "nobody measured it");
    }

    #[test]
    fn who_used_nearly_all_of_it_or_is_killed_everywhere_is_to_blame() {
        let attempt = attempt(Accounting::Usage);
        let ending = judge(&attempt, Some(&using(&attempt, 95)), FIRST, killed());
        assert_eq!((ending.outcome, ending.reason), (Outcome::Failed, Reason::OOMKilled));
        let before = ["n2".into(), "n3".into()];
        let ending = judge(&attempt, Some(&using(&attempt, 50)), after(&before), killed());
        assert_eq!(ending.outcome, Outcome::Failed);
        assert!(
            ending.message.ends_with("(it was killed 3 times, on nodes n2, n3, n1)"),
            "{}",
            ending.message
        );
        let there_before = ["n1".into(), "n2".into(), "n1".into()];
        assert_eq!(judge(&attempt, None, after(&there_before), killed()).outcome, Outcome::Interrupted);
        let always_there: Vec<Name> = vec!["n1".into(); 4];
        assert_eq!(judge(&attempt, None, after(&always_there), killed()).outcome, Outcome::Failed);
    }

    #[test]
    fn by_requests_only_the_supervised_that_was_measured_can_be_without_blame() {
        let plain = attempt(Accounting::Requests);
        for usage in [None, Some(using(&plain, 50))] {
            assert_eq!(
                judge(&plain, usage.as_ref(), FIRST, killed()),
                killed(),
                "others are killed before it"
            );
        }
        let supervised = Attempt { supervised: true, ..plain };
        assert_eq!(judge(&supervised, None, FIRST, killed()), killed(), "nobody measured it");
        let ending = judge(&supervised, Some(&using(&supervised, 50)), FIRST, killed());
        assert_eq!((ending.outcome, ending.reason), (Outcome::Interrupted, Reason::NodeOutOfMemory));
        let ending = judge(&supervised, Some(&using(&supervised, 95)), FIRST, killed());
        assert_eq!((ending.outcome, ending.reason), (Outcome::Failed, Reason::OOMKilled));
        let gang = Demand { pod_count: 4, ..(*supervised.demand).clone() };
        let gang = Attempt { demand: gang.into(), ..supervised };
        for percent in [50, 200] {
            let ending = judge(&gang, Some(&using(&gang, percent)), FIRST, killed());
            assert_eq!(ending, killed(), "that is the sum of all pods");
        }
    }

    /// An end by SIGKILL that the kubelet does not explain.
    fn ended_by_sigkill() -> Ending {
        Ending::failed(Reason::ContainerFailed, "pod a-1-0 exited with code 137".to_owned())
    }

    #[test]
    fn sigkill_without_a_mark_is_judged_in_the_same_way_except_for_progress() {
        let attempt = attempt(Accounting::Usage);
        let unmarked = |before| Kills { unmarked: true, ..after(before) };
        let judge = |percent, kills| {
            let usage = using(&attempt, percent);
            judge(&attempt, Some(&usage), kills, ended_by_sigkill())
        };
        let ending = judge(50, unmarked(&[]));
        assert_eq!((ending.outcome, ending.reason), (Outcome::Interrupted, Reason::NodeOutOfMemory));
        assert!(ending.message.contains("SIGKILL"), "{}", ending.message);
        let ending = judge(95, unmarked(&[]));
        assert_eq!((ending.outcome, ending.reason), (Outcome::Failed, Reason::ContainerFailed));
        assert!(ending.message.starts_with("pod a-1-0 exited with code 137 (it used "), "{}", ending.message);
        let before = ["n2".into(), "n3".into()];
        let progress = |kills| Kills { made_progress: true, ..kills };
        let ending = judge(50, progress(unmarked(&before)));
        assert_eq!((ending.outcome, ending.reason), (Outcome::Failed, Reason::ContainerFailed));
        assert!(
            ending.message.ends_with("(it was killed 3 times, on nodes n2, n3, n1)"),
            "{}",
            ending.message
        );
        assert_eq!(judge(50, FIRST), ended_by_sigkill(), "another exit code");
    }

    #[test]
    fn a_marked_kill_after_a_stretch_of_run_time_begins_a_new_count() {
        let attempt = attempt(Accounting::Usage);
        let before = ["n2".into(), "n3".into()];
        let kills = Kills { made_progress: true, ..after(&before) };
        assert_eq!(judge(&attempt, None, kills, killed()).outcome, Outcome::Interrupted);
    }

    #[test]
    fn by_requests_sigkill_without_a_mark_is_the_nodes_only_under_the_supervisor() {
        let plain = attempt(Accounting::Requests);
        let kills = Kills { unmarked: true, ..FIRST };
        let ending = judge(&plain, Some(&using(&plain, 50)), kills, ended_by_sigkill());
        assert_eq!(ending, ended_by_sigkill(), "others are killed before it");
        let supervised = Attempt { supervised: true, ..plain };
        let ending = judge(&supervised, Some(&using(&supervised, 50)), kills, ended_by_sigkill());
        assert_eq!(ending.reason, Reason::NodeOutOfMemory, "it is the first to go");
        assert_eq!(judge(&supervised, None, kills, ended_by_sigkill()), ended_by_sigkill());
    }

    #[test]
    fn the_kernels_counters_decide_whatever_was_measured_and_however_often_it_happened() {
        let by = |cause| Kills { cause: Some(cause), ..FIRST };
        for accounting in [Accounting::Usage, Accounting::Requests] {
            let attempt = attempt(accounting);
            let ending = judge(&attempt, Some(&using(&attempt, 50)), by(KillCause::Limit), killed());
            assert_eq!((ending.outcome, ending.reason), (Outcome::Failed, Reason::OOMKilled));
            assert!(ending.message.ends_with("(the kernel's counters say that it reached the limit)"));
            let before: Vec<Name> = vec!["n1".into(); 9];
            let kills = Kills { before: &before, ..by(KillCause::Node) };
            let ending = judge(&attempt, Some(&using(&attempt, 100)), kills, killed());
            assert_eq!((ending.outcome, ending.reason), (Outcome::Interrupted, Reason::NodeOutOfMemory));
            let known = judge(&attempt, None, by(KillCause::Unknown), killed());
            assert_eq!(known, judge(&attempt, None, FIRST, killed()), "as if nobody had said anything");
            // Of another container of the pod.
            let other = Ending::failed(Reason::ContainerFailed, "exit code 1".to_owned());
            assert_eq!(judge(&attempt, None, by(KillCause::Node), other.clone()), other);
        }
    }

    #[test]
    fn of_several_pods_a_limit_counts_first_and_a_node_only_if_it_is_said_of_all() {
        use KillCause::{Limit, Node, Unknown};
        let pods: Vec<Arc<Pod>> = (0..3)
            .map(|index| {
                let ended = Container::Ended {
                    exit_code: SIGKILL,
                    reason: OUT_OF_MEMORY.to_owned(),
                    message: String::new(),
                    time: None,
                    started: true,
                };
                let container = if index == 2 { Container::Running } else { ended };
                Arc::new(Pod { container, ..pod(&format!("a-{index}"), 100).of("uid-of-a", 1) })
            })
            .collect();
        let attempt = attempt(Accounting::Requests);
        for (said, expected) in [
            ([None, None], None),
            ([Some(Node), None], None),
            ([Some(Node), Some(Node)], Some(Node)),
            ([Some(Node), Some(Unknown)], Some(Unknown)),
            ([None, Some(Limit)], Some(Limit)),
            ([Some(Limit), Some(Node)], Some(Limit)),
        ] {
            let killed_by = pods.iter().zip(said).filter_map(|(pod, cause)| Some((pod.uid.clone(), cause?)));
            assert_eq!(cause(&pods, &attempt, &killed_by.collect()), expected, "{said:?}");
        }
        assert_eq!(cause(&pods[2..], &attempt, &BTreeMap::new()), None, "it runs");
        let another = Attempt { number: 2, ..attempt };
        let killed_by = BTreeMap::from([(pods[0].uid.clone(), Limit)]);
        assert_eq!(cause(&pods, &another, &killed_by), None, "of an earlier attempt");
    }
}
