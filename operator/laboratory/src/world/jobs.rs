//! The Job controller: the pods of attempts, what they get done, and when a Job is complete or fails.

use super::{
    attempt::{Attempt, Job, Start},
    cluster::{Change, Event, World},
    pod::{Disruption, Owner, Phase},
};
use crate::{
    values::{AttemptId, PodId, Time},
    workload::Scavenger,
};

impl World<'_> {
    /// The ScavengerJob of an attempt.
    #[must_use]
    pub fn spec_of(&self, attempt: AttemptId) -> &Scavenger {
        &self.workload.scavengers[self.attempts[attempt.index()].start.sj.index()]
    }

    pub(super) fn start_attempt(&mut self, start: Start) {
        let id = AttemptId::at(self.attempts.len());
        self.scavengers[start.sj.index()].attempt = Some(id);
        self.attempts.push(Attempt {
            start,
            pods: Vec::new(),
            job: Job::Active,
            work_done: None,
            run: None,
            starved: 0,
            runs: 0,
            live: 0,
            is_over: false,
        });
        let delay = self.drawn(self.delays.new_pods);
        self.after(delay, Event::MakePods(id));
    }

    pub(super) fn make_pods(&mut self, id: AttemptId) {
        let pods = self.spec_of(id).pods;
        for index in 0..pods {
            let pod = self.make_pod(id, index);
            self.attempts[id.index()].pods.push(pod);
        }
    }

    fn make_pod(&mut self, id: AttemptId, index: u32) -> PodId {
        let asked = self.spec_of(id).requests;
        let attempt = &mut self.attempts[id.index()];
        let requests = attempt.start.least.unwrap_or(asked);
        attempt.live += 1;
        let (priority, allowed) = (attempt.start.priority, attempt.start.allowed.clone());
        self.create_pod(Owner::Attempt(id, index), (requests, priority, false), &allowed, 0)
    }

    /// The work goes on as soon as all containers run.
    pub(super) fn begin_work(&mut self, id: AttemptId) {
        let attempt = &self.attempts[id.index()];
        let runs = |pod: &PodId| {
            let pod = &self.pods[pod.index()];
            pod.phase == Phase::Running && pod.deleted.is_none()
        };
        if attempt.run.is_some() || !attempt.pods.iter().all(runs) {
            return;
        }
        let cpu = self.spec_of(id).requests.cpu;
        for pod in self.attempts[id.index()].pods.clone() {
            if let Some(since) = self.pods[pod.index()].idle_since.take() {
                self.tally.idle += cpu * (self.now - since);
            }
        }
        let sj = self.attempts[id.index()].start.sj.index();
        let spec = self.workload.scavengers[sj];
        let state = &mut self.scavengers[sj];
        let restart = if state.first_run.is_some() { spec.restart } else { 0 };
        state.first_run.get_or_insert(self.now);
        let length = spec.time_for(spec.work - state.kept, restart);
        let attempt = &mut self.attempts[id.index()];
        attempt.runs += 1;
        (attempt.run, attempt.starved) = (Some((self.now, restart)), 0);
        let event = Event::WorkDone(id, attempt.runs);
        self.tally.starts += 1;
        self.after(length, event);
    }

    pub(super) fn work_done(&mut self, id: AttemptId, run: u32) {
        let attempt = &self.attempts[id.index()];
        let Some((since, restart)) = attempt.run.filter(|_| attempt.runs == run) else { return };
        let state = self.scavengers[attempt.start.sj.index()];
        let spec = self.spec_of(id);
        let left = since + spec.time_for(spec.work - state.kept, restart) + attempt.starved - self.now;
        if left > 0 {
            return self.after(left, Event::WorkDone(id, run));
        }
        self.account(id, |worked, _| worked);
        let now = self.now;
        let attempt = &mut self.attempts[id.index()];
        attempt.work_done = Some(now);
        self.scavengers[attempt.start.sj.index()].finished = Some(now);
        for pod in attempt.pods.clone() {
            let delay = self.drawn(self.delays.pod_phase);
            self.after(delay, Event::EndPod(pod));
        }
    }

    /// A pod gets SIGTERM: those that save do so, and nothing gets done from now on. Without a grace period it gets SIGKILL, and
    /// none can save.
    pub(super) fn stop_work(&mut self, id: AttemptId, has_grace: bool) {
        if self.attempts[id.index()].run.is_none() {
            return;
        }
        let spec = *self.spec_of(id);
        let lost = self.account(id, |worked, saved| if spec.saves && has_grace { worked } else { saved });
        self.tally.redone += lost;
        self.tally.interruptions += 1;
        let sj = self.attempts[id.index()].start.sj;
        self.scavengers[sj.index()].interruptions += 1;
    }

    /// An attempt that runs got nothing done for so long.
    pub(super) fn starve(&mut self, id: AttemptId, time: Time) {
        let now = self.now;
        let attempt = &mut self.attempts[id.index()];
        if let Some((since, _)) = attempt.run {
            attempt.starved += time.min(now - since - attempt.starved);
        }
    }

    /// The run of the model ends.
    pub(super) fn cut(&mut self, id: AttemptId) {
        if self.attempts[id.index()].run.is_some() {
            self.tally.in_progress += self.account(id, |_, saved| saved);
        }
    }

    /// Counts what a run of an attempt did, and returns what of its work is not kept.
    fn account(&mut self, id: AttemptId, kept: impl Fn(Time, Time) -> Time) -> i64 {
        let Some((since, restart)) = self.attempts[id.index()].run.take() else { return 0 };
        let sj = self.attempts[id.index()].start.sj.index();
        let spec = self.workload.scavengers[sj];
        let starved = self.attempts[id.index()].starved;
        let done = spec.done_after(self.now - since - starved, restart);
        let kept = kept(done.worked, done.saved);
        let cpu = spec.requests.cpu * i64::from(spec.pods);
        self.tally.idle += cpu * starved;
        self.tally.kept += cpu * kept;
        self.tally.restarts += cpu * done.restart;
        self.tally.writing += cpu * done.writing;
        self.scavengers[sj].kept += kept;
        for pod in self.attempts[id.index()].pods.clone() {
            self.pods[pod.index()].idle_since = Some(self.now);
        }
        cpu * (done.worked - kept)
    }

    pub(super) fn pod_of_attempt_ended(&mut self, id: AttemptId) {
        self.attempts[id.index()].live -= 1;
        let delay = self.drawn(self.delays.job_controller);
        self.after(delay, Event::SyncJob(id));
    }

    /// The Job controller looks at a Job after one of its pods has ended.
    pub(super) fn sync_job(&mut self, id: AttemptId) {
        let attempt = &self.attempts[id.index()];
        let (is_done, live, remakes) = (attempt.work_done.is_some(), attempt.live, attempt.start.remakes);
        let has_failed = |pod: &&PodId| self.pods[pod.index()].phase == Phase::Failed;
        let failed: Vec<PodId> = attempt.pods.iter().filter(has_failed).copied().collect();
        if is_done {
            if live == 0 && attempt.job == Job::Active {
                self.set_job(id, Job::Complete(self.now));
                self.over(id);
            }
            return;
        }
        for pod in failed.iter().filter(|pod| !self.pods[pod.index()].is_gone).copied().collect::<Vec<_>>() {
            self.pod_gone(pod);
            if let Owner::Attempt(_, index) = self.pods[pod.index()].owner
                && remakes
            {
                let another = self.make_pod(id, index);
                self.attempts[id.index()].pods[index as usize] = another;
            }
        }
        if remakes || failed.is_empty() {
            return;
        }
        if self.attempts[id.index()].job == Job::Active {
            self.set_job(id, Job::Failed(self.now));
            for pod in self.attempts[id.index()].pods.clone() {
                self.delete_pod(pod, Disruption::JobFailed);
            }
        }
        if self.attempts[id.index()].live == 0 {
            self.over(id);
        }
    }

    fn set_job(&mut self, id: AttemptId, job: Job) {
        self.attempts[id.index()].job = job;
        self.changes.push(Change::Job(id));
    }

    fn over(&mut self, id: AttemptId) {
        let attempt = &mut self.attempts[id.index()];
        if !std::mem::replace(&mut attempt.is_over, true) {
            self.scavengers[attempt.start.sj.index()].attempt = None;
            self.changes.push(Change::Over(id));
        }
    }
}
