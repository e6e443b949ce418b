//! What starts and fails together, since nodes need the same for it, and on which nodes it did so last.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use crate::values::{Name, ScavengerJob};

/// For how long other failures count, which take minutes each, and the starts that they are compared with.
pub(super) const RECENT: SignedDuration = SignedDuration::from_mins(60);

/// More than so many kinds of starts are not kept without a look at which of them are old.
const MANY: usize = 1000;

/// What a node must get hold of so that it can create the containers of a pod. What needs the same starts, or fails,
/// together.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Needs {
    namespace: Name,
    /// Which image, and how it is pulled; none for that of the supervisor.
    image: Option<u64>,
    claims: Vec<Name>,
}

impl Needs {
    /// Those of a ScavengerJob.
    pub(crate) fn of(sj: &ScavengerJob) -> Option<Self> {
        let spec = sj.spec.as_ref().ok()?;
        let namespace = sj.key.namespace.clone();
        Some(Self { namespace, image: Some(spec.image_hash), claims: spec.claims.clone() })
    }

    /// True unless they are those of the supervisor.
    pub(super) fn is_of_workload(&self) -> bool {
        self.image.is_some()
    }

    /// Those of the supervisor in pods of a namespace.
    pub(crate) fn of_supervisor(namespace: &Name) -> Self {
        Self { namespace: namespace.clone(), image: None, claims: Vec::new() }
    }
}

/// On which nodes something happened last, by what is needed for it: the newest time on each of two nodes.
#[derive(Debug, Default)]
pub(super) struct Latest {
    by_needs: BTreeMap<Needs, Vec<(Name, Timestamp)>>,
    /// Those that are old are dropped when there are so many.
    most: usize,
}

impl Latest {
    /// True if it is news.
    pub(super) fn note(&mut self, needs: &Needs, node: &Name, time: Timestamp, now: Timestamp) -> bool {
        if now.duration_since(time) >= RECENT {
            return false;
        }
        if !self.by_needs.contains_key(needs) {
            self.by_needs.insert(needs.clone(), Vec::new());
        }
        let Some(known) = self.by_needs.get_mut(needs) else { return false };
        match known.iter_mut().find(|(other, _)| other == node) {
            Some((_, before)) if *before >= time => return false,
            Some((_, before)) => *before = time,
            None => known.push((node.clone(), time)),
        }
        known.sort_by_key(|(_, time)| std::cmp::Reverse(*time));
        known.truncate(2);
        if self.by_needs.len() > self.most.max(MANY) {
            self.by_needs.retain(|_, known| known.iter().any(|(_, time)| now.duration_since(*time) < RECENT));
            self.most = self.by_needs.len().saturating_mul(2);
        }
        true
    }

    /// When it happened last on another node.
    pub(super) fn elsewhere(&self, needs: &Needs, node: &Name) -> Option<Timestamp> {
        let others = self.by_needs.get(needs)?.iter().filter(|(other, _)| other != node);
        others.map(|(_, time)| *time).max()
    }
}
