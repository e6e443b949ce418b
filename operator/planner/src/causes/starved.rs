//! A starved ScavengerJob: it holds capacity of its node by requests, and ordinary pods there need so much processor time that
//! it gets next to none. That harms nobody else, so it may stay; but for an hour it has not got on, and another node would
//! take it.
//!
//! What its supervisor reports decides that, and a report may be forged: so nobody else is kept off the node, and
//! the interruption advances nobody in the queue. They go one at a time: what one takes elsewhere is seen before the next is judged.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};

use super::pool::{Cause, Pool};
use crate::values::{Key, Name, Reason, earlier, later};

/// So long it may get next to nothing.
pub(crate) const PATIENCE: SignedDuration = SignedDuration::from_hours(1);

/// How often it is judged from then on, and after one went.
const AGAIN: SignedDuration = SignedDuration::from_mins(1);

/// ScavengerJobs that another node would serve better.
#[derive(Debug, Default)]
pub(crate) struct Starved {
    /// No look before this.
    not_before: Option<Timestamp>,
    wake_at: Option<Timestamp>,
}

impl Cause for Starved {
    fn is_idle(&mut self, pool: &Pool<'_>) -> bool {
        if pool.seen.starved().is_empty() {
            *self = Self::default();
            return true;
        }
        self.not_before.is_some_and(|time| pool.now < time)
    }

    fn order(&mut self, pool: &mut Pool<'_>) {
        self.wake_at = None;
        let mut losers = Vec::new();
        for key in pool.seen.starved() {
            let Some((loss, since)) = pool.loss_of(key).zip(since(pool, key)) else { continue };
            if later(since, PATIENCE) > pool.now {
                self.wake_at = earlier(self.wake_at, Some(later(since, PATIENCE)));
            } else {
                losers.push((loss, key.clone()));
            }
        }
        if losers.is_empty() {
            return;
        }
        losers.sort();
        let found = losers.into_iter().find_map(|(_, key)| Some((leaves(pool, &key)?, key)));
        if let Some((nodes, key)) = found {
            let on = nodes.iter().map(|node| &**node).collect::<Vec<_>>().join(", ");
            let message =
                format!("it got next to no processor time on {on} for an hour, and another node can take it");
            pool.order(&key, Reason::Starved, message);
            pool.seen.avoid(&key, nodes.into_iter().collect(), pool.now);
        }
        let again = later(pool.now, AGAIN);
        self.not_before = Some(again);
        self.wake_at = earlier(self.wake_at, Some(again));
    }

    fn wake_at(&self) -> Option<Timestamp> {
        self.wake_at
    }
}

fn since(pool: &Pool<'_>, key: &Key) -> Option<Timestamp> {
    pool.seen.get(key)?.sj().status.starved_since
}

/// The nodes on which it is starved, if it would fit without them.
fn leaves(pool: &Pool<'_>, key: &Key) -> Option<BTreeSet<Name>> {
    let (tracked, attachments) = pool.seen.get(key).zip(pool.seen.attachments(key))?;
    let pods = tracked.starved_pods().filter_map(|name| attachments.pods.get(name));
    let nodes: BTreeSet<Name> = pods.filter_map(|pod| pod.node.clone()).collect();
    let demand = pool.demand_of(key)?;
    let fits = pool.capacity.nodes_without(&demand, pool.promises.ledger(), &nodes).is_ok();
    (fits && !nodes.is_empty()).then_some(nodes)
}
