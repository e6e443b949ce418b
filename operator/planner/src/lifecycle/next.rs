//! What the rules about one ScavengerJob answer: values, which nobody but [`crate::lifecycle::transition`] turns into a status.

use jiff::Timestamp;

use crate::values::{
    CheckpointRequest, Disruption, Ending, Measured, Name, ObservedSaves, Outcome, Reason, Waiting,
    WaitingReason, action::Task,
};

/// What is to be done about one ScavengerJob.
#[derive(Debug, Clone, PartialEq)]
pub enum Next {
    /// Something that leaves its status as it is.
    Do(Task),
    /// A change of its status.
    Change(Transition),
    /// A change of its status that only informs: it waits for its turn in the budget of such writes. Whatever comes first,
    /// it is looked at again at this time.
    Inform(Transition, Option<Timestamp>),
    /// Nothing until something is seen, or until this time.
    Wait(Option<Timestamp>),
    /// The supervisors of its pods ask for a checkpoint; it is looked at again at this time.
    Ask(CheckpointRequest, Timestamp),
    /// It may start as soon as there is capacity for it.
    Candidate,
    /// It waits for another reason than capacity; to be reported if its status does not say so yet.
    Held(Waiting, Option<Timestamp>),
    /// The capacity that is reserved for it is of no use now: give it back and look again at this time.
    GiveBack(Waiting, Timestamp),
}

/// One step in the life of a ScavengerJob, as its status tells it.
#[derive(Debug, Clone, PartialEq)]
pub enum Transition {
    /// An attempt starts: the status says so before the Job is created.
    Start,
    /// All pods of the attempt run, or have run.
    Run {
        /// UID of its Job.
        job_uid: Name,
    },
    /// The active attempt is to be interrupted: the reason is on record before its pods are evicted.
    OrderInterruption(Disruption),
    /// The attempt ended: what that makes of the ScavengerJob follows from the outcome.
    End(Ending),
    /// The attempt was taken away after a container had started.
    Interrupt(Ending, Waiting),
    /// The attempt ended because not all of its pods could start.
    Withdraw(Ending, Waiting),
    /// The ScavengerJob is completed, or failed.
    Finish(Ending),
    /// What the supervisor reported is put on record.
    Report,
    /// What was found out about the work of the last attempt is put on record.
    Measure(Measured, Option<ObservedSaves>),
    /// What holds its deletion.
    ExplainDeletion(String),
    /// A spec that changes nothing was seen.
    Observe,
}

impl Transition {
    /// A start that did not come off for a reason for which the ScavengerJob waits.
    #[must_use]
    pub fn withdraw(reason: WaitingReason, message: String) -> Self {
        let ending = Ending::new(Outcome::Withdrawn, Reason::from(reason), message.clone());
        Self::Withdraw(ending, Waiting { reason, message })
    }

    /// A start that failed for a reason that may pass and is not the workload's own; it is tried again after a delay.
    #[must_use]
    pub fn give_up(reason: Reason, message: String) -> Self {
        let waiting = Waiting { reason: WaitingReason::BackingOff, message: message.clone() };
        Self::Withdraw(Ending::new(Outcome::Withdrawn, reason, message), waiting)
    }

    /// The ScavengerJob failed.
    #[must_use]
    pub fn fail(reason: Reason, message: String) -> Self {
        Self::Finish(Ending::failed(reason, message))
    }
}
