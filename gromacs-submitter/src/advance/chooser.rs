//! Which configuration a row goes on with: of those that nothing rules out the one that is expected to be done first.
//!
//! Rows with a reason to change ask: a row that waits (`waiting.rs`), and one that runs with less than there is capacity for
//! (`growth.rs`). It says of each configuration when the row is expected to be done with it, which is its waiting and what is
//! left at the speed that is predicted, corrected by what was measured (`ladder.rs`), and what rules it out. What is in use is
//! one of two: refused, so that another is taken whatever it takes; or still to be had, so that another must be done sooner.
//! Refused is what nodes, the scheduler, a quota or the API server do not take, and what found no capacity for as long as the
//! row waits for it.
//!
//! What the tuner proposes is narrowed before: configurations that mdrun refuses (`refused.rs`), with too little memory or less
//! than the row's least (`ladder.rs`), or for the wrong processor (`elsewhere.rs`) are none of the ladder.

use jiff::{SignedDuration, Timestamp};
use scavenger_schema::simulation::LadderRung;
use scavenger_vocabulary::Reason;

use super::ladder::{asks_for, place};
use super::words::RuledOut;
use crate::view::{AttemptView, JobView};

/// Less gain is not worth a change: predictions are wrong by as much.
pub(super) const LEAST_GAIN: f64 = 0.1;

/// A configuration that was chosen freely, since another would be done sooner, stays for so long. What is refused, and what the
/// cluster has interrupted, is replaced at once.
const SETTLED_AFTER: SignedDuration = SignedDuration::from_secs(3600);

/// A configuration that could be taken.
#[derive(Debug, Clone, Copy)]
pub(super) struct Offer<'a> {
    pub(super) rung: &'a LadderRung,
    /// Seconds until the row is expected to be done with it, its waiting included; infinite if nobody knows.
    pub(super) seconds: f64,
    pub(super) ruled_out: Option<RuledOut>,
}

/// What is taken.
#[derive(Debug, Clone)]
pub(super) struct Choice<'a> {
    pub(super) rung: &'a LadderRung,
    pub(super) seconds: f64,
    /// Those that would be done sooner, and what rules them out.
    passed_over: Vec<(&'a LadderRung, RuledOut)>,
}

/// The configuration that is expected to be done first of those that nothing rules out, the first of equals. It must take less
/// than `limit` seconds, where what is in use is still to be had.
pub(super) fn choose<'a>(offers: impl Iterator<Item = Offer<'a>>, limit: Option<f64>) -> Option<Choice<'a>> {
    let (ruled_out, left): (Vec<Offer<'a>>, Vec<_>) = offers.partition(|offer| offer.ruled_out.is_some());
    let is_enough = |offer: &&Offer<'a>| limit.is_none_or(|limit| offer.seconds < limit);
    let best = left.iter().filter(is_enough).min_by(|one, other| one.seconds.total_cmp(&other.seconds))?;
    let sooner = ruled_out.iter().filter(|offer| offer.seconds < best.seconds);
    let passed_over = sooner.filter_map(|offer| Some((offer.rung, offer.ruled_out?))).collect();
    Some(Choice { rung: best.rung, seconds: best.seconds, passed_over })
}

impl Choice<'_> {
    /// `configuration 3 of 4, 1 core; not 2: no free capacity`.
    pub(super) fn words(&self, ladder: &[LadderRung]) -> String {
        let (number, all) = (place(ladder, self.rung.rung), ladder.len());
        let mut words = format!("configuration {number} of {all}, {}", asks_for(self.rung));
        for (rung, why) in &self.passed_over {
            words.push_str(&format!("; not {}: {why}", place(ladder, rung.rung)));
        }
        words
    }
}

/// True if the row was stopped to grow lately, by the clock of the operator, which says when attempts began.
pub(super) fn has_grown_lately(job: &JobView, now: Timestamp) -> bool {
    let grew = |before: &AttemptView, after: &AttemptView| {
        before.reason == Some(Reason::Suspended) && before.rung != after.rung
    };
    let mut pairs = job.attempts.windows(2).rev();
    let last =
        pairs.find_map(|pair| pair.first().zip(pair.last()).filter(|(before, after)| grew(before, after)));
    last.is_some_and(|(_, after)| is_lately(after.creation_time, now))
}

/// True if its ScavengerJob was given another configuration lately, for whatever reason.
pub(super) fn was_changed_lately(job: &JobView, now: Timestamp) -> bool {
    job.change_time.is_some_and(|time| is_lately(time, now))
}

fn is_lately(time: Timestamp, now: Timestamp) -> bool {
    now.duration_since(time) < SETTLED_AFTER
}
