//! What the operator's loop does with the status of the pool: it writes down what tenants used. And labels of namespaces.

use scavenger_planner::values::{Counted, Observation};

use super::{
    cluster::{Cluster, Event},
    seconds,
    watches::Stream,
};

impl Cluster {
    /// Sees to it that what tenants used is written down: once a minute, or soon if a deletion waits for it.
    pub(super) fn follow_shares(&mut self) {
        let Ok(settings) = &self.pool else { return };
        if settings.sharing.is_none() {
            return;
        }
        let is_awaited = self.planner.shares(self.now).is_some_and(|shares| shares.is_awaited);
        if is_awaited && !self.counts_soon {
            self.counts_soon = true;
            self.exactly_after(seconds(5), Event::CountShares);
        } else if !self.counts {
            self.counts = true;
            self.exactly_after(seconds(60), Event::CountShares);
        }
    }

    /// Writes it down.
    pub(super) fn count_shares(&mut self) {
        (self.counts, self.counts_soon) = (false, false);
        let Some(shares) = self.planner.shares(self.now) else { return };
        let used = shares.tenants.into_iter().map(|tenant| (tenant.name, tenant.averages));
        self.shares_written = Some(Counted { until: shares.counted_until, used: used.collect() });
        let counted = self.shares_written.clone().map(Box::new);
        self.emit(Stream::Pool, Observation::Counted(counted));
        self.follow_shares();
    }

    /// Somebody labels a namespace.
    pub fn label_namespace(&mut self, name: &str, labels: &[(&str, &str)]) {
        let labels = labels.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
        self.namespaces.insert(name.into(), labels);
        let labels = self.namespaces[name].clone();
        self.emit(Stream::Pool, Observation::Namespace(name.into(), labels));
    }
}
