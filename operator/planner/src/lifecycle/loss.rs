//! The expected loss: what would be thrown away if a ScavengerJob were stopped now. One order for everything that
//! stops ScavengerJobs: whoever loses least goes first.
//!
//! Loss = weighted resources × (time since the last checkpoint + time that a restart costs). The time since the last
//! checkpoint is the ScavengerJob's own priority step, so it changes only at steps. It is never more than the time
//! between two checkpoints (`checkpoint.interval`, or else `interruptionAfter`); once a checkpoint was reported it
//! rises to `interruptionAfter` and stays there for as long again. It is 0 for a workload that saves when it is
//! stopped, and before it runs.
//!
//! Where the supervisor reports the processor time of the workload, the share that it got of what it could have used counts of the
//! time since the last checkpoint: one that waits idle beside busy ordinary pods has little to lose. In the order it counts in tenths,
//! rounded up, as the time does in steps: what any two workloads measure differs by a little.

use std::cmp::Reverse;

use jiff::{SignedDuration, Timestamp};

use super::priority::{self, Stretch};
use crate::values::{Attempt, Name, Outcome, Reason, ScavengerJob, resources::Weights};

/// What is lost if one ScavengerJob is stopped. The order is the order in which they go.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Loss {
    /// Weighted resources (billionths) times milliseconds.
    pub amount: u128,
    /// Who was interrupted less often goes first.
    pub interrupted_count: u32,
    /// Then whose last reported checkpoint, or else whose start, is newer: within a step that loses less. Before it runs
    /// there is nothing to lose.
    pub began: Reverse<Timestamp>,
    /// Then by UID.
    pub uid: Name,
}

impl Loss {
    /// Loss of a ScavengerJob with an active attempt, if it were stopped at `now`.
    #[must_use]
    pub fn of(sj: &ScavengerJob, weights: &Weights, priority_steps: i32, now: Timestamp) -> Self {
        let held = sj.status.active_attempt().map(|attempt| attempt.demand.total()).unwrap_or_default();
        let (unsaved, restart) = match &sj.spec {
            Ok(spec) => (milliseconds(unsaved(sj, priority_steps, now)), milliseconds(spec.restart)),
            Err(_) => (0, 0),
        };
        Self {
            amount: weights.weigh(&held).saturating_mul(unsaved + restart),
            interrupted_count: sj.status.interrupted_count,
            began: Reverse(Stretch::of(sj).map_or(Timestamp::MAX, |stretch| stretch.began)),
            uid: sj.uid.clone(),
        }
    }
}

/// The run time that a ScavengerJob is expected to lose if it is stopped at `end`: the time itself, which the steps only
/// round, so that it can be compared with what is measured afterwards.
#[must_use]
pub fn expected(sj: &ScavengerJob, end: Timestamp) -> SignedDuration {
    let Some(stretch) = Stretch::of(sj).filter(|_| !sj.saves_on_sigterm()) else {
        return SignedDuration::ZERO;
    };
    let time = priority::elapsed(&stretch, end);
    sj.status.cpu_share.map_or(time, |share| share.of_time(time))
}

/// The run time that a ScavengerJob would lose if it were stopped at `now`, rounded up to a step.
#[must_use]
fn unsaved(sj: &ScavengerJob, priority_steps: i32, now: Timestamp) -> SignedDuration {
    match Stretch::of(sj) {
        Some(stretch) if !sj.saves_on_sigterm() => {
            let step = priority::step(&stretch, priority_steps, now);
            let unsaved = share_of_stretch(stretch.length, step.level, priority_steps);
            let unsaved = SignedDuration::from_millis(i64::try_from(unsaved).unwrap_or(i64::MAX));
            sj.status.cpu_share.map_or(unsaved, |share| share.up_to_tenths().of_time(unsaved))
        }
        _ => SignedDuration::ZERO,
    }
}

/// What the time that an attempt ran was good for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Work {
    /// Time whose results are kept.
    pub useful: SignedDuration,
    /// Time whose results are lost and computed again.
    pub lost: SignedDuration,
    /// True if nothing at all is kept.
    pub before_first_checkpoint: bool,
}

impl Work {
    /// Work of an attempt of a ScavengerJob, its last one or the one before, once it has ended; none if it did not run.
    ///
    /// What was measured counts; time for which it had no processors is then neither kept nor lost. Otherwise what was done up to the last checkpoint is kept: one that was reported, or else
    /// the end of the last whole `checkpoint.interval` (or `interruptionAfter`), by which the workload promises to have
    /// written one. A workload that completes, or that saves when it is stopped and was told to, keeps everything.
    #[must_use]
    pub fn of_ended(sj: &ScavengerJob, attempt: &Attempt) -> Option<Self> {
        let (start, end) = (attempt.start_time?, attempt.end_time?);
        let ran = end.duration_since(start).max(SignedDuration::ZERO);
        let spec = sj.spec.as_ref().ok()?;
        if let Some(lost) = attempt.measured.lost {
            let worked = attempt.measured.worked.map_or(ran, |worked| worked.min(ran));
            let useful = (worked - lost).max(SignedDuration::ZERO);
            let before_first_checkpoint = attempt.measured.last_checkpoint.is_none() && useful.is_zero();
            return Some(Self { useful, lost: worked - useful, before_first_checkpoint });
        }
        let saved = match attempt.outcome? {
            Outcome::Completed => true,
            // One that was told to stop; the reason says whether anybody could.
            Outcome::Interrupted => {
                sj.saves_on_sigterm() && attempt.reason.as_ref().is_some_and(Reason::got_sigterm)
            }
            Outcome::Failed => false,
            Outcome::Withdrawn => return None,
        };
        let reported = sj.status.last_checkpoint.filter(|checkpoint| *checkpoint > start);
        let reported = reported.map(|checkpoint| checkpoint.duration_since(start));
        let every = milliseconds(spec.checkpoint_every());
        let promised = every.saturating_mul(milliseconds(ran) / every.max(1));
        let promised = SignedDuration::from_millis(i64::try_from(promised).unwrap_or(i64::MAX));
        let useful = if saved { ran } else { reported.unwrap_or(promised).min(ran) };
        Some(Self { useful, lost: ran - useful, before_first_checkpoint: !saved && useful.is_zero() })
    }

    /// True once nothing more will be found out about an attempt that has ended. One under the supervisor that was taken
    /// away is judged when its pods show it, and what they leave comes with a later write.
    #[must_use]
    pub fn is_settled(attempt: &Attempt) -> bool {
        let may_say_more = attempt.supervised && attempt.outcome == Some(Outcome::Interrupted);
        attempt.outcome.is_some() && (!may_say_more || attempt.measured.says_something())
    }
}

/// Time up to the end of step `level`, in milliseconds.
fn share_of_stretch(stretch: SignedDuration, level: i32, steps: i32) -> u128 {
    let level = u128::try_from(level).unwrap_or(0);
    let steps = u128::try_from(steps.max(1)).unwrap_or(1);
    milliseconds(stretch) * level / steps
}

fn milliseconds(duration: SignedDuration) -> u128 {
    u128::try_from(duration.as_millis()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        fixtures::{at, seconds, settings, sj},
        values::{Attempt, Phase, resources::Share},
    };

    fn running(name: &str, since: i64) -> ScavengerJob {
        let mut sj = sj(name);
        sj.status.phase = Phase::Running;
        let demand = sj.spec.as_ref().unwrap().demand.clone();
        let attempt = Attempt { start_time: Some(at(since)), ..Attempt::first(demand, at(since)) };
        sj.status.attempt = Some(Box::new(attempt));
        sj
    }

    fn work(sj: &ScavengerJob) -> Option<Work> {
        Work::of_ended(sj, sj.status.attempt.as_ref()?)
    }

    fn amount(sj: &ScavengerJob, now: i64) -> u128 {
        Loss::of(sj, &settings().weights, 3, at(now)).amount
    }

    #[test]
    fn it_rises_at_steps_and_falls_when_a_stretch_is_over() {
        let sj = running("a", 0);
        let per_second = amount(&sj, 0) / 80;
        // 20 s steps of a 60 s stretch, and 60 s for the restart.
        for (now, seconds) in [(0, 80), (19, 80), (20, 100), (59, 120), (60, 80), (125, 80)] {
            assert_eq!(amount(&sj, now), per_second * seconds, "{now}");
        }
    }

    #[test]
    fn a_checkpoint_makes_it_cheap_again() {
        let mut sj = running("a", 0);
        let fresh = amount(&sj, 0);
        assert!(amount(&sj, 50) > fresh);
        sj.status.last_checkpoint = Some(at(45));
        assert_eq!(amount(&sj, 50), fresh);
        assert!(amount(&sj, 66) > fresh);
        // One of an earlier attempt says nothing.
        sj.status.last_checkpoint = Some(at(-45));
        assert!(amount(&sj, 50) > fresh);
    }

    /// Two that get all that they can use measure a little less, and not the same.
    #[test]
    fn what_is_measured_of_the_processors_counts_in_tenths() {
        let mut sj = running("a", 0);
        let per_second = amount(&sj, 0) / 80;
        // 20 s of a step, and 60 s for the restart.
        for (got, seconds) in [(0.97, 80), (0.91, 80), (0.9, 78), (0.41, 70), (0.0, 60)] {
            sj.status.cpu_share = Some(Share::from_fraction(got));
            assert_eq!(amount(&sj, 0), per_second * seconds, "{got}");
        }
    }

    #[test]
    fn with_reports_it_does_not_fall_while_a_checkpoint_is_late() {
        let mut sj = running("a", 0);
        let per_second = amount(&sj, 0) / 80;
        sj.status.last_checkpoint = Some(at(30));
        // A stretch of 60 s that began at 30, and 60 s for the restart.
        // After as long again it is as if nothing had been reported.
        for (now, seconds) in [(30, 80), (89, 120), (90, 120), (149, 120), (150, 80), (209, 120), (210, 80)] {
            assert_eq!(amount(&sj, now), per_second * seconds, "{now}");
        }
    }

    #[test]
    fn the_checkpoints_own_interval_counts_where_it_is_known() {
        let mut sj = running("a", 0);
        let per_second = amount(&sj, 0) / 80;
        sj.spec.as_mut().unwrap().checkpoint_interval = Some(seconds(45));
        // At 61 s the last checkpoint is 16 s old, not 1 s.
        for (now, seconds) in [(0, 75), (44, 105), (46, 75), (61, 90), (90, 75)] {
            assert_eq!(amount(&sj, now), per_second * seconds, "{now}");
        }
        let attempt = sj.status.attempt.as_mut().unwrap();
        (attempt.end_time, attempt.outcome) = (Some(at(100)), Some(Outcome::Failed));
        assert_eq!(work(&sj).unwrap().useful, seconds(90));
        sj.status.last_checkpoint = Some(at(50));
        assert_eq!(work(&sj).unwrap().useful, seconds(50), "what is reported is known");
    }

    #[test]
    fn who_saves_when_stopped_loses_the_restart_only() {
        let mut sj = running("a", 0);
        let before_it_ran = Loss::of(
            &ScavengerJob { status: crate::values::ScavengerJobStatus::default(), ..sj.clone() },
            &settings().weights,
            3,
            at(0),
        );
        assert_eq!(before_it_ran.amount, 0, "nothing is held");
        sj.spec.as_mut().unwrap().saves_on_sigterm = true;
        let restart_only = amount(&sj, 59);
        assert_eq!(restart_only, amount(&sj, 0));
        sj.spec.as_mut().unwrap().restart = seconds(0);
        assert_eq!(amount(&sj, 59), 0);
    }

    #[test]
    fn ties_go_to_the_less_interrupted_then_the_newer_checkpoint_then_the_younger() {
        let loss = |sj: &ScavengerJob| Loss::of(sj, &settings().weights, 3, at(30));
        let (old, young) = (running("old", 21), running("young", 25));
        assert_eq!(amount(&old, 30), amount(&young, 30));
        assert!(loss(&young) < loss(&old));
        let mut saved = old.clone();
        saved.status.last_checkpoint = Some(at(28));
        assert!(loss(&saved) < loss(&young), "in the same step, but with a newer checkpoint");
        let mut often = young;
        often.status.interrupted_count = 1;
        assert!(loss(&old) < loss(&often));
    }

    #[test]
    fn work_is_kept_up_to_the_last_checkpoint() {
        let ended = |seconds: i64, outcome| {
            let mut sj = running("a", 0);
            let attempt = sj.status.attempt.as_mut().unwrap();
            attempt.end_time = Some(at(seconds));
            attempt.outcome = Some(outcome);
            sj
        };
        let kept = |sj: &ScavengerJob| work(sj).map(|work| (work.useful.as_secs(), work.lost.as_secs()));
        // Stretches of 60 s.
        assert_eq!(kept(&ended(150, Outcome::Interrupted)), Some((120, 30)));
        assert_eq!(kept(&ended(150, Outcome::Failed)), Some((120, 30)));
        assert_eq!(kept(&ended(150, Outcome::Completed)), Some((150, 0)));
        assert_eq!(kept(&ended(150, Outcome::Withdrawn)), None);
        assert!(work(&ended(59, Outcome::Interrupted)).unwrap().before_first_checkpoint);
        let mut saves = ended(50, Outcome::Interrupted);
        saves.spec.as_mut().unwrap().saves_on_sigterm = true;
        for (reason, work) in [
            (Reason::PreemptionByScheduler, (50, 0)),
            (Reason::Headroom, (50, 0)),
            (Reason::Deleted, (50, 0)),
            (Reason::DeletionByPodGC, (0, 50)),
            (Reason::DeletionByTaintManager, (0, 50)),
            (Reason::NodeFailure, (0, 50)),
            (Reason::Unknown, (0, 50)),
        ] {
            saves.status.attempt.as_mut().unwrap().reason = Some(reason.clone());
            assert_eq!(kept(&saves), Some(work), "{reason}");
        }
        let mut reported = ended(150, Outcome::Interrupted);
        for (checkpoint, work) in [(-10, (120, 30)), (140, (140, 10)), (500, (150, 0))] {
            reported.status.last_checkpoint = Some(at(checkpoint));
            assert_eq!(kept(&reported), Some(work), "{checkpoint}");
        }
        assert_eq!(kept(&running("a", 0)), None);
    }
}
