//! mdrun ends before its first step: the next configuration, another try, or a person.

use scavenger_schema::tuning::Layout;
use sqlx::types::Json;

use super::*;

fn ended_at_start(rung: i32, words: &str) -> Scene {
    let attempts = vec![attempt(1, rung, Some(Outcome::Failed))];
    let job = JobView { attempts, ..failed_job(Reason::ContainerFailed) };
    Scene::with_job(submitted(), job).read(&format!("Program: gmx mdrun\n\nFatal error:\n{words}\n\n"))
}

const NO_DOMAINS: &str = "There is no domain decomposition for 2 ranks that is compatible with the\ngiven box and a \
                          minimum cell size of 1.6 nm";

#[test]
fn a_refused_configuration_is_marked_and_the_next_is_tried() {
    let mut scene = ended_at_start(1, NO_DOMAINS);
    scene.row.status.interruptions = 3;
    let step = scene.go();
    assert_eq!((step.status.state, step.status.submission), (State::Queued, 2));
    assert_eq!((step.status.interruptions, step.status.private.not_before), (3, None));
    let words = NO_DOMAINS.replace('\n', " ");
    assert_eq!(step.refused, Some(Refused { rung: 1, words: words.clone() }));
    assert_eq!(reason(&step), format!("mdrun refuses configuration 1: {words}; tries the next one"));
    assert_eq!(step.attempts.len(), 1);
}

#[test]
fn what_was_refused_is_left_out_of_the_ladder_and_one_rank_is_the_last_resort() {
    let mut proposed = ladder();
    proposed[0].layout = Json(Layout::cpu(4, 1));
    proposed[1].layout = Json(Layout::cpu(2, 1));
    let refusal =
        |layout: Layout, words: &str| Refusal { layout: Json(layout), words: words.to_owned(), node: None };
    let two = refusal(Layout::cpu(2, 1), NO_DOMAINS);
    let left = without_refused(proposed.clone(), std::slice::from_ref(&two), 1).expect("one rank is left");
    assert_eq!(left.iter().map(|rung| rung.cpu_millicores).collect::<Vec<_>>(), [500], "four are no better");
    proposed.pop();
    proposed[1].cpu_millicores = 3000;
    let left =
        without_refused(proposed.clone(), std::slice::from_ref(&two), 1).expect("should fall to one rank");
    assert_eq!(left.len(), 1);
    assert_eq!((left[0].layout.0, left[0].gpus, left[0].cpu_millicores), (Layout::cpu(1, 3), 0, 3000));
    assert_eq!(left[0].reason, "one rank on the CPU, since mdrun refuses all others");
    let three = refusal(Layout::cpu(1, 3), "OMP_NUM_THREADS is odd");
    assert_eq!(
        without_refused(proposed, &[two, three], 1),
        Err("mdrun refuses every configuration: OMP_NUM_THREADS is odd".to_owned())
    );
}

/// From the refusal to the end, with the next configuration.
#[test]
fn where_mdrun_refuses_one_configuration_the_row_runs_with_the_next() {
    let division =
        "The number of ranks selected for particle-particle work (2) contains a large prime factor";
    let mut scene = ended_at_start(1, division);
    let refused = scene.go().refused.expect("it should be marked");
    let refusal = Refusal { layout: ladder()[0].layout, words: refused.words, node: None };
    scene.job = None;
    assert_eq!(scene.go().status.state, State::Tuning);
    assert!(matches!(scene.step().action, Action::AskTuner(_)));
    // The tuner knows nothing of it, and proposes the same.
    let left = without_refused(ladder(), &[refusal], 1).expect("two are left");
    let (status, proposed) =
        with_ladder(&scene.row, left, scene.pool.as_ref(), &[]).expect("they should fit");
    assert_eq!((status.submission, status.rung), (2, Some(1)));
    assert_eq!(proposed.iter().map(|rung| rung.cpu_millicores).collect::<Vec<_>>(), [1000, 500]);
    (scene.row.status, scene.ladder, scene.log) = (status, proposed, Log::NotRead);
    assert_eq!(scene.step().action, Action::CreateJob(1));
    scene.job = Some(completed_job());
    let step = scene.read(CONTINUED).step();
    assert_eq!(step.status.state, State::Completed, "{step:?}");
}

#[test]
fn a_lock_that_is_held_is_tried_again_with_growing_delay_and_ends() {
    let mut tries = 0;
    let mut scene = ended_at_start(1, "Failed to lock: md.log. Already running simulation?");
    for delay in [30, 60, 120] {
        tries += 1;
        let began = scene.now;
        let step = scene.go();
        assert_eq!((step.status.state, step.status.private.start_failures), (State::Queued, tries));
        let due = began + SignedDuration::from_secs(delay);
        assert_eq!(step.status.private.not_before, Some(due));
        assert!(reason(&step).starts_with("mdrun could not start: Failed to lock: md.log."), "{step:?}");
        assert_eq!(step.refused, None);
        // The one before goes; an event makes it due at once, which shortens no delay.
        let job = scene.job.take();
        let log = std::mem::take(&mut scene.log);
        let step = scene.go();
        assert_eq!((step.status.state, step.status.next_attempt_time.to_jiff()), (State::Queued, due));
        scene.after(delay);
        assert_eq!(scene.go().status.state, State::Tuning);
        scene.row.status.state = State::Submitted;
        (scene.job, scene.log) = (job, log);
    }
    scene.row.status.private.start_failures = 20;
    let step = scene.go();
    assert_eq!(step.status.state, State::Failed);
    let remedy = "20 starts ended so: end the mdrun that holds water/gromacs-7/md.log, and retry";
    assert!(reason(&step).ends_with(remedy), "{}", reason(&step));
}

#[test]
fn where_nothing_can_be_locked_it_starts_again_and_writes_new_files() {
    for words in [
        "File locking is not supported on this system. Use mdrun -noappend to restart.",
        "Failed to lock: md.log. No locks available.",
    ] {
        let mut scene = ended_at_start(1, words);
        scene.row.status.interruptions = 3;
        let step = scene.go();
        assert_eq!((step.status.state, step.status.submission), (State::Queued, 2), "{words}");
        assert!(step.stops_appending);
        assert_eq!((step.status.interruptions, step.status.private.not_before), (3, None), "at once");
        let said = format!("mdrun could not start: {words}; starts again and writes new output files");
        assert_eq!(reason(&step), said);
        // A run that writes new files has nothing to lock: what else it cannot lock gets the usual tries.
        let mut scene = ended_at_start(1, words);
        scene.row.append = Some(false);
        let step = scene.step();
        assert!(!step.stops_appending);
        assert_eq!((step.status.state, step.status.private.start_failures), (State::Queued, 1));
    }
}

#[test]
fn a_step_that_was_made_forgets_the_failed_starts() {
    let running = JobView { attempts: vec![attempt(1, 1, None)], ..job(Phase::Running, 1) };
    let mut scene = Scene::with_job(submitted(), running).read(TERMINATED);
    scene.row.status.private.start_failures = 3;
    assert_eq!(scene.go().status.private.start_failures, 3, "it may end there again");
    scene.after(1200);
    assert_eq!(scene.go().status.private.start_failures, 0, "it has written a checkpoint since");
}

#[test]
fn what_a_person_must_change_is_said() {
    for words in [
        "Checkpoint file corrupted/truncated, or maybe you are out of disk space?",
        "The checkpoint file is empty/corrupted, or maybe you are out of disk space?",
        "Start of file magic number mismatch, checkpoint file has 0, should be 171817\nThe checkpoint file is corrupted or not \
         a checkpoint file",
        "Type mismatch for state entry v, code precision is float, file precision\nis int: incompatible checkpoint formats or \
         corrupted checkpoint file.",
        "Count mismatch for state entry v, code count is 15552, file count is 0",
    ] {
        let step = ended_at_start(1, words).step();
        assert_eq!(step.status.state, State::Failed, "{words}");
        let remedy = "; put a checkpoint that it can read at water/gromacs-7/state.cpt, or move the checkpoints, logs and results \
                      of that simulation away to begin it again, and retry";
        assert!(reason(&step).ends_with(remedy), "{}", reason(&step));
    }
}

#[test]
fn words_that_nobody_knows_are_tried_on_one_rank_first() {
    let mut scene = ended_at_start(1, "Nobody knows these words");
    scene.ladder[0].layout = Json(Layout::cpu(4, 1));
    let step = scene.go();
    assert_eq!((step.status.state, step.status.submission), (State::Queued, 2));
    assert_eq!(
        reason(&step),
        "mdrun failed: Nobody knows these words; tries one rank on the CPU before it gives up"
    );
    let refused = step.refused.expect("it should be marked");
    let refusal = Refusal { layout: scene.ladder[0].layout, words: refused.words, node: None };
    let proposed = scene.ladder[..1].to_vec();
    let left = without_refused(proposed, &[refusal], 1).expect("one rank is left");
    assert_eq!(left.iter().map(|rung| rung.layout.0).collect::<Vec<_>>(), [Layout::cpu(1, 2)]);
    // There the node may be at fault.
    let mut scene = ended_at_start(1, "Nobody knows these words");
    scene.ladder = left;
    let step = scene.step();
    assert_eq!((step.status.state, step.status.private.start_failures), (State::Queued, 1));
    assert_eq!(step.refused, None);
}

#[test]
fn after_its_first_step_a_failure_is_no_matter_of_the_start() {
    let mut scene = ended_at_start(1, NO_DOMAINS);
    let text = format!(
        "starting mdrun 'W'\n4000 steps, 8.0 ps.\n\rstep 0\rstep 100\r\n\nFatal error:\n{NO_DOMAINS}\n\n"
    );
    scene = scene.read(&text);
    assert_eq!(scene.step().status.state, State::Failed);
    // Its log is gone but for the end; what it computed was seen before.
    let mut cut = ended_at_start(1, NO_DOMAINS);
    (cut.row.status.attempt, cut.row.status.first_step, cut.row.status.step) = (1, Some(0), Some(100));
    assert_eq!(cut.step().status.state, State::Failed);
    // With the step that it began with it has computed nothing.
    scene = scene.read(&text.replace("step 100\r", ""));
    assert_eq!(scene.step().status.state, State::Queued);
}

#[test]
fn a_file_system_that_is_away_or_full_fails_no_run_that_is_under_way() {
    let away = |words: &str| {
        let mut scene = ended_at_start(1, NO_DOMAINS);
        let text = format!(
            "starting mdrun 'W'\n4000 steps, 8.0 ps.\n\rstep 0\rstep 100\r\n\nFatal error:\n{words}\n\n"
        );
        scene = scene.read(&text);
        scene
    };
    let mut scene = away("Cannot rename checkpoint file; Stale file handle");
    let step = scene.go();
    assert_eq!((step.status.state, step.status.private.start_failures), (State::Queued, 1));
    assert!(
        reason(&step)
            .starts_with("mdrun failed: Cannot rename checkpoint file; Stale file handle; tries again")
    );
    assert_eq!(step.attempts.len(), 1);
    // Whoever filled the volume may be another.
    let full = away("Cannot write trajectory; maybe you are out of disk space?").step();
    assert_eq!((full.status.state, full.status.private.start_failures), (State::Queued, 1));
}

#[test]
fn an_inspection_that_finds_the_volume_full_or_away_is_made_again_later() {
    for words in [
        "ls: cannot access '/data/x.tpr': Stale file handle\nthere is no file /data/x.tpr on the volume\n",
        "mkdir: cannot create directory '/data/gromacs-7': No space left on device\n",
    ] {
        let mut row = row();
        row.status.state = State::Inspecting;
        let mut scene = Scene::of(row).read(words);
        scene.probe = Some(failed_job(Reason::ContainerFailed));
        let step = scene.go();
        assert_eq!((step.status.state, step.status.private.start_failures), (State::Queued, 1), "{words}");
        assert!(reason(&step).starts_with("reading water/topol.tpr failed: "), "{}", reason(&step));
        assert_eq!(scene.step().action, Action::DeleteProbe(Probe::Inspection));
        scene.probe = None;
        assert_eq!(scene.go().status.state, State::Queued, "not yet");
        scene.after(30);
        assert_eq!(scene.go().status.state, State::Inspecting);
        scene.row.status.private.start_failures = 20;
        scene.probe = Some(failed_job(Reason::ContainerFailed));
        let step = scene.step();
        assert_eq!(step.status.state, State::Failed);
        assert!(
            reason(&step).contains("20 starts ended so: ")
                && reason(&step).contains("the volume of claim data"),
            "{}",
            reason(&step)
        );
    }
}

#[test]
fn a_checkpoint_on_a_volume_that_is_away_is_read_later() {
    let mut scene = Scene::with_job(submitted(), completed_job()).read("cat: Stale file handle\n");
    scene.row.status.private.verifying = true;
    scene.probe = Some(failed_job(Reason::ContainerFailed));
    let step = scene.go();
    assert_eq!(
        (&step.action, step.status.state, step.status.private.verifying),
        (&Action::Record, State::Submitted, true)
    );
    assert_eq!(step.status.private.start_failures, 1);
    assert_eq!(scene.step().action, Action::DeleteProbe(Probe::Verification));
    scene.probe = None;
    assert_eq!(scene.go().action, Action::Settle);
    scene.after(30);
    assert_eq!(scene.step().action, Action::CreateProbe(Probe::Verification));
}

#[test]
fn a_retry_forgets_the_failed_starts() {
    let mut row = submitted();
    row.status.private.start_failures = 20;
    row.status = with_failure(&row, "locked".to_owned(), KEEP_JOBS, now());
    row.retry_requested = true;
    let step = Scene::of(row).step();
    assert_eq!((step.status.private.start_failures, step.status.private.not_before), (0, None));
    assert!(step.clears_requests);
}
