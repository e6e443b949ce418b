//! The order in which ScavengerJobs start.

use std::cmp::Reverse;

use jiff::Timestamp;

use super::hold::HoldId;
use crate::{
    capacity::Ask,
    values::{Key, Name, Phase, ScavengerJob, Settings},
};

/// More interruptions than this do not advance any further.
const MAX_COUNTED_INTERRUPTIONS: u32 = 10;

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
    /// Since when nothing but room has been lacking.
    pub(super) ready_since: Timestamp,
}

impl Rank {
    /// Rank of a ScavengerJob. It has waited since it was created, or since it was last interrupted; a withdrawn
    /// attempt costs no place.
    pub(super) fn of(sj: &ScavengerJob) -> Self {
        let since = match sj.status.phase {
            Phase::Interrupted => sj.status.interruption_times.last().copied(),
            _ => None,
        };
        let waiting_since = since.unwrap_or(sj.creation_time);
        let ready_since = sj.status.not_before.map_or(waiting_since, |time| time.max(waiting_since));
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
        }
    }

    pub(super) fn sj(&self) -> Key {
        Key { namespace: self.namespace.clone(), name: self.name.clone() }
    }
}

/// Number of a line: what its members ask for, whether their last start failed, and whether their namespace is held.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Lane {
    pub(super) ask: Ask,
    pub(super) failed: bool,
    pub(super) hold: Option<HoldId>,
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
    /// Those of them whose last start failed, or whose namespace is held.
    pub failed: usize,
}

impl Starting {
    /// True if one more of these may start.
    pub(super) fn has_room_for(self, failed: bool, settings: &Settings) -> bool {
        let most = settings.max_concurrent_starts;
        self.all < most && (!failed || self.failed < (most / 2).max(1))
    }
}
