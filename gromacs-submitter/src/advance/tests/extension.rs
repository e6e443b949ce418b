//! A completed row that goes on for longer.

use super::*;

fn completed() -> GromacsToTune {
    let mut row = submitted();
    row.status.state = State::Completed;
    row.status.step = Some(4000);
    row.status.first_step = Some(1000);
    row.status.start_time = Some(now().into());
    row.status.finish_time = Some(now().into());
    row.status.job_expiry_time = Some(now().into());
    row.status.interruptions = 2;
    row.inspected = Some(sqlx::types::Json(
        crate::probe::parse_inspection(ANSWER).expect("should be a good answer").values,
    ));
    row
}

#[test]
fn it_is_queued_again_reads_its_file_again_and_goes_on_from_its_checkpoint() {
    let mut scene = Scene::of(completed());
    scene.row.extended_nsteps = Some(9000);
    scene.row.retry_requested = true;
    let step = scene.go();
    assert!(step.clears_requests);
    assert_eq!(reason(&step), "goes on for longer, to 9000 steps in all");
    let status = &step.status;
    assert_eq!((status.state, status.submission, status.inspect_again), (State::Queued, 2, true));
    assert_eq!(
        (status.interruptions, status.step, status.private.checkpoint_step),
        (2, Some(4000), Some(1000))
    );
    assert_eq!((status.start_time, status.finish_time), (Some(now().into()), None));
    assert_eq!(status.job_expiry_time, None);

    // The ScavengerJob before is removed first.
    scene.row.retry_requested = false;
    scene.previous = Some(job(Phase::Completed, 1));
    assert_eq!(scene.step().action, Action::DeleteJob { submission: 1, uid: "uid-1".to_owned() });
    scene.previous = None;
    assert_eq!(scene.go().status.state, State::Inspecting);
    let mut done = attempt(1, 1, Some(Outcome::Completed));
    done.message = Some(ANSWER.replace("nsteps=4000", "nsteps=9000"));
    scene.probe = Some(JobView { attempts: vec![done], ..job(Phase::Completed, 1) });
    let step = scene.go();
    assert_eq!(step.status.state, State::Tuning, "{:?}", step.status.reason);
    let found = step.inspection.expect("should have read it").system;
    let columns = found.kept_from(&scene.row.system, &crate::probe::file_system(&scene.row));
    assert_eq!((columns.nsteps, columns.last_step()), (Some(9000), Some(9000)), "its length from now on");
}

#[test]
fn a_checkpoint_that_is_missing_fails_it_with_what_to_do() {
    let missing = "there is no checkpoint /data/water/gromacs-7/state.cpt on the volume to go on from; put it back, and retry";
    let mut row = completed();
    row.status.state = State::Inspecting;
    row.extended_nsteps = Some(9000);
    let mut scene = Scene::of(row).read(&format!("{missing}\n"));
    scene.probe = Some(JobView { failure_reason: Some(Reason::ContainerFailed), ..job(Phase::Failed, 1) });
    let step = scene.go();
    assert_eq!(step.status.state, State::Failed);
    assert_eq!(reason(&step), format!("extending water/topol.tpr failed: {missing}"));
}

#[test]
fn a_completed_row_with_nothing_left_to_compute_stays_as_it_is() {
    for nsteps in [None, Some(4000)] {
        let mut scene = Scene::of(completed());
        scene.row.extended_nsteps = nsteps;
        scene.row.retry_requested = true;
        let step = scene.go();
        assert!(step.clears_requests);
        assert_eq!((step.status.state, step.status.submission), (State::Completed, 1));
    }
}

/// An earlier version ran the user's file where it was.
#[test]
fn a_row_without_a_copy_of_its_file_is_inspected_before_its_next_submission() {
    let queued = |inspected| {
        let mut scene = Scene::of(GromacsToTune { inspected, ..submitted() });
        (scene.row.status.state, scene.row.status.submission) = (State::Queued, 2);
        scene.go().status.state
    };
    let before = crate::probe::parse_inspection(&ANSWER.replace("run-input=run-1-2.tpr\n", ""));
    let before = before.expect("should be a good answer").values;
    assert_eq!(queued(Some(sqlx::types::Json(before))), State::Inspecting);
    assert_eq!(queued(crate::fixtures::inspected()), State::Tuning);
}
