//! What each state reads, before and after its ScavengerJobs are seen.

use super::*;

fn in_state(state: State) -> GromacsToTune {
    let mut row = row();
    row.status.state = state;
    row
}

fn with_job_in(row: &GromacsToTune, job: JobView) -> Details {
    details(row, &Seen { ladder: ladder(), job: Some(job), ..Seen::default() })
}

fn with_probe_in(row: &GromacsToTune, probe: JobView, job: Option<JobView>) -> Details {
    details(row, &Seen { ladder: ladder(), probe: Some(probe), job, ..Seen::default() })
}

fn running(number: i32) -> JobView {
    JobView { attempts: vec![attempt(number, 1, None)], ..job(Phase::Running, 1) }
}

#[test]
fn each_state_reads_its_own_objects() {
    let nothing = Needs::default();
    let inspection = Needs { probe: Some(Probe::Inspection), ..nothing };
    assert_eq!(needs(&row(), now()), nothing, "a new row has nothing");
    let mut again = row();
    again.status.submission = 2;
    assert_eq!(needs(&again, now()), Needs { previous: true, ..inspection });
    for state in [State::Inspecting, State::Tuning] {
        assert_eq!(needs(&in_state(state), now()), inspection, "{state}");
    }
    for state in [State::Submitted, State::Running, State::Interrupted] {
        let mut row = in_state(state);
        let of_job = Needs { ladder: true, job: true, ..nothing };
        assert_eq!(needs(&row, now()), of_job, "{state}");
        row.status.private.verifying = true;
        let of_both = Needs { probe: Some(Probe::Verification), ..of_job };
        assert_eq!(needs(&row, now()), of_both, "{state}");
    }
    for state in [State::Completed, State::Failed, State::Cancelled] {
        let mut row = in_state(state);
        assert_eq!(needs(&row, now()), nothing, "{state}: nothing is left");
        row.status.job_expiry_time = Some(now().into());
        assert_eq!(needs(&row, now()), Needs { job: true, ..inspection }, "{state}");
        row.status.job_uid = Some("uid-1".to_owned());
        assert_eq!(needs(&row, now()).probe, Some(Probe::Verification), "{state}: the inspection is gone");
        assert_eq!(needs(&row, now() - SignedDuration::from_secs(1)), nothing, "{state}: not yet");
    }
}

/// A look that took so long that the time came meanwhile has not seen what is there.
#[test]
fn what_was_not_looked_for_is_looked_for_again() {
    let mut scene = Scene::with_job(submitted(), completed_job());
    scene.row.status.state = State::Completed;
    scene.row.status.job_expiry_time = Some(now().into());
    let seen = scene.seen(needs(&scene.row, now() - SignedDuration::from_secs(1)));
    let settings = Settings {
        fallback_after: Duration::ZERO,
        progress_interval: Duration::ZERO,
        keep_jobs: KEEP_JOBS,
        follows_logs: true,
    };
    let step = advance(&Input { row: &scene.row, seen: &seen, settings: &settings, now: now() });
    assert_eq!(step.action, Action::Settle);
    assert_eq!(step.status.job_expiry_time, scene.row.status.job_expiry_time);
    assert!(matches!(scene.step().action, Action::DeleteJob { .. }));
}

#[test]
fn an_inspection_is_read_once_it_has_ended() {
    let row = in_state(State::Inspecting);
    let pool = Details { pool: true, ..Details::default() };
    assert_eq!(details(&row, &Seen::default()), pool);
    assert_eq!(with_probe_in(&row, job(Phase::Running, 1), None), pool);
    let log = Some(LogToRead::OfProbe);
    assert_eq!(with_probe_in(&row, job(Phase::Failed, 1), None), Details { log, ..pool });
    assert_eq!(with_probe_in(&row, job(Phase::Completed, 1), None), Details { log, image: true, ..pool });
    let strange = JobView { ours: false, ..job(Phase::Failed, 1) };
    assert_eq!(with_probe_in(&row, strange, None), pool, "its log is not ours to read");
}

#[test]
fn a_run_is_read_until_it_is_followed() {
    let mut row = submitted();
    row.status.state = State::Running;
    row.status.attempt = 1;
    let read = |row: &GromacsToTune, job: JobView| with_job_in(row, job).log;
    let of_running = |attempt, knows_start| Some(LogToRead::OfRunning { attempt, knows_start });
    assert_eq!(read(&row, running(1)), of_running(1, false));
    (row.status.first_step, row.status.private.progress_from_step) = (Some(0), Some(0));
    assert_eq!(read(&row, running(1)), of_running(1, true));
    assert_eq!(read(&row, running(2)), of_running(2, false), "another attempt starts elsewhere");
    assert_eq!(read(&row, JobView { ours: false, ..running(1) }), None);
    assert_eq!(read(&row, completed_job()), Some(LogToRead::OfJob));
    assert_eq!(read(&row, job(Phase::Interrupted, 1)), None, "its pod is gone");
}

#[test]
fn the_pool_is_read_where_it_matters() {
    let mut row = submitted();
    assert!(with_job_in(&row, job(Phase::Waiting, 1)).pool);
    assert!(details(&row, &Seen::default()).pool, "it may have to be made");
    assert!(!with_job_in(&row, running(1)).pool, "it has the largest configuration");
    let ended = attempt(1, 1, Some(Outcome::Interrupted));
    let news = JobView { attempts: vec![ended, attempt(2, 1, None)], ..job(Phase::Running, 1) };
    assert!(with_job_in(&row, news).pool, "an attempt has ended that nobody has seen");
    row.status.rung = Some(2);
    assert!(with_job_in(&row, running(1)).pool, "it may grow");
    assert!(!with_job_in(&row, waits(1, WaitingReason::NoCapacity)).quota);
    assert!(with_job_in(&row, waits(1, WaitingReason::QuotaExceeded)).quota);
}

#[test]
fn what_a_restart_costs_is_read_for_a_growth_alone() {
    let mut row = submitted();
    row.status.state = State::Running;
    row.status.rung = Some(2);
    (row.status.private.progress_from_step, row.status.private.progress_from_time) = (Some(0), Some(now()));
    assert!(with_job_in(&row, running(1)).restart);

    assert!(!details(&row, &Seen::default()).restart, "there is no ScavengerJob");
    assert!(!with_job_in(&row, job(Phase::Interrupted, 2)).restart, "it does not run");
    assert!(!with_job_in(&row, JobView { suspended: true, ..running(1) }).restart, "it is to stop");
    type Change = fn(&mut GromacsToTune);
    let changes: [(&str, Change); 4] = [
        ("it has the largest configuration", |row| row.status.rung = Some(1)),
        ("nobody has seen it compute", |row| row.status.private.progress_from_time = None),
        ("it is growing already", |row| row.status.private.grown_from = Some(3)),
        ("a minimisation would begin again", |row| {
            let found = [("integrator".to_owned(), "steep".to_owned())].into_iter().collect();
            row.inspected = Some(sqlx::types::Json(found));
        }),
    ];
    for (why, change) in changes {
        let mut other = row.clone();
        change(&mut other);
        assert!(!with_job_in(&other, running(1)).restart, "{why}");
    }
}

#[test]
fn the_log_of_the_job_is_read_where_the_probe_says_nothing() {
    let mut row = submitted();
    row.status.private.verifying = true;
    let logs = |probe: JobView| {
        let details = with_probe_in(&row, probe, Some(completed_job()));
        (details.log, details.job_log)
    };
    assert_eq!(logs(job(Phase::Running, 1)), (None, false));
    assert_eq!(logs(job(Phase::Completed, 1)), (Some(LogToRead::OfProbe), false));
    assert_eq!(logs(failed_job(Reason::ContainerFailed)), (Some(LogToRead::OfProbe), true));
}
