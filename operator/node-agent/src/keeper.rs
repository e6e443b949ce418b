//! Which pods the operator lists, what was found of them, and what to do. No clock and no I/O.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use scavenger_cgroups::cpu::{Done, Wish};
use scavenger_schema::node_agent::NodePod;

use crate::Problem;

/// The time between two looks for the cgroup of a pod that was bound, which the kubelet has yet to make.
const SOON: Duration = Duration::from_millis(200);

/// After so long it is looked for less often: the pod waits for its volumes.
const SOON_FOR: Duration = Duration::from_secs(60);

/// The time between two looks from then on.
const LATER: Duration = Duration::from_secs(1);

/// Knows the pods of ScavengerJobs on this node.
#[derive(Debug)]
pub struct Keeper {
    /// Between two looks at everything.
    every: Duration,
    /// Before the first answer nothing is changed: idle cgroups may be those of listed pods.
    has_list: bool,
    pods: BTreeMap<String, Known>,
}

#[derive(Debug)]
struct Known {
    /// It was in the last answer. The other pods stay known while they have a cgroup.
    listed: bool,
    idle: bool,
    milli_cpu: u64,
    since: Instant,
    /// Its cgroup needed nothing more at the last look.
    settled: bool,
    /// How often in a row it could not be changed.
    failures: u32,
    problem: Problem,
}

impl Known {
    fn is_awaited(&self) -> bool {
        self.listed && self.idle && !self.settled
    }
}

impl Keeper {
    /// With the time between two looks at everything.
    #[must_use]
    pub fn new(every: Duration) -> Self {
        Self { every, has_list: false, pods: BTreeMap::new() }
    }

    /// Takes in an answer of the operator.
    pub fn list(&mut self, pods: Vec<NodePod>, now: Instant) {
        self.has_list = true;
        for known in self.pods.values_mut() {
            known.listed = false;
        }
        for NodePod { uid, milli_cpu, idle } in pods {
            let known = self.pods.entry(uid).or_insert_with(|| Known {
                listed: true,
                idle,
                milli_cpu,
                since: now,
                settled: false,
                failures: 0,
                problem: Problem::default(),
            });
            if known.idle != idle {
                (known.settled, known.since) = (false, now);
            }
            (known.listed, known.idle, known.milli_cpu) = (true, idle, milli_cpu);
        }
    }

    /// Takes in which pods have a cgroup.
    pub fn found<T>(&mut self, cgroups: &BTreeMap<String, T>) {
        self.pods.retain(|uid, known| {
            let has_cgroup = cgroups.contains_key(uid);
            if !has_cgroup {
                (known.settled, known.failures) = (false, 0);
                known.problem.is(None);
            }
            has_cgroup || known.listed
        });
    }

    /// What becomes of the cgroup of a pod. None before the first answer.
    #[must_use]
    pub fn wish(&self, uid: &str) -> Option<Wish> {
        let wish = match self.pods.get(uid) {
            Some(known) if known.listed && known.idle => Wish::Idle,
            known => Wish::Weight(known.map(|known| known.milli_cpu)),
        };
        self.has_list.then_some(wish)
    }

    /// What becomes of the cgroup of a pod when the agent ends.
    #[must_use]
    pub fn last_wish(&self, uid: &str) -> Wish {
        Wish::Weight(self.pods.get(uid).map(|known| known.milli_cpu))
    }

    /// Takes in the result of a wish. Returns the line to log, if there is one.
    pub fn done(&mut self, uid: &str, result: Result<Done, String>) -> Option<String> {
        let Some(known) = self.pods.get_mut(uid) else {
            return match result {
                Ok(Done::Restored(weight)) => Some(restored(uid, weight)),
                _ => None,
            };
        };
        let done = match result {
            Ok(done) => done,
            Err(problem) => {
                // A cgroup that is removed loses its files before its folder: only what is seen twice is a problem. To look
                // soon again would not help then.
                known.failures = known.failures.saturating_add(1);
                known.settled = known.failures > 1;
                let problem = known.problem.is(Some(problem).filter(|_| known.settled))?;
                return Some(format!("cannot change the cgroup of pod {uid}: {problem}"));
            }
        };
        let had_problem = std::mem::take(&mut known.failures) > 0;
        known.problem.is(None);
        let was_settled = std::mem::replace(&mut known.settled, done != Done::NotYet) && !had_problem;
        match done {
            Done::Same | Done::NotYet => None,
            Done::MadeIdle if was_settled => Some(format!("pod {uid} was no longer idle, and is again")),
            Done::MadeIdle => Some(format!("pod {uid} is idle")),
            Done::Restored(weight) => Some(restored(uid, weight)),
        }
    }

    /// Whether a pod is looked for between two looks at everything.
    #[must_use]
    pub fn awaits(&self, uid: &str) -> bool {
        self.pods.get(uid).is_some_and(Known::is_awaited)
    }

    /// When to look again, after a look at this time.
    #[must_use]
    pub fn next(&self, looked: Instant) -> Instant {
        let awaited = self.pods.values().filter(|known| known.is_awaited()).map(|known| known.since).max();
        let wait = match awaited {
            Some(since) if looked.saturating_duration_since(since) < SOON_FOR => SOON,
            Some(_) => LATER,
            None => self.every,
        };
        looked + wait.min(self.every)
    }

    /// The listed pods whose cgroup could not be changed: all of them if the tree cannot be read.
    #[must_use]
    pub fn failed(&self, tree_is_there: bool) -> Vec<String> {
        let failed = |known: &&Known| known.listed && (known.problem.is_there() || !tree_is_there);
        self.pods.iter().filter(|(_, known)| failed(known)).map(|(uid, _)| uid.clone()).collect()
    }
}

fn restored(uid: &str, weight: u64) -> String {
    format!("pod {uid} has weight {weight} again")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(uid: &str, idle: bool) -> NodePod {
        NodePod { uid: uid.to_owned(), milli_cpu: 200, idle }
    }

    fn cgroups(uids: &[&str]) -> BTreeMap<String, ()> {
        uids.iter().map(|uid| ((*uid).to_owned(), ())).collect()
    }

    const EVERY: Duration = Duration::from_secs(10);

    #[test]
    fn before_the_first_answer_nothing_is_touched() {
        let now = Instant::now();
        let mut keeper = Keeper::new(EVERY);
        keeper.found(&cgroups(&["a", "b"]));
        assert_eq!((keeper.wish("a"), keeper.last_wish("a")), (None, Wish::Weight(None)));
        keeper.list(vec![pod("a", true), pod("c", false)], now);
        assert_eq!(keeper.wish("a"), Some(Wish::Idle));
        assert_eq!(keeper.last_wish("a"), Wish::Weight(Some(200)));
        assert_eq!(keeper.wish("b"), Some(Wish::Weight(None)), "only what has a mark");
        assert_eq!(keeper.wish("c"), Some(Wish::Weight(Some(200))));
    }

    #[test]
    fn a_pod_is_looked_for_until_something_runs_in_it() {
        let now = Instant::now();
        let mut keeper = Keeper::new(EVERY);
        assert_eq!(keeper.next(now), now + EVERY);
        keeper.list(vec![pod("a", true), pod("b", false)], now);
        keeper.found(&cgroups(&[]));
        assert_eq!((keeper.next(now), keeper.awaits("a"), keeper.awaits("b")), (now + SOON, true, false));
        assert_eq!(keeper.done("a", Ok(Done::NotYet)), None);
        assert_eq!(keeper.next(now + SOON_FOR), now + SOON_FOR + LATER);
        assert_eq!(keeper.done("a", Ok(Done::MadeIdle)).unwrap(), "pod a is idle");
        assert_eq!((keeper.next(now), keeper.awaits("a")), (now + EVERY, false));
        // Its cgroup is gone.
        keeper.found(&cgroups(&[]));
        assert!(keeper.awaits("a"));
    }

    #[test]
    fn each_change_is_said_once() {
        let now = Instant::now();
        let mut keeper = Keeper::new(EVERY);
        keeper.list(vec![pod("a", true)], now);
        let refused = || Err("cpu.idle: Permission denied".to_owned());
        assert_eq!(
            (keeper.done("a", refused()), keeper.failed(true)),
            (None, vec![]),
            "it may be on its way out"
        );
        assert!(keeper.awaits("a"));
        let line = keeper.done("a", refused()).unwrap();
        assert_eq!(line, "cannot change the cgroup of pod a: cpu.idle: Permission denied");
        assert_eq!((keeper.done("a", refused()), keeper.failed(true)), (None, vec!["a".to_owned()]));
        assert!(!keeper.awaits("a"), "it would fail five times a second");
        assert_eq!(keeper.done("a", Ok(Done::MadeIdle)).unwrap(), "pod a is idle");
        assert_eq!(keeper.done("a", Ok(Done::Same)), None);
        assert_eq!((keeper.failed(true).len(), keeper.failed(false).len()), (0, 1));
        let line = keeper.done("a", Ok(Done::MadeIdle)).unwrap();
        assert_eq!(line, "pod a was no longer idle, and is again");
        keeper.list(vec![pod("a", false)], now);
        assert_eq!(keeper.done("a", Ok(Done::Restored(8))).unwrap(), "pod a has weight 8 again");
        assert_eq!(
            keeper.done("stranger", Ok(Done::Restored(8))).unwrap(),
            "pod stranger has weight 8 again"
        );
    }

    #[test]
    fn a_pod_that_is_listed_no_more_is_known_while_it_has_a_cgroup() {
        let now = Instant::now();
        let mut keeper = Keeper::new(EVERY);
        keeper.list(vec![pod("a", true)], now);
        keeper.found(&cgroups(&["a"]));
        keeper.done("a", Ok(Done::MadeIdle));
        keeper.list(vec![], now);
        keeper.found(&cgroups(&["a"]));
        assert_eq!(keeper.wish("a"), Some(Wish::Weight(Some(200))));
        keeper.found(&cgroups(&[]));
        assert_eq!(keeper.wish("a"), Some(Wish::Weight(None)));
    }
}
