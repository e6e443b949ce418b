//! What was seen: the newest version of every ScavengerJob, its Jobs and pods, in whatever order the watches deliver
//! them, and what is remembered of each ScavengerJob beside it. The only writer of these maps.
//!
//! Of what many objects hold alike one copy is kept ([`Shared`]): each object brings its own from its decoder.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use jiff::Timestamp;

use super::{
    avoided::AvoidedNodes,
    evidence::Evidence,
    leaving::LeavingNodes,
    runtime_classes::{Class, RuntimeClasses},
    tracked::{Attachments, Tracked},
    volumes::{ClaimWait, Volumes},
};
use crate::{
    faults::scheduler,
    values::{
        Access, Attempt, Counts, Demand, Job, Key, LiveReport, Name, Pod, RuntimeClass, ScavengerJob, Volume,
    },
};

/// UID and namespace of a ScavengerJob, as its Jobs and pods name them. Anybody may write a foreign UID onto a pod
/// of their own; in another namespace it belongs to nobody.
pub(crate) type Owner = (Name, Name);

/// Which ScavengerJob a Job or a pod names as its own.
pub(crate) fn owner(uid: &Name, of: &Key) -> Owner {
    (uid.clone(), of.namespace.clone())
}

/// Everything that was seen and belongs to ScavengerJobs.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// Boxed, as what is large and one of many: a tree keeps space for several in each node.
    scavenger_jobs: BTreeMap<Key, Box<Tracked>>,
    keys: BTreeMap<Name, Key>,
    attachments: BTreeMap<Owner, Box<Attachments>>,
    namespaces: Shared<str>,
    demands: Shared<Demand>,
    /// Namespaces whose ScavengerJobs are counted by requests, whatever the pool says.
    by_requests: BTreeSet<Name>,
    /// UID of the ScavengerJob of each pod that belongs to one.
    pod_owners: BTreeMap<Key, Name>,
    pod_epoch: u64,
    /// Pods that a live list showed and the watch did not yet. If they go in a gap of the watch, nobody will ever say
    /// so; its next list is what counts.
    unwatched_pods: BTreeSet<Key>,
    counts: Counts,
    /// ScavengerJobs whose status tells of an active attempt.
    active: BTreeSet<Key>,
    /// ScavengerJobs that are being deleted.
    deleting: BTreeSet<Key>,
    /// ScavengerJobs that get next to no processor time.
    starved: BTreeSet<Key>,
    /// The nodes that they are kept off.
    avoided: AvoidedNodes,
    volumes: Volumes,
    runtime_classes: RuntimeClasses,
}

/// What became of a pod that was seen.
pub(crate) enum SeenPod {
    /// A newer version was seen before.
    Stale,
    /// It belongs to no ScavengerJob.
    Ordinary(Box<Pod>),
    /// It belongs to this one, if it was seen already.
    Own(Arc<Pod>, Option<Key>),
}

/// Fills in what its RuntimeClass, the volumes of its claims, and its namespace demand of a ScavengerJob's nodes, and what it
/// showed itself.
fn place(
    sj: &mut ScavengerJob,
    classes: &mut RuntimeClasses,
    volumes: &mut Volumes,
    by_requests: &BTreeSet<Name>,
    avoided: Vec<Name>,
) {
    classes.place_sj(sj);
    volumes.place_sj(sj);
    let by_requests = by_requests.contains(&sj.key.namespace);
    if let Ok(spec) = &mut sj.spec
        && spec.demand.placement.by_requests != by_requests
    {
        Arc::make_mut(&mut spec.demand).placement.by_requests = by_requests;
    }
    if let Ok(spec) = &mut sj.spec
        && spec.demand.placement.avoided != avoided
    {
        Arc::make_mut(&mut spec.demand).placement.avoided = avoided;
    }
}

impl Seen {
    /// How many ScavengerJobs are where.
    pub(crate) fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Since when the deletion that takes longest is known.
    pub(crate) fn longest_deletion(&self) -> Option<Timestamp> {
        let since = |key| self.scavenger_jobs.get(key)?.memory.deleting_since;
        self.deleting.iter().filter_map(since).min()
    }

    /// ScavengerJobs whose status tells of an active attempt.
    pub(crate) fn active(&self) -> impl Iterator<Item = &Key> {
        self.active.iter()
    }

    /// Every ScavengerJob.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Key, &Tracked)> {
        self.scavenger_jobs.iter().map(|(key, tracked)| (key, &**tracked))
    }

    /// Namespace and name of every ScavengerJob.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &Key> {
        self.scavenger_jobs.keys()
    }

    /// Every namespace that has a ScavengerJob.
    pub(crate) fn namespaces(&self) -> impl Iterator<Item = &Name> {
        let first = self.scavenger_jobs.keys().next();
        let after = |key: &&Key| {
            // Behind every name that there can be.
            let last = Key { namespace: key.namespace.clone(), name: "\u{10ffff}".into() };
            self.scavenger_jobs.range(last..).next().map(|(key, _)| key)
        };
        std::iter::successors(first, move |key| after(key)).map(|key| &key.namespace)
    }

    /// A ScavengerJob.
    pub(crate) fn get(&self, key: &Key) -> Option<&Tracked> {
        self.scavenger_jobs.get(key).map(|tracked| &**tracked)
    }

    /// A ScavengerJob, so that what is remembered of it can be changed.
    pub(crate) fn get_mut(&mut self, key: &Key) -> Option<&mut Tracked> {
        self.scavenger_jobs.get_mut(key).map(|tracked| &mut **tracked)
    }

    /// A ScavengerJob with its Jobs and pods, so that what is remembered of it can be changed.
    pub(crate) fn whole_mut(&mut self, key: &Key) -> Option<(&mut Tracked, &Attachments)> {
        let tracked = self.scavenger_jobs.get_mut(key)?;
        let attachments = self.attachments.get(&owner(&tracked.sj.uid, key));
        Some((tracked, attachments.map_or(Attachments::none(), |attachments| attachments)))
    }

    /// The Jobs and pods of a ScavengerJob, if there are any.
    pub(crate) fn attachments(&self, key: &Key) -> Option<&Attachments> {
        let tracked = self.scavenger_jobs.get(key)?;
        self.attachments.get(&owner(&tracked.sj.uid, key)).map(|attachments| &**attachments)
    }

    /// The ScavengerJob of this namespace that has this UID.
    pub(crate) fn key_of(&self, uid: &Name, namespace: &Name) -> Option<&Key> {
        self.keys.get(uid).filter(|key| key.namespace == *namespace)
    }

    /// The ScavengerJob of whose active attempt, which runs under the supervisor, this is a pod, and the pod's index.
    pub(crate) fn reporter(&self, pod: &Key, uid: &Name) -> Option<(Key, Option<u32>)> {
        let (key, pod, attempt) = self.active_attempt_of(pod)?;
        (attempt.supervised && pod.uid == *uid).then(|| (key.clone(), pod.index))
    }

    /// The ScavengerJob of whose active attempt this is a pod.
    pub(crate) fn worker(&self, pod: &Key) -> Option<Key> {
        self.active_attempt_of(pod).map(|(key, ..)| key.clone())
    }

    /// The same, if the pod has this UID. A pod of that name that came later is another one.
    pub(crate) fn worker_with(&self, pod: &Key, uid: &Name) -> Option<Key> {
        let (key, pod, _) = self.active_attempt_of(pod)?;
        (pod.uid == *uid).then(|| key.clone())
    }

    fn active_attempt_of(&self, pod: &Key) -> Option<(&Key, &Pod, &Attempt)> {
        let owner = owner(self.pod_owners.get(pod)?, pod);
        let pod = self.attachments.get(&owner)?.pods.get(&pod.name)?;
        let key = self.key_of(&owner.0, &owner.1)?;
        let attempt = self.get(key)?.sj.status.active_attempt()?;
        pod.is_of(attempt.number).then_some((key, pod, attempt))
    }

    /// True if another ScavengerJob of this name was seen before, which was deleted while nobody watched.
    pub(crate) fn is_another(&self, sj: &ScavengerJob) -> bool {
        self.scavenger_jobs.get(&sj.key).is_some_and(|known| known.sj.uid != sj.uid)
    }

    /// Takes in a version of a ScavengerJob. None if a newer one was seen before; else the pods that named it and are
    /// ordinary ones, since they are in another namespace.
    pub(crate) fn set_sj(&mut self, mut sj: ScavengerJob) -> Option<Vec<Pod>> {
        self.namespaces.share(&mut sj.key.namespace);
        let key = sj.key.clone();
        if let Some(known) = self.scavenger_jobs.get(&key) {
            // Older than what an answer brought already.
            if known.sj.resource_version >= sj.resource_version {
                return None;
            }
            self.volumes.forget_sj(&known.sj);
            self.runtime_classes.forget_sj(&known.sj);
        }
        let avoided = self.avoided.of(&sj);
        place(&mut sj, &mut self.runtime_classes, &mut self.volumes, &self.by_requests, avoided);
        self.demands.share_of(&mut sj);
        if sj.deleting {
            self.deleting.insert(key.clone());
        } else {
            self.deleting.remove(&key);
        }
        self.keys.insert(sj.uid.clone(), key.clone());
        let mut strangers = Vec::new();
        if let Some(known) = self.scavenger_jobs.get_mut(&key) {
            let number = known.update(sj);
            if let Some(attachments) = self.attachments.get_mut(&owner(&known.sj.uid, &key)) {
                attachments.evidence.retain(|attempt, _| *attempt >= number);
            }
        } else {
            strangers = self.disown_strangers(&owner(&sj.uid, &key));
            self.scavenger_jobs.insert(key.clone(), Box::new(Tracked::new(sj)));
        }
        self.count(&key);
        self.note_starved(&key);
        Some(strangers)
    }

    /// Takes in what a pod of the active attempt of a ScavengerJob reports.
    pub(crate) fn report(&mut self, key: &Key, index: Option<u32>, report: &LiveReport, now: Timestamp) {
        if let Some(tracked) = self.scavenger_jobs.get_mut(key) {
            tracked.report(index, report, now);
            self.note_starved(key);
        }
    }

    fn note_starved(&mut self, key: &Key) {
        let status = self.scavenger_jobs.get(key).map(|tracked| &tracked.sj.status);
        if status.is_some_and(|status| status.active_attempt().is_some() && status.starved_since.is_some()) {
            self.starved.insert(key.clone());
        } else {
            self.starved.remove(key);
        }
    }

    /// ScavengerJobs that get next to no processor time.
    pub(crate) fn starved(&self) -> &BTreeSet<Key> {
        &self.starved
    }

    /// A ScavengerJob is kept off these nodes for a while.
    pub(crate) fn avoid(&mut self, key: &Key, nodes: Vec<Name>, now: Timestamp) {
        self.avoided.leave(key, nodes, now);
        self.place_again(key);
    }

    /// Those that may go to nodes again that they were kept off.
    pub(crate) fn end_avoiding(&mut self, now: Timestamp) -> Vec<Key> {
        let over = self.avoided.take_over(now);
        self.placed_again(over)
    }

    /// When the next of them may.
    pub(crate) fn avoiding_until(&self) -> Option<Timestamp> {
        self.avoided.wake_at()
    }

    /// Takes in which nodes leave the pool and when, and that time has passed. Returns the nodes about which something else holds,
    /// and the ScavengerJobs that may go elsewhere now.
    pub(crate) fn follow_leaving<'a>(
        &mut self,
        leaving: impl Iterator<Item = (&'a Name, Timestamp)>,
        now: Timestamp,
    ) -> (Vec<Name>, Vec<Key>) {
        let nodes = self.avoided.leaving.follow(leaving, now);
        if nodes.is_empty() {
            return (nodes, Vec::new());
        }
        let is_stale = |sj: &ScavengerJob| {
            let known = sj.spec.as_ref().map(|spec| &spec.demand.placement.avoided);
            !sj.status.phase.is_finished() && known.is_ok_and(|known| *known != self.avoided.of(sj))
        };
        let stale = self.scavenger_jobs.iter().filter(|(_, tracked)| is_stale(&tracked.sj));
        let stale = stale.map(|(key, _)| key.clone()).collect();
        (nodes, self.placed_again(stale))
    }

    /// Nodes that leave the pool.
    pub(crate) fn leaving(&self) -> &LeavingNodes {
        &self.avoided.leaving
    }

    /// Forgets a ScavengerJob that is gone.
    pub(crate) fn remove_sj(&mut self, key: &Key) -> Option<Box<Tracked>> {
        self.uncount(key);
        let tracked = self.scavenger_jobs.remove(key)?;
        self.deleting.remove(key);
        self.starved.remove(key);
        self.avoided.forget(key);
        self.keys.remove(&tracked.sj.uid);
        self.volumes.forget_sj(&tracked.sj);
        self.runtime_classes.forget_sj(&tracked.sj);
        self.prune(&owner(&tracked.sj.uid, key));
        Some(tracked)
    }

    /// It is being deleted; the watch shows it later.
    pub(crate) fn set_deleting(&mut self, key: &Key) {
        if let Some(tracked) = self.scavenger_jobs.get_mut(key) {
            tracked.sj.deleting = true;
            self.deleting.insert(key.clone());
        }
    }

    /// Its finalizer is off; the watch shows it later.
    pub(crate) fn set_released(&mut self, key: &Key) {
        if let Some(tracked) = self.scavenger_jobs.get_mut(key) {
            tracked.sj.has_finalizer = false;
        }
    }

    /// Pods that were seen before the ScavengerJob which they name, and are in another namespace, are ordinary ones.
    fn disown_strangers(&mut self, (uid, namespace): &Owner) -> Vec<Pod> {
        let first = (uid.clone(), Name::from(""));
        let named = self.attachments.range(first..).take_while(|((named, _), _)| named == uid);
        let strangers = named.map(|(owner, _)| owner.clone()).filter(|(_, other)| other != namespace);
        let mut ordinary = Vec::new();
        for owner in strangers.collect::<Vec<_>>() {
            let pods = self.attachments.remove(&owner).map(|all| all.pods).unwrap_or_default();
            for pod in pods.into_values() {
                self.pod_owners.remove(&pod.key);
                ordinary.push(Pod { owner: None, ..Arc::unwrap_or_clone(pod) });
            }
        }
        ordinary
    }

    /// Forgets attachments of a ScavengerJob that is gone once they are gone, too.
    fn prune(&mut self, owner: &Owner) {
        let empty = self.attachments.get(owner).is_some_and(|all| all.jobs.is_empty() && all.pods.is_empty());
        if empty && self.key_of(&owner.0, &owner.1).is_none() {
            self.attachments.remove(owner);
        }
    }

    /// Takes in a version of a Job that the watch showed, and returns its ScavengerJob.
    pub(crate) fn watch_job(&mut self, job: Job) -> Option<Key> {
        let attachments = self.attachments.entry(owner(&job.owner, &job.key)).or_default();
        attachments.unwatched_job.take_if(|(uid, _)| *uid == job.uid);
        self.set_job(job)
    }

    /// Takes in a version of a Job that an answer showed at `time`, and returns its ScavengerJob.
    pub(crate) fn answer_job(&mut self, job: Job, time: Timestamp) -> Option<Key> {
        let attachments = self.attachments.entry(owner(&job.owner, &job.key)).or_default();
        if !attachments.jobs.contains_key(&job.uid) || attachments.is_unwatched(&job.uid) {
            attachments.unwatched_job = Some((job.uid.clone(), time));
        }
        self.set_job(job)
    }

    fn set_job(&mut self, job: Job) -> Option<Key> {
        let owner = owner(&job.owner, &job.key);
        let attachments = self.attachments.entry(owner.clone()).or_default();
        if attachments.gone_job.as_ref() == Some(&job.uid) {
            return None;
        }
        match attachments.jobs.get_mut(&job.uid) {
            Some(known) if known.resource_version >= job.resource_version => return None,
            Some(known) => *known = Job { deleting: known.deleting || job.deleting, ..job }.into(),
            None => {
                attachments.jobs.insert(job.uid.clone(), job.into());
            }
        }
        self.key_of(&owner.0, &owner.1).cloned()
    }

    /// An answer says that a Job of this ScavengerJob is being deleted. True if no watch showed it, so that none will
    /// say when it is gone.
    pub(crate) fn job_deleted(&mut self, owner: &Owner, uid: &Name) -> bool {
        let Some(attachments) = self.attachments.get_mut(owner) else { return false };
        if attachments.is_unwatched(uid) {
            return true;
        }
        if let Some(job) = attachments.jobs.get_mut(uid) {
            Arc::make_mut(job).deleting = true;
        }
        false
    }

    /// A Job is gone. Returns its ScavengerJob.
    pub(crate) fn remove_job(&mut self, owner: &Owner, uid: &Name) -> Option<Key> {
        let attachments = self.attachments.get_mut(owner)?;
        attachments.gone_job = Some(uid.clone());
        attachments.unwatched_job.take_if(|(unwatched, _)| unwatched == uid);
        let job = attachments.jobs.remove(uid);
        let key = self.key_of(&owner.0, &owner.1).cloned();
        if let (Some(job), Some(tracked)) =
            (job, key.as_ref().and_then(|key| self.scavenger_jobs.get_mut(key)))
        {
            tracked.memory.lost_job = Some(job.attempt);
        }
        self.prune(owner);
        key
    }

    /// Takes in a version of a pod that the watch showed.
    pub(crate) fn watch_pod(&mut self, pod: Box<Pod>, now: Timestamp) -> SeenPod {
        self.unwatched_pods.remove(&pod.key);
        self.set_pod(pod, now)
    }

    fn set_pod(&mut self, mut pod: Box<Pod>, now: Timestamp) -> SeenPod {
        self.namespaces.share(&mut pod.key.namespace);
        let Some((uid, attempt)) = &mut pod.owner else {
            self.volumes.note_pod(&pod);
            return SeenPod::Ordinary(pod);
        };
        if let Some(key) = self.keys.get(uid) {
            if key.namespace != pod.key.namespace {
                // Somebody else's, whatever it says.
                pod.owner = None;
                self.volumes.note_pod(&pod);
                return SeenPod::Ordinary(pod);
            }
            if let Some(tracked) = self.scavenger_jobs.get(key) {
                uid.clone_from(&tracked.sj.uid);
            }
        }
        let (uid, attempt) = (uid.clone(), *attempt);
        let attachments = self.attachments.entry(owner(&uid, &pod.key)).or_default();
        let known = attachments.pods.get(&pod.key.name);
        if known.is_some_and(|known| known.uid == pod.uid && known.resource_version > pod.resource_version) {
            return SeenPod::Stale;
        }
        self.volumes.note_pod(&pod);
        attachments.evidence.entry(attempt).or_default().note(&pod, self.pod_epoch, now);
        let pod = Arc::new(*pod);
        attachments.pods.insert(pod.key.name.clone(), pod.clone());
        let key = self.key_of(&uid, &pod.key.namespace).cloned();
        self.pod_owners.insert(pod.key.clone(), uid);
        SeenPod::Own(pod, key)
    }

    /// A pod is gone. Returns its ScavengerJob, if it belonged to one.
    pub(crate) fn remove_pod(&mut self, key: &Key) -> Option<Key> {
        self.unwatched_pods.remove(key);
        self.volumes.forget_pod(key);
        let uid = self.pod_owners.remove(key)?;
        let owner = owner(&uid, key);
        if let Some(attachments) = self.attachments.get_mut(&owner) {
            attachments.pods.remove(&key.name);
        }
        let sj = self.key_of(&owner.0, &owner.1).cloned();
        self.prune(&owner);
        sj
    }

    /// The pod watch lists everything again: versions seen before and after have no order. Returns the pods that only
    /// answers showed: if they are still there, this list shows them.
    pub(crate) fn relist_pods(&mut self) -> BTreeSet<Key> {
        self.pod_epoch += 1;
        std::mem::take(&mut self.unwatched_pods)
    }

    /// Takes in a live list of a ScavengerJob's pods, and returns what became of each and which pods are gone.
    pub(crate) fn list_pods(
        &mut self,
        owner: &Owner,
        pods: Vec<Pod>,
        resource_version: u64,
        time: Timestamp,
    ) -> (Vec<SeenPod>, Vec<Key>) {
        for evidence in self.attachments.entry(owner.clone()).or_default().evidence.values_mut() {
            evidence.relisted(resource_version);
        }
        let listed: BTreeSet<Name> = pods.iter().map(|pod| pod.key.name.clone()).collect();
        let mut seen = Vec::new();
        for pod in pods {
            if !self.pod_owners.contains_key(&pod.key) {
                self.unwatched_pods.insert(pod.key.clone());
            }
            seen.push(self.set_pod(Box::new(pod), time));
        }
        let attachments = self.attachments.entry(owner.clone()).or_default();
        let gone = attachments
            .pods
            .values()
            .filter(|pod| pod.resource_version <= resource_version && !listed.contains(&pod.key.name))
            .map(|pod| pod.key.clone())
            .collect();
        (seen, gone)
    }

    /// This planner makes an attempt itself, and so sees its pods from the first one on.
    pub(crate) fn attempt_begins(&mut self, owner: &Owner, attempt: u32) {
        let epoch = self.pod_epoch;
        let evidence = &mut self.attachments.entry(owner.clone()).or_default().evidence;
        evidence.entry(attempt).or_insert_with(|| Evidence::from_the_start(epoch).into());
    }

    /// Takes in what the volumes of its claims demand of an ordinary pod's node.
    pub(crate) fn place_ordinary_pod(&mut self, pod: &mut Pod) {
        self.volumes.place_pod(pod);
        pod.refused = pod.unschedulable.as_deref().map(scheduler::read).unwrap_or_default();
    }

    /// Takes in a volume, and returns the ScavengerJobs and the ordinary pods whose nodes it changes.
    pub(crate) fn set_volume(&mut self, volume: Volume) -> (Vec<Key>, Vec<Pod>) {
        let claims = self.volumes.set(volume);
        self.claims_changed(claims)
    }

    /// The same for claims that have no volume yet, of which is known what they ask for.
    pub(crate) fn set_fresh_claims(
        &mut self,
        namespace: &Name,
        claims: Vec<(Name, Access)>,
    ) -> (Vec<Key>, Vec<Pod>) {
        let claims = claims.into_iter().map(|(claim, access)| (Key::new(namespace.clone(), claim), access));
        let changed = claims.filter_map(|(claim, access)| self.volumes.set_fresh(claim, access)).collect();
        self.claims_changed(changed)
    }

    /// The same for a volume that is gone.
    pub(crate) fn remove_volume(&mut self, name: &Name) -> (Vec<Key>, Vec<Pod>) {
        let claim = self.volumes.remove(name);
        self.claims_changed(claim.into_iter().collect())
    }

    /// Takes in whether every volume is known, and returns the ScavengerJobs that wait for that, or did.
    pub(crate) fn set_volumes_known(&mut self, known: bool) -> Vec<Key> {
        if self.volumes.set_known(known) { self.volumes.mounting_scavenger_jobs() } else { Vec::new() }
    }

    /// Takes in a RuntimeClass, and returns the ScavengerJobs that name it, if they are to be looked at again.
    pub(crate) fn set_runtime_class(&mut self, class: RuntimeClass) -> Vec<Key> {
        let users = self.runtime_classes.set(class);
        self.placed_again(users)
    }

    /// The same for one that is gone.
    pub(crate) fn remove_runtime_class(&mut self, name: &Name) -> Vec<Key> {
        let users = self.runtime_classes.remove(name);
        self.placed_again(users)
    }

    /// Takes in whether every RuntimeClass is known, and returns the ScavengerJobs that wait for that, or did.
    pub(crate) fn set_runtime_classes_known(&mut self, known: bool) -> Vec<Key> {
        self.runtime_classes.set_known(known)
    }

    /// What is known of the RuntimeClass of a ScavengerJob; none if it names none.
    pub(crate) fn runtime_class<'a>(&'a self, sj: &'a ScavengerJob) -> Option<Class<'a>> {
        self.runtime_classes.of(sj)
    }

    /// The ScavengerJobs and the ordinary pods whose nodes changed since this was called last, because a volume was
    /// attached or detached.
    pub(crate) fn take_moved(&mut self) -> (Vec<Key>, Vec<Pod>) {
        let claims = self.volumes.take_moved();
        self.claims_changed(claims)
    }

    /// Why a ScavengerJob cannot start yet because of a claim that it mounts. `starting` are all that hold a start slot.
    pub(crate) fn claim_wait(
        &self,
        key: &Key,
        starting: &BTreeSet<Key>,
        is_promised: bool,
    ) -> Option<ClaimWait> {
        let sj = &self.scavenger_jobs.get(key)?.sj;
        let starting = starting.iter().filter(|other| *other != key);
        // Of those that are promised capacity in one plan the planner keeps one: it does not wait for itself. If it was not
        // known then that they share a volume, the first by name is ahead.
        let is_ahead =
            |other: &ScavengerJob| other.status.phase.is_active() || !is_promised || other.key < *key;
        let starting = starting.filter_map(|other| Some(&self.scavenger_jobs.get(other)?.sj));
        self.volumes.keeps_waiting(sj, starting.filter(|other| is_ahead(other)))
    }

    /// The claims that a ScavengerJob mounts, that only one node or pod can mount, and that none does yet.
    pub(crate) fn claims_to_attach(&self, key: &Key) -> Vec<Key> {
        self.scavenger_jobs.get(key).map(|tracked| self.volumes.to_attach(&tracked.sj)).unwrap_or_default()
    }

    /// The claims that a ScavengerJob mounts and that have no volume, as far as is known.
    pub(crate) fn claims_without_volume(&self, sj: &ScavengerJob) -> Vec<Name> {
        self.volumes.unbound(sj)
    }

    /// The ScavengerJobs of a namespace are counted by requests, or no longer. Returns them.
    pub(crate) fn set_by_requests(&mut self, namespace: &Name, by_requests: bool) -> Vec<Key> {
        let changed = match by_requests {
            true => self.by_requests.insert(namespace.clone()),
            false => self.by_requests.remove(namespace),
        };
        let first = Key::new(namespace.clone(), "");
        let there = self.scavenger_jobs.range(first..).map(|(key, _)| key);
        let there = there.take_while(|key| changed && key.namespace == *namespace).cloned().collect();
        self.placed_again(there)
    }

    /// Those that are there, once it was found out again where they may go.
    fn placed_again(&mut self, mut scavenger_jobs: Vec<Key>) -> Vec<Key> {
        scavenger_jobs.retain(|key| self.place_again(key));
        scavenger_jobs
    }

    /// Finds out again where one that is there may go. False if it is not there.
    fn place_again(&mut self, key: &Key) -> bool {
        let Some(tracked) = self.scavenger_jobs.get_mut(key) else { return false };
        let avoided = self.avoided.of(&tracked.sj);
        let (classes, volumes) = (&mut self.runtime_classes, &mut self.volumes);
        place(&mut tracked.sj, classes, volumes, &self.by_requests, avoided);
        self.demands.share_of(&mut tracked.sj);
        true
    }

    fn claims_changed(&mut self, claims: Vec<Key>) -> (Vec<Key>, Vec<Pod>) {
        let (mut scavenger_jobs, mut pods) = (Vec::new(), Vec::new());
        for claim in claims {
            for key in self.volumes.scavenger_jobs_with(&claim) {
                if self.place_again(&key) {
                    scavenger_jobs.push(key);
                }
            }
            pods.extend(self.volumes.waiting_with(&claim));
        }
        (scavenger_jobs, pods)
    }

    fn count(&mut self, key: &Key) {
        self.uncount(key);
        let Some(tracked) = self.scavenger_jobs.get_mut(key) else { return };
        let status = &tracked.sj.status;
        let reason = status
            .admitted
            .as_ref()
            .and_then(|admitted| admitted.waiting.as_ref())
            .map(|waiting| waiting.reason);
        tracked.counted = Some((status.phase, reason));
        if status.phase.is_active() {
            self.active.insert(key.clone());
        }
        *self.counts.phases.entry(status.phase).or_default() += 1;
        if let Some(reason) = reason {
            *self.counts.waiting.entry(reason).or_default() += 1;
        }
    }

    fn uncount(&mut self, key: &Key) {
        let Some((phase, reason)) =
            self.scavenger_jobs.get_mut(key).and_then(|tracked| tracked.counted.take())
        else {
            return;
        };
        if phase.is_active() {
            self.active.remove(key);
        }
        if let Some(count) = self.counts.phases.get_mut(&phase) {
            *count = count.saturating_sub(1);
        }
        if let Some(count) = reason.and_then(|reason| self.counts.waiting.get_mut(&reason)) {
            *count = count.saturating_sub(1);
        }
    }

    /// True if the index by UID is that of the ScavengerJobs.
    #[cfg(any(test, feature = "fixtures"))]
    pub(crate) fn index_is_right(&self) -> bool {
        let keys = self.scavenger_jobs.iter().map(|(key, tracked)| (&tracked.sj.uid, key));
        keys.collect::<BTreeMap<_, _>>() == self.keys.iter().collect::<BTreeMap<_, _>>()
    }

    /// Counts one that is not there, for tests of the check.
    #[cfg(test)]
    pub(crate) fn spoil(&mut self) {
        *self.counts.phases.entry(crate::values::Phase::Failed).or_default() += 1;
    }
}

/// Values that somebody holds, each of them once.
#[derive(Debug)]
pub(crate) struct Shared<T: ?Sized> {
    values: BTreeSet<Arc<T>>,
    /// Calls of [`Self::share`] until values that nobody holds are looked for.
    calls_left: usize,
}

impl<T: ?Sized> Default for Shared<T> {
    fn default() -> Self {
        Self { values: BTreeSet::new(), calls_left: 0 }
    }
}

impl<T: Ord + ?Sized> Shared<T> {
    /// Replaces a value by the copy that is there already.
    pub(crate) fn share(&mut self, value: &mut Arc<T>) {
        match self.values.get(&**value) {
            Some(known) => value.clone_from(known),
            None => _ = self.values.insert(value.clone()),
        }
        if self.calls_left > 0 {
            self.calls_left -= 1;
            return;
        }
        self.values.retain(|value| Arc::strong_count(value) > 1);
        // So many calls at most double the number of values: each pays for a look at two.
        self.calls_left = self.values.len();
    }
}

impl Shared<Demand> {
    /// The same for what a ScavengerJob's spec asks for, and what its attempt runs with.
    pub(super) fn share_of(&mut self, sj: &mut ScavengerJob) {
        let of_spec = sj.spec.iter_mut().map(|spec| &mut spec.demand);
        let of_attempt = sj.status.attempt.iter_mut().map(|attempt| &mut attempt.demand);
        of_spec.chain(of_attempt).for_each(|demand| self.share(demand));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_become_one_copy() {
        let mut shared = Shared::default();
        let mut values: [Arc<str>; 3] = ["a".into(), "b".into(), "a".into()];
        for value in &mut values {
            shared.share(value);
        }
        assert!(Arc::ptr_eq(&values[0], &values[2]));
        assert_eq!(&*values[1], "b");
    }

    #[test]
    fn values_that_nobody_holds_are_forgotten() {
        let mut shared = Shared::default();
        let mut held = Arc::new(0);
        shared.share(&mut held);
        for number in 1..1000 {
            shared.share(&mut Arc::new(number));
            assert!(shared.values.len() < 10, "{} are kept", shared.values.len());
        }
        assert!(shared.values.contains(&held));
    }
}
