//! A cluster that goes on from what an operator saw of a real one.
//!
//! What was not seen is assumed. Nothing arrives and no workload ends. Nodes stay as they are. Pods of ScavengerJobs take their
//! whole grace period to end. kube-scheduler preempts nobody: of each ordinary pod that waits it has tried that before. A pod that
//! is said to find no node although one has enough for it waits for something else, and goes on waiting. So do ScavengerJobs that
//! wait for a quota, an admission policy or a volume ([`Cluster::not_seen`]).
//!
//! Input is a file of a user, so nothing here may panic.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use scavenger_planner::{
    action::{Event as Published, StatusWrite},
    loss,
    values::{
        Attempt, Confinement, Container, Demand, Job, Key, Name, Observation, Pod, Reason, ScavengerJob,
        WaitingReason,
    },
};

use super::{
    cluster::{Cluster, Event, Workload},
    millis, settings,
    trace::Traced,
    watches::Told,
};

/// Longer than anybody plays.
const FOREVER: SignedDuration = SignedDuration::from_hours(100 * 366 * 24);

/// Objects that are made are numbered from here on, so that their names are none of those that were seen.
const FIRST_SERIAL: u64 = 1 << 40;

/// The beginning or the end of an attempt.
#[derive(Debug, Clone)]
pub struct Step {
    /// When the status said so.
    pub time: Timestamp,
    /// The ScavengerJob.
    pub sj: Key,
    /// Its UID.
    pub uid: Name,
    /// What happened.
    pub event: Published,
    /// The attempt, if there is one.
    pub attempt: Option<Attempt>,
    /// Why it ended, as one word, if it did.
    pub reason: Option<Reason>,
    /// The run time that each of its pods is expected to have lost.
    pub lost: SignedDuration,
}

impl Cluster {
    /// A cluster as it was seen at this time.
    #[must_use]
    pub fn resumed(observations: Vec<Observation>, time: Timestamp) -> Self {
        let mut cluster = Self::new(settings());
        (cluster.is_resumed, cluster.strict, cluster.thorough) = (true, false, false);
        (cluster.preempts, cluster.now, cluster.serial) = (false, time, FIRST_SERIAL);
        cluster.pool = Err("no ScavengerPool was seen".to_owned());
        (cluster.planner, cluster.told) = (Traced::default(), Told::default());
        (cluster.heard_pool, cluster.former_pools) = (None, Vec::new());
        let mut observations = observations;
        for observation in &mut observations {
            if let Observation::ScavengerJob(sj) = observation
                && waits_for_what_is_not_seen(sj)
            {
                sj.controls.suspend = true;
            }
            cluster.take_in(observation);
        }
        let held = cluster.scavenger_jobs.values().filter(|sj| waits_for_what_is_not_seen(sj));
        cluster.not_seen = held.map(|sj| sj.key.clone()).collect();
        cluster.recall();
        for observation in observations {
            cluster.tell(observation);
        }
        cluster
    }

    /// Objects become those of the model. Some may have gone while the others were listed.
    fn take_in(&mut self, observation: &Observation) {
        let version = match observation {
            Observation::ScavengerJob(sj) => sj.resource_version,
            Observation::Job(job) => job.resource_version,
            Observation::Pod(pod) => pod.resource_version,
            _ => 0,
        };
        if i64::try_from(version).is_err() {
            self.broken(&format!("resourceVersion {version} leaves none for what changes"));
        }
        self.version = self.version.max(version);
        match observation.clone() {
            Observation::ScavengerJob(sj) => _ = self.scavenger_jobs.insert(sj.key.clone(), *sj),
            Observation::ScavengerJobGone(key) => _ = self.scavenger_jobs.remove(&key),
            Observation::EndedAttempts(_, uid, ended) => _ = self.ended.insert(uid, ended),
            Observation::Namespace(name, labels) => _ = self.namespaces.insert(name, labels),
            Observation::NamespaceGone(name) => _ = self.namespaces.remove(&name),
            Observation::Job(job) => _ = self.jobs.insert(job.key.clone(), job),
            Observation::JobGone { uid, .. } => self.jobs.retain(|_, job| job.uid != uid),
            Observation::Pod(pod) => self.insert_pod(*pod),
            Observation::PodGone(key) => _ = self.pods.remove(&key),
            Observation::Node(node) => _ = self.nodes.insert(node.name.clone(), node),
            Observation::NodeGone(name) => _ = self.nodes.remove(&name),
            Observation::RuntimeClass(class) => _ = self.runtime_classes.insert(class.name.clone(), class),
            Observation::RuntimeClassGone(name) => _ = self.runtime_classes.remove(&name),
            Observation::Volume(volume) => {
                if let Some(claim) = volume.claim.filter(|_| !volume.affinity.is_empty()) {
                    self.volumes.insert(claim, volume.affinity);
                }
            }
            Observation::Pool(pool) => self.pool = *pool,
            Observation::Counted(counted) => self.shares_written = counted.map(|counted| *counted),
            _ => {}
        }
    }

    /// What the model has to know beside the objects, and what is under way in them.
    fn recall(&mut self) {
        let lost = self.nodes.values().filter(|node| !node.ready);
        self.lost_nodes = lost.map(|node| node.name.clone()).collect();
        for sj in self.scavenger_jobs.values().cloned().collect::<Vec<_>>() {
            self.recall_sj(&sj);
        }
        let mut pods_of: BTreeMap<(Name, u32), Vec<&Pod>> = BTreeMap::new();
        for pod in self.pods.values() {
            if let Some(owner) = &pod.owner {
                pods_of.entry(owner.clone()).or_default().push(pod);
            }
        }
        let jobs = self.jobs.values().map(|job| {
            let pods = pods_of.get(&(job.owner.clone(), job.attempt)).map_or(&[][..], |pods| pods);
            (job.clone(), pods.len(), pods.iter().any(|pod| pod.phase.is_terminal()))
        });
        for (job, pods, has_ended) in jobs.collect::<Vec<_>>() {
            self.recall_job(&job, pods, has_ended);
        }
        for pod in self.pods.values().cloned().collect::<Vec<_>>() {
            self.recall_pod(&pod);
        }
        let free = self.free();
        let waiting = self.pods.values().filter(|pod| pod.node.is_none() && !pod.phase.is_terminal());
        let in_vain = waiting.filter(|pod| {
            let is_refused = || pod.unschedulable.is_some() && self.fitting(pod, &free).is_some();
            !pod.unjudged.is_empty() || pod.scheduler.is_some() || is_refused()
        });
        self.unplaceable = in_vain.map(|pod| pod.uid.clone()).collect();
        self.schedule_soon();
    }

    fn recall_sj(&mut self, sj: &ScavengerJob) {
        let grace = sj.spec.as_ref().map_or(SignedDuration::ZERO, |spec| spec.grace_period);
        let workload = Workload {
            needs: FOREVER,
            grace: grace.max(SignedDuration::ZERO),
            saves: sj.saves_on_sigterm(),
            is_silent: true,
            ..Workload::default()
        };
        self.workloads.insert(sj.key.clone(), workload);
        self.left.insert(sj.key.clone(), FOREVER);
        self.names.insert(sj.uid.clone(), sj.key.clone());
        if let Some(attempt) = sj.status.attempt.as_deref().filter(|attempt| attempt.start_time.is_some()) {
            self.had_started.insert((sj.uid.clone(), attempt.number));
        }
    }

    fn recall_job(&mut self, job: &Job, there: usize, has_ended: bool) {
        self.made.insert((job.owner.clone(), job.attempt));
        let sj = self.names.get(&job.owner).and_then(|key| self.scavenger_jobs.get(key)).cloned();
        let attempt = sj.as_ref().and_then(|sj| sj.status.attempt.as_deref());
        let mut is_whole = false;
        if let (Some(sj), Some(attempt)) = (&sj, attempt.filter(|attempt| attempt.number == job.attempt)) {
            let confinement = self.pool.as_ref().map_or_else(
                |_| Confinement::default(),
                |pool| Confinement {
                    attached: attempt.node.iter().cloned().collect(),
                    ..Confinement::to_pool(pool, [])
                },
            );
            let asked = sj.spec.as_ref().map(|spec| spec.demand.placement.clone()).unwrap_or_default();
            let demand = Demand { placement: confinement.confine(&asked), ..(*attempt.demand).clone() };
            is_whole = there == demand.pod_count as usize;
            // Of an attempt that ran none is still to be made.
            let made = if attempt.start_time.is_some() { demand.pod_count as usize } else { there };
            self.pods_made.insert(job.uid.clone(), u32::try_from(made).unwrap_or(u32::MAX));
            self.pod_templates.insert(job.uid.clone(), demand);
            if attempt.supervised {
                self.supervised.insert(job.uid.clone());
            }
            if let Some(folder) = &sj.folder {
                self.folders.insert(sj.uid.clone(), folder.clone());
            }
        }
        let (key, uid) = (job.key.clone(), job.uid.clone());
        if job.deleting {
            self.deleted_jobs.insert(uid.clone(), (job.clone(), self.now));
            self.after(self.delays.garbage_collector, Event::CollectJob(key, uid));
        } else if !job.is_over() && (has_ended || !is_whole) {
            self.after(self.delays.job_controller, Event::SyncJob(key, uid));
        }
    }

    fn recall_pod(&mut self, pod: &Pod) {
        let (key, uid) = (pod.key.clone(), pod.uid.clone());
        self.pod_times.insert(uid.clone(), pod.creation_time);
        if let Some(owner) = &pod.owner {
            if pod.container.has_started() {
                self.had_started.insert(owner.clone());
            }
            self.placed.entry(owner.clone()).or_default().extend(pod.node.clone());
        }
        if pod.container == Container::Running {
            self.running_since.insert(key.clone(), pod.started.unwrap_or(self.now));
        }
        let is_lost = pod.node.as_ref().is_some_and(|node| self.lost_nodes.contains(node));
        if is_lost {
            return;
        }
        let has_ended = matches!(pod.container, Container::Ended { .. });
        if pod.deletion_requested.is_some() {
            let left = pod.due().map_or(SignedDuration::ZERO, |due| due.duration_since(self.now));
            let left = left.max(SignedDuration::ZERO);
            match pod.container {
                _ if pod.phase.is_terminal() => self.after(millis(20), Event::RemovePod(key, uid)),
                Container::Running => self.after(left, Event::EndContainer(key, uid, 143)),
                Container::Ended { .. } => self.after(left, Event::EndPhase(key, uid)),
                Container::Waiting(_) => self.after(millis(50), Event::RemovePod(key, uid)),
            }
        } else if pod.owner.is_none() || pod.phase.is_terminal() {
            // Ordinary pods stay as they are.
        } else if has_ended && !pod.has_injected {
            self.after(self.delays.pod_phase, Event::EndPhase(key, uid));
        } else if pod.node.is_some() && is_being_created(&pod.container) {
            self.after(self.delays.kubelet, Event::StartContainer(key, uid));
        }
    }

    /// Keeps what a write says of the beginning or the end of an attempt, in a cluster that was resumed.
    pub(super) fn note_step(&mut self, before: &ScavengerJob, write: &StatusWrite) {
        let Some(event) = write.event.filter(|_| self.is_resumed) else { return };
        let attempt = write.status.attempt.as_deref().cloned();
        let end = attempt.as_ref().and_then(|attempt| attempt.end_time);
        let reason = attempt.as_ref().and_then(|attempt| attempt.reason.clone());
        self.steps.push(Step {
            time: self.now,
            sj: before.key.clone(),
            uid: before.uid.clone(),
            event,
            attempt,
            reason: reason.or_else(|| write.status.failure.clone()),
            lost: end
                .filter(|_| event != Published::Completed)
                .map_or(SignedDuration::ZERO, |end| loss::expected(before, end)),
        });
    }

    /// Interruptions that are decided and have not come to their end.
    #[must_use]
    pub fn steps_under_way(&self) -> Vec<Step> {
        let under_way = |sj: &ScavengerJob| {
            let attempt = sj.status.active_attempt()?;
            let decided = attempt.decided()?;
            let end = sj.evicted_by(decided).min(self.now);
            Some(Step {
                time: decided.time,
                sj: sj.key.clone(),
                uid: sj.uid.clone(),
                event: Published::Interrupted,
                attempt: Some(attempt.clone()),
                reason: Some(decided.reason.clone()),
                lost: loss::expected(sj, end),
            })
        };
        self.scavenger_jobs.values().filter_map(under_way).collect()
    }

    /// The nodes of an attempt's pods.
    #[must_use]
    pub fn nodes_of(&self, step: &Step) -> BTreeSet<Name> {
        let number = step.attempt.as_ref().map_or(0, |attempt| attempt.number);
        self.placed.get(&(step.uid.clone(), number)).cloned().unwrap_or_default()
    }
}

/// True unless the kubelet says what keeps it from creating the container.
fn is_being_created(container: &Container) -> bool {
    match container {
        Container::Waiting(None) => true,
        Container::Waiting(Some((reason, _))) => matches!(&**reason, "ContainerCreating" | "PodInitializing"),
        Container::Running | Container::Ended { .. } => false,
    }
}

/// True if it waits for something that no observation shows, so that nobody can say when that is over.
fn waits_for_what_is_not_seen(sj: &ScavengerJob) -> bool {
    let waiting = sj.status.admitted.as_ref().and_then(|admitted| admitted.waiting.as_ref());
    !sj.status.phase.is_active()
        && waiting.is_some_and(|waiting| {
            matches!(
                waiting.reason,
                WaitingReason::QuotaExceeded
                    | WaitingReason::Refused
                    | WaitingReason::NamespaceTerminating
                    | WaitingReason::VolumeUnbound
            )
        })
}

#[cfg(test)]
mod tests {
    use scavenger_planner::{
        fixtures::{budget, key, node, pod, seconds, sj},
        values::{Admitted, Phase, Settings, Waiting},
    };

    use super::*;
    use crate::Random;

    /// Ten ScavengerJobs of one core run on two nodes of eight.
    fn busy(settings: Settings) -> Cluster {
        let nodes = ["n1", "n2"].map(|name| node(name, 8000).labelled("name", name));
        let mut cluster = Cluster::new(settings).with_nodes(nodes);
        for number in 0..10 {
            cluster.submit(sj(&format!("a{number}")), Workload { needs: FOREVER, ..Workload::default() });
        }
        cluster.run_for(seconds(600));
        assert_eq!(cluster.all_live_pods().len(), 10, "{}", cluster.history());
        cluster
    }

    fn filled_to(fraction: f64) -> Settings {
        settings().filled_to(fraction).without_headroom()
    }

    fn resumed(cluster: &Cluster) -> Cluster {
        Cluster::resumed(cluster.objects(), cluster.now)
    }

    fn said(cluster: &Cluster) -> Vec<(i64, String, Option<Reason>)> {
        let since = |step: &Step| step.time.duration_since(cluster.steps[0].time).as_secs();
        let steps = cluster.steps.iter();
        steps
            .map(|step| (since(step), format!("{:?} {}", step.event, step.sj.name), step.reason.clone()))
            .collect()
    }

    #[test]
    fn nothing_happens_to_those_that_run() {
        let mut again = resumed(&busy(filled_to(0.7)));
        again.run_for(seconds(3600));
        assert!(again.steps.is_empty(), "{:?}", said(&again));
        assert_eq!((again.all_live_pods().len(), again.contradiction()), (10, None));
    }

    #[test]
    fn what_waits_starts_once_a_pool_allows_it() {
        // 65% of 16 cores are 10.4, and 80% are 12.8.
        let mut before = busy(filled_to(0.65));
        for number in 0..3 {
            before.submit(sj(&format!("b{number}")), Workload::default());
        }
        before.run_for(seconds(60));
        let mut again = resumed(&before);
        again.set_pool(Ok(filled_to(0.8)));
        again.run_for(seconds(600));
        let started = said(&again);
        assert_eq!(started.len(), 2, "{started:?}");
        assert!(started.iter().all(|(_, what, _)| what.starts_with("Started b")), "{started:?}");
        assert!(again.nodes_of(&again.steps[0]).len() == 1 && again.contradiction().is_none());
        assert_eq!(again.status("b0").phase, Phase::Running);
    }

    #[test]
    fn a_pool_without_a_node_loses_its_scavenger_jobs_in_rounds() {
        let before = busy(filled_to(0.7));
        let mut again = resumed(&before);
        let there = before.all_live_pods().iter().filter(|pod| pod.place() == Some(&"n1".into())).count();
        again.set_pool(Ok(Settings {
            node_selector: [("name".into(), "n2".into())].into(),
            budgets: vec![budget(2, 100)],
            ..filled_to(0.7)
        }));
        again.run_for(seconds(3600));
        let gone: Vec<&Step> =
            again.steps.iter().filter(|step| step.event == Published::Interrupted).collect();
        assert_eq!(gone.len(), there, "{:?}", said(&again));
        assert!(gone.iter().all(|step| step.reason == Some(Reason::NodeLeftPool)), "{:?}", said(&again));
        let decided = |step: &&Step| {
            let disruption = step.attempt.as_ref().unwrap().disruption.as_ref().unwrap();
            disruption.time.duration_since(before.now).as_secs()
        };
        let times: Vec<i64> = gone.iter().map(decided).collect();
        // After a minute, two in each 100 seconds.
        for (place, time) in times.iter().enumerate() {
            let round = 60 + i64::try_from(place / 2).unwrap() * 100;
            assert!((round..round + 5).contains(time), "{times:?}");
        }
        // They ran for 600 s and more, and save every 60 s.
        assert!(gone.iter().all(|step| step.lost < seconds(60)), "{gone:?}");
        assert!(again.steps_under_way().is_empty() && again.contradiction().is_none());
        for step in &gone {
            let attempt = step.attempt.as_ref().unwrap();
            let ended = attempt.end_time.unwrap().duration_since(attempt.disruption.as_ref().unwrap().time);
            assert!(ended < seconds(5), "it is over when its pod shows it: {ended}");
        }
    }

    #[test]
    fn an_ordinary_pod_that_waits_for_something_unknown_goes_on_waiting() {
        let mut before = busy(filled_to(0.7));
        before.scheduler_works = false;
        for (name, cpu) in [("odd", 500), ("large", 7000), ("new", 500)] {
            before.create_pod(pod(name, cpu), FOREVER);
        }
        for name in ["odd", "large"] {
            before.change_pod(&key(name), |pod| {
                pod.unschedulable = Some("0/2 nodes are available: 2 Insufficient cpu.".to_owned());
            });
        }
        before.settle();
        let mut again = resumed(&before);
        again.run_for(seconds(600));
        let is_bound = |name: &str| again.pod(name).unwrap().node.is_some();
        assert_eq!(["odd", "large", "new"].map(is_bound), [false, false, true]);
        assert!(again.steps.is_empty(), "{:?}", said(&again));
    }

    #[test]
    fn those_that_wait_for_a_quota_go_on_waiting() {
        let mut before = busy(filled_to(0.7));
        before.submit(sj("poor"), Workload::default());
        let mut poor = before.stored_sj("poor").clone();
        let waiting = Waiting { reason: WaitingReason::QuotaExceeded, message: "nothing is left".to_owned() };
        poor.status.admitted = Some(Admitted { waiting: Some(waiting), since: before.now });
        before.store_sj(poor);
        let mut again = resumed(&before);
        again.set_pool(Ok(filled_to(0.95)));
        again.run_for(seconds(600));
        assert!(again.steps.is_empty() && again.not_seen == [key("poor")].into(), "{:?}", said(&again));
    }

    /// Whatever is under way when it is looked at, nothing contradicts what comes then.
    #[test]
    fn it_goes_on_from_any_moment() {
        let mut steps = 0;
        for seed in 0..12 {
            let nodes = ["n1", "n2"].map(|name| node(name, 4000).labelled("name", name));
            let mut cluster = Cluster::new(settings()).with_nodes(nodes);
            cluster.random = Some((Random::new(seed), 10));
            (cluster.strict, cluster.thorough) = (false, false);
            for number in 0..4 {
                for sj in [sj(&format!("a{number}")), sj(&format!("gang{number}")).gang(2)] {
                    cluster.submit(sj, Workload { needs: seconds(200), ..Workload::default() });
                }
            }
            for turn in 0..40 {
                let times = Random::new(seed * 100 + turn).below(20_000);
                cluster.run_for(millis(i64::try_from(times).unwrap()));
                match turn % 10 {
                    2 => cluster.create_pod(pod(&format!("p{turn}"), 2500), seconds(60)),
                    4 => cluster.lose_node("n1"),
                    6 => cluster.recover_node("n1"),
                    8 => cluster.delete_sj(&format!("a{}", turn / 10)),
                    _ => {}
                }
                let mut again = resumed(&cluster);
                if turn % 2 == 1 {
                    again.set_pool(Ok(Settings {
                        node_selector: [("name".into(), "n2".into())].into(),
                        ..settings()
                    }));
                }
                again.run_for(seconds(600));
                assert_eq!(again.contradiction(), None, "seed {seed}, turn {turn}: {}", again.history());
                steps += again.steps.len();
            }
        }
        assert!(steps > 400, "{steps}");
    }
}
