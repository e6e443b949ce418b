//! How what is seen enters the view: versions of objects, in whatever order the watches deliver them.

use std::{collections::BTreeSet, sync::Arc};

use jiff::Timestamp;

use crate::{
    Entry, Owner, Planner,
    memory::Remembered,
    owner,
    snapshot::{Child, Job, Key, Name, Pod},
};

impl Planner {
    pub(super) fn set_job(&mut self, mut job: Job) {
        self.namespaces.share(&mut job.key.namespace);
        let key = job.key.clone();
        if let Some(entry) = self.jobs.get(&key) {
            if entry.job.uid == job.uid {
                // Older than what an answer brought already.
                if entry.job.resource_version >= job.resource_version {
                    return;
                }
            } else {
                // Deleted and made anew while nobody watched.
                self.remove_job(&key);
            }
        }
        if let Some(entry) = self.jobs.get(&key) {
            self.volumes.forget_job(&entry.job);
        }
        self.volumes.place_job(&mut job);
        self.demands.share_of(&mut job);
        self.keys.insert(job.uid.clone(), key.clone());
        self.dirty.insert(key.clone());
        match self.jobs.get_mut(&key) {
            Some(entry) => {
                let attempt = |job: &Job| job.status.attempt.as_ref().map(|attempt| attempt.number);
                if attempt(&entry.job) != attempt(&job) {
                    // A status of an earlier attempt was told of.
                    entry.told = None;
                    let may_create = entry.memory.may_create;
                    entry.memory = Remembered::default();
                    if may_create.is_some() {
                        entry.memory.may_create = may_create;
                    }
                } else if entry.job.generation != job.generation {
                    // Another spec may refer to other things.
                    entry.memory.prepared = None;
                    entry.memory.missing_since = None;
                }
                entry.job = job;
                if entry.pause.is_some_and(|pause| pause.ends_with_change) {
                    entry.pause = None;
                }
                let number = attempt(&entry.job).unwrap_or(0);
                if let Some(attachments) = self.attachments.get_mut(&owner(&entry.job.uid, &key)) {
                    attachments.evidence.retain(|attempt, _| *attempt >= number);
                }
            }
            None => {
                let entry = Entry {
                    job,
                    memory: Remembered::default(),
                    told: None,
                    under_way: false,
                    pause: None,
                    timer: None,
                    recovered: None,
                    reserved_for: None,
                    refused: None,
                    counted: None,
                    sentence: None,
                };
                self.disown_strangers(&owner(&entry.job.uid, &key));
                self.jobs.insert(key.clone(), Box::new(entry));
            }
        }
        self.count(&key);
    }

    pub(super) fn remove_job(&mut self, key: &Key) {
        self.set_timer(key, None);
        self.uncount(key);
        if let Some(entry) = self.jobs.remove(key) {
            self.keys.remove(&entry.job.uid);
            self.volumes.forget_job(&entry.job);
            self.prune(&owner(&entry.job.uid, key));
        }
        self.queue.remove(key, &mut self.capacity);
        self.holders.set(key, BTreeSet::new());
        self.ledger.release(key);
        self.walk_due = true;
        self.dirty.remove(key);
        self.starting.remove(key);
        self.unsure.remove(key);
        self.untold.remove(key);
        self.telling.remove(key);
    }

    /// Pods that were seen before the ScavengerJob which they name, and are in another namespace, are ordinary ones.
    fn disown_strangers(&mut self, (uid, namespace): &Owner) {
        let first = (uid.clone(), Name::from(""));
        let named = self.attachments.range(first..).take_while(|((named, _), _)| named == uid);
        let strangers = named.map(|(owner, _)| owner.clone()).filter(|(_, other)| other != namespace);
        for owner in strangers.collect::<Vec<_>>() {
            let pods = self.attachments.remove(&owner).map(|all| all.pods).unwrap_or_default();
            for pod in pods.into_values() {
                self.pod_owners.remove(&pod.key);
                self.set_ordinary_pod(Pod { owner: None, ..Arc::unwrap_or_clone(pod) });
            }
        }
    }

    /// Forgets attachments of a ScavengerJob that is gone once they are gone too.
    fn prune(&mut self, owner: &Owner) {
        let empty =
            self.attachments.get(owner).is_some_and(|all| all.children.is_empty() && all.pods.is_empty());
        if empty && self.key_of(owner).is_none() {
            self.attachments.remove(owner);
        }
    }

    /// The ScavengerJob that something of its namespace names as its owner.
    fn key_of(&self, (uid, namespace): &Owner) -> Option<&Key> {
        self.keys.get(uid).filter(|key| key.namespace == *namespace)
    }

    fn touch(&mut self, owner: &Owner) {
        if let Some(key) = self.key_of(owner).cloned() {
            self.dirty.insert(key);
        }
    }

    pub(super) fn set_child(&mut self, child: Child) {
        let owner = owner(&child.owner, &child.key);
        let attachments = self.attachments.entry(owner.clone()).or_default();
        if attachments.gone_child.as_ref() == Some(&child.uid) {
            return;
        }
        match attachments.children.get_mut(&child.uid) {
            Some(known) if known.resource_version >= child.resource_version => return,
            Some(known) => *known = Child { deleting: known.deleting || child.deleting, ..child }.into(),
            None => {
                attachments.children.insert(child.uid.clone(), child.into());
            }
        }
        self.touch(&owner);
    }

    pub(super) fn remove_child(&mut self, owner: &Owner, uid: &Name) {
        let Some(attachments) = self.attachments.get_mut(owner) else { return };
        attachments.gone_child = Some(uid.clone());
        attachments.unwatched_child.take_if(|(unwatched, _)| unwatched == uid);
        let child = attachments.children.remove(uid);
        let key = self.key_of(owner).cloned();
        if let Some(child) = child
            && let Some(entry) = key.and_then(|key| self.jobs.get_mut(&key))
        {
            entry.memory.lost_child = Some(child.attempt);
        }
        self.touch(owner);
        self.prune(owner);
    }

    pub(super) fn set_pod(&mut self, mut pod: Pod, now: Timestamp) {
        self.namespaces.share(&mut pod.key.namespace);
        if let Some(node) = &mut pod.node
            && let Some(known) = self.capacity.shared_name(node)
        {
            node.clone_from(known);
        }
        if let Some((uid, _)) = &mut pod.owner
            && let Some(job) = self.keys.get(uid).and_then(|key| self.jobs.get(key))
        {
            uid.clone_from(&job.job.uid);
        }
        if let Some((uid, attempt)) = pod.owner.clone() {
            if self.keys.get(&uid).is_some_and(|key| key.namespace != pod.key.namespace) {
                // Somebody else's, whatever it says.
                return self.set_ordinary_pod(Pod { owner: None, ..pod });
            }
            let owner = owner(&uid, &pod.key);
            let attachments = self.attachments.entry(owner.clone()).or_default();
            let known = attachments.pods.get(&pod.key.name);
            if known
                .is_some_and(|known| known.uid == pod.uid && known.resource_version > pod.resource_version)
            {
                return;
            }
            attachments.evidence.entry(attempt).or_default().note(&pod, self.pod_epoch, now);
            self.pod_owners.insert(pod.key.clone(), uid);
            self.capacity.set_pod(&pod);
            attachments.pods.insert(pod.key.name.clone(), Arc::new(pod));
            self.touch(&owner);
        } else {
            self.set_ordinary_pod(pod);
        }
    }

    pub(super) fn set_ordinary_pod(&mut self, mut pod: Pod) {
        self.volumes.place_pod(&mut pod);
        match self.preemption.note(&pod) {
            reserved @ Some(_) => self.capacity.set_pod(&Pod { nominated_node: reserved, ..pod }),
            None => self.capacity.set_pod(&pod),
        }
    }

    pub(super) fn remove_pod(&mut self, key: &Key) {
        self.unwatched_pods.remove(key);
        self.preemption.forget(key);
        self.volumes.forget_pod(key);
        self.capacity.remove_pod(key);
        let Some(uid) = self.pod_owners.remove(key) else { return };
        let owner = owner(&uid, key);
        if let Some(attachments) = self.attachments.get_mut(&owner) {
            attachments.pods.remove(&key.name);
        }
        self.touch(&owner);
        self.prune(&owner);
    }
}
