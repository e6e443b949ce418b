//! Namespaces that take no pods that request less than they hold: a LimitRange has a minimum, or a ratio between limits and
//! requests. With accounting Usage a start shows it, and then ScavengerJobs of that namespace are counted by requests, as
//! in a pool with accounting Requests.
//!
//! Nobody says when the LimitRange goes, so after an hour a start tries again. The next leader is told (`RememberedUse`).

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use crate::{Planner, time::later, values::Name};

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
}

impl Planner {
    /// Takes over what the planner before this one learned.
    pub(crate) fn recall_by_requests(&mut self, remembered: BTreeMap<Name, Timestamp>, now: Timestamp) {
        // Later than that nobody writes, unless a clock was set back since.
        let latest = later(now, TIME);
        for (namespace, until) in remembered.into_iter().filter(|(_, until)| now < *until && *until <= latest)
        {
            self.by_requests.until.entry(namespace.clone()).or_insert(until);
            let concerned = self.seen.set_by_requests(&namespace, true);
            self.agenda.add_all(concerned.iter());
        }
    }

    /// A start was refused because its pods request less than they hold.
    pub(crate) fn count_by_requests(&mut self, namespace: &Name, now: Timestamp) {
        self.by_requests.until.insert(namespace.clone(), later(now, TIME));
        let concerned = self.seen.set_by_requests(namespace, true);
        self.agenda.add_all(concerned.iter());
    }

    /// Namespaces whose time is over are counted as the pool says.
    pub(crate) fn follow_by_requests(&mut self, now: Timestamp) {
        let over = self.by_requests.until.extract_if(.., |_, until| *until <= now);
        let over: Vec<Name> = over.map(|(namespace, _)| namespace).collect();
        for namespace in over {
            let concerned = self.seen.set_by_requests(&namespace, false);
            self.agenda.add_all(concerned.iter());
        }
    }
}
