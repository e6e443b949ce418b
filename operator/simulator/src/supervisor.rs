//! What supervisors do in pods: they report checkpoints, and leave a message when the workload has ended.

use super::{
    api::stored,
    cluster::{Cluster, Event},
    key, millis,
};
use jiff::{SignedDuration, Timestamp};
use scavenger_planner::values::{
    Container, Cpu, CpuTime, EndReport, Key, LiveReport, Name, Observation, Pod, PodPhase, Stop,
};
use scavenger_vocabulary::supervisor::PROGRAM;

/// Why the supervisor of a workload cannot be started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unstartable {
    /// Its image cannot be pulled: the kubelet's message.
    Pull(String),
    /// The node mounts its volume noexec.
    NoExec,
}

impl Cluster {
    /// The workload of a ScavengerJob wrote a checkpoint just now, which the supervisors of all its pods report.
    pub fn report_checkpoint(&mut self, name: &str) {
        let pods: Vec<Key> = self.running_pods(name).collect();
        for pod in pods {
            self.report_of(&pod, 0, None);
        }
    }

    /// The supervisors of all its pods report what their threads have run and waited for, in seconds since they started.
    pub fn report_cpu(&mut self, name: &str, run: i64, wait: i64) {
        let pods: Vec<Key> = self.running_pods(name).collect();
        let total = CpuTime { run: super::seconds(run), wait: super::seconds(wait) };
        for pod in pods {
            let Some(uid) = self.pods.get(&pod).map(|pod| pod.uid.clone()) else { continue };
            let checkpoint = self.checkpoints.get(&uid).copied();
            let cpu = Some(Cpu { total, since_checkpoint: total });
            self.reported_cpu.insert(uid.clone(), (self.now, total));
            self.tell(Observation::Report(LiveReport { pod, uid, checkpoint, progress: None, cpu }));
        }
        self.turn();
    }

    /// The supervisor of a pod reports a checkpoint that is so many seconds old, and how far the workload has come.
    pub fn report_of(&mut self, pod: &Key, age: i64, progress: Option<f64>) {
        let Some(there) = self.pods.get(pod) else { return };
        let checkpoint = self.now - super::seconds(age);
        let report = LiveReport {
            pod: pod.clone(),
            uid: there.uid.clone(),
            checkpoint: Some(checkpoint),
            progress,
            cpu: None,
        };
        let known = self.checkpoints.entry(there.uid.clone()).or_insert(checkpoint);
        *known = checkpoint.max(*known);
        self.tell(Observation::Report(report));
        self.turn();
    }

    fn running_pods(&self, name: &str) -> impl Iterator<Item = Key> {
        let uid = self.scavenger_jobs.get(&key(name)).map(|sj| sj.uid.clone());
        let of_sj = move |pod: &&Pod| pod.owner.as_ref().map(|(owner, _)| owner) == uid.as_ref();
        self.pods
            .values()
            .filter(of_sj)
            .filter(|pod| pod.container == Container::Running)
            .map(|pod| pod.key.clone())
    }

    /// The init container of a pod that runs under the supervisor. True if the pod does not start because of it.
    pub(super) fn bring_supervisor(&mut self, pod: &Pod) -> bool {
        if pod.supervisor.is_none() {
            return false;
        }
        let now = stored(self.now);
        match self.workload_of(pod).no_supervisor {
            Some(Unstartable::Pull(message)) => {
                let waits = Container::Waiting(Some(("ErrImagePull".to_owned(), message)));
                self.change_pod(&pod.key, |pod| pod.supervisor = Some(Box::new(waits)));
                return true;
            }
            Some(Unstartable::NoExec) => {
                let message = format!("exec: \"{PROGRAM}\": permission denied");
                self.change_pod(&pod.key, |pod| {
                    pod.container = Container::Ended {
                        exit_code: 128,
                        reason: "StartError".to_owned(),
                        message,
                        time: Some(now),
                        started: false,
                    };
                });
                self.after(millis(300), Event::EndPhase(pod.key.clone(), pod.uid.clone()));
                return true;
            }
            None => {}
        }
        let done = Container::Ended {
            exit_code: 0,
            reason: "Completed".to_owned(),
            message: String::new(),
            time: Some(now),
            started: true,
        };
        self.change_pod(&pod.key, |pod| pod.supervisor = Some(Box::new(done)));
        false
    }

    /// What the supervisor of a pod leaves whose container ends now: nothing if it is killed without a word.
    pub(super) fn last_words(&self, pod: &Pod, exit_code: i32, reason: &str) -> Option<EndReport> {
        pod.supervisor.as_ref()?;
        let workload = self.workload_of(pod);
        let told = pod.deletion_requested.is_some();
        // A failure keeps its own message, and a node that went down leaves none.
        if reason == "ContainerStatusUnknown" || !(told || exit_code == 0) || workload.is_silent {
            return None;
        }
        let saved = told && workload.saves;
        let reported = self.checkpoints.get(&pod.uid).copied();
        let stop = match told {
            false => Stop::NotAsked,
            true if workload.saves => Stop::Answered,
            true => Stop::Unanswered,
        };
        let checkpoint = if saved { Some(self.now) } else { reported };
        Some(EndReport { checkpoint, progress: None, cpu: self.counted_now(pod), stop })
    }

    /// What the threads of a pod have had by now, if it went on as it was reported. No checkpoint is counted.
    fn counted_now(&self, pod: &Pod) -> Option<Cpu> {
        let (time, total) = self.reported_cpu.get(&pod.uid)?;
        let ran = |until: Timestamp| until.duration_since(pod.started.unwrap_or(until)).as_secs_f64();
        let by_now = |part: SignedDuration| part.mul_f64(ran(self.now) / ran(*time).max(1.0));
        let total = CpuTime { run: by_now(total.run), wait: by_now(total.wait) };
        Some(Cpu { total, since_checkpoint: total })
    }

    /// A pod of a Job whose workload runs under the supervisor.
    pub(super) fn supervise(&self, job: &Name, pod: &mut Pod, index: u32) {
        pod.index = Some(index);
        if self.supervised.contains(job) {
            pod.supervisor = Some(Box::new(Container::Waiting(None)));
        }
    }

    /// True if a pod runs under the supervisor.
    #[must_use]
    pub fn is_supervised(&self, pod: &Key) -> bool {
        self.pods.get(pod).is_some_and(|pod| pod.supervisor.is_some() && pod.phase != PodPhase::Failed)
    }

    /// When the newest checkpoint of a pod was written.
    #[must_use]
    pub fn checkpoint_of(&self, pod: &Key) -> Option<Timestamp> {
        self.checkpoints.get(&self.pods.get(pod)?.uid).copied()
    }
}
