//! What the API server does with actions, and what it shows of it.

use std::sync::Arc;

use scavenger_planner::{
    action::{Action, ActionResult, Answer, Failure, StatusWrite, Task},
    values::{Confinement, Job, Key, Name, Placement, ScavengerJob},
};

use super::{ANSWER, Event, Message, Operator, objects};
use crate::{
    values::{Amounts, AttemptId, NodeId, PodId, SjId, Time, stamp},
    world::{Allowed, Order, Owner, Start, World},
};

/// MiB that a pod requests which is counted by use, as in the manifest of the operator.
const LEAST_MEMORY: i64 = 8;

/// Priority of the class `scavenger-0`.
const LOWEST_PRIORITY: i32 = -1_000_000;

impl Operator {
    /// An action reaches the API server.
    pub(super) fn execute(&mut self, action: Action, world: &World<'_>) {
        let (sj, uid) = (action.sj.clone(), action.uid.clone());
        let answer = self.carry_out(action, world);
        let time = world.now + ANSWER;
        let result = ActionResult { sj, uid, time: stamp(time), answer };
        self.send(time, Message::Answer(Box::new(result)));
    }

    fn carry_out(&mut self, action: Action, world: &World<'_>) -> Result<Answer, Failure> {
        let id = objects::sj_of(&action.sj).ok_or(Failure::Gone)?;
        match action.task {
            Task::Prepare { .. } => {
                let mut sj = self.live(id)?.clone();
                if !sj.has_finalizer {
                    sj.has_finalizer = true;
                    sj = self.store(sj, world.now);
                }
                let pods_left = self.pods_left(id, world);
                let (missing, claims) = (Vec::new(), Vec::new());
                Ok(Answer::Prepared { sj: Box::new(sj), pods_left, folder_pod: None, missing, claims })
            }
            Task::WriteStatus(write) => self.write_status(id, *write, world.now),
            Task::CreateJob { attempt, priority_class, confinement, supervisor, by_use } => {
                if supervisor.is_some() {
                    self.checkpoints.supervise(id, attempt);
                }
                let asked = world.workload.scavengers[id.index()].requests;
                let least = by_use.map(|_| Amounts { cpu: 0, memory: LEAST_MEMORY, ..asked });
                self.create_job(id, (attempt, priority_class), &confinement, least, world.now)
            }
            Task::ReadJob { job, uid } => {
                let there = self.attempt_of(&job).and_then(|attempt| self.jobs.get(&attempt));
                Ok(there.cloned().map_or(Answer::JobGone { uid }, |job| Answer::Job(Box::new(job))))
            }
            Task::LookForJob { attempt } => {
                let there = self.attempts.get(&(id, attempt)).and_then(|attempt| self.jobs.get(attempt));
                Ok(there.cloned().map_or(Answer::NoJob { attempt }, |job| Answer::Job(Box::new(job))))
            }
            Task::ListPods { .. } => Ok(self.list_pods(id, world)),
            Task::ReadPodEvents { pods } => {
                Ok(Answer::PodEvents(pods.into_iter().map(|(pod, _)| (pod.name, None)).collect()))
            }
            Task::DeleteJob { job, uid } => {
                self.delete_job(&job, world);
                Ok(Answer::Deleted { uid })
            }
            Task::Interrupt { pods } => {
                let uids: Vec<Name> = pods.into_iter().map(|(_, uid)| uid).collect();
                let pods = uids.iter().filter_map(|uid| objects::pod_of(uid)).collect();
                self.orders.push(Order::Interrupt(pods));
                Ok(Answer::Interrupted { pods: uids })
            }
            // Every deletion has the pod's own grace period.
            Task::DeleteAgain { pods } => {
                Ok(Answer::DeletedAgain { pods: pods.into_iter().map(|(_, uid, _)| uid).collect() })
            }
            Task::DeleteScavengerJob { resource_version } => {
                let mut sj = self.live(id)?.clone();
                if sj.resource_version != resource_version {
                    return Err(Failure::Conflict);
                }
                sj.deleting = true;
                self.store(sj, world.now);
                Ok(Answer::ScavengerJobDeleted)
            }
            Task::RemoveFinalizer { .. } => self.remove_finalizer(id, world),
        }
    }

    fn attempt_of(&self, job: &Key) -> Option<AttemptId> {
        self.attempts.get(&objects::attempt_of(job)?).copied()
    }

    fn live(&self, id: SjId) -> Result<&ScavengerJob, Failure> {
        self.objects[id.index()].as_ref().ok_or(Failure::Gone)
    }

    /// Stores a ScavengerJob in a new version, and shows it.
    pub(super) fn store(&mut self, mut sj: ScavengerJob, now: Time) -> ScavengerJob {
        sj.resource_version = self.next_version();
        if let Some(id) = objects::sj_of(&sj.key) {
            self.objects[id.index()] = Some(sj.clone());
        }
        self.show(now, Event::ScavengerJob(Box::new(sj.clone())));
        sj
    }

    fn write_status(&mut self, id: SjId, write: StatusWrite, now: Time) -> Result<Answer, Failure> {
        let mut sj = self.live(id)?.clone();
        if sj.resource_version != write.resource_version {
            return Err(Failure::Conflict);
        }
        sj.status = scavenger_simulator::stored_status(write.status);
        Ok(Answer::ScavengerJob(Box::new(self.store(sj, now))))
    }

    fn create_job(
        &mut self,
        id: SjId,
        (attempt, class): (u32, u32),
        confinement: &Confinement,
        least: Option<Amounts>,
        now: Time,
    ) -> Result<Answer, Failure> {
        self.live(id)?;
        if let Some(there) = self.attempts.get(&(id, attempt)).and_then(|attempt| self.jobs.get(attempt)) {
            return Ok(Answer::Job(Box::new(there.clone())));
        }
        let start = Start {
            sj: id,
            number: attempt,
            priority: LOWEST_PRIORITY + i32::try_from(class).unwrap_or(0),
            allowed: self.nodes_within(confinement),
            remakes: false,
            least,
        };
        self.orders.push(Order::Start(start));
        let version = self.next_version();
        let job = objects::job(id, attempt, version, now);
        self.show(now, Event::Job(Box::new(job.clone())));
        Ok(Answer::Job(Box::new(job)))
    }

    /// The nodes to which the pool confines pods.
    fn nodes_within(&mut self, confinement: &Confinement) -> Allowed {
        if let Some((_, allowed)) = self.allowed.iter().find(|(known, _)| known == confinement) {
            return allowed.clone();
        }
        let placement = confinement.confine(&Placement::default());
        let admitted = (0..self.nodes.len()).filter(|node| placement.admits(&self.nodes[*node]));
        let admitted: Vec<NodeId> = admitted.map(NodeId::at).collect();
        let allowed = (admitted.len() < self.nodes.len()).then(|| Arc::new(admitted));
        self.allowed.push((confinement.clone(), allowed.clone()));
        allowed
    }

    /// Attempts that have begun since the last look have a Job.
    pub(super) fn follow_attempts(&mut self, world: &World<'_>) {
        while let Some(attempt) = world.attempts.get(self.known_attempts) {
            let id = AttemptId::at(self.known_attempts);
            let (sj, number) = (attempt.start.sj, attempt.start.number);
            self.attempts.insert((sj, number), id);
            self.checkpoints.begin(id, (sj, number));
            self.jobs.insert(id, objects::job(sj, number, self.version, world.now));
            self.known_attempts += 1;
        }
    }

    /// The Job controller has written into a Job.
    pub(super) fn job_changed(&mut self, id: AttemptId, world: &World<'_>) {
        let version = self.next_version();
        let Some(job) = self.jobs.get_mut(&id) else { return };
        objects::job_state(job, world.attempts[id.index()].job);
        job.resource_version = version;
        let job = job.clone();
        self.show(world.now, Event::Job(Box::new(job)));
    }

    /// A Job is deleted in the foreground: it goes when its pods are gone.
    fn delete_job(&mut self, key: &Key, world: &World<'_>) {
        let version = self.next_version();
        let Some(id) = self.attempt_of(key) else { return };
        let Some(job) = self.jobs.get_mut(&id) else { return };
        (job.deleting, job.resource_version) = (true, version);
        let job = job.clone();
        self.show(world.now, Event::Job(Box::new(job)));
        let pods = &world.attempts[id.index()].pods;
        let left = pods.iter().filter(|pod| !world.pods[pod.index()].is_over()).copied().collect();
        self.orders.push(Order::Interrupt(left));
        self.collect(id, world);
    }

    /// The Job controller may make pods of a Job whose deletion it has not heard of: the garbage collector takes them.
    pub(super) fn collect_pod(&mut self, pod: PodId, world: &World<'_>) {
        let state = &world.pods[pod.index()];
        if let Owner::Attempt(attempt, _) = state.owner
            && state.deleted.is_none()
            && !state.is_over()
            && self.jobs.get(&attempt).is_some_and(|job| job.deleting)
        {
            self.orders.push(Order::Interrupt(vec![pod]));
        }
    }

    /// A Job that is being deleted goes once its pods are gone.
    pub(super) fn collect(&mut self, id: AttemptId, world: &World<'_>) {
        let is_deleting = |job: &Job| job.deleting;
        if self.jobs.get(&id).is_some_and(is_deleting) && self.all_gone(id, world) {
            self.drop_job(id, world.now);
        }
    }

    fn all_gone(&self, id: AttemptId, world: &World<'_>) -> bool {
        let attempt = &world.attempts[id.index()];
        !attempt.pods.is_empty() && objects::pods_of(world, std::iter::once(id)).next().is_none()
    }

    fn drop_job(&mut self, id: AttemptId, now: Time) {
        let Some(job) = self.jobs.remove(&id) else { return };
        self.next_version();
        self.show(now, Event::JobGone(Box::new(job)));
    }

    fn of_sj(&self, id: SjId) -> Vec<AttemptId> {
        let number =
            self.objects[id.index()].as_ref().and_then(|sj| Some(sj.status.attempt.as_ref()?.number));
        (1..=number.unwrap_or(0))
            .rev()
            .filter_map(|number| self.attempts.get(&(id, number)).copied())
            .collect()
    }

    fn pods_left(&self, id: SjId, world: &World<'_>) -> u32 {
        let pods = objects::pods_of(world, self.of_sj(id).into_iter());
        u32::try_from(pods.filter(|pod| !world.pods[pod.index()].is_over()).count()).unwrap_or(u32::MAX)
    }

    fn list_pods(&mut self, id: SjId, world: &World<'_>) -> Answer {
        let version = self.next_version();
        let pods = objects::pods_of(world, self.of_sj(id).into_iter());
        let pods = pods.map(|pod| {
            let mut seen = objects::Seen::of(&world.pods[pod.index()], version);
            if let Owner::Attempt(attempt, _) = world.pods[pod.index()].owner {
                seen.supervision = self.checkpoints.of(attempt);
            }
            objects::pod(world, pod, &seen, &self.nodes)
        });
        Answer::Pods { pods: pods.collect(), resource_version: version, create_failure: None }
    }

    /// The last that holds a ScavengerJob is taken off: it goes, and what belongs to it.
    fn remove_finalizer(&mut self, id: SjId, world: &World<'_>) -> Result<Answer, Failure> {
        let pods_left = self.pods_left(id, world);
        let mut sj = self.live(id)?.clone();
        if pods_left > 0 {
            return Ok(Answer::Released { pods_left });
        }
        if !sj.deleting {
            sj.has_finalizer = false;
            self.store(sj, world.now);
            return Ok(Answer::Released { pods_left });
        }
        for attempt in self.of_sj(id) {
            for pod in objects::pods_of(world, std::iter::once(attempt)).collect::<Vec<_>>() {
                self.show(world.now, Event::PodGone(pod));
            }
            self.drop_job(attempt, world.now);
        }
        self.objects[id.index()] = None;
        self.next_version();
        self.show(world.now, Event::ScavengerJobGone(sj.key));
        Ok(Answer::Released { pods_left })
    }
}
