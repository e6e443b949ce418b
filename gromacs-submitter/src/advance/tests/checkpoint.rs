//! Where an attempt starts, how fast it was, and what a retry finds of the file.

use sqlx::types::Json;

use super::*;

fn running(number: i32) -> JobView {
    JobView { attempts: vec![attempt(number, 1, None)], has_run: true, ..job(Phase::Running, 1) }
}

fn started_at(step: i64) -> String {
    format!(
        "starting mdrun 'W'\n400000000 steps, 800000.0 ps (continuing from step {step}, 0.2 ps).\n\rstep {step}\r"
    )
}

/// An attempt that has started from step 3,000,000, come to 4,000,000, and was interrupted then.
fn interrupted() -> Scene {
    let mut row = submitted();
    row.system.nsteps = Some(400_000_000);
    row.status.state = State::Running;
    row.status.attempt = 1;
    row.status.first_step = Some(3_000_000);
    row.status.step = Some(4_000_000);
    row.status.ns_per_day = Some(86.4);
    let job = JobView {
        attempts: vec![attempt(1, 1, Some(Outcome::Interrupted))],
        has_run: true,
        phase: Phase::Interrupted,
        ..waits(1, WaitingReason::BackingOff)
    };
    let mut scene = Scene::with_job(row, job);
    let step = scene.go();
    assert_eq!(step.status.private.checkpoint_step, Some(3_000_000), "what mdrun has read");
    assert_eq!(step.status.private.speed_ratio, Some(86.4 / 78.0));
    scene
}

#[test]
fn a_run_that_begins_again_is_stopped_and_fails() {
    let mut scene = interrupted();
    scene.job = Some(running(2));
    scene = scene.read("starting mdrun 'W'\n400000000 steps, 800000.0 ps.\n\rstep 0\r");
    assert_eq!(scene.go().status.first_step, Some(0));
    assert_eq!(scene.step().action, Action::DeleteJob { submission: 1, uid: "uid-1".to_owned() });
    scene.job = Some(JobView { deleting: true, ..running(2) });
    let step = scene.go();
    assert_eq!(step.action, Action::Settle);
    assert!(reason(&step).starts_with("mdrun started at step 0, but a checkpoint had reached step 3000000"));
    scene.job = None;
    let step = scene.go();
    assert_eq!(step.status.state, State::Failed);
    assert!(reason(&step).contains("state.cpt in the folder gromacs-7"), "{}", reason(&step));
    assert!(
        reason(&step).ends_with("a retry without it goes on from the checkpoint that is there"),
        "{}",
        reason(&step)
    );
}

/// What the row advised is done: an older checkpoint is put there, or everything is moved away. One retry is enough, whatever the
/// row had failed for.
#[test]
fn a_retry_goes_on_from_the_checkpoint_that_is_there_now() {
    for why in [
        "disk full",
        "mdrun failed: Checkpoint file corrupted/truncated, or maybe you are out of disk space?",
    ] {
        for first in [0, 20, 3_000_000, 3_900_000] {
            let mut scene = interrupted();
            scene.row.status = with_failure(&scene.row, why.to_owned(), KEEP_JOBS, now());
            scene.row.retry_requested = true;
            let step = scene.go();
            assert_eq!((step.status.state, step.status.private.checkpoint_step), (State::Queued, None));
            scene.row.retry_requested = false;
            scene.row.status.state = State::Running;
            scene.job = Some(running(1));
            scene = scene.read(&started_at(first));
            assert_eq!(scene.go().status.first_step, Some(first));
            assert_eq!(scene.step().action, Action::Settle, "{why}, from step {first}");
        }
    }
}

/// The speed was twice the highest that was predicted, and nothing was saved for longer than is usual: where mdrun starts, it has
/// read.
#[test]
fn an_estimate_fails_no_row() {
    for (lost_seconds, first) in [(None, 100), (Some(0), 100), (Some(5), 3_000), (Some(600), 0)] {
        let mut row = submitted();
        row.system.nsteps = Some(400_000_000);
        row.status.state = State::Running;
        row.status.attempt = 1;
        (row.status.first_step, row.status.step) = (Some(0), Some(4_000_000));
        (row.status.private.progress_from_step, row.status.ns_per_day) = (Some(0), Some(2.0 * 93.6));
        let ended = AttemptView { lost_seconds, ..attempt(1, 1, Some(Outcome::Interrupted)) };
        let attempts = vec![ended.clone()];
        let waiting = waits(1, WaitingReason::BackingOff);
        let job = JobView { attempts, has_run: true, phase: Phase::Interrupted, ..waiting };
        let mut scene = Scene::with_job(row, job);
        assert_eq!(scene.go().status.private.checkpoint_step, Some(0));
        scene.job = Some(JobView { attempts: vec![ended, attempt(2, 1, None)], ..running(2) });
        scene = scene.read(&started_at(first));
        scene.go();
        let step = scene.go();
        assert_eq!((step.action, step.status.state), (Action::Settle, State::Running), "{lost_seconds:?}");
        assert_eq!(step.status.step, Some(first));
    }
}

/// state.cpt was damaged while nothing ran, and the script that starts mdrun took the one before.
#[test]
fn a_checkpoint_that_was_replaced_is_said_and_stops_nothing() {
    let said = "goes on from state_prev.cpt at step 2900000: state.cpt is damaged, and kept as state_damaged1.cpt; 500000 steps \
                are computed again";
    let told = format!("attempt 2 runs on 2 cores; {said} (1.000 ns)");
    let mut scene = interrupted();
    scene.job = Some(running(2));
    // Before mdrun says where it starts.
    scene = scene.read(&format!("{said}\n"));
    assert_eq!(scene.go().status.first_step, None);
    scene = scene.read(&format!("{said}\n{}", started_at(2_900_000)));
    let step = scene.go();
    assert_eq!((reason(&step), step.status.first_step), (told.as_str(), Some(2_900_000)));
    assert_eq!(step.status.private.checkpoint_step, Some(2_900_000), "no later one is left");
    assert_eq!(step.went_back.as_deref(), told.split_once("; ").map(|(_, line)| line));
    // Its progress is read without the beginning of the log.
    scene = scene.read("\rstep 2950000\r");
    let step = scene.go();
    assert_eq!((&step.action, reason(&step)), (&Action::Settle, told.as_str()));
    assert_eq!(step.went_back, None);
    // The next attempt says nothing of it.
    scene.job = Some(running(3));
    scene = scene.read(&started_at(3_100_000));
    assert_eq!(reason(&scene.go()), "attempt 3 runs on 2 cores");
    assert_eq!(scene.step().action, Action::Settle);
}

#[test]
fn of_several_simulations_the_first_that_went_back_is_named() {
    let mut scene = interrupted();
    scene.row.multidir = vec!["a".to_owned(), "b".to_owned()];
    scene.job = Some(running(2));
    let line =
        "goes on from state_prev.cpt at step 10: state.cpt is missing; what came after it is computed again";
    let text = format!("a: {line}\n\nb: {line}\n\n{}", started_at(10));
    let step = scene.read(&text).step();
    assert_eq!(step.went_back, Some(format!("a: {line}; 1 more simulations do so, see the log")));
}

/// mdrun ended with exit code 0, its log is gone, and its last checkpoint cannot be read.
#[test]
fn where_the_last_checkpoint_cannot_be_verified_the_one_before_is_gone_on_from() {
    let read = |step: Option<i64>| {
        let mut scene = Scene::with_job(submitted(), completed_job());
        (scene.row.status.private.verifying, scene.row.status.attempt) = (true, 1);
        (scene.row.status.first_step, scene.row.status.step) = (Some(1000), step);
        let mut done = attempt(1, 1, Some(Outcome::Completed));
        done.message = Some("verification=1\nstep=1000\nbackup=yes\n".to_owned());
        scene.probe = Some(JobView { attempts: vec![done], ..job(Phase::Completed, 1) });
        scene.step()
    };
    let step = read(Some(3000));
    assert_eq!((step.status.state, step.status.submission), (State::Queued, 2));
    assert_eq!(
        reason(&step),
        "mdrun ended without an error, and GROMACS cannot read state.cpt; goes on from state_prev.cpt at step 1000 of 4000"
    );
    assert_eq!(read(Some(4000)).status.state, State::Completed, "mdrun had said so itself");
}

/// The second attempt, with half the cores, is interrupted before anything is known of its speed, and when something is.
#[test]
fn the_speed_of_an_earlier_attempt_says_nothing_of_a_later_one() {
    for (progress, checkpoint_step, speed_ratio) in [
        ("", 3_500_000, 86.4 / 78.0),
        // 86.4 ns/day again.
        ("step 4900000, remaining wall clock time: 790200 s \r", 3_500_000, 86.4 / 45.0),
    ] {
        let mut scene = interrupted();
        assert_eq!(scene.row.status.ns_per_day, Some(86.4), "it is still shown");
        let running = attempt(2, 2, None);
        scene.job = Some(JobView { attempts: vec![running], has_run: true, ..job(Phase::Running, 2) });
        let mut scene = scene.read(&format!("{}{progress}", started_at(3_500_000)));
        assert_eq!(scene.go().status.ns_per_day.is_some(), !progress.is_empty());
        scene.log = Log::NotRead;
        scene.job = Some(JobView {
            attempts: vec![attempt(2, 2, Some(Outcome::Interrupted))],
            has_run: true,
            phase: Phase::Interrupted,
            ..waits(2, WaitingReason::BackingOff)
        });
        let step = scene.go();
        let saved = step.status.private.checkpoint_step.expect("should be known");
        assert!((saved - checkpoint_step).abs() <= 1, "{progress}: {saved}");
        let ratio = step.status.private.speed_ratio.expect("should be known");
        assert!((ratio - speed_ratio).abs() < 1e-9, "{progress}: {ratio}");
    }
}

#[test]
fn a_start_from_a_checkpoint_of_the_last_intervals_is_well() {
    let mut scene = interrupted();
    scene.job = Some(running(2));
    scene = scene.read(&started_at(3_500_000));
    scene.go();
    assert_eq!(scene.go().action, Action::Settle);
    // It is the least that the next one must start from.
    scene.job = Some(running(3));
    scene.log = Log::NotRead;
    assert_eq!(scene.go().status.private.checkpoint_step, Some(3_500_000));
    scene = scene.read(&started_at(3_499_999));
    scene.go();
    assert!(matches!(scene.step().action, Action::DeleteJob { .. }));
}

#[test]
fn the_next_submission_must_not_start_before_either() {
    let mut scene = interrupted();
    scene.job = Some(failed_job(Reason::OOMKilled));
    let step = scene.go();
    assert_eq!((step.status.submission, step.status.private.checkpoint_step), (2, Some(3_000_000)));
    assert_eq!(step.status.private.speed_ratio, None, "it was of another ladder");
}

#[test]
fn a_retry_reads_the_file_again() {
    let answer = |text: &str, sum: &str| {
        let mut done = attempt(1, 1, Some(Outcome::Completed));
        done.message = Some(format!("{text}\ntpr-checksum={sum}\n"));
        JobView { attempts: vec![done], ..job(Phase::Completed, 1) }
    };
    let before =
        crate::probe::parse_inspection(&format!("{ANSWER}\ntpr-checksum=1-1\n")).expect("should be read");
    let longer = ANSWER.replace("nsteps=4000", "nsteps=8000");
    let other = ANSWER.replace("atoms=2652", "atoms=2655");
    let made = format!("{other}\nmade=yes");
    for (text, sum, computed, expected) in [
        (ANSWER, "1-1", Some(100), State::Tuning),
        (longer.as_str(), "2-1", Some(100), State::Tuning),
        (other.as_str(), "2-1", Some(100), State::Failed),
        (ANSWER, "2-1", Some(100), State::Failed),
        (other.as_str(), "2-1", None, State::Tuning),
        // grompp made it, since there was no checkpoint to go on from.
        (made.as_str(), "2-1", Some(100), State::Tuning),
    ] {
        let mut row = submitted();
        row.system = before.system.clone();
        row.inspected = Some(Json(before.values.clone()));
        row.status = with_failure(&row, "disk full".to_owned(), KEEP_JOBS, now());
        row.status.step = computed;
        row.retry_requested = true;
        let mut scene = Scene::of(row);
        assert!(scene.go().status.inspect_again);
        scene.row.retry_requested = false;
        assert_eq!(scene.go().status.state, State::Inspecting, "not on from what was read before");
        scene.probe = Some(answer(text, sum));
        let step = scene.go();
        assert_eq!(step.status.state, expected, "{sum} {computed:?}: {}", reason(&step));
        match expected {
            State::Failed => assert!(
                reason(&step).starts_with("water/topol.tpr has changed since it was read")
                    && reason(&step).contains(
                        "move the new one away and retry, to go on with the row's copy of it (run-1-2.tpr)"
                    ),
                "{}",
                reason(&step)
            ),
            _ => assert!(!step.status.inspect_again),
        }
    }
}

#[test]
fn what_is_learned_is_what_the_file_says() {
    let mut scene = Scene::with_job(submitted(), completed_job()).read(CONTINUED);
    let read = crate::probe::parse_inspection(ANSWER).expect("should be read");
    scene.row.system = System { atoms: Some(10), ..read.system.clone() };
    scene.row.inspected = Some(Json(read.values));
    let step = scene.go();
    assert_eq!(step.observations[0].system.atoms, 2652, "10 is what the user says of it");
}

/// Nobody looked while the first attempt ran and ended, and the second one runs.
#[test]
fn what_ended_unseen_is_known_to_need_the_pool() {
    let attempts = vec![attempt(1, 1, Some(Outcome::Interrupted)), attempt(2, 1, None)];
    let job = JobView { attempts, has_run: true, ..job(Phase::Running, 1) };
    assert!(job.has_ended_since(0));
    assert!(!job.has_ended_since(1));
    // Nobody looked between them, and both are written down.
    let step = Scene::with_job(submitted(), job).go();
    let recorded: Vec<_> =
        step.attempts.iter().map(|one| (one.view.number, one.view.outcome, one.view.rung)).collect();
    assert_eq!(recorded, [(1, Some(Outcome::Interrupted), Some(1)), (2, None, Some(1))]);
}
