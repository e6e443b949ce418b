//! Namespaces that take no pods that request less than they hold: a LimitRange has a minimum, or a ratio between limits and
//! requests. With accounting Usage a start shows it, and then ScavengerJobs of that namespace are counted by requests, as
//! in a pool with accounting Requests.
//!
//! Nobody says when the LimitRange goes, so after an hour a start tries again. The next leader is told (`RememberedUse`).

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use super::timed::{Rule, Timed};
use crate::values::{Name, later};

/// For how long a namespace is counted by requests after a start was refused.
const TIME: SignedDuration = SignedDuration::from_hours(1);

/// See the module.
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

    /// A start was refused because its pods request less than they hold.
    pub(crate) fn refused(&mut self, namespace: &Name, now: Timestamp) {
        self.0.begin(namespace.clone(), now, |_| String::new());
    }

    /// Namespaces whose time is over.
    pub(crate) fn take_over(&mut self, now: Timestamp) -> BTreeSet<Name> {
        self.0.take_over(now)
    }
}
