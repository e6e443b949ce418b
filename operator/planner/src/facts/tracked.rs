//! One ScavengerJob with its Jobs and pods, what the planner remembers of it beside what the cluster shows, and what its status was
//! last written to say.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::{Deref, DerefMut},
    sync::{Arc, LazyLock},
};

use jiff::{SignedDuration, Timestamp};

use super::{
    evidence::Evidence,
    live::{Live, Meter},
};
use crate::{
    backoff::Turn,
    values::{
        Attempt, Demand, Disruption, Explanation, Job, KillCause, LiveReport, Name, Phase, Pod, ScavengerJob,
        Shortage, Waiting, WaitingReason,
        action::{Failure, Ordered, PodEvent},
        later,
    },
};

/// One ScavengerJob, and what the planner keeps of it.
#[derive(Debug)]
pub(crate) struct Tracked {
    /// As it is stored, with what its supervisor reported and what was measured since laid over it.
    pub(super) sj: ScavengerJob,
    live: Option<Box<Live>>,
    meter: Option<Box<Meter>>,
    pub(super) counted: Option<(Phase, Option<WaitingReason>)>,
    pub(crate) memory: Remembered,
    pub(crate) turn: Turn,
    pub(crate) promise: Promise,
    /// What its status was last written to say.
    pub(crate) reported: Reported,
    /// A status that must be written because an action was refused for good.
    pub(crate) refused: Option<Failure>,
    /// Why an attempt of this number is to be interrupted, until the status says so.
    pub(crate) order: Option<Box<(u32, Disruption)>>,
}

impl Tracked {
    pub(super) fn new(sj: ScavengerJob) -> Self {
        Self {
            sj,
            live: None,
            meter: None,
            counted: None,
            memory: Remembered::default(),
            turn: Turn::default(),
            promise: Promise::default(),
            reported: Reported::default(),
            refused: None,
            order: None,
        }
    }

    /// Replaces it by a newer version, and forgets what that makes void. Returns the number of its attempt.
    pub(super) fn update(&mut self, sj: ScavengerJob) -> u32 {
        let attempt = |sj: &ScavengerJob| sj.status.attempt.as_ref().map(|attempt| attempt.number);
        if attempt(&self.sj) != attempt(&sj) {
            // What was reported was about an earlier attempt.
            self.live = None;
            self.meter = None;
            self.reported.forget();
            let may_create = self.memory.may_create;
            self.memory = Remembered::default();
            if may_create.is_some() {
                self.memory.may_create = may_create;
            }
        } else if self.sj.generation != sj.generation {
            // Another spec may refer to other things.
            self.memory.prepared = None;
            self.memory.given_back = None;
            self.memory.missing_since = None;
        }
        self.sj = sj;
        if let Some(live) = &mut self.live {
            live.rebase(&mut self.sj);
        }
        if let Some(meter) = &mut self.meter {
            meter.rebase(&mut self.sj);
        }
        self.put_off();
        self.turn.changed();
        attempt(&self.sj).unwrap_or(0)
    }

    /// Takes in whether its user keeps it from starting, and whether it was in the queue until now. One that could have
    /// started once has waited since then, even if another took its folder or its volume meanwhile: else those that come after it
    /// could keep it waiting forever by taking turns. While it is suspended it does not wait for anybody.
    pub(crate) fn set_held_back(&mut self, held_back: bool, was_ready: bool, now: Timestamp) {
        if held_back {
            if was_ready && !self.sj.controls.suspend {
                self.memory.could_start = Some(self.sj.ready_since());
            } else if !self.memory.held_back
                && (self.sj.controls.suspend || self.memory.could_start.is_none())
            {
                (self.memory.held_back, self.memory.could_start) = (true, None);
            }
            return;
        }
        // After a restart only the status tells.
        let said = self.sj.status.admitted.as_ref().and_then(|admitted| admitted.waiting.as_ref());
        let was_said = said.is_some_and(|waiting| {
            matches!(
                waiting.reason,
                WaitingReason::FolderInUse
                    | WaitingReason::Suspended
                    | WaitingReason::VolumeInUse
                    | WaitingReason::VolumeUnknown
            )
        });
        if self.memory.held_back || was_said && self.memory.could_start.is_none() {
            (self.memory.held_back, self.memory.could_start) = (false, Some(now));
            self.put_off();
        }
    }

    /// Lets its status say that it could not start before. Written with whatever is written next, so it outlives a restart.
    fn put_off(&mut self) {
        if let Some(time) = self.memory.could_start.filter(|_| !self.sj.status.phase.is_active()) {
            let not_before = self.sj.status.not_before.get_or_insert(time);
            *not_before = time.max(*not_before);
        }
    }

    /// What is to be done so that its status says why it waits.
    pub(crate) fn writing_of(&mut self, why: &Explanation, now: Timestamp) -> Writing {
        writing_of(&self.sj, &mut self.reported, why, now)
    }

    /// The ScavengerJob in its newest version.
    pub(crate) fn sj(&self) -> &ScavengerJob {
        &self.sj
    }

    /// Takes in what a pod of its active attempt reports.
    pub(crate) fn report(&mut self, index: Option<u32>, report: &LiveReport, now: Timestamp) {
        let live = self.live.get_or_insert_default();
        live.note(&self.sj, index, report, now);
        live.overlay(&mut self.sj);
    }

    /// Takes in a sample of all pods of its active attempt, and says whether it is worth a write.
    pub(crate) fn measure(&mut self, pods: u32, time: Timestamp, cpu_milli: i64, memory_bytes: i64) -> bool {
        let Some(attempt) = self.sj.status.active_attempt() else { return false };
        // What it did before all of its pods ran says nothing about its work.
        if pods != attempt.demand.pod_count || attempt.start_time.is_none_or(|start| time < start) {
            return false;
        }
        let number = attempt.number;
        let meter = self.meter.get_or_insert_with(|| Meter::of(&self.sj, number).into());
        meter.add(time, cpu_milli, memory_bytes);
        self.sj.status.usage = Some(meter.usage().into());
        meter.has_news()
    }

    /// Names of the pods of its active attempt that get next to no processor time, as far as this planner has heard.
    pub(crate) fn starved_pods(&self) -> impl Iterator<Item = &Name> {
        let live = self.live.iter().filter(|_| self.sj.status.starved_since.is_some());
        live.flat_map(|live| live.starved())
    }

    /// True if the supervisor of its active attempt has reported.
    pub(crate) fn is_heard(&self) -> bool {
        self.live.as_ref().is_some_and(|live| live.is_heard(&self.sj))
    }

    /// True if its supervisor reported something, or something was measured of it, that is to be stored.
    pub(crate) fn has_news(&self) -> bool {
        self.live.as_ref().is_some_and(|live| live.has_news(&self.sj))
            || self.meter.as_ref().is_some_and(|meter| meter.has_news())
    }

    /// Orders the interruption of its active attempt. False if it has none, or if that was decided before: the first cause
    /// is the one on record.
    pub(crate) fn order_interruption(&mut self, order: &Ordered, now: Timestamp) -> bool {
        let Some(attempt) = self.sj.status.active_attempt().filter(|_| !self.is_decided()) else {
            return false;
        };
        let decision = Disruption::decided(order.reason.clone(), order.message.clone(), now);
        self.order = Some(Box::new((attempt.number, decision)));
        true
    }

    /// True if the interruption of its active attempt was ordered, or is on record.
    pub(crate) fn is_decided(&self) -> bool {
        let attempt = self.sj.status.active_attempt();
        attempt.is_some_and(|attempt| attempt.decided().is_some() || self.ordered().is_some())
    }

    /// The reason for which its active attempt is to be interrupted, while the status does not say it yet.
    pub(crate) fn ordered(&self) -> Option<&Disruption> {
        let number = self.sj.status.attempt.as_ref().map(|attempt| attempt.number);
        self.order.as_ref().filter(|order| Some(order.0) == number).map(|order| &order.1)
    }
}

/// Jobs and pods of one ScavengerJob; they may be seen before it.
#[derive(Debug, Default)]
pub(crate) struct Attachments {
    pub(crate) jobs: BTreeMap<Name, Arc<Job>>,
    pub(crate) pods: BTreeMap<Name, Arc<Pod>>,
    pub(super) evidence: BTreeMap<u32, Box<Evidence>>,
    /// UID of the Job that was last seen to go: a late answer must not bring it back.
    pub(super) gone_job: Option<Name>,
    /// UID of a Job that an answer showed and the watch did not yet, and when. If it goes in a gap of the watch,
    /// nobody will ever say so.
    pub(crate) unwatched_job: Option<(Name, Timestamp)>,
}

impl Attachments {
    /// Those of a ScavengerJob that has none.
    pub(crate) fn none() -> &'static Self {
        static NONE: LazyLock<Attachments> = LazyLock::new(Attachments::default);
        &NONE
    }

    /// Pods that hold capacity on a node, and which node.
    pub(crate) fn bound(&self) -> impl Iterator<Item = (&Name, &Pod)> {
        let alive = self.pods.values().filter(|pod| !pod.phase.is_terminal());
        alive.filter_map(|pod| Some((pod.node.as_ref()?, &**pod)))
    }

    /// True if no pod is left that has not ended.
    pub(crate) fn all_ended(&self) -> bool {
        self.pods.values().all(|pod| pod.phase.is_terminal())
    }

    /// What the pods of an attempt showed.
    pub(crate) fn evidence(&self, attempt: Option<&Attempt>) -> &Evidence {
        let evidence = attempt.and_then(|attempt| self.evidence.get(&attempt.number));
        evidence.map_or(Evidence::none(), |evidence| evidence)
    }

    /// True if only answers showed this Job so far.
    pub(super) fn is_unwatched(&self, job: &Name) -> bool {
        self.unwatched_job.as_ref().is_some_and(|(uid, _)| uid == job)
    }
}

/// What the planner remembers of one ScavengerJob. Losing it costs a look at the API server, never correctness.
#[derive(Debug, Clone, Default)]
pub struct Memory {
    /// Answer to the last [`crate::values::action::Task::Prepare`], while capacity is reserved.
    pub prepared: Option<Prepared>,
    /// Why the last start could not be made, and when that was found.
    pub given_back: Option<(Waiting, Timestamp)>,
    /// Since when something that the spec refers to was found missing.
    pub missing_since: Option<Timestamp>,
    /// The attempt, if this planner knows that no Job was made for it yet.
    pub may_create: Option<u32>,
    /// The attempt whose Job was made and vanished.
    pub lost_job: Option<u32>,
    /// The attempt whose pods were listed live after its Job was over or gone.
    pub listed: Option<u32>,
    /// True while the list that is under way asks why the Job controller made no pods.
    pub asks_why: bool,
    /// UIDs of the active attempt's pods that were evicted, and when; the watch may not show it yet.
    pub evicted: BTreeMap<Name, Timestamp>,
    /// The attempt that is not waited for any more, if it is asked for a checkpoint: somebody who cannot wait counts on its
    /// capacity.
    pub hurried: Option<u32>,
    /// Why containers of the active attempt's pods were killed for memory, by the pods' UIDs, as the agents of their nodes say.
    pub killed_by: BTreeMap<Name, KillCause>,
    /// UIDs of pods that were deleted again, with their own grace period.
    pub deleted_again: BTreeSet<Name>,
    /// Set once it was asked live why the Job controller made no pods.
    pub create_failure: Option<CreateFailure>,
    /// Newest events of the pods that did not start in time, and when they were read.
    pub pod_events: Option<PodEvents>,
    /// The attempt whose pods were all made.
    pub taken: Option<u32>,
    /// Since when the active attempt's Job is refused for a reason that may pass, and the newest of the sentences.
    pub not_made: Option<(Timestamp, String)>,
    /// Live reads that found no Job although pods of the attempt are left.
    pub no_job: Option<NoJob>,
    /// True while its user keeps it from starting, and it could not have started before.
    pub held_back: bool,
    /// Since when it could have started. Its status says so as the time before which it could not.
    pub could_start: Option<Timestamp>,
    /// When this planner first saw that it is being deleted.
    pub deleting_since: Option<Timestamp>,
}

/// [`Memory`] that takes memory only while something is in it: of a hundred thousand ScavengerJobs most just wait.
#[derive(Debug, Clone, Default)]
pub struct Remembered(Option<Box<Memory>>);

impl Deref for Remembered {
    type Target = Memory;

    fn deref(&self) -> &Memory {
        static NOTHING: LazyLock<Memory> = LazyLock::new(Memory::default);
        self.0.as_deref().unwrap_or(&NOTHING)
    }
}

impl DerefMut for Remembered {
    fn deref_mut(&mut self) -> &mut Memory {
        self.0.get_or_insert_default()
    }
}

/// Live reads of an attempt's Job that found none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoJob {
    /// Number of the attempt.
    pub attempt: u32,
    /// The first of them.
    pub first: Timestamp,
    /// The last of them.
    pub last: Timestamp,
}

/// When the newest events of pods were read, and the event of each pod that has one.
pub type PodEvents = (Timestamp, Vec<(Name, Option<PodEvent>)>);

/// Why the Job controller made no pods.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateFailure {
    /// When it was asked.
    pub asked: Timestamp,
    /// What was said by the part that refused the pods, if anything.
    pub said: Option<String>,
}

/// Answer to a [`crate::values::action::Task::Prepare`].
#[derive(Debug, Clone)]
pub struct Prepared {
    /// Pods that have not ended.
    pub pods_left: u32,
    /// A pod of another ScavengerJob that has not ended and works in the same folder.
    pub folder_pod: Option<Name>,
    /// Kind and name of what does not exist.
    pub missing: Vec<(String, String)>,
}

/// What is remembered of the promise to one ScavengerJob.
#[derive(Debug, Default)]
pub(crate) struct Promise {
    /// The attempt for which capacity was reserved after a restart, so that it is done once.
    pub(crate) recovered: Option<u32>,
    /// What it asked for when capacity was reserved; the spec may be replaced until the start is written.
    reserved_for: Option<Box<Demand>>,
}

impl Promise {
    /// Capacity was reserved for this demand.
    pub(crate) fn made_for(&mut self, demand: Demand) {
        self.reserved_for = Some(Box::new(demand));
    }

    /// True if capacity was reserved for this demand, and not for one that the spec asked for before.
    pub(crate) fn is_for(&self, demand: &Demand) -> bool {
        self.reserved_for.as_deref() == Some(demand)
    }
}

/// How often the message of a ScavengerJob that waits is written again at most, if only its numbers changed.
pub(crate) const WRITE_EVERY: SignedDuration = SignedDuration::from_secs(60);

/// What the status of a ScavengerJob was last written to say.
#[derive(Debug, Default)]
pub(crate) struct Reported {
    /// When its status was last written by this planner, or first found to have grown old.
    pub(crate) time: Option<Timestamp>,
    /// The shortage that it names.
    shortage: Option<Box<Shortage>>,
    /// Whether there are only reports to write, and since when something is.
    pub(crate) due: Option<(bool, Timestamp)>,
}

impl Reported {
    /// A status is written that says this.
    pub(crate) fn note(&mut self, why: &Explanation) {
        self.shortage = why.shortage.clone().map(Box::new);
    }

    /// Another attempt: what was written was about the one before.
    pub(crate) fn forget(&mut self) {
        (self.time, self.shortage) = (None, None);
    }
}

/// What is to be done so that a status says why its ScavengerJob waits.
#[derive(Debug)]
pub(crate) enum Writing {
    /// Nothing: it says so.
    Done,
    /// It is to be written as soon as the budget allows; see [`Reported::note`].
    Due,
    /// It says so with numbers that have grown old, and was written a moment ago: to be written at this time.
    NotBefore(Timestamp),
}

/// What is to be done so that the status says why a ScavengerJob waits. Another reason is written soon. Another
/// message for the same reason is written at most every [`WRITE_EVERY`], and not at all for numbers that hardly changed.
pub(super) fn writing_of(
    sj: &ScavengerJob,
    reported: &mut Reported,
    why: &Explanation,
    now: Timestamp,
) -> Writing {
    let status = &sj.status;
    let said = status.admitted.as_ref().and_then(|admitted| admitted.waiting.as_ref());
    if let Some(said) = said
        && status.written
        && status.observed_generation == sj.generation
        && said.reason == why.waiting.reason
    {
        let is_news = match (&why.shortage, &reported.shortage) {
            (Some(new), Some(old)) => new.is_news_after(old),
            // After a restart: what was written for the same reason is taken for the shortage there is now.
            (Some(new), None) if reported.time.is_none() => {
                reported.shortage = Some(Box::new(new.clone()));
                false
            }
            _ => true,
        };
        if said.message == why.waiting.message || !is_news {
            return Writing::Done;
        }
        let again = later(*reported.time.get_or_insert(now), WRITE_EVERY);
        if now < again {
            return Writing::NotBefore(again);
        }
    }
    Writing::Due
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        fixtures::{at, sj},
        values::{Admitted, Waiting, WaitingReason},
    };

    fn why(resource: &str, left: i64) -> Explanation {
        let message = format!("needs 3 {resource}, but only {left} are left");
        let shortage =
            Shortage { resource: Some(resource.to_owned()), left, whole: 100, message: message.clone() };
        Explanation {
            waiting: Waiting { reason: WaitingReason::NoCapacity, message },
            shortage: Some(shortage),
        }
    }

    #[test]
    fn only_another_shortage_and_numbers_that_changed_much_are_news() {
        let mut sj = sj("a");
        let mut reported = Reported::default();
        let first = why("cpu", 8);
        let Writing::Due = writing_of(&sj, &mut reported, &first, at(0)) else {
            panic!("nothing was said yet")
        };
        reported.note(&first);
        sj.status.written = true;
        sj.status.observed_generation = sj.generation;
        sj.status.admitted = Some(Admitted { waiting: Some(first.waiting), since: at(0) });
        reported.time = Some(at(0));
        let mut after = |why: Explanation, second: i64| match writing_of(&sj, &mut reported, &why, at(second))
        {
            Writing::Done => "said",
            Writing::NotBefore(time) if time == at(60) => "later",
            Writing::NotBefore(_) => "at another time",
            Writing::Due => "now",
        };
        assert_eq!(after(why("cpu", 8), 5), "said");
        assert_eq!(after(why("cpu", 6), 5), "said", "a quarter less");
        assert_eq!(after(why("cpu", 5), 5), "later");
        assert_eq!(after(why("memory", 8), 5), "later");
        assert_eq!(after(why("cpu", 6), 90), "said");
        assert_eq!(after(why("cpu", 5), 90), "now");
    }
}
