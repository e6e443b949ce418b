//! The running priority: the longer a ScavengerJob has run since its last checkpoint, the more would be lost if it were
//! stopped, so its priority rises in equal steps until the next checkpoint (`checkpoint.interval`, or else
//! `interruptionAfter`) and then starts over. Where the workload's checkpoints are reported, the priority starts over
//! with each of them, rises over `interruptionAfter`, and stays at its highest step for as long again if the next one
//! is late. A workload that is silent for longer says no more than one that never reported, and its priority starts
//! over.

use jiff::{SignedDuration, Timestamp};

use crate::values::{ScavengerJob, Settings};

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

/// The time since the last checkpoint, as far as anybody knows.
#[derive(Debug, Clone, Copy)]
pub struct Stretch {
    /// When the active attempt started to run, or its last reported checkpoint.
    pub began: Timestamp,
    /// How long it is until the next checkpoint.
    pub length: SignedDuration,
    /// True if the workload reports its checkpoints: then none was written before it says so.
    pub is_reported: bool,
}

/// After so many times its length without a report, a stretch that began with one is as any other: nobody is protected
/// forever by one report.
const SILENT: i64 = 2;

impl Stretch {
    /// That of a ScavengerJob; none before it runs.
    pub fn of(sj: &ScavengerJob) -> Option<Self> {
        let started = sj.status.active_attempt()?.start_time?;
        let reported = sj.status.last_checkpoint.filter(|checkpoint| *checkpoint >= started);
        let spec = sj.spec.as_ref().ok()?;
        // Of a promised checkpoint nobody knows whether it was written: it counts as soon as it is due.
        let length = if reported.is_some() { spec.interruption_after } else { spec.checkpoint_every() };
        Some(Self { began: reported.unwrap_or(started), length, is_reported: reported.is_some() })
    }
}

/// Milliseconds since a stretch began, and those of its length.
fn milliseconds(stretch: &Stretch, now: Timestamp) -> (i64, i64) {
    let length = i64::try_from(stretch.length.as_millis()).unwrap_or(i64::MAX).clamp(1, i64::MAX / 4);
    (now.as_millisecond().saturating_sub(stretch.began.as_millisecond()).max(0), length)
}

/// The time that has passed in a stretch at `now`: since its beginning, or since it last started over.
pub fn elapsed(stretch: &Stretch, now: Timestamp) -> SignedDuration {
    let (elapsed, length) = milliseconds(stretch, now);
    let starts_over = !stretch.is_reported || elapsed >= length * SILENT;
    SignedDuration::from_millis(if starts_over { elapsed % length } else { elapsed })
}

/// The step at one moment of a stretch. The next stretch begins when this one is over, or with the next report where
/// checkpoints are reported: one that is late leaves all the more to lose.
pub fn step(stretch: &Stretch, steps: i32, now: Timestamp) -> Step {
    let (elapsed, length) = milliseconds(stretch, now);
    let steps = i64::from(steps.max(1));
    let as_level = |level: i64| i32::try_from(level).expect("a level of at most `steps` should fit");
    if stretch.is_reported && (length..length * SILENT).contains(&elapsed) {
        let until = millisecond(stretch.began.as_millisecond() + length * SILENT);
        return Step { level: as_level(steps), started_over: None, until };
    }
    let completed = elapsed / length;
    let within = elapsed % length;
    let level = (within * steps / length).min(steps - 1) + 1;
    let began = stretch.began.as_millisecond() + completed * length;
    // Rounded up: at `until` the next step must really have begun, or the timer would fire in vain.
    let until = began + (level * length + steps - 1) / steps;
    Step {
        level: as_level(level),
        started_over: (completed > 0).then(|| millisecond(began)),
        until: millisecond(until),
    }
}

/// The step of a running ScavengerJob: 1 to the pool's `prioritySteps`. None before it runs, and without settings.
pub fn level(sj: &ScavengerJob, settings: &Settings, now: Timestamp) -> Option<i32> {
    Some(step(&Stretch::of(sj)?, settings.priority_steps, now).level)
}

/// When the running priority of the active attempt last fell back to 1: at the end of a whole stretch, or at a reported
/// checkpoint. What is on record stays where that is not known.
pub fn started_over(
    sj: &ScavengerJob,
    settings: Result<&Settings, &str>,
    now: Timestamp,
) -> Option<Timestamp> {
    let recorded = sj.status.priority_start_over;
    let (Ok(settings), Some(stretch)) = (settings, Stretch::of(sj)) else { return recorded };
    let started = sj.status.active_attempt().and_then(|attempt| attempt.start_time);
    let step = step(&stretch, settings.priority_steps, now);
    let reported = stretch.is_reported.then_some(stretch.began);
    step.started_over.or(reported).or(recorded.filter(|time| Some(*time) >= started))
}

fn millisecond(millisecond: i64) -> Timestamp {
    Timestamp::from_millisecond(millisecond).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stretch(began: Timestamp, length: SignedDuration) -> Stretch {
        Stretch { began, length, is_reported: false }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_000_000 + second).unwrap()
    }

    #[test]
    fn rises_in_equal_steps_and_starts_over() {
        let level = |second| step(&stretch(at(0), SignedDuration::from_secs(90)), 3, at(second));
        assert_eq!(level(0), Step { level: 1, started_over: None, until: at(30) });
        assert_eq!(level(30), Step { level: 2, started_over: None, until: at(60) });
        assert_eq!(level(89), Step { level: 3, started_over: None, until: at(90) });
        assert_eq!(level(90), Step { level: 1, started_over: Some(at(90)), until: at(120) });
        assert_eq!(level(271), Step { level: 1, started_over: Some(at(270)), until: at(300) });
    }

    #[test]
    fn where_checkpoints_are_reported_it_waits_for_the_next_on_the_highest_step() {
        let reported = Stretch { is_reported: true, ..stretch(at(0), SignedDuration::from_secs(90)) };
        assert_eq!(step(&reported, 3, at(89)).level, 3);
        let late = Step { level: 3, started_over: None, until: at(180) };
        assert_eq!(step(&reported, 3, at(90)), late);
        assert_eq!(step(&reported, 3, at(179)), late);
        assert_eq!(elapsed(&reported, at(179)), SignedDuration::from_secs(179));
    }

    #[test]
    fn one_report_and_then_silence_protects_nobody_forever() {
        let reported = Stretch { is_reported: true, ..stretch(at(0), SignedDuration::from_secs(90)) };
        let silent = Step { level: 1, started_over: Some(at(180)), until: at(210) };
        assert_eq!(step(&reported, 3, at(180)), silent);
        assert_eq!(step(&reported, 3, at(100_000)), step(&stretch(at(0), reported.length), 3, at(100_000)));
        assert_eq!(elapsed(&reported, at(181)), SignedDuration::from_secs(1));
    }

    #[test]
    fn a_clock_that_went_back_is_the_lowest_step() {
        assert_eq!(step(&stretch(at(0), SignedDuration::from_secs(90)), 3, at(-5)).level, 1);
    }

    proptest::proptest! {
        #[test]
        fn the_step_holds_until_it_says(after in 1_000_i64..10_000_000, steps in 1..10_i32, elapsed in 0_i64..100_000_000) {
            let began = at(0);
            let now = began + SignedDuration::from_millis(elapsed);
            let after = SignedDuration::from_millis(after);
            let stretch = stretch(began, after);
            let this = step(&stretch, steps, now);
            proptest::prop_assert!((1..=steps).contains(&this.level));
            proptest::prop_assert!(this.until > now);
            let before = step(&stretch, steps, this.until - SignedDuration::from_millis(1));
            proptest::prop_assert_eq!(before.level, this.level);
            let then = step(&stretch, steps, this.until);
            proptest::prop_assert!(then.level != this.level || then.started_over != this.started_over);
        }
    }
}
