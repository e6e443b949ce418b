//! One ScavengerJob, and what the planner keeps of it.

use jiff::Timestamp;

use super::{
    live::Live,
    memory::{Promise, Remembered},
    reported::{self, Reported, Telling},
    usage::Meter,
};
use crate::{
    backoff::Turn,
    values::{
        Disruption, Explanation, LiveReport, Phase, ScavengerJob, WaitingReason,
        action::{Failure, Ordered},
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
    /// started once has waited since then, whoever took its folder or its volume meanwhile: else those that come after it
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
    pub(crate) fn hold(&mut self, why: &Explanation, now: Timestamp) -> Telling {
        reported::hold(&self.sj, &mut self.reported, why, now)
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
