//! What a restart costs is measured by one clock, where it was seen.

use super::*;
use crate::advance::next::next_submission;

const STARTED: &str = "starting mdrun 'W'\n4000 steps, 8.0 ps (continuing from step 1000, 2.0 ps).\n";
/// 2,000 steps of 2 fs, and as many again in 40 s: 4 ps in 40 s are 8.64 ns a day.
const COMPUTES: &str = "starting mdrun 'W'\n4000 steps, 8.0 ps (continuing from step 0, 0.0 ps).\n\
                        \rstep 2000, remaining wall clock time:    40 s \r";

fn attempts(phase: Phase, ended: Option<Outcome>) -> JobView {
    // A kubelet whose clock is three hours ahead.
    let hours_ahead = Some(now() + SignedDuration::from_hours(3));
    let seen = AttemptView { start_time: hours_ahead, ..attempt(1, 1, ended) };
    JobView { attempts: vec![seen], has_run: true, ..job(phase, 1) }
}

fn interrupted(scene: &mut Scene) -> Option<i32> {
    scene.log = Log::NotRead;
    let waits = waits(1, WaitingReason::BackingOff);
    scene.job = Some(JobView {
        phase: Phase::Interrupted,
        ..JobView { message: waits.message, ..attempts(Phase::Interrupted, Some(Outcome::Interrupted)) }
    });
    scene.go().attempts[0].restart_seconds
}

#[test]
fn it_is_the_time_from_when_an_attempt_is_seen_to_its_first_step() {
    // Seen when its pods were made; mdrun says where it starts 12 s later.
    let mut scene = Scene::with_job(submitted(), attempts(Phase::Starting, None));
    scene.go();
    scene.after(12);
    scene.job = Some(attempts(Phase::Running, None));
    let mut scene = scene.read(STARTED);
    assert_eq!(scene.go().status.first_step, Some(1000));
    scene.after(300);
    assert_eq!(interrupted(&mut scene), Some(12));
    assert_eq!(scene.row.status.private.attempt_seen_time, Some(now()));
    assert_eq!(next_submission(&scene.row, String::new()).private.attempt_seen_time, None);
}

#[test]
fn steps_that_were_done_when_progress_was_first_seen_are_taken_off() {
    for (seconds, measured) in [
        // Of 50 s mdrun computed for 40.
        (50, Some(10)),
        // It had computed before anybody saw it.
        (30, None),
        // Nobody looked.
        (4000, None),
    ] {
        let mut scene = Scene::with_job(submitted(), attempts(Phase::Starting, None));
        scene.go();
        scene.after(seconds);
        scene.job = Some(attempts(Phase::Running, None));
        let mut scene = scene.read(COMPUTES);
        scene.go();
        assert_eq!(interrupted(&mut scene), measured, "{seconds} s");
    }
}

#[test]
fn what_nobody_saw_start_measures_nothing() {
    // Its end is the first that is seen of it.
    let mut scene = Scene::with_job(submitted(), attempts(Phase::Starting, None));
    assert_eq!(interrupted(&mut scene), None);
    // Without following, the log is as old as the container runtime wants.
    let mut scene = Scene::with_job(submitted(), attempts(Phase::Running, None)).read(STARTED);
    scene.follows_logs = false;
    scene.go();
    assert_eq!(interrupted(&mut scene), None);
    // A minimisation begins again each time.
    let mut row = submitted();
    let answer = crate::probe::parse_inspection(&ANSWER.replace("integrator=md", "integrator=steep"));
    row.inspected = Some(sqlx::types::Json(answer.expect("should be a good answer").values));
    let mut scene = Scene::with_job(row, attempts(Phase::Running, None)).read(STARTED);
    scene.go();
    assert_eq!(interrupted(&mut scene), None);
}

#[test]
fn a_row_that_completes_has_measured_it_too() {
    let mut scene = Scene::with_job(submitted(), attempts(Phase::Starting, None));
    scene.go();
    scene.after(7);
    scene.job = Some(attempts(Phase::Running, None));
    let mut scene = scene.read(STARTED);
    scene.go();
    scene.after(600);
    scene.job = Some(attempts(Phase::Completed, Some(Outcome::Completed)));
    let step = scene.read(CONTINUED).go();
    assert_eq!((step.status.state, step.attempts[0].restart_seconds), (State::Completed, Some(7)));
}
