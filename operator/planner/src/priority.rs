//! The running priority: the longer a ScavengerJob has run since its last checkpoint, the more would be lost if it
//! were stopped, so its priority rises in equal steps over `interruptionAfter` and then starts over.

use jiff::{SignedDuration, Timestamp};

use crate::values::{ScavengerJob, ScavengerJobStatus, Settings};

/// The step at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// 1 to the number of steps: time since the stretch began, rounded up to a step.
    pub level: i32,
    /// When the current stretch began, if at least one was completed since `stretch_began`.
    pub started_over: Option<Timestamp>,
    /// When the step changes next.
    pub until: Timestamp,
}

/// The step of a ScavengerJob whose stretch began at `stretch_began`.
#[must_use]
pub fn step(
    stretch_began: Timestamp,
    interruption_after: SignedDuration,
    steps: i32,
    now: Timestamp,
) -> Step {
    let stretch = i64::try_from(interruption_after.as_millis()).unwrap_or(i64::MAX).clamp(1, i64::MAX / 4);
    let steps = i64::from(steps.max(1));
    let elapsed = now.as_millisecond().saturating_sub(stretch_began.as_millisecond()).max(0);
    let completed = elapsed / stretch;
    let within = elapsed % stretch;
    let level = (within * steps / stretch).min(steps - 1) + 1;
    let began = stretch_began.as_millisecond() + completed * stretch;
    // Rounded up: at `until` the next step must really have begun, or the timer would fire in vain.
    let until = began + (level * stretch + steps - 1) / steps;
    Step {
        level: i32::try_from(level).expect("a level of at most `steps` should fit"),
        started_over: (completed > 0).then(|| millisecond(began)),
        until: millisecond(until),
    }
}

/// When the stretch of the active attempt began: when it started to run, or at its last reported checkpoint if that
/// came later. None before it runs.
#[must_use]
pub fn stretch_began(status: &ScavengerJobStatus) -> Option<Timestamp> {
    let started = status.active_attempt()?.start_time?;
    Some(status.last_checkpoint.map_or(started, |checkpoint| checkpoint.max(started)))
}

/// The step of a running ScavengerJob: 1 to the pool's `prioritySteps`. None before it runs, and without settings.
#[must_use]
pub fn level(sj: &ScavengerJob, settings: &Settings, now: Timestamp) -> Option<i32> {
    let (began, spec) = (stretch_began(&sj.status)?, sj.spec.as_ref().ok()?);
    Some(step(began, spec.interruption_after, settings.priority_steps, now).level)
}

/// When the running priority of the active attempt last fell back to 1: at the end of a whole stretch, or at a reported
/// checkpoint. What is on record stays where that is not known.
#[must_use]
pub fn started_over(
    sj: &ScavengerJob,
    settings: Result<&Settings, &str>,
    now: Timestamp,
) -> Option<Timestamp> {
    let recorded = sj.status.priority_start_over;
    let (Ok(settings), Ok(spec), Some(began)) = (settings, &sj.spec, stretch_began(&sj.status)) else {
        return recorded;
    };
    let started = sj.status.active_attempt().and_then(|attempt| attempt.start_time);
    let reported = sj.status.last_checkpoint.filter(|time| Some(*time) > started);
    let step = step(began, spec.interruption_after, settings.priority_steps, now);
    step.started_over.or(reported).or(recorded.filter(|time| Some(*time) >= started))
}

fn millisecond(millisecond: i64) -> Timestamp {
    Timestamp::from_millisecond(millisecond).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_000_000 + second).unwrap()
    }

    #[test]
    fn rises_in_equal_steps_and_starts_over() {
        let level = |second| step(at(0), SignedDuration::from_secs(90), 3, at(second));
        assert_eq!(level(0), Step { level: 1, started_over: None, until: at(30) });
        assert_eq!(level(30), Step { level: 2, started_over: None, until: at(60) });
        assert_eq!(level(89), Step { level: 3, started_over: None, until: at(90) });
        assert_eq!(level(90), Step { level: 1, started_over: Some(at(90)), until: at(120) });
        assert_eq!(level(271), Step { level: 1, started_over: Some(at(270)), until: at(300) });
    }

    #[test]
    fn a_clock_that_went_back_is_the_lowest_step() {
        assert_eq!(step(at(0), SignedDuration::from_secs(90), 3, at(-5)).level, 1);
    }

    proptest::proptest! {
        #[test]
        fn the_step_holds_until_it_says(after in 1_000_i64..10_000_000, steps in 1..10_i32, elapsed in 0_i64..100_000_000) {
            let began = at(0);
            let now = began + SignedDuration::from_millis(elapsed);
            let after = SignedDuration::from_millis(after);
            let this = step(began, after, steps, now);
            proptest::prop_assert!((1..=steps).contains(&this.level));
            proptest::prop_assert!(this.until > now);
            let before = step(began, after, steps, this.until - SignedDuration::from_millis(1));
            proptest::prop_assert_eq!(before.level, this.level);
            let then = step(began, after, steps, this.until);
            proptest::prop_assert!(then.level != this.level || then.started_over != this.started_over);
        }
    }
}
