//! What a row cannot have, and what becomes of it then; requests that come at odd moments.

use super::*;

fn inspecting() -> Scene {
    let mut row = row();
    row.status.state = State::Inspecting;
    row.system = scavenger_schema::simulation::System::default();
    Scene::of(row)
}

fn inspected() -> JobView {
    let mut done = attempt(1, 1, Some(Outcome::Completed));
    done.message = Some(ANSWER.to_owned());
    JobView { attempts: vec![done], ..job(Phase::Completed, 1) }
}

#[test]
fn a_refused_configuration_leaves_the_one_there_is() {
    let mut row = submitted();
    row.status.rung = Some(3);
    row.status.next_rung = Some(1);
    row.status.private.no_room_since = Some(now());
    let status = with_refusal(&row, 1, "spec.resources.requests: at most 1 cpu", now());
    assert_eq!((status.state, status.rung, status.next_rung), (State::Submitted, Some(3), None));
    assert_eq!(
        (status.private.no_room_since, status.private.no_room_seconds),
        (None, 0.0),
        "it has all its time again"
    );
    assert_eq!(
        status.reason.as_deref(),
        Some("stays as it is; Kubernetes refuses configuration 1: spec.resources.requests: at most 1 cpu")
    );
    assert_eq!(status.next_attempt_time.to_jiff(), now() + SignedDuration::from_secs(300));
}

#[test]
fn without_a_pool_nothing_is_made() {
    let mut scene = inspecting();
    scene.pool = None;
    let step = scene.go();
    assert_eq!((&step.action, step.status.state), (&Action::Settle, State::Inspecting));
    assert_eq!(reason(&step), "there is no ScavengerPool \"default\"");
}

#[test]
fn an_inspection_that_ran_out_of_memory_is_made_anew_with_more() {
    let mut scene = inspecting();
    let mut killed = failed_job(Reason::OOMKilled);
    killed.attempts[0].memory_bytes = Some(256 << 20);
    scene.probe = Some(killed.clone());
    let step = scene.go();
    assert_eq!(step.status.state, State::Inspecting);
    assert_eq!(step.status.private.probe_outgrown_memory_bytes, Some(256 << 20));
    assert_eq!(step.status.private.outgrown_memory_bytes, None, "mdrun was not killed");
    let (status, rungs) =
        with_ladder(&scene.row, ladder(), scene.pool.as_ref(), &[]).expect("should be a ladder");
    assert_eq!(rungs, ladder(), "mdrun is offered what the tuner thinks it needs");
    assert!(!status.reason.unwrap_or_default().contains("memory"));
    assert_eq!(
        reason(&step),
        "gromacs-7-inspect was killed with 256 MiB of memory; reads the file with more"
    );
    assert_eq!(scene.step().action, Action::DeleteProbe(Probe::Inspection));
    scene.probe = None;
    assert_eq!(scene.step().action, Action::CreateProbe(Probe::Inspection));
    let settings = crate::fixtures::manifest_settings();
    let made =
        crate::manifest::probe_job(&scene.row, Probe::Inspection, &settings, &crate::fixtures::terms());
    assert_eq!(made.spec.resources.requests["memory"].0, "1Gi");

    // The pool's limit, or the row's, ends it.
    killed.attempts[0].memory_bytes = Some(1 << 30);
    scene.probe = Some(killed);
    scene.row.max_memory_bytes = Some(1 << 30);
    let step = scene.step();
    assert_eq!(step.status.state, State::Failed);
    assert!(reason(&step).ends_with("killed with 1024 MiB of memory, and may not have more"));
}

#[test]
fn steps_that_the_file_does_not_have_fail_the_row() {
    let mut scene = inspecting();
    scene.probe = Some(inspected());
    scene.row.system.nsteps = Some(4000);
    scene.row.system.atoms = Some(9);
    assert_eq!(scene.step().status.state, State::Tuning, "what is only reckoned with, the user may say");
    scene.row.system.nsteps = Some(8000);
    let step = scene.step();
    assert_eq!(step.status.state, State::Failed);
    assert!(reason(&step).contains("nsteps of the row is 8000, but water/topol.tpr says 4000"), "{step:?}");
}

#[test]
fn what_was_computed_is_told_by_mdrun() {
    let mut row = submitted();
    row.system.nsteps = Some(1_000_000);
    let step = Scene::with_job(row, completed_job()).read(CONTINUED).step();
    assert_eq!(step.status.state, State::Completed);
    let end = mdrun_log::parse(CONTINUED).last_step;
    assert_eq!((step.status.step, step.attempts[0].last_step), (end, end));
    assert!(end.is_some_and(|end| end < 1_000_000));
}

#[test]
fn a_cancelled_row_waits_for_what_was_before_it_and_is_swept() {
    let mut row = submitted();
    row.status.state = State::Queued;
    row.status.submission = 2;
    row.cancel_requested = true;
    let mut scene = Scene::of(row);
    scene.previous = Some(failed_job(Reason::OOMKilled));
    assert_eq!(scene.step().action, Action::DeleteJob { submission: 1, uid: "uid-1".to_owned() });
    scene.previous = None;
    let step = scene.go();
    assert_eq!(step.status.state, State::Cancelled);
    let swept = now() + SignedDuration::from_secs(600);
    assert_eq!(step.status.job_expiry_time.map(|time| time.to_jiff()), Some(swept));
    // Somebody who stood still has made one since.
    scene.after(600);
    scene.job = Some(job(Phase::Running, 1));
    assert_eq!(scene.step().action, Action::DeleteJob { submission: 2, uid: "uid-1".to_owned() });
}

#[test]
fn while_its_checkpoint_waits_to_be_read_it_can_be_cancelled() {
    let mut row = submitted();
    row.status.state = State::Running;
    row.status.private.verifying = true;
    row.cancel_requested = true;
    let mut scene = Scene::with_job(row, completed_job());
    scene.probe = Some(waits(1, WaitingReason::Paused));
    assert_eq!(scene.step().action, Action::DeleteProbe(Probe::Verification));
    scene.probe = None;
    let step = scene.step();
    assert_eq!((step.status.state, step.status.private.verifying), (State::Cancelled, false));
}

#[test]
fn a_start_stops_the_clock_and_a_run_forgets_the_laps() {
    let mut scene = Scene::with_job(submitted(), waits(1, WaitingReason::NoCapacity));
    scene.row.status.private.laps = 6;
    scene.go();
    scene.after(100);
    scene.job = Some(job(Phase::Starting, 1));
    let step = scene.go();
    assert_eq!((step.status.private.no_room_since, step.status.private.no_room_seconds), (None, 100.0));
    scene.after(500);
    scene.job = Some(waits(1, WaitingReason::NoCapacity));
    assert_eq!(scene.go().status.private.no_room_seconds, 100.0, "starting was no waiting for room");
    scene.job = Some(JobView { attempts: vec![attempt(1, 1, None)], ..job(Phase::Running, 1) });
    assert_eq!(scene.go().status.private.laps, 0);
}
