//! RuntimeClasses: what the API server adds to the pods that name them, and who names which.
//!
//! A class takes capacity of its own for each pod (`overhead`), and may have a say in where the pod goes
//! (`scheduling`). The API server adds both when the pod is made, whatever its Job says, so both count from the start:
//! in what a ScavengerJob asks for, and in where it may go. Of a class that is not there, or that cannot be read,
//! nobody knows either, and a ScavengerJob that names it waits.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use crate::values::{Key, Name, RuntimeClass, ScavengerJob};

/// The classes there are, and who names them.
#[derive(Debug, Default)]
pub(crate) struct RuntimeClasses {
    classes: BTreeMap<Name, RuntimeClass>,
    /// ScavengerJobs that name each class and have not ended.
    scavenger_jobs: BTreeMap<Name, BTreeSet<Key>>,
    /// True while they cannot be listed or watched, so that some may be missing here.
    may_be_missing: bool,
}

/// What is known of the RuntimeClass of a ScavengerJob.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class<'a> {
    /// It is there.
    There(&'a RuntimeClass),
    /// There is none of this name.
    Missing(&'a Name),
    /// Nobody knows: they cannot be listed.
    Unknown(&'a Name),
}

impl RuntimeClasses {
    /// The RuntimeClass of a ScavengerJob; none if it names none.
    pub(super) fn of<'a>(&'a self, sj: &'a ScavengerJob) -> Option<Class<'a>> {
        let name = &sj.spec.as_ref().ok()?.runtime.as_ref()?.class;
        Some(match self.classes.get(name) {
            Some(class) => Class::There(class),
            None if self.may_be_missing => Class::Unknown(name),
            None => Class::Missing(name),
        })
    }

    /// Adds to what a ScavengerJob asks for what its class does.
    pub(super) fn place_sj(&mut self, sj: &mut ScavengerJob) {
        let has_ended = sj.status.phase.is_finished();
        let Ok(spec) = &mut sj.spec else { return };
        let Some(runtime) = &spec.runtime else { return };
        spec.demand = match self.classes.get(&runtime.class) {
            Some(class) => Arc::new(class.added_to(&runtime.own)),
            None => runtime.own.clone(),
        };
        if has_ended {
            self.forget_sj(sj);
        } else {
            self.scavenger_jobs.entry(runtime.class.clone()).or_default().insert(sj.key.clone());
        }
    }

    /// Forgets a ScavengerJob in this version.
    pub(super) fn forget_sj(&mut self, sj: &ScavengerJob) {
        let Some(runtime) = sj.spec.as_ref().ok().and_then(|spec| spec.runtime.as_ref()) else { return };
        if let Some(users) = self.scavenger_jobs.get_mut(&runtime.class) {
            users.remove(&sj.key);
            if users.is_empty() {
                self.scavenger_jobs.remove(&runtime.class);
            }
        }
    }

    /// Takes in a class, and returns who names it if something changed.
    pub(super) fn set(&mut self, class: RuntimeClass) -> Vec<Key> {
        if self.classes.get(&class.name) == Some(&class) {
            return Vec::new();
        }
        let users = self.users(&class.name);
        self.classes.insert(class.name.clone(), class);
        users
    }

    /// A class is gone. Returns who names it.
    pub(super) fn remove(&mut self, name: &Name) -> Vec<Key> {
        self.classes.remove(name);
        self.users(name)
    }

    /// Takes in whether every class is known, and returns those for whom that may make a difference.
    pub(super) fn set_known(&mut self, known: bool) -> Vec<Key> {
        if std::mem::replace(&mut self.may_be_missing, !known) != known {
            return Vec::new();
        }
        self.scavenger_jobs.values().flatten().cloned().collect()
    }

    fn users(&self, class: &Name) -> Vec<Key> {
        self.scavenger_jobs.get(class).into_iter().flatten().cloned().collect()
    }
}
