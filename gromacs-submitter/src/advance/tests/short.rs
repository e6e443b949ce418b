//! mdrun ends on its own before the last step.

use super::*;

/// What mdrun writes that computes from one step to another and ends on its own.
fn log(from: i64, to: i64, says: &str) -> String {
    format!(
        "starting mdrun 'W'\n4000 steps, 8.0 ps (continuing from step {from}, 0.0 ps).\n\rstep {from}\r\n{says}\n\n\
         \rstep {to}, remaining wall clock time:    60 s          \r\n               Core t (s)   Wall t (s)        (%)\n\
         \x20      Time:        3.000        3.000      100.0\n                 (ns/day)    (hour/ns)\n\
         Performance:       11.978        2.004\n\nGROMACS reminds you: \"Baseball Heroes Only\" (P.J. Harvey)\n"
    )
}

const SAYS: &str = "Received the INT signal, stopping within 100 steps";

fn ran(seconds: i64, outcome: Outcome) -> AttemptView {
    AttemptView { end_time: Some(now() + SignedDuration::from_secs(seconds)), ..attempt(1, 1, Some(outcome)) }
}

/// A row whose mdrun has ended on its own after so many seconds, with exit code 0.
fn ended(seconds: i64, log: &str) -> Scene {
    let job = JobView { attempts: vec![ran(seconds, Outcome::Completed)], ..completed_job() };
    Scene::with_job(submitted(), job).read(log)
}

/// The next submission of a row, which has seen what the one before wrote down of its end.
fn next(mut scene: Scene, step: &Step, seconds: i64, log: &str) -> Scene {
    let seconds_before = scene
        .job
        .iter()
        .flat_map(|job| &job.attempts)
        .filter_map(|attempt| Some(attempt.end_time?.duration_since(attempt.start_time?).as_secs_f64()));
    let is_short = step
        .attempts
        .iter()
        .any(|attempt| attempt.view.outcome == Some(Outcome::Completed) && attempt.log_end.is_some());
    let earlier = Earlier { is_short, seconds: seconds_before.sum() };
    scene.earlier.insert(0, earlier);
    scene.row.status = RowStatus {
        state: State::Running,
        job_uid: Some("uid-1".to_owned()),
        rung: Some(1),
        ..scene.row.status
    };
    scene.job = ended(seconds, log).job;
    scene.read(log)
}

#[test]
fn three_ends_before_a_checkpoint_was_due_end_the_row() {
    let mut scene = ended(3, &log(0, 100, SAYS));
    for number in 1..=2 {
        let step = scene.go();
        assert_eq!((step.status.state, step.status.submission), (State::Queued, number + 1));
        assert!(reason(&step).ends_with("of 4000 without an error; goes on from its checkpoint"), "{step:?}");
        scene = next(scene, &step, 3, &log(100 * i64::from(number), 100 * i64::from(number) + 100, SAYS));
    }
    let step = scene.go();
    assert_eq!((step.status.state, step.status.submission), (State::Failed, 3));
    assert_eq!(
        reason(&step),
        "mdrun ended without an error at step 300 of 4000, 3 times in a row before it had computed for 10 min \
         (interruption_after_seconds); its last words: Received the INT signal, stopping within 100 steps; if that is all \
         that is wanted, take it (gromacs-submitter fetch 7); else change what ends it, and retry"
    );
    assert_eq!(step.attempts[0].last_step, Some(300));
    let log_end = step.attempts[0].log_end.as_deref().unwrap_or_default();
    assert!(log_end.contains(SAYS), "{log_end}");
}

#[test]
fn a_run_that_is_ended_after_each_hour_comes_to_its_end() {
    let mut scene = ended(3600, &log(0, 100, SAYS));
    for number in 1..30 {
        let step = scene.go();
        assert_eq!((step.status.state, step.status.submission), (State::Queued, number + 1));
        scene = next(scene, &step, 3600, &log(100 * i64::from(number), 100 * i64::from(number) + 100, SAYS));
    }
}

#[test]
fn only_ends_in_a_row_count() {
    let short = Earlier { is_short: true, seconds: 3.0 };
    let long = Earlier { is_short: true, seconds: 700.0 };
    // Killed for memory, say.
    let other = Earlier { is_short: false, seconds: 3.0 };
    for (earlier, expected) in [
        (vec![], State::Queued),
        (vec![short], State::Queued),
        (vec![short, short], State::Failed),
        (vec![long, short], State::Queued),
        (vec![short, long], State::Queued),
        (vec![other, short], State::Queued),
    ] {
        let mut scene = ended(3, &log(0, 100, SAYS));
        scene.row.status.submission = 4;
        scene.earlier.clone_from(&earlier);
        assert_eq!(scene.go().status.state, expected, "{earlier:?}");
    }
}

#[test]
fn what_ran_before_it_was_interrupted_counts_as_well() {
    let mut scene = ended(3, &log(0, 100, SAYS));
    scene.row.status.submission = 3;
    scene.earlier = vec![Earlier { is_short: true, seconds: 3.0 }; 2];
    let last = AttemptView { number: 2, ..ran(3, Outcome::Completed) };
    let job = JobView { attempts: vec![ran(700, Outcome::Interrupted), last], ..completed_job() };
    scene.job = Some(job);
    assert_eq!(scene.go().status.state, State::Queued);
}

#[test]
fn what_has_no_checkpoint_begins_again_once() {
    let begun = "   Number of steps    =         4000\nStep=  900, Dmax= 1.0e-02 nm, Epot= -9.9e+03 Fmax= 8.5e+02, atom= 1\n";
    let mut scene = ended(7000, begun);
    let found = [("integrator", "steep"), ("run-input", "run-1-2.tpr")];
    let found = found.map(|(key, value)| (key.to_owned(), value.to_owned()));
    scene.row.inspected = Some(sqlx::types::Json(found.into()));
    assert_eq!(reason(&scene.step()), "mdrun ended at step 900 of 4000 without an error; begins again");
    scene.row.status.submission = 2;
    // Killed for memory before.
    scene.earlier = vec![Earlier { is_short: false, seconds: 7000.0 }];
    assert_eq!(scene.step().status.state, State::Queued);
    scene.earlier = vec![Earlier { is_short: true, seconds: 7000.0 }];
    let step = scene.step();
    assert_eq!(step.status.state, State::Failed);
    assert!(reason(&step).starts_with("the minimisation ended at step 900 of 4000"), "{}", reason(&step));
}

/// The log cannot be read, so the checkpoint tells how far it is.
#[test]
fn without_a_log_it_ends_as_well() {
    let mut scene = ended(3, "");
    scene.row.status.submission = 3;
    scene.row.status.private.verifying = true;
    scene.earlier = vec![Earlier { is_short: true, seconds: 3.0 }; 2];
    scene.log = Log::Gone;
    let mut done = attempt(1, 1, Some(Outcome::Completed));
    done.message = Some("verification=1\nstep=300\n".to_owned());
    scene.probe = Some(JobView { attempts: vec![done], ..job(Phase::Completed, 1) });
    let step = scene.go();
    assert_eq!(step.status.state, State::Failed);
    assert!(reason(&step).contains("at step 300 of 4000, 3 times in a row"), "{}", reason(&step));
    let log_end = step.attempts[0].log_end.as_deref();
    assert_eq!(log_end, Some("its log is gone; its checkpoint is at step 300"), "it counts the next time");
}

#[test]
fn an_end_of_its_own_with_an_exit_code_says_what_it_is() {
    let message =
        "ContainerFailed: pod gromacs-7-1-1-0-x exited with code 2: :-) GROMACS - gmx mdrun (-:\nmore";
    let job = JobView {
        message: Some(message.to_owned()),
        attempts: vec![ran(700, Outcome::Failed)],
        ..failed_job(Reason::ContainerFailed)
    };
    let says = "==== RAMD ==== the ligand has left";
    let step = Scene::with_job(submitted(), job.clone()).read(&log(0, 100, says)).go();
    assert_eq!(step.status.state, State::Failed);
    assert_eq!(
        reason(&step),
        "mdrun ended at step 100 of 4000 and names no error: ContainerFailed: pod gromacs-7-1-1-0-x exited with code 2; its \
         last words: ==== RAMD ==== the ligand has left; if that is all that is wanted, take it (gromacs-submitter fetch 7); \
         else change what ends it, and retry"
    );
    // What says an error, or was cut off, is no end of its own.
    let error = log(0, 100, "Fatal error:\nno luck");
    assert!(
        reason(&Scene::with_job(submitted(), job.clone()).read(&error).go())
            .starts_with("mdrun failed: no luck; tries again")
    );
    let cut = log(0, 100, says);
    let cut = cut.split("Core t").next().unwrap_or_default();
    let step = Scene::with_job(submitted(), job).read(cut).go();
    assert_eq!(step.status.state, State::Queued, "nobody knows whether its node ended it");
    let said = format!(
        "mdrun failed: {says} (ContainerFailed: pod gromacs-7-1-1-0-x exited with code 2); tries again at"
    );
    assert!(reason(&step).starts_with(&said), "{}", reason(&step));
}
