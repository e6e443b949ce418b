//! Kills for memory about which the agents of nodes are asked. Nothing is believed about any other.
//!
//! A kill is one that the pod's own status shows, on the node to which it is bound. The agent of that node is asked for as long
//! as the planner waits for the answer, and each question is answered once.

use std::collections::{BTreeSet, HashMap};

use jiff::Timestamp;
use scavenger_planner::values::{Key, KillCause, KillReport, Name, Pod};
use scavenger_schema::node_agent::{self, Cause, KilledPod};

/// So many pods of a node are asked about at the same time.
pub(super) const MOST_OF_NODE: usize = 50;

/// So many kills are known, of all nodes. Agents are not asked about more.
const MOST: usize = 10_000;

/// The newest kill of each pod, as long as it is recent.
#[derive(Debug, Default)]
pub(super) struct Kills {
    all: HashMap<Key, Kill>,
    /// The pods about which the agent of each node is asked.
    open: HashMap<Name, BTreeSet<Key>>,
}

#[derive(Debug)]
struct Kill {
    node: Name,
    uid: Name,
    time: Timestamp,
    seen: Timestamp,
}

impl Kills {
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Takes in a version of a pod, and returns its node if its agent is to be asked something now.
    pub(super) fn see(&mut self, pod: &Pod, now: Timestamp) -> Option<Name> {
        let time = pod.out_of_memory?;
        let node = pod.node.as_ref()?;
        let known = self.all.get(&pod.key);
        // An end that is shown again is no other kill, and what happened long before this view nobody asks about.
        if !KillReport::is_recent(time, now)
            || known.is_some_and(|kill| kill.uid == pod.uid && kill.time == time)
            || known.is_none() && self.all.len() >= MOST
        {
            return None;
        }
        self.forget(&pod.key);
        let kill = Kill { node: node.clone(), uid: pod.uid.clone(), time, seen: now };
        self.all.insert(pod.key.clone(), kill);
        let open = self.open.entry(node.clone()).or_default();
        (open.len() < MOST_OF_NODE && open.insert(pod.key.clone())).then(|| node.clone())
    }

    /// A pod is gone. Returns its node if its agent was asked about it.
    pub(super) fn forget(&mut self, pod: &Key) -> Option<Name> {
        let kill = self.all.remove(pod)?;
        self.close(&kill.node, pod).then_some(kill.node)
    }

    /// Gives up what was not answered in time, and returns the nodes where something was.
    pub(super) fn give_up(&mut self, now: Timestamp) -> BTreeSet<Name> {
        let late = |kill: &Kill| now.duration_since(kill.seen) > KillCause::ANSWERED_WITHIN;
        let late: Vec<_> =
            self.open.values().flatten().filter(|pod| self.all.get(*pod).is_none_or(late)).cloned().collect();
        let mut nodes = BTreeSet::new();
        for pod in &late {
            if let Some(node) = self.all.get(pod).map(|kill| kill.node.clone()) {
                self.close(&node, pod);
                nodes.insert(node);
            }
        }
        self.all.retain(|_, kill| KillReport::is_recent(kill.time, now));
        nodes
    }

    /// What the agent of a node is asked.
    pub(super) fn questions(&self, node: &str) -> Vec<KilledPod> {
        let open = self.open.get(node).into_iter().flatten().filter_map(|pod| self.all.get(pod));
        let mut questions: Vec<_> =
            open.map(|kill| KilledPod { uid: kill.uid.to_string(), time: kill.time }).collect();
        questions.sort_unstable();
        questions
    }

    /// Takes an answer of the agent of a node. None if that was not asked.
    pub(super) fn answered(&mut self, node: &str, said: &node_agent::KillReport) -> Option<KillReport> {
        let (node, pods) = self.open.get_key_value(node)?;
        let is_meant = |kill: &Kill| *kill.uid == *said.uid && kill.time == said.time;
        let pod = pods.iter().find(|pod| self.all.get(*pod).is_some_and(is_meant))?;
        let (node, pod) = (node.clone(), pod.clone());
        self.close(&node, &pod);
        let cause = match said.cause {
            Cause::Limit => KillCause::Limit,
            Cause::Node => KillCause::Node,
            Cause::Unknown => KillCause::Unknown,
        };
        let uid = self.all.get(&pod)?.uid.clone();
        Some(KillReport { pod, uid, time: said.time, cause })
    }

    fn close(&mut self, node: &Name, pod: &Key) -> bool {
        let Some(open) = self.open.get_mut(node) else { return false };
        let was_open = open.remove(pod);
        if open.is_empty() {
            self.open.remove(node);
        }
        was_open
    }
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;
    use scavenger_planner::fixtures::{at, pod};

    use super::*;

    fn killed(name: &str, node: &str, second: i64) -> Pod {
        Pod { out_of_memory: Some(at(second)), ..pod(name, 100).on(node) }
    }

    fn answer(pod: &Pod) -> node_agent::KillReport {
        let (uid, time) = (pod.uid.to_string(), pod.out_of_memory.unwrap());
        node_agent::KillReport { uid, time, cause: Cause::Node }
    }

    #[test]
    fn each_kill_is_asked_about_once_and_on_its_node_alone() {
        let (mut kills, web) = (Kills::default(), killed("web", "n1", 1000));
        assert_eq!(kills.see(&pod("api", 100).on("n1"), at(1001)), None, "nothing was killed");
        assert_eq!(kills.answered("n1", &answer(&web)), None, "it was not seen");
        assert_eq!(kills.see(&web, at(1001)), Some("n1".into()));
        assert_eq!(kills.see(&web, at(1002)), None, "it is shown again");
        assert_eq!(kills.questions("n1").len(), 1);
        assert!(kills.questions("n2").is_empty());
        for (node, wrong) in [
            ("n2", answer(&web)),
            ("n1", answer(&Pod { uid: "another".into(), ..web.clone() })),
            ("n1", answer(&killed("web", "n1", 999))),
        ] {
            assert_eq!(kills.answered(node, &wrong), None, "{node} {wrong:?}");
        }
        let report = kills.answered("n1", &answer(&web)).unwrap();
        assert_eq!(
            (report.pod, report.uid, report.cause),
            (web.key.clone(), web.uid.clone(), KillCause::Node)
        );
        assert_eq!(kills.answered("n1", &answer(&web)), None, "once");
        assert!(kills.questions("n1").is_empty());
        assert_eq!(kills.see(&web, at(1003)), None, "it is answered");
        assert_eq!(kills.see(&killed("web", "n1", 1010), at(1011)), Some("n1".into()), "another kill");
    }

    #[test]
    fn what_is_old_or_gone_or_not_answered_in_time_is_not_asked_about() {
        let (mut kills, web) = (Kills::default(), killed("web", "n1", 1000));
        assert_eq!(kills.see(&web, at(1301)), None, "this operator has just begun to look");
        assert_eq!(kills.see(&web, at(1001)), Some("n1".into()));
        assert!(kills.give_up(at(1016)).is_empty());
        assert_eq!(kills.give_up(at(1017)), BTreeSet::from(["n1".into()]));
        assert!(kills.questions("n1").is_empty() && kills.give_up(at(1018)).is_empty());
        assert_eq!(kills.answered("n1", &answer(&web)), None);
        assert_eq!(kills.see(&web, at(1019)), None);
        let api = killed("api", "n1", 1020);
        assert_eq!(kills.see(&api, at(1021)), Some("n1".into()));
        assert_eq!(kills.forget(&api.key), Some("n1".into()));
        assert_eq!((kills.forget(&api.key), kills.answered("n1", &answer(&api))), (None, None));
        kills.give_up(at(1301));
        assert!(kills.all.is_empty() && kills.open.is_empty());
    }

    #[test]
    fn however_many_are_killed_few_are_asked_about() {
        let mut kills = Kills::default();
        for number in 0..MOST + 100 {
            kills.see(&killed(&format!("web-{number}"), &format!("n{}", number % 10), 1000), at(1001));
        }
        assert_eq!((kills.all.len(), kills.questions("n1").len()), (MOST, MOST_OF_NODE));
        kills.give_up(at(1001) + SignedDuration::from_mins(5));
        assert!(kills.all.is_empty() && kills.open.is_empty());
    }
}
