//! Namespaces that take no pods that request less than they hold: a LimitRange has a minimum, or a ratio between limits and
//! requests. With accounting Usage a start shows it, and then ScavengerJobs of that namespace are counted by requests, as
//! in a pool with accounting Requests.
//!
//! Nobody says when the LimitRange goes, so after an hour a start tries again. The next leader is told (`RememberedUse`).

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use crate::values::{Name, time::later};

/// For how long a namespace is counted by requests after a start was refused.
const TIME: SignedDuration = SignedDuration::from_hours(1);

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct ByRequests {
    /// When each namespace is tried again.
    until: BTreeMap<Name, Timestamp>,
}

impl ByRequests {
    /// Namespaces, and when each of them is tried again.
    pub(crate) fn remember(&self) -> BTreeMap<Name, Timestamp> {
        self.until.clone()
    }

    /// Takes over what the planner before this one learned, and returns the namespaces that are counted by requests for it.
    pub(crate) fn recall(&mut self, remembered: BTreeMap<Name, Timestamp>, now: Timestamp) -> Vec<Name> {
        // Later than that nobody writes, unless a clock was set back since.
        let latest = later(now, TIME);
        let holds = remembered.into_iter().filter(|(_, until)| now < *until && *until <= latest);
        let namespaces = holds.map(|(namespace, until)| {
            self.until.entry(namespace.clone()).or_insert(until);
            namespace
        });
        namespaces.collect()
    }

    /// A start was refused because its pods request less than they hold.
    pub(crate) fn refused(&mut self, namespace: &Name, now: Timestamp) {
        self.until.insert(namespace.clone(), later(now, TIME));
    }

    /// Namespaces whose time is over.
    pub(crate) fn take_over(&mut self, now: Timestamp) -> Vec<Name> {
        let over = self.until.extract_if(.., |_, until| *until <= now);
        over.map(|(namespace, _)| namespace).collect()
    }
}
