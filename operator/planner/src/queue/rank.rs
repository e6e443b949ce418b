//! The order in which ScavengerJobs start.

use std::cmp::Reverse;

use jiff::{SignedDuration, Timestamp};

use crate::{
    backoff::holds::HoldId,
    capacity::Ask,
    values::{Key, Name, ScavengerJob, Settings},
};

/// More interruptions than this do not advance any further.
const MAX_COUNTED_INTERRUPTIONS: u32 = 10;

/// Most work that the end of a loan may cost a borrower that does not save when it is stopped.
const MOST_LOST: SignedDuration = SignedDuration::from_mins(10);

/// Longest grace period of a borrower: so long the holder may wait for it.
const MOST_GRACE: SignedDuration = SignedDuration::from_mins(2);

/// True if reserved capacity may be lent to a ScavengerJob: it ends soon when it is stopped, and loses little then. It
/// saves on SIGTERM, and no attempt has shown otherwise, or it writes a checkpoint every few minutes.
pub(crate) fn may_borrow(sj: &ScavengerJob) -> bool {
    let Ok(spec) = &sj.spec else { return false };
    let loses_little = sj.saves_on_sigterm() || spec.checkpoint_every() <= MOST_LOST;
    loses_little && spec.grace_period <= MOST_GRACE
}

/// What is looked at first to put ScavengerJobs in order; the smallest comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Turn {
    pub(super) interruptions: Reverse<u32>,
    pub(super) waiting_since: Timestamp,
}

/// Place in a line; the smallest comes first. Equal turns lie side by side, sorted by namespace.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank {
    /// When the delay after its last start was over, if that failed.
    pub(super) again: Option<Timestamp>,
    pub(super) turn: Turn,
    pub(super) namespace: Name,
    pub(super) uid: Name,
    pub(super) name: Name,
    pub(super) created: Timestamp,
    /// See [`ScavengerJob::ready_since`].
    pub(super) ready_since: Timestamp,
    /// True if reserved capacity may be lent to it.
    pub(super) borrows: bool,
    /// The claims that it mounts.
    pub(super) claims: Box<[Name]>,
    /// How often in a row its start was withdrawn.
    pub(super) failed_starts: u32,
}

impl Rank {
    /// Rank of a ScavengerJob that waits, or the one it started with. It has waited since it was created, or since it was
    /// last interrupted; a withdrawn attempt costs no place, nor does the end of a loan.
    pub(super) fn of(sj: &ScavengerJob) -> Self {
        let (waiting_since, ready_since) = (sj.waiting_since(), sj.ready_since());
        Self {
            again: (sj.status.failed_starts > 0).then_some(ready_since),
            turn: Turn {
                interruptions: Reverse(sj.status.counted_interruptions.min(MAX_COUNTED_INTERRUPTIONS)),
                waiting_since,
            },
            namespace: sj.key.namespace.clone(),
            uid: sj.uid.clone(),
            name: sj.key.name.clone(),
            created: sj.creation_time,
            ready_since,
            borrows: may_borrow(sj),
            claims: sj.spec.as_ref().map(|spec| spec.claims.as_slice().into()).unwrap_or_default(),
            failed_starts: sj.status.failed_starts,
        }
    }

    pub(super) fn sj(&self) -> Key {
        Key { namespace: self.namespace.clone(), name: self.name.clone() }
    }
}

/// True if a reservation of the first binds the other.
pub(super) fn binds(holder: &Rank, other: &Rank) -> bool {
    other.turn > holder.turn || other.created > holder.turn.waiting_since
}

/// Number of a line: what its members ask for, whether their last start failed, whether their namespace or claim is held, and
/// whether reserved capacity may be lent to them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Lane {
    pub(super) ask: Ask,
    pub(super) failed: bool,
    pub(super) hold: Option<HoldId>,
    pub(super) borrows: bool,
}

impl Lane {
    /// True if a start of its members is more likely to fail than others.
    pub(super) fn is_doubtful(self) -> bool {
        self.failed || self.hold.is_some()
    }
}

/// How many start already.
#[derive(Debug, Clone, Copy, Default)]
pub struct Starting {
    /// All of them.
    pub all: usize,
    /// Those of them whose last start failed, or whose namespace or claim is held.
    pub failed: usize,
}

impl Starting {
    /// True if more than one slot is left.
    pub(super) fn leaves_a_slot(self, settings: &Settings) -> bool {
        self.all.saturating_add(1) < settings.max_concurrent_starts
    }

    /// True if one more of these may start.
    pub(super) fn has_room_for(self, failed: bool, settings: &Settings) -> bool {
        let most = settings.max_concurrent_starts;
        self.all < most && (!failed || self.failed < (most / 2).max(1))
    }
}
