//! A command: its working directory is made, it runs with what it asks for, and exit code 0 is its end.

use std::collections::BTreeMap;

use sqlx::types::Json;

use super::*;
use crate::fixtures::command;

/// The command once its working directory was made.
fn prepared(state: State) -> GromacsToTune {
    let mut row = command();
    row.inspected = Some(Json(BTreeMap::from([("prepared".to_owned(), "1".to_owned())])));
    row.pinned_image = Some("gromacs@sha256:0123".to_owned());
    row.status.state = state;
    if state != State::Inspecting {
        row.status.job_uid = Some("uid-1".to_owned());
    }
    row
}

/// Its ScavengerJob, which has no configuration.
fn its_job(phase: Phase, attempts: Vec<AttemptView>) -> JobView {
    let has_run = attempts.iter().any(|attempt| attempt.start_time.is_some());
    JobView { rung: None, has_run, attempts, ..job(phase, 1) }
}

fn its_attempt(number: i32, outcome: Option<Outcome>) -> AttemptView {
    AttemptView { rung: None, memory_bytes: Some(1 << 30), ..attempt(number, 1, outcome) }
}

fn scene(row: GromacsToTune, job: JobView) -> Scene {
    Scene { ladder: Vec::new(), ..Scene::with_job(row, job) }
}

#[test]
fn it_is_submitted_once_its_working_directory_is_made_and_no_tuner_is_asked() {
    let mut scene = Scene { ladder: Vec::new(), ..Scene::of(command()) };
    assert_eq!(scene.go().status.state, State::Inspecting);
    assert_eq!(scene.step().action, Action::CreateProbe(Probe::Inspection));
    scene.probe = Some(job(Phase::Running, 1));
    assert_eq!(reason(&scene.step()), "makes the working directory: the operator's sentence");
    scene.probe = Some(job(Phase::Completed, 1));
    let mut scene = scene.read("prepared=1\n");
    let step = scene.go();
    let found = step.inspection.expect("should be recorded");
    assert_eq!((found.system, found.append), (System::default(), None));
    // As the database has it by then.
    scene.row.inspected = Some(Json(found.values));
    assert_eq!(scene.step().action, Action::DeleteProbe(Probe::Inspection));
    scene.probe = None;
    assert_eq!(scene.go().status.state, State::Submitted);
    assert_eq!(scene.step().action, Action::CreateCommand);
}

#[test]
fn a_folder_that_is_not_there_fails_it() {
    let mut row = command();
    row.status.state = State::Inspecting;
    let mut failed = job(Phase::Failed, 1);
    failed.failure_reason = Some(Reason::ContainerFailed);
    let mut scene = Scene::of(row).read("there is no folder /data/water on the volume; make it, and retry\n");
    scene.probe = Some(failed);
    let step = scene.step();
    assert_eq!(step.status.state, State::Failed);
    assert_eq!(
        reason(&step),
        "making the working directory failed: there is no folder /data/water on the volume; make it, and retry"
    );
}

#[test]
fn it_starts_over_after_an_interruption_and_exit_code_0_completes_it() {
    let mut scene = scene(prepared(State::Submitted), its_job(Phase::Running, vec![its_attempt(1, None)]));
    let step = scene.go();
    assert_eq!((step.status.state, step.status.step), (State::Running, None));
    assert_eq!(reason(&step), "attempt 1 runs on 2 cores");
    let seen = scene.seen(needs(&scene.row, scene.now));
    assert_eq!(details(&scene.row, &seen).log, None, "what it prints says nothing of steps");

    let lost = AttemptView { lost_seconds: Some(120), ..its_attempt(1, Some(Outcome::Interrupted)) };
    scene.job = Some(JobView {
        waiting_reason: Some(WaitingReason::NoCapacity),
        ..its_job(Phase::Interrupted, vec![lost.clone()])
    });
    let step = scene.go();
    assert_eq!((step.status.state, step.status.interruptions), (State::Interrupted, 1));
    // There is no smaller configuration, however long it waits.
    for _ in 0..5 {
        scene.after(700);
        let step = scene.go();
        assert_eq!((&step.action, step.status.state), (&Action::Settle, State::Interrupted));
        assert_eq!(reason(&step), "the operator's sentence");
    }

    let done = vec![lost, its_attempt(2, Some(Outcome::Completed))];
    scene.job = Some(its_job(Phase::Completed, done));
    let step = scene.go();
    assert_eq!((step.status.state, step.status.step, step.status.submission), (State::Completed, None, 1));
    assert_eq!(step.attempts.iter().map(|attempt| attempt.view.number).collect::<Vec<_>>(), [2]);
    assert!(step.observations.is_empty(), "the tuner learns nothing of it");
    // A retry of what is completed is nothing.
    scene.row.retry_requested = true;
    assert_eq!(scene.step().status.state, State::Completed);
}

#[test]
fn another_exit_code_ends_it_in_its_own_words() {
    let message = "ContainerFailed: pod gromacs-7-1-1-0-x exited with code 2";
    let failed = |log: &str, message: &str| {
        let job = JobView {
            failure_reason: Some(Reason::ContainerFailed),
            message: Some(message.to_owned()),
            ..its_job(Phase::Failed, vec![its_attempt(1, Some(Outcome::Failed))])
        };
        scene(prepared(State::Running), job).read(log)
    };
    let step = failed("Traceback\n  File x\nValueError: no frames\n\n", message).step();
    assert_eq!(step.status.state, State::Failed);
    assert_eq!(reason(&step), format!("{message}: ValueError: no frames"));
    assert_eq!(step.attempts[0].log_end.as_deref().map(|end| end.contains("no frames")), Some(true));
    // The operator may have quoted it.
    let quoted = format!("{message}: ValueError: no frames\nmore");
    assert_eq!(
        reason(&failed("ValueError: no frames\n", &quoted).step()),
        quoted.lines().next().unwrap_or_default()
    );
    assert_eq!(reason(&failed("", message).step()), message);
    // mdrun would be tried again where the volume is full.
    let step = failed("write error: No space left on device\n", message).step();
    assert_eq!((step.status.state, step.status.submission), (State::Failed, 1));

    let mut scene = failed("", message);
    scene.row.status.state = State::Failed;
    scene.row.retry_requested = true;
    let step = scene.step();
    assert_eq!(
        (step.status.state, step.status.submission, step.status.inspect_again),
        (State::Queued, 2, true)
    );
}

#[test]
fn memory_that_is_not_enough_is_for_its_owner_to_give() {
    let job = JobView {
        failure_reason: Some(Reason::OOMKilled),
        ..its_job(Phase::Failed, vec![its_attempt(1, Some(Outcome::Failed))])
    };
    let step = scene(prepared(State::Running), job).step();
    assert_eq!(step.status.state, State::Failed);
    assert_eq!(
        reason(&step),
        "the command was killed for using more than its 1024 MiB of memory; give it more (gromacs-submitter edit 7 --memory), \
         and retry"
    );
    assert!(step.observations.is_empty());
}

#[test]
fn a_start_that_fails_for_what_passes_is_tried_again() {
    let job = |message: &str| JobView {
        failure_reason: Some(Reason::ContainerNotCreated),
        message: Some(message.to_owned()),
        ..its_job(Phase::Failed, vec![its_attempt(1, Some(Outcome::Failed))])
    };
    let misspelt = r#"exec: "gnx": executable file not found in $PATH"#;
    let mut run_before = prepared(State::Submitted);
    run_before.status.start_time = Some(now().into());
    for row in [prepared(State::Submitted), run_before] {
        let step = scene(row, job(misspelt)).step();
        assert_eq!((step.status.state, reason(&step)), (State::Failed, misspelt));
    }
    let mut scene = scene(prepared(State::Submitted), job("dial tcp 10.0.0.1:443: i/o timeout"));
    let step = scene.go();
    assert_eq!((step.status.state, step.status.submission), (State::Queued, 2));
    assert!(reason(&step).contains("tries again at"), "{}", reason(&step));
    scene.job = None;
    scene.after(60);
    assert_eq!(scene.go().status.state, State::Inspecting);
    // Its working directory is there.
    assert_eq!(scene.go().status.state, State::Submitted);
}

#[test]
fn it_is_cancelled_as_others_are() {
    let mut row = prepared(State::Running);
    row.cancel_requested = true;
    let mut scene = scene(row, its_job(Phase::Running, vec![its_attempt(1, None)]));
    assert!(matches!(scene.step().action, Action::DeleteJob { .. }));
    scene.job = None;
    assert_eq!(scene.step().status.state, State::Cancelled);
    let mut row = prepared(State::Inspecting);
    row.cancel_requested = true;
    assert_eq!(Scene::of(row).step().status.state, State::Cancelled);
}
