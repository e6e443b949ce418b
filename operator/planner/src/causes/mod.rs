//! Who must go: the causes for which ScavengerJobs are interrupted, one file each, in order of urgency.
//!
//! Each cause keeps what it alone has to know, and orders the interruption of those that lose least ([`least_loss`]). An
//! order is all that it gives: how an attempt is interrupted is the same for every cause ([`crate::lifecycle::interruption`]).
//! A cause for which nobody waits orders in rounds ([`rounds`]), so that a mistake does not cost everything at once.

pub mod drain;
pub mod headroom;
pub mod least_loss;
pub mod left_pool;

pub mod node_pressure;
pub mod pending_pod;
pub mod pending_resize;
pub(crate) mod pool;
pub(crate) mod rounds;
pub mod short_nodes;
pub(crate) mod starved;

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::values::{Name, earlier};
use drain::Drain;
use headroom::KeepHeadroom;
use left_pool::LeftPool;
use node_pressure::NodePressure;
use pending_pod::PendingPods;
use pending_resize::PendingResizes;
use pool::{Cause, Needs, Pool};
use short_nodes::ShortNodes;
use starved::Starved;

#[derive(Debug, Default)]
pub(crate) struct Causes {
    drain: Drain,
    pub(crate) node_pressure: NodePressure,
    pub(crate) short_nodes: ShortNodes,
    pub(crate) pending_pods: PendingPods,
    pub(crate) pending_resizes: PendingResizes,
    headroom: KeepHeadroom,
    pub(crate) left_pool: LeftPool,
    starved: Starved,
}

impl Causes {
    /// In order of urgency. An ordinary pod that waits, or is to grow, comes before headroom: what is freed for it may make
    /// the headroom, too. A node that left the pool comes late, since
    /// nobody waits for it, and a ScavengerJob that would be better off elsewhere last.
    pub(crate) fn by_urgency(&mut self) -> [&mut dyn Cause; 8] {
        [
            &mut self.drain,
            &mut self.node_pressure,
            &mut self.short_nodes,
            &mut self.pending_pods,
            &mut self.pending_resizes,
            &mut self.headroom,
            &mut self.left_pool,
            &mut self.starved,
        ]
    }

    /// Orders the interruption of all who must go. Returns when to look again although nothing is seen until then.
    pub(crate) fn order(&mut self, pool: &mut Pool<'_>) -> Option<Timestamp> {
        let mut relies_on: BTreeMap<Name, Needs> = BTreeMap::new();
        let mut wake_at = None;
        for cause in self.by_urgency() {
            if !cause.is_idle(pool) {
                cause.order(pool);
            }
            for (node, needs) in cause.relies_on() {
                let most = relies_on.entry(node.clone()).or_insert(needs);
                *most = needs.max(*most);
            }
            wake_at = earlier(wake_at, cause.wake_at());
        }
        pool.hurry(&relies_on);
        earlier(earlier(wake_at, pool.next_round()), pool.last_release(&relies_on))
    }
}
