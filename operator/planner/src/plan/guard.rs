//! What is done for pending ordinary pods while no operator works: the operator's own choice of node and victims, asked
//! once about a view that was just read, without an operator's memory and without its writes.
//!
//! The same order decides, the expected loss. While nobody tells how far a ScavengerJob has got it follows from age
//! alone: the time since the last promised checkpoint.

use jiff::Timestamp;

use super::Planner;
use crate::{
    causes::{
        pending_pod::Served,
        pool::{Cause, Pool},
    },
    values::{Key, Name, PreemptionMode},
};

/// What helps one pending ordinary pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Help {
    /// There is capacity on this node once these ScavengerJobs are gone, cheapest first; if there are none, once all that
    /// is going anyway is gone.
    Room {
        /// The node.
        node: Name,
        /// Who has to go.
        victims: Vec<Leaving>,
    },
    /// No node would have capacity, even without any of its ScavengerJobs.
    Nothing,
    /// Nothing is interrupted for it, since these of its constraints cannot be judged.
    Unjudged(Vec<Name>),
}

/// A ScavengerJob that has to go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leaving {
    /// The ScavengerJob.
    pub sj: Key,
    /// Namespace and name of its pods, on whatever node, with their UIDs.
    pub pods: Vec<(Key, Name)>,
}

impl Planner {
    /// What helps each ordinary pod that waits for capacity and does not preempt others, those of the highest priority
    /// first. Nobody is named twice. Empty in every mode but [`PreemptionMode::Operator`], and without settings.
    ///
    /// The planner is of no further use: it takes what it says for done.
    #[must_use]
    pub fn relieve(mut self, now: Timestamp) -> Vec<(Key, Help)> {
        if !self.settings.as_ref().is_ok_and(|settings| settings.preemption_mode == PreemptionMode::Operator)
        {
            return Vec::new();
        }
        // What carries this out is no operator: it frees capacity, and leaves all else to the next one.
        let mut ignored = Vec::new();
        // What is promised to pods that are not there yet counts as taken.
        while let Some(key) = self.agenda.next() {
            self.visit(&key, now, &mut ignored);
        }
        let Self { settings: Ok(settings), seen, capacity, promises, occupancy, rounds, causes, .. } =
            &mut self
        else {
            return Vec::new();
        };
        let (ordered, hurried) = (Vec::new(), Vec::new());
        let mut pool = Pool { seen, capacity, promises, occupancy, rounds, settings, now, ordered, hurried };
        causes.pending_pods.order(&mut pool);
        let served = causes.pending_pods.take_served();
        let unjudged: Vec<_> = self.causes.pending_pods.unjudged(&self.capacity).collect();
        let is_judged = |served: &Served| !unjudged.iter().any(|(pod, _)| **pod == served.pod);
        let served = served.into_iter().filter(is_judged);
        let mut helped: Vec<(Key, Help)> =
            served.map(|served| (served.pod.clone(), self.help(served))).collect();
        helped.extend(unjudged.into_iter().map(|(pod, what)| (pod.clone(), Help::Unjudged(what))));
        helped
    }

    fn help(&self, served: Served) -> Help {
        let Some((node, victims)) = served.choice else { return Help::Nothing };
        let victims = victims.into_iter().map(|sj| Leaving { pods: self.pods_of(&sj), sj }).collect();
        Help::Room { node, victims }
    }

    fn pods_of(&self, sj: &Key) -> Vec<(Key, Name)> {
        let pods = self.seen.attachments(sj).into_iter().flat_map(|attachments| attachments.pods.values());
        pods.filter(|pod| pod.is_evictable()).map(|pod| (pod.key.clone(), pod.uid.clone())).collect()
    }
}
