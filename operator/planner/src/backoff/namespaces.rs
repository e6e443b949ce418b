//! What is known of namespaces for a while. All of it is memory: a planner that is started again finds out again.
//!
//! - The supervisor could not be started there. Starts in the namespace go without it for a while, since image pull secrets belong
//!   to namespaces. Every now and then one of them goes with it, and if it runs, all do again.
//! - They take no pods that request less than they hold: a LimitRange has a minimum, or a ratio between limits and requests. With
//!   accounting Usage a start shows it, and then ScavengerJobs of that namespace are counted by requests, as in a pool with
//!   accounting Requests. Nobody says when the LimitRange goes, so after an hour a start tries again. The next leader is told
//!   (`RememberedUse`).

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use super::timed::{Rule, Timed};
use crate::{
    faults::supervisor::not_started,
    values::{Container, Name, Pod, Supervisor, later},
};

/// How long starts in a namespace go without the supervisor after one could not be made with it; twice as long each time.
const FIRST: SignedDuration = SignedDuration::from_mins(10);

/// The longest time.
const LONGEST: SignedDuration = SignedDuration::from_hours(6);

/// How often one start tries meanwhile whether it goes with it again.
const PROBE: SignedDuration = SignedDuration::from_mins(5);

/// Why starts in a namespace go without the supervisor.
#[derive(Debug)]
struct Without {
    message: String,
    /// When the next start goes with it.
    probe_at: Timestamp,
}

/// Where the supervisor could not be started.
#[derive(Debug)]
pub(crate) struct Supervisors {
    pauses: Timed<Name, Without>,
    /// Image and secrets that this is about.
    of: Option<Supervisor>,
}

impl Default for Supervisors {
    fn default() -> Self {
        let rule = Rule { first: FIRST, longest: LONGEST, forgotten_after: None };
        Self { pauses: Timed::new(rule), of: None }
    }
}

impl Supervisors {
    /// The pool names this one. What is known of another is forgotten.
    pub(crate) fn set(&mut self, supervisor: Option<&Supervisor>) {
        if self.of.as_ref() != supervisor {
            self.of = supervisor.cloned();
            self.pauses.clear();
        }
    }

    /// Takes in a pod of an active attempt. True if its supervisor could not be started.
    pub(crate) fn see(&mut self, pod: &Pod, now: Timestamp) -> bool {
        let Some(why) = not_started(pod) else {
            let is_there = matches!(pod.supervisor.as_deref(), Some(Container::Ended { exit_code: 0, .. }));
            // One that runs since before the last failure says nothing.
            let is_news =
                |namespace| self.pauses.get(namespace).is_some_and(|pause| pod.creation_time > pause.since);
            if is_there && pod.container == Container::Running && is_news(&pod.key.namespace) {
                self.pauses.end(&pod.key.namespace);
            }
            return false;
        };
        // A script of the user that may not be executed looks the same. That is one ScavengerJob's own matter: its next
        // attempt goes without, and nobody else's.
        if !matches!(pod.container, Container::Ended { exit_code: 126, started: true, .. }) {
            self.failed(pod, &why, now);
        }
        true
    }

    /// The supervisor of a pod could not be started, for this reason.
    pub(crate) fn failed(&mut self, pod: &Pod, why: &str, now: Timestamp) {
        let namespace = &pod.key.namespace;
        // Others that were started at the same time, and those that probe, say the same.
        if self.pauses.get(namespace).is_none_or(|before| before.until <= now) {
            self.pauses.begin(namespace.clone(), now, |until| {
                let until = Timestamp::from_second(until.as_second()).unwrap_or(until);
                let message = format!(
                    "ScavengerJobs in namespace {namespace:?} start without the supervisor until {until}: {why} (pod {})",
                    pod.key.name
                );
                Without { message, probe_at: later(now, PROBE) }
            });
        }
    }

    /// Why the next start in a namespace goes without it.
    pub(crate) fn why_without(&self, namespace: &Name, now: Timestamp) -> Option<&str> {
        let pause = self.pauses.get(namespace)?;
        (now < pause.until.min(pause.why.probe_at)).then_some(&pause.why.message)
    }

    /// A start in a namespace goes with it. If others go without, it was their turn to probe.
    pub(crate) fn starts_with(&mut self, namespace: &Name, now: Timestamp) {
        if let Some(pause) = self.pauses.last_mut(namespace) {
            pause.why.probe_at = later(now, PROBE);
        }
    }

    /// Why starts go without it, one message for each namespace where it could not be started last time.
    pub(crate) fn all(&self) -> impl Iterator<Item = &str> {
        self.pauses.iter().map(|(_, pause)| pause.why.message.as_str())
    }
}

/// For how long a namespace is counted by requests after a start was refused.
const TIME: SignedDuration = SignedDuration::from_hours(1);

/// Namespaces whose ScavengerJobs are counted by requests for a while.
#[derive(Debug)]
pub(crate) struct ByRequests(Timed<Name>);

impl Default for ByRequests {
    fn default() -> Self {
        Self(Timed::new(Rule::always(TIME)))
    }
}

impl ByRequests {
    /// Namespaces, and when each of them is tried again.
    pub(crate) fn remember(&self) -> BTreeMap<Name, Timestamp> {
        self.0.iter().map(|(namespace, pause)| (namespace.clone(), pause.until)).collect()
    }

    /// Takes over what the planner before this one learned, and returns the namespaces that are counted by requests for it.
    pub(crate) fn recall(&mut self, remembered: BTreeMap<Name, Timestamp>, now: Timestamp) -> Vec<Name> {
        // Later than that nobody writes, unless a clock was set back since.
        let latest = later(now, TIME);
        let holds = remembered.into_iter().filter(|(_, until)| now < *until && *until <= latest);
        let namespaces = holds.map(|(namespace, until)| {
            self.0.recall(namespace.clone(), until, String::new(), now);
            namespace
        });
        namespaces.collect()
    }

    /// A start was refused because its pods request less than they pause.
    pub(crate) fn refused(&mut self, namespace: &Name, now: Timestamp) {
        self.0.begin(namespace.clone(), now, |_| String::new());
    }

    pub(crate) fn take_over(&mut self, now: Timestamp) -> BTreeSet<Name> {
        self.0.take_over(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{at, ended, key, seconds, supervised};

    #[test]
    fn a_namespace_goes_without_for_longer_each_time_until_one_starts_with_it() {
        let mut supervisors = Supervisors::default();
        let mut failed = supervised("a-1-0");
        failed.supervisor = Some(Box::new(ended(1, "x", true)));
        assert!(supervisors.see(&failed, at(0)));
        let lab = key("a").namespace;
        assert!(supervisors.why_without(&lab, at(299)).is_some());
        assert_eq!(supervisors.why_without(&lab, at(300)), None, "one probes");
        supervisors.starts_with(&lab, at(300));
        assert!(supervisors.why_without(&lab, at(599)).is_some_and(|message| message.contains("a-1-0")));
        assert_eq!(supervisors.why_without(&lab, at(600)), None);
        assert_eq!(supervisors.why_without(&"other".into(), at(0)), None);
        let mut own = supervised("b-1-0");
        own.key.namespace = "other".into();
        (own.started, own.container) = (Some(at(0)), ended(126, "", true));
        assert!(supervisors.see(&own, at(1)));
        assert_eq!(supervisors.why_without(&"other".into(), at(1)), None, "its neighbours are not concerned");
        assert!(supervisors.see(&failed, at(700)));
        supervisors.starts_with(&lab, at(1800));
        assert!(supervisors.why_without(&lab, at(700 + 1199)).is_some(), "twice as long");
        let mut runs = supervised("b-1-0").running();
        runs.supervisor = Some(Box::new(ended(0, "", true)));
        assert!(!supervisors.see(&runs, at(800)));
        assert!(supervisors.why_without(&lab, at(800)).is_some(), "it was made before");
        runs.creation_time = at(700) + seconds(1);
        assert!(!supervisors.see(&runs, at(800)));
        assert_eq!((supervisors.why_without(&lab, at(800)), supervisors.all().count()), (None, 0));
    }
}
