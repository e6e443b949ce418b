//! A container that was killed for memory while its capacity was counted by use: did the node have none left, or did the
//! workload outgrow its limit?
//!
//! The Kubernetes API says OOMKilled of both. So what was measured decides: a workload that used nearly all of its limit
//! has outgrown it. Samples are 15 seconds apart, and memory can grow faster. So a workload that is killed on several nodes,
//! or again and again, is to blame, too, unless it made progress in between.

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
    if ending.reason != Reason::OOMKilled || attempt.accounting != Accounting::Usage {
        return ending;
    }
    let limit = attempt.demand.per_pod.memory_bytes;
    let measured = usage.filter(|usage| usage.attempt == attempt.number).map(|usage| usage.memory.peak);
    if let Some(used) = measured.filter(|used| *used >= Share::from_fraction(SHARE).of(limit)) {
        let numbers = format!("it used {} of its {}", Amount(MEMORY, used), Amount(MEMORY, limit));
        return Ending { message: format!("{} ({numbers})", ending.message), ..ending };
    }
    let with_this = with(nodes, attempt.node.as_ref());
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
            attempt.node.as_deref().unwrap_or("of its pod")
        ),
        disruption: None,
    }
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
        values::Figures,
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
    fn by_requests_the_limit_is_the_workloads_own() {
        let attempt = attempt(Accounting::Requests);
        assert_eq!(judge(&attempt, None, &[], killed()), killed());
    }
}
