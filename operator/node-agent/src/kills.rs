//! Why containers on this node were killed for memory, as far as the counters of their pods tell. No clock and no I/O.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use scavenger_cgroups::memory::Counters;
use scavenger_schema::node_agent::Cause;

/// A process that dies so soon after its pod reached a limit died for that. The kernel counts the limit first.
const TOGETHER: Duration = Duration::from_secs(30);

/// For so long it is remembered what killed a pod that is gone. The operator asks within seconds.
const REMEMBERED: Duration = Duration::from_mins(10);

/// So many pods are remembered that are gone.
const MOST: usize = 500;

/// Knows the counters of all pods on this node.
#[derive(Debug, Default)]
pub struct Kills {
    pods: BTreeMap<String, Seen>,
}

#[derive(Debug)]
struct Seen {
    counters: Counters,
    /// When a limit was last seen to be reached.
    limit_reached: Option<Instant>,
    /// Why the last process was killed.
    cause: Option<Cause>,
    /// Since when it has no cgroup.
    gone: Option<Instant>,
}

impl Kills {
    /// Whether the counters of a pod were read.
    #[must_use]
    pub fn knows(&self, uid: &str) -> bool {
        self.pods.contains_key(uid)
    }

    /// Takes in the counters of a pod.
    pub fn see(&mut self, uid: &str, counters: Counters, now: Instant) {
        let first = Seen { counters: Counters::default(), limit_reached: None, cause: None, gone: None };
        let seen = self.pods.entry(uid.to_owned()).or_insert(first);
        if counters.oom > seen.counters.oom {
            seen.limit_reached = Some(now);
        }
        if counters.oom_kill > seen.counters.oom_kill {
            let is_recent = |time| now.saturating_duration_since(time) < TOGETHER;
            let limit = seen.limit_reached.is_some_and(is_recent);
            seen.cause = Some(if limit { Cause::Limit } else { Cause::Node });
        }
        seen.counters = counters;
    }

    /// Takes in which pods have a cgroup.
    pub fn found<T>(&mut self, cgroups: &BTreeMap<String, T>, now: Instant) {
        self.pods.retain(|uid, seen| {
            if cgroups.contains_key(uid) {
                seen.gone = None;
                return true;
            }
            let gone = *seen.gone.get_or_insert(now);
            seen.cause.is_some() && now.saturating_duration_since(gone) < REMEMBERED
        });
        let mut gone: Vec<_> = self.pods.iter().filter_map(|(uid, seen)| Some((seen.gone?, uid))).collect();
        if gone.len() > MOST {
            gone.sort_unstable();
            let oldest: Vec<_> = gone[..gone.len() - MOST].iter().map(|(_, uid)| (*uid).clone()).collect();
            for uid in &oldest {
                self.pods.remove(uid);
            }
        }
    }

    /// Why a process of a pod was killed last.
    #[must_use]
    pub fn cause(&self, uid: &str) -> Cause {
        self.pods.get(uid).and_then(|seen| seen.cause).unwrap_or(Cause::Unknown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counters(oom: u64, oom_kill: u64) -> Counters {
        Counters { oom, oom_kill }
    }

    fn after(start: Instant, seconds: u64) -> Instant {
        start + Duration::from_secs(seconds)
    }

    #[test]
    fn a_kill_is_the_limits_if_that_was_reached_just_before() {
        let (mut kills, start) = (Kills::default(), Instant::now());
        kills.see("a", counters(0, 0), start);
        assert_eq!(kills.cause("a"), Cause::Unknown);
        kills.see("a", counters(0, 1), start);
        assert_eq!(kills.cause("a"), Cause::Node);
        // The kernel counts the limit, and is looked at before it kills. A group is killed as a whole.
        kills.see("a", counters(1, 1), after(start, 60));
        assert_eq!(kills.cause("a"), Cause::Node, "of the kill before");
        kills.see("a", counters(1, 2), after(start, 60));
        assert_eq!(kills.cause("a"), Cause::Limit);
        kills.see("a", counters(1, 4), after(start, 61));
        assert_eq!(kills.cause("a"), Cause::Limit);
        // An hour later it is the node.
        kills.see("a", counters(1, 4), after(start, 3600));
        kills.see("a", counters(1, 5), after(start, 3610));
        assert_eq!(kills.cause("a"), Cause::Node);
        // Both between two looks.
        kills.see("a", counters(2, 6), after(start, 7200));
        assert_eq!(kills.cause("a"), Cause::Limit);
    }

    #[test]
    fn an_agent_that_starts_late_has_the_sum_to_go_by() {
        let (mut kills, now) = (Kills::default(), Instant::now());
        for (uid, oom, oom_kill, expected) in
            [("node", 0, 2, Cause::Node), ("limit", 3, 2, Cause::Limit), ("alive", 1, 0, Cause::Unknown)]
        {
            kills.see(uid, counters(oom, oom_kill), now);
            assert_eq!(kills.cause(uid), expected, "{uid}");
        }
        assert_eq!(kills.cause("never seen"), Cause::Unknown);
    }

    #[test]
    fn what_killed_a_pod_is_known_for_a_while_after_it_is_gone() {
        let (mut kills, start) = (Kills::default(), Instant::now());
        for number in 0..2 * MOST {
            kills.see(&format!("killed-{number:04}"), counters(0, 1), start);
        }
        kills.see("ended", counters(0, 0), start);
        kills.see("stays", counters(1, 1), start);
        let left = BTreeMap::from([("stays".to_owned(), ())]);
        let all: BTreeMap<_, _> = kills.pods.keys().map(|uid| (uid.clone(), ())).collect();
        kills.found(&all, start);
        assert_eq!(kills.pods.len(), 2 * MOST + 2, "those that are there cost what the node allows");
        kills.found(&left, after(start, 1));
        assert_eq!(kills.pods.len(), MOST + 1);
        assert!(!kills.knows("ended") && kills.knows("stays"));
        let last = format!("killed-{:04}", 2 * MOST - 1);
        assert_eq!(kills.cause(&last), Cause::Node);
        kills.found(&left, after(start, 600));
        assert_eq!(kills.cause(&last), Cause::Node);
        kills.found(&left, after(start, 601));
        assert_eq!((kills.cause(&last), kills.cause("stays")), (Cause::Unknown, Cause::Limit));
    }
}
