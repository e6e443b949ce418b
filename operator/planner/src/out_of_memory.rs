//! A container that was killed for memory: did the node have none left, or did the workload outgrow its limit?
//!
//! The Kubernetes API says OOMKilled of both. So what was measured decides: a workload that used nearly all of its limit
//! has outgrown it. Samples are 15 seconds apart, and memory can grow faster. So a workload that is killed on several nodes,
//! or again and again, is to blame, too, unless it made progress in between.
//!
//! Whose capacity is counted by requests is Guaranteed, and the kernel kills others first, unless the supervisor raised the
//! workload's score: then it is the first to go. But nobody overcommits such a node on purpose. So if its use was not
//! measured, the workload's own limit is the likelier cause.

use std::collections::BTreeSet;

use crate::{
    next::Ending,
    resources::{Amount, MEMORY, Share},
    values::{Accounting, Attempt, AttemptUsage, Name, Outcome, Reason},
};

/// Who used this share of the limit has outgrown it.
const SHARE: f64 = 0.9;

/// On so many different nodes a workload is killed before it is to blame.
const NODES: usize = 3;

/// So often it is killed, wherever that is, before it is to blame.
const KILLS: usize = 5;

/// What the end of an attempt is that was killed for memory. `nodes` are those on which earlier ones were.
#[must_use]
pub(crate) fn judge(
    attempt: &Attempt,
    usage: Option<&AttemptUsage>,
    nodes: &[Name],
    ending: Ending,
) -> Ending {
    // Of a gang only the sum of all pods is known, which says nothing about the one that was killed.
    let is_of_the_pod =
        |usage: &&AttemptUsage| usage.attempt == attempt.number && attempt.demand.pod_count == 1;
    let measured = usage.filter(is_of_the_pod).map(|usage| usage.memory.peak);
    let may_be_the_nodes = match attempt.accounting {
        Accounting::Usage => true,
        Accounting::Requests => attempt.supervised && measured.is_some(),
    };
    if ending.reason != Reason::OOMKilled || !may_be_the_nodes {
        return ending;
    }
    let limit = attempt.demand.per_pod.memory_bytes;
    if let Some(used) = measured.filter(|used| *used >= Share::from_fraction(SHARE).of(limit)) {
        let numbers = format!("it used {} of its {}", Amount(MEMORY, used), Amount(MEMORY, limit));
        return Ending { message: format!("{} ({numbers})", ending.message), ..ending };
    }
    let node = node(attempt);
    let with_this = with(nodes, node);
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
    Ending {
        outcome: Outcome::Interrupted,
        reason: Reason::NodeOutOfMemory,
        message: format!(
            "node {} had no memory left: the container was killed, and {used}",
            node.map_or("of its pod", |name| name)
        ),
        disruption: None,
    }
}

/// Where an attempt ran; of a gang that ran on several nodes, one of them.
#[must_use]
pub(crate) fn node(attempt: &Attempt) -> Option<&Name> {
    attempt.node.as_ref().or_else(|| attempt.nodes.first().map(|node| &node.name))
}

/// The nodes on which it was killed, one for each time, with one more.
#[must_use]
pub(crate) fn with(nodes: &[Name], node: Option<&Name>) -> Vec<Name> {
    nodes.iter().chain(node).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        fixtures::{at, sj},
        values::{Demand, Figures},
    };

    fn attempt(accounting: Accounting) -> Attempt {
        let demand = sj("a").asking(1000).spec.unwrap().demand;
        Attempt { accounting, node: Some("n1".into()), ..Attempt::first(demand, at(0)) }
    }

    fn killed() -> Ending {
        Ending::failed(Reason::OOMKilled, "pod a-1-0 was killed".to_owned())
    }

    fn using(attempt: &Attempt, percent: i64) -> AttemptUsage {
        let peak = attempt.demand.per_pod.memory_bytes / 100 * percent;
        AttemptUsage { attempt: 1, memory: Figures { mean: peak, peak }, ..AttemptUsage::default() }
    }

    #[test]
    fn who_used_far_less_than_its_limit_was_killed_by_the_node() {
        let attempt = attempt(Accounting::Usage);
        let ending = judge(&attempt, Some(&using(&attempt, 50)), &[], killed());
        assert_eq!((ending.outcome, ending.reason), (Outcome::Interrupted, Reason::NodeOutOfMemory));
        assert!(ending.message.starts_with("node n1 had no memory left"), "{}", ending.message);
        let ending = judge(&attempt, None, &[], killed());
        assert_eq!(ending.outcome, Outcome::Interrupted, "nobody measured it");
    }

    #[test]
    fn who_used_nearly_all_of_it_or_is_killed_everywhere_is_to_blame() {
        let attempt = attempt(Accounting::Usage);
        let ending = judge(&attempt, Some(&using(&attempt, 95)), &[], killed());
        assert_eq!((ending.outcome, ending.reason), (Outcome::Failed, Reason::OOMKilled));
        let before = ["n2".into(), "n3".into()];
        let ending = judge(&attempt, Some(&using(&attempt, 50)), &before, killed());
        assert_eq!(ending.outcome, Outcome::Failed);
        assert!(
            ending.message.ends_with("(it was killed 3 times, on nodes n2, n3, n1)"),
            "{}",
            ending.message
        );
        let there_before = ["n1".into(), "n2".into(), "n1".into()];
        assert_eq!(judge(&attempt, None, &there_before, killed()).outcome, Outcome::Interrupted);
        let always_there: Vec<Name> = vec!["n1".into(); 4];
        assert_eq!(judge(&attempt, None, &always_there, killed()).outcome, Outcome::Failed);
    }

    #[test]
    fn by_requests_only_the_supervised_that_was_measured_can_be_without_blame() {
        let plain = attempt(Accounting::Requests);
        for usage in [None, Some(using(&plain, 50))] {
            assert_eq!(judge(&plain, usage.as_ref(), &[], killed()), killed(), "others are killed before it");
        }
        let supervised = Attempt { supervised: true, ..plain };
        assert_eq!(judge(&supervised, None, &[], killed()), killed(), "nobody measured it");
        let ending = judge(&supervised, Some(&using(&supervised, 50)), &[], killed());
        assert_eq!((ending.outcome, ending.reason), (Outcome::Interrupted, Reason::NodeOutOfMemory));
        let ending = judge(&supervised, Some(&using(&supervised, 95)), &[], killed());
        assert_eq!((ending.outcome, ending.reason), (Outcome::Failed, Reason::OOMKilled));
        let gang = Demand { pod_count: 4, ..(*supervised.demand).clone() };
        let gang = Attempt { demand: gang.into(), ..supervised };
        for percent in [50, 200] {
            let ending = judge(&gang, Some(&using(&gang, percent)), &[], killed());
            assert_eq!(ending, killed(), "that is the sum of all pods");
        }
    }
}
